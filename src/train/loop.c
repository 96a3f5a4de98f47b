/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a run.  Step N: N updates are done.  Once a step the ranks tell each other what each has been asked for, without
 * waiting: the answer of one step is acted on in the next, by all of them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/report/human.h"
#include "src/train/run.h"

/* Of the exchange: a Wish each, and less than 0 where saves are over: the most of all ranks is what is over on all. */
enum { WORD_SAVES = WISHES, WORDS };
_Static_assert(WORDS <= 4, "as many as comm_control_start takes");

/* --- a step --------------------------------------------------------------------------------------------------------------- */

static void step_tell(Run *run, int64_t step, const StepResult *result) {
  if (!run_speaks(run)) return;
  const Flops *flops = &run->open_work.flops;
  double tokens = (double)run->open_work.tokens;
  CommConnected connected = run->concluded == 1 ? comm_connected(run->mesh) : (CommConnected){0, 0};
  StepEvent event = {.step = step,
                     .tokens = step * run->batch.tokens,
                     .step_tokens = run->open_work.tokens,
                     .per_token = {flops->causal / tokens, flops->full / tokens},
                     .padding = config_has_buckets(run->config) ? 1 - (double)run->open_work.filled / tokens : 0,
                     .loss = result->loss,
                     .grad_norm = result->grad_norm,
                     .lr = run->open_lr,
                     .z_loss = result->z_loss,
                     .router_loss = result->router_loss,
                     .seconds = result->seconds,
                     .connect = connected.took,
                     .connect_waited = connected.waited,
                     .skipped = run_skipped(result),
                     .memory_gib = run_memory(run),
                     .beside_gib = run->memory_beside};
  lines_step(run->lines, &event);
  metrics_step(run->metrics, &run->shape.speed, &event);
}

/* Waits for the update that is under way, if one is, and tells.  False: the run has gone back. */
static bool conclude(Run *run, bool ahead) {
  int64_t step = run->open;
  if (!step) return true;
  StepResult result = engine_update_result(run->engine);
  run->open = 0;
  run->loss = result.loss;
  if (++run->concluded <= PROGRAM_READY || run->open_work.fresh) run_memory_look(run);
  prof_span_begin(run->prof, "metrics");
  step_tell(run, step, &result);
  prof_span_end(run->prof);
  bool back = !result.applied && run_trouble(run, step, &result, ahead);
  if (!back && result.tokens > 0) history_add(run->history, result.loss, result.grad_norm);
  return !back;
}

/* What is usual follows from all steps before. */
static void start_update(Run *run) {
  double limit[MEASURES] = {INFINITY, INFINITY}, k = run->config->health.spike;
  for (Measure m = 0; m < MEASURES && k > 0; m++) {
    Usual usual = history_usual(run->history, m);
    if (isfinite(usual.deviation)) limit[m] = usual.middle + k * usual.deviation;
  }
  engine_limit(run->engine, limit[MEASURE_LOSS], limit[MEASURE_NORM]);
  engine_update_start(run->engine, run->step, run->open_lr);
}

static void next_passes(void *self) {
  Run *run = self;
  run_passes(run, run->step + 1);
}

/* Twice, where that is asked for: then nothing else is under way. */
static void start_passes(Run *run) {
  Text told = {0};
  if (!run->twice)
    next_passes(run);
  else if (!twice_step(run->twice, run->step + 1, next_passes, run, &told) && run_speaks(run))
    lines_warn(run->lines, run->step + 1, "computed twice: %s", told.at);
  text_close(&told);
}

/* How many times as long a step of whole rows may take as the one before, or the one that is under way; what programs take longer
 * when they first run says nothing of it. */
static double whole_rows(const Run *run) {
  if (run->work.fresh) return 1;
  int64_t tokens = run->batch.tokens;
  if (run->work.tokens > 0 && run->work.tokens < tokens) tokens = run->work.tokens;
  if (run->open_work.tokens > 0 && run->open_work.tokens < tokens) tokens = run->open_work.tokens;
  return (double)run->batch.tokens / (double)tokens;
}

/* Of a step, or what was left of it, that began then; on: a way back is no step, whose length says nothing of others'. */
static void spend_step(Run *run, double begin, double stalled, bool on) {
  double seconds = clock_seconds() - begin - stalled;
  run_pace_end(run, on ? stalled : seconds + stalled);
  run->spent[SPENT_TRAINING] += seconds;
  if (on) run->longest[SPENT_TRAINING] = fmax(run->longest[SPENT_TRAINING], seconds * whole_rows(run));
}

/* What a step gave is read when the next one's passes have been started: the device does not wait for us in between.  A CPU has
 * nothing to do meanwhile; and steps that are recorded do not mingle, nor those before them.  False: the run has gone back. */
static bool step(Run *run) {
  double begin = clock_seconds();
  run_pace_begin(run);
  if (!run->open) engine_step_begin(run->engine);
  prof_step_begin(run->prof, run->step + 1);
  bool on = !run->twice || conclude(run, false);
  double stalled = on && run->twice ? run_save_release(run) : 0;
  if (on) start_passes(run);
  if (on) on = conclude(run, true);
  if (on) stalled += run_save_release(run);
  if (on) {
    run->open = ++run->step;
    run->open_work = run->work;
    run->open_lr = lr_at(&run->schedule, run->step - 1);
    start_update(run);
    if (dev_is_host(run->dev) || run->step <= run->config->profile.steps.last) on = conclude(run, false);
  }
  prof_step_end(run->prof);
  spend_step(run, begin, stalled, on);
  return on;
}

/* So that run->step is done, and told.  False: the run has gone back. */
static bool finish_step(Run *run) {
  double begin = clock_seconds();
  run_pace_begin(run);
  bool on = conclude(run, false);
  spend_step(run, begin, 0, on);
  return on;
}

void run_doing(Run *run, bool patient, const char *doing) {
  lines_doing(run->lines, doing);
  comm_doing(run->comm, patient, "%s", doing);
}

/* --- between steps ---------------------------------------------------------------------------------------------------------- */

/* Sends what this rank has been asked for, and says what any rank was asked for a step ago. */
static void exchange(Run *run, bool *in_flight, int64_t wanted[4]) {
  int64_t mine[4] = {0};
  wishes_take(run, mine);
  mine[WORD_SAVES] = -run_saves_over(run);
  memset(wanted, 0, sizeof mine);
  if (*in_flight) comm_control_finish(run->comm, wanted);
  comm_control_start(run->comm, mine);
  *in_flight = true;
}

static bool is_due(const Run *run, Amount every) { return every.unit && run->step % (int64_t)every.value == 0; }

/* Those that stay for good are saved even where no other save is due. */
static bool is_save_due(const Run *run) {
  bool again = run->retry_step && run->step >= run->retry_step;
  return again || is_due(run, run->config->checkpoint.every) || is_due(run, run->config->checkpoint.keep_every);
}

/* Where a run has come to: asked for, it stops before its end; pause: what asks for going on in another job. */
typedef struct End {
  bool stopped;
  int64_t pause;
} End;

/* What is due behind a step; there is nothing where the run has gone back.  A save comes last: what a checkpoint is behind has been
 * told, so that a run which ends here by force lacks none of it later. */
static void after_step(Run *run, bool asked) {
  bool last = run->step >= run->shape.last_step;
  bool evaluate = (last || is_due(run, run->config->eval.every)) && data_vals(run->data);
  bool save = is_save_due(run) || asked;
  bool compare = (save || is_due(run, run->config->health.replicas_every)) && engine_has_replicas(run->engine);
  bool wait = evaluate || compare || (save && !run_saves_beside(run));
  if (wait && !finish_step(run)) return;
  if (compare && !run_compare(run)) return;
  if (evaluate) run_evaluate(run);
  if (save) run_save_due(run);
}

static bool is_over(const Run *run, const int64_t wanted[WORDS]) {
  return run->step >= run->shape.last_step || wanted[WISH_STOP] || wanted[WISH_PAUSE];
}

static End step_all(Run *run) {
  bool in_flight = false;
  int64_t rest[4], wanted[4] = {0};
  while (!is_over(run, wanted)) {
    run_profile_before(run);
    bool on = step(run);
    exchange(run, &in_flight, wanted);
    run_pace_after(run);
    run_save_look(run, -wanted[WORD_SAVES]);
    if (on) after_step(run, wanted[WISH_SAVE]);
    run_profile_after(run);
    if (is_over(run, wanted) && finish_step(run)) run_compare(run); /* each may send it back */
  }
  if (in_flight) comm_control_finish(run->comm, rest);
  run_pace_close(run);
  run_profile_close(run);
  bool stopped = run->step < run->shape.last_step;
  return (End){stopped, stopped && !wanted[WISH_STOP] ? wanted[WISH_PAUSE] : 0};
}

/* --- the end ---------------------------------------------------------------------------------------------------------------- */

static void tell_end(Run *run) {
  char tokens[HUMAN_TEXT], loss[HUMAN_TEXT], time[HUMAN_TEXT], eval[HUMAN_TEXT];
  Lines *l = run->lines;
  double all = clock_since_exec();
  const double *t = run->spent;
  snprintf(eval, sizeof eval, ", eval %.4f", run->eval_loss);
  int64_t equal = 0, twice = 0;
  if (run->twice) twice_count(run->twice, &equal, &twice);
  if (run->twice) lines_end(l, "twice", "%lld of %lld steps had the same bits both times", (long long)equal, (long long)twice);
  lines_end(l, "done", "%lld of %lld steps, %s tokens, loss %s%s", (long long)run->step, (long long)run->shape.total_steps,
            human_count((double)(run->step * run->batch.tokens), tokens), human_fixed(run->loss, 9, 4, loss),
            isnan(run->eval_loss) ? "" : eval);
  lines_end(l, "time", "%s: training %.1f %%, start %.1f, evaluations %.1f, saves %.1f", human_duration(all, time),
            100 * t[SPENT_TRAINING] / all, 100 * t[SPENT_START] / all, 100 * t[SPENT_EVALS] / all, 100 * t[SPENT_SAVES] / all);
}

static void tell_next(Run *run, bool requeue) {
  Lines *l = run->lines;
  const Config *c = run->config;
  if (run->saved_step != run->step) {
    lines_end(l, "next", "nothing: this run was told to save nothing (checkpoint.every: none)");
  } else if (run->step < run->shape.total_steps) {
    lines_end(l, "next", "the same command goes on at step %lld%s%s%s", (long long)run->step + 1, requeue ? "; " : "",
              requeue ? run->folder->path : "", requeue ? "/REQUEUE tells a job script to do so" : "");
  } else {
    if (run->tokenizer) lines_end(l, "next", "hpctrain generate %s --prompt \"...\"", run->folder->path);
    if (!c->export.at_end) lines_end(l, "next", "hpctrain export %s %s/hf", run->folder->path, run->folder->path);
  }
}

void run_steps(Run *run) {
  if (run->step >= run->shape.last_step) {
    const char *key = run->step < run->shape.total_steps ? "train.stop_after" : "train.duration";
    if (run_speaks(run))
      lines_note(run->lines,
                 "step %lld is done, nothing is left to do: with a longer %s the run goes on, another run.folder begins anew",
                 (long long)run->step, key);
    run_export(run);
    return;
  }
  if (run_speaks(run)) lines_run(run->lines, &run->shape);
  wishes_listen();
  comm_doing(run->comm, false, "%s", "");
  End end = step_all(run);
  lines_run_end(run->lines);
  if (run_speaks(run) && end.pause) lines_note(run->lines, "%s: the run saves and ends", limit_pause(end.pause));
  bool last = run->config->checkpoint.every.unit;
  last ? run_save_wait_before(run) : run_save_wait(run);
  if (last && run->saved_step != run->step && !run_save(run))
    fail(FAIL_MACHINE,
         "the last checkpoint of %s could not be written\nhelp: make room there, and run again: it goes on from the one before",
         run->folder->path);
  if (run_speaks(run)) tell_end(run);
  comm_doing(run->comm, true, "ending the run");
  run_memory_end(run);
  run_export(run);
  bool requeue = end.pause && run->saved_step == run->step;
  if (run_speaks(run) && requeue) limit_requeue(run, end.pause);
  if (run_speaks(run)) tell_next(run, requeue);
}
