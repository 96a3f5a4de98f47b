/* SPDX-License-Identifier: Apache-2.0 */
/* What recomputation forgets first: in each block, after what pointwise ops make, always the value that saves the most bytes for
 * the arithmetic that making it again takes; a level a value, until nothing but the block's inputs is kept.
 *
 * A value's price is of all that has to be computed again for it, down to what is still kept; so the first of two values that need
 * one product pays for it, and the second, now free, goes with it. */
#include <string.h>

#include "src/base/text.h"
#include "src/pass/pass.h"

enum { LEAST = 64 }; /* what saves less than such a part of what `cheap` keeps goes at the last level */

typedef struct Weight {
  double flops, bytes; /* computed again; kept for the backward pass */
} Weight;

typedef struct Chooser {
  const Graph *g;
  Arena *arena;
  ForgetLevels *levels;
  bool *outside; /* by node: the backward of another scope reads it, so it is kept anyway */
  int *seen;     /* by node: the last weighing that met it */
  int turn;
  Weight weight;
  VEC(int) stored; /* of the last weighing */
  bool *kept;      /* by node: stored when candidates were found */
  /* the block: */
  int scope;
  VEC(int) forward, backward;
} Chooser;

static double elements(const Node *x) { return (double)shape_size(&x->shape); }

double attention_pairs(double S, double window) {
  return window > 0 && window < S ? window * (window + 1) / 2 + (S - window) * window : S * (S + 1) / 2;
}

static double cost_of(const Graph *g, const Node *x) {
  const Node *in = x->nin ? graph_node(g, x->in[0]) : NULL;
  const int64_t *d = in ? in->shape.dim : NULL;
  if (x->op == OP_MATMUL) return 2 * elements(x) * (double)d[x->n[0] ? 0 : 1];
  if (x->op == OP_GROUPED) return 2 * elements(x) * (double)d[1];
  if (x->op == OP_ATTENTION) return 4 * (double)(d[0] * d[2] * d[3]) * attention_pairs((double)d[1], (double)x->n[0]);
  if (op_table[x->op].kind == KIND_REDUCE) return elements(in);
  return op_table[x->op].kind == KIND_POINTWISE ? elements(x) : 0;
}

/* The value that a view shows. */
static int root_of(const Graph *g, int node) {
  while (op_table[graph_node(g, node)->op].kind == KIND_VIEW && graph_node(g, node)->nin == 1) node = graph_node(g, node)->in[0];
  return node;
}

/* Whether a value is nothing but what Vars hold: parameters side by side. */
static bool is_loaded(const Graph *g, int node) {
  const Node *x = graph_node(g, node);
  bool loaded = x->op == OP_LOAD || op_table[x->op].kind == KIND_VIEW;
  for (int k = 0; k < x->nin && loaded; k++) loaded = is_loaded(g, x->in[k]);
  return loaded;
}

static bool in_block(const Chooser *c, int node) {
  const Node *x = graph_node(c->g, node);
  return x->scope == c->scope && x->phase == PHASE_FORWARD && x->op != OP_LOAD;
}

/* --- weighing --------------------------------------------------------------------------------------------------------------- */

/* The block's backward reads this value: it is computed again, or kept. */
static void want(Chooser *c, int node) {
  if (!in_block(c, node)) return;
  if (!c->levels->level[node]) node = root_of(c->g, node);
  const Node *x = graph_node(c->g, node);
  if (!in_block(c, node) || op_table[x->op].kind == KIND_LEAF || is_loaded(c->g, node) || c->seen[node] == c->turn) return;
  c->seen[node] = c->turn;
  if (!c->levels->level[node]) {
    c->weight.bytes += c->outside[node] ? 0 : elements(x) * (double)dtype_size(x->dtype);
    vec_push(c->arena, &c->stored, node);
    return;
  }
  c->weight.flops += cost_of(c->g, x);
  for (int k = 0; k < x->nin; k++) want(c, x->in[k]);
}

static Weight weigh(Chooser *c) {
  c->turn++;
  c->weight = (Weight){0};
  c->stored.n = 0;
  for (int i = 0; i < c->backward.n; i++) {
    const Node *x = graph_node(c->g, c->backward.at[i]);
    for (int k = 0; k < x->nin; k++) want(c, x->in[k]);
  }
  return c->weight;
}

/* --- forgetting ------------------------------------------------------------------------------------------------------------- */

static void forget(Chooser *c, int node, int level) {
  if (!in_block(c, node) || c->levels->level[node]) return;
  c->levels->level[node] = level;
  const Node *x = graph_node(c->g, node);
  for (int k = 0; k < x->nin; k++)
    if (!c->kept[root_of(c->g, x->in[k])]) forget(c, x->in[k], level);
}

/* Views of what is forgotten are forgotten. */
static void forget_views(Chooser *c, int level) {
  for (int i = 0; i < c->forward.n; i++) {
    const Node *x = graph_node(c->g, c->forward.at[i]);
    bool any = false;
    for (int k = 0; k < x->nin && op_table[x->op].kind == KIND_VIEW; k++) any |= c->levels->level[x->in[k]] > 0;
    if (any && !c->levels->level[c->forward.at[i]]) c->levels->level[c->forward.at[i]] = level;
  }
}

/* The value and all that is not kept and that it is made of. */
static void forget_value(Chooser *c, int node, int level) {
  forget(c, node, level);
  forget_views(c, level);
}

static void remember(Chooser *c, int level) {
  for (int i = 0; i < c->forward.n; i++)
    if (c->levels->level[c->forward.at[i]] == level) c->levels->level[c->forward.at[i]] = 0;
}

static void forget_cheap(Chooser *c) {
  for (int i = 0; i < c->forward.n; i++) {
    const Node *x = graph_node(c->g, c->forward.at[i]);
    bool large = x->shape.rank > 0 && x->shape.dim[x->shape.rank - 1] > 1; /* not what a row has one of */
    if (op_table[x->op].kind == KIND_POINTWISE && x->op != OP_KEEP && large) c->levels->level[c->forward.at[i]] = FORGET_CHEAP;
  }
  forget_views(c, FORGET_CHEAP);
}

/* --- choosing --------------------------------------------------------------------------------------------------------------- */

/* The parameters that a product reads, side by side, by the part of their names before ".weight": "gate_proj+up_proj". */
static void name_weights(const Chooser *c, int node, Text *out) {
  const Node *x = graph_node(c->g, node);
  bool within = op_table[x->op].kind == KIND_VIEW || x->op == OP_CONCAT || x->op == OP_CAST;
  for (int k = 0; k < x->nin && within; k++) name_weights(c, x->in[k], out);
  if (x->op != OP_LOAD) return;
  const char *end = strrchr(x->name, '.'), *begin = end;
  while (begin && begin > x->name && begin[-1] != '.') begin--;
  if (!begin) return;
  const char *word = arena_strndup(c->arena, begin, (size_t)(end - begin));
  if (!out->n || !strstr(out->at, word)) text_printf(out, "%s%s", out->n ? "+" : "", word); /* experts have each the same */
}

/* For people: the largest op of a level. */
static const char *level_name(const Chooser *c, int level) {
  const Node *most = NULL;
  for (int i = 0; i < c->forward.n; i++) {
    const Node *x = graph_node(c->g, c->forward.at[i]);
    if (c->levels->level[c->forward.at[i]] == level && (!most || cost_of(c->g, x) > cost_of(c->g, most))) most = x;
  }
  if (!most) return "the rest";
  Text text = {0};
  if (most->op == OP_MATMUL || most->op == OP_GROUPED) name_weights(c, most->in[1], &text);
  const char *name = text.n ? arena_strdup(c->arena, text.at) : op_table[most->op].name;
  text_close(&text);
  return name;
}

static void name_level(Chooser *c, int level) {
  CHECK(level < FORGET_LEVELS);
  if (!c->levels->name[level]) c->levels->name[level] = level_name(c, level);
  if (level >= c->levels->n) c->levels->n = level + 1;
}

typedef struct Bargain {
  int node; /* -1: none */
  Weight change;
} Bargain;

/* Of all that is kept, what saves the most bytes for its arithmetic. */
static Bargain find_bargain(Chooser *c, double least) {
  enum { TRIAL = FORGET_LEVELS };
  Weight now = weigh(c);
  Bargain best = {.node = -1};
  int n = c->stored.n, *candidates = arena_array(c->arena, int, n);
  for (int i = 0; i < n; i++) c->kept[candidates[i] = c->stored.at[i]] = true;
  for (int i = 0; i < n; i++) {
    if (c->outside[candidates[i]]) continue;
    forget_value(c, candidates[i], TRIAL);
    Weight then = weigh(c), change = {then.flops - now.flops, now.bytes - then.bytes};
    remember(c, TRIAL);
    bool worth = change.bytes >= least || (change.flops == 0 && change.bytes > 0);
    if (worth && (best.node < 0 || change.bytes * best.change.flops > best.change.bytes * change.flops))
      best = (Bargain){candidates[i], change};
  }
  if (best.node < 0)
    for (int i = 0; i < n; i++) c->kept[candidates[i]] = false;
  return best;
}

static void take_bargain(Chooser *c, const Bargain *bargain, int level) {
  forget_value(c, bargain->node, level);
  for (int i = 0; i < c->forward.n; i++) c->kept[c->forward.at[i]] = false;
}

static void choose_block(Chooser *c) {
  forget_cheap(c);
  int level = FORGET_CHEAP;
  double first = weigh(c).bytes;
  for (Bargain b; level < FORGET_LEVELS - 2 && (b = find_bargain(c, first / LEAST)).node >= 0;) {
    bool dear = b.change.flops > 0 || level == FORGET_CHEAP;
    if (dear) level++;
    take_bargain(c, &b, level);
    if (dear) name_level(c, level);
  }
  bool small = level > FORGET_CHEAP && weigh(c).bytes <= first / LEAST;
  if (!small) level++;
  for (int i = 0; i < c->forward.n; i++)
    if (!c->levels->level[c->forward.at[i]]) c->levels->level[c->forward.at[i]] = level;
  name_level(c, level);
}

static void find_outside(Chooser *c) {
  for (int i = 0; i < c->g->nodes.n; i++) {
    const Node *x = graph_node(c->g, i);
    for (int k = 0; k < x->nin && x->phase == PHASE_BACKWARD; k++)
      if (graph_node(c->g, x->in[k])->scope != x->scope) c->outside[root_of(c->g, x->in[k])] = true;
  }
}

ForgetLevels *forget_levels(const Graph *g, Arena *arena) {
  int n = g->nodes.n;
  ForgetLevels *levels = arena_new(arena, ForgetLevels);
  *levels = (ForgetLevels){.n = FORGET_CHEAP + 1, .level = arena_array(arena, int, n), .name = {"none", "cheap"}};
  levels->block = arena_ints(arena, g->scopes.n, -1);
  Chooser c = {.g = g, .arena = arena, .levels = levels, .outside = arena_array(arena, bool, n)};
  c.seen = arena_array(arena, int, n);
  c.kept = arena_array(arena, bool, n);
  find_outside(&c);
  int *next = arena_ints(arena, n, -1), *first = arena_ints(arena, g->scopes.n, -1); /* a scope's nodes */
  for (int i = n - 1; i >= 0; i--) {
    int scope = graph_node(g, i)->scope;
    next[i] = first[scope];
    first[scope] = i;
  }
  for (int s = 0; s < g->scopes.n; s++) {
    if (g->scopes.at[s].kind != SCOPE_BLOCK) continue;
    levels->block[s] = levels->blocks++;
    c.scope = s;
    c.forward.n = c.backward.n = 0;
    for (int i = first[s]; i >= 0; i = next[i]) {
      if (in_block(&c, i)) vec_push(arena, &c.forward, i);
      if (graph_node(g, i)->phase == PHASE_BACKWARD) vec_push(arena, &c.backward, i);
    }
    choose_block(&c);
  }
  return levels;
}
