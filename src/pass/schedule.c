/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which nodes run.  Three rules, each by placing nodes in a list; a node's inputs always come first.
 *  - Chunks run one after another, each forward then backward, the last chunk first (their gradients add up in that order).
 *  - What follows a reduction is held back until the next reduction has been started, so that it can travel meanwhile.
 *  - A gather starts as early as at most units_alive gathered units are alive with it; what stays for much of the program, as
 *    what was gathered once for the whole step does, does not count. */
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

static bool is_reduction(const Node *x) { return x->op == OP_REDUCE_SCATTER || x->op == OP_ALL_REDUCE || x->op == OP_ALL_TO_ALL; }

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
  int node, use, last; /* use, last: positions in the order of the first and last nodes that read it */
  int at;              /* before which position it starts */
} Gather;

static int by_use(const void *a, const void *b) { return ((const Gather *)a)->use - ((const Gather *)b)->use; }

/* Whether a node is a Var's value, that in another type, or gathered: there from the start. */
static bool loaded(const Graph *g, int node) {
  const Node *x = graph_node(g, node);
  return x->op == OP_LOAD || ((x->op == OP_CAST || x->op == OP_ALL_GATHER) && loaded(g, x->in[0]));
}

/* What reads for its users: a view, or a cast, which they make for themselves. */
static bool reads_for_others(const Node *x) { return op_table[x->op].kind == KIND_VIEW || x->op == OP_CAST; }

/* Finds the gathers of what is there from the start, in the order of their uses.  reads: by position, whether a gather is read. */
static Gather *find_gathers(const Schedule *s, bool *reads, int *n) {
  int *index = arena_array(s->arena, int, s->g->nodes.n); /* by node: of the gather that it is, or is a view of, + 1 */
  Gather *gathers = arena_array(s->arena, Gather, s->g->nodes.n);
  *n = 0;
  for (int p = 0; p < s->order.n; p++) {
    int i = s->order.at[p];
    const Node *x = graph_node(s->g, i);
    for (int k = 0; k < x->nin; k++) {
      if (!index[x->in[k]]) continue;
      Gather *gather = &gathers[index[x->in[k]] - 1];
      if (gather->use > p) gather->use = p;
      gather->last = p;
      reads[p] = !reads_for_others(x);
      if (!reads[p]) index[i] = index[x->in[k]];
    }
    if (x->op != OP_ALL_GATHER || !loaded(s->g, x->in[0])) continue;
    gathers[*n] = (Gather){i, s->order.n, 0, 0};
    index[i] = ++*n;
  }
  qsort(gathers, (size_t)*n, sizeof *gathers, by_use);
  return gathers;
}

/* Decides where gathers start: where the one units_alive - 1 before is first used, and so many of those before are over, which is
 * certain where another is read next. */
static void place_gathers(Arena *arena, Gather *gathers, int n, const bool *reads, int units_alive) {
  int *use = arena_array(arena, int, n + 1), *last = arena_array(arena, int, n + 1), alive = 0; /* of those that count */
  for (int j = 0; j < n; j++) {
    Gather *g = &gathers[j];
    bool counts = j + units_alive >= n || g->last <= gathers[j + units_alive].use;
    int ahead = alive - (units_alive - 1), k = alive;
    g->at = ahead >= alive ? g->use : ahead >= 0 ? use[ahead] : 0;
    if (!counts) g->at = 0;
    if (counts && ahead > 0 && g->at <= last[ahead - 1])
      for (g->at = last[ahead - 1] + 1; g->at < g->use && !reads[g->at];) g->at++;
    if (g->at > g->use) g->at = g->use;
    if (j && g->at < gathers[j - 1].at) g->at = gathers[j - 1].at; /* all ranks in one order, that of the uses */
    if (!counts) continue;
    use[alive++] = g->use;
    for (; k > 0 && last[k - 1] > g->last; k--) last[k] = last[k - 1]; /* ascending */
    last[k] = g->last;
  }
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
  bool *reads = arena_array(arena, bool, nodes);
  Gather *gathers = find_gathers(&s, reads, &n);
  place_gathers(arena, gathers, n, reads, units_alive);
  bool *early = arena_array(arena, bool, nodes); /* a gather that is placed by its use */
  for (int j = 0; j < n; j++) early[gathers[j].node] = true;
  Graph *out = graph_open_like(g, arena);
  int *map = arena_array(arena, int, nodes), next = 0;
  for (int p = 0; p <= s.order.n; p++) {
    while (next < n && gathers[next].at <= p) copy_loaded(g, gathers[next++].node, out, map);
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
