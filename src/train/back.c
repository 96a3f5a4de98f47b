/* SPDX-License-Identifier: Apache-2.0 */
/* A run goes back to its newest checkpoint, within the job, and on from there: with other data where that may have led here.  What
 * it does then depends on what it has computed alone; a job that is stopped in between goes the same way again. */
#include <inttypes.h>
#include <math.h>

#include "src/train/run.h"

/* What was told and measured of steps that are done anew goes to the attempt's folder, as with a resume. */
static void cut_reports(Run *run) {
  const char *cut = arena_printf(run->arena, "%s/metrics-cut-%d.jsonl", run->folder->here, ++run->backs);
  metrics_close(run->metrics);
  run->metrics = metrics_open(run->folder->path, run->step, cut);
  lines_again(run->lines);
}

static void count(Run *run, int64_t bad, const char *why) {
  run->back_times = run->back_to == run->step ? run->back_times + 1 : 1;
  run->back_to = run->step;
  if (run->back_times > run->config->health.backs)
    fail(FAIL_INPUT,
         "step %" PRId64 ": %s; the run has gone back to step %" PRId64 " %" PRId64 " time%s (health.backs)\n"
         "help: a lower train.lr, or checkpoint.resume with an older step",
         bad, why, run->step, run->config->health.backs, run->config->health.backs == 1 ? "" : "s");
}

bool run_back(Run *run, int64_t bad, bool past, const char *why) {
  int64_t next = bad + history_ahead(run->history); /* batches of the data that are behind us */
  run_save_leave(run);
  run_doing(run, true, "going back to a checkpoint");
  engine_rest(run->engine);
  if (!run_load_again(run)) {
    run_doing(run, false, "");
    return false;
  }
  count(run, bad, why);
  int64_t left_out = past ? next - run->step - history_ahead(run->history) : 0;
  if (past && !history_jump(run->history, run->step, left_out))
    fail(FAIL_INPUT, "step %" PRId64 ": %s; the run has gone back %d times\nhelp: a lower train.lr", bad, why, HISTORY_JUMPS);
  run->open = 0;
  run->compared_step = -1; /* what comes is computed anew */
  run->loss = NAN;
  run->retry_step = run->retry_wait = 0;
  if (run_speaks(run)) {
    cut_reports(run);
    BackEvent event = {.step = run->step + 1, .from = bad, .first = next - left_out + 1, .batches = left_out, .why = why};
    metrics_back(run->metrics, &event);
    lines_warn(run->lines, bad, "%s; back to step %" PRId64 "%s", why, run->step,
               past ? arena_printf(run->arena, ", past %" PRId64 " batches of data", left_out) : "");
  }
  run_doing(run, false, "");
  return true;
}
