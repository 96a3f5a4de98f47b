/* SPDX-License-Identifier: Apache-2.0 */
/* Copies where a value cannot be read or written in place.  Rebuilds the graph node by node; order is kept.
 * Needs: a scheduled graph.  Breaks nothing: a COPY is the same value. */
#include <string.h>

#include "src/fuse/stage.h"

typedef struct Legalise {
  const Graph *g;
  Graph *out;
  int *map;
  Uses uses;           /* of g's */
  bool *free;          /* by node of g: is_free */
  VEC(Layout) layouts; /* by node of out */
  const FuseOptions *options;
  const bool *copied; /* by var */
  int *late;          /* by STORE of a copied Var: what is copied there in the end; -1 */
} Legalise;

static int push(Legalise *l, const Node *node, const int *in) {
  int i = graph_copy(l->out, node, in);
  while (l->layouts.n < l->out->nodes.n) { /* constructors may have added more than one */
    int n = l->layouts.n;
    const Node *x = graph_node(l->out, n);
    Layout layout = layout_root(l->out, n);
    if (is_view(x)) CHECK(layout_view(l->out, x, &l->layouts.at[x->in[0]], &layout));
    vec_push(l->out->arena, &l->layouts, layout);
  }
  return i;
}

/* A copy of value as its user needs it: in the user's scope and phase. */
static int copy_value(Legalise *l, const Node *user, int value) {
  Node copy = {.op = OP_COPY, .nin = 1, .scope = user->scope, .phase = user->phase};
  return push(l, &copy, &value);
}

static bool rows_of_ones(const Shape *s, const int64_t *stride) { return s->dim[s->rank - 1] == 1 || stride[s->rank - 1] == 1; }

/* Whether a big op can read operand k where it lies. */
static bool operand_fits(const Legalise *l, const Node *user, int k, int value) {
  const Shape *s = &graph_node(l->out, value)->shape;
  const Layout *at = &l->layouts.at[value];
  Op root = graph_node(l->out, at->root)->op;
  if (root == OP_CONST || root == OP_IOTA) return false;
  int64_t dense[IR_RANK];
  strides_dense(s, dense);
  if (user->op == OP_MATMUL && k < 2) {
    bool rows = rows_of_ones(s, at->stride) && (at->stride[0] >= s->dim[1] || s->dim[0] == 1);
    bool columns = (at->stride[0] == 1 || s->dim[0] == 1) && (at->stride[1] >= s->dim[0] || s->dim[1] == 1);
    return rows || columns;
  }
  for (int i = 0; i < s->rank; i++)
    if (at->stride[i] == 0 && s->dim[i] > 1) return false;
  bool strided = s->rank == 4 || (k == 0 && s->rank == 2); /* q, k, v, o; table and dout */
  if (op_table[user->op].kind == KIND_BIG && strided) return rows_of_ones(s, at->stride);
  for (int i = 0; i < s->rank; i++)
    if (s->dim[i] != 1 && at->stride[i] != dense[i]) return false;
  return true;
}

bool fuse_omits(const Graph *g, const Node *node, int k, const FuseOptions *options) {
  bool start = (node->op == OP_ATTENTION || node->op == OP_ATTENTION_GRAD) && k == node->nin - 1;
  const Node *constant = options->no_start && start ? constant_of(g, node->in[k]) : NULL;
  return constant && constant->f == 0;
}

static int reshape(Legalise *l, const Node *like, int value, Shape shape) {
  if (shape_equal(&graph_node(l->out, value)->shape, &shape)) return value;
  Layout layout;
  Node node = {.op = OP_RESHAPE, .dtype = like->dtype, .shape = shape, .nin = 1, .scope = like->scope, .phase = like->phase};
  if (!strides_reshape(&graph_node(l->out, value)->shape, l->layouts.at[value].stride, &shape, layout.stride))
    value = copy_value(l, like, value);
  return push(l, &node, &value);
}

/* Whether a kernel can do the reduction as it is: along the last axis, or the sums of the columns of a matrix. */
static bool stays(const Graph *g, const Node *x) {
  const Shape *s = &graph_node(g, x->in[0])->shape;
  return s->dim[x->n[0]] > 1 && (x->n[0] == s->rank - 1 || (x->op == OP_SUM && s->rank == 2));
}

/* The reduced axis becomes the last one, unless a kernel can do it as it is. */
static int reduce(Legalise *l, const Node *x, int value) {
  int axis = (int)x->n[0], rank = x->shape.rank;
  const Shape s = graph_node(l->out, value)->shape;
  if (s.dim[axis] == 1) return value; /* the sum of one is the one */
  if (stays(l->g, x)) return push(l, x, &value);
  Node permute = {.op = OP_PERMUTE, .nin = 1, .scope = x->scope, .phase = x->phase}, last = *x, back = permute;
  for (int i = 0; i < rank; i++) {
    permute.n[i] = i < axis ? i : i < rank - 1 ? i + 1 : axis;
    back.n[i] = i < axis ? i : i == axis ? rank - 1 : i - 1;
  }
  last.n[0] = rank - 1;
  int y = push(l, &permute, &value);
  y = push(l, &last, &y);
  return push(l, &back, &y);
}

static bool placeable(const Node *x) {
  OpKind kind = op_table[x->op].kind;
  return kind == KIND_POINTWISE || kind == KIND_REDUCE || kind == KIND_BIG || kind == KIND_RESULT || op_travels(x->op) ||
         x->op == OP_CONCAT;
}

int target_chain(const Graph *g, const Uses *uses, int user, int input) {
  const Node *u = graph_node(g, user);
  int node = u->in[input];
  while (uses->of[node] == 1 && graph_node(g, node)->op == OP_RESHAPE && (u->op == OP_STORE || u->shape.rank == 1))
    node = graph_node(g, node)->in[0];
  const Node *x = graph_node(g, node);
  bool alone = uses->of[node] == 1; /* or its other users read the Var, of which nobody wants what was there before */
  if (!alone && u->op == OP_STORE && op_travels(x->op)) alone = !uses->loaded[graph_find_var(g, u->name)];
  return alone && placeable(x) && !(x->op == OP_ATTENTION || x->op == OP_ATTENTION_GRAD) ? node : -1;
}

/* Whether the piece or value is written where its user wants it; else a copy is.  Reductions that reduce() rewrites end in a
 * view or vanish, so they are copied. */
static bool in_place(const Legalise *l, int user, int input) {
  const Node *u = graph_node(l->g, user);
  int node = target_chain(l->g, &l->uses, user, input);
  if (node < 0) return false;
  const Node *x = graph_node(l->g, node);
  if (op_table[x->op].kind == KIND_REDUCE && !stays(l->g, x)) return false;
  return u->op != OP_STORE || !l->copied[graph_find_var(l->g, u->name)];
}

/* A value made of indices and constants alone, by cheap ops: every kernel makes its own, so that sharing it does not tie
 * kernels together (one mask for the weight decay of all layers).  before: whether those are that come before it. */
static bool is_free(const Graph *g, const bool *before, int node) {
  static const bool dear[OP_COUNT] = {[OP_EXP] = true, [OP_EXPM1] = true, [OP_LOG] = true,     [OP_SIN] = true,
                                      [OP_COS] = true, [OP_TANH] = true,  [OP_SIGMOID] = true, [OP_DIV] = true};
  const Node *x = graph_node(g, node);
  if (x->op == OP_IOTA || constant_of(g, node)) return true;
  if (is_view(x) && shape_size(&graph_node(g, x->in[0])->shape) == 1) return true; /* a scalar, repeated */
  if (op_table[x->op].kind != KIND_POINTWISE || dear[x->op]) return false;
  for (int k = 0; k < x->nin; k++)
    if (!before[x->in[k]]) return false;
  return true;
}

/* A copy of a free value for one user, in new nodes down to constants and scalars; of a widened one, down to its 16 bits. */
static int copy_free(Legalise *l, const Node *user, int node) {
  Node x = *graph_node(l->g, node);
  if ((op_table[x.op].kind != KIND_POINTWISE && x.op != OP_IOTA) || x.dtype == DT_BF16 || x.dtype == DT_F16) return l->map[node];
  int *in = arena_array(l->out->arena, int, x.nin);
  for (int k = 0; k < x.nin; k++) in[k] = copy_free(l, user, x.in[k]);
  x.scope = user->scope;
  x.phase = user->phase;
  return push(l, &x, in);
}

/* A product whose bias is added behind it, in whatever kernel reads the sum. */
static int split_bias(Legalise *l, const Node *x, const int *in) {
  Node product = *x, row = {.op = OP_RESHAPE, .shape = SHAPE(1, x->shape.dim[1]), .nin = 1, .scope = x->scope, .phase = x->phase};
  Node all = row, sum = row;
  CHECK(x->dtype == DT_F32);
  all.op = OP_BROADCAST, all.shape = x->shape;
  sum.op = OP_ADD, sum.nin = 2;
  product.nin = 2;
  int bias = push(l, &row, &in[2]), terms[2] = {push(l, &product, in), push(l, &all, &bias)};
  return push(l, &sum, terms);
}

static int legalise_node(Legalise *l, int i) {
  const Node *x = graph_node(l->g, i);
  int *in = arena_array(l->out->arena, int, x->nin);
  OpKind kind = op_table[x->op].kind;
  for (int k = 0; k < x->nin; k++) {
    const Node *from = graph_node(l->g, x->in[k]);
    bool shared = l->uses.of[x->in[k]] > 1, apart = from->phase != x->phase || from->scope != x->scope;
    bool copy = (kind == KIND_POINTWISE || kind == KIND_REDUCE) &&
                ((shared && l->free[x->in[k]]) || ((shared || apart) && is_widened(from, l->g)));
    in[k] = copy ? copy_free(l, x, x->in[k]) : l->map[x->in[k]];
  }
  if (x->op == OP_RESHAPE) return reshape(l, x, in[0], x->shape);
  if (kind == KIND_REDUCE) return reduce(l, x, in[0]);
  if (kind == KIND_BIG || op_travels(x->op))
    for (int k = 0; k < x->nin; k++)
      if (!fuse_omits(l->g, x, k, l->options) && !operand_fits(l, x, k, in[k])) in[k] = copy_value(l, x, in[k]);
  if (x->op == OP_MATMUL && x->nin == 3 && !l->options->biases) return split_bias(l, x, in);
  if (x->op == OP_CONCAT || x->op == OP_STORE)
    for (int k = 0; k < x->nin; k++)
      if (!in_place(l, i, k)) in[k] = copy_value(l, x, in[k]);
  return push(l, x, in);
}

/* A STORE that a copy writes at the very end.  Its value, if that is a Var which is written too, is copied once more, now. */
static bool postpone(Legalise *l, int i, const bool *stored) {
  const Node *x = graph_node(l->g, i);
  if (x->op != OP_STORE || !l->copied[graph_find_var(l->g, x->name)]) return false;
  int value = l->map[x->in[0]], var = fuse_var_read(l->out, value);
  l->late[i] = var >= 0 && stored[var] ? copy_value(l, x, value) : value;
  return true;
}

Graph *fuse_legalise(const Graph *g, Arena *arena, const bool *copied, const FuseOptions *options) {
  Legalise l = {.g = g, .out = graph_open_like(g, arena), .options = options, .copied = copied};
  l.map = arena_array(arena, int, g->nodes.n);
  const bool *stored = fuse_stored_vars(g, arena);
  l.uses = count_uses(g, arena);
  l.free = arena_array(arena, bool, g->nodes.n);
  for (int i = 0; i < g->nodes.n; i++) l.free[i] = is_free(g, l.free, i);
  l.late = arena_ints(arena, g->nodes.n, -1);
  for (int i = 0; i < g->nodes.n; i++)
    if (!postpone(&l, i, stored)) l.map[i] = legalise_node(&l, i);
  for (int i = 0; i < g->nodes.n; i++) {
    if (l.late[i] < 0) continue;
    int copy = copy_value(&l, graph_node(g, i), l.late[i]);
    push(&l, graph_node(g, i), &copy);
  }
  return l.out;
}
