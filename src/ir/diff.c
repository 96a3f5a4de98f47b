/* SPDX-License-Identifier: Apache-2.0 */
/* Reverse-mode differentiation: one rule an op, walked backwards over the graph.  See Griewank and Walther, "Evaluating
 * Derivatives", 2nd ed., chapter 3.
 *
 * A node's gradient is the sum of what its users contribute, in the order of the users from last to first.  Contributions to
 * disjoint slices of a node are joined by one CONCAT instead of being padded with zeros and added, so that the gradient of a
 * stacked product (q, k, v in one) is written in place. */
#include <stdlib.h>

#include "src/ir/ir.h"

typedef struct Part {
  struct Part *next; /* the contribution before */
  int node;
  int axis; /* -1: of the whole node; else of elements lo to hi along axis */
  int64_t lo, hi;
} Part;

typedef struct Diff {
  Graph *g;
  bool *wanted; /* by node: depends on a wrt */
  Part **parts; /* by node */
  int order;
} Diff;

static void contribute_part(Diff *d, int to, Part part) {
  if (!d->wanted[to]) return;
  Part *p = arena_new(d->g->arena, Part);
  *p = part;
  p->next = d->parts[to];
  d->parts[to] = p;
}

static void contribute(Diff *d, int to, int gradient) { contribute_part(d, to, (Part){.node = gradient, .axis = -1}); }

static int zeros(Graph *g, Shape shape) { return ir_broadcast(g, ir_const(g, DT_F32, 0), shape); }

static int by_lo(const void *a, const void *b) {
  const Part *p = *(Part *const *)a, *q = *(Part *const *)b;
  return p->lo < q->lo ? -1 : p->lo > q->lo;
}

/* The parts of one axis side by side, zeros in the gaps. */
static int join(Graph *g, Part **sorted, int n, Shape shape) {
  VEC(int) pieces = {0};
  int axis = sorted[0]->axis;
  int64_t at = 0, end = shape.dim[axis];
  for (int i = 0; i <= n; i++) {
    int64_t next = i < n ? sorted[i]->lo : end;
    if (next > at) {
      Shape gap = shape;
      gap.dim[axis] = next - at;
      vec_push(g->arena, &pieces, zeros(g, gap));
    }
    if (i < n) {
      vec_push(g->arena, &pieces, sorted[i]->node);
      at = sorted[i]->hi;
    }
  }
  return ir_concat(g, pieces.at, pieces.n, axis);
}

/* In the scope of the term that came last: what chunks contribute is added chunk by chunk, not kept until the end. */
static int add_to(Graph *g, int sum, int term) {
  if (sum < 0) return term;
  int scope = g->scope;
  g->scope = graph_node(g, term)->scope;
  sum = ir_add(g, sum, term);
  g->scope = scope;
  return sum;
}

/* The sum of a node's contributions; -1 without any. */
static int gather_parts(Diff *d, int node) {
  Graph *g = d->g;
  Shape shape = graph_node(g, node)->shape;
  VEC(Part *) slices = {0};
  int sum = -1, axis = -1;
  VEC(Part *) ordered = {0};
  for (Part *p = d->parts[node]; p; p = p->next) vec_push(g->arena, &ordered, p);
  for (int i = ordered.n - 1; i >= 0; i--) {
    Part *p = ordered.at[i];
    if (p->axis < 0) sum = add_to(g, sum, p->node);
    if (p->axis >= 0 && (axis < 0 || axis == p->axis)) {
      axis = p->axis;
      vec_push(g->arena, &slices, p);
    } else if (p->axis >= 0) {
      sum = add_to(g, sum, join(g, &p, 1, shape));
    }
  }
  if (!slices.n) return sum;
  qsort(slices.at, (size_t)slices.n, sizeof(Part *), by_lo);
  for (int i = 1; i < slices.n; i++)
    if (slices.at[i]->lo < slices.at[i - 1]->hi) { /* they overlap: add them one by one */
      for (int k = 0; k < slices.n; k++) sum = add_to(g, sum, join(g, &slices.at[k], 1, shape));
      return sum;
    }
  return add_to(g, sum, join(g, slices.at, slices.n, shape));
}

/* --- rules: x is the node's index, dy the gradient of its value --------------------------------------------------------- */

typedef void Rule(Diff *d, int x, int dy);

static int input(const Diff *d, int x, int i) { return graph_node(d->g, x)->in[i]; }

static void rule_none(Diff *d, int x, int dy) { (void)d, (void)x, (void)dy; }

static void rule_same(Diff *d, int x, int dy) { contribute(d, input(d, x, 0), dy); }

static void rule_keep(Diff *d, int x, int dy) { contribute(d, input(d, x, 0), ir_unary(d->g, OP_KEEP, dy)); }

static void rule_cast(Diff *d, int x, int dy) {
  if (graph_node(d->g, input(d, x, 0))->dtype == DT_F32) contribute(d, input(d, x, 0), ir_cast(d->g, DT_F32, dy));
}

static void rule_neg(Diff *d, int x, int dy) { contribute(d, input(d, x, 0), ir_unary(d->g, OP_NEG, dy)); }

static void rule_exp(Diff *d, int x, int dy) { contribute(d, input(d, x, 0), ir_mul(d->g, dy, x)); }

static void rule_expm1(Diff *d, int x, int dy) {
  contribute(d, input(d, x, 0), ir_mul(d->g, dy, ir_add(d->g, x, ir_const(d->g, DT_F32, 1))));
}

static void rule_log(Diff *d, int x, int dy) { contribute(d, input(d, x, 0), ir_div(d->g, dy, input(d, x, 0))); }

static void rule_sqrt(Diff *d, int x, int dy) { contribute(d, input(d, x, 0), ir_div(d->g, ir_scale(d->g, dy, 0.5), x)); }

static void rule_rsqrt(Diff *d, int x, int dy) {
  int cube = ir_mul(d->g, ir_mul(d->g, x, x), x);
  contribute(d, input(d, x, 0), ir_mul(d->g, ir_scale(d->g, dy, -0.5), cube));
}

static void rule_sin(Diff *d, int x, int dy) {
  contribute(d, input(d, x, 0), ir_mul(d->g, dy, ir_unary(d->g, OP_COS, input(d, x, 0))));
}

static void rule_cos(Diff *d, int x, int dy) {
  int sine = ir_unary(d->g, OP_SIN, input(d, x, 0));
  contribute(d, input(d, x, 0), ir_unary(d->g, OP_NEG, ir_mul(d->g, dy, sine)));
}

static int one_minus(Graph *g, int x) { return ir_sub(g, ir_const(g, DT_F32, 1), x); }

static void rule_tanh(Diff *d, int x, int dy) {
  contribute(d, input(d, x, 0), ir_mul(d->g, dy, one_minus(d->g, ir_mul(d->g, x, x))));
}

static void rule_sigmoid(Diff *d, int x, int dy) {
  contribute(d, input(d, x, 0), ir_mul(d->g, dy, ir_mul(d->g, x, one_minus(d->g, x))));
}

static void rule_add(Diff *d, int x, int dy) {
  contribute(d, input(d, x, 0), dy);
  contribute(d, input(d, x, 1), dy);
}

static void rule_sub(Diff *d, int x, int dy) {
  contribute(d, input(d, x, 0), dy);
  if (d->wanted[input(d, x, 1)]) contribute(d, input(d, x, 1), ir_unary(d->g, OP_NEG, dy));
}

static void rule_mul(Diff *d, int x, int dy) {
  int a = input(d, x, 0), b = input(d, x, 1);
  if (d->wanted[a]) contribute(d, a, ir_mul(d->g, dy, b));
  if (d->wanted[b]) contribute(d, b, ir_mul(d->g, dy, a));
}

static void rule_div(Diff *d, int x, int dy) {
  int a = input(d, x, 0), b = input(d, x, 1), da = ir_div(d->g, dy, b);
  contribute(d, a, da);
  if (d->wanted[b]) contribute(d, b, ir_unary(d->g, OP_NEG, ir_mul(d->g, da, x)));
}

/* dy to the input that won; to the first where they are equal. */
static void rule_max_min(Diff *d, int x, int dy) {
  int a = input(d, x, 0), b = input(d, x, 1), zero = zeros(d->g, graph_node(d->g, x)->shape);
  bool max = graph_node(d->g, x)->op == OP_MAX;
  int first = ir_binary(d->g, OP_LE, max ? b : a, max ? a : b);
  contribute(d, a, ir_select(d->g, first, dy, zero));
  contribute(d, b, ir_select(d->g, first, zero, dy));
}

static void rule_select(Diff *d, int x, int dy) {
  int p = input(d, x, 0), zero = zeros(d->g, graph_node(d->g, x)->shape);
  if (d->wanted[input(d, x, 1)]) contribute(d, input(d, x, 1), ir_select(d->g, p, dy, zero));
  if (d->wanted[input(d, x, 2)]) contribute(d, input(d, x, 2), ir_select(d->g, p, zero, dy));
}

static void rule_fma(Diff *d, int x, int dy) {
  rule_mul(d, x, dy);
  contribute(d, input(d, x, 2), dy);
}

static void rule_reshape(Diff *d, int x, int dy) {
  contribute(d, input(d, x, 0), ir_reshape(d->g, dy, graph_node(d->g, input(d, x, 0))->shape));
}

static void rule_permute(Diff *d, int x, int dy) {
  const Node *node = graph_node(d->g, x);
  int inverse[IR_RANK];
  for (int i = 0; i < node->shape.rank; i++) inverse[node->n[i]] = i;
  contribute(d, input(d, x, 0), ir_permute(d->g, dy, inverse));
}

static void rule_slice(Diff *d, int x, int dy) {
  const Node *node = graph_node(d->g, x);
  contribute_part(d, node->in[0], (Part){.node = dy, .axis = (int)node->n[0], .lo = node->n[1], .hi = node->n[2]});
}

static void rule_broadcast(Diff *d, int x, int dy) {
  Shape to = graph_node(d->g, x)->shape, from = graph_node(d->g, input(d, x, 0))->shape;
  for (int i = to.rank - 1; i >= 0; i--)
    if (from.dim[i] != to.dim[i]) dy = ir_reduce(d->g, OP_SUM, dy, i);
  contribute(d, input(d, x, 0), dy);
}

static void rule_concat(Diff *d, int x, int dy) {
  int axis = (int)graph_node(d->g, x)->n[0], n = graph_node(d->g, x)->nin;
  int64_t at = 0;
  for (int i = 0; i < n; i++) {
    int64_t extent = graph_node(d->g, input(d, x, i))->shape.dim[axis];
    if (d->wanted[input(d, x, i)]) contribute(d, input(d, x, i), ir_slice(d->g, dy, axis, at, at + extent));
    at += extent;
  }
}

static void rule_sum(Diff *d, int x, int dy) {
  contribute(d, input(d, x, 0), ir_broadcast(d->g, dy, graph_node(d->g, input(d, x, 0))->shape));
}

/* Elements that equal the maximum share its gradient whole, as max(a,b) would not for ties; use STOP where ties happen. */
static void rule_maximum(Diff *d, int x, int dy) {
  int from = input(d, x, 0);
  int is_max = ir_binary(d->g, OP_EQ, from, x);
  contribute(d, from, ir_select(d->g, is_max, dy, zeros(d->g, graph_node(d->g, from)->shape)));
}

static void rule_matmul(Diff *d, int x, int dy) {
  const Node node = *graph_node(d->g, x);
  int a = node.in[0], b = node.in[1];
  bool ta = node.n[0], tb = node.n[1];
  if (d->wanted[a]) contribute(d, a, ta ? ir_matmul(d->g, b, tb, dy, true) : ir_matmul(d->g, dy, false, b, !tb));
  if (d->wanted[b]) contribute(d, b, tb ? ir_matmul(d->g, dy, true, a, ta) : ir_matmul(d->g, a, !ta, dy, false));
  if (node.nin == 3 && d->wanted[node.in[2]])
    contribute(d, node.in[2], ir_reshape(d->g, ir_reduce(d->g, OP_SUM, dy, 0), SHAPE(node.shape.dim[1])));
}

static void rule_result(Diff *d, int x, int dy) {
  CHECK(graph_node(d->g, x)->n[0] == 0); /* nothing differentiates through lse */
  contribute(d, input(d, x, 0), dy);
}

static void rule_attention(Diff *d, int x, int dy) {
  const Node node = *graph_node(d->g, x);
  CHECK(graph_node(d->g, x + 2)->op == OP_RESULT && input(d, x + 2, 0) == x); /* ir_attention puts both results there */
  int in[] = {dy, node.in[0], node.in[1], node.in[2], x + 1, x + 2, node.in[3]};
  int grad = graph_push(d->g, (Node){.op = OP_ATTENTION_GRAD, .f = node.f, .n = {node.n[0]}, .nin = 7, .in = in});
  for (int i = 0; i < 3; i++) contribute(d, node.in[i], ir_result(d->g, grad, i));
}

static void rule_embedding(Diff *d, int x, int dy) {
  CHECK(d->order >= 0);
  int table = input(d, x, 0), in[] = {dy, input(d, x, 1), d->order};
  int64_t rows = graph_node(d->g, table)->shape.dim[0];
  contribute(d, table, graph_push(d->g, (Node){.op = OP_EMBEDDING_GRAD, .n = {rows}, .nin = 3, .in = in}));
}

/* Each row's gradient comes from the places it was taken to. */
static void rule_take(Diff *d, int x, int dy) {
  const Node node = *graph_node(d->g, x);
  int64_t times = node.n[0], rows = node.shape.dim[0] / times, cols = node.shape.dim[1];
  int back = ir_take(d->g, dy, node.in[2], node.in[1], 1), sum = -1;
  int copies = ir_reshape(d->g, back, SHAPE(rows, times, cols));
  for (int64_t i = 0; i < times; i++) sum = add_to(d->g, sum, ir_slice(d->g, copies, 1, i, i + 1));
  contribute(d, node.in[0], ir_reshape(d->g, sum, SHAPE(rows, cols)));
}

static void rule_grouped(Diff *d, int x, int dy) {
  const Node node = *graph_node(d->g, x);
  int rows = node.in[0], w = node.in[1], offsets = node.in[2];
  bool plain = node.n[0] != 0;
  if (d->wanted[rows]) contribute(d, rows, ir_grouped(d->g, dy, w, plain, offsets));
  int in[] = {plain ? rows : dy, plain ? dy : rows, offsets};
  if (d->wanted[w]) contribute(d, w, graph_push(d->g, (Node){.op = OP_GROUPED_GRAD, .nin = 3, .in = in}));
}

/* An op without a row cannot be differentiated: gradients of gradients and collectives. */
static Rule *const rules[OP_COUNT] = {
    [OP_CONST] = rule_none,
    [OP_TABLE] = rule_none,
    [OP_IOTA] = rule_none,
    [OP_LOAD] = rule_none,
    [OP_COPY] = rule_same,
    [OP_STOP] = rule_none,
    [OP_KEEP] = rule_keep,
    [OP_NEG] = rule_neg,
    [OP_EXP] = rule_exp,
    [OP_EXPM1] = rule_expm1,
    [OP_LOG] = rule_log,
    [OP_SQRT] = rule_sqrt,
    [OP_RSQRT] = rule_rsqrt,
    [OP_SIN] = rule_sin,
    [OP_COS] = rule_cos,
    [OP_TANH] = rule_tanh,
    [OP_SIGMOID] = rule_sigmoid,
    [OP_FINITE] = rule_none,
    [OP_CAST] = rule_cast,
    [OP_UPPER] = rule_none,
    [OP_LOWER] = rule_none,
    [OP_BITS] = rule_none,
    [OP_JOIN] = rule_none,
    [OP_RANDOM] = rule_none,
    [OP_SHIFT] = rule_none,
    [OP_DITHER] = rule_none,
    [OP_ADD] = rule_add,
    [OP_SUB] = rule_sub,
    [OP_MUL] = rule_mul,
    [OP_DIV] = rule_div,
    [OP_MAX] = rule_max_min,
    [OP_MIN] = rule_max_min,
    [OP_LT] = rule_none,
    [OP_LE] = rule_none,
    [OP_EQ] = rule_none,
    [OP_AND] = rule_none,
    [OP_SELECT] = rule_select,
    [OP_FMA] = rule_fma,
    [OP_RESHAPE] = rule_reshape,
    [OP_PERMUTE] = rule_permute,
    [OP_SLICE] = rule_slice,
    [OP_BROADCAST] = rule_broadcast,
    [OP_CONCAT] = rule_concat,
    [OP_SUM] = rule_sum,
    [OP_MAXIMUM] = rule_maximum,
    [OP_MATMUL] = rule_matmul,
    [OP_RESULT] = rule_result,
    [OP_ATTENTION] = rule_attention,
    [OP_EMBEDDING] = rule_embedding,
    [OP_ROUTE] = rule_none,
    [OP_TAKE] = rule_take,
    [OP_GROUPED] = rule_grouped,
};

/* Whether a gradient flows from the node to its inputs at all. */
static bool passes(const Node *node) { return rules[node->op] != rule_none && node->dtype == DT_F32; }

void graph_differentiate(Graph *g, int loss, int seed, const int *wrt, int n, int order, int *grads) {
  CHECK(graph_node(g, loss)->shape.rank == 0);
  int forward = g->nodes.n, scope = g->scope;
  Phase phase = g->phase;
  Diff d = {g, arena_array(g->arena, bool, forward), arena_array(g->arena, Part *, forward), order};
  bool *is_wrt = arena_array(g->arena, bool, forward);
  for (int i = 0; i < n; i++) is_wrt[wrt[i]] = d.wanted[wrt[i]] = true;
  for (int i = 0; i <= loss; i++)
    for (int k = 0; k < graph_node(g, i)->nin && !d.wanted[i]; k++)
      d.wanted[i] = passes(graph_node(g, i)) && d.wanted[graph_node(g, i)->in[k]];
  int *result = arena_array(g->arena, int, forward);
  for (int i = 0; i < forward; i++) result[i] = -1;
  g->phase = PHASE_BACKWARD;
  contribute(&d, loss, seed);
  for (int i = loss; i >= 0; i--) {
    if (!d.parts[i]) continue;
    g->scope = graph_node(g, i)->scope;
    int dy = gather_parts(&d, i);
    if (is_wrt[i]) result[i] = dy;
    Rule *rule = rules[graph_node(g, i)->op];
    if (!rule) fail(FAIL_BUG, "no gradient rule for %s", op_table[graph_node(g, i)->op].name);
    rule(&d, i, dy);
  }
  for (int i = 0; i < n; i++) grads[i] = result[wrt[i]];
  g->scope = scope;
  g->phase = phase;
}
