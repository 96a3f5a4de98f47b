/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of a run.  A save that fails costs nothing but itself: it is told, the one before stays, training goes on.
 *
 * Where there is a saver a save goes on beside the training: it begins behind an update, is given word when that one's results are
 * known, and is concluded by all ranks in the step in which all of them know that it is over. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/base/memory.h"
#include "src/report/human.h"
#include "src/train/run.h"
#include "src/train/saver.h"

enum { RETRY_MOST = 1000 }; /* steps, where checkpoint.every is none */
/* Of a node's free memory, what checkpoint.async: auto takes for copies; files that are written want some, too. */
#define COPIES_SHARE 0.8

/* What a checkpoint holds besides the states. */
typedef struct Words {
  Arena *arena;
  Text history, mixture;
  CkptText facts[8];
  StatesSave save;
} Words;

struct Saves {
  Saver *saver; /* NULL: training waits for each save */
  size_t nbytes;
  bool sure; /* its memory was waited for */
  bool told; /* that a save was waited for by the next */
  bool due;  /* the next one begins as soon as this is over */
  /* Of the one under way */
  bool under_way, released, retry; /* retry: of one that failed */
  int64_t step;
  double begin, stalled; /* seconds */
  Words words;
};

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

/* --- all of it ------------------------------------------------------------------------------------------------------------- */

static int files_of(const Run *run) {
  int64_t asked = run->config->checkpoint.files, n = asked ? asked : comm_nodes(run->comm);
  return n < CKPT_FILES_MOST ? (int)n : CKPT_FILES_MOST;
}

static void words_open(const Run *run, Words *w) {
  char loss[NUM_TEXT];
  Arena *arena = arena_open();
  *w = (Words){.arena = arena};
  history_print(run->history, &w->history);
  data_mixture(run->data, &w->mixture);
  const CkptText own[] = {{"config", run->config_text},
                          {"model", run->model_text},
                          {"choices", job_choices(engine_job(run->engine))},
                          {"history", w->history.at ? w->history.at : ""},
                          {"data", run->data_files ? run->data_files : ""}};
  int n_own = sizeof own / sizeof *own;
  CkptText *texts = arena_array(arena, CkptText, n_own + run->n_papers);
  memcpy(texts, own, sizeof own);
  if (run->n_papers) memcpy(texts + n_own, run->papers, sizeof *texts * (size_t)run->n_papers);
  const CkptText facts[] = {
      {"tokens", arena_printf(arena, "%lld", (long long)(run->step * run->batch.tokens))},
      {"loss", arena_strdup(arena, num_double(run->loss, loss))},
      {"strategy", config_word(run->config, "parallel.strategy")},
      {"ranks", arena_printf(arena, "%d", comm_size(run->comm))},
      {"data_tokens", arena_printf(arena, "%lld", (long long)data_tokens(run->data))},
      {"epoch_sequences", arena_printf(arena, "%lld", (long long)data_epoch_sequences(run->data))},
      {"mixture", w->mixture.at},
      {"job", getenv("SLURM_JOB_ID")},
  };
  int n_facts = 0;
  for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
    if (facts[i].text) w->facts[n_facts++] = facts[i];
  w->save = (StatesSave){.folder = run->folder->checkpoints,
                         .step = run->step,
                         .texts = texts,
                         .n_texts = n_own + run->n_papers,
                         .facts = w->facts,
                         .n_facts = n_facts,
                         .files = files_of(run)};
}

static void words_close(Words *w) {
  if (!w->arena) return;
  text_close(&w->history);
  text_close(&w->mixture);
  arena_close(w->arena);
  w->arena = NULL;
}

/* Rank 0, before and after. */
static void prepare(Run *run) {
  Why why;
  if (lock_lost(run->lock))
    fail(FAIL_MACHINE, "%s/LOCK is another job's now: it had not been heard of for %d s\nhelp: end one of the two jobs",
         run->folder->path, LOCK_EXPIRES);
  if (access(run->folder->path, F_OK) && errno == ENOENT)
    lines_warn(run->lines, run->step, "%s is not there any more, was it moved or removed?  It is made anew, for checkpoints",
               run->folder->path);
  if (!metrics_sync(run->metrics, &why)) lines_warn(run->lines, run->step, "%s", why.text);
}

static SaverKeep steps_kept(const Run *run) {
  return (SaverKeep){(int)run->config->checkpoint.keep, (int64_t)run->config->checkpoint.keep_every.value};
}

/* The next step tries again; each time in a row that it fails the wait doubles, up to checkpoint.every: a folder that is full or
 * slow for long costs little. */
static void plan_retry(Run *run, const Why *why) {
  int64_t most = run->config->checkpoint.every.unit ? (int64_t)run->config->checkpoint.every.value : RETRY_MOST;
  run->retry_wait = run->retry_wait ? 2 * run->retry_wait : 1;
  if (run->retry_wait > most) run->retry_wait = most;
  run->retry_step = run->step + run->retry_wait;
  if (!run_speaks(run)) return;
  const char *stays = run->saved_step >= 0 ? arena_printf(run->arena, "step-%08lld stays; ", (long long)run->saved_step) : "";
  const char *next = run->saves->due ? "now" : arena_printf(run->arena, "at step %lld", (long long)run->retry_step);
  lines_warn(run->lines, run->step, "no checkpoint: %s; %ssaved again %s", why->text, stays, next);
}

/* A save is over, on all ranks.  What the limit on time must leave room for is all of it, not what training lost by it. */
static void conclude(Run *run, bool ok, const SaveEvent *event, const Why *why) {
  if (ok) run->saved_step = event->step;
  if (ok)
    run->retry_step = run->retry_wait = 0;
  else
    plan_retry(run, why);
  if (run_speaks(run) && ok) {
    lines_save(run->lines, event);
    metrics_save(run->metrics, event);
  }
  run->longest[SPENT_SAVES] = fmax(run->longest[SPENT_SAVES], event->seconds);
}

static bool save_waiting(Run *run) {
  Why why;
  Words words;
  double begin = clock_seconds();
  run_doing(run, true, "writing checkpoint");
  if (run_speaks(run)) prepare(run);
  prof_span_begin(run->prof, "checkpoint");
  words_open(run, &words);
  bool ok = try_states_save(run->comm, run->engine, &words.save, &why);
  words_close(&words);
  prof_span_end(run->prof);
  double seconds = clock_seconds() - begin;
  conclude(run, ok, &(SaveEvent){run->step, members_saved_bytes(run->members), seconds, seconds}, &why);
  SaverKeep keep = steps_kept(run);
  if (ok && run_speaks(run) && !try_ckpt_prune(run->folder->checkpoints, keep.newest, keep.every, &why))
    lines_warn(run->lines, run->step, "%s", why.text);
  run_doing(run, false, "");
  run_spend(run, SPENT_SAVES, clock_seconds() - begin);
  return ok;
}

/* --- beside the training ---------------------------------------------------------------------------------------------------- */

/* Training stands still from `begin` to now. */
static double stall(Run *run, double begin) {
  double seconds = clock_seconds() - begin;
  run->saves->stalled += seconds;
  run->spent[SPENT_SAVES] += seconds;
  return seconds;
}

/* Whether the saver can be used; else there is none any more. */
static bool is_ready(Run *run) {
  Saves *s = run->saves;
  Why why;
  if (!s->saver || s->sure) return s->saver;
  run_doing(run, true, "getting memory for saves");
  s->sure = try_saver_ready(s->saver, run->comm, &why);
  run_doing(run, false, "");
  if (s->sure) return true;
  if (run_speaks(run))
    lines_warn(run->lines, run->step, "training waits for saves: no memory of the host for copies: %s", why.text);
  saver_close(s->saver);
  s->saver = NULL;
  return false;
}

static void begin_beside(Run *run) {
  Saves *s = run->saves;
  double begin = clock_seconds();
  s->under_way = true;
  s->released = false;
  s->step = run->step;
  s->begin = begin;
  s->stalled = 0;
  s->retry = run->retry_wait > 0;
  run->retry_step = 0; /* this is it */
  saver_start(s->saver);
  stall(run, begin);
}

/* A device that runs by itself goes on meanwhile; for how long it stood still, the saver's result tells. */
static double release(Run *run) {
  double begin = clock_seconds();
  saver_release(run->saves->saver);
  double seconds = dev_is_host(run->dev) ? clock_seconds() - begin : 0;
  run->spent[SPENT_SAVES] += seconds;
  return seconds;
}

double run_save_release(Run *run) {
  Saves *s = run->saves;
  if (!s->under_way || s->released) return 0;
  double begin = clock_seconds();
  CHECK(s->step == run->step && !run->open); /* what is written is true of this step */
  s->released = true;
  run_doing(run, true, "copying states for a save");
  if (run_speaks(run)) prepare(run);
  words_open(run, &s->words);
  saver_write(s->saver, &s->words.save);
  double seconds = stall(run, begin) + release(run);
  run_doing(run, false, "");
  return seconds;
}

void run_save_copied(Run *run) {
  if (!run->saves->under_way) return;
  run_doing(run, true, "copying states for a save");
  release(run);
  run_doing(run, false, "");
}

static bool conclude_beside(Run *run) {
  Saves *s = run->saves;
  SaverResult r;
  saver_end(s->saver, &r);
  words_close(&s->words);
  s->under_way = false;
  SaveEvent event = {s->step, members_saved_bytes(run->members), r.ended - s->begin, s->stalled + r.waited};
  conclude(run, r.ok, &event, &r.why);
  if (*r.kept.text) lines_warn(run->lines, run->step, "%s", r.kept.text);
  return r.ok;
}

bool run_save_wait(Run *run) {
  Saves *s = run->saves;
  if (!s->under_way) return true;
  run_save_release(run);
  run_doing(run, true, "writing checkpoint");
  double begin = clock_seconds();
  prof_span_begin(run->prof, "checkpoint");
  saver_wait(s->saver);
  prof_span_end(run->prof);
  stall(run, begin);
  bool ok = conclude_beside(run);
  run_doing(run, false, "");
  return ok;
}

void run_save_look(Run *run, int64_t over) {
  if (run->saves->under_way && over == saver_asked(run->saves->saver)) conclude_beside(run);
}

int64_t run_saves_over(const Run *run) { return run->saves->saver ? saver_over(run->saves->saver) : 0; }

bool run_save_under_way(const Run *run) { return run->saves && run->saves->under_way; }

void run_save_leave(Run *run) {
  Saves *s = run->saves;
  SaverResult unused;
  if (s->under_way && s->released) run_save_wait(run);
  if (!s->under_way) return;
  saver_write(s->saver, NULL);
  saver_release(s->saver);
  saver_end(s->saver, &unused);
  s->under_way = false;
  run->retry_step = s->step + 1; /* where the run goes on from there after all */
}

/* --- when one is due ---------------------------------------------------------------------------------------------------------- */

bool run_save_wait_before(Run *run) {
  run->saves->due = true;
  bool ok = run_save_wait(run);
  run->saves->due = false;
  return ok;
}

bool run_save(Run *run) {
  if (!run_save_wait_before(run) || !is_ready(run)) return save_waiting(run);
  begin_beside(run);
  return run_save_wait(run);
}

bool run_saves_beside(Run *run) { return is_ready(run); }

void run_save_due(Run *run) {
  Saves *s = run->saves;
  if (!is_ready(run)) {
    save_waiting(run);
    return;
  }
  if (s->under_way && !s->told && run_speaks(run))
    lines_warn(run->lines, run->step, "step %lld is still being saved%s: training waits for that%s", (long long)s->step,
               s->retry ? ", tried again after a save that failed" : "", s->retry ? "" : "; a larger checkpoint.every would not");
  s->told |= s->under_way;
  run_save_wait_before(run);
  begin_beside(run);
}

/* --- the start and the end ---------------------------------------------------------------------------------------------------- */

/* Whether the copies of all ranks of each node fit into its free memory, or a share of that. */
static bool copies_fit(const Run *run, uint64_t mine, double share, char *words, size_t nbytes) {
  int n = comm_local_size(run->comm);
  uint64_t sum = 0, *all = xmalloc(sizeof *all * (size_t)n);
  NodeMemory node = node_memory();
  comm_gather_local(run->comm, &mine, sizeof mine, all);
  for (int i = 0; i < n; i++) sum += all[i];
  free(all);
  bool fits = !node.total || (double)sum <= share * (double)node.available;
  char a[HUMAN_TEXT], b[HUMAN_TEXT];
  snprintf(words, nbytes, "copies of %d rank%s need %s, %s has %s free", n, n == 1 ? "" : "s", human_bytes((double)sum, a),
           node.limit, human_bytes((double)node.available, b));
  return !comm_any_reason(run->comm, !fits, words, nbytes);
}

/* A save that the end of the run waits for anyway is none. */
static bool saves_on_the_way(const Run *run) {
  Amount every = run->config->checkpoint.every;
  int64_t n = (int64_t)every.value;
  return every.unit && (run->step / n + 1) * n < run->shape.last_step;
}

static bool wants_beside(const Run *run) {
  int asked = run->config->checkpoint.async;
  return asked == ASYNC_TRUE || (asked == ASYNC_AUTO && !dev_is_host(run->dev) && saves_on_the_way(run));
}

void run_save_open(Run *run) {
  char words[512];
  bool must = run->config->checkpoint.async == ASYNC_TRUE;
  Saves *s = run->saves = arena_new(run->arena, Saves);
  if (run->step >= run->shape.last_step || !wants_beside(run)) return;
  StatesCopy *copy = states_copy_open(run->arena, run->engine, comm_rank(run->comm) == 0);
  s->nbytes = staging_nbytes(states_copy_staging(copy));
  if (copies_fit(run, s->nbytes, must ? 1 : COPIES_SHARE, words, sizeof words)) {
    s->saver = saver_open(run->arena, run->comm, run->dev, copy, steps_kept(run));
    if (run_speaks(run))
      lines_banner(run->lines, "saves", "beside the training, from copies: %.3g GiB a rank of the host's memory",
                   (double)s->nbytes / 0x1p30);
  } else if (must) {
    config_fail(run->config, "checkpoint.async", "auto, or false, or more nodes: each rank then has less to copy",
                "saves beside the training have no room: %s", words);
  } else if (run_speaks(run)) {
    lines_note(run->lines, "checkpoint.async: auto is false: %s", words);
  }
}

size_t run_save_copies(const Run *run) { return run->saves && run->saves->saver ? run->saves->nbytes : 0; }

void run_save_close(Run *run) {
  if (!run->saves) return;
  run_save_leave(run);
  saver_close(run->saves->saver);
}
