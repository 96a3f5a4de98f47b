/* SPDX-License-Identifier: Apache-2.0 */
/* The state table: pure arithmetic from the model's parameters to who holds what. */
#include <string.h>

#include "src/pass/pass.h"

const char *state_slot_name(StateSlot slot) {
  static const char *const names[STATE_SLOTS] = {"param", "m", "v", "lower", "state"};
  return names[slot];
}

DType state_slot_type(const StateTable *table, StateSlot slot) {
  if (table->split && slot == SLOT_PARAM) return DT_BF16;
  return slot == SLOT_LOWER ? DT_I16 : DT_F32;
}

const char *state_grad(Arena *arena, const StateUnit *unit) { return arena_printf(arena, "grad/%s", unit->name); }

const char *state_gradsum(Arena *arena, const StateUnit *unit) { return arena_printf(arena, "gradsum/%s", unit->name); }

static int find_unit(StateTable *table, const char *name) {
  for (int i = table->nunits - 1; i >= 0; i--)
    if (!strcmp(table->units[i].name, name)) return i;
  table->units[table->nunits].name = name;
  return table->nunits++;
}

/* Places the parameters of one kind (matrices or vectors) behind what their units hold already. */
static void place(StateTable *table, const Graph *model, bool matrices) {
  for (int i = 0, p = 0; i < model->vars.n; i++) {
    const Var *v = &model->vars.at[i];
    if (v->class != VAR_PARAM) continue;
    StateParam *param = &table->params[p++];
    if ((v->shape.rank >= 2) != matrices) continue;
    int unit = find_unit(table, v->unit);
    *param = (StateParam){v->name, v->shape, v->init, v->std, unit, table->units[unit].n};
    table->units[unit].n += shape_size(&v->shape);
    if (matrices) table->units[unit].decayed = table->units[unit].n;
  }
}

StateTable *state_table(Arena *arena, const Graph *model, const StateOptions *o) {
  StateTable *table = arena_new(arena, StateTable);
  for (int i = 0; i < model->vars.n; i++) table->nparams += model->vars.at[i].class == VAR_PARAM;
  table->ranks = o->ranks;
  table->sharded = o->sharded;
  table->split = o->split;
  table->scaled = o->scaled;
  table->params = arena_array(arena, StateParam, table->nparams);
  table->units = arena_array(arena, StateUnit, table->nparams);
  for (int i = 0; i < model->vars.n; i++) /* units in the order of their first parameter */
    if (model->vars.at[i].class == VAR_PARAM) find_unit(table, model->vars.at[i].unit);
  place(table, model, true);
  place(table, model, false);
  table->rows = arena_array(arena, StateRow, 4 * table->nunits + 3);
  for (int i = 0; i < table->nunits; i++) {
    StateUnit *unit = &table->units[i];
    int64_t grain = (int64_t)STATE_PAD * o->ranks;
    unit->padded = (unit->n + grain - 1) / grain * grain;
    unit->local = o->sharded ? unit->padded / o->ranks : unit->padded;
  }
  for (StateSlot slot = SLOT_PARAM; slot <= (o->split ? SLOT_LOWER : SLOT_V); slot++)
    for (int i = 0; i < table->nunits; i++)
      table->rows[table->nrows++] = (StateRow){arena_printf(arena, "%s/%s", state_slot_name(slot), table->units[i].name), slot,
                                               state_slot_type(table, slot), i, table->units[i].local};
  static const char *const scalars[] = {"updates", "loss_scale", "scale_age"};
  for (int i = 0; i < (o->scaled ? 3 : 1); i++) table->rows[table->nrows++] = (StateRow){scalars[i], SLOT_SCALAR, DT_F32, -1, 1};
  return table;
}

bool state_piece(const StateTable *table, int param, int rank, int64_t *first, int64_t *count, int64_t *at) {
  const StateParam *p = &table->params[param];
  const StateUnit *unit = &table->units[p->unit];
  int64_t lo = p->offset, hi = lo + shape_size(&p->shape), from = table->sharded ? rank * unit->local : 0, to = from + unit->local;
  if (lo < from) lo = from;
  if (hi > to) hi = to;
  *first = lo - p->offset;
  *count = hi - lo;
  *at = lo - from;
  return hi > lo;
}
