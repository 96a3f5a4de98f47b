/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of views.  Views of views become one; a slice of a vector is taken after flattening, not before, so that flattened
 * pieces of one tensor that are put side by side again are seen to be that tensor. */
#include "src/ir/simplify.h"

static const Node *input(const Simplify *s, const Node *node, int i) { return graph_node(s->g, node->in[i]); }

static int emit_reshape(Simplify *s, int x, Shape shape) {
  return simplify_emit(s, (Node){.op = OP_RESHAPE, .shape = shape, .nin = 1, .in = &x});
}

static int emit_broadcast(Simplify *s, int x, Shape shape) {
  return simplify_emit(s, (Node){.op = OP_BROADCAST, .shape = shape, .nin = 1, .in = &x});
}

static int emit_slice(Simplify *s, int x, int64_t axis, int64_t lo, int64_t hi) {
  return simplify_emit(s, (Node){.op = OP_SLICE, .n = {axis, lo, hi}, .nin = 1, .in = &x});
}

static int emit_concat(Simplify *s, int *xs, int n, int64_t axis) {
  return n == 1 ? xs[0] : simplify_emit(s, (Node){.op = OP_CONCAT, .n = {axis}, .nin = n, .in = xs});
}

int simplify_view_of_splat(Simplify *s, const Node *node) {
  double f;
  return simplify_is_splat(s, node->in[0], &f) ? simplify_splat(s, node->dtype, f, node->shape) : -1;
}

/* --- runs ------------------------------------------------------------------------------------------------------------- */

/* Elements lo to hi of a node in row-major order. */
typedef struct Run {
  int source;
  int64_t lo, hi;
} Run;

/* Slicing along this axis takes elements that are side by side. */
static bool axis_leads(const Shape *s, int64_t axis) {
  for (int64_t i = 0; i < axis; i++)
    if (s->dim[i] != 1) return false;
  return true;
}

static int64_t extent_after(const Shape *s, int64_t axis) {
  int64_t n = 1;
  for (int64_t i = axis + 1; i < s->rank; i++) n *= s->dim[i];
  return n;
}

static Run run_of(const Simplify *s, int i) {
  Run run = {i, 0, shape_size(&graph_node(s->g, i)->shape)};
  for (;;) {
    const Node *x = graph_node(s->g, run.source);
    bool slice = x->op == OP_SLICE && axis_leads(&x->shape, x->n[0]);
    if (!slice && x->op != OP_RESHAPE) return run;
    int64_t offset = slice ? x->n[1] * extent_after(&x->shape, x->n[0]) : 0;
    run = (Run){x->in[0], run.lo + offset, run.hi + offset};
  }
}

static int emit_run(Simplify *s, Run run, Shape shape) {
  int flat = emit_reshape(s, run.source, SHAPE(shape_size(&graph_node(s->g, run.source)->shape)));
  return emit_reshape(s, emit_slice(s, flat, 0, run.lo, run.hi), shape);
}

/* --- reshape, permute, broadcast -------------------------------------------------------------------------------------- */

/* Whether two shapes differ in extents of 1 only; from[i] is then the axis of b that axis i of a is, -1 for an extent of 1. */
static bool axes_match(const Shape *a, const Shape *b, int from[IR_RANK]) {
  int j = 0;
  for (int i = 0; i < a->rank; i++) {
    from[i] = -1;
    if (a->dim[i] == 1) continue;
    while (j < b->rank && b->dim[j] == 1) j++;
    if (j == b->rank || b->dim[j] != a->dim[i]) return false;
    from[i] = j++;
  }
  return true; /* the sizes are equal, so nothing but ones is left in b */
}

/* Extents of 1 are put in before repeating, not after. */
static int reshape_of_broadcast(Simplify *s, const Node *node) {
  const Node *x = input(s, node, 0);
  int from[IR_RANK], below = x->in[0];
  if (!axes_match(&node->shape, &x->shape, from)) return -1;
  const Shape *narrow = &graph_node(s->g, below)->shape;
  Shape shape = {.rank = node->shape.rank}, wide = node->shape;
  for (int i = 0; i < shape.rank; i++) shape.dim[i] = from[i] < 0 ? 1 : narrow->dim[from[i]];
  return emit_broadcast(s, emit_reshape(s, below, shape), wide);
}

int simplify_reshape(Simplify *s, const Node *node) {
  const Node *x = input(s, node, 0);
  if (shape_equal(&x->shape, &node->shape)) return node->in[0];
  if (x->op == OP_RESHAPE) return emit_reshape(s, x->in[0], node->shape);
  if (x->op == OP_BROADCAST) return reshape_of_broadcast(s, node);
  if (node->shape.rank != 1 || x->op != OP_SLICE || !axis_leads(&x->shape, x->n[0])) return -1;
  int64_t after = extent_after(&x->shape, x->n[0]), lo = x->n[1] * after, hi = x->n[2] * after;
  int64_t whole = shape_size(&input(s, x, 0)->shape);
  return emit_slice(s, emit_reshape(s, x->in[0], SHAPE(whole)), 0, lo, hi);
}

/* The axes longer than 1 keep their order. */
static bool is_reshape(const Node *node) {
  int64_t last = -1;
  for (int i = 0; i < node->shape.rank; i++) {
    if (node->shape.dim[i] == 1) continue;
    if (node->n[i] < last) return false;
    last = node->n[i];
  }
  return true;
}

int simplify_permute(Simplify *s, const Node *node) {
  const Node *x = input(s, node, 0);
  if (is_reshape(node)) return emit_reshape(s, node->in[0], node->shape);
  if (x->op != OP_PERMUTE) return -1;
  Node one = *node;
  for (int i = 0; i < node->shape.rank; i++) one.n[i] = x->n[node->n[i]];
  one.in = x->in;
  return simplify_emit(s, one);
}

int simplify_broadcast(Simplify *s, const Node *node) {
  const Node *x = input(s, node, 0);
  if (shape_equal(&x->shape, &node->shape)) return node->in[0];
  return x->op == OP_BROADCAST ? emit_broadcast(s, x->in[0], node->shape) : -1;
}

/* --- slice, concat ---------------------------------------------------------------------------------------------------- */

/* Slices along several axes: that along the first axis is innermost. */
static int slice_of_slice(Simplify *s, const Node *node) {
  const Node x = *input(s, node, 0);
  if (x.n[0] == node->n[0]) return emit_slice(s, x.in[0], x.n[0], x.n[1] + node->n[1], x.n[1] + node->n[2]);
  if (x.n[0] < node->n[0]) return -1;
  return emit_slice(s, emit_slice(s, x.in[0], node->n[0], node->n[1], node->n[2]), x.n[0], x.n[1], x.n[2]);
}

/* Part of one input, or some inputs whole. */
static int slice_of_concat(Simplify *s, const Node *node) {
  const Node *x = input(s, node, 0);
  int64_t axis = node->n[0], lo = node->n[1], hi = node->n[2], at = 0;
  int first = -1;
  if (x->n[0] != axis) return -1;
  for (int i = 0; i < x->nin; i++) {
    int64_t end = at + input(s, x, i)->shape.dim[axis];
    if (lo >= at && hi <= end) return emit_slice(s, x->in[i], axis, lo - at, hi - at);
    if (lo == at) first = i;
    if (hi == end && first >= 0) return emit_concat(s, x->in + first, i + 1 - first, axis);
    at = end;
  }
  return -1;
}

int simplify_slice(Simplify *s, const Node *node) {
  const Node *x = input(s, node, 0);
  if (shape_equal(&x->shape, &node->shape)) return node->in[0];
  if (x->op == OP_SLICE) return slice_of_slice(s, node);
  if (x->op == OP_CONCAT) return slice_of_concat(s, node);
  if (x->op == OP_BROADCAST && input(s, x, 0)->shape.dim[node->n[0]] == 1) return emit_broadcast(s, x->in[0], node->shape);
  return -1;
}

/* One node for two that lie side by side along the axis, or -1. */
static int join(Simplify *s, int64_t axis, int a, int b) {
  const Node *x = graph_node(s->g, a), *y = graph_node(s->g, b);
  double f, g;
  Shape shape = x->shape;
  shape.dim[axis] += y->shape.dim[axis];
  if (x->op == OP_SLICE && y->op == OP_SLICE && x->in[0] == y->in[0] && x->n[0] == axis && y->n[0] == axis && x->n[2] == y->n[1])
    return emit_slice(s, x->in[0], axis, x->n[1], y->n[2]);
  if (simplify_is_splat(s, a, &f) && simplify_is_splat(s, b, &g) && !memcmp(&f, &g, sizeof f))
    return simplify_splat(s, x->dtype, f, shape);
  if (!axis_leads(&shape, axis)) return -1;
  Run one = run_of(s, a), two = run_of(s, b);
  return one.source == two.source && one.hi == two.lo ? emit_run(s, (Run){one.source, one.lo, two.hi}, shape) : -1;
}

int simplify_concat(Simplify *s, const Node *node) {
  VEC(int) flat = {0};
  int64_t axis = node->n[0];
  for (int i = 0; i < node->nin; i++) {
    const Node x = *input(s, node, i);
    bool nested = x.op == OP_CONCAT && x.n[0] == axis;
    for (int k = 0; k < (nested ? x.nin : 1); k++) {
      int piece = nested ? x.in[k] : node->in[i], joined = flat.n ? join(s, axis, flat.at[flat.n - 1], piece) : -1;
      if (joined >= 0) flat.at[flat.n - 1] = joined;
      if (joined < 0) vec_push(s->g->arena, &flat, piece);
    }
  }
  bool changed = flat.n != node->nin;
  for (int i = 0; i < flat.n && !changed; i++) changed = flat.at[i] != node->in[i];
  return changed || flat.n == 1 ? emit_concat(s, flat.at, flat.n, axis) : -1;
}
