/* SPDX-License-Identifier: Apache-2.0 */
/* How long this rank computes for, and which rank computes more slowly than the others: every health.straggler_every steps each
 * tells rank 0, by a gather that nobody waits for, which then says so once as long as it lasts. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/train/run.h"
#include "src/train/straggler.h"

enum { NAMED = 8 };            /* at a time */
static const double LEAST = 3; /* seconds: what is told of less is added up, since a moment's hiccup is no news */

struct Paces {
  int64_t every, steps, told; /* steps: since this rank last told; told: the step in which it did */
  double begin, waited_begin, seconds, waited;
  Pace *sums; /* rank 0's, as the next */
  Episode *episodes;
  Straggler *found;
};

void run_pace_open(Run *run) {
  const Config *c = run->config;
  int n = comm_size(run->comm);
  if (!c->health.straggler_every.unit || n == 1) return;
  Paces *p = run->paces = arena_new(run->arena, Paces);
  *p = (Paces){.every = (int64_t)c->health.straggler_every.value, .steps = -PROGRAM_READY};
  p->sums = arena_array(run->arena, Pace, run_speaks(run) ? n : 0);
  p->episodes = arena_array(run->arena, Episode, run_speaks(run) ? n : 0);
  p->found = arena_array(run->arena, Straggler, run_speaks(run) ? n : 0);
}

void run_pace_begin(Run *run) {
  Paces *p = run->paces;
  if (!p) return;
  p->begin = clock_seconds();
  p->waited_begin = comm_waited(run->mesh);
}

void run_pace_end(Run *run, double beside) {
  Paces *p = run->paces;
  if (!p || p->steps < 0 || run->work.fresh) return; /* programs that run first tell nothing */
  p->seconds += fmax(0, clock_seconds() - p->begin - beside);
  p->waited += comm_waited(run->mesh) - p->waited_begin;
}

/* --- rank 0 ------------------------------------------------------------------------------------------------------------------- */

static void tell(Run *run, const Straggler *s, const Pace *pace) {
  int64_t step = run->paces->told;
  char who[96], gpu[24] = "", clock[96] = "";
  if (pace->gpu >= 0) snprintf(gpu, sizeof gpu, " GPU %d", (int)pace->gpu);
  snprintf(who, sizeof who, "rank %d (%s%s)", s->rank, pace->node, gpu);
  if (pace->mhz > 0) snprintf(clock, sizeof clock, ": clock %.0f", pace->mhz);
  if (pace->mhz > 0 && pace->mhz_most > 0) snprintf(clock + strlen(clock), 24, " of %.0f", pace->mhz_most);
  if (pace->mhz > 0) strcat(clock, " MHz");
  metrics_straggler(run->metrics, &(StragglerEvent){.step = step,
                                                    .rank = s->rank,
                                                    .node = pace->node,
                                                    .gpu = pace->gpu,
                                                    .slower = s->slower,
                                                    .mhz = pace->mhz,
                                                    .mhz_most = pace->mhz_most,
                                                    .slowed = pace->slowed,
                                                    .over = s->over});
  if (s->over)
    lines_note(run->lines, "step %lld: %s is as fast as the others again", (long long)step, who);
  else
    lines_warn(run->lines, step, "%s %.0f %% slower than median%s%s%s", who, 100 * s->slower, clock,
               *pace->slowed ? "; held down by " : "", pace->slowed);
}

static void add(Pace *sum, const Pace *pace) {
  double seconds = sum->seconds + pace->seconds, waited = sum->waited + pace->waited;
  *sum = *pace;
  sum->seconds = seconds;
  sum->waited = waited;
}

static void judge(Run *run, const Pace *paces) {
  Paces *p = run->paces;
  int n = comm_size(run->comm);
  if (!paces) return;
  for (int r = 0; r < n; r++) add(&p->sums[r], &paces[r]);
  if (p->sums[0].seconds < LEAST) return;
  int found = stragglers_find(p->sums, n, comm_overlaps(run->mesh), run->config->health.straggler_percent, p->episodes, p->found);
  for (int i = 0; i < found && i < NAMED; i++) tell(run, &p->found[i], &p->sums[p->found[i].rank]);
  if (found > NAMED) lines_warn(run->lines, p->told, "and %d more", found - NAMED);
  memset(p->sums, 0, sizeof *p->sums * (size_t)n);
}

/* --- all ranks ------------------------------------------------------------------------------------------------------------------
 */

static void start(Run *run) {
  Paces *p = run->paces;
  DevSensors sensors = dev_sensors(run->dev, false);
  Pace mine = {.seconds = p->seconds, .waited = p->waited, .mhz = sensors.mhz, .mhz_most = sensors.mhz_most, .gpu = sensors.gpu};
  snprintf(mine.slowed, sizeof mine.slowed, "%s", sensors.slowed);
  snprintf(mine.node, sizeof mine.node, "%s", comm_node(run->comm));
  _Static_assert(sizeof mine <= COLLECT_BYTES, "what one gather carries");
  comm_collect_start(run->comm, &mine, sizeof mine);
  p->told = run->step;
}

void run_pace_after(Run *run) {
  Paces *p = run->paces;
  if (!p) return;
  p->steps++;
  bool due = run->step % p->every == 0;
  judge(run, comm_collect_over(run->comm, due));
  if (!due) return;
  if (p->steps > p->every / 2) start(run);
  if (p->steps < 0) return;
  p->steps = 0;
  p->seconds = p->waited = 0;
}

void run_pace_close(Run *run) {
  if (run->paces) judge(run, comm_collect_over(run->comm, true));
}
