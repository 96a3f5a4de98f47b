/* SPDX-License-Identifier: Apache-2.0 */
/* Forward values that only the backward pass still wants, and that pointwise ops make from values that are stored anyway, are
 * made again in the backward kernel that reads them.  Costs registers, saves memory and its traffic; the bits are the same. */
#include "src/fuse/stage.h"

typedef struct Clone {
  struct Clone *next;
  int group, node; /* node of the new graph */
} Clone;

typedef struct Remat {
  const Graph *g;
  Graph *out;
  const Grouping *grouping;
  int *map;
  bool *stored; /* by node: in memory whatever the backward pass does */
  Clone **clones;
} Remat;

static bool is_backward(const Node *x) { return x->phase == PHASE_BACKWARD; }

/* Whether the value is worth making again: as large as its kernel's domain, and pointwise. */
static bool is_cheap(const Graph *g, int node) {
  const Node *x = graph_node(g, node);
  return op_table[x->op].kind == KIND_POINTWISE && x->shape.rank > 0 && x->shape.dim[x->shape.rank - 1] > 1;
}

static int copy_operand(Remat *r, int user, int k, int group, const Node *as);

static int clone(Remat *r, int node, int group, const Node *as) {
  for (Clone *c = r->clones[node]; c; c = c->next)
    if (c->group == group) return c->node;
  const Node *x = graph_node(r->g, node);
  int *in = arena_array(r->out->arena, int, x->nin);
  for (int k = 0; k < x->nin; k++) in[k] = copy_operand(r, node, k, group, as);
  Node copy = *x;
  copy.phase = as->phase;
  copy.scope = as->scope;
  Clone *c = arena_new(r->out->arena, Clone);
  *c = (Clone){r->clones[node], group, graph_copy(r->out, &copy, in)};
  r->clones[node] = c;
  return c->node;
}

/* Input k of user, for a copy of user that runs in `group` with the phase and scope of `as`. */
static int copy_operand(Remat *r, int user, int k, int group, const Node *as) {
  int i = graph_node(r->g, user)->in[k];
  bool forward = !is_backward(graph_node(r->g, i)) && r->grouping->group[i] >= 0 && r->grouping->group[i] != group;
  return forward && is_cheap(r->g, i) && !r->stored[i] ? clone(r, i, group, as) : r->map[i];
}

/* What reads a Var that the program writes is not made again later: the Var may have been written by then. */
static void find_stored(Remat *r) {
  const bool *written = fuse_stored_vars(r->g, r->out->arena);
  for (int i = 0; i < r->g->nodes.n; i++) {
    const Node *x = graph_node(r->g, i);
    for (int k = 0; k < x->nin; k++) {
      int from = x->in[k];
      bool register_of = r->grouping->group[i] >= 0 && r->grouping->group[i] == r->grouping->group[from];
      bool can_clone = r->grouping->group[i] >= 0 && is_backward(x);
      if (!register_of && !can_clone) r->stored[from] = true;
      int var = fuse_var_read(r->g, from);
      if (var >= 0 && written[var]) r->stored[i] = true;
    }
  }
}

Graph *fuse_rematerialise(const Graph *g, Arena *arena, const Grouping *grouping) {
  int n = g->nodes.n;
  Remat r = {.g = g, .out = graph_open_like(g, arena), .grouping = grouping, .map = arena_array(arena, int, n)};
  r.stored = arena_array(arena, bool, n);
  r.clones = arena_array(arena, Clone *, n);
  find_stored(&r);
  for (int i = 0; i < n; i++) {
    const Node *x = graph_node(g, i);
    int *in = arena_array(arena, int, x->nin);
    bool may = grouping->group[i] >= 0 && is_backward(x);
    for (int k = 0; k < x->nin; k++) in[k] = may ? copy_operand(&r, i, k, grouping->group[i], x) : r.map[x->in[k]];
    r.map[i] = graph_copy(r.out, x, in);
  }
  return r.out;
}
