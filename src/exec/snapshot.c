/* SPDX-License-Identifier: Apache-2.0 */
/* The plan as what it is not: allocations and frees, for PyTorch's memory viewer.  Vars and constants are taken first and kept; a
 * buffer is taken before the first step that writes it and given back behind the last that reads it.  Addresses are the plan's, of
 * one arena that begins where the run's does: what other ranks read lies elsewhere then (job.c). */
#include "src/prof/snapshot.h"

#include "src/exec/job.h"
#include "src/exec/memory.h"

/* Where a plan's arena is taken to begin, when nothing is allocated. */
static const uint64_t NOWHERE = (uint64_t)0x7f << 40;

typedef struct Shot {
  Snapshot *snapshot;
  const Job *job;
  uint64_t base;
  int **holder; /* by program and buffer; -1: not known to the snapshot yet */
  MemoryClass **classes;
  Arena *arena;
} Shot;

static void take_fixed(Shot *s) {
  for (int i = 0; i < s->job->vars.n; i++) {
    const JobVar *v = &s->job->vars.at[i];
    if (!v->nbytes || v->var->within || v->var->home != HOME_DEVICE) continue; /* of no bytes of its own here */
    int holder =
        snapshot_holder(s->snapshot, memory_class_names[memory_var_class(v->var)], memory_var_name(s->arena, v->var), "job", i);
    snapshot_take(s->snapshot, holder, s->base + v->offset, v->nbytes, 0);
  }
  if (!s->job->memory.tables) return;
  int holder = snapshot_holder(s->snapshot, memory_class_names[MEMORY_CONSTANTS], "tables", "job", s->job->vars.n);
  snapshot_take(s->snapshot, holder, s->base + s->job->memory.vars, s->job->memory.tables, 0);
}

static uint64_t place(const Shot *s, const Buffer *b) {
  return s->base + s->job->memory.vars + s->job->memory.tables + (uint64_t)b->offset;
}

static bool counts(const Buffer *b) { return b->class == BUFFER_TRANSIENT && b->nbytes && b->first >= 0; }

static void take(Shot *s, int program, int buffer, int64_t micros) {
  const JobProgram *p = &s->job->programs.at[program];
  const Buffer *b = &p->program->buffers[buffer];
  int *holder = &s->holder[program][buffer];
  if (*holder < 0)
    *holder = snapshot_holder(s->snapshot, memory_class_names[s->classes[program][buffer]],
                              memory_buffer_name(s->arena, s->job, program, buffer), p->name, b->first);
  snapshot_take(s->snapshot, *holder, place(s, b), b->nbytes, micros);
}

/* What ends with a step is given back behind it, what begins with it is taken before it. */
static void run_step(Shot *s, const MemoryMoment *at) {
  const Program *p = s->job->programs.at[at->program].program;
  for (int b = 0; b < p->nbuffers; b++)
    if (counts(&p->buffers[b]) && p->buffers[b].first == at->step) take(s, at->program, b, at->micros);
  for (int b = 0; b < p->nbuffers; b++)
    if (counts(&p->buffers[b]) && p->buffers[b].last == at->step) snapshot_give(s->snapshot, place(s, &p->buffers[b]), at->micros);
}

MemoryMoment *memory_order(Arena *arena, const Job *job, const int *programs, int n, int *count) {
  *count = 0;
  for (int i = 0; i < n; i++) *count += job->programs.at[programs[i]].program->nsteps;
  MemoryMoment *at = arena_array(arena, MemoryMoment, *count), *to = at;
  for (int i = 0; i < n; i++)
    for (int s = 0; s < job->programs.at[programs[i]].program->nsteps; s++, to++) *to = (MemoryMoment){programs[i], s, to - at + 1};
  return at;
}

typedef struct Record {
  const Job *job;
  Arena *arena;
  VEC(MemoryMoment) moments;
} Record;

static void add_moment(void *self, int profiled, int step, double seconds) {
  Record *r = self;
  int program = 0;
  while (r->job->programs.at[program].profiled != profiled) program++;
  vec_push(r->arena, &r->moments, (MemoryMoment){program, step, (int64_t)(1e6 * seconds)});
}

MemoryMoment *memory_recorded(Arena *arena, const Job *job, int *count) {
  Record r = {.job = job, .arena = arena};
  if (job->prof) prof_visit(job->prof, add_moment, &r);
  *count = r.moments.n;
  return r.moments.at;
}

void memory_snapshot(const Job *job, const MemoryMoment *at, int n, Text *out) {
  Arena *arena = arena_open();
  uint64_t nbytes = job->memory.vars + job->memory.tables + job->memory.transient;
  Shot s = {.job = job, .base = job->base ? (uint64_t)(uintptr_t)job->base : NOWHERE, .arena = arena};
  s.snapshot = snapshot_open(s.base, nbytes, out);
  s.holder = arena_array(arena, int *, job->programs.n);
  s.classes = arena_array(arena, MemoryClass *, job->programs.n);
  for (int i = 0; i < job->programs.n; i++) {
    s.holder[i] = arena_ints(arena, job->programs.at[i].program->nbuffers, -1);
    s.classes[i] = memory_classes(arena, job->programs.at[i].program);
  }
  take_fixed(&s);
  for (int i = 0; i < n && !job->interpreted; i++) run_step(&s, &at[i]);
  snapshot_close(s.snapshot);
  arena_close(arena);
}
