/* SPDX-License-Identifier: Apache-2.0 */
/* Recomputation by block: Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016.
 * A clone has the phase RECOMPUTE, which keeps it from being merged with its original again. */
#include "src/pass/pass.h"

typedef struct Recompute {
  const Graph *g;
  Graph *out;
  int *map;   /* g's node -> out's */
  int *again; /* g's node -> its clone in out, -1: none yet */
} Recompute;

static bool forgotten(const Graph *g, int node, int scope) {
  const Node *x = graph_node(g, node);
  return x->phase == PHASE_FORWARD && x->scope == scope && g->scopes.at[scope].kind == SCOPE_BLOCK && x->op != OP_LOAD;
}

static int recompute(Recompute *r, int node) {
  const Node *x = graph_node(r->g, node);
  if (r->again[node] >= 0) return r->again[node];
  int *in = arena_array(r->out->arena, int, x->nin);
  for (int i = 0; i < x->nin; i++) in[i] = forgotten(r->g, x->in[i], x->scope) ? recompute(r, x->in[i]) : r->map[x->in[i]];
  Node copy = *x;
  copy.phase = PHASE_RECOMPUTE;
  return r->again[node] = graph_copy(r->out, &copy, in);
}

Graph *pass_recompute_block(const Graph *g, Arena *arena) {
  Recompute r = {g, graph_open_like(g, arena), arena_array(arena, int, g->nodes.n), arena_ints(arena, g->nodes.n, -1)};
  for (int i = 0; i < g->nodes.n; i++) {
    const Node *x = graph_node(g, i);
    int *in = arena_array(arena, int, x->nin);
    for (int k = 0; k < x->nin; k++)
      in[k] = x->phase == PHASE_BACKWARD && forgotten(g, x->in[k], x->scope) ? recompute(&r, x->in[k]) : r.map[x->in[k]];
    r.map[i] = graph_copy(r.out, x, in);
  }
  return r.out;
}
