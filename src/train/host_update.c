/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/host_update.h"

#include <string.h>

struct HostUpdate {
  Arena *arena;
  Dev *dev; /* the host's cores; NULL: for a plan */
  Job *device, *job;
  const StateTable *states;
  Choices choices;
  int *program; /* by unit; -1: it is frozen */
  bool stale;   /* the copy of the upper halves is older than the device's */
};

/* What the units' part works on, in the host's memory; gradients are there by memory.offload. */
static void keep_states(HostUpdate *h, const StateUnit *unit) {
  const struct {
    StateSlot slot;
    const char *name;
  } vars[] = {{SLOT_M, state_name(h->arena, SLOT_M, unit)},
              {SLOT_V, state_name(h->arena, SLOT_V, unit)},
              {SLOT_LOWER, state_name(h->arena, SLOT_LOWER, unit)},
              {SLOT_PARAM, state_upper(h->arena, unit)}};
  for (size_t i = 0; i < sizeof vars / sizeof *vars; i++)
    job_keep(h->device, &(Var){.name = vars[i].name,
                               .class = VAR_STATE,
                               .dtype = state_slot_type(h->states, vars[i].slot),
                               .shape = SHAPE(unit->local),
                               .home = HOME_HOST});
}

static int add_unit(HostUpdate *h, const UpdateOptions *update, int unit, const CompileWatch *watch) {
  Arena *scratch = arena_open();
  const char *name = arena_printf(h->arena, "update.%s", h->states->units[unit].name);
  const Graph *g = graph_update_unit(scratch, h->states, update, unit);
  const Program *program = compile(h->arena, g, h->states, &h->choices, name, true, true, watch);
  arena_close(scratch);
  return job_add(h->job, program, name);
}

HostUpdate *host_update_open(Arena *arena, Dev *dev, Job *job, Comm *comm, const StateTable *states, const UpdateOptions *update,
                             const EngineOptions *o) {
  const int needed = OFFLOAD_MOMENTS | OFFLOAD_MASTERS | OFFLOAD_GRADIENTS;
  CHECK(states->split && (o->choices.offload.what & needed) == needed && o->choices.offload.moments == HOME_HOST &&
        !o->interpreted);
  HostUpdate *h = arena_new(arena, HostUpdate);
  *h = (HostUpdate){.arena = arena, .device = job, .states = states, .stale = true};
  h->choices = (Choices){.units_alive = 1, .unfused = o->choices.unfused, .matmul = "auto", .threads = o->choices.threads};
  if (dev)
    h->dev = dev_open(
        &(DevOptions){.kind = "cpu", .compiler = o->compiler, .cache = dev_cache_folder(dev), .threads = dev_threads(dev)});
  h->job = job_open(arena, h->dev, comm, NULL, &h->choices, false);
  h->program = arena_ints(arena, states->nunits, -1);
  for (int u = 0; u < states->nunits; u++)
    if (!states->units[u].traits.frozen) keep_states(h, &states->units[u]);
  job_borrow(h->job, job);
  for (int u = 0; u < states->nunits; u++)
    if (!states->units[u].traits.frozen) h->program[u] = add_unit(h, update, u, o->watch);
  return h;
}

Job *host_update_job(const HostUpdate *host) { return host->job; }

JobStart host_update_start(HostUpdate *h) { return job_start(h->job); }

void host_update_close(HostUpdate *h) {
  job_close(h->job);
  if (h->dev) dev_close(h->dev);
}

void host_update_stale(HostUpdate *host) { host->stale = true; }

static void copy_unit(const HostUpdate *h, int unit, bool up) {
  const StateUnit *u = &h->states->units[unit];
  Arena *scratch = arena_open();
  const char *there = state_name(scratch, SLOT_PARAM, u), *here = state_upper(scratch, u);
  job_copy(h->device, up ? there : here, up ? here : there);
  arena_close(scratch);
}

void host_update_run(HostUpdate *h) {
  float shared[SHARED];
  for (int u = 0; u < h->states->nunits && h->stale; u++)
    if (h->program[u] >= 0) copy_unit(h, u, false);
  h->stale = false;
  job_read(h->device, "shared", 0, SHARED, shared); /* which waits for all before it */
  memcpy(job_var(h->job, "shared", NULL), shared, sizeof shared);
  for (int u = 0; u < h->states->nunits; u++) {
    if (h->program[u] < 0) continue;
    job_run(h->job, h->program[u]);
    copy_unit(h, u, true);
  }
}
