/* SPDX-License-Identifier: Apache-2.0 */
/* Building graphs: shapes, vars, scopes, and a constructor an op. */
#include <string.h>

#include "src/ir/ir.h"

int64_t shape_size(const Shape *s) {
  int64_t n = 1;
  for (int i = 0; i < s->rank; i++) n *= s->dim[i];
  return n;
}

bool shape_equal(const Shape *a, const Shape *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dim[i] != b->dim[i]) return false;
  return true;
}

bool shape_sane(const Shape *s) {
  int64_t n = 1;
  if (s->rank < 0 || s->rank > IR_RANK) return false;
  for (int i = 0; i < s->rank; i++) {
    if (s->dim[i] < 1 || s->dim[i] > INT64_MAX / 16 / n) return false;
    n *= s->dim[i];
  }
  return true;
}

Shape shape_of(int rank, const int64_t *dim) {
  Shape s = {.rank = rank};
  CHECK(rank <= IR_RANK);
  for (int i = 0; i < rank; i++) s.dim[i] = dim[i];
  return s;
}

Graph *graph_open(Arena *arena) {
  Graph *g = arena_new(arena, Graph);
  g->arena = arena;
  vec_push(arena, &g->scopes, (Scope){.name = "", .kind = SCOPE_PLAIN});
  return g;
}

bool graph_try_infer(const Graph *g, int limit, Node *node, Why *why) {
  const OpRow *row = &op_table[node->op];
  if (row->nin >= 0 ? node->nin != row->nin : node->nin < 1)
    return why_not(why, "%s takes %d inputs, not %d", row->name, row->nin, node->nin);
  for (int i = 0; i < node->nin; i++)
    if (node->in[i] < 0 || node->in[i] >= limit) return why_not(why, "%s of a node %d that is not there", row->name, node->in[i]);
  if (row->gives_shape && !shape_sane(&node->shape)) return why_not(why, "%s of an impossible shape", row->name);
  if (row->gives_dtype && node->dtype >= DT_COUNT) return why_not(why, "%s of an impossible type", row->name);
  Why inner;
  if (!row->infer(g, node, &inner)) return why_not(why, "%s: %s", row->name, inner.text);
  return shape_sane(&node->shape) || why_not(why, "%s: the result is too large", row->name);
}

bool graph_try_push(Graph *g, Node node, int *index, Why *why) {
  if (!graph_try_infer(g, g->nodes.n, &node, why)) return false;
  int *in = arena_array(g->arena, int, node.nin);
  if (node.nin) memcpy(in, node.in, sizeof *in * (size_t)node.nin);
  node.in = in;
  *index = g->nodes.n;
  vec_push(g->arena, &g->nodes, node);
  return true;
}

int graph_push(Graph *g, Node node) {
  Why why;
  int index;
  node.scope = g->scope;
  node.phase = g->phase;
  if (!graph_try_push(g, node, &index, &why)) fail(FAIL_BUG, "graph: %s", why.text);
  return index;
}

int graph_copy(Graph *g, const Node *node, const int *in) {
  Node copy = *node;
  Why why;
  int index;
  copy.in = (int *)in;
  if (!graph_try_push(g, copy, &index, &why)) fail(FAIL_BUG, "graph: %s", why.text);
  return index;
}

/* FNV-1a */
static uint32_t hash_name(const char *name) {
  uint32_t h = 2166136261u;
  for (; *name; name++) h = (h ^ (unsigned char)*name) * 16777619u;
  return h;
}

/* The slot that holds the var of this name, or the free one where it would be. */
static uint32_t find_slot(const Graph *g, const char *name) {
  uint32_t mask = (uint32_t)g->var_slots - 1, i = hash_name(name) & mask;
  while (g->var_slot[i] >= 0 && strcmp(g->vars.at[g->var_slot[i]].name, name) != 0) i = (i + 1) & mask;
  return i;
}

int graph_find_var(const Graph *g, const char *name) { return g->var_slots ? g->var_slot[find_slot(g, name)] : -1; }

bool graph_is_far(const Graph *g, int node) {
  const Node *x = graph_node(g, node);
  return x->op == OP_SEND || (x->op == OP_LOAD && g->vars.at[graph_find_var(g, x->name)].home != HOME_DEVICE);
}

int graph_var(Graph *g, Var var) {
  CHECK(graph_find_var(g, var.name) < 0 && shape_sane(&var.shape));
  vec_push(g->arena, &g->vars, var);
  if (2 * g->vars.n > g->var_slots) {
    g->var_slots = g->var_slots ? 2 * g->var_slots : 64;
    g->var_slot = arena_array(g->arena, int, g->var_slots);
    for (int i = 0; i < g->var_slots; i++) g->var_slot[i] = -1;
    for (int i = 0; i < g->vars.n - 1; i++) g->var_slot[find_slot(g, g->vars.at[i].name)] = i;
  }
  g->var_slot[find_slot(g, var.name)] = g->vars.n - 1;
  return g->vars.n - 1;
}

Graph *graph_open_like(const Graph *g, Arena *arena) {
  Graph *out = graph_open(arena);
  for (int i = 0; i < g->vars.n; i++) graph_var(out, g->vars.at[i]);
  out->scopes.n = 0;
  for (int i = 0; i < g->scopes.n; i++) vec_push(arena, &out->scopes, g->scopes.at[i]);
  return out;
}

static const char *copy_name(Arena *arena, const char *name) { return name ? arena_strdup(arena, name) : NULL; }

Graph *graph_open_own(const Graph *g, Arena *arena) {
  Graph *out = graph_open(arena);
  for (int i = 0; i < g->vars.n; i++) {
    Var v = g->vars.at[i];
    v.name = copy_name(arena, v.name);
    v.unit = copy_name(arena, v.unit);
    v.within = copy_name(arena, v.within);
    graph_var(out, v);
  }
  out->scopes.n = 0;
  for (int i = 0; i < g->scopes.n; i++)
    vec_push(arena, &out->scopes, (Scope){copy_name(arena, g->scopes.at[i].name), g->scopes.at[i].kind});
  return out;
}

Graph *graph_clone(const Graph *g, Arena *arena) {
  Graph *out = graph_open_own(g, arena);
  for (int i = 0; i < g->nodes.n; i++) {
    Node x = *graph_node(g, i);
    x.name = copy_name(arena, x.name);
    if (x.table) {
      double *table = arena_array(arena, double, x.n[0]);
      memcpy(table, x.table, sizeof *table * (size_t)x.n[0]);
      x.table = table;
    }
    graph_copy(out, &x, x.in);
  }
  return out;
}

int graph_enter(Graph *g, const char *name, ScopeKind kind) {
  int before = g->scope;
  vec_push(g->arena, &g->scopes, (Scope){.name = name, .kind = kind});
  g->scope = g->scopes.n - 1;
  return before;
}

int ir_const(Graph *g, DType dtype, double value) { return graph_push(g, (Node){.op = OP_CONST, .dtype = dtype, .f = value}); }

int ir_table(Graph *g, const double *values, int64_t n) {
  double *copy = arena_array(g->arena, double, n);
  memcpy(copy, values, sizeof *copy * (size_t)n);
  return graph_push(g, (Node){.op = OP_TABLE, .table = copy, .n = {n}});
}

int ir_iota(Graph *g, DType dtype, Shape shape, int axis) {
  return graph_push(g, (Node){.op = OP_IOTA, .dtype = dtype, .shape = shape, .n = {axis}});
}

int ir_load(Graph *g, const char *var) { return graph_push(g, (Node){.op = OP_LOAD, .name = var}); }

int ir_store(Graph *g, const char *var, int value) {
  return graph_push(g, (Node){.op = OP_STORE, .name = var, .nin = 1, .in = (int[]){value}});
}

int ir_unary(Graph *g, Op op, int x) { return graph_push(g, (Node){.op = op, .nin = 1, .in = (int[]){x}}); }

int ir_cast(Graph *g, DType dtype, int x) {
  if (graph_node(g, x)->dtype == dtype) return x;
  return graph_push(g, (Node){.op = OP_CAST, .dtype = dtype, .nin = 1, .in = (int[]){x}});
}

int ir_reshape(Graph *g, int x, Shape shape) {
  if (shape_equal(&graph_node(g, x)->shape, &shape)) return x;
  return graph_push(g, (Node){.op = OP_RESHAPE, .shape = shape, .nin = 1, .in = (int[]){x}});
}

int ir_permute(Graph *g, int x, const int *axes) {
  Node node = {.op = OP_PERMUTE, .nin = 1, .in = (int[]){x}};
  for (int i = 0; i < graph_node(g, x)->shape.rank; i++) node.n[i] = axes[i];
  return graph_push(g, node);
}

int ir_transpose(Graph *g, int x) {
  CHECK(graph_node(g, x)->shape.rank == 2);
  return ir_permute(g, x, (int[]){1, 0});
}

int ir_slice(Graph *g, int x, int axis, int64_t lo, int64_t hi) {
  const Shape *s = &graph_node(g, x)->shape;
  CHECK(axis >= 0 && axis < s->rank);
  if (lo == 0 && hi == s->dim[axis]) return x;
  return graph_push(g, (Node){.op = OP_SLICE, .n = {axis, lo, hi}, .nin = 1, .in = (int[]){x}});
}

int ir_broadcast(Graph *g, int x, Shape shape) {
  Shape s = graph_node(g, x)->shape;
  if (s.rank < shape.rank) {
    Shape padded = {.rank = shape.rank};
    for (int i = 0; i < shape.rank; i++) padded.dim[i] = i < shape.rank - s.rank ? 1 : s.dim[i - (shape.rank - s.rank)];
    x = ir_reshape(g, x, padded);
    s = padded;
  }
  if (shape_equal(&s, &shape)) return x;
  return graph_push(g, (Node){.op = OP_BROADCAST, .shape = shape, .nin = 1, .in = (int[]){x}});
}

int ir_concat(Graph *g, const int *xs, int n, int axis) {
  if (n == 1) return xs[0];
  return graph_push(g, (Node){.op = OP_CONCAT, .n = {axis}, .nin = n, .in = (int *)xs});
}

static Shape shape_common(const Shape *a, const Shape *b) {
  const Shape *longer = a->rank >= b->rank ? a : b, *shorter = a->rank >= b->rank ? b : a;
  Shape s = *longer;
  for (int i = 0; i < shorter->rank; i++) {
    int j = longer->rank - shorter->rank + i;
    if (s.dim[j] == 1) s.dim[j] = shorter->dim[i];
  }
  return s;
}

int ir_binary(Graph *g, Op op, int a, int b) {
  Shape s = shape_common(&graph_node(g, a)->shape, &graph_node(g, b)->shape);
  return graph_push(g, (Node){.op = op, .nin = 2, .in = (int[]){ir_broadcast(g, a, s), ir_broadcast(g, b, s)}});
}

int ir_select(Graph *g, int p, int a, int b) {
  Shape s = shape_common(&graph_node(g, a)->shape, &graph_node(g, b)->shape);
  s = shape_common(&s, &graph_node(g, p)->shape);
  int in[] = {ir_broadcast(g, p, s), ir_broadcast(g, a, s), ir_broadcast(g, b, s)};
  return graph_push(g, (Node){.op = OP_SELECT, .nin = 3, .in = in});
}

int ir_reduce(Graph *g, Op op, int x, int axis) { return graph_push(g, (Node){.op = op, .n = {axis}, .nin = 1, .in = (int[]){x}}); }

int ir_sum_all(Graph *g, int x) {
  Shape s = graph_node(g, x)->shape;
  for (int i = s.rank - 1; i >= 0; i--) x = ir_reduce(g, OP_SUM, x, i);
  return ir_reshape(g, x, shape_scalar());
}

int ir_matmul_bias(Graph *g, int a, bool ta, int b, bool tb, int bias) {
  return graph_push(g, (Node){.op = OP_MATMUL, .n = {ta, tb}, .nin = bias < 0 ? 2 : 3, .in = (int[]){a, b, bias}});
}

int ir_matmul(Graph *g, int a, bool ta, int b, bool tb) { return ir_matmul_bias(g, a, ta, b, tb, -1); }

Route ir_route(Graph *g, int scores, int64_t k) {
  int64_t T = graph_node(g, scores)->shape.dim[0], E = graph_node(g, scores)->shape.dim[1], pairs = T * k;
  int all = graph_push(g, (Node){.op = OP_ROUTE, .n = {k}, .nin = 1, .in = &scores});
  return (Route){.expert = ir_reshape(g, ir_slice(g, all, 0, 0, pairs), SHAPE(T, k)),
                 .order = ir_slice(g, all, 0, pairs, 2 * pairs),
                 .inverse = ir_slice(g, all, 0, 2 * pairs, 3 * pairs),
                 .offsets = ir_slice(g, all, 0, 3 * pairs, 3 * pairs + E + 1)};
}

int ir_take(Graph *g, int x, int index, int inverse, int64_t times) {
  return graph_push(g, (Node){.op = OP_TAKE, .n = {times}, .nin = 3, .in = (int[]){x, index, inverse}});
}

int ir_grouped(Graph *g, int x, int w, bool tw, int offsets) {
  return graph_push(g, (Node){.op = OP_GROUPED, .n = {!tw}, .nin = 3, .in = (int[]){x, w, offsets}});
}

int ir_result(Graph *g, int x, int i) { return graph_push(g, (Node){.op = OP_RESULT, .n = {i}, .nin = 1, .in = (int[]){x}}); }

int ir_attention(Graph *g, int q, int k, int v, int start, double scale, int64_t window) {
  int x = graph_push(g, (Node){.op = OP_ATTENTION, .f = scale, .n = {window}, .nin = 4, .in = (int[]){q, k, v, start}});
  int o = ir_result(g, x, 0);
  ir_result(g, x, 1);
  return o;
}
