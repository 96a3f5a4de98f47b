/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter: any graph, node by node, in double.  Slow and obvious, for it judges the rest.
 *
 * Values of all types are doubles (integers are exact below 2^53); a cast to F32 keeps double precision.  A value is freed
 * after the last node that reads it.  Nodes that only name a value again share it with their input. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/rng.h"
#include "src/ir/interp.h"

/* --- pointwise -------------------------------------------------------------------------------------------------------- */

static double f_upper(double x) { return bf16_value(f32_upper((float)x)); }
static double f_lower(double x) { return f32_lower((float)x); }
static double f_bits(double x) {
  float narrow = (float)x;
  int32_t bits;
  memcpy(&bits, &narrow, sizeof bits);
  return bits;
}
static double f_join(double x, double y) { return f32_join(bf16_of((float)x), (int16_t)y); }
static double f_random(double key, double counter) { return (int32_t)rng_bits((uint64_t)(int64_t)key, (int64_t)counter); }
static double f_shift(double x, double by) { return floor(ldexp(x, -((int)by & 31))); }
static double f_dither(double x, double draw) { return bf16_value(bf16_dither((float)x, (uint32_t)(int64_t)draw)); }
static double f_neg(double x) { return -x; }
static double f_rsqrt(double x) { return 1 / sqrt(x); }
static double f_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double f_finite(double x) { return isfinite(x) != 0; }
static double f_add(double a, double b) { return a + b; }
static double f_sub(double a, double b) { return a - b; }
static double f_mul(double a, double b) { return a * b; }
static double f_div(double a, double b) { return a / b; }
static double f_max(double a, double b) { return a > b || isnan(a) ? a : b; }
static double f_min(double a, double b) { return a < b || isnan(a) ? a : b; }
static double f_lt(double a, double b) { return a < b; }
static double f_le(double a, double b) { return a <= b; }
static double f_eq(double a, double b) { return a == b; }
static double f_and(double a, double b) { return a != 0 && b != 0; }
static double f_select(double p, double a, double b) { return p != 0 ? a : b; }

typedef struct InterpRow {
  EvalFn *eval; /* NULL: the value is the input's */
  double (*unary)(double);
  double (*binary)(double, double);
  double (*ternary)(double, double, double);
} InterpRow;

static const InterpRow interp_table[OP_COUNT];

static bool is_int(DType dtype) { return dtype == DT_I32 || dtype == DT_I64 || dtype == DT_I16; }

static void eval_pointwise(const Eval *e) {
  const InterpRow *row = &interp_table[e->node->op];
  int64_t n = shape_size(&e->node->shape);
  const double *const *in = e->in;
  for (int64_t i = 0; i < n && row->unary; i++) e->out[i] = row->unary(in[0][i]);
  for (int64_t i = 0; i < n && row->binary; i++) e->out[i] = row->binary(in[0][i], in[1][i]);
  for (int64_t i = 0; i < n && row->ternary; i++) e->out[i] = row->ternary(in[0][i], in[1][i], in[2][i]);
  for (int64_t i = 0; i < n && is_int(e->node->dtype); i++) e->out[i] += 0.0; /* integers have no -0 */
}

static void eval_cast(const Eval *e) {
  int64_t n = shape_size(&e->node->shape);
  DType dtype = e->node->dtype;
  for (int64_t i = 0; i < n; i++) {
    double x = e->in[0][i];
    e->out[i] = dtype == DT_PRED ? x != 0 : is_int(dtype) ? trunc(x) + 0.0 : dtype == DT_F32 ? x : dtype_round(dtype, (float)x);
  }
}

/* --- leaves ----------------------------------------------------------------------------------------------------------- */

static void eval_const(const Eval *e) { e->out[0] = e->node->f; }
static void eval_table(const Eval *e) { memcpy(e->out, e->node->table, sizeof(double) * (size_t)e->node->n[0]); }

/* The product of the extents from axis lo up to but not hi. */
static int64_t extent(const Shape *s, int64_t lo, int64_t hi) {
  int64_t n = 1;
  for (int64_t i = lo; i < hi; i++) n *= s->dim[i];
  return n;
}

static void eval_iota(const Eval *e) {
  const Shape *s = &e->node->shape;
  int64_t n = shape_size(s), axis = e->node->n[0], inner = extent(s, axis + 1, s->rank);
  for (int64_t i = 0; i < n; i++) e->out[i] = (double)(i / inner % s->dim[axis]);
}

/* --- views ------------------------------------------------------------------------------------------------------------ */

/* out, dense and of shape s, from elements of in with these strides. */
static void gather(double *out, const Shape *s, const double *in, const int64_t *stride) {
  int64_t d[IR_RANK], t[IR_RANK];
  for (int i = 0; i < IR_RANK; i++) { /* leading extents of 1 */
    int j = i - (IR_RANK - s->rank);
    d[i] = j < 0 ? 1 : s->dim[j];
    t[i] = j < 0 ? 0 : stride[j];
  }
  for (int64_t a = 0; a < d[0]; a++)
    for (int64_t b = 0; b < d[1]; b++)
      for (int64_t c = 0; c < d[2]; c++)
        for (int64_t k = 0; k < d[3]; k++) {
          const double *from = in + a * t[0] + b * t[1] + c * t[2] + k * t[3];
          for (int64_t i = 0; i < d[4]; i++) *out++ = from[i * t[4]];
        }
}

static void eval_permute(const Eval *e) {
  const Shape *s = eval_shape(e, 0);
  int64_t stride[IR_RANK];
  for (int i = 0; i < s->rank; i++) stride[i] = extent(s, e->node->n[i] + 1, s->rank);
  gather(e->out, &e->node->shape, e->in[0], stride);
}

static void eval_slice(const Eval *e) {
  const Shape *s = eval_shape(e, 0);
  int64_t stride[IR_RANK];
  for (int i = 0; i < s->rank; i++) stride[i] = extent(s, i + 1, s->rank);
  gather(e->out, &e->node->shape, e->in[0] + e->node->n[1] * stride[e->node->n[0]], stride);
}

static void eval_broadcast(const Eval *e) {
  const Shape *s = eval_shape(e, 0);
  int64_t stride[IR_RANK];
  for (int i = 0; i < s->rank; i++) stride[i] = s->dim[i] == 1 ? 0 : extent(s, i + 1, s->rank);
  gather(e->out, &e->node->shape, e->in[0], stride);
}

static void eval_concat(const Eval *e) {
  int64_t axis = e->node->n[0], outer = extent(&e->node->shape, 0, axis);
  double *out = e->out;
  for (int64_t o = 0; o < outer; o++)
    for (int i = 0; i < e->node->nin; i++) {
      const Shape *s = eval_shape(e, i);
      int64_t n = extent(s, axis, s->rank);
      memcpy(out, e->in[i] + o * n, sizeof *out * (size_t)n);
      out += n;
    }
}

/* --- reductions, collectives ------------------------------------------------------------------------------------------ */

static void eval_reduce(const Eval *e) {
  const Shape *s = eval_shape(e, 0);
  int64_t axis = e->node->n[0], outer = extent(s, 0, axis), n = s->dim[axis], inner = extent(s, axis + 1, s->rank);
  double (*combine)(double, double) = interp_table[e->node->op].binary;
  for (int64_t o = 0; o < outer; o++) {
    double *out = e->out + o * inner;
    const double *in = e->in[0] + o * n * inner;
    memcpy(out, in, sizeof *out * (size_t)inner);
    for (int64_t k = 1; k < n; k++)
      for (int64_t i = 0; i < inner; i++) out[i] = combine(out[i], in[k * inner + i]);
  }
}

static void eval_collective(const Eval *e) {
  if (e->collective) {
    e->collective(e->self, e->node, e->in[0], e->out);
    return;
  }
  CHECK(e->node->n[1] == 1);
  memcpy(e->out, e->in[0], sizeof *e->out * (size_t)shape_size(&e->node->shape));
}

#define UNARY(f)                                                                                                                   \
  { .eval = eval_pointwise, .unary = f }
#define BINARY(f)                                                                                                                  \
  { .eval = eval_pointwise, .binary = f }
static const InterpRow interp_table[OP_COUNT] = {
    [OP_CONST] = {.eval = eval_const},
    [OP_TABLE] = {.eval = eval_table},
    [OP_IOTA] = {.eval = eval_iota},
    [OP_LOAD] = {.eval = NULL},
    [OP_COPY] = {.eval = NULL},
    [OP_STOP] = {.eval = NULL},
    [OP_KEEP] = {.eval = NULL},
    [OP_NEG] = UNARY(f_neg),
    [OP_EXP] = UNARY(exp),
    [OP_EXPM1] = UNARY(expm1),
    [OP_LOG] = UNARY(log),
    [OP_SQRT] = UNARY(sqrt),
    [OP_RSQRT] = UNARY(f_rsqrt),
    [OP_SIN] = UNARY(sin),
    [OP_COS] = UNARY(cos),
    [OP_TANH] = UNARY(tanh),
    [OP_SIGMOID] = UNARY(f_sigmoid),
    [OP_FINITE] = UNARY(f_finite),
    [OP_CAST] = {.eval = eval_cast},
    [OP_UPPER] = UNARY(f_upper),
    [OP_LOWER] = UNARY(f_lower),
    [OP_BITS] = UNARY(f_bits),
    [OP_JOIN] = BINARY(f_join),
    [OP_RANDOM] = BINARY(f_random),
    [OP_SHIFT] = BINARY(f_shift),
    [OP_DITHER] = BINARY(f_dither),
    [OP_ADD] = BINARY(f_add),
    [OP_SUB] = BINARY(f_sub),
    [OP_MUL] = BINARY(f_mul),
    [OP_DIV] = BINARY(f_div),
    [OP_MAX] = BINARY(f_max),
    [OP_MIN] = BINARY(f_min),
    [OP_LT] = BINARY(f_lt),
    [OP_LE] = BINARY(f_le),
    [OP_EQ] = BINARY(f_eq),
    [OP_AND] = BINARY(f_and),
    [OP_SELECT] = {.eval = eval_pointwise, .ternary = f_select},
    [OP_FMA] = {.eval = eval_pointwise, .ternary = fma},
    [OP_RESHAPE] = {.eval = NULL},
    [OP_PERMUTE] = {.eval = eval_permute},
    [OP_SLICE] = {.eval = eval_slice},
    [OP_BROADCAST] = {.eval = eval_broadcast},
    [OP_CONCAT] = {.eval = eval_concat},
    [OP_SUM] = {.eval = eval_reduce, .binary = f_add},
    [OP_MAXIMUM] = {.eval = eval_reduce, .binary = f_max},
    [OP_MATMUL] = {.eval = eval_matmul},
    [OP_ATTENTION] = {.eval = eval_attention},
    [OP_ATTENTION_GRAD] = {.eval = eval_attention_grad},
    [OP_EMBEDDING] = {.eval = eval_embedding},
    [OP_EMBEDDING_GRAD] = {.eval = eval_embedding_grad},
    [OP_ROUTE] = {.eval = eval_route},
    [OP_TAKE] = {.eval = eval_take},
    [OP_GROUPED] = {.eval = eval_grouped},
    [OP_GROUPED_GRAD] = {.eval = eval_grouped_grad},
    [OP_RESULT] = {.eval = NULL},
    [OP_ALL_GATHER] = {.eval = eval_collective},
    [OP_REDUCE_SCATTER] = {.eval = eval_collective},
    [OP_ALL_TO_ALL] = {.eval = eval_collective},
    [OP_ALL_REDUCE] = {.eval = eval_collective},
    [OP_FETCH] = {.eval = NULL},
    [OP_SEND] = {.eval = NULL},
    [OP_STORE] = {.eval = NULL},
};

double interp_scalar(const Node *node, const double *in) {
  Node scalar = *node;
  const double *at[3] = {&in[0], &in[1], &in[2]};
  double out;
  CHECK(op_table[node->op].kind == KIND_POINTWISE && node->nin <= 3);
  scalar.shape = shape_scalar();
  interp_table[node->op].eval(&(Eval){.node = &scalar, .in = at, .out = &out});
  return out;
}

/* --- the walk --------------------------------------------------------------------------------------------------------- */

/* A node's value: where it is, which node's memory it is in (-1: the caller's), and the last node that reads that. */
typedef struct Value {
  double *at;
  int owner, last;
} Value;

static void find_owners(const Graph *g, Value *value) {
  for (int i = 0; i < g->nodes.n; i++) {
    const Node *node = &g->nodes.at[i];
    bool shares = !interp_table[node->op].eval;
    value[i].owner = !shares ? i : node->op == OP_LOAD ? -1 : value[node->in[0]].owner;
    value[i].last = i;
    for (int k = 0; k < node->nin; k++) {
      int owner = value[node->in[k]].owner;
      if (owner >= 0 && value[owner].last < INT_MAX) value[owner].last = node->op == OP_STORE ? INT_MAX : i;
    }
  }
}

static double *value_shared(const Graph *g, const Node *node, const Value *value, double *const *var) {
  if (node->op == OP_LOAD) return var[graph_find_var(g, node->name)];
  int64_t offset = node->op == OP_RESULT ? interp_result_offset(g, graph_node(g, node->in[0]), node->n[0]) : 0;
  return value[node->in[0]].at + offset;
}

static void release(Value *value, int owner, int now) {
  if (owner < 0 || value[owner].last != now) return;
  free(value[owner].at);
  value[owner].at = NULL;
}

/* What is computed in one go is rounded to the type of its results; an attention's lse is in F32. */
static void round_results(const Graph *g, const Node *node, double *at) {
  int64_t n = node->op == OP_ATTENTION_GRAD ? interp_result_offset(g, node, INT_MAX) : shape_size(&node->shape);
  if (node->dtype == DT_F32 || !dtype_is_float(node->dtype)) return;
  for (int64_t i = 0; i < n; i++) at[i] = dtype_round(node->dtype, (float)at[i]);
}

void graph_interpret(const Graph *g, double *const *var, InterpCollective *collective, void *self) {
  int n = g->nodes.n;
  Arena *arena = arena_open();
  Value *value = arena_array(arena, Value, n);
  find_owners(g, value);
  for (int i = 0; i < n; i++) {
    const Node *node = &g->nodes.at[i];
    const InterpRow *row = &interp_table[node->op];
    if (row->eval) {
      const double **in = arena_array(arena, const double *, node->nin);
      for (int k = 0; k < node->nin; k++) in[k] = value[node->in[k]].at;
      value[i].at = xmalloc(sizeof(double) * (size_t)interp_result_offset(g, node, INT_MAX));
      row->eval(&(Eval){g, node, in, value[i].at, collective, self});
      round_results(g, node, value[i].at);
    } else {
      value[i].at = value_shared(g, node, value, var);
    }
    for (int k = 0; k < node->nin; k++) release(value, value[node->in[k]].owner, i);
    release(value, value[i].owner, i);
  }
  for (int i = 0; i < n; i++) { /* a stored value may be another var's, so all are read before one is written */
    const Node *node = &g->nodes.at[i];
    if (node->op != OP_STORE || value[i].owner >= 0) continue;
    size_t nbytes = sizeof(double) * (size_t)shape_size(&node->shape);
    value[i].at = memcpy(arena_alloc(arena, nbytes), value[i].at, nbytes);
  }
  for (int i = 0; i < n; i++) {
    const Node *node = &g->nodes.at[i];
    if (node->op != OP_STORE) continue;
    memcpy(var[graph_find_var(g, node->name)], value[i].at, sizeof(double) * (size_t)shape_size(&node->shape));
  }
  for (int i = 0; i < n; i++) release(value, i, INT_MAX);
  arena_close(arena);
}
