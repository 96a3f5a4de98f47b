/* SPDX-License-Identifier: Apache-2.0 */
/* The state table: pure arithmetic from the model's parameters to who holds what. */
#include <stdlib.h>
#include <string.h>

#include "src/pass/pass.h"

const char *state_slot_name(StateSlot slot) {
  static const char *const names[STATE_SLOTS] = {"param", "m", "v", "lower", "state"};
  return names[slot];
}

DType state_slot_type(const StateTable *table, StateSlot slot) {
  if (table->split && slot == SLOT_PARAM) return DT_BF16;
  if (slot == SLOT_M || slot == SLOT_V) return table->moments;
  return slot == SLOT_LOWER ? DT_I16 : DT_F32;
}

const char *state_name(Arena *arena, StateSlot slot, const StateUnit *unit) {
  return arena_printf(arena, "%s/%s", state_slot_name(slot), unit->name);
}

const char *state_grad(Arena *arena, const StateUnit *unit) { return arena_printf(arena, "grad/%s", unit->name); }

const char *state_gradsum(Arena *arena, const StateUnit *unit) { return arena_printf(arena, "gradsum/%s", unit->name); }

const char *state_upper(Arena *arena, const StateUnit *unit) { return arena_printf(arena, "upper/%s", unit->name); }

const char *state_gathered(Arena *arena, const StateUnit *unit) { return arena_printf(arena, "gathered/%s", unit->name); }

bool state_is_gathered(const char *var) { return !strncmp(var, "gathered/", strlen("gathered/")); }

static const char *unit_name(Arena *arena, const char *block, const ParamTraits *t) {
  const char *name = arena_printf(arena, "%s%s%s", block, t->frozen ? ".frozen" : "", t->whole ? ".whole" : "");
  char number[NUM_TEXT];
  if (!t->frozen && t->lr_factor != 1) name = arena_printf(arena, "%s.lr%s", name, num_double(t->lr_factor, number));
  if (!t->frozen && t->weight_decay >= 0) name = arena_printf(arena, "%s.wd%s", name, num_double(t->weight_decay, number));
  return name;
}

static int find_unit(Arena *arena, StateTable *table, const char *block, const ParamTraits *traits) {
  static const ParamTraits plain = {.lr_factor = 1, .weight_decay = -1};
  if (!traits) traits = &plain;
  const char *name = unit_name(arena, block, traits);
  for (int i = table->nunits - 1; i >= 0; i--)
    if (!strcmp(table->units[i].name, name)) return i;
  table->units[table->nunits] = (StateUnit){.name = name, .traits = *traits};
  return table->nunits++;
}

/* Places the parameters of one kind (matrices or vectors) behind what their units hold already. */
static void place(Arena *arena, StateTable *table, const Graph *model, const ParamTraits *traits, bool matrices) {
  for (int i = 0, p = 0; i < model->vars.n; i++) {
    const Var *v = &model->vars.at[i];
    if (v->class != VAR_PARAM) continue;
    StateParam *param = &table->params[p];
    const ParamTraits *own = traits ? &traits[p] : NULL;
    p++;
    if ((v->shape.rank >= 2) != matrices) continue;
    int unit = find_unit(arena, table, v->unit, own);
    *param = (StateParam){v->name, v->shape, v->init, v->std, unit, table->units[unit].n};
    table->units[unit].n += shape_size(&v->shape);
    if (matrices) table->units[unit].decayed = table->units[unit].n;
  }
}

/* Equal shares of equal parts. */
static void share_out(const StateTable *table, StateUnit *unit) {
  int64_t grain = (int64_t)STATE_PAD * table->shards * table->replicas;
  unit->padded = (unit->n + grain - 1) / grain * grain;
  unit->part = unit->traits.whole ? unit->padded : unit->padded / table->shards;
  unit->local = table->across && !unit->traits.whole ? unit->part / table->replicas : unit->part;
}

static void add_rows(Arena *arena, StateTable *table, StateSlot slot) {
  for (int i = 0; i < table->nunits; i++) {
    const StateUnit *unit = &table->units[i];
    if (unit->traits.frozen && slot != SLOT_PARAM) continue;
    const char *name = state_name(arena, slot, unit);
    table->rows[table->nrows++] = (StateRow){name, slot, state_slot_type(table, slot), i, unit->local};
  }
}

/* --- by name --------------------------------------------------------------------------------------------------------------- */

typedef struct StateName {
  const char *name;
  int param;
} StateName;

static int compare_names(const void *a, const void *b) {
  return strcmp(((const StateName *)a)->name, ((const StateName *)b)->name);
}

static void sort_names(Arena *arena, StateTable *table) {
  table->names = arena_array(arena, StateName, table->nparams);
  for (int i = 0; i < table->nparams; i++) table->names[i] = (StateName){table->params[i].name, i};
  if (table->nparams) qsort(table->names, (size_t)table->nparams, sizeof *table->names, compare_names);
}

int state_find_param(const StateTable *table, const char *name) {
  const StateName key = {name, -1}, *found = NULL;
  if (table->nparams) found = bsearch(&key, table->names, (size_t)table->nparams, sizeof key, compare_names);
  return found ? found->param : -1;
}

/* --- the table ------------------------------------------------------------------------------------------------------------- */

StateTable *state_table(Arena *arena, const Graph *model, const StateOptions *o) {
  StateTable *table = arena_new(arena, StateTable);
  CHECK(o->shards >= 1 && o->replicas >= 1);
  for (int i = 0; i < model->vars.n; i++) table->nparams += model->vars.at[i].class == VAR_PARAM;
  table->shards = o->shards;
  table->replicas = o->replicas;
  table->across = o->across && o->replicas > 1;
  table->split = o->split;
  table->scaled = o->scaled;
  table->moments = o->moments;
  table->params = arena_array(arena, StateParam, table->nparams);
  table->units = arena_array(arena, StateUnit, table->nparams);
  for (int i = 0, p = 0; i < model->vars.n; i++) /* units in the order of their first parameter */
    if (model->vars.at[i].class == VAR_PARAM)
      find_unit(arena, table, model->vars.at[i].unit, o->traits ? &o->traits[p] : NULL), p++;
  place(arena, table, model, o->traits, true);
  place(arena, table, model, o->traits, false);
  for (int i = 0; i < table->nunits; i++) share_out(table, &table->units[i]);
  sort_names(arena, table);
  table->rows = arena_array(arena, StateRow, 4 * table->nunits + 3);
  for (StateSlot slot = SLOT_PARAM; slot <= (o->split ? SLOT_LOWER : SLOT_V); slot++) add_rows(arena, table, slot);
  static const char *const scalars[] = {"updates", "loss_scale", "scale_age"};
  for (int i = 0; i < (o->scaled ? 3 : 1); i++) table->rows[table->nrows++] = (StateRow){scalars[i], SLOT_SCALAR, DT_F32, -1, 1};
  return table;
}

int64_t state_share(const StateTable *table, StateRank rank) {
  return table->across ? (int64_t)rank.shard * table->replicas + rank.replica : rank.shard;
}

bool state_piece(const StateTable *table, int param, StateRank rank, int64_t *first, int64_t *count, int64_t *at) {
  const StateParam *p = &table->params[param];
  const StateUnit *unit = &table->units[p->unit];
  int64_t lo = p->offset, hi = lo + shape_size(&p->shape);
  int64_t from = unit->traits.whole ? 0 : state_share(table, rank) * unit->local, to = from + unit->local;
  if (lo < from) lo = from;
  if (hi > to) hi = to;
  *first = lo - p->offset;
  *count = hi - lo;
  *at = lo - from;
  return hi > lo;
}

StateHolders state_holders(const StateTable *table, int param, StateRank rank, int64_t *holders, int64_t *me) {
  bool all = table->units[table->params[param].unit].traits.whole;
  *holders = all ? table->shards * table->replicas : table->across ? 1 : table->replicas;
  *me = all ? rank.replica * table->shards + rank.shard : table->across ? 0 : rank.replica;
  return all ? HELD_BY_ALL : table->across ? HELD_ALONE : HELD_BY_REPLICAS;
}

bool state_piece_once(const StateTable *table, int param, StateRank rank, int64_t *first, int64_t *count, int64_t *at) {
  if (!state_piece(table, param, rank, first, count, at)) return false;
  int64_t holders, me, n = *count;
  state_holders(table, param, rank, &holders, &me);
  int64_t before = n / holders * me + (me < n % holders ? me : n % holders);
  *first += before;
  *at += before;
  *count = n / holders + (me < n % holders);
  return *count > 0;
}
