/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients against finite differences, both by the interpreter in double. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "src/base/rng.h"
#include "test/check.h"
#include "test/unit/random_graph.h"

/* The five-point difference with STEP is good to STEP^4 = 1e-12 of the fifth derivative and rounding to 1e-13 of the loss. */
static const double STEP = 1e-3, TOLERANCE = 1e-7, SEED = 0.7;
enum { VARS = 64 };

typedef struct Lab {
  Arena *arena;
  Graph *g;
  Rng rng;
  uint64_t drawn;
  double *value[VARS];
  int load[VARS]; /* by var: the node to differentiate by, -1: none */
  int order;      /* of the embedding's ids */
} Lab;

static Lab lab_open(uint64_t seed) {
  Lab lab = {.arena = arena_open(), .rng = rng_make(seed, RNG_TEST, "diff", 0), .order = -1};
  lab.g = graph_open(lab.arena);
  return lab;
}

static int draw(Lab *lab, int n) { return (int)(rng_uniform(&lab->rng, lab->drawn++) * n); }

static int lab_var(Lab *lab, const char *name, DType dtype, Shape shape) {
  int v = graph_var(lab->g, (Var){.name = arena_strdup(lab->arena, name), .class = VAR_CARRY, .dtype = dtype, .shape = shape});
  CHECK(v < VARS);
  lab->value[v] = arena_array(lab->arena, double, shape_size(&shape));
  lab->load[v] = -1;
  return v;
}

/* A leaf to differentiate by, uniform between lo and hi; no two elements nearer than half of their share of that. */
static int leaf(Lab *lab, Shape shape, double lo, double hi) {
  char name[32];
  snprintf(name, sizeof name, "x%d", lab->g->vars.n);
  int v = lab_var(lab, name, DT_F32, shape);
  int64_t n = shape_size(&shape);
  Rng order = rng_make(lab->rng.key[0], RNG_TEST, name, 0);
  for (int64_t i = 0; i < n; i++) {
    double place = (double)rng_permute(&order, (uint64_t)n, (uint64_t)i) + 0.25 + 0.5 * rng_uniform(&lab->rng, lab->drawn++);
    lab->value[v][i] = lo + (hi - lo) * place / (double)n;
  }
  return lab->load[v] = ir_load(lab->g, lab->g->vars.at[v].name);
}

static int matrix(Lab *lab, int64_t rows, int64_t cols) { return leaf(lab, SHAPE(rows, cols), -1, 1); }

/* Integers from 0 up to but not n. */
static int integers(Lab *lab, const char *name, Shape shape, int n) {
  int v = lab_var(lab, name, DT_I32, shape);
  for (int64_t i = 0; i < shape_size(&shape); i++) lab->value[v][i] = draw(lab, n);
  return ir_load(lab->g, lab->g->vars.at[v].name);
}

static Shape shape_at(const Lab *lab, int x) { return graph_node(lab->g, x)->shape; }

static Shape random_shape(Lab *lab, int min_rank) {
  Shape s = {.rank = min_rank + draw(lab, 5 - min_rank)};
  for (int i = 0; i < s.rank; i++) s.dim[i] = 1 + draw(lab, 4);
  return s;
}

static double loss_of(const Graph *g, Lab *lab, int loss_var) {
  graph_interpret(g, lab->value, NULL, NULL);
  return lab->value[loss_var][0];
}

static double difference(const Graph *g, Lab *lab, double *x, int loss_var) {
  double at = *x, f[5];
  for (int k = -2; k <= 2; k++) {
    *x = at + k * STEP;
    f[k + 2] = loss_of(g, lab, loss_var);
  }
  *x = at;
  return (8 * (f[3] - f[1]) - (f[4] - f[0])) / (12 * STEP);
}

/* The gradient of a leaf, by one difference an element; stride > 1 tries only every stride-th. */
static void compare(const Graph *forward, Lab *lab, int v, const double *gradient, int loss_var, int64_t stride, const char *what) {
  double most = 0;
  int64_t n = shape_size(&forward->vars.at[v].shape);
  for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(gradient[i]));
  for (int64_t i = 0; i < n; i += stride) {
    double expected = SEED * difference(forward, lab, &lab->value[v][i], loss_var);
    if (fabs(gradient[i] - expected) <= TOLERANCE * (most + 1)) continue;
    check_failed(__FILE__, __LINE__, "%s: gradient of %s, element %d, is %.12g, not %.12g", what, forward->vars.at[v].name, (int)i,
                 gradient[i], expected);
  }
}

/* Gradients of the scalar loss by all leaves, differentiated, then simplified. */
static void check_loss(Lab *lab, int loss, const char *what) {
  Graph *g = lab->g;
  int loss_var = lab_var(lab, "loss", DT_F32, shape_scalar()), n = 0, vars[VARS], wrt[VARS], grads[VARS], at[VARS];
  ir_store(g, "loss", loss);
  graph_check(g, what);
  Graph *forward = graph_simplify(g, lab->arena);
  for (int v = 0; v < forward->vars.n; v++)
    if (lab->load[v] >= 0) vars[n] = v, wrt[n++] = lab->load[v];
  graph_differentiate(g, loss, ir_const(g, DT_F32, SEED), wrt, n, lab->order, grads);
  for (int i = 0; i < n; i++) {
    if (grads[i] < 0) check_failed(__FILE__, __LINE__, "%s: no gradient of %s", what, g->vars.at[vars[i]].name);
    at[i] = lab_var(lab, arena_printf(lab->arena, "gradient of %d", vars[i]), DT_F32, shape_at(lab, wrt[i]));
    ir_store(g, g->vars.at[at[i]].name, grads[i]);
  }
  graph_check(g, "diff");
  Graph *simple = graph_simplify(g, lab->arena);
  graph_check(simple, "simplify");
  graph_interpret(g, lab->value, NULL, NULL);
  for (int i = 0; i < n; i++) compare(forward, lab, vars[i], lab->value[at[i]], loss_var, 1, what);
  for (int i = 0; i < n; i++) {
    size_t nbytes = sizeof(double) * (size_t)shape_size(&g->vars.at[at[i]].shape);
    double *before = memcpy(arena_alloc(lab->arena, nbytes), lab->value[at[i]], nbytes);
    graph_interpret(simple, lab->value, NULL, NULL);
    EXPECT(!memcmp(before, lab->value[at[i]], nbytes));
  }
}

/* The same of any value, weighted so that every element counts differently. */
static void check_value(Lab *lab, int y, const char *what) {
  check_loss(lab, ir_sum_all(lab->g, ir_mul(lab->g, y, leaf(lab, shape_at(lab, y), 0.5, 2))), what);
  arena_close(lab->arena);
}

/* --- a case an op ------------------------------------------------------------------------------------------------------- */

typedef int Case(Lab *lab, Op op);

/* Any pointwise op of floats; both sides of 0, and away from it. */
static int case_pointwise(Lab *lab, Op op) {
  Shape s = random_shape(lab, 0);
  int in[3];
  bool positive = op == OP_LOG || op == OP_SQRT || op == OP_RSQRT || (op == OP_DIV && draw(lab, 2));
  for (int i = 0; i < op_table[op].nin; i++)
    in[i] = positive ? leaf(lab, s, 0.5, 2) : i == 0 && op != OP_DIV ? leaf(lab, s, -2, 2) : leaf(lab, s, -2, -0.25);
  return graph_push(lab->g, (Node){.op = op, .dtype = DT_F32, .nin = op_table[op].nin, .in = in});
}

/* An input used twice: its gradients add up. */
static int case_binary(Lab *lab, Op op) {
  if (draw(lab, 3)) return case_pointwise(lab, op);
  int x = leaf(lab, random_shape(lab, 0), 0.5, 2);
  return ir_binary(lab->g, op, x, x);
}

/* Of leaves that are nowhere nearly equal. */
static int case_max_min(Lab *lab, Op op) {
  int y = case_pointwise(lab, op);
  Shape s = shape_at(lab, y);
  for (int64_t i = 0; i < shape_size(&s); i++)
    if (fabs(lab->value[0][i] - lab->value[1][i]) < 0.1) lab->value[0][i] += 0.25;
  return y;
}

static int case_select(Lab *lab, Op op) {
  (void)op;
  Shape s = random_shape(lab, 1);
  int at = ir_iota(lab->g, DT_I32, s, draw(lab, s.rank)), p = ir_binary(lab->g, OP_LT, at, ir_const(lab->g, DT_I32, draw(lab, 4)));
  int a = leaf(lab, s, -2, 2), b = leaf(lab, s, -2, 2);
  int in[] = {p, a, b};
  return graph_push(lab->g, (Node){.op = OP_SELECT, .nin = 3, .in = in});
}

static int case_reshape(Lab *lab, Op op) {
  (void)op;
  int x = leaf(lab, random_shape(lab, 0), -2, 2);
  Shape s = shape_at(lab, x), flat = SHAPE(1, shape_size(&s));
  return graph_push(lab->g, (Node){.op = OP_RESHAPE, .shape = flat, .nin = 1, .in = &x});
}

static int case_permute(Lab *lab, Op op) {
  (void)op;
  int x = leaf(lab, random_shape(lab, 0), -2, 2), rank = shape_at(lab, x).rank, axes[IR_RANK];
  for (int i = 0; i < rank; i++) {
    int j = draw(lab, i + 1);
    axes[i] = axes[j];
    axes[j] = i;
  }
  return ir_permute(lab->g, x, axes);
}

/* One slice, two that are apart, two that overlap, or two along different axes. */
static int case_slice(Lab *lab, Op op) {
  (void)op;
  Graph *g = lab->g;
  int64_t n = 3 + draw(lab, 3);
  int x = leaf(lab, SHAPE(n, 1 + draw(lab, 3)), -2, 2), how = draw(lab, 4), a = ir_slice(g, x, 0, 0, 2);
  if (how == 0) return a;
  if (how == 1) return ir_mul(g, ir_slice(g, x, 0, n - 1, n), ir_slice(g, x, 0, 0, 1));
  if (how == 2) return ir_mul(g, ir_slice(g, x, 0, 1, 3), a);
  return ir_add(g, ir_mul(g, ir_slice(g, a, 0, 1, 2), x), ir_slice(g, x, 1, 0, 1));
}

static int case_broadcast(Lab *lab, Op op) {
  (void)op;
  Shape s = random_shape(lab, 1), wide = s;
  for (int i = 0; i < s.rank; i++) {
    if (draw(lab, 2)) s.dim[i] = 1;
    wide.dim[i] = s.dim[i] == 1 ? 1 + draw(lab, 4) : s.dim[i];
  }
  int x = leaf(lab, s, -2, 2);
  return graph_push(lab->g, (Node){.op = OP_BROADCAST, .shape = wide, .nin = 1, .in = &x});
}

static int case_concat(Lab *lab, Op op) {
  (void)op;
  Shape s = random_shape(lab, 1);
  int axis = draw(lab, s.rank), n = 1 + draw(lab, 3), in[4];
  for (int i = 0; i < n; i++) {
    s.dim[axis] = 1 + draw(lab, 3);
    in[i] = leaf(lab, s, -2, 2);
  }
  in[n] = in[0]; /* one comes twice */
  return graph_push(lab->g, (Node){.op = OP_CONCAT, .n = {axis}, .nin = n + 1, .in = in});
}

static int case_reduce(Lab *lab, Op op) {
  int x = leaf(lab, random_shape(lab, 1), -2, 2);
  return ir_reduce(lab->g, op, x, draw(lab, shape_at(lab, x).rank));
}

static int case_matmul(Lab *lab, Op op) {
  (void)op;
  int64_t m = 1 + draw(lab, 4), k = 1 + draw(lab, 4), n = 1 + draw(lab, 4);
  bool ta = draw(lab, 2), tb = draw(lab, 2);
  int a = ta ? matrix(lab, k, m) : matrix(lab, m, k), b = tb ? matrix(lab, n, k) : matrix(lab, k, n);
  return ir_matmul_bias(lab->g, a, ta, b, tb, draw(lab, 2) ? leaf(lab, SHAPE(n), -1, 1) : -1);
}

/* As the model's builder leaves it: both results right behind. */
static int attention(Graph *g, int q, int k, int v, int start, double scale, int64_t window) {
  int in[] = {q, k, v, start};
  int x = graph_push(g, (Node){.op = OP_ATTENTION, .f = scale, .n = {window}, .nin = 4, .in = in}), o = ir_result(g, x, 0);
  ir_result(g, x, 1);
  return o;
}

/* Where each position's segment starts; whole: one segment. */
static int segments(Lab *lab, int64_t b, int64_t s, bool whole) {
  int start = integers(lab, "start", SHAPE(b, s), 1);
  double *at = lab->value[graph_find_var(lab->g, "start")];
  for (int64_t i = 0; i < b * s; i++)
    if (!whole && i % s) at[i] = draw(lab, 3) ? at[i - 1] : (double)(i % s);
  return start;
}

/* Grouped heads, windows and segments, each or not. */
static int case_attention(Lab *lab, Op op) {
  (void)op;
  int64_t b = 1 + draw(lab, 2), s = 1 + draw(lab, 5), d = 1 + draw(lab, 3), kv = 1 + draw(lab, 2), h = kv * (1 + draw(lab, 2));
  int q = leaf(lab, SHAPE(b, s, h, d), -2, 2), k = leaf(lab, SHAPE(b, s, kv, d), -2, 2), v = leaf(lab, SHAPE(b, s, kv, d), -2, 2);
  return attention(lab->g, q, k, v, segments(lab, b, s, draw(lab, 2)), 0.8, draw(lab, 2) ? 0 : 1 + draw(lab, (int)s));
}

static int ids_and_order(Lab *lab, int64_t t, int vocab) {
  int ids = integers(lab, "ids", SHAPE(t), vocab), n = 0;
  lab->order = integers(lab, "order", SHAPE(t), 1);
  const double *id = lab->value[graph_find_var(lab->g, "ids")];
  double *order = lab->value[graph_find_var(lab->g, "order")];
  for (int k = 0; k < vocab; k++)
    for (int64_t i = 0; i < t; i++)
      if (id[i] == k) order[n++] = (double)i;
  return ids;
}

static int case_embedding(Lab *lab, Op op) {
  (void)op;
  int64_t t = 1 + draw(lab, 6), c = 1 + draw(lab, 3);
  int in[] = {matrix(lab, 4, c), ids_and_order(lab, t, 4)};
  return graph_push(lab->g, (Node){.op = OP_EMBEDDING, .nin = 2, .in = in});
}

/* Which pairs of rows and choices go to which expert is no function of anything that is differentiated. */
static Route routes(Lab *lab, int64_t t, int64_t experts, int64_t k) {
  return ir_route(lab->g, ir_cast(lab->g, DT_F32, integers(lab, "scores", SHAPE(t, experts), 5)), k);
}

static int case_take(Lab *lab, Op op) {
  (void)op;
  int64_t t = 1 + draw(lab, 5), k = 1 + draw(lab, 3);
  Route route = routes(lab, t, k + draw(lab, 2), k);
  return ir_take(lab->g, matrix(lab, t, 1 + draw(lab, 3)), route.order, route.inverse, k);
}

static int case_grouped(Lab *lab, Op op) {
  (void)op;
  int64_t t = 1 + draw(lab, 5), e = 1 + draw(lab, 4), k = 1 + draw(lab, (int)e), K = 1 + draw(lab, 3), N = 1 + draw(lab, 3);
  bool tw = draw(lab, 2);
  Route route = routes(lab, t, e, k);
  return ir_grouped(lab->g, matrix(lab, t * k, K), tw ? matrix(lab, e * N, K) : matrix(lab, e * K, N), tw, route.offsets);
}

/* NULL: has no gradient to check (see the test of what stops them), or is no rule's business. */
static Case *const cases[OP_COUNT] = {
    [OP_COPY] = case_pointwise,      [OP_KEEP] = case_pointwise,      [OP_NEG] = case_pointwise,    [OP_EXP] = case_pointwise,
    [OP_EXPM1] = case_pointwise,     [OP_LOG] = case_pointwise,       [OP_SQRT] = case_pointwise,   [OP_RSQRT] = case_pointwise,
    [OP_SIN] = case_pointwise,       [OP_COS] = case_pointwise,       [OP_TANH] = case_pointwise,   [OP_SIGMOID] = case_pointwise,
    [OP_CAST] = case_pointwise,      [OP_ADD] = case_binary,          [OP_SUB] = case_binary,       [OP_MUL] = case_binary,
    [OP_DIV] = case_binary,          [OP_MAX] = case_max_min,         [OP_MIN] = case_max_min,      [OP_SELECT] = case_select,
    [OP_FMA] = case_pointwise,       [OP_RESHAPE] = case_reshape,     [OP_PERMUTE] = case_permute,  [OP_SLICE] = case_slice,
    [OP_BROADCAST] = case_broadcast, [OP_CONCAT] = case_concat,       [OP_SUM] = case_reduce,       [OP_MAXIMUM] = case_reduce,
    [OP_MATMUL] = case_matmul,       [OP_ATTENTION] = case_attention, [OP_RESULT] = case_attention, [OP_EMBEDDING] = case_embedding,
    [OP_TAKE] = case_take,           [OP_GROUPED] = case_grouped,
};

TEST(every_op_has_the_gradient_that_finite_differences_give) {
  for (int op = 0; op < OP_COUNT; op++)
    for (uint64_t seed = 0; seed < 30 && cases[op]; seed++) {
      Lab lab = lab_open(seed);
      check_value(&lab, cases[op](&lab, (Op)op), op_table[op].name);
    }
}

/* Leaves, what is constant almost everywhere, gradients themselves, collectives and roots; a new op is none of these. */
TEST(no_differentiable_op_lacks_a_case) {
  static const bool without[OP_COUNT] = {
      [OP_CONST] = true,
      [OP_TABLE] = true,
      [OP_IOTA] = true,
      [OP_LOAD] = true,
      [OP_STOP] = true,
      [OP_FINITE] = true,
      [OP_UPPER] = true,
      [OP_LOWER] = true,
      [OP_BITS] = true,
      [OP_JOIN] = true,
      [OP_RANDOM] = true,
      [OP_SHIFT] = true,
      [OP_DITHER] = true,
      [OP_LT] = true,
      [OP_LE] = true,
      [OP_EQ] = true,
      [OP_AND] = true,
      [OP_ATTENTION_GRAD] = true,
      [OP_EMBEDDING_GRAD] = true,
      [OP_ROUTE] = true,
      [OP_GROUPED_GRAD] = true,
      [OP_ALL_GATHER] = true,
      [OP_REDUCE_SCATTER] = true,
      [OP_ALL_TO_ALL] = true,
      [OP_ALL_REDUCE] = true,
      [OP_FETCH] = true,
      [OP_SEND] = true,
      [OP_STORE] = true,
  };
  for (int op = 0; op < OP_COUNT; op++)
    if (!cases[op] == !without[op]) check_failed(__FILE__, __LINE__, "%s", op_table[op].name);
}

/* --- what a gradient does not pass ---------------------------------------------------------------------------------------- */

TEST(what_stops_gradients_gives_none) {
  Lab lab = lab_open(1);
  Graph *g = lab.g;
  int x = matrix(&lab, 2, 3), y = matrix(&lab, 2, 3), unused = matrix(&lab, 2, 2), grads[3];
  int whole = ir_cast(g, DT_F32, ir_cast(g, DT_I32, x)), pred = ir_binary(g, OP_LT, x, y);
  int stopped = ir_mul(g, ir_unary(g, OP_STOP, x), ir_add(g, whole, ir_cast(g, DT_F32, pred)));
  graph_differentiate(g, ir_sum_all(g, ir_mul(g, stopped, y)), ir_const(g, DT_F32, 1), (int[]){x, y, unused}, 3, -1, grads);
  EXPECT(grads[0] == -1 && grads[1] >= 0 && grads[2] == -1);
  arena_close(lab.arena);
}

TEST(gradients_lie_in_the_backward_phase_and_the_scope_of_their_node) {
  Lab lab = lab_open(1);
  Graph *g = lab.g;
  int x = matrix(&lab, 2, 3), grad;
  graph_enter(g, "layers.0", SCOPE_BLOCK);
  int y = ir_unary(g, OP_EXP, x);
  g->scope = 0;
  int loss = ir_sum_all(g, y), seed = ir_const(g, DT_F32, 1), first = g->nodes.n;
  graph_differentiate(g, loss, seed, &x, 1, -1, &grad);
  for (int i = first; i < g->nodes.n; i++) EXPECT(graph_node(g, i)->phase == PHASE_BACKWARD);
  EXPECT(graph_node(g, grad)->scope == 1);
  EXPECT(g->phase == PHASE_FORWARD && g->scope == 0);
  arena_close(lab.arena);
}

TEST(a_gradient_by_an_inner_node_is_as_by_a_leaf_in_its_place) {
  Lab lab = lab_open(2);
  Graph *g = lab.g;
  int x = matrix(&lab, 2, 3), inner = ir_unary(g, OP_TANH, x), grads[2];
  int loss = ir_sum_all(g, ir_mul(g, inner, inner));
  graph_differentiate(g, loss, ir_const(g, DT_F32, 1), (int[]){x, inner}, 2, -1, grads);
  int expected = ir_scale(g, inner, 2), v = lab_var(&lab, "difference", DT_F32, SHAPE(2, 3));
  ir_store(g, "difference", ir_sub(g, grads[1], expected));
  graph_interpret(g, lab.value, NULL, NULL);
  for (int i = 0; i < 6; i++) EXPECT(fabs(lab.value[v][i]) < 1e-15);
  arena_close(lab.arena);
}

/* The gradient of a stacked product that is cut by rows is made in one piece, without zeros and additions. */
TEST(a_stack_that_is_cut_has_its_gradient_joined_not_added) {
  Lab lab = lab_open(3);
  Graph *g = lab.g;
  int flat = leaf(&lab, SHAPE(24), -1, 1), x = matrix(&lab, 5, 4), grad, sum = -1;
  int y = ir_matmul(g, x, false, ir_reshape(g, flat, SHAPE(6, 4)), true);
  for (int i = 0; i < 3; i++) {
    int part = ir_sum_all(g, ir_unary(g, i ? OP_SIN : OP_EXP, ir_slice(g, y, 1, 2 * i, 2 * i + 2)));
    sum = i ? ir_add(g, sum, part) : part;
  }
  graph_differentiate(g, sum, ir_const(g, DT_F32, 1), &flat, 1, -1, &grad);
  lab_var(&lab, "grad", DT_F32, SHAPE(24));
  ir_store(g, "grad", grad);
  Graph *s = graph_simplify(g, lab.arena);
  int count[OP_COUNT] = {0};
  for (int i = 0; i < s->nodes.n; i++) count[graph_node(s, i)->op]++;
  EXPECT(count[OP_MATMUL] == 2 && count[OP_CONCAT] == 1 && count[OP_ADD] == 0);
  arena_close(lab.arena);
}

/* Four leaves cut from one flat vector, used apart and as a stack: the vector's gradient is whole, without a concat. */
TEST(the_gradient_of_stacked_leaves_is_the_product_itself) {
  Lab lab = lab_open(4);
  Graph *g = lab.g;
  int x = matrix(&lab, 5, 4), w[3], grads[3], vectors[3];
  for (int i = 0; i < 3; i++) w[i] = matrix(&lab, 2, 4);
  int y = ir_matmul(g, x, false, ir_concat(g, w, 3, 0), true);
  graph_differentiate(g, ir_sum_all(g, ir_unary(g, OP_EXP, y)), ir_const(g, DT_F32, 1), w, 3, -1, grads);
  for (int i = 0; i < 3; i++) vectors[i] = ir_reshape(g, grads[i], SHAPE(8));
  lab_var(&lab, "grad", DT_F32, SHAPE(24));
  ir_store(g, "grad", ir_concat(g, vectors, 3, 0));
  Graph *s = graph_simplify(g, lab.arena);
  const Node *store = graph_node(s, s->nodes.n - 1), *flat = graph_node(s, store->in[0]);
  EXPECT(flat->op == OP_RESHAPE && graph_node(s, flat->in[0])->op == OP_MATMUL);
  arena_close(lab.arena);
}

/* --- composites --------------------------------------------------------------------------------------------------------- */

static int rmsnorm(Graph *g, int x, int gain) {
  Shape s = graph_node(g, x)->shape;
  int sum = ir_reduce(g, OP_SUM, ir_mul(g, x, x), s.rank - 1);
  int mean = ir_add(g, ir_scale(g, sum, 1.0 / (double)s.dim[s.rank - 1]), ir_const(g, DT_F32, 1e-5));
  return ir_mul(g, ir_mul(g, x, ir_unary(g, OP_RSQRT, mean)), gain);
}

/* x: (B,S,H,D), halves turned by the position times a frequency a column. */
static int rope(Graph *g, int x) {
  Shape s = graph_node(g, x)->shape;
  int64_t half = s.dim[3] / 2;
  double frequency[4];
  CHECK(half <= 4);
  for (int64_t i = 0; i < half; i++) frequency[i] = pow(100, -(double)i / (double)half);
  int position = ir_cast(g, DT_F32, ir_iota(g, DT_I32, SHAPE(1, s.dim[1], 1, 1), 1));
  int angle = ir_mul(g, position, ir_reshape(g, ir_table(g, frequency, half), SHAPE(1, 1, 1, half)));
  int c = ir_unary(g, OP_COS, angle), n = ir_unary(g, OP_SIN, angle);
  int a = ir_slice(g, x, 3, 0, half), b = ir_slice(g, x, 3, half, 2 * half);
  int turned[] = {ir_sub(g, ir_mul(g, a, c), ir_mul(g, b, n)), ir_add(g, ir_mul(g, b, c), ir_mul(g, a, n))};
  return ir_concat(g, turned, 2, 3);
}

static int swiglu(Graph *g, int gate, int up) { return ir_mul(g, ir_mul(g, gate, ir_unary(g, OP_SIGMOID, gate)), up); }

/* Sum over tokens of -log softmax(logits)[label]; labels below 0 do not count. */
static int cross_entropy(Graph *g, int logits, int labels) {
  Shape s = graph_node(g, logits)->shape;
  int label = ir_reshape(g, labels, SHAPE(s.dim[0], 1)), zero = ir_const(g, DT_F32, 0);
  int z = ir_sub(g, logits, ir_unary(g, OP_STOP, ir_reduce(g, OP_MAXIMUM, logits, 1)));
  int lse = ir_unary(g, OP_LOG, ir_reduce(g, OP_SUM, ir_unary(g, OP_EXP, z), 1));
  int hit = ir_binary(g, OP_EQ, ir_iota(g, DT_I32, s, 1), label);
  int picked = ir_reduce(g, OP_SUM, ir_select(g, hit, z, zero), 1);
  int counts = ir_binary(g, OP_LE, ir_const(g, DT_I32, 0), label);
  return ir_sum_all(g, ir_select(g, counts, ir_sub(g, lse, picked), zero));
}

static int labels_of(Lab *lab, int64_t t, int vocab) {
  int labels = integers(lab, "labels", SHAPE(t), vocab);
  for (int64_t i = 0; i < t; i += 3) lab->value[graph_find_var(lab->g, "labels")][i] = -100;
  return labels;
}

TEST(rmsnorm_has_the_right_gradient) {
  for (int64_t n = 1; n <= 5; n += 2) {
    Lab lab = lab_open((uint64_t)n);
    int x = leaf(&lab, SHAPE(3, n), -2, 2), gain = leaf(&lab, SHAPE(n), 0.5, 2);
    check_value(&lab, rmsnorm(lab.g, x, gain), "rmsnorm");
  }
}

TEST(rope_has_the_right_gradient) {
  Lab lab = lab_open(1);
  int x = leaf(&lab, SHAPE(2, 5, 3, 4), -2, 2);
  check_value(&lab, rope(lab.g, x), "rope");
}

TEST(swiglu_of_a_stacked_product_has_the_right_gradient) {
  Lab lab = lab_open(1);
  Graph *g = lab.g;
  int x = matrix(&lab, 3, 4), stack[] = {matrix(&lab, 5, 4), matrix(&lab, 5, 4)};
  int y = ir_matmul(g, x, false, ir_concat(g, stack, 2, 0), true);
  check_value(&lab, swiglu(g, ir_slice(g, y, 1, 0, 5), ir_slice(g, y, 1, 5, 10)), "swiglu");
}

TEST(cross_entropy_with_ignored_labels_has_the_right_gradient) {
  Lab lab = lab_open(1);
  int logits = leaf(&lab, SHAPE(7, 5), -3, 3);
  check_loss(&lab, cross_entropy(lab.g, logits, labels_of(&lab, 7, 5)), "cross entropy");
  arena_close(lab.arena);
}

TEST(a_matrix_that_embeds_and_unembeds_has_both_gradients) {
  Lab lab = lab_open(1);
  Graph *g = lab.g;
  int table = matrix(&lab, 5, 3), in[] = {table, ids_and_order(&lab, 6, 5)};
  int x = ir_unary(g, OP_TANH, graph_push(g, (Node){.op = OP_EMBEDDING, .nin = 2, .in = in}));
  check_loss(&lab, cross_entropy(g, ir_matmul(g, x, false, table, true), labels_of(&lab, 6, 5)), "tied embedding");
  arena_close(lab.arena);
}

/* Cut by rows of a product over (T,width): heads from column `from` on. */
static int heads(Graph *g, int y, int64_t from, int64_t n, Shape s) {
  return ir_reshape(g, ir_slice(g, y, 1, from, from + n * s.dim[3]), SHAPE(s.dim[0], s.dim[1], n, s.dim[3]));
}

static int block(Lab *lab, int x, int start, Shape s) {
  Graph *g = lab->g;
  int64_t h = s.dim[2], kv = 1, d = s.dim[3], c = h * d, t = s.dim[0] * s.dim[1], f = 5;
  int qkv[] = {matrix(lab, c, c), matrix(lab, kv * d, c), matrix(lab, kv * d, c)};
  int y = ir_matmul(g, rmsnorm(g, x, leaf(lab, SHAPE(c), 0.5, 2)), false, ir_concat(g, qkv, 3, 0), true);
  int q = rope(g, heads(g, y, 0, h, s)), k = rope(g, heads(g, y, c, kv, s)), v = heads(g, y, c + kv * d, kv, s);
  int o = attention(g, q, k, v, start, 1 / sqrt((double)d), 0);
  x = ir_add(g, x, ir_matmul(g, ir_reshape(g, o, SHAPE(t, c)), false, matrix(lab, c, c), true));
  int stack[] = {matrix(lab, f, c), matrix(lab, f, c)};
  y = ir_matmul(g, rmsnorm(g, x, leaf(lab, SHAPE(c), 0.5, 2)), false, ir_concat(g, stack, 2, 0), true);
  y = swiglu(g, ir_slice(g, y, 1, 0, f), ir_slice(g, y, 1, f, 2 * f));
  return ir_add(g, x, ir_matmul(g, y, false, matrix(lab, c, f), true));
}

TEST(a_small_llama_has_the_right_gradient) {
  Lab lab = lab_open(5);
  Graph *g = lab.g;
  Shape s = SHAPE(2, 3, 2, 2);
  int64_t t = 6, c = 4;
  int start = segments(&lab, 2, 3, false), table = matrix(&lab, 7, c), in[] = {table, ids_and_order(&lab, t, 7)};
  int x = graph_push(g, (Node){.op = OP_EMBEDDING, .nin = 2, .in = in});
  for (int l = 0; l < 2; l++) {
    int before = graph_enter(g, arena_printf(lab.arena, "layers.%d", l), SCOPE_BLOCK);
    x = block(&lab, x, start, s);
    g->scope = before;
  }
  x = rmsnorm(g, x, leaf(&lab, SHAPE(c), 0.5, 2));
  check_loss(&lab, cross_entropy(g, ir_matmul(g, x, false, table, true), labels_of(&lab, t, 7)), "llama");
  arena_close(lab.arena);
}

/* --- random graphs ------------------------------------------------------------------------------------------------------ */

static int loss_of_stores(Graph *g) {
  int loss = ir_const(g, DT_F32, 0);
  for (int i = 0, n = g->nodes.n; i < n; i++) {
    const Node *node = graph_node(g, i);
    if (node->op != OP_STORE || strncmp(node->name, "out", 3) != 0) continue;
    int scaled = ir_unary(g, OP_TANH, ir_scale(g, node->in[0], 0.25));
    loss = ir_add(g, loss, ir_scale(g, ir_sum_all(g, scaled), 1.0 / (double)shape_size(&node->shape)));
  }
  return loss;
}

/* Every LOAD of a var has a gradient of its own; they add up. */
static int gradient_of_var(Graph *g, int loss, int v) {
  VEC(int) loads = {0};
  for (int i = 0, n = g->nodes.n; i < n; i++)
    if (graph_node(g, i)->op == OP_LOAD && graph_find_var(g, graph_node(g, i)->name) == v) vec_push(g->arena, &loads, i);
  int *grads = arena_array(g->arena, int, loads.n), sum = -1;
  graph_differentiate(g, loss, ir_const(g, DT_F32, SEED), loads.at, loads.n, -1, grads);
  for (int i = 0; i < loads.n; i++)
    if (grads[i] >= 0) sum = sum < 0 ? grads[i] : ir_add(g, sum, grads[i]);
  return sum;
}

TEST(random_graphs_have_the_gradients_that_finite_differences_give) {
  int compared = 0;
  for (uint64_t seed = 0; seed < 60; seed++) {
    Lab lab = lab_open(seed);
    Graph *g = lab.g = random_graph(lab.arena, (RandomSpec){.seed = seed, .nodes = 60, .elements = 256, .smooth = true});
    double **value = random_values(lab.arena, g, seed);
    int loss = loss_of_stores(g), vars[] = {graph_find_var(g, "x"), graph_find_var(g, "gain")}, at[2] = {-1, -1};
    for (int v = 0; v < g->vars.n; v++) lab.value[v] = value[v];
    int loss_var = lab_var(&lab, "loss", DT_F32, shape_scalar());
    ir_store(g, "loss", loss);
    Graph *forward = graph_simplify(g, lab.arena);
    for (int k = 0; k < 2; k++) {
      int grad = gradient_of_var(g, loss, vars[k]);
      if (grad < 0) continue;
      at[k] = lab_var(&lab, arena_printf(lab.arena, "grad%d", k), DT_F32, g->vars.at[vars[k]].shape);
      ir_store(g, g->vars.at[at[k]].name, grad);
    }
    graph_check(g, "diff");
    graph_interpret(g, lab.value, NULL, NULL);
    for (int k = 0; k < 2; k++) {
      if (at[k] < 0) continue;
      compare(forward, &lab, vars[k], lab.value[at[k]], loss_var, 7, arena_printf(lab.arena, "seed %d", (int)seed));
      compared++;
    }
    arena_close(lab.arena);
  }
  EXPECT(compared > 60);
}
