/* SPDX-License-Identifier: Apache-2.0 */
/* Every op of the table on a CPU against the interpreter: shapes of all ranks with extents of 1 and odd ones, operands behind
 * views, all types that the op takes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "src/base/rng.h"
#include "test/check.h"
#include "test/unit/device_cases.h"
#include "test/unit/random_graph.h"

static const double TOLERANCE = 2e-6; /* of one op, relative to the norm of its result */

typedef struct Lab {
  Graph *g;
  Rng rng;
  uint64_t drawn;
  int vars, outs;
} Lab;

static int64_t draw(Lab *lab, int64_t n) {
  uint32_t words[4];
  rng_words(&lab->rng, lab->drawn++, words);
  return (int64_t)(words[0] % (uint64_t)n);
}

static Shape draw_shape(Lab *lab, int min_rank) {
  static const int64_t dims[] = {1, 1, 2, 3, 5, 7, 8, 16, 17, 33, 70};
  Shape s = {.rank = min_rank + (int)draw(lab, IR_RANK + 1 - min_rank)};
  for (int i = 0; i < s.rank; i++) s.dim[i] = dims[draw(lab, sizeof dims / sizeof *dims)];
  while (shape_size(&s) > 5000) s.dim[draw(lab, s.rank)] = 1;
  return s;
}

/* --- operands ----------------------------------------------------------------------------------------------------------- */

static int load(Lab *lab, DType dtype, Shape shape) {
  const char *name = arena_printf(lab->g->arena, "in%d", lab->vars++);
  graph_var(lab->g, (Var){.name = name, .class = VAR_INPUT, .dtype = dtype, .shape = shape});
  return ir_load(lab->g, name);
}

/* A part of a larger Var, turned. */
static int load_view(Lab *lab, DType dtype, Shape shape) {
  int axes[IR_RANK], back[IR_RANK];
  Shape large = shape;
  for (int i = 0; i < shape.rank; i++) { /* Fisher-Yates, inside out */
    int j = (int)draw(lab, i + 1);
    axes[i] = axes[j];
    axes[j] = i;
  }
  for (int i = 0; i < shape.rank; i++) back[axes[i]] = i, large.dim[i] = shape.dim[axes[i]];
  int axis = (int)draw(lab, shape.rank);
  int64_t lo = draw(lab, 3), n = large.dim[axis];
  large.dim[axis] = lo + n + draw(lab, 3);
  return ir_permute(lab->g, ir_slice(lab->g, load(lab, dtype, large), axis, lo, lo + n), back);
}

static int operand(Lab *lab, DType dtype, Shape shape) {
  if (dtype == DT_PRED) return ir_binary(lab->g, OP_LT, operand(lab, DT_F32, shape), operand(lab, DT_F32, shape));
  return shape.rank && draw(lab, 2) ? load_view(lab, dtype, shape) : load(lab, dtype, shape);
}

static void output(Lab *lab, int x) {
  const char *name = arena_printf(lab->g->arena, "out%d", lab->outs++);
  const Node *node = graph_node(lab->g, x);
  graph_var(lab->g, (Var){.name = name, .class = VAR_OUTPUT, .dtype = node->dtype, .shape = node->shape});
  ir_store(lab->g, name, x);
}

/* --- a case an op --------------------------------------------------------------------------------------------------------- */

typedef void Case(Lab *lab, Op op);

static void case_const(Lab *lab, Op op) {
  (void)op;
  for (DType t = 0; t < DT_COUNT; t++) output(lab, ir_const(lab->g, t, t == DT_PRED ? 1 : -3));
  output(lab, ir_const(lab->g, DT_F32, -0.0));
  output(lab, ir_broadcast(lab->g, ir_const(lab->g, DT_F32, 0.1), draw_shape(lab, 1)));
}

static void case_table(Lab *lab, Op op) {
  (void)op;
  static const double values[] = {0.1, -0.0, 1e30, 3, 1e-30};
  output(lab, ir_table(lab->g, values, 1));
  output(lab, ir_reshape(lab->g, ir_table(lab->g, values, 5), SHAPE(5, 1)));
}

static void case_iota(Lab *lab, Op op) {
  (void)op;
  Shape s = draw_shape(lab, 1);
  for (int axis = 0; axis < s.rank; axis++) output(lab, ir_iota(lab->g, draw(lab, 2) ? DT_I32 : DT_I64, s, axis));
}

static void case_load(Lab *lab, Op op) {
  (void)op;
  for (DType t = 0; t < DT_PRED; t++) output(lab, operand(lab, t, draw_shape(lab, 0)));
}

static void push(Lab *lab, Op op, DType dtype, int nin, const int *in) {
  output(lab, graph_push(lab->g, (Node){.op = op, .dtype = dtype, .nin = nin, .in = (int *)in}));
}

static void pointwise(Lab *lab, Op op, DType dtype) {
  Shape s = draw_shape(lab, 0);
  int in[3];
  for (int k = 0; k < op_table[op].nin; k++) in[k] = operand(lab, dtype, s);
  push(lab, op, dtype, op_table[op].nin, in);
}

static void case_float(Lab *lab, Op op) { pointwise(lab, op, DT_F32); }

static void case_number(Lab *lab, Op op) {
  for (DType t = 0; t < DT_PRED; t++) pointwise(lab, op, t);
}

static void case_any(Lab *lab, Op op) {
  for (DType t = 0; t < DT_COUNT; t++) pointwise(lab, op, t);
}

static void case_pred(Lab *lab, Op op) { pointwise(lab, op, DT_PRED); }

static void case_cast(Lab *lab, Op op) {
  Shape s = draw_shape(lab, 0);
  for (DType from = 0; from < DT_COUNT; from++)
    for (DType to = 0; to < DT_COUNT; to++) push(lab, op, to, 1, (int[]){operand(lab, from, s)});
}

static void case_join(Lab *lab, Op op) {
  Shape s = draw_shape(lab, 0);
  push(lab, op, DT_F32, 2, (int[]){operand(lab, DT_BF16, s), operand(lab, DT_I16, s)});
}

static void case_random(Lab *lab, Op op) { pointwise(lab, op, DT_I64); }

static void case_shift(Lab *lab, Op op) { pointwise(lab, op, DT_I32); }

static int draws(Lab *lab, Shape shape) {
  int key = ir_broadcast(lab->g, ir_const(lab->g, DT_I64, 12345), shape);
  int counter = shape.rank ? ir_iota(lab->g, DT_I64, shape, 0) : ir_const(lab->g, DT_I64, 7);
  return ir_binary(lab->g, OP_RANDOM, key, counter);
}

static void case_dither(Lab *lab, Op op) {
  Shape s = draw_shape(lab, 0);
  push(lab, op, DT_BF16, 2, (int[]){operand(lab, DT_F32, s), draws(lab, s)});
  push(lab, op, DT_BF16, 2, (int[]){operand(lab, DT_F32, s), operand(lab, DT_I32, s)});
}

static void case_select(Lab *lab, Op op) {
  Shape s = draw_shape(lab, 0);
  for (DType t = 0; t < DT_COUNT; t++)
    push(lab, op, t, 3, (int[]){operand(lab, DT_PRED, s), operand(lab, t, s), operand(lab, t, s)});
}

static void case_reshape(Lab *lab, Op op) {
  (void)op;
  int x = operand(lab, (DType)draw(lab, DT_PRED), draw_shape(lab, 0));
  int64_t n = shape_size(&graph_node(lab->g, x)->shape), most = 1;
  for (int64_t d = 1; d * d <= n; d++)
    if (n % d == 0) most = d;
  output(lab, ir_reshape(lab->g, x, SHAPE(n)));
  output(lab, ir_reshape(lab->g, x, SHAPE(most, 1, n / most)));
}

static void case_permute(Lab *lab, Op op) {
  (void)op;
  Shape s = draw_shape(lab, 2);
  int axes[IR_RANK];
  for (int i = 0; i < s.rank; i++) axes[i] = (i + 1 + (int)lab->vars % 2) % s.rank;
  output(lab, ir_permute(lab->g, operand(lab, (DType)draw(lab, DT_PRED), s), axes));
}

static void case_slice(Lab *lab, Op op) {
  (void)op;
  Shape s = draw_shape(lab, 1);
  int axis = (int)draw(lab, s.rank);
  int64_t lo = draw(lab, s.dim[axis]), hi = lo + 1 + draw(lab, s.dim[axis] - lo);
  output(lab, ir_slice(lab->g, operand(lab, (DType)draw(lab, DT_PRED), s), axis, lo, hi));
}

static void case_broadcast(Lab *lab, Op op) {
  (void)op;
  Shape s = draw_shape(lab, 1), one = s;
  for (int i = 0; i < s.rank; i++)
    if (draw(lab, 2)) one.dim[i] = 1;
  output(lab, ir_broadcast(lab->g, operand(lab, (DType)draw(lab, DT_PRED), one), s));
}

static void case_concat(Lab *lab, Op op) {
  (void)op;
  Shape s = draw_shape(lab, 1);
  int axis = (int)draw(lab, s.rank), n = 1 + (int)draw(lab, 4), in[4];
  DType dtype = (DType)draw(lab, DT_PRED);
  for (int i = 0; i < n; i++) {
    s.dim[axis] = 1 + draw(lab, 4);
    in[i] = i && draw(lab, 4) == 0 && shape_equal(&graph_node(lab->g, in[i - 1])->shape, &s) ? in[i - 1] : operand(lab, dtype, s);
  }
  output(lab, ir_concat(lab->g, in, n, axis));
}

static void case_reduce(Lab *lab, Op op) {
  Shape s = draw_shape(lab, 1);
  int x = operand(lab, DT_F32, s);
  for (int axis = 0; axis < s.rank; axis++) output(lab, ir_reduce(lab->g, op, x, axis));
  if (op == OP_SUM) output(lab, ir_sum_all(lab->g, x));
}

static int64_t draw_extent(Lab *lab) {
  static const int64_t extents[] = {1, 1, 2, 3, 5, 13, 16, 31, 33, 64, 67};
  return extents[draw(lab, sizeof extents / sizeof *extents)];
}

static void case_matmul(Lab *lab, Op op) {
  (void)op;
  int64_t M = draw_extent(lab), N = draw_extent(lab), K = draw_extent(lab);
  for (int t = 0; t < 4; t++) {
    bool ta = t & 1, tb = t & 2;
    int a = operand(lab, DT_F32, ta ? SHAPE(K, M) : SHAPE(M, K)), b = operand(lab, DT_F32, tb ? SHAPE(N, K) : SHAPE(K, N));
    output(lab, ir_matmul_bias(lab->g, a, ta, b, tb, t > 1 ? operand(lab, DT_F32, SHAPE(N)) : -1));
  }
}

static int special(Lab *lab, const char *name, Shape shape) {
  graph_var(lab->g, (Var){.name = name, .class = VAR_INPUT, .dtype = DT_I32, .shape = shape});
  return ir_load(lab->g, name);
}

static void case_attention(Lab *lab, Op op) {
  static const int64_t lengths[] = {1, 2, 5, 17, 40}, sizes[] = {1, 2, 5, 8, 16};
  Graph *g = lab->g;
  int64_t B = 1 + draw(lab, 2), S = lengths[draw(lab, 5)], G = 1 + draw(lab, 2), H = G * (1 + draw(lab, 3)),
          D = sizes[draw(lab, 5)];
  int q = operand(lab, DT_F32, SHAPE(B, S, H, D)), k = operand(lab, DT_F32, SHAPE(B, S, G, D)),
      v = operand(lab, DT_F32, SHAPE(B, S, G, D));
  int start = special(lab, "start", SHAPE(B, S)), o = ir_attention(g, q, k, v, start, 0.3, draw(lab, 2) * (1 + draw(lab, S)));
  const Node node = *graph_node(g, graph_node(g, o)->in[0]);
  int lse = ir_result(g, graph_node(g, o)->in[0], 1);
  output(lab, o);
  output(lab, lse);
  if (op == OP_ATTENTION) return;
  int in[] = {operand(lab, DT_F32, SHAPE(B, S, H, D)), q, k, v, o, lse, start};
  int grad = graph_push(g, (Node){.op = op, .f = node.f, .n = {node.n[0]}, .nin = 7, .in = in});
  for (int i = 0; i < 3; i++) output(lab, ir_result(g, grad, i));
}

static void case_embedding(Lab *lab, Op op) {
  int64_t T = draw_extent(lab), C = draw_extent(lab);
  int ids = special(lab, "ids", SHAPE(T)), order = special(lab, "order", SHAPE(T));
  int in[] = {operand(lab, DT_F32, op == OP_EMBEDDING ? SHAPE(13, C) : SHAPE(T, C)), ids, order};
  output(lab, graph_push(lab->g, (Node){.op = op, .n = {13}, .nin = op == OP_EMBEDDING ? 2 : 3, .in = in}));
}

static void case_route(Lab *lab, Op op) {
  (void)op;
  int64_t T = draw_extent(lab), E = draw_extent(lab);
  int x = operand(lab, DT_F32, SHAPE(T, E));
  output(lab, graph_push(lab->g, (Node){.op = OP_ROUTE, .n = {1 + draw(lab, (int)E)}, .nin = 1, .in = &x}));
}

/* By routes of scores of their own: experts without a row, too. */
static void case_experts(Lab *lab, Op op) {
  Graph *g = lab->g;
  int64_t T = draw_extent(lab), E = 1 + draw(lab, 5), K = draw_extent(lab), N = draw_extent(lab), k = 1 + draw(lab, (int)E);
  Route route = ir_route(g, operand(lab, DT_F32, SHAPE(T, E)), k);
  bool plain = draw(lab, 2);
  int w[] = {operand(lab, DT_F32, SHAPE(T * k, K)), operand(lab, DT_F32, plain ? SHAPE(E * K, N) : SHAPE(E * N, K))};
  int ab[] = {w[0], operand(lab, DT_F32, SHAPE(T * k, N)), route.offsets};
  if (op == OP_TAKE) output(lab, ir_take(g, operand(lab, DT_F32, SHAPE(T, K)), route.order, route.inverse, k));
  if (op == OP_GROUPED) output(lab, ir_grouped(g, w[0], w[1], !plain, route.offsets));
  if (op == OP_GROUPED_GRAD) output(lab, graph_push(g, (Node){.op = op, .nin = 3, .in = ab}));
}

static void case_collective(Lab *lab, Op op) {
  Shape s = draw_shape(lab, 1);
  int x = ir_reshape(lab->g, operand(lab, DT_F32, s), SHAPE(shape_size(&s)));
  output(lab, graph_push(lab->g, (Node){.op = op, .n = {2, 1}, .nin = 1, .in = &x}));
}

static void case_transfer(Lab *lab, Op op) {
  (void)op;
  output(lab, ir_unary(lab->g, OP_FETCH, ir_unary(lab->g, OP_SEND, operand(lab, DT_F32, draw_shape(lab, 3)))));
}

static Case *const cases[OP_COUNT] = {
    [OP_CONST] = case_const,
    [OP_TABLE] = case_table,
    [OP_IOTA] = case_iota,
    [OP_LOAD] = case_load,
    [OP_COPY] = case_any,
    [OP_STOP] = case_any,
    [OP_KEEP] = case_float,
    [OP_NEG] = case_float,
    [OP_EXP] = case_float,
    [OP_EXPM1] = case_float,
    [OP_LOG] = case_float,
    [OP_SQRT] = case_float,
    [OP_RSQRT] = case_float,
    [OP_SIN] = case_float,
    [OP_COS] = case_float,
    [OP_TANH] = case_float,
    [OP_SIGMOID] = case_float,
    [OP_FINITE] = case_float,
    [OP_CAST] = case_cast,
    [OP_UPPER] = case_float,
    [OP_LOWER] = case_float,
    [OP_BITS] = case_float,
    [OP_JOIN] = case_join,
    [OP_RANDOM] = case_random,
    [OP_SHIFT] = case_shift,
    [OP_DITHER] = case_dither,
    [OP_ADD] = case_number,
    [OP_SUB] = case_number,
    [OP_MUL] = case_number,
    [OP_DIV] = case_float,
    [OP_MAX] = case_number,
    [OP_MIN] = case_number,
    [OP_LT] = case_number,
    [OP_LE] = case_number,
    [OP_EQ] = case_number,
    [OP_AND] = case_pred,
    [OP_SELECT] = case_select,
    [OP_FMA] = case_float,
    [OP_RESHAPE] = case_reshape,
    [OP_PERMUTE] = case_permute,
    [OP_SLICE] = case_slice,
    [OP_BROADCAST] = case_broadcast,
    [OP_CONCAT] = case_concat,
    [OP_SUM] = case_reduce,
    [OP_MAXIMUM] = case_reduce,
    [OP_MATMUL] = case_matmul,
    [OP_ATTENTION] = case_attention,
    [OP_ATTENTION_GRAD] = case_attention,
    [OP_EMBEDDING] = case_embedding,
    [OP_EMBEDDING_GRAD] = case_embedding,
    [OP_ROUTE] = case_route,
    [OP_TAKE] = case_experts,
    [OP_GROUPED] = case_experts,
    [OP_GROUPED_GRAD] = case_experts,
    [OP_RESULT] = case_attention,
    [OP_ALL_GATHER] = case_collective,
    [OP_REDUCE_SCATTER] = case_collective,
    [OP_ALL_TO_ALL] = case_collective,
    [OP_ALL_REDUCE] = case_collective,
    [OP_FETCH] = case_transfer,
    [OP_SEND] = case_transfer,
    [OP_STORE] = case_load,
};

/* --- all of them ---------------------------------------------------------------------------------------------------------- */

/* Ints from -4 to 4; floats of which some are equal, infinite, not numbers, or zeros of either sign. */
static double **values_of(Arena *arena, const Graph *g, uint64_t seed, bool wild) {
  static const double odd[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1, 1, 1e18, 1e-20};
  double **values = random_values(arena, g, seed);
  for (int v = 0; v < g->vars.n; v++) {
    const Var *var = &g->vars.at[v];
    Rng rng = rng_make(seed, RNG_TEST, var->name, 7);
    for (int64_t i = 0; i < shape_size(&var->shape); i++) {
      double u = rng_uniform(&rng, (uint64_t)i);
      if (!strncmp(var->name, "in", 2) && var->dtype != DT_F32) values[v][i] = floor(u * 9) - 4;
      if (wild && var->dtype == DT_F32 && u < 0.3) values[v][i] = (float)odd[(int)(u * 30)];
    }
  }
  return values;
}

static bool is_wild(Op op) {
  OpKind kind = op_table[op].kind;
  return (kind == KIND_POINTWISE && op != OP_CAST && op != OP_SIN && op != OP_COS) || kind == KIND_VIEW || op == OP_MAXIMUM;
}

static void expect_right(int rounds, bool wild, double tolerance) {
  DeviceCases *all = device_cases_open();
  for (Op op = 0; op < OP_COUNT; op++)
    for (int round = 0; round < rounds && (!wild || is_wild(op)); round++) {
      Lab lab = {.g = graph_open(all->arena), .rng = rng_make((uint64_t)round, RNG_TEST, op_table[op].name, 0)};
      for (int i = 0; i < (op_table[op].kind < KIND_BIG ? 3 : 1); i++) cases[op](&lab, op == OP_RESULT ? OP_ATTENTION : op);
      char label[64];
      snprintf(label, sizeof label, "%s, round %d", op_table[op].name, round);
      device_cases_add(all, lab.g, values_of(all->arena, lab.g, (uint64_t)round, wild), label);
    }
  Choices choices = {.units_alive = 2, .matmul = "auto", .threads = 2};
  DeviceResults results = device_cases_run(all, &choices);
  EXPECT_TEXT(device_compare(all, &results, tolerance), "");
  device_cases_close(all);
}

TEST(every_op_computes_what_the_interpreter_says) { expect_right(2, false, TOLERANCE); }

/* Values of pointwise ops and maxima are exact, or infinite, or no numbers, just where the interpreter's are. */
TEST(infinities_nans_and_zeros_too) { expect_right(1, true, 1e-5); }

TEST(every_op_has_a_case) {
  for (Op op = 0; op < OP_COUNT; op++) EXPECT(cases[op]);
}
