/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which nodes run.  Three rules, each by placing nodes in a list; a node's inputs always come first.
 *  - Chunks run one after another, each forward then backward, the last chunk first (their gradients add up in that order).
 *  - What follows a reduction is held back until the next reduction has been started, so that it can travel meanwhile.
 *  - A gather starts units_alive - 1 gathers before it is used. */
#include <stdlib.h>

#include "src/pass/pass.h"

typedef struct Schedule {
  const Graph *g;
  Arena *arena;
  VEC(int) order;
  bool *placed;
  int *after;     /* by node: the last reduction it depends on (an ordinal), -1 none */
  int reductions; /* placed so far */
  VEC(int) held;
  bool flush; /* the end: hold nothing back */
} Schedule;

static bool is_reduction(const Node *x) { return x->op == OP_REDUCE_SCATTER || x->op == OP_ALL_REDUCE; }

static void release(Schedule *s);

static void place(Schedule *s, int i) {
  const Node *x = graph_node(s->g, i);
  if (s->placed[i]) return;
  if (!s->flush && s->after[i] >= 0 && s->after[i] >= s->reductions - 1 && !is_reduction(x)) {
    vec_push(s->arena, &s->held, i);
    return;
  }
  for (int k = 0; k < x->nin; k++) place(s, x->in[k]);
  for (int k = 0; k < x->nin; k++)
    if (!s->placed[x->in[k]]) { /* an input is held back, so this is too */
      vec_push(s->arena, &s->held, i);
      return;
    }
  s->placed[i] = true;
  vec_push(s->arena, &s->order, i);
  if (is_reduction(x)) {
    s->reductions++;
    release(s);
  }
}

/* Places what was held back for reductions that are no longer the newest. */
static void release(Schedule *s) {
  int n = s->held.n;
  int *held = arena_array(s->arena, int, n);
  for (int i = 0; i < n; i++) held[i] = s->held.at[i];
  s->held.n = 0;
  for (int i = 0; i < n; i++) place(s, held[i]);
}

static void place_scope(Schedule *s, int scope, bool backward) {
  for (int i = 0; i < s->g->nodes.n; i++) {
    const Node *x = graph_node(s->g, i);
    if (x->scope == scope && (x->phase == PHASE_BACKWARD) == backward) place(s, i);
  }
}

static void place_all(Schedule *s) {
  const Graph *g = s->g;
  int *store = arena_array(s->arena, int, g->nodes.n); /* by value: a STORE of it, + 1 */
  for (int i = 0; i < g->nodes.n; i++)
    if (graph_node(g, i)->op == OP_STORE) store[graph_node(g, i)->in[0]] = i + 1;
  bool chunks = false;
  for (int i = 0; i < g->nodes.n; i++) {
    if (!chunks && g->scopes.at[graph_node(g, i)->scope].kind == SCOPE_CHUNK) {
      chunks = true;
      for (int c = g->scopes.n - 1; c >= 0; c--)
        if (g->scopes.at[c].kind == SCOPE_CHUNK)
          for (int backward = 0; backward < 2; backward++) place_scope(s, c, backward);
    }
    place(s, i);
    if (store[i]) place(s, store[i] - 1);
  }
  s->flush = true;
  release(s);
}

static void find_dependence(Schedule *s) {
  int ordinal = 0;
  for (int i = 0; i < s->g->nodes.n; i++) {
    const Node *x = graph_node(s->g, i);
    s->after[i] = -1;
    for (int k = 0; k < x->nin; k++)
      if (s->after[x->in[k]] > s->after[i]) s->after[i] = s->after[x->in[k]];
    if (is_reduction(x)) s->after[i] = ordinal++;
  }
}

typedef struct Gather {
  int node, use; /* use: position in the order of the first node that reads it */
} Gather;

static int by_use(const void *a, const void *b) { return ((const Gather *)a)->use - ((const Gather *)b)->use; }

/* Whether a node is a Var's value, or that in another type: there from the start. */
static bool loaded(const Graph *g, int node) {
  const Node *x = graph_node(g, node);
  return x->op == OP_LOAD || (x->op == OP_CAST && graph_node(g, x->in[0])->op == OP_LOAD);
}

/* Finds the gathers of what is there from the start, in the order of their uses. */
static Gather *find_gathers(const Schedule *s, int *n) {
  int *index = arena_array(s->arena, int, s->g->nodes.n); /* by node: of a gather, + 1 */
  Gather *gathers = arena_array(s->arena, Gather, s->g->nodes.n);
  *n = 0;
  for (int p = 0; p < s->order.n; p++) {
    int i = s->order.at[p];
    const Node *x = graph_node(s->g, i);
    if (x->op == OP_ALL_GATHER && loaded(s->g, x->in[0])) {
      gathers[*n] = (Gather){i, s->order.n};
      index[i] = ++*n;
    }
    for (int k = 0; k < x->nin; k++) {
      int gather = index[x->in[k]];
      if (gather && gathers[gather - 1].use > p) gathers[gather - 1].use = p;
    }
  }
  qsort(gathers, (size_t)*n, sizeof *gathers, by_use);
  return gathers;
}

static int copy_loaded(const Graph *g, int node, Graph *out, int *map) {
  const Node *x = graph_node(g, node);
  if (map[node]) return map[node] - 1;
  int in = x->nin ? copy_loaded(g, x->in[0], out, map) : -1;
  map[node] = graph_copy(out, x, &in) + 1;
  return map[node] - 1;
}

Graph *pass_schedule(const Graph *g, Arena *arena, int units_alive) {
  CHECK(units_alive >= 1);
  int nodes = g->nodes.n, n;
  Schedule s = {.g = g, .arena = arena, .placed = arena_array(arena, bool, nodes), .after = arena_array(arena, int, nodes)};
  find_dependence(&s);
  place_all(&s);
  CHECK(s.order.n == nodes);
  Gather *gathers = find_gathers(&s, &n);
  bool *early = arena_array(arena, bool, nodes); /* a gather that is placed by its use */
  for (int j = 0; j < n; j++) early[gathers[j].node] = true;
  Graph *out = graph_open_like(g, arena);
  int *map = arena_array(arena, int, nodes), next = 0;
  for (int p = 0; p <= s.order.n; p++) {
    /* gather j goes before the first use of gather j - (units_alive - 1) */
    while (next < n && (next < units_alive - 1 || gathers[next - (units_alive - 1)].use <= p)) {
      const Node *gather = graph_node(g, gathers[next++].node);
      int source = copy_loaded(g, gather->in[0], out, map);
      map[gather - g->nodes.at] = graph_copy(out, gather, &source) + 1;
    }
    if (p == s.order.n || early[s.order.at[p]] || map[s.order.at[p]]) continue;
    const Node *x = graph_node(g, s.order.at[p]);
    int *in = arena_array(arena, int, x->nin);
    for (int k = 0; k < x->nin; k++) {
      CHECK(map[x->in[k]]);
      in[k] = map[x->in[k]] - 1;
    }
    map[s.order.at[p]] = graph_copy(out, x, in) + 1;
  }
  return out;
}
