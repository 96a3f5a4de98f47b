/* SPDX-License-Identifier: Apache-2.0 */
/* Each value carries an interval and a bound of the error that float arithmetic may leave in it, so that the tolerance of an
 * output follows from how it is computed.  "grid" values are multiples of a quarter that floats hold exactly: what jumps
 * (comparisons, casts to integers) is made of them alone.  A cast to 16 bits of a grid value must be exact; of others it may
 * fall on either side of a tie. */
#include "test/unit/random_kernel.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "src/base/rng.h"

typedef struct Range {
  double lo, hi, error;
  bool grid;
} Range;

typedef struct Maker {
  KernelCase *c;
  Kernel *k;
  Rng rng;
  uint64_t drawn;
  Range *range; /* of each value */
  int64_t rows, columns;
} Maker;

enum { VALUES = 40, ARGS = 12, MOST_ELEMENTS = 24000 };
static const double U = 1.2e-7, LARGEST = 1e5;

/* --- drawing ------------------------------------------------------------------------------------------------------------ */

static int64_t draw(Maker *m, int64_t n) {
  uint32_t words[4];
  rng_words(&m->rng, m->drawn++, words);
  return (int64_t)(words[0] % (uint64_t)n);
}

static bool chance(Maker *m, int one_in) { return draw(m, one_in) == 0; }

static double bound(const Range *r) { return fmax(fabs(r->lo), fabs(r->hi)); }

static void draw_domain(Maker *m) {
  static const int64_t columns[] = {1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 64, 100, 129, 257, 1000};
  static const int64_t outer[] = {1, 1, 2, 3, 4, 5, 7, 8, 13, 40};
  Shape *s = &m->k->domain;
  *s = (Shape){(int)draw(m, IR_RANK) + 1, {1, 1, 1, 1, 1}};
  m->columns = columns[draw(m, sizeof columns / sizeof *columns)];
  if (chance(m, 12)) m->columns = 4097 + draw(m, 5000);
  if (chance(m, 12)) m->columns = 32768 + draw(m, 9000);
  m->rows = 1;
  for (int a = 0; a + 1 < s->rank; a++) {
    s->dim[a] = outer[draw(m, sizeof outer / sizeof *outer)];
    if (m->rows * s->dim[a] * m->columns > MOST_ELEMENTS) s->dim[a] = 1;
    m->rows *= s->dim[a];
  }
  if (s->rank > 1 && chance(m, 5)) { /* two axes of some length: either may be the one that memory runs along */
    m->columns = 16 + draw(m, 60);
    m->rows = s->dim[s->rank - 2] = 16 + draw(m, 60);
    for (int a = 0; a + 2 < s->rank; a++) m->rows *= s->dim[a] = 1 + draw(m, 2);
  }
  s->dim[s->rank - 1] = m->columns;
  m->k->blocks = (int)(1 + draw(m, m->rows < 6 ? m->rows : 6));
}

/* --- accesses ----------------------------------------------------------------------------------------------------------- */

/* Strides of an array that holds the axes of `kept` in some order, with gaps perhaps; 0 along the others.  Returns how many
 * elements it spans. */
static int64_t draw_strides(Maker *m, KernelArg *arg, unsigned kept) {
  const Shape *s = &m->k->domain;
  int order[IR_RANK];
  for (int a = 0; a < s->rank; a++) order[a] = a;
  for (int a = 0; a < s->rank && chance(m, 2); a++) {
    int b = (int)draw(m, s->rank), t = order[a];
    order[a] = order[b];
    order[b] = t;
  }
  int64_t stride = chance(m, 4) ? 2 : 1, span = 1;
  for (int i = s->rank - 1; i >= 0; i--) {
    int a = order[i];
    arg->stride[a] = kept >> a & 1 ? stride : 0;
    if (!arg->stride[a]) continue;
    span += stride * (s->dim[a] - 1);
    stride *= s->dim[a] + (chance(m, 3) ? 1 : 0);
    if (s->dim[a] == 1) arg->stride[a] = draw(m, 50); /* never taken */
  }
  return span;
}

/* Room for an argument of so many elements, starting at no special address. */
static void place_arg(Maker *m, int arg, DType dtype, int64_t span) {
  size_t size = dtype_size(dtype);
  m->c->at[arg] = m->c->nbytes + size * (size_t)draw(m, 4);
  m->c->nbytes = (m->c->at[arg] + size * (size_t)span + 127) / 64 * 64;
}

static int push(Maker *m, KernelValue v, Range r) {
  CHECK(m->k->nvalues < VALUES);
  m->k->values[m->k->nvalues] = v;
  m->range[m->k->nvalues] = r;
  return m->k->nvalues++;
}

static void make_input(Maker *m) {
  static const DType types[] = {DT_F32, DT_F32, DT_F32, DT_BF16, DT_BF16, DT_F16, DT_I32, DT_I64, DT_PRED};
  static const Range ranges[] = {{-2, 2, 0, true}, {0.5, 3, 0, true}, {-9, 9, 0, true}};
  int last = m->k->domain.rank - 1, i = m->k->ninputs++;
  DType dtype = types[draw(m, sizeof types / sizeof *types)];
  Level level = chance(m, 3) ? LEVEL_ROW : chance(m, 10) ? LEVEL_CONST : LEVEL_FULL;
  unsigned kept = level == LEVEL_CONST ? 0 : (1u << (last + 1)) - 1;
  if (level == LEVEL_ROW) kept &= ~(1u << last);
  if (chance(m, 3)) kept &= (unsigned)draw(m, 32); /* repeated along some axes */
  KernelArg *arg = &m->k->inputs[i];
  arg->dtype = dtype;
  place_arg(m, i, dtype, draw_strides(m, arg, kept));
  if (level == LEVEL_ROW) arg->stride[last] = 0;
  Range r = dtype == DT_PRED ? (Range){0, 1, 0, true} : ranges[draw(m, 3)];
  push(m, (KernelValue){.kop = K_INPUT, .dtype = dtype, .level = level, .input = i}, r);
}

static void make_const(Maker *m) {
  static const DType types[] = {DT_F32, DT_F32, DT_F32, DT_BF16, DT_F16, DT_I32, DT_I64, DT_PRED};
  DType dtype = types[draw(m, sizeof types / sizeof *types)];
  double f = dtype == DT_PRED ? (double)draw(m, 2) : (double)draw(m, 9) - 4;
  if (dtype_is_float(dtype) && chance(m, 2)) f += 0.25;
  push(m, (KernelValue){.kop = K_CONST, .dtype = dtype, .f = f}, (Range){f, f, 0, true});
}

static void make_iota(Maker *m) {
  const Shape *s = &m->k->domain;
  int axis = (int)draw(m, s->rank);
  Level level = axis < s->rank - 1 && chance(m, 2) ? LEVEL_ROW : LEVEL_FULL;
  push(m, (KernelValue){.kop = K_IOTA, .dtype = chance(m, 2) ? DT_I32 : DT_I64, .level = level, .axis = axis},
       (Range){0, (double)s->dim[axis] - 1, 0, true});
}

/* --- pointwise ---------------------------------------------------------------------------------------------------------- */

typedef double Eval(double a, double b, double c);
static double e_copy(double a, double b, double c) { return (void)b, (void)c, a; }
static double e_neg(double a, double b, double c) { return (void)b, (void)c, -a; }
static double e_exp(double a, double b, double c) { return (void)b, (void)c, exp(a); }
static double e_expm1(double a, double b, double c) { return (void)b, (void)c, expm1(a); }
static double e_log(double a, double b, double c) { return (void)b, (void)c, log(a); }
static double e_sqrt(double a, double b, double c) { return (void)b, (void)c, sqrt(a); }
static double e_rsqrt(double a, double b, double c) { return (void)b, (void)c, 1 / sqrt(a); }
static double e_sin(double a, double b, double c) { return (void)b, (void)c, sin(a); }
static double e_cos(double a, double b, double c) { return (void)b, (void)c, cos(a); }
static double e_tanh(double a, double b, double c) { return (void)b, (void)c, tanh(a); }
static double e_sigmoid(double a, double b, double c) { return (void)b, (void)c, 1 / (1 + exp(-a)); }
static double e_finite(double a, double b, double c) { return (void)b, (void)c, isfinite(a) != 0; }
static double e_add(double a, double b, double c) { return (void)c, a + b; }
static double e_sub(double a, double b, double c) { return (void)c, a - b; }
static double e_mul(double a, double b, double c) { return (void)c, a * b; }
static double e_div(double a, double b, double c) { return (void)c, a / b; }
static double e_max(double a, double b, double c) { return (void)c, a > b ? a : b; }
static double e_min(double a, double b, double c) { return (void)c, a < b ? a : b; }
static double e_lt(double a, double b, double c) { return (void)c, a < b; }
static double e_le(double a, double b, double c) { return (void)c, a <= b; }
static double e_eq(double a, double b, double c) { return (void)c, a == b; }
static double e_and(double a, double b, double c) { return (void)c, a != 0 && b != 0; }
static double e_select(double a, double b, double c) { return a != 0 ? b : c; }
static double e_fma(double a, double b, double c) { return a * b + c; }

/* What an op does to intervals, by kind; slope: the largest derivative, as a function of the interval. */
typedef enum Kind { MONOTONE, BOUNDED, SUM, PRODUCT, QUOTIENT, EITHER, TRUTH, CHOICE, MULTIPLY_ADD, CONVERSION } Kind;

typedef struct OpSpec {
  Op op;
  Kind kind;
  Eval *eval;
  bool real;     /* of floats only */
  double lo, hi; /* of the argument, MONOTONE and BOUNDED */
} OpSpec;

static const OpSpec specs[] = {
    {OP_COPY, MONOTONE, e_copy, false, -1e5, 1e5},
    {OP_STOP, MONOTONE, e_copy, false, -1e5, 1e5},
    {OP_NEG, MONOTONE, e_neg, false, -1e5, 1e5},
    {OP_EXP, MONOTONE, e_exp, true, -20, 6},
    {OP_EXPM1, MONOTONE, e_expm1, true, -20, 6},
    {OP_LOG, MONOTONE, e_log, true, 0.2, 1e5},
    {OP_SQRT, MONOTONE, e_sqrt, true, 0.2, 1e5},
    {OP_RSQRT, MONOTONE, e_rsqrt, true, 0.2, 1e5},
    {OP_SIN, BOUNDED, e_sin, true, -50, 50},
    {OP_COS, BOUNDED, e_cos, true, -50, 50},
    {OP_TANH, MONOTONE, e_tanh, true, -1e5, 1e5},
    {OP_SIGMOID, MONOTONE, e_sigmoid, true, -1e5, 1e5},
    {OP_FINITE, TRUTH, e_finite, true, 0, 0},
    {OP_ADD, SUM, e_add, false, 0, 0},
    {OP_SUB, SUM, e_sub, false, 0, 0},
    {OP_MUL, PRODUCT, e_mul, false, 0, 0},
    {OP_DIV, QUOTIENT, e_div, true, 0, 0},
    {OP_MAX, EITHER, e_max, false, 0, 0},
    {OP_MIN, EITHER, e_min, false, 0, 0},
    {OP_LT, TRUTH, e_lt, false, 0, 0},
    {OP_LE, TRUTH, e_le, false, 0, 0},
    {OP_EQ, TRUTH, e_eq, false, 0, 0},
    {OP_AND, TRUTH, e_and, false, 0, 0},
    {OP_SELECT, CHOICE, e_select, false, 0, 0},
    {OP_FMA, MULTIPLY_ADD, e_fma, true, 0, 0},
    {OP_CAST, CONVERSION, e_copy, false, 0, 0},
};
enum { SPECS = sizeof specs / sizeof *specs };

/* The largest slope of a MONOTONE or BOUNDED op on the interval. */
static double slope(Op op, const Range *a) {
  return op == OP_EXP || op == OP_EXPM1 ? exp(a->hi)
         : op == OP_LOG                 ? 1 / a->lo
         : op == OP_SQRT                ? 0.5 / sqrt(a->lo)
         : op == OP_RSQRT               ? 0.5 / (a->lo * sqrt(a->lo))
                                        : 1;
}

static Range range_monotone(const OpSpec *s, const Range *a) {
  double x = s->eval(a->lo, 0, 0), y = s->eval(a->hi, 0, 0);
  Range r = {fmin(x, y), fmax(x, y), 0, !s->real && a->grid};
  if (s->kind == BOUNDED) r.lo = -1, r.hi = 1;
  if (!r.grid) r.error = a->error * slope(s->op, a) + 3 * U * fmax(bound(&r), s->op == OP_LOG ? 1 : 0);
  return r;
}

static Range range_product(const Range *a, const Range *b) {
  double p[] = {a->lo * b->lo, a->lo * b->hi, a->hi * b->lo, a->hi * b->hi};
  Range r = {fmin(fmin(p[0], p[1]), fmin(p[2], p[3])), fmax(fmax(p[0], p[1]), fmax(p[2], p[3])), 0, false};
  r.error = a->error * bound(b) + b->error * bound(a) + U * bound(&r);
  return r;
}

static Range range_sum(const Range *a, const Range *b, Op op) {
  Range r = {op == OP_SUB ? a->lo - b->hi : a->lo + b->lo, op == OP_SUB ? a->hi - b->lo : a->hi + b->hi, 0, false};
  r.grid = a->grid && b->grid;
  if (!r.grid) r.error = a->error + b->error + U * bound(&r);
  return r;
}

static Range range_union(const Range *a, const Range *b) {
  return (Range){fmin(a->lo, b->lo), fmax(a->hi, b->hi), fmax(a->error, b->error), a->grid && b->grid};
}

/* Of a cast to a float of any size; false: it may become infinite. */
static bool try_round(DType dtype, const Range *a, Range *r) {
  *r = *a;
  if (dtype == DT_F32) return true;
  if (bound(a) > 6e4) return false;
  r->lo = dtype_round(dtype, (float)a->lo);
  r->hi = dtype_round(dtype, (float)a->hi);
  if (!a->grid) r->error += dtype == DT_BF16 ? 0x1p-7 * bound(a) : 0x1p-10 * bound(a) + 0x1p-24;
  return true;
}

/* Whether the op may be applied to values v->in, and then the result's type and range. */
static bool try_op(const Maker *m, const OpSpec *s, KernelValue *v, Range *r) {
  const Range *in[3];
  DType type[3];
  for (int i = 0; i < v->nin; i++) in[i] = &m->range[v->in[i]], type[i] = m->k->values[v->in[i]].dtype;
  bool real = type[0] == DT_F32, truth = type[0] == DT_PRED, number = real || (!truth && !dtype_is_float(type[0]));
  if (s->real && !real) return false;
  v->dtype = type[0];
  switch (s->kind) {
  case MONOTONE:
  case BOUNDED:
    if (in[0]->lo < s->lo || in[0]->hi > s->hi || (s->op == OP_NEG && !number)) return false;
    *r = range_monotone(s, in[0]);
    return true;
  case SUM:
    *r = range_sum(in[0], in[1], s->op);
    return number && type[0] == type[1];
  case PRODUCT:
    *r = range_product(in[0], in[1]);
    if (!real) r->grid = true, r->error = 0;
    return number && type[0] == type[1];
  case QUOTIENT:
    if (type[1] != DT_F32 || !(in[1]->lo > 0.2 || in[1]->hi < -0.2)) return false;
    *r = range_product(
        in[0], &(Range){1 / in[1]->hi, 1 / in[1]->lo, in[1]->error / fmin(in[1]->lo * in[1]->lo, in[1]->hi * in[1]->hi), false});
    return true;
  case EITHER:
    *r = range_union(in[0], in[1]);
    return number && type[0] == type[1];
  case TRUTH:
    *r = (Range){0, 1, 0, true};
    v->dtype = DT_PRED;
    if (s->op == OP_FINITE) return true;
    return type[0] == type[1] && (s->op == OP_AND ? truth : number) && in[0]->grid && in[1]->grid;
  case CHOICE:
    *r = range_union(in[1], in[2]);
    v->dtype = type[1];
    return truth && type[1] == type[2];
  case MULTIPLY_ADD:
    *r = range_product(in[0], in[1]);
    *r = range_sum(r, in[2], OP_ADD);
    return type[1] == DT_F32 && type[2] == DT_F32;
  default: /* CONVERSION: v->dtype has been drawn by the caller, kept in axis */
    v->dtype = (DType)v->axis;
    v->axis = 0;
    if (dtype_is_float(v->dtype)) return try_round(v->dtype, in[0], r);
    *r = *in[0];
    if (v->dtype == DT_PRED) r->lo = 0, r->hi = 1;
    return in[0]->grid;
  }
}

static void finish_value(Maker *m, KernelValue v, Range r, bool *made) {
  double most = dtype_is_float(v.dtype) ? LARGEST : 1e6;
  *made = bound(&r) <= most && r.error <= 1e-2 * fmax(1, bound(&r));
  if (!*made) return;
  if (bound(&r) > 1e5) r.grid = r.grid && !dtype_is_float(v.dtype);
  for (int i = 0; i < v.nin && v.kop == K_POINTWISE; i++)
    if (m->k->values[v.in[i]].level > v.level) v.level = m->k->values[v.in[i]].level;
  if (v.kop == K_POINTWISE && v.level < LEVEL_FULL && chance(m, 8)) v.level = LEVEL_FULL;
  push(m, v, r);
}

static bool readable(const Maker *m, int v) { return m->k->values[v].level != LEVEL_COLUMN; }

static int draw_value(Maker *m) {
  for (;;) {
    int64_t n = m->k->nvalues, v = chance(m, 2) ? draw(m, n) : n - 1 - draw(m, n < 6 ? n : 6);
    if (readable(m, (int)v)) return (int)v;
  }
}

static void make_pointwise(Maker *m) {
  static const int arity[] = {[MONOTONE] = 1, [BOUNDED] = 1, [SUM] = 2,    [PRODUCT] = 2,      [QUOTIENT] = 2,
                              [EITHER] = 2,   [TRUTH] = 2,   [CHOICE] = 3, [MULTIPLY_ADD] = 3, [CONVERSION] = 1};
  bool made = false;
  for (int tries = 0; !made && tries < 300; tries++) {
    const OpSpec *s = &specs[draw(m, SPECS)];
    KernelValue v = {.kop = K_POINTWISE, .op = s->op, .nin = s->op == OP_FINITE ? 1 : arity[s->kind]};
    for (int i = 0; i < v.nin; i++) v.in[i] = draw_value(m);
    if (s->kind == CONVERSION) v.axis = (int)draw(m, DT_COUNT);
    Range r;
    if (try_op(m, s, &v, &r)) finish_value(m, v, r, &made);
  }
}

/* --- reductions --------------------------------------------------------------------------------------------------------- */

static Range range_reduced(const Range *a, int64_t n) {
  Range r = {a->lo * (double)n, a->hi * (double)n, 0, a->grid};
  if (bound(&r) > LARGEST) r.grid = false;
  if (!r.grid) r.error = (double)n * a->error + 64 * U * bound(&r);
  return r;
}

static void make_reduction(Maker *m, KernelOp kop) {
  bool made = false;
  for (int tries = 0; !made && tries < 50; tries++) {
    int x = draw_value(m);
    const KernelValue *in = &m->k->values[x];
    bool number = in->dtype == DT_F32 || in->dtype == DT_I32 || in->dtype == DT_I64;
    if (!number || (in->level != LEVEL_FULL && !(kop == K_COLUMN_SUM && in->level == LEVEL_ROW))) continue;
    KernelValue v = {.kop = kop, .dtype = in->dtype, .level = kop == K_COLUMN_SUM ? LEVEL_COLUMN : LEVEL_ROW, .in = {x}, .nin = 1};
    Range r = kop == K_MAXIMUM ? m->range[x] : range_reduced(&m->range[x], kop == K_SUM ? m->columns : m->rows);
    finish_value(m, v, r, &made);
  }
}

/* --- outputs ------------------------------------------------------------------------------------------------------------ */

/* An input that the output may lie over: one element of it for each of the output's. */
static int draw_overlay(Maker *m, const KernelValue *v, unsigned kept, const bool *taken) {
  for (int i = 0; i < m->k->nvalues; i++) {
    const KernelValue *x = &m->k->values[i];
    if (x->kop != K_INPUT || x->dtype != v->dtype || x->level != v->level || taken[x->input]) continue;
    bool whole = true;
    for (int a = 0; a < m->k->domain.rank; a++)
      whole &= !(kept >> a & 1) || m->k->domain.dim[a] == 1 || m->k->inputs[x->input].stride[a];
    if (whole && chance(m, 2)) return x->input;
  }
  return -1;
}

/* Of what a COLUMN output holds a block: (blocks, 1) when the value summed is a ROW. */
static int64_t partial_width(const Kernel *k, int value) {
  return k->values[k->values[value].in[0]].level == LEVEL_FULL ? k->domain.dim[k->domain.rank - 1] : 1;
}

static void make_output(Maker *m, int value, bool *taken) {
  const KernelValue *v = &m->k->values[value];
  int o = m->k->noutputs++, arg = m->k->ninputs + o, last = m->k->domain.rank - 1;
  KernelArg *out = &m->k->outputs[o];
  *out = (KernelArg){v->dtype, {0}, value};
  if (v->level == LEVEL_COLUMN) {
    place_arg(m, arg, v->dtype, m->k->blocks * partial_width(m->k, value));
    return;
  }
  unsigned kept = (1u << (last + 1)) - 1;
  if (v->level == LEVEL_ROW) kept &= ~(1u << last);
  int over = draw_overlay(m, v, kept, taken);
  if (over >= 0) {
    taken[over] = true;
    memcpy(out->stride, m->k->inputs[over].stride, sizeof out->stride);
    m->c->at[arg] = m->c->at[over];
    return;
  }
  place_arg(m, arg, v->dtype, draw_strides(m, out, kept));
  if (v->level == LEVEL_ROW) out->stride[last] = 0;
}

static void make_outputs(Maker *m) {
  bool taken[ARGS] = {false};
  for (int v = 0; v < m->k->nvalues; v++)
    if (m->k->values[v].level == LEVEL_COLUMN) make_output(m, v, taken);
  for (int v = m->k->nvalues - 1; v >= 0 && m->k->noutputs < 5; v--) {
    Level level = m->k->values[v].level;
    if ((level == LEVEL_FULL || level == LEVEL_ROW) && !chance(m, 3)) make_output(m, v, taken);
  }
  if (m->k->noutputs) return;
  KernelValue copy = {.kop = K_POINTWISE, .op = OP_COPY, .dtype = m->k->values[0].dtype, .level = LEVEL_FULL, .in = {0}, .nin = 1};
  make_output(m, push(m, copy, m->range[0]), taken);
}

/* --- data --------------------------------------------------------------------------------------------------------------- */

/* Bytes from an access's start to the element of (row, column). */
static size_t element_offset(const Kernel *k, const KernelArg *arg, int64_t row, int64_t column) {
  int last = k->domain.rank - 1;
  int64_t offset = column * arg->stride[last];
  for (int a = last - 1; a >= 0; a--) {
    offset += row % k->domain.dim[a] * arg->stride[a];
    row /= k->domain.dim[a];
  }
  return (size_t)offset * dtype_size(arg->dtype);
}

static void fill_memory(Maker *m) {
  KernelCase *c = m->c;
  c->memory = arena_alloc(c->arena, c->nbytes);
  for (size_t i = 0; i < c->nbytes; i++) c->memory[i] = (char)(0x40 + i % 7);
  for (int v = 0; v < m->k->nvalues; v++) {
    const KernelValue *x = &m->k->values[v];
    if (x->kop != K_INPUT) continue;
    const KernelArg *arg = &m->k->inputs[x->input];
    const Range *r = &m->range[v];
    for (int64_t i = 0; i < m->rows; i++)
      for (int64_t j = 0; j < m->columns; j++) {
        double f = r->lo + 0.25 * (double)draw(m, (int64_t)((r->hi - r->lo) * 4) + 1);
        if (!dtype_is_float(x->dtype)) f = floor(f) < r->lo ? ceil(f) : floor(f);
        dtype_store(x->dtype, c->memory + c->at[x->input] + element_offset(m->k, arg, i, j), 0, f);
      }
  }
}

KernelCase *kernel_random(Arena *arena, uint64_t seed) {
  KernelCase *c = arena_new(arena, KernelCase);
  Kernel *k = arena_new(arena, Kernel);
  *c = (KernelCase){.arena = arena, .kernel = k, .nbytes = 64, .at = arena_array(arena, size_t, 2 * ARGS)};
  *k = (Kernel){.values = arena_array(arena, KernelValue, VALUES),
                .inputs = arena_array(arena, KernelArg, ARGS),
                .outputs = arena_array(arena, KernelArg, ARGS),
                .comment = "random */ values\nto compute"};
  Maker m = {.c = c, .k = k, .rng = rng_make(seed, RNG_TEST, "kernel", 0), .range = arena_array(arena, Range, VALUES)};
  draw_domain(&m);
  bool reduces = !chance(&m, 3);
  for (int64_t n = 2 + draw(&m, 4); n > 0; n--) make_input(&m);
  for (int64_t n = draw(&m, 3); n > 0; n--) make_const(&m);
  if (chance(&m, 2)) make_iota(&m);
  for (int64_t n = 3 + draw(&m, 16); n > 0; n--) {
    if (reduces && chance(&m, 5))
      make_reduction(&m, chance(&m, 3) ? K_COLUMN_SUM : chance(&m, 2) ? K_MAXIMUM : K_SUM);
    else
      make_pointwise(&m);
  }
  make_outputs(&m);
  fill_memory(&m);
  c->error = arena_array(arena, double, k->nvalues);
  for (int v = 0; v < k->nvalues; v++) c->error[v] = m.range[v].error;
  return c;
}

/* --- evaluation --------------------------------------------------------------------------------------------------------- */

static Eval *op_eval(Op op) {
  for (int i = 0; i < SPECS; i++)
    if (specs[i].op == op) return specs[i].eval;
  CHECK(!"an op without a row");
  return NULL;
}

static double evaluate_element(const KernelCase *c, double *const *value, int v, int64_t row, int64_t column, int64_t columns) {
  const Kernel *k = c->kernel;
  const KernelValue *x = &k->values[v];
  double in[3] = {0};
  for (int i = 0; i < x->nin; i++) in[i] = value[x->in[i]][row * columns + column];
  if (x->kop == K_CONST) return x->f;
  if (x->kop == K_INPUT) {
    const KernelArg *arg = &k->inputs[x->input];
    return dtype_load(x->dtype, c->memory + c->at[x->input] + element_offset(k, arg, row, column), 0);
  }
  if (x->kop == K_IOTA) { /* as a read of an array that holds the index */
    int64_t index = column;
    for (int a = k->domain.rank - 1; a > x->axis; a--) {
      index = row % k->domain.dim[a - 1];
      row /= k->domain.dim[a - 1];
    }
    return (double)index;
  }
  double f = op_eval(x->op)(in[0], in[1], in[2]);
  if (x->op == OP_CAST && x->dtype == DT_PRED) return f != 0;
  if (x->op != OP_CAST || x->dtype == DT_F32) return f;
  return dtype_is_float(x->dtype) ? dtype_round(x->dtype, (float)f) : trunc(f);
}

static void evaluate_reduction(const KernelValue *x, const double *in, double *out, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; i++) {
    double sum = 0, most = -INFINITY;
    for (int64_t j = 0; j < columns; j++) {
      sum += in[i * columns + j];
      most = fmax(most, in[i * columns + j]);
    }
    for (int64_t j = 0; j < columns; j++) out[i * columns + j] = x->kop == K_SUM ? sum : most;
  }
}

double **kernel_evaluate(const KernelCase *c) {
  const Kernel *k = c->kernel;
  int64_t columns = k->domain.dim[k->domain.rank - 1], rows = shape_size(&k->domain) / columns;
  int64_t block = (rows + k->blocks - 1) / k->blocks;
  double **value = arena_array(c->arena, double *, k->nvalues);
  for (int v = 0; v < k->nvalues; v++) {
    const KernelValue *x = &k->values[v];
    value[v] = arena_array(c->arena, double, (rows > k->blocks ? rows : k->blocks) * columns);
    if (x->kop == K_SUM || x->kop == K_MAXIMUM) {
      evaluate_reduction(x, value[x->in[0]], value[v], rows, columns);
      continue;
    }
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < columns; j++) {
        if (x->kop == K_COLUMN_SUM)
          value[v][i / block * columns + j] += value[x->in[0]][i * columns + j];
        else
          value[v][i * columns + j] = evaluate_element(c, value, v, i, j, columns);
      }
  }
  return value;
}

/* --- comparison --------------------------------------------------------------------------------------------------------- */

const char *kernel_compare(const KernelCase *c, const void *memory) {
  static char wrong[256];
  const Kernel *k = c->kernel;
  int64_t columns = k->domain.dim[k->domain.rank - 1], rows = shape_size(&k->domain) / columns;
  double **value = kernel_evaluate(c);
  bool *covered = arena_array(c->arena, bool, c->nbytes);
  for (int o = 0; o < k->noutputs; o++) {
    KernelArg arg = k->outputs[o];
    int v = arg.value;
    bool column = k->values[v].level == LEVEL_COLUMN;
    int64_t width = column ? partial_width(k, v) : columns;
    size_t size = dtype_size(arg.dtype);
    for (int64_t i = 0; i < (column ? k->blocks : rows); i++)
      for (int64_t j = 0; j < width; j++) {
        size_t at = c->at[k->ninputs + o] + (column ? size * (size_t)(i * width + j) : element_offset(k, &arg, i, j));
        double is = dtype_load(arg.dtype, (const char *)memory + at, 0), due = value[v][i * columns + j];
        memset(covered + at, true, size);
        if (fabs(is - due) <= 4 * c->error[v]) continue;
        snprintf(wrong, sizeof wrong, "output %d (value %d) at row %lld, column %lld: %.9g, not %.9g", o, v, (long long)i,
                 (long long)j, is, due);
        return wrong;
      }
  }
  for (size_t i = 0; i < c->nbytes; i++) {
    if (covered[i] || c->memory[i] == ((const char *)memory)[i]) continue;
    snprintf(wrong, sizeof wrong, "byte %zu was written and is no output's", i);
    return wrong;
  }
  return "";
}
