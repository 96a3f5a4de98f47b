/* SPDX-License-Identifier: Apache-2.0 */
/* How long this job has, and what it leaves for a job script when it ends before the run does. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/base/file.h"
#include "src/report/human.h"
#include "src/train/run.h"

/* A job's last seconds are kept free for what is slower than it was before: a share of all its time, up to so much. */
#define SPARE_SHARE 0.02
#define SPARE_MOST 60.0
/* Bytes a second of a save before the first one has been measured: a busy file system that many share. */
#define UNMEASURED_RATE 2e8
/* Steps until what is decided in one is done by all ranks. */
#define STEPS_AHEAD 2

static double start_time(void) { return clock_seconds() - clock_since_exec(); }

/* When Slurm ends this job, by a clock that nobody sets. */
static bool try_job_end(double *ends, Why *why) {
  double end;
  if (!try_comm_job_end(&end, why)) return false;
  if (end <= clock_wall()) /* as in the shell of an allocation that has ended */
    return why_not(why, "it was over before the run began, says Slurm");
  *ends = clock_seconds() + (end - clock_wall());
  return true;
}

void limit_open(Run *run) {
  Amount asked = run->config->train.time_limit;
  Why why;
  run->ends = INFINITY;
  if (asked.unit == UNIT_SECONDS) run->ends = start_time() + asked.value;
  if (asked.unit == UNIT_AUTO && !try_job_end(&run->ends, &why))
    lines_warn(run->lines, 0, "train.time_limit: auto does not learn when this job ends: %s", why.text);
  if (unlink(run->folder->requeue) && errno != ENOENT) lines_warn(run->lines, 0, "%s: %s", run->folder->requeue, strerror(errno));
}

static double save_seconds(const Run *run) {
  double measured = run->longest[SPENT_SAVES];
  return measured > 0 ? measured : members_saved_bytes(run->members) / UNMEASURED_RATE;
}

static double spare(const Run *run) { return fmin(SPARE_MOST, SPARE_SHARE * fmax(0, run->ends - start_time())); }

bool limit_is_near(const Run *run) {
  if (isinf(run->ends)) return false;
  double needed = STEPS_AHEAD * run->longest[SPENT_TRAINING] + run->longest[SPENT_EVALS] + save_seconds(run) + spare(run);
  if (run_save_under_way(run)) needed += save_seconds(run);
  return clock_seconds() + needed >= run->ends;
}

void limit_tell(const Run *run) {
  char text[HUMAN_TEXT], more[HUMAN_TEXT];
  if (isinf(run->ends)) return;
  double left = fmax(0, run->ends - clock_seconds()), kept = save_seconds(run) + spare(run);
  lines_banner(run->lines, "limit", "%s left%s; the run saves and ends before that: %s are kept for it until a save is measured",
               human_duration(left, text), run->config->train.time_limit.unit == UNIT_AUTO ? " until Slurm ends the job" : "",
               human_duration(kept, more));
  if (left <= kept && run->step < run->shape.last_step)
    lines_warn(run->lines, run->step,
               "this job may be too short for a save: the run ends after its first steps; give it more time");
}

const char *limit_pause(int64_t pause) {
  static const struct {
    int64_t pause;
    const char *name;
  } names[] = {{SIGINT, "Ctrl-C"}, {SIGTERM, "SIGTERM"}, {SIGUSR1, "SIGUSR1"}, {PAUSE_TIME, "train.time_limit"}};
  size_t i = 0;
  while (names[i].pause != pause) i++;
  return names[i].name;
}

void limit_requeue(Run *run, int64_t pause) {
  Why why;
  char text[128];
  snprintf(text, sizeof text, "step %lld of %lld: %s\n", (long long)run->step, (long long)run->shape.total_steps,
           limit_pause(pause));
  if (!try_file_write(run->folder->requeue, text, strlen(text), &why)) lines_warn(run->lines, run->step, "%s", why.text);
}
