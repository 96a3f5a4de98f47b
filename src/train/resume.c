/* SPDX-License-Identifier: Apache-2.0 */
/* Where a run goes on.  What would make it another run (model, sequence length, global batch, seed, data: the fixed keys of the
 * table) may not change; everything else may: ranks, strategy, micro-batch, schedule, device.  What has changed is shown. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/report/difference.h"
#include "src/train/patterns.h"
#include "src/train/run.h"

/* --- which checkpoint ----------------------------------------------------------------------------------------------------- */

static bool is_within(const char *path, const char *folder) {
  char a[PATH_MAX], b[PATH_MAX];
  if (!realpath(path, a) || !realpath(folder, b)) return false;
  size_t n = strlen(b);
  return !strncmp(a, b, n) && (a[n] == '/' || !a[n]);
}

/* The run folder, or its checkpoints folder, may be a link.  All ranks call, and take what rank 0 sees: on nodes whose paths differ
 * they might part here. */
static bool is_own(const Run *run, const char *path) {
  bool own = is_within(path, run->folder->path) || is_within(path, run->folder->checkpoints);
  comm_broadcast(run->comm, &own, sizeof own, 0);
  return own;
}

/* As above: whether the run has checkpoints of its own.  A file system of a network may show a rank a new folder late. */
static bool has_own(const Run *run) {
  int n = 0;
  if (run_speaks(run)) ckpt_list(run->arena, run->folder->checkpoints, &n);
  comm_broadcast(run->comm, &n, sizeof n, 0);
  return n > 0;
}

/* Whether this Slurm job was queued again, and has saved before that: the newest own checkpoint that can be read is its.  It goes
 * back, or begins anew, but once. */
static bool is_queued_again(const Run *run) {
  const char *told = getenv("SLURM_RESTART_COUNT"), *job = getenv("SLURM_JOB_ID"), *own = run->folder->checkpoints;
  int64_t count = 0;
  bool again = told && job && num_parse_int(told, &count) && count > 0;
  int n = 0;
  Ckpt *newest = NULL;
  const int64_t *steps = again && comm_rank(run->comm) == 0 ? ckpt_list(run->arena, own, &n) : NULL;
  while (!newest && n > 0) newest = try_ckpt_open(ckpt_path(run->arena, own, steps[--n], ""), NULL);
  const char *saver = newest ? ckpt_fact(newest, "job") : NULL;
  again = saver && !strcmp(saver, job);
  ckpt_close(newest);
  comm_broadcast(run->comm, &again, sizeof again, 0);
  return again;
}

/* A folder given from elsewhere is where the run starts; once it has checkpoints of its own, it goes on from these. */
static const char *resume_folder(Run *run) {
  const char *asked = run->config->checkpoint.resume, *own = run->folder->checkpoints;
  if (strcmp(asked, "auto") && is_queued_again(run)) {
    if (run_speaks(run))
      lines_note(run->lines,
                 "checkpoint.resume: %s was done before this job was queued again; it goes on from what it has saved since", asked);
    return own;
  }
  if (!strcmp(asked, "never")) return NULL;
  if (!strcmp(asked, "auto")) return own;
  if (!has_own(run) || is_own(run, asked)) return asked;
  if (run_speaks(run)) lines_note(run->lines, "this run has begun from %s and goes on from its own checkpoints", asked);
  return own;
}

/* A line a damaged step; lines that begin with a blank belong to the one before. */
static void warn_damaged(Run *run, Text *text) {
  for (char *line = text->at, *end; line && *line; line = end) {
    end = line + strcspn(line, "\n");
    while (end[0] == '\n' && end[1] == ' ') end += 1 + strcspn(end + 1, "\n");
    if (*end) *end++ = 0;
    if (run_speaks(run)) lines_warn(run->lines, 0, "%s", line);
  }
  text_close(text);
}

static Ckpt *find(Run *run) {
  Text warnings = {0};
  const char *folder = run->source = resume_folder(run), *asked = run->config->checkpoint.resume;
  if (!folder) return NULL;
  Ckpt *ckpt = ckpt_find_newest(run->comm, folder, &warnings);
  warn_damaged(run, &warnings);
  if (!ckpt && !strcmp(folder, asked))
    config_fail(run->config, "checkpoint.resume", "auto, never, a run folder or a step folder", "there is no checkpoint in %s",
                asked);
  return ckpt;
}

/* --- is it of this run? ------------------------------------------------------------------------------------------------- */

static const char help[] = "put it back, or give another run.folder for a new run";

static void check_number(const Run *run, const char *key, const char *what, int64_t was, int64_t is) {
  if (was == is) return;
  config_fail(run->config, key, help, "%s cannot change in a run: the checkpoint has %lld, now it is %lld", what, (long long)was,
              (long long)is);
}

static void check_model(const Run *run, const Ckpt *ckpt) {
  ModelConfig was = states_model(run->arena, ckpt);
  const char *text = states_model_text(run->arena, &was);
  Text changes = {0};
  if (!difference_lines(text, run->model_text, &changes)) {
    text_close(&changes);
    return;
  }
  config_fail(run->config,
              run->config->model.preset   ? "model.preset"
              : run->config->model.config ? "model.config"
              : run->config->model.from   ? "model.from"
                                          : "model.hidden_size",
              help, "the model cannot change in a run; from the checkpoint's to this one:\n%s", changes.at);
}

/* What files hold may not change; when they were made and where they lie may. */
static void check_files(const Run *run, const Ckpt *ckpt) {
  const char *was = ckpt_text(ckpt, run->arena, "data");
  Text told = {0};
  if (was && !data_list_same(run->data, was, run->data_files, &told))
    config_fail(run->config, "data.train", help, "the training data cannot change in a run: %s", told.at);
  text_close(&told);
}

/* Paths stay where there is no list of what the files held, as in a checkpoint of before there was one; the format may be told
 * otherwise where it means as many tokens. */
static void check_data(const Run *run, const Ckpt *ckpt, const Config *was) {
  const DataSets *a = &was->data.train, *b = &run->config->data.train;
  bool same = a->n == b->n;
  for (int i = 0; same && i < a->n; i++) same = !strcmp(a->at[i].path.text, b->at[i].path.text);
  if (!same && !ckpt_find(ckpt, "/run/data"))
    config_fail(run->config, "data.train", help, "the training data cannot change in a run: the checkpoint has %s",
                a->at[0].path.text);
  static const struct {
    const char *fact, *key, *what;
  } sizes[] = {{"data_tokens", "data.train", "the number of tokens in data.train"},
               {"epoch_sequences", "data.val_fraction", "the number of sequences to train on"}};
  int64_t now[] = {data_tokens(run->data), data_epoch_sequences(run->data)}, before;
  for (int i = 0; i < 2; i++) {
    const char *fact = ckpt_fact(ckpt, sizes[i].fact);
    if (fact && num_parse_int(fact, &before)) check_number(run, sizes[i].key, sizes[i].what, before, now[i]);
  }
  Text mixture = {0};
  data_mixture(run->data, &mixture);
  const char *fact = ckpt_fact(ckpt, "mixture"), *was_text = fact ? fact : "", *is = mixture.n ? mixture.at : "";
  if (strcmp(was_text, is))
    config_fail(run->config, "data.train", help, "the mixture cannot change in a run: the checkpoint has %s, now it is %s",
                *was_text ? was_text : "none", *is ? is : "none");
  text_close(&mixture);
}

/* Of these what they come to was compared. */
static bool is_told_by_meaning(const char *key) {
  static const char *const keys[] = {"train.global_batch_size", "data.train", "data.dtype", "data.val_fraction"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (!strcmp(key, keys[i])) return true;
  return !strncmp(key, "model.", strlen("model."));
}

static const Config *config_of(const Run *run, const Ckpt *ckpt) {
  const char *text = ckpt_text(ckpt, run->arena, "config"), *name = arena_printf(run->arena, "%s: /run/config", ckpt_folder(ckpt));
  if (!text) fail(FAIL_INPUT, "%s is not there\nhelp: resume from a checkpoint that hpctrain train has saved", name);
  char *words[] = {(char *)name, NULL};
  return config_parse(run->arena, name, text, 1, words);
}

/* What can be told before there are data; was: the checkpoint's configuration. */
static void check_keys(Run *run, const Ckpt *ckpt, const Config *was) {
  check_model(run, ckpt);
  check_number(run, "train.global_batch_size", "the number of sequences in global_batch_size", config_check_batch(was, 1).sequences,
               run->batch.sequences);
  run->n_changes = config_changes(run->arena, was, run->config, &run->changes);
  for (int i = 0; i < run->n_changes; i++) {
    const ConfigChange *c = &run->changes[i];
    if (c->fixed && !is_told_by_meaning(c->key))
      config_fail(run->config, c->key, help, "%s cannot change in a run: the checkpoint has %s, now it is %s", c->key, c->was,
                  c->is);
  }
}

static void check_same(Run *run, const Ckpt *ckpt) {
  const Config *was = config_of(run, ckpt);
  check_keys(run, ckpt, was);
  check_data(run, ckpt, was);
  if (run_speaks(run)) check_files(run, ckpt); /* last: keys may say why they changed */
}

/* --- going on ------------------------------------------------------------------------------------------------------------- */

/* Of a step in folder; numbered where an attempt puts it aside once more. */
static const char *place_aside(Arena *arena, const char *folder, int64_t step) {
  const char *place = ckpt_path(arena, folder, step, "");
  for (int k = 2; !access(place, F_OK); k++) place = ckpt_path(arena, folder, step, arena_printf(arena, ".%d", k));
  return place;
}

/* To move a folder elsewhere takes the right to write in it: a step that was made read-only (checkpoint.keep) gets it meanwhile. */
static bool try_move(const char *from, const char *to) {
  struct stat info;
  bool moved = !rename(from, to);
  if (moved || errno != EACCES) return moved;
  bool opened = !stat(from, &info) && !(info.st_mode & S_IWUSR) && !chmod(from, info.st_mode | S_IWUSR);
  moved = opened && !rename(from, to);
  if (opened && chmod(moved ? to : from, info.st_mode)) return false;
  if (!moved) errno = EACCES;
  return moved;
}

/* Checkpoints of steps that are to be done again would be taken for this run's newest.  They go to the attempt's folder, or where
 * that is in another file system (checkpoints/ is a link) to a folder beside them. */
static void set_aside(Run *run) {
  int n, moved = 0;
  const char *to = run->folder->here;
  const int64_t *steps = ckpt_list(run->arena, run->folder->checkpoints, &n);
  for (int i = 0; i < n; i++) {
    if (steps[i] <= run->step) continue;
    const char *from = ckpt_path(run->arena, run->folder->checkpoints, steps[i], "");
    bool done = try_move(from, place_aside(run->arena, to, steps[i]));
    if (!done && errno == EXDEV) {
      to = arena_printf(run->arena, "%s/attempt-%d", run->folder->checkpoints, run->folder->attempt);
      done = (!mkdir(to, 0777) || errno == EEXIST) && try_move(from, place_aside(run->arena, to, steps[i]));
    }
    if (!done) fail(FAIL_MACHINE, "%s cannot be moved to %s: %s\nhelp: move it away", from, to, strerror(errno));
    moved++;
  }
  if (moved) lines_note(run->lines, "%d later checkpoint%s moved to %s", moved, moved == 1 ? "" : "s", to);
}

enum { CHANGES_SHOWN = 24 };

static void tell_changes(Run *run) {
  int n = run->n_changes;
  for (int i = 0; i < n && i < CHANGES_SHOWN; i++)
    lines_note(run->lines, "changed %s: %s, was %s", run->changes[i].key, run->changes[i].is, run->changes[i].was);
  if (n > CHANGES_SHOWN) lines_note(run->lines, "changed: %d more keys", n - CHANGES_SHOWN);
}

static void tell(Run *run, const char *weights) {
  Lines *l = run->lines;
  int changed = run->folder->changed;
  if (run->ckpt && changed > 0)
    lines_banner(l, "resume", "%s, verified; run file changed: %s/run.diff", ckpt_folder(run->ckpt), run->folder->here);
  else if (run->ckpt)
    lines_banner(l, "resume", "%s, verified%s", ckpt_folder(run->ckpt), changed ? "" : "; run file unchanged");
  else
    lines_banner(l, "weights", "%s", weights);
}

/* Groups may change in a run.  What is trained from now on starts with zero moments; those of what is frozen now are given up. */
static void note_moments(Run *run) {
  Brief begun = {0}, ended = {0};
  for (int p = 0; p < run->members->n; p++) {
    const char *name = run->members->at[p].name;
    bool had = states_has_moments(run->ckpt, name), has = !run->members->traits[p].frozen;
    if (has && !had) brief_add(&begun, name);
    if (had && !has) brief_add(&ended, name);
  }
  const char *names[] = {brief_take(run->arena, &begun), brief_take(run->arena, &ended)};
  if (*names[0]) lines_note(run->lines, "trained from here on, with zero moments: %s", names[0]);
  if (*names[1]) lines_note(run->lines, "frozen from here on: %s", names[1]);
}

/* Of a run's first attempt; gives where they come from. */
static const char *load_weights(Run *run) {
  int64_t seed = run->config->run.seed;
  if (!run->weights) {
    engine_init(run->engine, (uint64_t)seed);
    return arena_printf(run->arena, "fresh, seed %lld", (long long)seed);
  }
  weights_load(run->weights, run->engine, run->dev, run->comm);
  const char *told = weights_told(run->weights);
  model_folder_close(run->from);
  run->from = NULL;
  run->weights = NULL;
  return told;
}

/* A checkpoint of before there was one has none. */
static void take_history(Run *run, const Ckpt *ckpt) {
  const char *text = ckpt_text(ckpt, run->arena, "history");
  Why why;
  if (!try_history_parse(run->history, text ? text : "", &why))
    fail(FAIL_INPUT, "%s: /run/history: %s\nhelp: the file is damaged, or not hpctrain's: use another checkpoint",
         ckpt_folder(ckpt), why.text);
}

static void go_on_from(Run *run, Ckpt *ckpt) {
  check_same(run, ckpt);
  take_history(run, ckpt);
  run->ckpt = ckpt;
  run->step = ckpt_step(ckpt);
  run->saved_step = is_own(run, ckpt_folder(ckpt)) ? run->step : -1;
}

/* Damage may show only now; then the one before is taken.  Kernels that were chosen by measurement stay those of the newer one. */
static void load_states(Run *run) {
  Why why;
  while (!try_states_load(run->comm, run->engine, run->ckpt, &why)) {
    Text warnings = {0};
    Ckpt *before = ckpt_find_before_take(run->comm, run->source, run->ckpt, &why, &warnings);
    warn_damaged(run, &warnings);
    go_on_from(run, before);
  }
}

static void keep_papers(Run *run) {
  const CkptText *papers = model_folder_papers(run->from, &run->n_papers);
  CkptText *copies = arena_array(run->arena, CkptText, run->n_papers);
  for (int i = 0; i < run->n_papers; i++) {
    char *bytes = arena_alloc(run->arena, papers[i].n + 1);
    memcpy(bytes, papers[i].text, papers[i].n);
    copies[i] = (CkptText){arena_strdup(run->arena, papers[i].name), bytes, papers[i].n};
  }
  run->papers = copies;
}

/* A tokenizer that the run file names goes along with the model, in the place of the one that came with it. */
static void take_tokenizer(Run *run) {
  int n = 0, kept = 0;
  const char *asked = run->config->data.tokenizer;
  bool own = run->tokenizer && strcmp(asked, "auto"); /* on the rank that writes papers */
  const CkptText *more = own ? model_tokenizer_papers(run->arena, asked, run->tokenizer, &n) : NULL;
  if (!n) return;
  CkptText *all = arena_array(run->arena, CkptText, run->n_papers + n);
  for (int i = 0; i < run->n_papers; i++)
    if (!model_paper_is_tokenizers(&run->papers[i])) all[kept++] = run->papers[i];
  memcpy(all + kept, more, sizeof *all * (size_t)n);
  run->papers = all;
  run->n_papers = kept + n;
}

void run_find(Run *run) {
  run->ckpt = find(run);
  if (run->ckpt) check_keys(run, run->ckpt, config_of(run, run->ckpt));
}

void run_take(Run *run) {
  if (run->ckpt) {
    run->papers = model_papers_of(run->arena, run->ckpt, &run->n_papers);
    go_on_from(run, run->ckpt);
  } else if (run->config->model.from) {
    run->from = model_folder_open(run->config->model.from);
    comm_agree(run->comm, model_folder_hash(run->from), "the files of model.from");
    run->weights = weights_open(run->arena, run->from, run->config, run->members);
    keep_papers(run);
  }
  take_tokenizer(run);
}

/* Where checkpoints to go back to are: this run's own, else those it has begun from. */
static const char *back_folder(const Run *run) {
  const char *asked = run->config->checkpoint.resume;
  bool elsewhere = strcmp(asked, "never") && strcmp(asked, "auto");
  return elsewhere && !has_own(run) ? asked : run->folder->checkpoints;
}

bool run_load_again(Run *run) {
  Text warnings = {0};
  run->source = back_folder(run);
  Ckpt *ckpt = ckpt_find_newest(run->comm, run->source, &warnings);
  warn_damaged(run, &warnings);
  if (!ckpt) return false;
  go_on_from(run, ckpt);
  load_states(run);
  if (run_speaks(run)) set_aside(run);
  ckpt_close(run->ckpt);
  run->ckpt = NULL;
  comm_barrier(run->comm);
  return true;
}

void run_load(Run *run) {
  const char *weights = NULL;
  if (run->ckpt)
    load_states(run);
  else
    weights = load_weights(run);
  if (run_speaks(run)) {
    tell(run, weights);
    if (run->ckpt) tell_changes(run);
    if (run->ckpt) note_moments(run);
    set_aside(run);
  }
  ckpt_close(run->ckpt);
  run->ckpt = NULL;
  comm_barrier(run->comm);
}
