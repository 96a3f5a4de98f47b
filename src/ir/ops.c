/* SPDX-License-Identifier: Apache-2.0 */
/* The op table: what each op is called, takes and gives.  A new op is a row here, a rule in diff.c, an evaluation in
 * interp.c and, unless it is a big op, a line in src/gen. */
#include <string.h>

#include "src/ir/ir.h"

static const Node *in(const Graph *g, const Node *node, int i) { return graph_node(g, node->in[i]); }

static bool like_first(const Graph *g, Node *node, Why *why) {
  (void)why;
  node->shape = in(g, node, 0)->shape;
  node->dtype = in(g, node, 0)->dtype;
  return true;
}

static bool infer_const(const Graph *g, Node *node, Why *why) {
  (void)g, (void)why;
  node->shape = shape_scalar();
  return true;
}

static bool infer_table(const Graph *g, Node *node, Why *why) {
  (void)g;
  if (!node->table || node->n[0] < 1) return why_not(why, "a table needs at least one value");
  node->dtype = DT_F32;
  node->shape = SHAPE(node->n[0]);
  return true;
}

static bool axis_ok(const Shape *s, int64_t axis, Why *why) {
  return (axis >= 0 && axis < s->rank) || why_not(why, "axis %lld of a shape of rank %d", (long long)axis, s->rank);
}

static bool infer_iota(const Graph *g, Node *node, Why *why) {
  (void)g;
  if (node->dtype != DT_I32 && node->dtype != DT_I64) return why_not(why, "iota is of i32 or i64");
  if (!axis_ok(&node->shape, node->n[0], why)) return false;
  int64_t extent = node->shape.dim[node->n[0]];
  return node->dtype == DT_I64 || extent <= INT32_MAX || why_not(why, "%lld indices in i32", (long long)extent);
}

static const Var *var_of(const Graph *g, const Node *node, Why *why) {
  int v = node->name ? graph_find_var(g, node->name) : -1;
  if (v < 0) why_not(why, "no var '%s'", node->name ? node->name : "");
  return v < 0 ? NULL : &g->vars.at[v];
}

static bool infer_load(const Graph *g, Node *node, Why *why) {
  const Var *v = var_of(g, node, why);
  if (!v) return false;
  if (v->class == VAR_OUTPUT) return why_not(why, "'%s' is an output", v->name);
  node->dtype = v->dtype;
  node->shape = v->shape;
  return true;
}

static bool infer_store(const Graph *g, Node *node, Why *why) {
  const Var *v = var_of(g, node, why);
  if (!v) return false;
  if (v->class == VAR_INPUT || v->class == VAR_STEP || v->class == VAR_PARAM)
    return why_not(why, "'%s' is not written by programs", v->name);
  const Node *x = in(g, node, 0);
  if (x->dtype != v->dtype || !shape_equal(&x->shape, &v->shape))
    return why_not(why, "value and var '%s' differ in type or shape", v->name);
  return like_first(g, node, why);
}

static bool need(const Graph *g, const Node *node, int i, DType dtype, Why *why) {
  DType is = in(g, node, i)->dtype;
  return is == dtype || why_not(why, "input %d is %s, not %s", i, dtype_name(is), dtype_name(dtype));
}

static bool same_shapes(const Graph *g, const Node *node, Why *why) {
  for (int i = 1; i < node->nin; i++)
    if (!shape_equal(&in(g, node, 0)->shape, &in(g, node, i)->shape)) return why_not(why, "inputs 0 and %d differ in shape", i);
  return true;
}

static bool infer_float(const Graph *g, Node *node, Why *why) {
  for (int i = 0; i < node->nin; i++)
    if (!need(g, node, i, DT_F32, why)) return false;
  return same_shapes(g, node, why) && like_first(g, node, why);
}

static bool infer_finite(const Graph *g, Node *node, Why *why) {
  if (!infer_float(g, node, why)) return false;
  node->dtype = DT_PRED;
  return true;
}

static bool infer_cast(const Graph *g, Node *node, Why *why) {
  (void)why;
  node->shape = in(g, node, 0)->shape;
  return true;
}

static bool infer_bits(const Graph *g, Node *node, Why *why) {
  if (!need(g, node, 0, DT_F32, why)) return false;
  like_first(g, node, why);
  node->dtype = DT_I32;
  return true;
}

static bool infer_half(const Graph *g, Node *node, Why *why) {
  if (!infer_float(g, node, why)) return false;
  node->dtype = node->op == OP_UPPER ? DT_BF16 : DT_I16;
  return true;
}

static bool infer_join(const Graph *g, Node *node, Why *why) {
  if (!need(g, node, 0, DT_BF16, why) || !need(g, node, 1, DT_I16, why) || !same_shapes(g, node, why)) return false;
  like_first(g, node, why);
  node->dtype = DT_F32;
  return true;
}

static bool infer_random(const Graph *g, Node *node, Why *why) {
  if (!need(g, node, 0, DT_I64, why) || !need(g, node, 1, DT_I64, why) || !same_shapes(g, node, why)) return false;
  like_first(g, node, why);
  node->dtype = DT_I32;
  return true;
}

static bool infer_shift(const Graph *g, Node *node, Why *why) {
  return need(g, node, 0, DT_I32, why) && need(g, node, 1, DT_I32, why) && same_shapes(g, node, why) && like_first(g, node, why);
}

static bool infer_dither(const Graph *g, Node *node, Why *why) {
  if (!need(g, node, 0, DT_F32, why) || !need(g, node, 1, DT_I32, why) || !same_shapes(g, node, why)) return false;
  like_first(g, node, why);
  node->dtype = DT_BF16;
  return true;
}

/* add, sub, mul, max, min: of floats or of ints. */
static bool infer_number(const Graph *g, Node *node, Why *why) {
  DType first = in(g, node, 0)->dtype;
  if (first == DT_PRED) return why_not(why, "arithmetic on truth values");
  if (dtype_size(first) == 2) return why_not(why, "arithmetic in %s", dtype_name(first));
  for (int i = 1; i < node->nin; i++)
    if (!need(g, node, i, first, why)) return false;
  return same_shapes(g, node, why) && like_first(g, node, why);
}

static bool infer_compare(const Graph *g, Node *node, Why *why) {
  if (!infer_number(g, node, why)) return false;
  node->dtype = DT_PRED;
  return true;
}

static bool infer_and(const Graph *g, Node *node, Why *why) {
  return need(g, node, 0, DT_PRED, why) && need(g, node, 1, DT_PRED, why) && same_shapes(g, node, why) && like_first(g, node, why);
}

static bool infer_select(const Graph *g, Node *node, Why *why) {
  if (!need(g, node, 0, DT_PRED, why) || !need(g, node, 2, in(g, node, 1)->dtype, why) || !same_shapes(g, node, why)) return false;
  node->dtype = in(g, node, 1)->dtype;
  node->shape = in(g, node, 0)->shape;
  return true;
}

static bool infer_reshape(const Graph *g, Node *node, Why *why) {
  const Node *x = in(g, node, 0);
  if (shape_size(&x->shape) != shape_size(&node->shape)) return why_not(why, "the shapes hold different numbers of elements");
  node->dtype = x->dtype;
  return true;
}

static bool infer_permute(const Graph *g, Node *node, Why *why) {
  const Node *x = in(g, node, 0);
  bool seen[IR_RANK] = {false};
  node->dtype = x->dtype;
  node->shape.rank = x->shape.rank;
  for (int i = 0; i < x->shape.rank; i++) {
    if (!axis_ok(&x->shape, node->n[i], why)) return false;
    if (seen[node->n[i]]) return why_not(why, "axis %lld comes twice", (long long)node->n[i]);
    seen[node->n[i]] = true;
    node->shape.dim[i] = x->shape.dim[node->n[i]];
  }
  return true;
}

static bool infer_slice(const Graph *g, Node *node, Why *why) {
  const Node *x = in(g, node, 0);
  int64_t axis = node->n[0], lo = node->n[1], hi = node->n[2];
  if (!axis_ok(&x->shape, axis, why)) return false;
  if (lo < 0 || hi <= lo || hi > x->shape.dim[axis])
    return why_not(why, "%lld to %lld of %lld", (long long)lo, (long long)hi, (long long)x->shape.dim[axis]);
  like_first(g, node, why);
  node->shape.dim[axis] = hi - lo;
  return true;
}

static bool infer_broadcast(const Graph *g, Node *node, Why *why) {
  const Node *x = in(g, node, 0);
  if (x->shape.rank != node->shape.rank) return why_not(why, "broadcast keeps the rank");
  for (int i = 0; i < x->shape.rank; i++)
    if (x->shape.dim[i] != node->shape.dim[i] && x->shape.dim[i] != 1)
      return why_not(why, "extent %lld of axis %d is neither 1 nor %lld", (long long)x->shape.dim[i], i,
                     (long long)node->shape.dim[i]);
  node->dtype = x->dtype;
  return true;
}

static bool infer_concat(const Graph *g, Node *node, Why *why) {
  int64_t axis = node->n[0], total = 0;
  const Node *first = in(g, node, 0);
  if (!axis_ok(&first->shape, axis, why)) return false;
  for (int i = 0; i < node->nin; i++) {
    Shape s = in(g, node, i)->shape;
    if (!need(g, node, i, first->dtype, why)) return false;
    if (s.rank == first->shape.rank) {
      if (s.dim[axis] > INT64_MAX / 16 - total) return why_not(why, "the result is too large");
      total += s.dim[axis];
      s.dim[axis] = first->shape.dim[axis];
    }
    if (!shape_equal(&s, &first->shape))
      return why_not(why, "inputs 0 and %d differ in another axis than %lld", i, (long long)axis);
  }
  like_first(g, node, why);
  node->shape.dim[axis] = total;
  return true;
}

/* Operands of big ops and collectives: 16-bit or F32, all of one type. */
static bool need_floats(const Graph *g, const Node *node, int from, int to, Why *why) {
  DType first = in(g, node, from)->dtype;
  if (!dtype_is_float(first)) return why_not(why, "input %d is %s, not a float", from, dtype_name(first));
  for (int i = from + 1; i < to; i++)
    if (!need(g, node, i, first, why)) return false;
  return true;
}

/* A result that the node may have in F32 whatever its operands. */
static bool result_type(const Node *node, DType operands, Why *why) {
  return node->dtype == operands || node->dtype == DT_F32 ||
         why_not(why, "a result of %s from %s", dtype_name(node->dtype), dtype_name(operands));
}

static bool infer_reduce(const Graph *g, Node *node, Why *why) {
  if (!need(g, node, 0, DT_F32, why) || !axis_ok(&in(g, node, 0)->shape, node->n[0], why)) return false;
  like_first(g, node, why);
  node->shape.dim[node->n[0]] = 1;
  return true;
}

static bool rank_is(const Graph *g, const Node *node, int i, int rank, Why *why) {
  int is = in(g, node, i)->shape.rank;
  return is == rank || why_not(why, "input %d has rank %d, not %d", i, is, rank);
}

static bool infer_matmul(const Graph *g, Node *node, Why *why) {
  if (node->nin != 2 && node->nin != 3) return why_not(why, "matmul takes 2 or 3 inputs, not %d", node->nin);
  if (!need_floats(g, node, 0, node->nin, why) || !rank_is(g, node, 0, 2, why) || !rank_is(g, node, 1, 2, why)) return false;
  const Shape *a = &in(g, node, 0)->shape, *b = &in(g, node, 1)->shape;
  int ta = node->n[0] != 0, tb = node->n[1] != 0;
  if (a->dim[!ta] != b->dim[tb]) return why_not(why, "inner extents %lld and %lld", (long long)a->dim[!ta], (long long)b->dim[tb]);
  node->shape = SHAPE(a->dim[ta], b->dim[!tb]);
  Shape row = SHAPE(b->dim[!tb]);
  if (node->nin == 3 && !shape_equal(&in(g, node, 2)->shape, &row)) return why_not(why, "the bias is not of (N)");
  return result_type(node, in(g, node, 0)->dtype, why);
}

/* q k v [o lse] start, from input `from` on. */
static bool attention_inputs(const Graph *g, const Node *node, int from, Why *why) {
  if (!need_floats(g, node, 0, from + 3, why)) return false;
  for (int i = from; i < from + 3; i++)
    if (!rank_is(g, node, i, 4, why)) return false;
  const int64_t *q = in(g, node, from)->shape.dim, *k = in(g, node, from + 1)->shape.dim;
  if (!shape_equal(&in(g, node, from + 1)->shape, &in(g, node, from + 2)->shape)) return why_not(why, "k and v differ in shape");
  if (q[0] != k[0] || q[1] != k[1] || q[3] != k[3] || q[2] % k[2]) return why_not(why, "q and k do not go together");
  Shape bs = SHAPE(q[0], q[1]);
  if (!need(g, node, node->nin - 1, DT_I32, why)) return false;
  return shape_equal(&in(g, node, node->nin - 1)->shape, &bs) || why_not(why, "start is not of (B,S)");
}

static bool infer_attention(const Graph *g, Node *node, Why *why) {
  return attention_inputs(g, node, 0, why) && like_first(g, node, why);
}

static bool infer_attention_grad(const Graph *g, Node *node, Why *why) {
  if (!attention_inputs(g, node, 1, why) || !need(g, node, 4, in(g, node, 0)->dtype, why) || !need(g, node, 5, DT_F32, why))
    return false;
  const Shape *q = &in(g, node, 1)->shape;
  Shape lse = SHAPE(q->dim[0], q->dim[2], q->dim[1]);
  if (!shape_equal(&in(g, node, 0)->shape, q) || !shape_equal(&in(g, node, 4)->shape, q))
    return why_not(why, "do, o and q differ in shape");
  if (!shape_equal(&in(g, node, 5)->shape, &lse)) return why_not(why, "lse is not of (B,H,S)");
  return like_first(g, node, why);
}

static bool infer_embedding(const Graph *g, Node *node, Why *why) {
  if (!need_floats(g, node, 0, 1, why) || !need(g, node, 1, DT_I32, why) || !rank_is(g, node, 0, 2, why) ||
      !rank_is(g, node, 1, 1, why))
    return false;
  node->dtype = in(g, node, 0)->dtype;
  node->shape = SHAPE(in(g, node, 1)->shape.dim[0], in(g, node, 0)->shape.dim[1]);
  return true;
}

static bool infer_embedding_grad(const Graph *g, Node *node, Why *why) {
  if (!need_floats(g, node, 0, 1, why) || !need(g, node, 1, DT_I32, why) || !need(g, node, 2, DT_I32, why)) return false;
  if (!rank_is(g, node, 0, 2, why) || !rank_is(g, node, 1, 1, why) || !rank_is(g, node, 2, 1, why)) return false;
  int64_t t = in(g, node, 0)->shape.dim[0];
  if (in(g, node, 1)->shape.dim[0] != t || in(g, node, 2)->shape.dim[0] != t || node->n[0] < 1)
    return why_not(why, "dout, ids and order differ in length");
  node->shape = SHAPE(node->n[0], in(g, node, 0)->shape.dim[1]);
  return result_type(node, in(g, node, 0)->dtype, why);
}

/* Input i: integers of a vector of this length (-1: any). */
static bool need_indices(const Graph *g, const Node *node, int i, int64_t n, Why *why) {
  if (!need(g, node, i, DT_I32, why) || !rank_is(g, node, i, 1, why)) return false;
  int64_t is = in(g, node, i)->shape.dim[0];
  return n < 0 || is == n || why_not(why, "input %d has %lld elements, not %lld", i, (long long)is, (long long)n);
}

static bool infer_route(const Graph *g, Node *node, Why *why) {
  if (!need(g, node, 0, DT_F32, why) || !rank_is(g, node, 0, 2, why)) return false;
  const int64_t *d = in(g, node, 0)->shape.dim, k = node->n[0];
  if (k < 1 || k > d[1]) return why_not(why, "%lld of %lld experts", (long long)k, (long long)d[1]);
  if (d[0] > INT32_MAX / k) return why_not(why, "more rows than a 32-bit index can count");
  node->dtype = DT_I32;
  node->shape = SHAPE(3 * d[0] * k + d[1] + 1);
  return true;
}

static bool infer_take(const Graph *g, Node *node, Why *why) {
  if (!need_floats(g, node, 0, 1, why) || !rank_is(g, node, 0, 2, why)) return false;
  const int64_t *d = in(g, node, 0)->shape.dim, times = node->n[0];
  if (times < 1 || d[0] > INT32_MAX / times) return why_not(why, "rows %lld times", (long long)times);
  node->dtype = in(g, node, 0)->dtype;
  node->shape = SHAPE(d[0] * times, d[1]);
  return need_indices(g, node, 1, d[0] * times, why) && need_indices(g, node, 2, d[0] * times, why);
}

/* Two matrices of floats, and where groups of the first one's rows begin. */
static bool grouped_inputs(const Graph *g, const Node *node, int64_t *experts, Why *why) {
  if (!need_floats(g, node, 0, 2, why) || !rank_is(g, node, 0, 2, why) || !rank_is(g, node, 1, 2, why) ||
      !need_indices(g, node, 2, -1, why))
    return false;
  *experts = in(g, node, 2)->shape.dim[0] - 1;
  return *experts > 0 || why_not(why, "no experts");
}

static bool infer_grouped(const Graph *g, Node *node, Why *why) {
  int64_t experts;
  if (!grouped_inputs(g, node, &experts, why)) return false;
  const int64_t *x = in(g, node, 0)->shape.dim, *w = in(g, node, 1)->shape.dim;
  bool plain = node->n[0] != 0;
  if (w[0] % experts || x[1] != (plain ? w[0] / experts : w[1]))
    return why_not(why, "%lld columns by a (%lld,%lld) of %lld experts", (long long)x[1], (long long)w[0], (long long)w[1],
                   (long long)experts);
  node->dtype = in(g, node, 0)->dtype;
  node->shape = SHAPE(x[0], plain ? w[1] : w[0] / experts);
  return true;
}

static bool infer_grouped_grad(const Graph *g, Node *node, Why *why) {
  int64_t experts;
  if (!grouped_inputs(g, node, &experts, why)) return false;
  const int64_t *a = in(g, node, 0)->shape.dim, *b = in(g, node, 1)->shape.dim;
  if (a[0] != b[0]) return why_not(why, "%lld and %lld rows", (long long)a[0], (long long)b[0]);
  if (a[1] > INT64_MAX / 16 / experts) return why_not(why, "the result is too large");
  node->shape = SHAPE(experts * a[1], b[1]);
  return result_type(node, in(g, node, 0)->dtype, why);
}

static bool infer_result(const Graph *g, Node *node, Why *why) {
  const Node *x = in(g, node, 0);
  int64_t i = node->n[0];
  node->dtype = x->dtype;
  if (x->op == OP_ATTENTION && i >= 0 && i < 2) {
    const int64_t *q = x->shape.dim;
    if (i == 1) node->dtype = DT_F32;
    node->shape = i == 0 ? x->shape : SHAPE(q[0], q[2], q[1]);
    return true;
  }
  if (x->op == OP_ATTENTION_GRAD && i >= 0 && i < 3) {
    node->shape = in(g, x, 1 + (int)i)->shape;
    return true;
  }
  return why_not(why, "%s has no result %lld", op_table[x->op].name, (long long)i);
}

static bool infer_collective(const Graph *g, Node *node, Why *why) {
  if (!need_floats(g, node, 0, 1, why) || !rank_is(g, node, 0, 1, why)) return false;
  int64_t ranks = node->n[1];
  if (ranks < 1 || ranks > INT32_MAX) return why_not(why, "a collective over %lld ranks", (long long)ranks);
  like_first(g, node, why);
  if (node->op == OP_ALL_GATHER) {
    if (node->shape.dim[0] > INT64_MAX / 16 / ranks) return why_not(why, "the result is too large");
    node->shape.dim[0] *= ranks;
  }
  if (node->op == OP_REDUCE_SCATTER || node->op == OP_ALL_TO_ALL) {
    if (node->shape.dim[0] % ranks)
      return why_not(why, "%lld elements for %lld ranks", (long long)node->shape.dim[0], (long long)ranks);
    if (node->op == OP_REDUCE_SCATTER) node->shape.dim[0] /= ranks;
  }
  return true;
}

#define POINTWISE(name, n, rule)                                                                                                   \
  { name, KIND_POINTWISE, n, "", false, false, false, false, rule }
const OpRow op_table[OP_COUNT] = {
    [OP_CONST] = {"const", KIND_LEAF, 0, "", .has_f = true, .gives_dtype = true, .infer = infer_const},
    [OP_TABLE] = {"table", KIND_LEAF, 0, "count", .infer = infer_table},
    [OP_IOTA] = {"iota", KIND_LEAF, 0, "axis", .gives_shape = true, .gives_dtype = true, .infer = infer_iota},
    [OP_LOAD] = {"load", KIND_LEAF, 0, "", .has_name = true, .infer = infer_load},
    [OP_COPY] = POINTWISE("copy", 1, like_first),
    [OP_STOP] = POINTWISE("stop", 1, like_first),
    [OP_KEEP] = POINTWISE("keep", 1, infer_float),
    [OP_NEG] = POINTWISE("neg", 1, infer_float),
    [OP_EXP] = POINTWISE("exp", 1, infer_float),
    [OP_EXPM1] = POINTWISE("expm1", 1, infer_float),
    [OP_LOG] = POINTWISE("log", 1, infer_float),
    [OP_SQRT] = POINTWISE("sqrt", 1, infer_float),
    [OP_RSQRT] = POINTWISE("rsqrt", 1, infer_float),
    [OP_SIN] = POINTWISE("sin", 1, infer_float),
    [OP_COS] = POINTWISE("cos", 1, infer_float),
    [OP_TANH] = POINTWISE("tanh", 1, infer_float),
    [OP_SIGMOID] = POINTWISE("sigmoid", 1, infer_float),
    [OP_FINITE] = POINTWISE("finite", 1, infer_finite),
    [OP_CAST] = {"cast", KIND_POINTWISE, 1, "", .gives_dtype = true, .infer = infer_cast},
    [OP_UPPER] = POINTWISE("upper", 1, infer_half),
    [OP_LOWER] = POINTWISE("lower", 1, infer_half),
    [OP_BITS] = POINTWISE("bits", 1, infer_bits),
    [OP_JOIN] = POINTWISE("join", 2, infer_join),
    [OP_RANDOM] = POINTWISE("random", 2, infer_random),
    [OP_SHIFT] = POINTWISE("shift", 2, infer_shift),
    [OP_DITHER] = POINTWISE("dither", 2, infer_dither),
    [OP_ADD] = POINTWISE("add", 2, infer_number),
    [OP_SUB] = POINTWISE("sub", 2, infer_number),
    [OP_MUL] = POINTWISE("mul", 2, infer_number),
    [OP_DIV] = POINTWISE("div", 2, infer_float),
    [OP_MAX] = POINTWISE("max", 2, infer_number),
    [OP_MIN] = POINTWISE("min", 2, infer_number),
    [OP_LT] = POINTWISE("lt", 2, infer_compare),
    [OP_LE] = POINTWISE("le", 2, infer_compare),
    [OP_EQ] = POINTWISE("eq", 2, infer_compare),
    [OP_AND] = POINTWISE("and", 2, infer_and),
    [OP_SELECT] = POINTWISE("select", 3, infer_select),
    [OP_FMA] = POINTWISE("fma", 3, infer_float),
    [OP_RESHAPE] = {"reshape", KIND_VIEW, 1, "", .gives_shape = true, .infer = infer_reshape},
    [OP_PERMUTE] = {"permute", KIND_VIEW, 1, "*", .infer = infer_permute},
    [OP_SLICE] = {"slice", KIND_VIEW, 1, "axis lo hi", .infer = infer_slice},
    [OP_BROADCAST] = {"broadcast", KIND_VIEW, 1, "", .gives_shape = true, .infer = infer_broadcast},
    [OP_CONCAT] = {"concat", KIND_VIEW, -1, "axis", .infer = infer_concat},
    [OP_SUM] = {"sum", KIND_REDUCE, 1, "axis", .infer = infer_reduce},
    [OP_MAXIMUM] = {"maximum", KIND_REDUCE, 1, "axis", .infer = infer_reduce},
    [OP_MATMUL] = {"matmul", KIND_BIG, -1, "ta tb", .gives_dtype = true, .infer = infer_matmul},
    [OP_ATTENTION] = {"attention", KIND_BIG, 4, "window", .has_f = true, .infer = infer_attention},
    [OP_ATTENTION_GRAD] = {"attention_grad", KIND_BIG, 7, "window", .has_f = true, .infer = infer_attention_grad},
    [OP_EMBEDDING] = {"embedding", KIND_BIG, 2, "", .infer = infer_embedding},
    [OP_EMBEDDING_GRAD] = {"embedding_grad", KIND_BIG, 3, "rows", .gives_dtype = true, .infer = infer_embedding_grad},
    [OP_ROUTE] = {"route", KIND_BIG, 1, "k", .infer = infer_route},
    [OP_TAKE] = {"take", KIND_BIG, 3, "times", .infer = infer_take},
    [OP_GROUPED] = {"grouped", KIND_BIG, 3, "plain", .infer = infer_grouped},
    [OP_GROUPED_GRAD] = {"grouped_grad", KIND_BIG, 3, "", .gives_dtype = true, .infer = infer_grouped_grad},
    [OP_RESULT] = {"result", KIND_RESULT, 1, "index", .infer = infer_result},
    [OP_ALL_GATHER] = {"all_gather", KIND_COLLECTIVE, 1, "axis ranks", .infer = infer_collective},
    [OP_REDUCE_SCATTER] = {"reduce_scatter", KIND_COLLECTIVE, 1, "axis ranks", .infer = infer_collective},
    [OP_ALL_TO_ALL] = {"all_to_all", KIND_COLLECTIVE, 1, "axis ranks", .infer = infer_collective},
    [OP_ALL_REDUCE] = {"all_reduce", KIND_COLLECTIVE, 1, "axis ranks", .infer = infer_collective},
    [OP_FETCH] = {"fetch", KIND_TRANSFER, 1, "", .infer = like_first},
    [OP_SEND] = {"send", KIND_TRANSFER, 1, "", .infer = like_first},
    [OP_STORE] = {"store", KIND_STORE, 1, "", .has_name = true, .infer = infer_store},
};
