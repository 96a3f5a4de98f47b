/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/random_graph.h"

#include <math.h>
#include <stdio.h>

#include "src/base/rng.h"

enum { VOCAB = 13 };
static const double BOUND = 50; /* no float value is larger */

typedef struct Maker {
  Graph *g;
  RandomSpec spec;
  Rng rng;
  uint64_t drawn;
  int64_t b, s, h, kv, d, c, f;
  VEC(int) pool;     /* float nodes to build on */
  VEC(int) loose;    /* those that nothing was built on yet */
  VEC(double) bound; /* by node: |value| at most */
} Maker;

/* --- drawing ---------------------------------------------------------------------------------------------------------- */

static int draw(Maker *m, int64_t n) {
  uint32_t words[4];
  rng_words(&m->rng, m->drawn++, words);
  return (int)(words[0] % (uint64_t)n);
}

static int draw_of(Maker *m, const int64_t *xs, int n) { return (int)xs[draw(m, n)]; }

static const Shape *shape(Maker *m, int x) { return &graph_node(m->g, x)->shape; }

/* Half the time one that nothing was built on, so that most nodes are live; late nodes more often than early ones. */
static int draw_node(Maker *m) {
  int n = m->pool.n, recent = n < 12 ? n : 12;
  if (!m->loose.n || draw(m, 2)) return m->pool.at[draw(m, 3) ? n - 1 - draw(m, recent) : draw(m, n)];
  int i = draw(m, m->loose.n), x = m->loose.at[i];
  m->loose.at[i] = m->loose.at[--m->loose.n];
  return x;
}

static double bound(Maker *m, int x) { return x < m->bound.n ? m->bound.at[x] : 1; }

/* Records nodes up to x as no larger than b, and x as one to build on. */
static void keep(Maker *m, int x, double b) {
  while (m->bound.n <= x) vec_push(m->g->arena, &m->bound, b);
  vec_push(m->g->arena, &m->pool, x);
  vec_push(m->g->arena, &m->loose, x);
}

/* x, or something of the same shape no larger than limit. */
static int tame(Maker *m, int x, double limit) {
  if (bound(m, x) <= limit) return x;
  int t = ir_unary(m->g, draw(m, 2) ? OP_TANH : OP_SIGMOID, x);
  keep(m, t, 1);
  return t;
}

/* --- pointwise -------------------------------------------------------------------------------------------------------- */

static int one_more_than_square(Maker *m, int x) { return ir_add(m->g, ir_mul(m->g, x, x), ir_const(m->g, DT_F32, 1)); }

static void make_unary(Maker *m) {
  static const Op ops[] = {OP_NEG, OP_EXP,  OP_EXPM1,   OP_LOG,  OP_SQRT, OP_RSQRT, OP_SIN,
                           OP_COS, OP_TANH, OP_SIGMOID, OP_COPY, OP_STOP, OP_KEEP,  OP_TANH};
  Op op = ops[draw(m, sizeof ops / sizeof *ops)];
  int x = draw_node(m);
  double b = bound(m, x);
  if (op == OP_STOP && m->spec.smooth) op = OP_COPY;
  if (op == OP_EXP || op == OP_EXPM1) x = tame(m, x, 3), b = 21;
  if (op == OP_LOG || op == OP_SQRT || op == OP_RSQRT) x = one_more_than_square(m, tame(m, x, 7)), b = 8;
  if (op == OP_SIN || op == OP_COS || op == OP_TANH || op == OP_SIGMOID) b = 1;
  keep(m, ir_unary(m->g, op, x), b);
}

/* x again, by way of its halves. */
static void make_halves(Maker *m) {
  int x = draw_node(m), upper = ir_unary(m->g, OP_UPPER, x), lower = ir_unary(m->g, OP_LOWER, x);
  keep(m, ir_binary(m->g, OP_JOIN, upper, lower), bound(m, x));
}

/* |x|, by its sign's bit. */
static void make_magnitude(Maker *m) {
  int x = draw_node(m), zero = ir_broadcast(m->g, ir_const(m->g, DT_I32, 0), *shape(m, x));
  int negative = ir_binary(m->g, OP_LT, ir_unary(m->g, OP_BITS, x), zero);
  keep(m, ir_select(m->g, negative, ir_unary(m->g, OP_NEG, x), x), bound(m, x));
}

/* x rounded by chance to 16 bits. */
static void make_dithered(Maker *m) {
  int x = draw_node(m);
  Shape s = *shape(m, x);
  int key = ir_broadcast(m->g, ir_const(m->g, DT_I64, draw(m, 1000)), s);
  int counter = s.rank ? ir_iota(m->g, DT_I64, s, 0) : ir_const(m->g, DT_I64, 7);
  int bits = ir_binary(m->g, OP_RANDOM, key, counter), sixteen = ir_broadcast(m->g, ir_const(m->g, DT_I32, 16), s);
  int dithered = ir_binary(m->g, OP_DITHER, x, draw(m, 2) ? bits : ir_binary(m->g, OP_SHIFT, bits, sixteen));
  keep(m, ir_cast(m->g, DT_F32, dithered), 2 * bound(m, x));
}

/* Something that goes with x in a binary op: of its shape, or to be broadcast to it. */
static int draw_partner(Maker *m, int x) {
  static const double consts[] = {1, 0, -0.0, 0.5, 2, -1, 0.1, 1e-5};
  for (int tries = 0; tries < 8; tries++) {
    int y = draw_node(m);
    const Shape *a = shape(m, x), *b = shape(m, y);
    bool fits = b->rank <= a->rank;
    for (int i = 0; i < b->rank && fits; i++) fits = b->dim[i] == 1 || b->dim[i] == a->dim[a->rank - b->rank + i];
    if (fits) return y;
  }
  double f = consts[draw(m, sizeof consts / sizeof *consts)];
  int y = ir_const(m->g, DT_F32, f);
  while (m->bound.n <= y) vec_push(m->g->arena, &m->bound, fabs(f));
  return y;
}

static void make_binary(Maker *m) {
  static const Op ops[] = {OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_MAX, OP_MIN, OP_ADD, OP_MUL};
  Op op = ops[draw(m, sizeof ops / sizeof *ops)];
  int x = draw_node(m), y = draw_partner(m, x);
  double limit = op == OP_MUL ? 7 : BOUND / 2, a, b;
  x = tame(m, x, limit);
  y = tame(m, y, limit);
  a = bound(m, x), b = bound(m, y);
  if (op == OP_DIV) y = one_more_than_square(m, y), b = 1;
  keep(m, ir_binary(m->g, op, x, y), op == OP_MUL || op == OP_DIV ? a * b : a + b);
}

/* A truth value a node of x's shape: of positions, or of x's values. */
static int make_pred(Maker *m, int x) {
  Shape s = *shape(m, x);
  if (m->spec.rough && draw(m, 2)) {
    static const Op ops[] = {OP_LT, OP_LE, OP_EQ};
    return ir_binary(m->g, ops[draw(m, 3)], x, draw_partner(m, x));
  }
  if (!s.rank || draw(m, 4) == 0) return ir_unary(m->g, OP_FINITE, x);
  int axis = draw(m, s.rank), at = ir_iota(m->g, draw(m, 2) ? DT_I32 : DT_I64, s, axis);
  DType dtype = graph_node(m->g, at)->dtype;
  int p = ir_binary(m->g, OP_LT, at, ir_const(m->g, dtype, draw(m, s.dim[axis] + 1)));
  return draw(m, 3) ? p : ir_binary(m->g, OP_AND, p, ir_unary(m->g, OP_FINITE, x));
}

static void make_select(Maker *m) {
  int x = draw_node(m), y = draw_partner(m, x);
  double b = fmax(bound(m, x), bound(m, y));
  keep(m, ir_select(m->g, make_pred(m, x), x, y), b);
}

static void make_fma(Maker *m) {
  int x = tame(m, draw_node(m), 5), y = tame(m, draw_partner(m, x), 5), z = tame(m, draw_partner(m, x), 5);
  Shape s = *shape(m, x);
  double b = bound(m, x) * bound(m, y) + bound(m, z);
  int in[] = {x, ir_broadcast(m->g, y, s), ir_broadcast(m->g, z, s)};
  keep(m, graph_push(m->g, (Node){.op = OP_FMA, .nin = 3, .in = in}), b);
}

/* Float to integer and back, or a truth value as a number. */
static void make_cast(Maker *m) {
  int x = draw_node(m);
  double b = fmax(bound(m, x), 1);
  int y = m->spec.rough && draw(m, 2) ? ir_cast(m->g, draw(m, 2) ? DT_I32 : DT_I64, x) : make_pred(m, x);
  keep(m, ir_cast(m->g, DT_F32, y), b);
}

/* --- reductions and what is made of them -------------------------------------------------------------------------------- */

static void make_reduce(Maker *m) {
  int x = draw_node(m), rank = shape(m, x)->rank;
  if (!rank) return;
  int axis = draw(m, 2) ? rank - 1 : draw(m, rank);
  double n = (double)shape(m, x)->dim[axis];
  if (!m->spec.smooth && draw(m, 3) == 0) {
    double b = bound(m, x);
    keep(m, ir_reduce(m->g, OP_MAXIMUM, x, axis), b);
    return;
  }
  x = tame(m, x, BOUND / 16);
  double b = bound(m, x);
  int sum = ir_reduce(m->g, OP_SUM, x, axis);
  if (n <= 16) {
    keep(m, sum, b * n);
  } else {
    keep(m, ir_scale(m->g, sum, 0.0625 * 0.0625), b * n / 256);
  }
}

static void make_softmax(Maker *m) {
  int x = draw_node(m), axis = shape(m, x)->rank - 1;
  if (axis < 0) return;
  int top = m->spec.smooth ? ir_const(m->g, DT_F32, BOUND) : ir_reduce(m->g, OP_MAXIMUM, x, axis);
  int e = ir_unary(m->g, OP_EXP, ir_sub(m->g, x, top));
  keep(m, ir_div(m->g, e, ir_reduce(m->g, OP_SUM, e, axis)), 1);
}

static void make_rmsnorm(Maker *m) {
  int x = draw_node(m), axis = shape(m, x)->rank - 1;
  if (axis < 0) return;
  int64_t n = shape(m, x)->dim[axis];
  int square = ir_reduce(m->g, OP_SUM, ir_mul(m->g, x, x), axis);
  int mean = ir_add(m->g, ir_scale(m->g, square, 1.0 / (double)n), ir_const(m->g, DT_F32, 1e-5));
  keep(m, ir_mul(m->g, x, ir_unary(m->g, OP_RSQRT, mean)), sqrt((double)n));
}

/* --- views ------------------------------------------------------------------------------------------------------------ */

static int64_t draw_divisor(Maker *m, int64_t n) {
  int64_t k = 1 + draw(m, n);
  while (n % k) k--;
  return k;
}

/* Joins two axes, splits one, flattens, or puts an extent of 1 somewhere. */
static void make_reshape(Maker *m) {
  int x = draw_node(m), how = draw(m, 4);
  Shape s = *shape(m, x), to = {0};
  int at = s.rank ? draw(m, s.rank) : 0;
  int64_t split = s.rank && how == 1 ? draw_divisor(m, s.dim[at]) : 1;
  if (how == 0) to = SHAPE(shape_size(&s));
  for (int i = 0; how > 0 && i < s.rank && s.rank < IR_RANK; i++) {
    if (how < 3 && i == at) {
      bool joins = how == 2 && i + 1 < s.rank;
      to.dim[to.rank++] = how == 1 ? split : joins ? s.dim[i] * s.dim[i + 1] : s.dim[i];
      if (how == 1) to.dim[to.rank++] = s.dim[i] / split;
      i += joins;
      continue;
    }
    if (how == 3 && i == at) to.dim[to.rank++] = 1;
    to.dim[to.rank++] = s.dim[i];
  }
  if (shape_size(&to) == shape_size(&s)) keep(m, ir_reshape(m->g, x, to), bound(m, x));
}

static void make_permute(Maker *m) {
  int x = draw_node(m), rank = shape(m, x)->rank, axes[IR_RANK];
  for (int i = 0; i < rank; i++) { /* Fisher-Yates, inside out */
    int j = draw(m, i + 1);
    axes[i] = axes[j];
    axes[j] = i;
  }
  keep(m, ir_permute(m->g, x, axes), bound(m, x));
}

static void make_slice(Maker *m) {
  int x = draw_node(m);
  if (!shape(m, x)->rank) return;
  int axis = draw(m, shape(m, x)->rank);
  int64_t n = shape(m, x)->dim[axis], lo = draw(m, n), hi = lo + 1 + draw(m, n - lo);
  keep(m, ir_slice(m->g, x, axis, lo, hi), bound(m, x));
}

static void make_broadcast(Maker *m) {
  int x = draw_node(m);
  Shape s = *shape(m, x);
  for (int i = 0; i < s.rank; i++)
    if (s.dim[i] == 1 && draw(m, 2)) s.dim[i] = 1 + draw(m, 4);
  if (shape_size(&s) <= m->spec.elements) keep(m, ir_broadcast(m->g, x, s), bound(m, x));
}

/* A tensor cut in two and put together, in order or not, whole or not; or with a multiple of itself. */
static void make_concat(Maker *m) {
  int x = draw_node(m);
  Shape s = *shape(m, x);
  if (!s.rank || 2 * shape_size(&s) > m->spec.elements) return;
  int axis = draw(m, s.rank), how = draw(m, 3), parts[2] = {x, x};
  int64_t n = s.dim[axis], cut = 1 + draw(m, n);
  if (how && cut < n) {
    int low = ir_slice(m->g, x, axis, 0, cut), high = ir_slice(m->g, x, axis, cut, n);
    parts[how == 2] = low, parts[how != 2] = high;
  } else {
    parts[1] = ir_unary(m->g, OP_NEG, x);
  }
  keep(m, ir_concat(m->g, parts, 2, axis), bound(m, x));
}

/* --- big ops and collectives -------------------------------------------------------------------------------------------- */

static int weight(Maker *m, int64_t rows, int64_t cols) {
  char name[64];
  snprintf(name, sizeof name, "w%lldx%lld", (long long)rows, (long long)cols);
  if (graph_find_var(m->g, name) < 0)
    graph_var(m->g,
              (Var){.name = arena_strdup(m->g->arena, name), .class = VAR_STATE, .dtype = DT_F32, .shape = SHAPE(rows, cols)});
  int w = ir_load(m->g, m->g->vars.at[graph_find_var(m->g, name)].name);
  keep(m, w, 5);
  return w;
}

static void make_matmul(Maker *m) {
  int x = draw_node(m);
  Shape s = *shape(m, x);
  if (s.rank < 1) return;
  int64_t k = s.dim[s.rank - 1], rows = shape_size(&s) / k, n = draw(m, 2) ? m->c : m->f;
  if (rows * n > m->spec.elements || k * n > m->spec.elements) return;
  x = tame(m, x, 3);
  double b = bound(m, x);
  x = ir_reshape(m->g, x, SHAPE(rows, k));
  bool ta = draw(m, 3) == 0, tb = draw(m, 2);
  if (ta) x = ir_transpose(m->g, x);
  int w = weight(m, tb ? n : k, tb ? k : n);
  int bias = draw(m, 3) ? -1 : ir_reshape(m->g, weight(m, 1, n), SHAPE(n));
  keep(m, ir_scale(m->g, ir_matmul_bias(m->g, x, ta, w, tb, bias), 1 / (double)k), 5 * b + 5);
}

static int as_heads(Maker *m, int64_t heads) {
  int w = weight(m, m->c, heads * m->d), x = tame(m, ir_reshape(m->g, ir_load(m->g, "x"), SHAPE(m->b * m->s, m->c)), 3);
  int y = ir_matmul(m->g, x, false, w, false);
  return ir_reshape(m->g, ir_scale(m->g, y, 1 / (double)m->c), SHAPE(m->b, m->s, heads, m->d));
}

static void make_attention(Maker *m) {
  Graph *g = m->g;
  int in[] = {as_heads(m, m->h), as_heads(m, m->kv), as_heads(m, m->kv), ir_load(g, "start")};
  double scale = 1 / sqrt((double)m->d);
  int64_t window = draw(m, 2) ? 0 : 1 + draw(m, m->s);
  int x = graph_push(g, (Node){.op = OP_ATTENTION, .f = scale, .n = {window}, .nin = 4, .in = in});
  int o = ir_result(g, x, 0), lse = ir_result(g, x, 1);
  if (draw(m, 2)) {
    int back[] = {ir_unary(g, OP_SIN, o), in[0], in[1], in[2], o, lse, in[3]};
    int dx = graph_push(g, (Node){.op = OP_ATTENTION_GRAD, .f = scale, .n = {window}, .nin = 7, .in = back});
    for (int i = 0; i < 3; i++) keep(m, ir_result(g, dx, i), BOUND);
  }
  keep(m, lse, BOUND);
  keep(m, o, 25);
}

static void make_embedding(Maker *m) {
  Graph *g = m->g;
  int ids = ir_load(g, "ids");
  if (draw(m, 2)) {
    int in[] = {weight(m, VOCAB, m->c), ids};
    keep(m, graph_push(g, (Node){.op = OP_EMBEDDING, .nin = 2, .in = in}), 5);
  } else {
    int in[] = {ir_load(g, "x"), ids, ir_load(g, "order")};
    keep(m, graph_push(g, (Node){.op = OP_EMBEDDING_GRAD, .n = {VOCAB}, .nin = 3, .in = in}), BOUND);
  }
}

/* By scores that are loaded: a computed one, rounded otherwise, may be of another order. */
static void make_experts(Maker *m) {
  Graph *g = m->g;
  int64_t t = m->b * m->s, E = 1 + draw(m, 4), k = 1 + draw(m, E), f = m->f;
  if (m->spec.smooth || t * k * f > m->spec.elements) return;
  Route route = ir_route(g, weight(m, t, E), k);
  int x = tame(m, ir_reshape(g, ir_load(g, "x"), SHAPE(t, m->c)), 3);
  int rows = ir_take(g, x, route.order, route.inverse, k);
  bool tw = draw(m, 2);
  int y =
      ir_scale(g, ir_grouped(g, rows, tw ? weight(m, E * f, m->c) : weight(m, E * m->c, f), tw, route.offsets), 1 / (double)m->c);
  int in[] = {ir_unary(g, OP_SIN, y), rows, route.offsets};
  double rows_of_one = 1 / (double)(t * k);
  if (draw(m, 2)) keep(m, ir_scale(g, graph_push(g, (Node){.op = OP_GROUPED_GRAD, .nin = 3, .in = in}), rows_of_one), 3);
  keep(m, ir_take(g, y, route.inverse, route.order, 1), 15);
}

/* A collective; or off the device and back. */
static void make_collective(Maker *m) {
  static const Op ops[] = {OP_ALL_GATHER, OP_REDUCE_SCATTER, OP_ALL_REDUCE, OP_ALL_TO_ALL};
  int x = draw_node(m);
  if (!draw(m, 4)) {
    keep(m, ir_unary(m->g, OP_FETCH, ir_unary(m->g, OP_SEND, x)), bound(m, x));
    return;
  }
  int flat = ir_reshape(m->g, x, SHAPE(shape_size(shape(m, x))));
  keep(m, graph_push(m->g, (Node){.op = ops[draw(m, 4)], .n = {0, 1}, .nin = 1, .in = &flat}), bound(m, x));
}

/* A forward node and what it is made of, twice removed, computed again. */
static int clone(Maker *m, int x, int depth) {
  const Node node = *graph_node(m->g, x);
  if (!depth || !node.nin || node.phase != PHASE_FORWARD || op_table[node.op].kind > KIND_REDUCE) return x;
  int *in = arena_array(m->g->arena, int, node.nin);
  for (int i = 0; i < node.nin; i++) in[i] = clone(m, node.in[i], depth - 1);
  Node copy = node;
  copy.phase = PHASE_RECOMPUTE;
  return graph_copy(m->g, &copy, in);
}

static void make_recompute(Maker *m) {
  int x = draw_node(m);
  if (m->g->phase != PHASE_BACKWARD || graph_node(m->g, x)->phase != PHASE_FORWARD) return;
  keep(m, clone(m, x, 3), bound(m, x));
}

/* --- the whole -------------------------------------------------------------------------------------------------------- */

typedef void Make(Maker *m);

static void make_any(Maker *m) {
  static Make *const makes[] = {make_unary, make_unary,  make_binary, make_binary,    make_binary,  make_select,  make_fma,
                                make_cast,  make_reduce, make_reduce, make_softmax,   make_rmsnorm, make_reshape, make_permute,
                                make_slice, make_slice,  make_concat, make_broadcast, make_matmul,  make_matmul};
  static Make *const views[] = {make_reshape, make_permute, make_permute, make_slice, make_slice, make_concat, make_broadcast};
  static Make *const bigs[] = {make_attention, make_embedding, make_experts};
  static Make *const rough[] = {make_halves, make_dithered, make_magnitude};
  if (m->spec.views) {
    views[draw(m, sizeof views / sizeof *views)](m);
    return;
  }
  if (m->spec.rough && draw(m, 20) == 0)
    rough[draw(m, sizeof rough / sizeof *rough)](m);
  else if (m->spec.big && draw(m, 20) == 0)
    bigs[draw(m, sizeof bigs / sizeof *bigs)](m);
  else if (m->spec.collectives && draw(m, 20) == 0)
    make_collective(m);
  else if (m->spec.phases && draw(m, 6) == 0)
    make_recompute(m);
  else
    makes[draw(m, sizeof makes / sizeof *makes)](m);
}

static void make_vars(Maker *m) {
  static const int64_t heads[] = {1, 2, 4}, sizes[] = {2, 4, 8}, widths[] = {3, 8, 11, 24};
  m->b = 1 + draw(m, 3), m->s = draw(m, 4) ? 1 + draw(m, 9) : 1;
  m->h = draw_of(m, heads, 3), m->d = draw_of(m, sizes, 3);
  m->kv = draw(m, 2) ? m->h : 1;
  m->c = m->h * m->d, m->f = draw_of(m, widths, 4);
  int64_t t = m->b * m->s;
  const Var vars[] = {
      {.name = "x", .class = VAR_STATE, .dtype = DT_F32, .shape = SHAPE(t, m->c)},
      {.name = "gain", .class = VAR_STATE, .dtype = DT_F32, .shape = SHAPE(m->c)},
      {.name = "flat", .class = VAR_CARRY, .dtype = DT_F32, .shape = SHAPE(2 * m->c * m->f)},
      {.name = "lr", .class = VAR_STEP, .dtype = DT_F32, .shape = shape_scalar()},
      {.name = "ids", .class = VAR_INPUT, .dtype = DT_I32, .shape = SHAPE(t)},
      {.name = "order", .class = VAR_INPUT, .dtype = DT_I32, .shape = SHAPE(t)},
      {.name = "start", .class = VAR_INPUT, .dtype = DT_I32, .shape = SHAPE(m->b, m->s)},
  };
  for (size_t i = 0; i < sizeof vars / sizeof *vars; i++) {
    graph_var(m->g, vars[i]);
    if (i < 4) keep(m, ir_load(m->g, vars[i].name), 5);
  }
  keep(m, ir_reshape(m->g, ir_slice(m->g, m->pool.at[2], 0, 0, m->c * m->f), SHAPE(m->f, m->c)), 5);
  keep(m, ir_table(m->g, (double[]){1, 0.1, 0.01}, 3), 1);
}

static void make_stores(Maker *m, int n) {
  Graph *g = m->g;
  for (int i = 0; i < n; i++) {
    int x = i < m->loose.n ? m->loose.at[i] : draw_node(m);
    const char *name = arena_printf(g->arena, "out%d", i);
    graph_var(g, (Var){.name = name, .class = VAR_OUTPUT, .dtype = DT_F32, .shape = *shape(m, x)});
    ir_store(g, name, x);
  }
  const char *const states[] = {"x", "gain", "flat"};
  for (int i = 0; i < 3 && !m->spec.smooth; i++) { /* read before and written after */
    const Var *v = &g->vars.at[graph_find_var(g, states[i])];
    for (int k = m->pool.n - 1; k >= 0; k--)
      if (shape_equal(shape(m, m->pool.at[k]), &v->shape)) {
        ir_store(g, states[i], m->pool.at[k]);
        break;
      }
  }
}

Graph *random_graph(Arena *arena, RandomSpec spec) {
  if (!spec.elements) spec.elements = 4096;
  Maker m = {.g = graph_open(arena), .spec = spec, .rng = rng_make(spec.seed, RNG_TEST, "graph", 0)};
  make_vars(&m);
  for (int block = 0; m.g->nodes.n < spec.nodes;) {
    if (m.g->nodes.n >= block * spec.nodes / 4) graph_enter(m.g, arena_printf(arena, "block.%d", block++), SCOPE_BLOCK);
    if (spec.phases && m.g->nodes.n > spec.nodes * 6 / 10) m.g->phase = PHASE_BACKWARD;
    make_any(&m);
  }
  make_stores(&m, 3 + spec.nodes / 20);
  return m.g;
}

static int64_t start_of(const Rng *rng, int64_t s, int64_t i) {
  int64_t at = i % s, start = 0;
  for (int64_t k = 1; k <= at; k++) /* a segment begins at every fourth position or so */
    if (rng_uniform(rng, (uint64_t)(i - at + k)) < 0.25) start = k;
  return start;
}

double **random_values(Arena *arena, const Graph *g, uint64_t seed) {
  double **value = arena_array(arena, double *, g->vars.n);
  const double *ids = NULL;
  for (int i = 0; i < g->vars.n; i++) {
    const Var *v = &g->vars.at[i];
    int64_t n = shape_size(&v->shape), filled = 0;
    Rng rng = rng_make(seed, RNG_TEST, v->name, 1);
    value[i] = arena_array(arena, double, n);
    for (int64_t k = 0; k < n; k++) {
      if (!strcmp(v->name, "ids")) value[i][k] = (double)(int64_t)(rng_uniform(&rng, (uint64_t)k) * VOCAB);
      if (!strcmp(v->name, "start")) value[i][k] = (double)start_of(&rng, v->shape.dim[1], k);
      if (v->dtype == DT_F32) value[i][k] = (float)fmax(-5, fmin(5, rng_normal(&rng, (uint64_t)k)));
    }
    if (!strcmp(v->name, "ids")) ids = value[i];
    for (int id = 0; id < VOCAB && !strcmp(v->name, "order"); id++)
      for (int64_t k = 0; k < n; k++)
        if (ids && ids[k] == id) value[i][filled++] = (double)k;
  }
  return value;
}
