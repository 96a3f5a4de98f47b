/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/graphs.h"

#include <string.h>

static void scalar_var(Graph *g, const char *name, VarClass class, DType dtype) {
  graph_var(g, (Var){.name = name, .class = class, .dtype = dtype, .shape = shape_scalar()});
}

/* Adds value to a carried scalar, or starts it. */
static void carry_sum(Graph *g, const char *name, int value, bool first) {
  scalar_var(g, name, VAR_CARRY, DT_F32);
  ir_store(g, name, first ? value : ir_add(g, ir_load(g, name), value));
}

static void output(Graph *g, const char *name, int value) {
  graph_var(g, (Var){.name = name, .class = VAR_OUTPUT, .dtype = DT_F32, .shape = graph_node(g, value)->shape});
  ir_store(g, name, value);
}

static bool is_frozen(const StateTable *states, const char *name) {
  int param = state_find_param(states, name);
  CHECK(param >= 0);
  return states->units[states->params[param].unit].traits.frozen;
}

static bool has_router_losses(const ModelRouterLosses *o) { return o->balance > 0 || o->z > 0; }

/* Means over the micro-step's tokens, as sums over its counted ones: the factor that makes a step's gradient a mean fits. */
static int router_loss(Graph *g, const ModelNodes *nodes, const ModelRouterLosses *o, int count) {
  CHECK(nodes->balance >= 0);
  int both = ir_add(g, ir_scale(g, nodes->balance, o->balance), ir_scale(g, nodes->router_z, o->z));
  return ir_mul(g, count, both);
}

Graph *graph_micro(Arena *arena, const ModelConfig *model, const ModelBatch *batch, const MicroOptions *o) {
  Graph *g = graph_open(arena);
  ModelNodes nodes = model_build(g, model, batch);
  int loss, count, z;
  model_loss(g, &nodes, batch, &loss, &count, o->z_loss > 0 ? &z : NULL);
  carry_sum(g, "loss_sum", loss, o->first);
  if (o->z_loss > 0) {
    carry_sum(g, "z_sum", z, o->first);
    loss = ir_add(g, loss, ir_scale(g, z, o->z_loss));
  }
  if (has_router_losses(&o->router)) {
    int router = router_loss(g, &nodes, &o->router, count);
    carry_sum(g, "router_sum", router, o->first);
    loss = ir_add(g, loss, router);
  }
  carry_sum(g, "token_count", count, o->first);
  if (o->logits) output(g, "logits", model_logits(g, &nodes));
  if (o->nominal_tokens == 0) return g;
  int seed = ir_const(g, DT_F32, 1 / o->nominal_tokens);
  if (o->states->scaled) {
    scalar_var(g, "loss_scale", VAR_STATE, DT_F32);
    seed = ir_mul(g, seed, ir_load(g, "loss_scale"));
  }
  int *grads = arena_array(arena, int, nodes.n_params), *trained = arena_array(arena, int, nodes.n_params), n = 0;
  for (int i = 0; i < nodes.n_params; i++)
    if (!is_frozen(o->states, graph_node(g, nodes.params[i])->name)) trained[n++] = nodes.params[i];
  graph_differentiate(g, loss, seed, trained, n, nodes.order, grads);
  g->phase = PHASE_BACKWARD;
  for (int i = 0; i < n; i++) {
    const Node *param = graph_node(g, trained[i]);
    const char *name = arena_printf(arena, "grad/%s", param->name);
    if (grads[i] < 0) continue;
    graph_var(g, (Var){.name = name, .class = VAR_CARRY, .dtype = DT_F32, .shape = param->shape});
    ir_store(g, name, grads[i]);
  }
  return g;
}

static int all_reduce(Graph *g, int x, int axis, int ranks) {
  if (ranks == 1) return x;
  return graph_push(g, (Node){.op = OP_ALL_REDUCE, .n = {axis, ranks}, .nin = 1, .in = (int[]){x}});
}

static int scalar_of(Graph *g, int vector, int i) { return ir_reshape(g, ir_slice(g, vector, 0, i, i + 1), shape_scalar()); }

/* Over the shards, then over their replicas. */
static int sum_over_ranks(Graph *g, int x, const StateTable *t, int shard, int replicate) {
  return all_reduce(g, all_reduce(g, x, shard, t->shards), replicate, t->replicas);
}

enum { TOTALS = 5 }; /* scalars that travel together: those of Totals */

static int side_by_side(Graph *g, const int *scalars, int n) {
  int parts[TOTALS];
  CHECK(n <= TOTALS);
  for (int i = 0; i < n; i++) parts[i] = ir_reshape(g, scalars[i], SHAPE(1));
  return ir_concat(g, parts, n, 0);
}

/* A vector whose length STATE_PAD divides, in rows, to be summed up over rows first.  A long vector has more rows, as far as its
 * length allows: a row is the work of one multiprocessor. */
static int cut_in_rows(Graph *g, int x) {
  enum { MOST_ROWS = 1024, SHORTEST = 8192, CHUNK = 8 };
  int64_t n = graph_node(g, x)->shape.dim[0], rows = STATE_PAD;
  while (rows < MOST_ROWS && n / rows >= 2 * SHORTEST && n % (2 * rows * CHUNK) == 0) rows *= 2;
  return ir_reshape(g, x, SHAPE(rows, n / rows));
}

static int sum_of_squares(Graph *g, int x) {
  int cut = cut_in_rows(g, x);
  return ir_sum_all(g, ir_mul(g, cut, cut));
}

/* Of the elements of this rank's share: their places in the unit. */
static int places_in_unit(Graph *g, const StateUnit *unit, int shard) {
  int at = ir_iota(g, DT_I64, SHAPE(unit->local), 0);
  if (unit->local == unit->padded) return at;
  return ir_add(g, at, ir_mul(g, ir_cast(g, DT_I64, shard), ir_const(g, DT_I64, (double)unit->local)));
}

/* Which elements of this rank's share of a unit decay: the matrices'; -1: none of them. */
static int decayed_elements(Graph *g, const StateUnit *unit, int shard) {
  if (unit->traits.weight_decay >= 0) return ir_const(g, DT_PRED, 1);
  if (unit->decayed == 0) return -1;
  return ir_binary(g, OP_LT, places_in_unit(g, unit, shard), ir_const(g, DT_I64, (double)unit->decayed));
}

/* The moments, rounded by chance: an element's draw is of its unit's key for this step and its place in the unit, whoever holds it;
 * m takes the lower half of it, v the upper.  What a skipped step leaves as it was is a bf16 and stays so. */
static void dither_moments(Graph *g, int key, int places, int *m, int *v) {
  int draw = ir_binary(g, OP_RANDOM, key, places);
  *m = ir_binary(g, OP_DITHER, *m, draw);
  *v = ir_binary(g, OP_DITHER, *v, ir_binary(g, OP_SHIFT, draw, ir_const(g, DT_I32, 16)));
}

/* Scalars as one small output. */
static void store_vector(Graph *g, const char *name, const int *values, int n) {
  int *parts = arena_array(g->arena, int, n);
  for (int i = 0; i < n; i++) parts[i] = ir_reshape(g, values[i], SHAPE(1));
  graph_var(g, (Var){.name = name, .class = VAR_OUTPUT, .dtype = DT_F32, .shape = SHAPE(n)});
  ir_store(g, name, ir_concat(g, parts, n, 0));
}

static int load_grad(Graph *g, const StateUnit *unit) {
  const char *name = state_grad(g->arena, unit);
  graph_var(g, (Var){.name = name, .class = VAR_CARRY, .dtype = DT_F32, .shape = SHAPE(unit->local)});
  return ir_load(g, name);
}

/* Halved, doubled or left; and the count of updates since.  Both stay where a step is only looked at. */
static void update_scale(Graph *g, int scale, int finite, int apply, int looked) {
  scalar_var(g, "scale_age", VAR_STATE, DT_F32);
  int zero = ir_const(g, DT_F32, 0), age = ir_load(g, "scale_age"), older = ir_add(g, age, ir_const(g, DT_F32, 1));
  int old = ir_binary(g, OP_AND, apply, ir_binary(g, OP_LE, ir_const(g, DT_F32, SCALE_AGE), older));
  int grown = ir_binary(g, OP_MIN, ir_scale(g, scale, 2), ir_const(g, DT_F32, SCALE_MOST));
  int shrunk = ir_binary(g, OP_MAX, ir_scale(g, scale, 0.5), ir_const(g, DT_F32, 1));
  int next = ir_select(g, finite, ir_select(g, old, grown, scale), shrunk);
  int aged = ir_select(g, finite, ir_select(g, old, zero, ir_select(g, apply, older, age)), zero);
  ir_store(g, "loss_scale", ir_select(g, looked, scale, next));
  ir_store(g, "scale_age", ir_select(g, looked, age, aged));
}

/* Of a step, over all ranks. */
typedef struct Totals {
  int loss_sum, tokens, z_sum, router_sum, squares; /* z_sum, router_sum: -1 without such losses */
} Totals;

/* Scalars travel together.  What several ranks hold alike counts once: replicas that do not share out the update have the same
 * gradients, and of whole units (squares_whole) so has every rank. */
static Totals sum_totals(Graph *g, const StateTable *t, const UpdateOptions *o, int squares, int squares_whole) {
  bool shared = t->shards > 1 || t->across;
  int scalars[TOTALS] = {ir_load(g, "loss_sum"), ir_load(g, "token_count")}, last = 2, z = -1, router = -1;
  if (o->z_loss > 0) scalars[z = last++] = ir_load(g, "z_sum");
  if (has_router_losses(&o->router)) scalars[router = last++] = ir_load(g, "router_sum");
  scalars[last] = squares;
  int sums = all_reduce(g, side_by_side(g, scalars, shared ? last + 1 : last), o->shard, t->shards);
  if (shared) squares = scalar_of(g, sums, last);
  if (shared && !t->across && t->replicas > 1) sums = ir_slice(g, sums, 0, 0, last);
  sums = all_reduce(g, sums, o->replicate, t->replicas);
  if (t->across) squares = scalar_of(g, sums, last);
  return (Totals){.loss_sum = scalar_of(g, sums, 0),
                  .tokens = scalar_of(g, sums, 1),
                  .z_sum = z < 0 ? -1 : scalar_of(g, sums, z),
                  .router_sum = router < 0 ? -1 : scalar_of(g, sums, router),
                  .squares = ir_add(g, squares, squares_whole)};
}

/* One unit's parameters and moments.  upper: the Var of what products read of the parameters; grad: with all factors; key: of this
 * step's draws for the unit, where moments are bf16, else -1. */
static void update_unit(Graph *g, const StateTable *table, const StateUnit *unit, const char *upper, const AdamW *run,
                        AdamWShared shared, int grad, int key) {
  const char *name[STATE_SLOTS];
  int state[STATE_SLOTS], last = table->split ? SLOT_LOWER : SLOT_V, shard = ir_load(g, "shard");
  AdamW adam = *run;
  if (unit->traits.weight_decay >= 0) adam.weight_decay = unit->traits.weight_decay;
  if (unit->traits.lr_factor != 1) shared.lr = ir_scale(g, shared.lr, unit->traits.lr_factor);
  for (int slot = SLOT_PARAM; slot <= last; slot++) {
    name[slot] = slot == SLOT_PARAM ? upper : state_name(g->arena, (StateSlot)slot, unit);
    DType dtype = state_slot_type(table, (StateSlot)slot);
    graph_var(g, (Var){.name = name[slot], .class = VAR_STATE, .dtype = dtype, .shape = SHAPE(unit->local)});
    state[slot] = ir_load(g, name[slot]);
  }
  if (key >= 0) state[SLOT_M] = ir_cast(g, DT_F32, state[SLOT_M]), state[SLOT_V] = ir_cast(g, DT_F32, state[SLOT_V]);
  if (table->split) state[SLOT_PARAM] = ir_binary(g, OP_JOIN, state[SLOT_PARAM], state[SLOT_LOWER]);
  adamw_update(g, &adam, &shared, grad, decayed_elements(g, unit, shard), &state[SLOT_PARAM], &state[SLOT_M], &state[SLOT_V]);
  if (key >= 0) dither_moments(g, key, places_in_unit(g, unit, shard), &state[SLOT_M], &state[SLOT_V]);
  if (table->split) {
    state[SLOT_LOWER] = ir_unary(g, OP_LOWER, state[SLOT_PARAM]);
    state[SLOT_PARAM] = ir_unary(g, OP_UPPER, state[SLOT_PARAM]);
  }
  for (int slot = SLOT_PARAM; slot <= last; slot++) ir_store(g, name[slot], state[slot]);
}

/* What the update of every unit reads: scalar nodes.  factor: of gradients. */
typedef struct Head {
  AdamWShared adam;
  int factor;
} Head;

/* norm -> one all-reduce of scalars -> factor.  The gradient carries the seed 1/nominal and the loss's scale; the factor makes it
 * 1/actual, takes the scale off and clips in one multiplication.  grad (by unit) is filled. */
static Head update_head(Graph *g, const StateTable *table, const UpdateOptions *o, int *grad) {
  int zero = ir_const(g, DT_F32, 0), squares = zero, whole = zero;
  scalar_var(g, "loss_sum", VAR_CARRY, DT_F32);
  scalar_var(g, "token_count", VAR_CARRY, DT_F32);
  if (o->z_loss > 0) scalar_var(g, "z_sum", VAR_CARRY, DT_F32);
  if (has_router_losses(&o->router)) scalar_var(g, "router_sum", VAR_CARRY, DT_F32);
  scalar_var(g, "updates", VAR_STATE, DT_F32);
  scalar_var(g, "lr", VAR_STEP, DT_F32);
  scalar_var(g, "loss_limit", VAR_STEP, DT_F32);
  scalar_var(g, "norm_limit", VAR_STEP, DT_F32);
  for (int u = 0; u < table->nunits; u++) {
    const StateUnit *unit = &table->units[u];
    if (unit->traits.frozen) continue;
    graph_enter(g, unit->name, SCOPE_PLAIN);
    grad[u] = load_grad(g, unit);
    int *sum = unit->traits.whole ? &whole : &squares;
    *sum = ir_add(g, *sum, sum_of_squares(g, grad[u]));
  }
  g->scope = 0;
  Totals totals = sum_totals(g, table, o, squares, whole);
  int tokens = totals.tokens;
  int counted = ir_binary(g, OP_MAX, tokens, ir_const(g, DT_F32, 1));
  int ratio = ir_div(g, ir_const(g, DT_F32, o->nominal_tokens), counted), scale = ir_const(g, DT_F32, 1);
  if (table->scaled) {
    scalar_var(g, "loss_scale", VAR_STATE, DT_F32);
    scale = ir_load(g, "loss_scale");
    ratio = ir_div(g, ratio, scale);
  }
  int norm = ir_mul(g, ir_unary(g, OP_SQRT, totals.squares), ratio), factor = ratio;
  if (o->clip > 0) { /* as torch.nn.utils.clip_grad_norm_ */
    int limit = ir_div(g, ir_const(g, DT_F32, o->clip), ir_add(g, norm, ir_const(g, DT_F32, 1e-6)));
    factor = ir_mul(g, ratio, ir_binary(g, OP_MIN, limit, ir_const(g, DT_F32, 1)));
  }
  int loss = ir_div(g, totals.loss_sum, counted), limit = ir_load(g, "norm_limit");
  int some = ir_binary(g, OP_LT, zero, tokens), looked = ir_binary(g, OP_LT, limit, zero);
  int finite = ir_unary(g, OP_FINITE, norm), sound = ir_binary(g, OP_AND, finite, ir_unary(g, OP_FINITE, loss));
  int usual = ir_binary(g, OP_AND, ir_binary(g, OP_LE, loss, ir_load(g, "loss_limit")), ir_binary(g, OP_LE, norm, limit));
  int apply = ir_binary(g, OP_AND, ir_binary(g, OP_AND, sound, some), usual);
  int updates = ir_load(g, "updates"), one = ir_const(g, DT_F32, 1);
  Head head = {adamw_shared(g, &o->adam, ir_load(g, "lr"), updates, apply), factor};
  int z = o->z_loss > 0 ? ir_scale(g, ir_div(g, totals.z_sum, counted), o->z_loss) : zero;
  int router = totals.router_sum < 0 ? zero : ir_div(g, totals.router_sum, counted);
  int metrics[METRICS] = {loss, norm, tokens, ir_cast(g, DT_F32, apply), scale, z, router};
  store_vector(g, "metrics", metrics, METRICS);
  ir_store(g, "updates", ir_select(g, apply, ir_add(g, updates, one), updates));
  if (table->scaled) update_scale(g, scale, finite, apply, looked);
  return head;
}

/* shard and, where moments are bf16, the keys of draws: what else units read. */
static void unit_vars(Graph *g, const StateTable *table) {
  scalar_var(g, "shard", VAR_STEP, DT_I32);
  if (table->moments != DT_BF16) return;
  graph_var(g, (Var){.name = "dither_keys", .class = VAR_STEP, .dtype = DT_I64, .shape = SHAPE(table->nunits)});
}

static int unit_key(Graph *g, const StateTable *table, int u) {
  return table->moments == DT_BF16 ? scalar_of(g, ir_load(g, "dither_keys"), u) : -1;
}

Graph *graph_update(Arena *arena, const StateTable *table, const UpdateOptions *o) {
  Graph *g = graph_open(arena);
  int *grad = arena_array(arena, int, table->nunits);
  Head head = update_head(g, table, o, grad);
  unit_vars(g, table);
  for (int u = 0; u < table->nunits; u++) {
    const StateUnit *unit = &table->units[u];
    if (unit->traits.frozen) continue;
    graph_enter(g, unit->name, SCOPE_PLAIN);
    update_unit(g, table, unit, state_name(arena, SLOT_PARAM, unit), &o->adam, head.adam, ir_mul(g, grad[u], head.factor),
                unit_key(g, table, u));
  }
  return g;
}

Graph *graph_update_head(Arena *arena, const StateTable *table, const UpdateOptions *o) {
  Graph *g = graph_open(arena);
  Head head = update_head(g, table, o, arena_array(arena, int, table->nunits));
  int shared[SHARED] = {[SHARED_FACTOR] = head.factor,
                        [SHARED_LR] = head.adam.lr,
                        [SHARED_CORRECTION1] = head.adam.correction1,
                        [SHARED_CORRECTION2] = head.adam.correction2,
                        [SHARED_APPLY] = ir_cast(g, DT_F32, head.adam.apply)};
  store_vector(g, "shared", shared, SHARED);
  return g;
}

Graph *graph_update_unit(Arena *arena, const StateTable *table, const UpdateOptions *o, int u) {
  Graph *g = graph_open(arena);
  const StateUnit *unit = &table->units[u];
  unit_vars(g, table);
  graph_var(g, (Var){.name = "shared", .class = VAR_STEP, .dtype = DT_F32, .shape = SHAPE(SHARED)});
  int all = ir_load(g, "shared"), one[SHARED];
  for (int i = 0; i < SHARED; i++) one[i] = scalar_of(g, all, i);
  int apply = ir_binary(g, OP_LT, ir_const(g, DT_F32, 0), one[SHARED_APPLY]);
  AdamWShared adam = {one[SHARED_LR], one[SHARED_CORRECTION1], one[SHARED_CORRECTION2], apply};
  graph_enter(g, unit->name, SCOPE_PLAIN);
  update_unit(g, table, unit, state_upper(arena, unit), &o->adam, adam, ir_mul(g, load_grad(g, unit), one[SHARED_FACTOR]),
              unit_key(g, table, u));
  return g;
}

/* F32s of a slot of a unit, as this rank holds them, in rows; both halves where there are two. */
static int load_slot(Graph *g, const StateTable *t, const StateUnit *unit, StateSlot slot) {
  const StateSlot slots[] = {slot, SLOT_LOWER};
  bool halves = t->split && slot == SLOT_PARAM && !unit->traits.frozen;
  int part[2];
  for (int i = 0; i <= halves; i++) {
    const char *name = state_name(g->arena, slots[i], unit);
    graph_var(g, (Var){.name = name, .class = VAR_STATE, .dtype = state_slot_type(t, slots[i]), .shape = SHAPE(unit->local)});
    part[i] = cut_in_rows(g, ir_load(g, name)); /* here already, so that all that follows is one kernel */
  }
  if (halves) return ir_binary(g, OP_JOIN, part[0], part[1]);
  return graph_node(g, part[0])->dtype == DT_F32 ? part[0] : ir_cast(g, DT_F32, part[0]);
}

/* A number of each element drawn by its bits and its place, added up.  The draws are as often below zero as above: in a sum of 2^30
 * of them one that is another one shows still. */
static int hash_of(Graph *g, int x) {
  Shape s = graph_node(g, x)->shape;
  int row = ir_mul(g, ir_iota(g, DT_I64, s, 0), ir_const(g, DT_I64, (double)s.dim[1])),
      place = ir_add(g, row, ir_iota(g, DT_I64, s, 1));
  int bits = ir_cast(g, DT_I64, ir_unary(g, OP_BITS, x)), key = ir_add(g, bits, ir_const(g, DT_I64, 0x1p31));
  return ir_sum_all(g, ir_cast(g, DT_F32, ir_binary(g, OP_RANDOM, key, place)));
}

int graph_replicated(const StateTable *t, Arena *arena, ReplicaRow **rows) {
  int n = 0, units = 0;
  ReplicaRow *row = *rows = arena_array(arena, ReplicaRow, t->nrows);
  for (int i = 0; i < t->nrows; i++) {
    const StateRow *r = &t->rows[i];
    bool all = t->shards * t->replicas > 1 && (r->unit < 0 || t->units[r->unit].traits.whole);
    if (r->slot == SLOT_LOWER || !(all || (r->unit >= 0 && t->replicas > 1 && !t->across))) continue;
    row[n++] = (ReplicaRow){r, all ? HELD_BY_ALL : HELD_BY_REPLICAS};
    units += r->unit >= 0;
  }
  return units ? n : 0;
}

Graph *graph_replicas(Arena *arena, const StateTable *t) {
  Graph *g = graph_open(arena);
  ReplicaRow *rows;
  int n = graph_replicated(t, arena, &rows), *values = arena_array(arena, int, n);
  for (int i = 0; i < n; i++) {
    const StateRow *row = rows[i].row;
    if (row->unit < 0) {
      scalar_var(g, row->name, VAR_STATE, DT_F32);
      values[i] = ir_load(g, row->name);
      continue;
    }
    const StateUnit *unit = &t->units[row->unit];
    graph_enter(g, unit->name, SCOPE_PLAIN);
    values[i] = hash_of(g, load_slot(g, t, unit, row->slot));
  }
  g->scope = 0;
  store_vector(g, "replicas", values, n);
  return g;
}

Graph *graph_eval(Arena *arena, const ModelConfig *model, const ModelBatch *batch, const StateTable *states, int shard,
                  int replicate) {
  Graph *g = graph_open(arena);
  ModelNodes nodes = model_build(g, model, batch);
  int sums[2];
  model_loss(g, &nodes, batch, &sums[0], &sums[1], NULL);
  graph_var(g, (Var){.name = "eval", .class = VAR_OUTPUT, .dtype = DT_F32, .shape = SHAPE(2)});
  ir_store(g, "eval", sum_over_ranks(g, side_by_side(g, sums, 2), states, shard, replicate));
  return g;
}

/* One row of the hidden state is picked by adding up all of them but with the others made zero. */
static int pick_row(Graph *g, int x) {
  scalar_var(g, "row", VAR_INPUT, DT_I32);
  int wanted = ir_binary(g, OP_EQ, ir_iota(g, DT_I32, graph_node(g, x)->shape, 0), ir_load(g, "row"));
  return ir_reduce(g, OP_SUM, ir_select(g, wanted, x, ir_const(g, DT_F32, 0)), 0);
}

Graph *graph_generate(Arena *arena, const ModelConfig *model, const ModelBatch *batch) {
  Graph *g = graph_open(arena);
  ModelNodes nodes = model_build(g, model, batch);
  bool fills = batch->cache.use == CACHE_FILL;
  if (fills) nodes.hidden = pick_row(g, nodes.hidden);
  output(g, fills ? "logits" : "next_logits", model_logits(g, &nodes));
  return g;
}

Graph *graph_score(Arena *arena, const ModelConfig *model, const ModelBatch *batch) {
  Graph *g = graph_open(arena);
  ModelNodes nodes = model_build(g, model, batch);
  output(g, "nll", model_nll(g, &nodes, batch));
  return g;
}
