/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/kernel_graphs.h"

static int var(Graph *g, const char *name, DType dtype, Shape shape) {
  graph_var(g, (Var){.name = name, .class = VAR_CARRY, .dtype = dtype, .shape = shape});
  return ir_load(g, name);
}

static int cast(Graph *g, DType type, int x) { return graph_node(g, x)->dtype == type ? x : ir_cast(g, type, x); }

/* An activation, ready for arithmetic. */
static int in(Graph *g, const char *name, DType type, Shape shape) { return cast(g, DT_F32, var(g, name, type, shape)); }

/* A vector as all rows of the shape. */
static int in_rows(Graph *g, const char *name, DType type, Shape shape) {
  return cast(g, DT_F32, ir_broadcast(g, var(g, name, type, SHAPE(1, shape.dim[1])), shape));
}

static void out(Graph *g, const char *name, DType type, int x) {
  graph_var(g, (Var){.name = name, .class = VAR_CARRY, .dtype = type, .shape = graph_node(g, x)->shape});
  ir_store(g, name, cast(g, type, x));
}

static int mean(Graph *g, int x, int64_t n) { return ir_scale(g, ir_reduce(g, OP_SUM, x, 1), 1.0 / (double)n); }

void graph_norm(Graph *g, int64_t T, int64_t C, DType type) {
  int x = in(g, "x", type, SHAPE(T, C)), r = in(g, "r", type, SHAPE(T, C)), w = in_rows(g, "w", type, SHAPE(T, C));
  int h = cast(g, DT_F32, cast(g, type, ir_add(g, x, r)));
  int rs = ir_unary(g, OP_RSQRT, ir_add(g, mean(g, ir_mul(g, h, h), C), ir_const(g, DT_F32, 1e-5)));
  out(g, "h", type, h);
  out(g, "rs", DT_F32, rs);
  out(g, "y", type, ir_mul(g, ir_mul(g, h, rs), w));
}

void graph_norm_grad(Graph *g, int64_t T, int64_t C, DType type) {
  int dy = in(g, "dy", type, SHAPE(T, C)), h = in(g, "h", type, SHAPE(T, C)), rs = var(g, "rs", DT_F32, SHAPE(T, 1));
  int w = in_rows(g, "w", type, SHAPE(T, C)), dres = in(g, "dres", type, SHAPE(T, C));
  int n = ir_mul(g, h, rs), dn = ir_mul(g, dy, w);
  int dh = ir_mul(g, ir_sub(g, dn, ir_mul(g, n, mean(g, ir_mul(g, dn, n), C))), rs);
  out(g, "dh", type, ir_add(g, dres, dh));
  out(g, "dw", DT_F32, ir_reduce(g, OP_SUM, ir_mul(g, dy, n), 0));
}

void graph_swiglu(Graph *g, int64_t T, int64_t F, DType type) {
  int gu = var(g, "gu", type, SHAPE(T, 2 * F));
  int a = cast(g, DT_F32, ir_slice(g, gu, 1, 0, F)), b = cast(g, DT_F32, ir_slice(g, gu, 1, F, 2 * F));
  out(g, "s", type, ir_mul(g, ir_mul(g, a, ir_unary(g, OP_SIGMOID, a)), b));
}

void graph_swiglu_grad(Graph *g, int64_t T, int64_t F, DType type) {
  int gu = var(g, "gu", type, SHAPE(T, 2 * F)), ds = in(g, "ds", type, SHAPE(T, F));
  int a = cast(g, DT_F32, ir_slice(g, gu, 1, 0, F)), b = cast(g, DT_F32, ir_slice(g, gu, 1, F, 2 * F));
  int s = ir_unary(g, OP_SIGMOID, a), silu = ir_mul(g, a, s), one = ir_const(g, DT_F32, 1);
  int slope = ir_mul(g, s, ir_add(g, one, ir_mul(g, a, ir_sub(g, one, s))));
  int d[] = {cast(g, type, ir_mul(g, ir_mul(g, ds, b), slope)), cast(g, type, ir_mul(g, ds, silu))};
  out(g, "dgu", type, ir_concat(g, d, 2, 1));
}

/* Halves of the last axis of x, turned. */
static int turned(Graph *g, int x, int64_t D, int cosines, int sines, DType type) {
  int a = cast(g, DT_F32, ir_slice(g, x, 3, 0, D / 2)), b = cast(g, DT_F32, ir_slice(g, x, 3, D / 2, D));
  int r[] = {cast(g, type, ir_sub(g, ir_mul(g, a, cosines), ir_mul(g, b, sines))),
             cast(g, type, ir_add(g, ir_mul(g, b, cosines), ir_mul(g, a, sines)))};
  return ir_concat(g, r, 2, 3);
}

void graph_rope(Graph *g, int64_t T, int64_t D, DType type) {
  Shape half = SHAPE(1, T / 8, 1, D / 2);
  int q = var(g, "q", type, SHAPE(8, T / 8, 16, D)), c = var(g, "cos", DT_F32, half), s = var(g, "sin", DT_F32, half);
  out(g, "rotated", type, turned(g, q, D, c, s, type));
}

void graph_rope_qkv(Graph *g, int64_t T, int64_t D, DType type) {
  enum { HEADS = 32, KV_HEADS = 8 };
  Shape half = SHAPE(1, T, 1, D / 2);
  int qkv = var(g, "qkv", type, SHAPE(1, T, HEADS + 2 * KV_HEADS, D));
  int c = var(g, "cos", DT_F32, half), s = var(g, "sin", DT_F32, half);
  out(g, "rotated", type, turned(g, ir_slice(g, qkv, 2, 0, HEADS + KV_HEADS), D, c, s, type));
}

void graph_loss(Graph *g, int64_t T, int64_t V, DType type) {
  int x = in(g, "logits", type, SHAPE(T, V)), label = var(g, "label", DT_I32, SHAPE(T, 1));
  int m = ir_reduce(g, OP_MAXIMUM, x, 1), e = ir_unary(g, OP_EXP, ir_sub(g, x, m)), sum = ir_reduce(g, OP_SUM, e, 1);
  int hit = ir_binary(g, OP_EQ, ir_iota(g, DT_I32, SHAPE(T, V), 1), label);
  int at_label = ir_reduce(g, OP_SUM, ir_select(g, hit, x, ir_const(g, DT_F32, 0)), 1);
  out(g, "loss", DT_F32, ir_sub(g, ir_add(g, m, ir_unary(g, OP_LOG, sum)), at_label));
  int p = ir_mul(g, e, ir_div(g, ir_const(g, DT_F32, 1), sum));
  out(g, "dlogits", type, ir_scale(g, ir_sub(g, p, ir_cast(g, DT_F32, hit)), 1.0 / 2048));
}

void graph_transpose(Graph *g, int64_t n, int64_t m, DType type) {
  out(g, "y", type, ir_unary(g, OP_COPY, ir_permute(g, var(g, "x", type, SHAPE(n, m)), (int[]){1, 0})));
}

void graph_adamw(Graph *g, int64_t N, int64_t unused, DType type) {
  (void)unused, (void)type;
  int p = var(g, "p", DT_F32, SHAPE(N)), m = var(g, "m", DT_F32, SHAPE(N)), v = var(g, "v", DT_F32, SHAPE(N));
  int grad = var(g, "g", DT_F32, SHAPE(N)), factor = var(g, "factor", DT_F32, shape_scalar()), d = ir_mul(g, grad, factor);
  int lr = var(g, "lr", DT_F32, shape_scalar()), c1 = var(g, "c1", DT_F32, shape_scalar()),
      c2 = var(g, "c2", DT_F32, shape_scalar());
  int m1 = ir_add(g, ir_scale(g, m, 0.9), ir_scale(g, d, 0.1));
  int v1 = ir_add(g, ir_scale(g, v, 0.95), ir_scale(g, ir_mul(g, d, d), 0.05));
  int step = ir_div(g, ir_mul(g, m1, c1), ir_add(g, ir_unary(g, OP_SQRT, ir_mul(g, v1, c2)), ir_const(g, DT_F32, 1e-8)));
  int p1 = ir_sub(g, p, ir_mul(g, lr, ir_add(g, step, ir_scale(g, p, 0.1))));
  ir_store(g, "p", p1);
  ir_store(g, "m", m1);
  ir_store(g, "v", v1);
  if (type != DT_F32) out(g, "operand", type, p1);
}

/* As in bf16 runs with moments in bf16: parameters in two halves, moments rounded by chance. */
void graph_adamw_brief(Graph *g, int64_t N, int64_t unused, DType type) {
  (void)unused, (void)type;
  int p = ir_binary(g, OP_JOIN, var(g, "upper", DT_BF16, SHAPE(N)), var(g, "lower", DT_I16, SHAPE(N)));
  int m = in(g, "m", DT_BF16, SHAPE(N)), v = in(g, "v", DT_BF16, SHAPE(N)), grad = var(g, "g", DT_F32, SHAPE(N));
  int lr = var(g, "lr", DT_F32, shape_scalar()), key = var(g, "key", DT_I64, shape_scalar());
  int m1 = ir_add(g, ir_scale(g, m, 0.9), ir_scale(g, grad, 0.1));
  int v1 = ir_add(g, ir_scale(g, v, 0.95), ir_scale(g, ir_mul(g, grad, grad), 0.05));
  int step = ir_div(g, m1, ir_add(g, ir_unary(g, OP_SQRT, v1), ir_const(g, DT_F32, 1e-8)));
  int p1 = ir_sub(g, p, ir_mul(g, lr, ir_add(g, step, ir_scale(g, p, 0.1))));
  int draw = ir_binary(g, OP_RANDOM, key, ir_iota(g, DT_I64, SHAPE(N), 0));
  ir_store(g, "upper", ir_unary(g, OP_UPPER, p1));
  ir_store(g, "lower", ir_unary(g, OP_LOWER, p1));
  ir_store(g, "m", ir_binary(g, OP_DITHER, m1, draw));
  ir_store(g, "v", ir_binary(g, OP_DITHER, v1, ir_binary(g, OP_SHIFT, draw, ir_const(g, DT_I32, 16))));
}

void graph_copy_of(Graph *g, int64_t N, int64_t unused, DType type) {
  (void)unused;
  out(g, "y", type, ir_unary(g, OP_COPY, var(g, "x", type, SHAPE(N))));
}

void graph_cast(Graph *g, int64_t N, int64_t unused, DType type) {
  (void)unused;
  out(g, "y", type, var(g, "x", DT_F32, SHAPE(N)));
}

void graph_squares(Graph *g, int64_t N, int64_t rows, DType type) {
  int x = in(g, "x", type, SHAPE(rows, N / rows));
  out(g, "sum", DT_F32, ir_sum_all(g, ir_mul(g, x, x)));
}

/* As ranks compare what they hold alike. */
void graph_hash_of(Graph *g, int64_t N, int64_t rows, DType type) {
  (void)type;
  Shape s = SHAPE(rows, N / rows);
  int bits = ir_cast(g, DT_I64, ir_unary(g, OP_BITS, var(g, "x", DT_F32, s)));
  int row = ir_mul(g, ir_iota(g, DT_I64, s, 0), ir_const(g, DT_I64, (double)s.dim[1]));
  int draw = ir_binary(g, OP_RANDOM, ir_add(g, bits, ir_const(g, DT_I64, 0x1p31)), ir_add(g, row, ir_iota(g, DT_I64, s, 1)));
  out(g, "sum", DT_F32, ir_sum_all(g, ir_cast(g, DT_F32, draw)));
}
