/* SPDX-License-Identifier: Apache-2.0 */
/* Data parallelism as inserted nodes.  Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
 * Models", SC 2020; Zhao et al., "PyTorch FSDP", VLDB 2023.
 *
 * What a rank holds of a unit grows in up to two gathers to the whole vector, of which parameters are views:
 *
 *   state, or a cast of it  ── over replicas, if they share out the update: once a step, carried ──▶  part
 *   part                    ── over shards: for the forward pass, and again for recomputation and backward ──▶  whole
 *
 * A chunk's backward shares its forward's vectors, and so do the units that forward needs last.  Gradients go the other way: a
 * unit's are joined into one vector as soon as the last of them is known, and reduced over shards, then over replicas.  All
 * strategies are settings of this:
 *
 *   no_shard       shards 1, replicas R
 *   shard_opt      the same, the update shared out (ZeRO-1); shard_grad_op: gradients accumulate in shares too (ZeRO-2)
 *   full_shard     shards R, replicas 1 (ZeRO-3)
 *   hybrid_shard   shards of a group, replicas of it, the update shared out or not */
#include <string.h>

#include "src/pass/pass.h"

enum { FORWARD, BACKWARD, TURNS };

typedef struct Shard {
  const Graph *g;
  Graph *out;
  const StateTable *table;
  const ShardOptions *options;
  int *map;
  bool *once;       /* by unit: one whole vector serves both turns */
  int *param_of;    /* by node of g: the parameter that a LOAD, or a cast of it, is; -1 */
  int *part;        /* by unit: its part in out; -1: not yet */
  int *unit[TURNS]; /* by unit: its whole vector in out; -1: not yet */
  int *view[TURNS]; /* by parameter; -1 */
  int *again;       /* by node of g: in out, a view of parameters for the backward turn; -1 */
  int *grad;        /* by parameter: the gradient's node in g; -1: none */
  int *ready;       /* by node of g: the unit whose last gradient it is; -1 */
} Shard;

static int collective(Graph *g, Op op, int x, int axis, int ranks) {
  return ranks == 1 ? x : graph_push(g, (Node){.op = op, .n = {axis, ranks}, .nin = 1, .in = (int[]){x}});
}

static int cast(Graph *g, DType dtype, int x) { return graph_node(g, x)->dtype == dtype ? x : ir_cast(g, dtype, x); }

/* What each rank has of this one's part, added up in the order of ranks. */
static int sum_exchanged(Shard *s, int x, int axis, int ranks) {
  Graph *g = s->out;
  int64_t n = graph_node(g, x)->shape.dim[0] / ranks;
  int parts = collective(g, OP_ALL_TO_ALL, x, axis, ranks), sum = -1;
  for (int64_t r = 0; r < ranks; r++) {
    int part = cast(g, DT_F32, ir_slice(g, parts, 0, r * n, (r + 1) * n));
    sum = r ? ir_add(g, sum, part) : part;
  }
  return sum;
}

/* A sum over ranks, in the type that travels. */
static int reduce(Shard *s, Op op, int x, int axis, int ranks) {
  const ShardOptions *o = s->options;
  if (ranks == 1) return x;
  x = cast(s->out, o->reduce, x);
  if (op == OP_REDUCE_SCATTER && o->exchange[axis != o->shard]) return sum_exchanged(s, x, axis, ranks);
  return cast(s->out, DT_F32, collective(s->out, op, x, axis, ranks));
}

static bool gathers_shards(const Shard *s, int unit) { return s->table->shards > 1 && !s->table->units[unit].traits.whole; }

static bool gathers_replicas(const Shard *s, int unit) { return s->table->across && !s->table->units[unit].traits.whole; }

static int load_part(Shard *s, int unit) {
  const StateUnit *u = &s->table->units[unit];
  const ShardOptions *o = s->options;
  Graph *g = s->out;
  const char *state = arena_printf(g->arena, "param/%s", u->name), *gathered = state_gathered(g->arena, u);
  if (!gathers_replicas(s, unit)) return cast(g, o->compute, ir_load(g, state));
  if (graph_find_var(g, gathered) < 0)
    graph_var(g, (Var){.name = gathered, .class = VAR_CARRY, .dtype = o->compute, .shape = SHAPE(u->part)});
  if (!o->first) return ir_load(g, gathered);
  int x = collective(g, OP_ALL_GATHER, cast(g, o->compute, ir_load(g, state)), o->replicate, s->table->replicas);
  ir_store(g, gathered, x);
  return x;
}

static int unit_vector(Shard *s, int unit, int turn) {
  if (s->once[unit]) turn = FORWARD;
  if (s->unit[turn][unit] >= 0) return s->unit[turn][unit];
  bool carried = gathers_replicas(s, unit); /* its part stays; else it is loaded, and cast, again */
  int x = carried && s->part[unit] >= 0 ? s->part[unit] : load_part(s, unit);
  s->part[unit] = x;
  if (gathers_shards(s, unit)) x = collective(s->out, OP_ALL_GATHER, x, s->options->shard, s->table->shards);
  return s->unit[turn][unit] = x;
}

static int param_view(Shard *s, int param, int turn) {
  const StateParam *p = &s->table->params[param];
  if (s->once[p->unit]) turn = FORWARD;
  if (s->view[turn][param] >= 0) return s->view[turn][param];
  int whole = unit_vector(s, p->unit, turn);
  int flat = ir_slice(s->out, whole, 0, p->offset, p->offset + shape_size(&p->shape));
  return s->view[turn][param] = ir_reshape(s->out, flat, p->shape);
}

/* The unit's gradients in the layout of its vector, zeros where there is none. */
static int unit_gradient(Shard *s, int unit) {
  const StateTable *t = s->table;
  Graph *g = s->out;
  int *pieces = arena_array(g->arena, int, t->nparams + 1), n = 0;
  int64_t at = 0;
  while (at < t->units[unit].n) /* parameters in the order of their offsets */
    for (int p = 0; p < t->nparams; p++) {
      if (t->params[p].unit != unit || t->params[p].offset != at) continue;
      int64_t size = shape_size(&t->params[p].shape);
      pieces[n++] =
          s->grad[p] >= 0 ? ir_reshape(g, s->map[s->grad[p]], SHAPE(size)) : ir_broadcast(g, ir_const(g, DT_F32, 0), SHAPE(size));
      at += size;
    }
  int64_t padding = t->units[unit].padded - at;
  if (padding) pieces[n++] = ir_broadcast(g, ir_const(g, DT_F32, 0), SHAPE(padding));
  return ir_concat(g, pieces, n, 0);
}

static void carry(Graph *g, const char *name, int64_t n) {
  if (graph_find_var(g, name) < 0) graph_var(g, (Var){.name = name, .class = VAR_CARRY, .dtype = DT_F32, .shape = SHAPE(n)});
}

/* Behind which of the two reductions micro-steps add up. */
typedef enum Level { LEVEL_WHOLE, LEVEL_PART, LEVEL_LOCAL } Level;

static Level level_of(const Shard *s, int unit) {
  if (s->options->whole || s->table->units[unit].traits.whole) return LEVEL_WHOLE;
  return s->table->shards > 1 ? LEVEL_PART : s->table->across ? LEVEL_LOCAL : LEVEL_WHOLE;
}

/* Adds what earlier micro-steps left; *end: this one leaves the sum as it is now. */
static int accumulate(Shard *s, int unit, Level level, int x, bool *end) {
  const StateUnit *u = &s->table->units[unit];
  const ShardOptions *o = s->options;
  Graph *g = s->out;
  if (*end || level != level_of(s, unit)) return x;
  int64_t n = graph_node(g, x)->shape.dim[0];
  const char *kept = n == u->local ? state_grad(g->arena, u) : state_gradsum(g->arena, u);
  if (!(o->first && o->last)) carry(g, kept, n);
  if (!o->first) x = ir_add(g, ir_load(g, kept), x);
  if ((*end = !o->last)) ir_store(g, kept, x);
  return x;
}

static void reduce_unit(Shard *s, int unit) {
  const StateUnit *u = &s->table->units[unit];
  const StateTable *t = s->table;
  const ShardOptions *o = s->options;
  Op over_shards = u->traits.whole ? OP_ALL_REDUCE : OP_REDUCE_SCATTER;
  Op over_replicas = gathers_replicas(s, unit) ? OP_REDUCE_SCATTER : OP_ALL_REDUCE;
  bool end = false;
  int x = accumulate(s, unit, LEVEL_WHOLE, unit_gradient(s, unit), &end);
  carry(s->out, state_grad(s->out->arena, u), u->local);
  if (!end) x = accumulate(s, unit, LEVEL_PART, reduce(s, over_shards, x, o->shard, t->shards), &end);
  if (!end) x = accumulate(s, unit, LEVEL_LOCAL, reduce(s, over_replicas, x, o->replicate, t->replicas), &end);
  if (!end) ir_store(s->out, state_grad(s->out->arena, u), x);
}

/* Which node completes which unit. */
static void find_gradients(Shard *s) {
  int *last = arena_ints(s->out->arena, s->table->nunits, -1);
  for (int i = 0; i < s->g->nodes.n; i++) {
    const Node *x = graph_node(s->g, i);
    if (x->op != OP_STORE || strncmp(x->name, "grad/", 5)) continue;
    int p = state_find_param(s->table, x->name + 5);
    CHECK(p >= 0);
    s->grad[p] = x->in[0];
    int *unit_last = &last[s->table->params[p].unit];
    if (x->in[0] > *unit_last) *unit_last = x->in[0];
  }
  for (int u = 0; u < s->table->nunits; u++)
    if (last[u] >= 0) {
      CHECK(s->ready[last[u]] < 0); /* two units do not end on one node: a gradient belongs to one parameter */
      s->ready[last[u]] = u;
    }
}

/* Whether a node is parameters, views of them and those in another type alone, such as several weights side by side; *again: the
 * backward turn has some of them gathered again. */
static bool is_param_view(const Shard *s, int node, bool *again) {
  const Node *x = graph_node(s->g, node);
  if (s->param_of[node] >= 0) {
    *again |= !s->once[s->table->params[s->param_of[node]].unit];
    return true;
  }
  bool is = op_table[x->op].kind == KIND_VIEW || x->op == OP_CAST;
  for (int k = 0; k < x->nin && is; k++) is = is_param_view(s, x->in[k], again);
  return is;
}

/* A node of g as something of this turn reads it: what was gathered for the forward pass does not stay for the backward. */
static int operand(Shard *s, int node, int turn) {
  int param = s->param_of[node];
  bool again = false;
  if (param >= 0) return param_view(s, param, turn);
  if (turn == FORWARD || graph_node(s->g, node)->phase != PHASE_FORWARD || !is_param_view(s, node, &again) || !again)
    return s->map[node];
  if (s->again[node] >= 0) return s->again[node];
  Node x = *graph_node(s->g, node);
  int *in = arena_array(s->out->arena, int, x.nin);
  for (int k = 0; k < x.nin; k++) in[k] = operand(s, x.in[k], turn);
  x.phase = s->out->phase;
  return s->again[node] = graph_copy(s->out, &x, in);
}

static int copy_node(Shard *s, const Node *x) {
  int *in = arena_array(s->out->arena, int, x->nin);
  bool chunk = s->g->scopes.at[x->scope].kind == SCOPE_CHUNK;
  int turn = x->phase == PHASE_FORWARD || chunk ? FORWARD : BACKWARD;
  s->out->scope = x->scope; /* of what is inserted for this node */
  s->out->phase = x->phase;
  for (int k = 0; k < x->nin; k++) in[k] = operand(s, x->in[k], turn);
  return graph_copy(s->out, x, in);
}

/* What is there from the start of a turn to the end of the other: states and parts that need no gather, and the units that
 * the forward pass comes to last, whose vectors still live when the backward pass begins. */
static void find_once(Shard *s) {
  const StateTable *t = s->table;
  int *seen = arena_array(s->out->arena, int, t->nunits), n = 0;
  for (int i = 0; i < s->g->nodes.n; i++) { /* units by their first use */
    const Node *x = graph_node(s->g, i);
    for (int k = 0; k < x->nin; k++) {
      int unit = s->param_of[x->in[k]] < 0 ? -1 : t->params[s->param_of[x->in[k]]].unit;
      if (unit < 0 || !gathers_shards(s, unit)) continue;
      int at = 0;
      while (at < n && seen[at] != unit) at++;
      if (at == n) seen[n++] = unit;
    }
  }
  for (int u = 0; u < t->nunits; u++)
    s->once[u] = !gathers_shards(s, u) && (gathers_replicas(s, u) || s->options->compute == state_slot_type(t, SLOT_PARAM));
  for (int i = n - s->options->units_alive; i < n; i++)
    if (i >= 0) s->once[seen[i]] = true;
}

/* Which nodes of g are parameters, or casts of such. */
static void find_params(Shard *s) {
  for (int i = 0; i < s->g->nodes.n; i++) {
    const Node *x = graph_node(s->g, i);
    if (x->op == OP_LOAD && graph_find_var(s->out, x->name) < 0) {
      s->param_of[i] = state_find_param(s->table, x->name);
      CHECK(s->param_of[i] >= 0);
    } else if (x->op == OP_CAST && x->dtype == s->options->compute) {
      s->param_of[i] = s->param_of[x->in[0]];
    }
  }
}

/* Parameters and their gradients give way to units. */
static void declare_vars(Shard *s) {
  const StateTable *t = s->table;
  Graph *out = s->out;
  for (int i = 0; i < s->g->vars.n; i++) {
    const Var *v = &s->g->vars.at[i];
    if (v->class != VAR_PARAM && !(v->class == VAR_CARRY && !strncmp(v->name, "grad/", 5))) graph_var(out, *v);
  }
  for (int i = 0; i < t->nrows; i++) {
    const StateRow *row = &t->rows[i];
    if (row->slot != SLOT_PARAM) continue;
    Var v = {.name = row->name, .class = VAR_STATE, .dtype = row->dtype, .shape = SHAPE(row->n)};
    if (gathers_replicas(s, row->unit) && row->dtype == s->options->compute) {
      v.within = state_gathered(out->arena, &t->units[row->unit]);
      v.axis = s->options->replicate;
    }
    graph_var(out, v);
  }
}

Graph *pass_shard(const Graph *g, Arena *arena, const StateTable *table, const ShardOptions *options) {
  Graph *out = graph_open(arena);
  Shard s = {.g = g, .out = out, .table = table, .options = options, .map = arena_ints(arena, g->nodes.n, -1)};
  out->scopes.n = 0;
  for (int i = 0; i < g->scopes.n; i++) vec_push(arena, &out->scopes, g->scopes.at[i]);
  s.once = arena_array(arena, bool, table->nunits);
  s.param_of = arena_ints(arena, g->nodes.n, -1);
  s.ready = arena_ints(arena, g->nodes.n, -1);
  s.again = arena_ints(arena, g->nodes.n, -1);
  s.grad = arena_ints(arena, table->nparams, -1);
  s.part = arena_ints(arena, table->nunits, -1);
  for (int turn = 0; turn < TURNS; turn++) {
    s.unit[turn] = arena_ints(arena, table->nunits, -1);
    s.view[turn] = arena_ints(arena, table->nparams, -1);
  }
  declare_vars(&s);
  find_params(&s);
  find_once(&s);
  find_gradients(&s);
  for (int i = 0; i < g->nodes.n; i++) {
    const Node *x = graph_node(g, i);
    if (s.param_of[i] < 0 && !(x->op == OP_STORE && !strncmp(x->name, "grad/", 5))) s.map[i] = copy_node(&s, x);
    if (s.ready[i] >= 0) reduce_unit(&s, s.ready[i]);
  }
  return out;
}
