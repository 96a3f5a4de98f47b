/* SPDX-License-Identifier: Apache-2.0 */
/* The simplifier writes a new graph in one sweep.  Every node is added through the rules of its op, on top of inputs that have
 * been through theirs, and so is every node that a rule makes: what is added is in normal form.  Equal nodes become one by
 * hash-consing.  A second sweep drops what nothing reads.
 *
 * Needs a graph that passes the checker.  Keeps vars, scopes, the order of what remains, and the bits of every stored value,
 * in float as in double.  Never makes nodes of two phases one (a value that is to be computed again is computed again), nor
 * two collectives or transfers (a pass put each where it is). */
#include "src/ir/simplify.h"

#include <string.h>

enum { RULES = 3 };
static SimplifyRule *const rules[OP_COUNT][RULES] = {
    [OP_COPY] = {simplify_same},
    [OP_STOP] = {simplify_same},
    [OP_NEG] = {simplify_fold, simplify_neg},
    [OP_SQRT] = {simplify_fold},
    [OP_FINITE] = {simplify_fold},
    [OP_CAST] = {simplify_cast, simplify_fold},
    [OP_ADD] = {simplify_fold, simplify_add_zero},
    [OP_SUB] = {simplify_fold, simplify_sub_zero},
    [OP_MUL] = {simplify_fold, simplify_mul_one},
    [OP_DIV] = {simplify_fold, simplify_div_one},
    [OP_LT] = {simplify_fold},
    [OP_LE] = {simplify_fold},
    [OP_EQ] = {simplify_fold},
    [OP_AND] = {simplify_fold, simplify_and},
    [OP_SELECT] = {simplify_select},
    [OP_FMA] = {simplify_fold},
    [OP_RESHAPE] = {simplify_view_of_splat, simplify_reshape},
    [OP_PERMUTE] = {simplify_view_of_splat, simplify_permute},
    [OP_SLICE] = {simplify_view_of_splat, simplify_slice},
    [OP_BROADCAST] = {simplify_view_of_splat, simplify_broadcast},
    [OP_CONCAT] = {simplify_concat},
    [OP_MATMUL] = {simplify_matmul},
};

/* --- equal nodes ------------------------------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t h, const void *bytes, size_t n) {
  uint64_t word;
  for (; n >= sizeof word; n -= sizeof word, bytes = (const char *)bytes + sizeof word) {
    memcpy(&word, bytes, sizeof word);
    h = (h ^ word) * 0x9E3779B97F4A7C15u;
    h ^= h >> 32;
  }
  if (!n) return h;
  word = 0;
  memcpy(&word, bytes, n);
  return mix(h, &word, sizeof word);
}

static size_t in_bytes(const Node *node) { return sizeof *node->in * (size_t)node->nin; }
static size_t table_bytes(const Node *node) { return node->table ? sizeof *node->table * (size_t)node->n[0] : 0; }
static size_t dim_bytes(const Node *node) { return sizeof node->shape.dim[0] * (size_t)node->shape.rank; }

static uint64_t node_hash(const Node *node) {
  int head[] = {(int)node->op, (int)node->dtype, (int)node->phase, node->shape.rank};
  uint64_t h = mix(1, head, sizeof head);
  h = mix(h, node->shape.dim, dim_bytes(node));
  h = mix(h, node->in, in_bytes(node));
  h = mix(h, node->n, sizeof node->n);
  h = mix(h, &node->f, sizeof node->f);
  h = mix(h, &node->name, sizeof node->name);
  return mix(h, node->table, table_bytes(node));
}

static bool same_bytes(const void *a, const void *b, size_t n) { return !n || !memcmp(a, b, n); }

static bool node_equal(const Node *a, const Node *b) {
  return a->op == b->op && a->dtype == b->dtype && a->phase == b->phase && shape_equal(&a->shape, &b->shape) && a->nin == b->nin &&
         same_bytes(a->in, b->in, in_bytes(a)) && !memcmp(a->n, b->n, sizeof a->n) && !memcmp(&a->f, &b->f, sizeof a->f) &&
         a->name == b->name && same_bytes(a->table, b->table, table_bytes(a));
}

/* The slot of an equal node, or the free one where this belongs. */
static int *find_slot(const Simplify *s, const Node *node) {
  uint64_t mask = (uint64_t)s->slots - 1, i = node_hash(node) & mask;
  while (s->slot[i] >= 0 && !node_equal(graph_node(s->g, s->slot[i]), node)) i = (i + 1) & mask;
  return &s->slot[i];
}

static void slots_reserve(Simplify *s) {
  if (2 * (s->g->nodes.n + 1) <= s->slots) return;
  s->slots = s->slots ? 2 * s->slots : 4096;
  s->slot = arena_array(s->g->arena, int, s->slots);
  for (int i = 0; i < s->slots; i++) s->slot[i] = -1;
  for (int i = 0; i < s->g->nodes.n; i++) *find_slot(s, graph_node(s->g, i)) = i;
}

static void infer(Simplify *s, Node *node) {
  Why why;
  node->scope = s->g->scope;
  node->phase = s->g->phase;
  if (!graph_try_infer(s->g, s->g->nodes.n, node, &why)) fail(FAIL_BUG, "simplify: %s", why.text);
}

int simplify_add(Simplify *s, Node node) {
  infer(s, &node);
  if (op_travels(node.op) || op_table[node.op].kind == KIND_STORE) return graph_push(s->g, node);
  slots_reserve(s);
  int *slot = find_slot(s, &node);
  if (*slot < 0) *slot = graph_push(s->g, node);
  return *slot;
}

int simplify_emit(Simplify *s, Node node) {
  infer(s, &node);
  for (int i = 0; i < RULES && rules[node.op][i]; i++) {
    int same = rules[node.op][i](s, &node);
    if (same >= 0) return same;
  }
  return simplify_add(s, node);
}

int simplify_splat(Simplify *s, DType dtype, double f, Shape shape) {
  int x = simplify_add(s, (Node){.op = OP_CONST, .dtype = dtype, .f = f});
  if (!shape.rank) return x;
  Shape ones = {.rank = shape.rank};
  for (int i = 0; i < shape.rank; i++) ones.dim[i] = 1;
  x = simplify_add(s, (Node){.op = OP_RESHAPE, .shape = ones, .nin = 1, .in = &x});
  if (shape_equal(&ones, &shape)) return x;
  return simplify_add(s, (Node){.op = OP_BROADCAST, .shape = shape, .nin = 1, .in = &x});
}

bool simplify_is_splat(const Simplify *s, int i, double *f) {
  const Node *node = graph_node(s->g, i);
  while (node->op == OP_BROADCAST || node->op == OP_RESHAPE) node = graph_node(s->g, node->in[0]);
  *f = node->f;
  return node->op == OP_CONST;
}

/* --- the sweeps ------------------------------------------------------------------------------------------------------- */

static bool *find_live(const Graph *g, Arena *arena) {
  bool *live = arena_array(arena, bool, g->nodes.n);
  for (int i = g->nodes.n - 1; i >= 0; i--) {
    const Node *node = graph_node(g, i);
    live[i] |= node->op == OP_STORE;
    for (int k = 0; k < node->nin && live[i]; k++) live[node->in[k]] = true;
  }
  return live;
}

/* A node for g, with names and tables of g's and nothing in the numbers that its op does not have. */
static Node adopt(const Graph *g, const Node *node, const int *map) {
  Node copy = *node;
  const OpRow *row = &op_table[node->op];
  int used = *row->numbers ? 1 : 0;
  for (const char *c = row->numbers; *c; c++) used += *c == ' ';
  if (*row->numbers == '*') used = node->shape.rank;
  for (int i = used; i < IR_NUMBERS; i++) copy.n[i] = 0;
  if (!row->has_f) copy.f = 0;
  copy.name = row->has_name ? g->vars.at[graph_find_var(g, node->name)].name : NULL;
  copy.in = arena_array(g->arena, int, node->nin);
  for (int i = 0; i < node->nin; i++) copy.in[i] = map[node->in[i]];
  copy.table = NULL;
  if (node->op != OP_TABLE) return copy;
  double *table = arena_array(g->arena, double, node->n[0]);
  memcpy(table, node->table, sizeof *table * (size_t)node->n[0]);
  copy.table = table;
  return copy;
}

typedef int Place(void *self, Graph *g, Node node);

static int place_emit(void *self, Graph *g, Node node) {
  (void)g;
  return simplify_emit(self, node);
}

static int place_copy(void *self, Graph *g, Node node) {
  (void)self;
  return graph_push(g, node);
}

static void sweep(const Graph *from, Graph *to, Place *place, void *self, Arena *scratch) {
  bool *live = find_live(from, scratch);
  int *map = arena_array(scratch, int, from->nodes.n);
  for (int i = 0; i < from->nodes.n; i++) {
    const Node *node = graph_node(from, i);
    if (!live[i]) continue;
    to->scope = node->scope;
    to->phase = node->phase;
    map[i] = place(self, to, adopt(to, node, map));
  }
  to->scope = from->scope;
  to->phase = from->phase;
}

Graph *graph_simplify(const Graph *g, Arena *arena) {
  Arena *scratch = arena_open();
  Simplify s = {.g = graph_open_own(g, scratch)};
  sweep(g, s.g, place_emit, &s, scratch);
  Graph *out = graph_open_own(g, arena);
  sweep(s.g, out, place_copy, NULL, scratch);
  arena_close(scratch);
  return out;
}
