/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of a run.  A save that fails costs nothing but itself: it is told, the one before stays, training goes on. */
#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

#include "src/base/clock.h"
#include "src/report/human.h"
#include "src/train/run.h"

enum { RETRY_MOST = 1000 }; /* steps, where checkpoint.every is none */

void run_check_room(const Run *run) {
  const Config *c = run->config;
  struct statvfs disk;
  if (!run_speaks(run)) return;
  if (statvfs(run->folder->checkpoints, &disk))
    fail(FAIL_MACHINE, "%s: %s\nhelp: give run.folder=PATH on a file system that works", run->folder->checkpoints, strerror(errno));
  int there = 0;
  ckpt_list(run->arena, run->folder->checkpoints, &there);
  int64_t more = setup_checkpoints(c, run->shape.last_step) - there;
  double needed = (double)(more > 0 ? more : 0) * members_saved_bytes(run->members),
         left = (double)disk.f_bavail * (double)disk.f_frsize;
  char a[HUMAN_TEXT], b[HUMAN_TEXT], one[HUMAN_TEXT];
  if (needed > left)
    fail(FAIL_MACHINE,
         "no room for checkpoints: %lld more of %s need %s, %s has %s\nhelp: a smaller checkpoint.keep%s, or give "
         "run.folder=PATH on a larger file system",
         (long long)more, human_bytes(members_saved_bytes(run->members), one), human_bytes(needed, a), run->folder->checkpoints,
         human_bytes(left, b), c->checkpoint.keep_every.unit ? ", a larger checkpoint.keep_every" : "");
}

static bool write_states(const Run *run, Why *why) {
  Arena *arena = arena_open();
  char loss[NUM_TEXT];
  Text history = {0};
  history_print(run->history, &history);
  const CkptText own[] = {{"config", run->config_text},
                          {"model", run->model_text},
                          {"choices", job_choices(engine_job(run->engine))},
                          {"history", history.at ? history.at : ""}};
  int n_own = sizeof own / sizeof *own;
  CkptText *texts = arena_array(arena, CkptText, n_own + run->n_papers);
  memcpy(texts, own, sizeof own);
  if (run->n_papers) memcpy(texts + n_own, run->papers, sizeof *texts * (size_t)run->n_papers);
  CkptText facts[] = {
      {"tokens", arena_printf(arena, "%lld", (long long)(run->step * run->batch.tokens))},
      {"loss", num_double(run->loss, loss)},
      {"strategy", config_word(run->config, "parallel.strategy")},
      {"ranks", arena_printf(arena, "%d", comm_size(run->comm))},
      {"data_tokens", arena_printf(arena, "%lld", (long long)data_tokens(run->data))},
      {"epoch_sequences", arena_printf(arena, "%lld", (long long)data_epoch_sequences(run->data))},
  };
  StatesSave save = {.folder = run->folder->checkpoints,
                     .step = run->step,
                     .texts = texts,
                     .n_texts = n_own + run->n_papers,
                     .facts = facts,
                     .n_facts = sizeof facts / sizeof *facts};
  bool ok = try_states_save(run->comm, run->engine, &save, why);
  text_close(&history);
  arena_close(arena);
  return ok;
}

/* Rank 0, before and after. */
static void prepare(Run *run) {
  Why why;
  if (lock_lost(run->lock))
    fail(FAIL_MACHINE, "%s/LOCK is another job's now: it had not been heard of for %d s\nhelp: end one of the two jobs",
         run->folder->path, LOCK_EXPIRES);
  if (!metrics_sync(run->metrics, &why)) lines_warn(run->lines, run->step, "%s", why.text);
}

static void conclude(Run *run, double seconds) {
  Why why;
  SaveEvent event = {run->step, members_saved_bytes(run->members), seconds, seconds};
  lines_save(run->lines, &event);
  metrics_save(run->metrics, &event);
  if (!try_ckpt_prune(run->folder->checkpoints, (int)run->config->checkpoint.keep,
                      (int64_t)run->config->checkpoint.keep_every.value, &why))
    lines_warn(run->lines, run->step, "%s", why.text);
}

/* The next step tries again; each time in a row that it fails the wait doubles, up to checkpoint.every: a folder that is full or
 * slow for long costs little. */
static void plan_retry(Run *run, const Why *why) {
  int64_t most = run->config->checkpoint.every.unit ? (int64_t)run->config->checkpoint.every.value : RETRY_MOST;
  run->retry_wait = run->retry_wait ? 2 * run->retry_wait : 1;
  if (run->retry_wait > most) run->retry_wait = most;
  run->retry_step = run->step + run->retry_wait;
  const char *stays = run->saved_step >= 0 ? arena_printf(run->arena, "step-%08lld stays; ", (long long)run->saved_step) : "";
  if (run_speaks(run))
    lines_warn(run->lines, run->step, "no checkpoint: %s; %ssaved again at step %lld", why->text, stays,
               (long long)run->retry_step);
}

bool run_save(Run *run) {
  Why why;
  double begin = clock_seconds();
  run_doing(run, true, "writing checkpoint");
  if (run_speaks(run)) prepare(run);
  prof_span_begin(run->prof, "checkpoint");
  bool ok = write_states(run, &why);
  prof_span_end(run->prof);
  double seconds = clock_seconds() - begin;
  if (ok) run->saved_step = run->step;
  if (ok) run->retry_step = run->retry_wait = 0;
  if (!ok) plan_retry(run, &why);
  if (run_speaks(run) && ok) conclude(run, seconds);
  run_doing(run, false, "");
  run_spend(run, SPENT_SAVES, clock_seconds() - begin);
  return ok;
}
