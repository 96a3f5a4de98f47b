/* SPDX-License-Identifier: Apache-2.0 */
/* When a FETCH starts.  Those of one scope (a unit's states, what a block wants) are a group; a group sets out when the one before
 * it comes into use, so that one is used and one on its way.  A SEND needs no such rule: what waits for it is told by lowering.
 * Needs: the order of pass_schedule, which it keeps but for FETCHes and what they read. */
#include <stdlib.h>

#include "src/pass/pass.h"

typedef struct Use {
  int node, use; /* of a FETCH, and of the first node that reads it */
} Use;

static int by_use(const void *a, const void *b) {
  const Use *x = a, *y = b;
  return x->use != y->use ? x->use - y->use : x->node - y->node;
}

static Use *find_uses(const Graph *g, Arena *arena, int *n) {
  int *index = arena_array(arena, int, g->nodes.n); /* by node: of a FETCH, + 1 */
  Use *uses = arena_array(arena, Use, g->nodes.n);
  *n = 0;
  for (int i = 0; i < g->nodes.n; i++) {
    const Node *x = graph_node(g, i);
    if (x->op == OP_FETCH) {
      uses[*n] = (Use){i, g->nodes.n};
      index[i] = ++*n;
    }
    for (int k = 0; k < x->nin; k++) {
      int fetch = index[x->in[k]];
      if (fetch && uses[fetch - 1].use > i) uses[fetch - 1].use = i;
    }
  }
  qsort(uses, (size_t)*n, sizeof *uses, by_use);
  return uses;
}

typedef struct Prefetch {
  const Graph *g;
  Graph *out;
  int *map; /* + 1 */
} Prefetch;

static void copy(Prefetch *p, int node) {
  const Node *x = graph_node(p->g, node);
  if (p->map[node]) return;
  int *in = arena_array(p->out->arena, int, x->nin);
  for (int k = 0; k < x->nin; k++) {
    CHECK(p->map[x->in[k]]);
    in[k] = p->map[x->in[k]] - 1;
  }
  p->map[node] = graph_copy(p->out, x, in) + 1;
}

/* A FETCH as soon as what it reads is there: a Var is always, a SEND may come later. */
static void copy_early(Prefetch *p, int fetch) {
  int from = graph_node(p->g, fetch)->in[0];
  if (graph_node(p->g, from)->op == OP_LOAD) copy(p, from);
  if (p->map[from]) copy(p, fetch);
}

Graph *pass_prefetch(const Graph *g, Arena *arena) {
  int n, next = 0, before = 0; /* before: the first use of the group before the next one */
  const Use *uses = find_uses(g, arena, &n);
  Prefetch p = {g, graph_open_like(g, arena), arena_array(arena, int, g->nodes.n)};
  for (int i = 0; i < g->nodes.n; i++) {
    while (next < n && (next ? before : uses[0].use) <= i) {
      int scope = graph_node(g, uses[next].node)->scope;
      before = uses[next].use;
      for (; next < n && graph_node(g, uses[next].node)->scope == scope; next++) copy_early(&p, uses[next].node);
    }
    bool later = graph_node(g, i)->op == OP_FETCH && graph_node(g, graph_node(g, i)->in[0])->op == OP_LOAD;
    if (!later) copy(&p, i);
  }
  return p.out;
}
