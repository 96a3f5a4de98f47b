/* SPDX-License-Identifier: Apache-2.0 */
#include "src/exec/gathers.h"

#include <string.h>

#include "src/exec/private.h"

static bool is_state(const Program *p, const StepArg *arg) {
  const Buffer *b = &p->buffers[arg->place.buffer];
  return b->class == BUFFER_VAR && p->graph->vars.at[b->var].class == VAR_STATE;
}

/* A state that lies within what is gathered of it lies elsewhere on each rank: peers find it where it belongs in the result. */
static bool is_found(const Program *p, const Step *step) {
  const char *within = p->graph->vars.at[p->buffers[step->in[0].place.buffer].var].within;
  const Buffer *out = &p->buffers[step->out[0].place.buffer];
  return !within || (out->class == BUFFER_VAR && !strcmp(p->graph->vars.at[out->var].name, within));
}

bool gather_reads_state(const Program *p, const Step *step) {
  return step->kind == STEP_COLLECTIVE_START && step->op == OP_ALL_GATHER && collective_count(step) > 0 &&
         is_state(p, &step->in[0]) && is_found(p, step);
}

static bool writes_state(const Program *p, const Step *step) {
  for (int o = 0; o < step->nout; o++)
    if (is_state(p, &step->out[o])) return true;
  return false;
}

/* Over: every rank has started it. */
static bool reduction_is_over(const Step *step, int64_t axis) {
  return step->kind == STEP_COLLECTIVE_WAIT && step->op != OP_ALL_GATHER && step->n[0] == axis && collective_count(step) > 0;
}

/* A wait for every start: a reduction that is started behind it tells that this rank has read. */
static bool waits_for_all(const Program *p) {
  int open = 0;
  for (int s = 0; s < p->nsteps; s++)
    open += p->steps[s].kind == STEP_COLLECTIVE_START ? 1 : p->steps[s].kind == STEP_COLLECTIVE_WAIT ? -1 : 0;
  return open == 0;
}

bool gathers_states(const Program *p, int64_t axis) {
  for (int s = 0; s < p->nsteps; s++)
    if (gather_reads_state(p, &p->steps[s]) && p->steps[s].n[0] == axis) return true;
  return false;
}

bool step_exchanges(const Step *step) { return step->kind == STEP_COLLECTIVE_START && step->op == OP_ALL_TO_ALL; }

bool gathers_may_copy(const Program *p, int64_t axis) {
  bool gathers = gathers_states(p, axis), met = false;
  for (int s = 0; s < p->nsteps; s++) {
    const Step *step = &p->steps[s];
    met |= reduction_is_over(step, axis);
    if (writes_state(p, step) && (gathers || !met)) return false;
  }
  return waits_for_all(p);
}
