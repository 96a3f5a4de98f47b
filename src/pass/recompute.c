/* SPDX-License-Identifier: Apache-2.0 */
/* Recomputation: Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016; of cheap values alone: Korthikanti et al.,
 * "Reducing Activation Recomputation in Large Transformer Models", 2022.
 *
 * A clone has the phase RECOMPUTE, which keeps it from being merged with its original again. */
#include "src/pass/pass.h"

typedef struct Recompute {
  const Graph *g;
  Graph *out;
  const bool *forgotten; /* by node of g */
  int *map;              /* g's node -> out's */
  int *again;            /* g's node -> its clone in out, -1: none yet */
} Recompute;

/* Whether the user, in a block, has this input computed again: what other blocks made is kept. */
static bool forgets(const Recompute *r, int user, int node) {
  return r->forgotten[node] && graph_node(r->g, user)->scope == graph_node(r->g, node)->scope;
}

static int recompute(Recompute *r, int node) {
  const Node *x = graph_node(r->g, node);
  if (r->again[node] >= 0) return r->again[node];
  int *in = arena_array(r->out->arena, int, x->nin);
  for (int i = 0; i < x->nin; i++) in[i] = forgets(r, node, x->in[i]) ? recompute(r, x->in[i]) : r->map[x->in[i]];
  Node copy = *x;
  copy.phase = PHASE_RECOMPUTE;
  return r->again[node] = graph_copy(r->out, &copy, in);
}

static bool *find_forgotten(const Graph *g, Arena *arena, int level, int spared) {
  bool *forgotten = arena_array(arena, bool, g->nodes.n);
  const ForgetLevels *levels = forget_levels(g, arena);
  if (level >= levels->n) level = levels->n - 1;
  for (int i = 0; i < g->nodes.n; i++) {
    bool last = levels->block[graph_node(g, i)->scope] >= levels->blocks - spared;
    forgotten[i] = levels->level[i] && levels->level[i] <= level - last;
  }
  return forgotten;
}

Graph *pass_recompute(const Graph *g, Arena *arena, Forget level, int spared) {
  Recompute r = {g, graph_open_like(g, arena), find_forgotten(g, arena, level, spared), arena_array(arena, int, g->nodes.n), NULL};
  r.again = arena_ints(arena, g->nodes.n, -1);
  for (int i = 0; i < g->nodes.n; i++) {
    const Node *x = graph_node(g, i);
    int *in = arena_array(arena, int, x->nin);
    for (int k = 0; k < x->nin; k++)
      in[k] = x->phase == PHASE_BACKWARD && forgets(&r, i, x->in[k]) ? recompute(&r, x->in[k]) : r.map[x->in[k]];
    r.map[i] = graph_copy(r.out, x, in);
  }
  return r.out;
}
