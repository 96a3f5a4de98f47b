/* SPDX-License-Identifier: Apache-2.0 */
/* Adding where the terms are made.  In carried + concat(a, b, …) each piece is added to its own part of the carried vector at
 * the place where the piece is produced; in a piece that is itself a sum, the carried part goes in front of the first term.
 * So a weight gradient's product can add straight into the carried vector, and no second copy of it is ever alive. */
#include "src/pass/pass.h"

/* Add the carried elements from lo on (of LOAD node `load` of g) to this node, or to this input of it. */
typedef struct Inject {
  struct Inject *next;
  int input; /* -1: to the node's own result */
  int load;
  int64_t lo;
} Inject;

typedef struct Accumulate {
  const Graph *g;
  Graph *out;
  int *map, *uses;
  Inject **inject; /* by node of g */
  int *stands_for; /* by node of g: an ADD that gave way to this node; -1 */
} Accumulate;

static void inject(Accumulate *a, int node, Inject what) {
  Inject *p = arena_new(a->out->arena, Inject);
  *p = what;
  p->next = a->inject[node];
  a->inject[node] = p;
}

/* Input k of `user` is to become itself plus the carried part. */
static void push_down(Accumulate *a, int user, int k, int load, int64_t lo) {
  int node = graph_node(a->g, user)->in[k];
  const Node *x = graph_node(a->g, node);
  if (a->uses[node] > 1) {
    inject(a, user, (Inject){.input = k, .load = load, .lo = lo});
  } else if (x->op == OP_CONCAT && x->shape.rank == 1) {
    for (int i = 0; i < x->nin; i++) {
      push_down(a, node, i, load, lo);
      lo += graph_node(a->g, x->in[i])->shape.dim[0];
    }
  } else if (x->op == OP_RESHAPE || x->op == OP_ADD) {
    push_down(a, node, 0, load, lo);
  } else {
    inject(a, node, (Inject){.input = -1, .load = load, .lo = lo});
  }
}

static bool is_carried(const Graph *g, int node) {
  const Node *x = graph_node(g, node);
  return x->op == OP_LOAD && g->vars.at[graph_find_var(g, x->name)].class == VAR_CARRY && x->shape.rank == 1;
}

static int add_carried(Accumulate *a, int value, const Inject *what) {
  Graph *g = a->out;
  Shape s = graph_node(g, value)->shape;
  int load = ir_load(g, graph_node(a->g, what->load)->name);
  int part = ir_slice(g, load, 0, what->lo, what->lo + shape_size(&s));
  return ir_add(g, ir_reshape(g, part, s), value);
}

static int copy_node(Accumulate *a, int i) {
  const Node *x = graph_node(a->g, i);
  int *in = arena_array(a->out->arena, int, x->nin);
  a->out->scope = x->scope;
  a->out->phase = x->phase;
  for (int k = 0; k < x->nin; k++) in[k] = a->map[x->in[k]];
  for (const Inject *p = a->inject[i]; p; p = p->next)
    if (p->input >= 0) in[p->input] = add_carried(a, in[p->input], p);
  int copy = graph_copy(a->out, x, in);
  for (const Inject *p = a->inject[i]; p; p = p->next)
    if (p->input < 0) copy = add_carried(a, copy, p);
  return copy;
}

/* Whether terms come from other ranks: those of this one are added up already. */
static bool is_from_ranks(const Graph *g, int node) {
  const Node *x = graph_node(g, node);
  if (x->op == OP_REDUCE_SCATTER || x->op == OP_ALL_TO_ALL) return true;
  bool through = x->op == OP_ADD || x->op == OP_CAST || op_table[x->op].kind == KIND_VIEW;
  return through && x->op != OP_CONCAT && is_from_ranks(g, x->in[0]);
}

Graph *pass_accumulate(const Graph *g, Arena *arena) {
  int n = g->nodes.n;
  Accumulate a = {.g = g, .out = graph_open_like(g, arena)};
  a.map = arena_array(arena, int, n);
  a.uses = arena_array(arena, int, n);
  a.inject = arena_array(arena, Inject *, n);
  a.stands_for = arena_array(arena, int, n);
  for (int i = 0; i < n; i++)
    for (int k = 0; k < graph_node(g, i)->nin; k++) a.uses[graph_node(g, i)->in[k]]++;
  for (int i = 0; i < n; i++) {
    const Node *x = graph_node(g, i);
    a.stands_for[i] = -1;
    if (x->op != OP_ADD || !is_carried(g, x->in[0]) || is_from_ranks(g, x->in[1])) continue;
    push_down(&a, i, 1, x->in[0], 0);
    if (!a.inject[i] || a.inject[i]->input < 0)
      a.stands_for[i] = x->in[1];
    else
      a.inject[i] = NULL; /* nothing to push: the ADD stays as it is */
  }
  for (int i = 0; i < n; i++) a.map[i] = a.stands_for[i] >= 0 ? a.map[a.stands_for[i]] : copy_node(&a, i);
  return a.out;
}
