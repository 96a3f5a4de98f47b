/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/kernel_graphs.h"

static int var(Graph *g, const char *name, DType dtype, Shape shape) {
  graph_var(g, (Var){.name = name, .class = VAR_CARRY, .dtype = dtype, .shape = shape});
  return ir_load(g, name);
}

static void out(Graph *g, const char *name, int x) {
  const Node *node = graph_node(g, x);
  graph_var(g, (Var){.name = name, .class = VAR_CARRY, .dtype = node->dtype, .shape = node->shape});
  ir_store(g, name, x);
}

static int mean(Graph *g, int x, int64_t n) { return ir_scale(g, ir_reduce(g, OP_SUM, x, 1), 1.0 / (double)n); }

void graph_norm(Graph *g, int64_t T, int64_t C) {
  int x = var(g, "x", DT_F32, SHAPE(T, C)), r = var(g, "r", DT_F32, SHAPE(T, C)), w = var(g, "w", DT_F32, SHAPE(1, C));
  int h = ir_add(g, x, r);
  int rs = ir_unary(g, OP_RSQRT, ir_add(g, mean(g, ir_mul(g, h, h), C), ir_const(g, DT_F32, 1e-5)));
  out(g, "h", h);
  out(g, "rs", rs);
  out(g, "y", ir_mul(g, ir_mul(g, h, rs), w));
}

void graph_norm_grad(Graph *g, int64_t T, int64_t C) {
  int dy = var(g, "dy", DT_F32, SHAPE(T, C)), h = var(g, "h", DT_F32, SHAPE(T, C)), rs = var(g, "rs", DT_F32, SHAPE(T, 1));
  int w = var(g, "w", DT_F32, SHAPE(1, C)), dres = var(g, "dres", DT_F32, SHAPE(T, C));
  int n = ir_mul(g, h, rs), dn = ir_mul(g, dy, w);
  int dh = ir_mul(g, ir_sub(g, dn, ir_mul(g, n, mean(g, ir_mul(g, dn, n), C))), rs);
  out(g, "dh", ir_add(g, dres, dh));
  out(g, "dw", ir_reduce(g, OP_SUM, ir_mul(g, dy, n), 0));
}

void graph_swiglu(Graph *g, int64_t T, int64_t F) {
  int gu = var(g, "gu", DT_F32, SHAPE(T, 2 * F)), a = ir_slice(g, gu, 1, 0, F), b = ir_slice(g, gu, 1, F, 2 * F);
  out(g, "s", ir_mul(g, ir_mul(g, a, ir_unary(g, OP_SIGMOID, a)), b));
}

void graph_swiglu_grad(Graph *g, int64_t T, int64_t F) {
  int gu = var(g, "gu", DT_F32, SHAPE(T, 2 * F)), ds = var(g, "ds", DT_F32, SHAPE(T, F));
  int a = ir_slice(g, gu, 1, 0, F), b = ir_slice(g, gu, 1, F, 2 * F), s = ir_unary(g, OP_SIGMOID, a);
  int silu = ir_mul(g, a, s), one = ir_const(g, DT_F32, 1);
  int slope = ir_mul(g, s, ir_add(g, one, ir_mul(g, a, ir_sub(g, one, s))));
  int d[] = {ir_mul(g, ir_mul(g, ds, b), slope), ir_mul(g, ds, silu)};
  out(g, "dgu", ir_concat(g, d, 2, 1));
}

void graph_rope(Graph *g, int64_t T, int64_t D) {
  Shape half = SHAPE(1, T / 8, 1, D / 2);
  int q = var(g, "q", DT_F32, SHAPE(8, T / 8, 16, D)), c = var(g, "cos", DT_F32, half), s = var(g, "sin", DT_F32, half);
  int a = ir_slice(g, q, 3, 0, D / 2), b = ir_slice(g, q, 3, D / 2, D);
  int r[] = {ir_sub(g, ir_mul(g, a, c), ir_mul(g, b, s)), ir_add(g, ir_mul(g, b, c), ir_mul(g, a, s))};
  out(g, "rotated", ir_concat(g, r, 2, 3));
}

void graph_loss(Graph *g, int64_t T, int64_t V) {
  int x = var(g, "logits", DT_F32, SHAPE(T, V)), label = var(g, "label", DT_I32, SHAPE(T, 1));
  int m = ir_reduce(g, OP_MAXIMUM, x, 1), e = ir_unary(g, OP_EXP, ir_sub(g, x, m)), sum = ir_reduce(g, OP_SUM, e, 1);
  int hit = ir_binary(g, OP_EQ, ir_iota(g, DT_I32, SHAPE(T, V), 1), label);
  int at_label = ir_reduce(g, OP_SUM, ir_select(g, hit, x, ir_const(g, DT_F32, 0)), 1);
  out(g, "loss", ir_sub(g, ir_add(g, m, ir_unary(g, OP_LOG, sum)), at_label));
  int p = ir_mul(g, e, ir_div(g, ir_const(g, DT_F32, 1), sum));
  out(g, "dlogits", ir_scale(g, ir_sub(g, p, ir_cast(g, DT_F32, hit)), 1.0 / 2048));
}

void graph_adamw(Graph *g, int64_t N, int64_t unused) {
  (void)unused;
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
}

void graph_copy_of(Graph *g, int64_t N, int64_t unused) {
  (void)unused;
  out(g, "y", ir_unary(g, OP_COPY, var(g, "x", DT_F32, SHAPE(N))));
}
