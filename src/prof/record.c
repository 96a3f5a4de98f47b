/* SPDX-License-Identifier: Apache-2.0 */
/* Recording: brackets by the host's clock, events by the device's back end, and who belongs to whom. */
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/prof/impl.h"

const char *const prof_kind_names[PROF_KINDS] = {
    [PROF_PRODUCTS] = "products",     [PROF_ATTENTION] = "attention", [PROF_EMBEDDING] = "embedding", [PROF_ROUTING] = "routing",
    [PROF_FUSED] = "fused",           [PROF_UPDATE] = "update",       [PROF_COPIES] = "copies",       [PROF_GATHERS] = "gathers",
    [PROF_REDUCTIONS] = "reductions", [PROF_GAPS] = "gaps",           [PROF_HOST] = "host",
};

Prof *prof_open(Dev *dev, int rank, int ranks) {
  Arena *arena = arena_open();
  Prof *prof = arena_new(arena, Prof);
  *prof = (Prof){.arena = arena, .dev = dev, .rank = rank, .ranks = ranks};
  DevCard card;
  if (dev_card(dev, &card)) prof->back = dev_cuda_symbol("prof_cupti");
  return prof;
}

void prof_close(Prof *prof) {
  if (!prof) return;
  CHECK(!prof->on);
  arena_close(prof->arena);
}

int prof_program(Prof *prof, const char *name, const ProfItem *items, int nitems) {
  CHECK(!prof->steps.n);
  vec_push(prof->arena, &prof->programs, (ProfProgram){.name = name, .items = items, .nitems = nitems});
  return prof->programs.n - 1;
}

void prof_memory(Prof *prof, int program, const char *const *classes, int nclasses, const size_t *alive) {
  ProfProgram *p = &prof->programs.at[program];
  p->classes = classes;
  p->nclasses = nclasses;
  p->alive = alive;
}

void prof_peak(Prof *prof, const ProfPeak *peak) { prof->peak = *peak; }

bool prof_on(const Prof *prof) { return prof && prof->on; }

void prof_arm(Prof *prof) {
  if (!prof) return;
  dev_sync(prof->dev);
  if (prof->back) prof->back->arm();
}

void prof_start(Prof *prof, double wall) {
  if (!prof) return;
  CHECK(!prof->on && !prof->steps.n);
  prof->on = true;
  prof->wall = wall;
  prof->zero = clock_seconds();
}

/* --- brackets -------------------------------------------------------------------------------------------------------------- */

void prof_step_begin(Prof *prof, int64_t number) {
  if (prof_on(prof)) vec_push(prof->arena, &prof->steps, (ProfStep){number, clock_seconds(), 0});
}

void prof_step_end(Prof *prof) {
  if (prof_on(prof)) prof->steps.at[prof->steps.n - 1].end = clock_seconds();
}

static void span_begin(Prof *prof, const char *name, int program) {
  CHECK(prof->nopen < PROF_NESTED);
  prof->open[prof->nopen++] = prof->spans.n;
  vec_push(prof->arena, &prof->spans, (ProfSpan){name, program, clock_seconds(), 0});
}

static void span_end(Prof *prof) {
  CHECK(prof->nopen > 0);
  prof->spans.at[prof->open[--prof->nopen]].end = clock_seconds();
}

void prof_span_begin(Prof *prof, const char *name) {
  if (prof_on(prof)) span_begin(prof, name, -1);
}

void prof_span_end(Prof *prof) {
  if (prof_on(prof)) span_end(prof);
}

void prof_run_begin(Prof *prof, int program) {
  if (prof_on(prof)) span_begin(prof, prof->programs.at[program].name, program);
}

void prof_run_end(Prof *prof) {
  if (prof_on(prof)) span_end(prof);
}

void prof_item_begin(Prof *prof, int item) {
  if (!prof_on(prof)) return;
  CHECK(prof->nopen && prof->spans.at[prof->open[prof->nopen - 1]].program >= 0);
  if (prof->back) prof->back->enter((uint64_t)prof->brackets.n);
  vec_push(prof->arena, &prof->brackets, (ProfBracket){prof->open[prof->nopen - 1], item, clock_seconds(), 0});
}

void prof_item_end(Prof *prof) {
  if (!prof_on(prof)) return;
  prof->brackets.at[prof->brackets.n - 1].end = clock_seconds();
  if (prof->back) prof->back->leave();
}

/* --- events ----------------------------------------------------------------------------------------------------------------- */

/* Names come from libraries and need not outlive the call. */
static const char *intern(Prof *prof, const char *name) {
  for (int i = 0; i < prof->names.n; i++)
    if (!strcmp(prof->names.at[i], name)) return prof->names.at[i];
  vec_push(prof->arena, &prof->names, arena_strdup(prof->arena, name));
  return prof->names.at[prof->names.n - 1];
}

static void add_event(Prof *prof, const ProfEvent *event) {
  ProfEvent copy = *event;
  copy.name = intern(prof, event->name ? event->name : "?");
  if (copy.end < copy.begin) return; /* not over, so never told */
  if (copy.what == PROF_CALL)
    vec_push(prof->arena, &prof->calls, copy);
  else
    vec_push(prof->arena, &prof->events, copy);
}

static int by_correlation(const void *a, const void *b) {
  const ProfEvent *x = a, *y = b;
  if (x->correlation != y->correlation) return x->correlation < y->correlation ? -1 : 1;
  return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static int by_begin(const void *a, const void *b) {
  const ProfEvent *x = a, *y = b;
  return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* A call that another call makes goes by the same number: the outer one began first, and stays. */
static void sort_calls(Prof *prof) {
  int n = 0;
  if (prof->calls.n) qsort(prof->calls.at, (size_t)prof->calls.n, sizeof *prof->calls.at, by_correlation);
  for (int i = 0; i < prof->calls.n; i++)
    if (!n || prof->calls.at[i].correlation != prof->calls.at[n - 1].correlation) prof->calls.at[n++] = prof->calls.at[i];
  prof->calls.n = n;
}

const ProfEvent *prof_call(const Prof *prof, uint32_t correlation) {
  int lo = 0, hi = prof->calls.n;
  while (lo < hi) {
    int mid = (lo + hi) / 2;
    if (prof->calls.at[mid].correlation < correlation)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo < prof->calls.n && prof->calls.at[lo].correlation == correlation ? &prof->calls.at[lo] : NULL;
}

/* The bracket that was open then; -1: none.  Brackets follow one another. */
static int64_t bracket_at(const Prof *prof, double time) {
  int lo = 0, hi = prof->brackets.n;
  while (lo < hi) {
    int mid = (lo + hi) / 2;
    if (prof->brackets.at[mid].begin <= time)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo && time <= prof->brackets.at[lo - 1].end ? lo - 1 : -1;
}

/* Where the device's record does not say it, the time of the call does. */
static void find_brackets(Prof *prof) {
  for (int i = 0; i < prof->events.n; i++) {
    ProfEvent *e = &prof->events.at[i];
    const ProfEvent *call = prof_call(prof, e->correlation);
    if (e->bracket >= prof->brackets.n) e->bracket = -1;
    if (e->bracket < 0 && call) e->bracket = bracket_at(prof, call->begin);
  }
}

/* A host's work is what its brackets hold. */
static void events_of_host(Prof *prof) {
  for (int i = 0; i < prof->brackets.n; i++) {
    const ProfBracket *b = &prof->brackets.at[i];
    vec_push(prof->arena, &prof->events,
             (ProfEvent){.name = bracket_item(prof, b)->name, .begin = b->begin, .end = b->end, .bracket = i});
  }
}

void prof_stop(Prof *prof) {
  if (!prof_on(prof)) return;
  CHECK(!prof->nopen);
  dev_sync(prof->dev);
  prof->on = false;
  if (!prof->back) {
    events_of_host(prof);
    return;
  }
  prof->back->stop(prof, add_event);
  sort_calls(prof);
  find_brackets(prof);
  if (prof->events.n) qsort(prof->events.at, (size_t)prof->events.n, sizeof *prof->events.at, by_begin);
}

/* --- when ------------------------------------------------------------------------------------------------------------------- */

double *prof_begins(const Prof *prof, Arena *arena) {
  double *begins = arena_array(arena, double, prof->brackets.n);
  for (int i = 0; i < prof->brackets.n; i++) begins[i] = -1;
  for (int i = 0; i < prof->events.n; i++) { /* by begin: the first of a bracket */
    const ProfEvent *e = &prof->events.at[i];
    if (e->bracket >= 0 && begins[e->bracket] < 0) begins[e->bracket] = e->begin;
  }
  for (int i = 0; i < prof->brackets.n; i++)
    if (begins[i] < 0) begins[i] = prof->brackets.at[i].begin;
  return begins;
}

void prof_visit(const Prof *prof, ProfVisit *visit, void *self) {
  Arena *arena = arena_open();
  const double *begins = prof_begins(prof, arena);
  double latest = -1, first = 0;
  for (int i = 0; i < prof->brackets.n && prof->steps.n; i++) {
    const ProfBracket *b = &prof->brackets.at[i];
    if (b->begin < prof->steps.at[0].begin || b->begin > prof->steps.at[0].end) continue;
    if (latest < 0) first = latest = begins[i];
    if (begins[i] > latest) latest = begins[i]; /* collectives may begin before what was started first */
    visit(self, prof->spans.at[b->span].program, b->item, latest - first);
  }
  arena_close(arena);
}
