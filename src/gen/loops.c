/* SPDX-License-Identifier: Apache-2.0 */
/* From a kernel to its loops, by strides and levels alone: axes merged and chosen, sweeps, what threads share out. */
#include "src/gen/loops.h"

enum {
  PIECE = 16384, /* columns: enough to make the loop around them free */
  NARROW = 32,   /* columns beyond this many make an axis no better as the inner one */
  SHORT = 256,   /* columns of rows that may be gone over side by side */
  SWEEPS = 64    /* bits of a mask */
};

/* --- levels ------------------------------------------------------------------------------------------------------------- */

static bool is_row_reduction(const KernelValue *v) { return v->kop == K_SUM || v->kop == K_MAXIMUM; }

/* Whether computing it again costs more than reading it back. */
static bool is_expensive(const KernelValue *v) {
  static const bool expensive[OP_COUNT] = {
      [OP_EXP] = true, [OP_EXPM1] = true, [OP_LOG] = true, [OP_SIN] = true, [OP_COS] = true, [OP_TANH] = true, [OP_SIGMOID] = true};
  return v->kop == K_POINTWISE && expensive[v->op];
}

static void mark_used(const Kernel *k, Loops *l) {
  for (int o = 0; o < k->noutputs; o++) l->value[k->outputs[o].value].used = true;
  for (int v = k->nvalues - 1; v >= 0; v--)
    for (int i = 0; i < k->values[v].nin && l->value[v].used; i++) l->value[k->values[v].in[i]].used = true;
}

static Level input_level(const Loops *l, int input) {
  const int64_t *stride = l->stride[input];
  if (stride[l->nouter] && l->columns > 1) return LEVEL_FULL;
  for (int a = 0; a < l->nouter; a++)
    if (stride[a]) return LEVEL_ROW;
  return LEVEL_CONST;
}

static Level iota_level(const Loops *l, int axis) {
  return l->axis[axis] < 0 ? LEVEL_CONST : l->axis[axis] == l->nouter ? LEVEL_FULL : LEVEL_ROW;
}

static void place_value(const Kernel *k, Loops *l, int v) {
  const KernelValue *value = &k->values[v];
  LoopValue *x = &l->value[v];
  for (int i = 0; i < value->nin; i++) {
    const LoopValue *in = &l->value[value->in[i]];
    CHECK(value->in[i] < v && in->level != LEVEL_COLUMN);
    if (in->level > x->level) x->level = in->level;
    if (in->sweep > x->sweep) x->sweep = in->sweep;
  }
  if (value->kop == K_INPUT) x->level = input_level(l, value->input);
  if (value->kop == K_IOTA) x->level = iota_level(l, value->axis);
  if (value->kop == K_COLUMN_SUM) x->level = LEVEL_COLUMN;
  if (is_row_reduction(value)) x->level = LEVEL_ROW, x->sweep++;
}

/* --- sweeps ------------------------------------------------------------------------------------------------------------- */

Write loops_write(const Loops *l, const Kernel *k, int o) {
  const KernelValue *v = &k->values[k->outputs[o].value];
  if (v->kop == K_COLUMN_SUM) return k->values[v->in[0]].level == LEVEL_FULL ? ADD_ELEMENTS : ADD_ROW;
  bool full = l->value[k->outputs[o].value].level == LEVEL_FULL, wide = l->columns > 1;
  bool along = l->pointwise || (l->stride[k->ninputs + o][l->nouter] && wide);
  CHECK(along || !full || !wide);
  return along || full ? WRITE_ELEMENTS : WRITE_ROW;
}

/* The FULL value that output o wants of the last sweep, or -1. */
static int wanted_last(const Kernel *k, const Loops *l, int o) {
  int v = k->outputs[o].value;
  Write write = loops_write(l, k, o);
  return write == WRITE_ELEMENTS ? v : write == ADD_ELEMENTS ? k->values[v].in[0] : -1;
}

static int sweeps_count(const Kernel *k, const Loops *l) {
  int n = 0;
  for (int v = 0; v < k->nvalues; v++)
    if (l->value[v].used && is_row_reduction(&k->values[v]) && l->value[v].sweep > n) n = l->value[v].sweep;
  for (int o = 0; o < k->noutputs; o++) {
    int v = wanted_last(k, l, o);
    if (v >= 0 && l->value[v].sweep + 1 > n) n = l->value[v].sweep + 1;
  }
  CHECK(n <= SWEEPS);
  return n;
}

typedef struct Needs {
  const Kernel *kernel;
  Loops *loops;
  const LoopsKeep *keep;
  size_t kept; /* bytes */
} Needs;

static bool try_keep(Needs *n, int v) {
  const LoopValue *x = &n->loops->value[v];
  const KernelValue *value = &n->kernel->values[v];
  if (!x->computed || !(is_expensive(value) || (n->keep->inputs && value->kop == K_INPUT))) return false;
  if (x->read) return true;
  size_t nbytes = dtype_size(value->dtype) * (size_t)n->loops->columns;
  if (nbytes > n->keep->nbytes - n->kept) return false;
  n->kept += nbytes;
  return true;
}

/* Sweeps come in order, so a value computed already was computed by an earlier one. */
static void need_value(Needs *n, int v, int sweep) {
  LoopValue *x = &n->loops->value[v];
  uint64_t bit = (uint64_t)1 << sweep;
  if (x->level != LEVEL_FULL || ((x->computed | x->read) & bit)) return;
  if (try_keep(n, v)) {
    x->read |= bit;
    return;
  }
  x->computed |= bit;
  for (int i = 0; i < n->kernel->values[v].nin; i++) need_value(n, n->kernel->values[v].in[i], sweep);
}

static void plan_sweeps(const Kernel *k, Loops *l, const LoopsKeep *keep) {
  Needs needs = {k, l, keep, 0};
  l->nsweeps = sweeps_count(k, l);
  for (int s = 0; s < l->nsweeps; s++) {
    for (int v = 0; v < k->nvalues; v++)
      if (l->value[v].used && is_row_reduction(&k->values[v]) && l->value[v].sweep == s + 1)
        need_value(&needs, k->values[v].in[0], s);
    for (int o = 0; o < k->noutputs && s == l->nsweeps - 1; o++)
      if (wanted_last(k, l, o) >= 0) need_value(&needs, wanted_last(k, l, o), s);
  }
}

/* --- axes --------------------------------------------------------------------------------------------------------------- */

/* Axes while they are being arranged: of[] says which domain axes are merged into one. */
typedef struct Axis {
  int64_t dim;
  unsigned of;  /* domain axes, a bit each */
  bool counted; /* an index along it is a value, so it stays as it is */
} Axis;

typedef struct Axes {
  const Kernel *kernel;
  int n, nargs;
  Axis axis[IR_RANK];
  int64_t (*stride)[IR_RANK]; /* of each argument */
} Axes;

static void axes_remove(Axes *x, int a) {
  for (int i = a; i + 1 < x->n; i++) x->axis[i] = x->axis[i + 1];
  for (int g = 0; g < x->nargs; g++)
    for (int i = a; i + 1 < x->n; i++) x->stride[g][i] = x->stride[g][i + 1];
  x->n--;
}

static bool axes_mergeable(const Axes *x, int a) {
  if (x->axis[a].counted || x->axis[a + 1].counted) return false;
  for (int g = 0; g < x->nargs; g++)
    if (x->stride[g][a] != x->stride[g][a + 1] * x->axis[a + 1].dim) return false;
  return true;
}

/* Drops axes of extent 1 and merges neighbours among the first n. */
static void axes_merge(Axes *x, int n) {
  for (int a = n - 1; a >= 0; a--) {
    if (x->axis[a].dim == 1 && x->n > 1) {
      axes_remove(x, a);
      n--;
    } else if (a + 1 < n && axes_mergeable(x, a)) {
      x->axis[a + 1].dim *= x->axis[a].dim;
      x->axis[a + 1].of |= x->axis[a].of;
      axes_remove(x, a);
      n--;
    }
  }
}

/* How good an axis is as the inner loop: accesses that run along it, weighed by how long it is. */
static int64_t axis_score(const Axes *x, int a) {
  int64_t score = 1;
  for (int g = 0; g < x->nargs; g++) score += x->stride[g][a] == 1 ? 2 : x->stride[g][a] == 0;
  return score * (x->axis[a].dim < NARROW ? x->axis[a].dim : NARROW);
}

static void axes_choose_inner(Axes *x) {
  int best = x->n - 1;
  for (int a = x->n - 2; a >= 0; a--)
    if (axis_score(x, a) > axis_score(x, best)) best = a;
  Axis axis = x->axis[best];
  for (int i = best; i + 1 < x->n; i++) x->axis[i] = x->axis[i + 1];
  x->axis[x->n - 1] = axis;
  for (int g = 0; g < x->nargs; g++) {
    int64_t stride = x->stride[g][best];
    for (int i = best; i + 1 < x->n; i++) x->stride[g][i] = x->stride[g][i + 1];
    x->stride[g][x->n - 1] = stride;
  }
}

/* Strides as far as they matter: a ROW or CONST value has none along the columns, an extent of 1 none at all. */
static void axes_strides(const Kernel *k, Axes *x) {
  int last = k->domain.rank - 1;
  for (int g = 0; g < x->nargs; g++) {
    const KernelArg *arg = g < k->ninputs ? &k->inputs[g] : &k->outputs[g - k->ninputs];
    for (int a = 0; a <= last; a++) x->stride[g][a] = k->domain.dim[a] == 1 ? 0 : arg->stride[a];
  }
  for (int v = 0; v < k->nvalues; v++)
    if (k->values[v].kop == K_INPUT && k->values[v].level < LEVEL_FULL) x->stride[k->values[v].input][last] = 0;
}

static void plan_axes(const Kernel *k, Loops *l) {
  Axes x = {k, k->domain.rank, k->ninputs + k->noutputs, {{0}}, l->stride};
  for (int a = 0; a < x.n; a++) x.axis[a] = (Axis){k->domain.dim[a], 1u << a, false};
  for (int v = 0; v < k->nvalues; v++)
    if (k->values[v].kop == K_IOTA) x.axis[k->values[v].axis].counted = true;
  axes_strides(k, &x);
  axes_merge(&x, l->pointwise ? x.n : x.n - 1);
  if (l->pointwise) axes_choose_inner(&x);
  l->nouter = x.n - 1;
  l->columns = x.axis[x.n - 1].dim;
  l->rows = 1;
  for (int a = 0; a < k->domain.rank; a++) l->axis[a] = -1;
  for (int i = 0; i < x.n; i++) {
    l->dim[i] = x.axis[i].dim;
    if (i < l->nouter) l->rows *= l->dim[i];
    for (int a = 0; a < k->domain.rank; a++)
      if ((x.axis[i].of >> a & 1) && k->domain.dim[a] > 1) l->axis[a] = i;
  }
}

/* No reductions, and no output that has one element a row of many columns. */
static bool is_pointwise(const Kernel *k) {
  int last = k->domain.rank - 1;
  for (int v = 0; v < k->nvalues; v++)
    if (is_row_reduction(&k->values[v]) || k->values[v].kop == K_COLUMN_SUM) return false;
  for (int o = 0; o < k->noutputs; o++)
    if (k->domain.dim[last] > 1 && !k->outputs[o].stride[last]) return false;
  return true;
}

/* --- vectors ------------------------------------------------------------------------------------------------------------ */

static bool is_across(const Kernel *k, const Loops *l) {
  if (l->nouter != 1 || l->nsweeps != 1 || l->columns > SHORT) return false;
  for (int o = 0; o < k->noutputs; o++)
    if (loops_write(l, k, o) != WRITE_ROW || l->stride[k->ninputs + o][0] != 1) return false;
  for (int v = 0; v < k->nvalues; v++) {
    if (!l->value[v].used || k->values[v].kop != K_INPUT) continue;
    const int64_t *stride = l->stride[k->values[v].input];
    if (stride[0] > 1 || (l->value[v].level == LEVEL_FULL && stride[1] == 1)) return false;
  }
  return true;
}

/* --- units -------------------------------------------------------------------------------------------------------------- */

static void plan_units(const Kernel *k, Loops *l) {
  l->pieces = 1;
  l->piece = l->columns;
  if (l->pointwise && l->columns >= 2 * PIECE) {
    l->piece = PIECE;
    l->pieces = (l->columns + PIECE - 1) / PIECE;
  }
  l->units = l->rows * l->pieces;
  l->unit_rows = 1;
  int64_t cost = k->ninputs + k->noutputs;
  for (int v = 0; v < k->nvalues; v++) {
    l->column_sums |= k->values[v].kop == K_COLUMN_SUM;
    cost += 8 * is_expensive(&k->values[v]);
  }
  l->work = l->rows * l->columns * cost;
  if (!l->column_sums) return;
  CHECK(k->blocks >= 1);
  l->units = k->blocks;
  l->unit_rows = (l->rows + k->blocks - 1) / k->blocks;
}

Loops *loops_make(Arena *arena, const Kernel *k, const LoopsKeep *keep) {
  CHECK(k->domain.rank >= 1 && shape_size(&k->domain) > 0);
  Loops *l = arena_new(arena, Loops);
  l->stride = arena_alloc(arena, sizeof *l->stride * (size_t)(k->ninputs + k->noutputs));
  l->value = arena_array(arena, LoopValue, k->nvalues);
  l->pointwise = is_pointwise(k);
  plan_axes(k, l);
  mark_used(k, l);
  for (int v = 0; v < k->nvalues; v++) place_value(k, l, v);
  plan_sweeps(k, l, keep);
  l->across = is_across(k, l);
  plan_units(k, l);
  return l;
}
