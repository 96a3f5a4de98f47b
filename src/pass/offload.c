/* SPDX-License-Identifier: Apache-2.0 */
/* Offload as inserted nodes.  Ren et al., "ZeRO-Offload: Democratizing Billion-Scale Model Training", USENIX ATC 2021;
 * Rajbhandari et al., "ZeRO-Infinity", SC 2021.
 *
 * A Var that is kept elsewhere is fetched for its readers and sent where it is written.  One that the program writes is fetched
 * once, since its fetched copy may become the new value; one that it only reads once a scope, so that a gradient does not stay
 * between the norm and the update that both want it. */
#include <string.h>

#include "src/pass/pass.h"

typedef struct Fetched {
  struct Fetched *next;
  int scope, node; /* of out; scope -1: for all */
} Fetched;

typedef struct Offload {
  const Graph *g;
  Graph *out;
  int *map;
  bool *stored;      /* by var */
  Fetched **fetched; /* by var */
  int *block;        /* by node of g: the block whose input it is, to be sent off and fetched for its backward pass; 0: none */
  int *sent;         /* by such a node: the SEND; -1 */
  int *again;        /* by such a node, and what shows it: what the block's backward pass has of it; -1 */
} Offload;

enum { MANY = -1 };

static void set_home(Graph *g, const char *name, VarHome home) {
  int v = graph_find_var(g, name);
  if (v >= 0) g->vars.at[v].home = home;
}

static void set_slot(Graph *g, const StateTable *table, StateSlot slot, VarHome home) {
  for (int i = 0; i < table->nrows; i++)
    if (table->rows[i].slot == slot) set_home(g, table->rows[i].name, home);
}

static void set_homes(Graph *g, const StateTable *table, const OffloadOptions *o) {
  if (o->what & OFFLOAD_MOMENTS) set_slot(g, table, SLOT_M, o->moments);
  if (o->what & OFFLOAD_MOMENTS) set_slot(g, table, SLOT_V, o->moments);
  if (o->what & OFFLOAD_MASTERS) set_slot(g, table, SLOT_LOWER, HOME_HOST);
  for (int u = 0; u < table->nunits && o->what & OFFLOAD_GRADIENTS; u++) {
    set_home(g, state_grad(g->arena, &table->units[u]), HOME_HOST);
    set_home(g, state_gradsum(g->arena, &table->units[u]), HOME_HOST);
  }
}

/* The Var elsewhere that a node accesses; -1. */
static int far_var(const Offload *o, const Node *x) {
  int v = x->op == OP_LOAD || x->op == OP_STORE ? graph_find_var(o->out, x->name) : -1;
  return v >= 0 && o->out->vars.at[v].home != HOME_DEVICE ? v : -1;
}

/* Var v as a node of this scope reads it. */
static int fetch(Offload *o, int v, int scope) {
  if (o->stored[v]) scope = -1;
  for (const Fetched *f = o->fetched[v]; f; f = f->next)
    if (f->scope == scope) return f->node;
  Fetched *f = arena_new(o->out->arena, Fetched);
  *f = (Fetched){o->fetched[v], scope, ir_unary(o->out, OP_FETCH, ir_load(o->out, o->out->vars.at[v].name))};
  o->fetched[v] = f;
  return f->node;
}

/* --- block inputs --------------------------------------------------------------------------------------------------------- */

static bool is_backward(const Node *x) { return x->phase != PHASE_FORWARD; }

/* Views and casts, which cost nothing to make again, of a value that takes memory. */
static bool is_shown(const Graph *g, const Node *x) {
  return x->op != OP_CONCAT && (op_table[x->op].kind == KIND_VIEW || (x->op == OP_CAST && dtype_size(x->dtype) > 2)) &&
         !is_backward(graph_node(g, x->in[0]));
}

static int shown(const Graph *g, int node) {
  while (is_shown(g, graph_node(g, node))) node = graph_node(g, node)->in[0];
  return node;
}

static bool is_block(const Graph *g, int scope) { return g->scopes.at[scope].kind == SCOPE_BLOCK; }

/* What one block alone wants for its backward pass, and another scope has made for the block's forward. */
static void find_inputs(Offload *o) {
  const Graph *g = o->g;
  bool *enters = arena_array(o->out->arena, bool, g->nodes.n);
  for (int i = 0; i < g->nodes.n; i++) {
    const Node *x = graph_node(g, i);
    if (is_shown(g, x)) continue;
    for (int k = 0; k < x->nin; k++) {
      int from = shown(g, x->in[k]);
      const Node *y = graph_node(g, from);
      OpKind kind = op_table[y->op].kind;
      if (is_backward(y) || (kind != KIND_POINTWISE && kind != KIND_BIG)) continue;
      if (!is_backward(x)) {
        enters[from] |= y->scope != x->scope && is_block(g, x->scope);
      } else {
        bool one = y->scope != x->scope && is_block(g, x->scope) && (!o->block[from] || o->block[from] == x->scope);
        o->block[from] = one ? x->scope : MANY;
      }
    }
  }
  for (int i = 0; i < g->nodes.n; i++)
    if (!enters[i] || o->block[i] == MANY) o->block[i] = 0;
}

/* A node of g that shows a block's input, as the block's backward pass reads it. */
static int input_again(Offload *o, int node, const Node *user) {
  const Node *x = graph_node(o->g, node);
  if (o->again[node] >= 0) return o->again[node];
  o->out->scope = user->scope;
  o->out->phase = user->phase;
  if (o->block[node]) return o->again[node] = ir_unary(o->out, OP_FETCH, o->sent[node]);
  int in = input_again(o, x->in[0], user);
  Node copy = *x;
  copy.scope = user->scope;
  copy.phase = user->phase;
  return o->again[node] = graph_copy(o->out, &copy, &in);
}

/* Whether a backward node reads a block's input. */
static bool reads_input(const Offload *o, const Node *user, int node) {
  return is_backward(user) && !is_backward(graph_node(o->g, node)) && o->block[shown(o->g, node)];
}

/* --- all of it ------------------------------------------------------------------------------------------------------------ */

static int operand(Offload *o, const Node *user, int node) {
  int var = far_var(o, graph_node(o->g, node));
  if (var >= 0) return fetch(o, var, user->scope);
  return reads_input(o, user, node) ? input_again(o, node, user) : o->map[node];
}

Graph *pass_offload(const Graph *g, Arena *arena, const StateTable *table, const OffloadOptions *options) {
  Offload o = {.g = g, .out = graph_open_like(g, arena), .map = arena_ints(arena, g->nodes.n, -1)};
  o.stored = arena_array(arena, bool, g->vars.n);
  o.fetched = arena_array(arena, Fetched *, g->vars.n);
  o.block = arena_array(arena, int, g->nodes.n);
  o.sent = arena_ints(arena, g->nodes.n, -1);
  o.again = arena_ints(arena, g->nodes.n, -1);
  if (options->what & OFFLOAD_INPUTS) find_inputs(&o);
  set_homes(o.out, table, options);
  for (int i = 0; i < g->nodes.n; i++)
    if (graph_node(g, i)->op == OP_STORE) o.stored[graph_find_var(g, graph_node(g, i)->name)] = true;
  for (int i = 0; i < g->nodes.n; i++) {
    const Node *x = graph_node(g, i);
    int *in = arena_array(arena, int, x->nin), var = far_var(&o, x);
    if (x->op == OP_LOAD && var >= 0) continue; /* there once it is read */
    o.out->scope = x->scope;
    o.out->phase = x->phase;
    for (int k = 0; k < x->nin; k++) in[k] = operand(&o, x, x->in[k]);
    if (var >= 0) in[0] = ir_unary(o.out, OP_SEND, in[0]);
    o.map[i] = graph_copy(o.out, x, in);
    if (o.block[i]) o.sent[i] = ir_unary(o.out, OP_SEND, o.map[i]);
  }
  return o.out;
}
