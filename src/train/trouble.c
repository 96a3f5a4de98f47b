/* SPDX-License-Identifier: Apache-2.0 */
/* A step that left everything as it was: told, and what the run file wants then: to skip it, to stop, or to go back to a checkpoint
 * and past the data that led here (as PaLM's training did: Chowdhery et al., 2022, section 5.1).  Results are the same on all
 * ranks, and so is what is decided from them. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "src/base/clock.h"
#include "src/report/human.h"
#include "src/train/replicas.h"
#include "src/train/run.h"

/* Which of the two it was, and by how much; history does not hold this step yet. */
static void tell_spike(const Run *run, const StepResult *r, char *text, size_t nbytes) {
  static const char *const names[MEASURES] = {"loss", "gradient norm"};
  const double value[MEASURES] = {r->loss, r->grad_norm};
  double most = 0;
  for (Measure m = 0; m < MEASURES; m++) {
    char is[HUMAN_TEXT], was[HUMAN_TEXT];
    Usual usual = history_usual(run->history, m);
    double off = (value[m] - usual.middle) / usual.deviation;
    if (!(off > most)) continue;
    most = off;
    snprintf(text, nbytes, "a spike: %s %s, %.1f deviations above the usual %s", names[m], human_fixed(value[m], 9, 4, is), off,
             human_fixed(usual.middle, 9, 4, was));
  }
}

static _Noreturn void stop(int64_t step, bool spike, const char *why) {
  fail(FAIL_INPUT, "step %" PRId64 ": %s\nhelp: a lower train.lr or a longer train.warmup; %s: skip passes over such steps", step,
       why, spike ? "health.on_spike" : "health.nonfinite");
}

/* A loss that is scaled, too far for 16 bits, is scaled by half as much from now on: that happens to healthy runs. */
static void tell_scale(Run *run, int64_t step, double scale) {
  if (run_speaks(run))
    lines_warn(run->lines, step, "step skipped: no finite gradient at a loss scale of %g; now %g", scale, scale / 2);
}

const char *run_skipped(const StepResult *r) {
  if (r->applied) return NULL;
  if (r->tokens == 0) return "tokens";
  if (isfinite(r->loss) && isfinite(r->grad_norm)) return "spike";
  return r->scale > 1 ? "loss_scale" : "nonfinite";
}

bool run_trouble(Run *run, int64_t step, const StepResult *result, bool ahead) {
  char why[512] = "";
  bool finite = isfinite(result->loss) && isfinite(result->grad_norm), spike = finite, again = false;
  if (result->tokens == 0) {
    if (run_speaks(run)) lines_warn(run->lines, step, "step skipped: none of its tokens counts");
    return false;
  }
  if (!finite && result->scale > 1) {
    tell_scale(run, step, result->scale);
    return false;
  }
  if (spike)
    tell_spike(run, result, why, sizeof why);
  else
    again = run_blame(run, step, ahead, why, sizeof why) && ahead;
  Remedy remedy = (Remedy)(spike ? run->config->health.on_spike : run->config->health.nonfinite);
  if (remedy == REMEDY_STOP) {
    run_save_leave(run); /* what is being written is good */
    stop(step, spike, why);
  }
  if (remedy == REMEDY_BACK && run_back(run, step, true, why)) return true;
  if (run_speaks(run))
    lines_warn(run->lines, step, "step skipped: %s%s", why, remedy == REMEDY_BACK ? "; there is no checkpoint to go back to" : "");
  if (again) run_passes(run, step + 1); /* its gradients gave way to the search */
  return false;
}

/* What most ranks hold is right, but nobody can give it back to the others in mid-run; and a rank that was wrong once may be again.
 * The newest checkpoint is good: replicas are compared before each save. */
static void differ(Run *run, const char *why) {
  bool back = run->config->health.replicas == REMEDY_BACK - REMEDY_STOP;
  run_save_leave(run); /* was compared, if it is being written */
  if (back && run_back(run, run->step, false, why)) return;
  fail(FAIL_MACHINE, "step %" PRId64 ": %s%s\nhelp: leave that node out, its memory or its links are faulty; then start again%s",
       run->step, why, back ? "; there is no checkpoint to go back to" : "",
       run->saved_step < 0 ? "" : arena_printf(run->arena, ": step-%08" PRId64 " is good", run->saved_step));
}

bool run_compare(Run *run) {
  Text told = {0};
  if (!engine_has_replicas(run->engine) || run->compared_step == run->step) return true;
  double begin = clock_seconds();
  run_doing(run, false, "comparing replicas");
  bool alike = replicas_agree(run->engine, run->comm, &told);
  run_doing(run, false, "");
  if (alike)
    run->compared_step = run->step;
  else
    differ(run, told.at);
  text_close(&told);
  run_spend(run, SPENT_TRAINING, clock_seconds() - begin);
  return alike;
}
