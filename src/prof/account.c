/* SPDX-License-Identifier: Apache-2.0 */
/* The table: every instant of the recorded steps is charged to one row.  A sweep over all begins and ends keeps what is open
 * between two of them: the device's events, the host's spans, the step.
 *
 * Idle time goes to the program whose event comes next, since that is what waited. */
#include <stdlib.h>
#include <string.h>

#include "src/prof/impl.h"

enum { OPEN_MOST = 256 }; /* at a time; a device runs at most 128 kernels at once */

typedef enum Of { OF_EVENT, OF_SPAN, OF_STEP, OFS } Of;

typedef struct Point {
  double time;
  bool ends;
  Of of;
  int i;
} Point;

typedef struct Open {
  int at[OPEN_MOST], n; /* in the order in which they were opened */
} Open;

typedef struct Account {
  const Prof *prof;
  Arena *arena;
  ProfTable *table;
  ProfRates rates;
  VEC(Point) points;
  Open open[OFS];
  int *row; /* by event; -1: of no step */
  int next; /* the first event that has not begun */
} Account;

/* --- rows ------------------------------------------------------------------------------------------------------------------ */

static int row_find(Account *a, const char *program, ProfKind kind, const char *name) {
  ProfTable *t = a->table;
  for (int i = 0; i < t->rows.n; i++) {
    const ProfRow *r = &t->rows.at[i];
    if (r->kind == kind && !strcmp(r->program, program) && !strcmp(r->name, name)) return i;
  }
  vec_push(a->arena, &t->rows, (ProfRow){.program = program, .kind = kind, .name = name});
  return t->rows.n - 1;
}

static const char *event_program(const Prof *prof, const ProfEvent *e) {
  return e->bracket < 0 ? "" : bracket_program(prof, &prof->brackets.at[e->bracket])->name;
}

static ProfKind event_kind(const Prof *prof, const ProfEvent *e) {
  if (e->bracket >= 0) return bracket_item(prof, &prof->brackets.at[e->bracket])->kind;
  return e->what == PROF_KERNEL ? PROF_FUSED : PROF_COPIES;
}

static int event_row(Account *a, const ProfEvent *e) {
  const Prof *prof = a->prof;
  const char *name = e->bracket < 0 ? e->name : bracket_item(prof, &prof->brackets.at[e->bracket])->name;
  return row_find(a, event_program(prof, e), event_kind(prof, e), name);
}

static bool is_recorded(const Prof *prof, double time) {
  for (int i = 0; i < prof->steps.n; i++)
    if (prof->steps.at[i].begin <= time && time <= prof->steps.at[i].end) return true;
  return false;
}

static bool is_collective(ProfKind kind) { return kind == PROF_GATHERS || kind == PROF_REDUCTIONS; }

/* Of a collective there is none: what links sustain depends on where the ranks are. */
static double floor_of(const ProfRates *rates, const ProfItem *item) {
  if (is_collective(item->kind)) return 0;
  double rate = item->narrow ? rates->narrow : rates->wide;
  double products = rate > 0 ? item->flops / rate : 0, moves = rates->bytes > 0 ? item->nbytes / rates->bytes : 0;
  return products > moves ? products : moves;
}

/* What was asked for: once a bracket that does something (a collective's wait has no work of its own). */
static void add_work(Account *a) {
  const Prof *prof = a->prof;
  for (int i = 0; i < prof->brackets.n; i++) {
    const ProfBracket *b = &prof->brackets.at[i];
    const ProfItem *item = bracket_item(prof, b);
    if (!is_recorded(prof, b->begin) || (item->flops == 0 && item->nbytes == 0)) continue;
    ProfRow *row = &a->table->rows.at[row_find(a, bracket_program(prof, b)->name, item->kind, item->name)];
    row->calls++;
    row->flops += item->flops;
    row->nbytes += item->nbytes;
    row->floor += floor_of(&a->rates, item);
  }
}

static void add_events(Account *a) {
  const Prof *prof = a->prof;
  a->row = arena_ints(a->arena, prof->events.n, -1);
  for (int i = 0; i < prof->events.n; i++) {
    const ProfEvent *e = &prof->events.at[i];
    const ProfEvent *call = prof_call(prof, e->correlation);
    double begun = e->bracket >= 0 ? prof->brackets.at[e->bracket].begin : call ? call->begin : e->begin;
    if (!is_recorded(prof, begun)) continue;
    int row = a->row[i] = event_row(a, e);
    a->table->rows.at[row].busy += e->end - e->begin;
    if (e->bracket >= 0) continue;
    a->table->rows.at[row].calls++;
    a->table->rows.at[row].nbytes += (double)e->nbytes;
    a->table->strays += e->what == PROF_KERNEL;
  }
}

/* --- the sweep --------------------------------------------------------------------------------------------------------------- */

/* Before an end, begins of the same time; so what has no length is opened before it is closed.  An outer span begins first. */
static int by_time(const void *x, const void *y) {
  const Point *a = x, *b = y;
  if (a->time != b->time) return a->time < b->time ? -1 : 1;
  if (a->ends != b->ends) return a->ends ? 1 : -1;
  return a->i < b->i ? -1 : a->i > b->i;
}

static void add_points(Account *a, Of of, int i, double begin, double end) {
  vec_push(a->arena, &a->points, (Point){begin, false, of, i});
  vec_push(a->arena, &a->points, (Point){end, true, of, i});
}

/* Steps end when the device has done what they started, the last one at the latest. */
static double last_end(const Account *a) {
  const Prof *prof = a->prof;
  double end = prof->steps.at[prof->steps.n - 1].end;
  for (int i = 0; i < prof->events.n; i++)
    if (a->row[i] >= 0 && prof->events.at[i].end > end) end = prof->events.at[i].end;
  return end;
}

static void make_points(Account *a) {
  const Prof *prof = a->prof;
  for (int i = 0; i < prof->events.n; i++)
    if (a->row[i] >= 0) add_points(a, OF_EVENT, i, prof->events.at[i].begin, prof->events.at[i].end);
  for (int i = 0; i < prof->spans.n; i++) add_points(a, OF_SPAN, i, prof->spans.at[i].begin, prof->spans.at[i].end);
  for (int i = 0; i < prof->steps.n; i++)
    add_points(a, OF_STEP, i, prof->steps.at[i].begin, i + 1 < prof->steps.n ? prof->steps.at[i].end : last_end(a));
  qsort(a->points.at, (size_t)a->points.n, sizeof *a->points.at, by_time);
}

static void open_change(Open *open, int i, bool ends) {
  if (!ends) {
    CHECK(open->n < OPEN_MOST);
    open->at[open->n++] = i;
    return;
  }
  int k = 0;
  while (open->at[k] != i) k++;
  memmove(open->at + k, open->at + k + 1, sizeof *open->at * (size_t)(--open->n - k));
}

/* Computing goes before copying goes before talking to other ranks; the earliest of its class. */
static int busiest(const Account *a) {
  const Open *open = &a->open[OF_EVENT];
  int best = -1, class = 3;
  for (int k = 0; k < open->n; k++) {
    ProfKind kind = a->table->rows.at[a->row[open->at[k]]].kind;
    int c = is_collective(kind) ? 2 : kind == PROF_COPIES;
    if (c >= class) continue;
    best = open->at[k];
    class = c;
  }
  return best;
}

/* The program that waits, or "" where the step is over before anything else runs. */
static const char *next_program(const Account *a) {
  const Prof *prof = a->prof;
  const ProfStep *step = &prof->steps.at[a->open[OF_STEP].at[0]];
  const ProfEvent *next = a->next < prof->events.n ? &prof->events.at[a->next] : NULL;
  return next && next->begin < step->end ? event_program(prof, next) : "";
}

static int idle_row(Account *a) {
  const Prof *prof = a->prof;
  const Open *spans = &a->open[OF_SPAN];
  const ProfSpan *span = spans->n ? &prof->spans.at[spans->at[spans->n - 1]] : NULL;
  bool host = span && span->program < 0;
  return row_find(a, host ? "" : next_program(a), host ? PROF_HOST : PROF_GAPS, host ? span->name : "nothing runs");
}

static void sweep(Account *a) {
  const Prof *prof = a->prof;
  double since = 0;
  for (int i = 0; i < a->points.n; i++) {
    const Point *p = &a->points.at[i];
    if (a->open[OF_STEP].n && p->time > since) {
      int event = busiest(a), row = event >= 0 ? a->row[event] : idle_row(a);
      a->table->rows.at[row].own += p->time - since;
      a->table->seconds += p->time - since;
    }
    since = p->time;
    open_change(&a->open[p->of], p->i, p->ends);
    while (a->next < prof->events.n && prof->events.at[a->next].begin <= since) a->next++;
  }
}

ProfTable *prof_table(const Prof *prof, Arena *arena) {
  ProfTable *t = arena_new(arena, ProfTable);
  Account a = {.prof = prof, .arena = arena, .table = t, .rates = prof_rates(dev_describe(prof->dev))};
  *t = (ProfTable){
      .rank = prof->rank, .ranks = prof->ranks, .device = dev_describe(prof->dev), .steps = prof->steps.n, .peak = prof->peak};
  if (!prof->steps.n) return t;
  t->first = prof->steps.at[0].number;
  t->last = prof->steps.at[prof->steps.n - 1].number;
  add_events(&a);
  add_work(&a);
  make_points(&a);
  sweep(&a);
  return t;
}
