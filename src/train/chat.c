/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/chat.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "src/base/file.h"
#include "src/train/data.h"
#include "src/train/scratch.h"
#include "src/train/tokenize.h"

typedef struct Maker {
  Arena *arena;
  Comm *comm; /* the ranks that share the work */
  const Config *config;
  const char *folder;
  Tokenizer *tokenizer;
  Chat *chat;
  TokenizeOptions options;
  int threads;
  int *shards; /* by set, those of data.val behind those of data.train: token files */
} Maker;

enum { SEEN_WITHIN = 120 }; /* seconds: twice what a client of NFS goes on listing a folder as it was (file_await) */

static bool has_json(const DataSets *sets) {
  for (int i = 0; i < sets->n; i++)
    if (config_is_json(sets->at[i].path.text)) return true;
  return false;
}

static bool wants_files(const Config *c) {
  return c->data.format == DATA_CHAT && (has_json(&c->data.train) || has_json(&c->data.val));
}

static const char *prefix_of(const Maker *m, const char *kind, int i) {
  return arena_printf(m->arena, "%s/%s-%d", m->folder, kind, i + 1);
}

/* What glob finds prefix-….bin by, whatever the folder is called. */
static const char *pattern_of(Arena *arena, const char *prefix) {
  char *pattern = arena_alloc(arena, 2 * strlen(prefix) + sizeof "-*.bin"), *at = pattern;
  for (; *prefix; *at++ = *prefix++)
    if (strchr("*?[]\\~", *prefix)) *at++ = '\\';
  strcpy(at, "-*.bin");
  return pattern;
}

/* The texts of a set, as glob(3) gives them. */
static int list_texts(const DataSet *set, glob_t *found) { return glob(set->path.text, GLOB_ERR | GLOB_TILDE, NULL, found); }

/* Whether all was there. */
static bool make(const Maker *m, const DataSet *set, const char *prefix, bool look, int *shards) {
  glob_t found;
  TokenizeOptions o = m->options;
  o.out = prefix;
  o.look = look;
  int rc = list_texts(set, &found);
  if (rc)
    config_fail_at(m->config, set->path.place, "check data.train and data.val", "%s: %s", set->path.text,
                   rc == GLOB_NOMATCH ? "no such file" : "its folder cannot be read");
  TokenizeMade made = tokenize_files(m->arena, m->comm, m->tokenizer, &o, found.gl_pathv, (int)found.gl_pathc);
  globfree(&found);
  *shards = made.shards;
  return made.whole;
}

static bool make_set(const Maker *m, const DataSets *sets, const char *kind, bool look, int *shards) {
  bool whole = true;
  for (int i = 0; i < sets->n; i++)
    if (config_is_json(sets->at[i].path.text)) whole = make(m, &sets->at[i], prefix_of(m, kind, i), look, &shards[i]) && whole;
  return whole;
}

static bool make_sets(const Maker *m, bool look) {
  const Config *c = m->config;
  bool train = make_set(m, &c->data.train, "train", look, m->shards);
  return make_set(m, &c->data.val, "val", look, m->shards + c->data.train.n) && train;
}

static const char **name_set(const Maker *m, const DataSets *sets, const char *kind) {
  const char **files = arena_array(m->arena, const char *, sets->n);
  for (int i = 0; i < sets->n; i++) {
    const char *path = sets->at[i].path.text;
    files[i] = config_is_json(path) ? pattern_of(m->arena, prefix_of(m, kind, i)) : path;
  }
  return files;
}

static ChatFiles *name_sets(const Maker *m) {
  ChatFiles *files = arena_new(m->arena, ChatFiles);
  files->train = name_set(m, &m->config->data.train, "train");
  files->val = name_set(m, &m->config->data.val, "val");
  return files;
}

static int count_files(const char *pattern) {
  glob_t found;
  int n = glob(pattern, 0, NULL, &found) ? 0 : (int)found.gl_pathc;
  globfree(&found);
  return n;
}

/* Of a set, which other ranks may have made. */
typedef struct Listing {
  const char *pattern;
  int made, seen;
} Listing;

static bool is_whole(void *self) {
  Listing *l = self;
  l->seen = count_files(l->pattern);
  return l->seen == l->made;
}

static void await_set(const Maker *m, const DataSets *sets, const char *kind, const char *const *patterns, const int *shards) {
  for (int i = 0; i < sets->n; i++) {
    Listing l = {.pattern = patterns[i], .made = shards[i]};
    if (config_is_json(sets->at[i].path.text) && !file_await(prefix_of(m, kind, i), SEEN_WITHIN, is_whole, &l))
      fail(FAIL_MACHINE, "%s: %d files are seen, %d were made\nhelp: run.folder where all nodes see it, and no others of that name",
           l.pattern, l.seen, l.made);
  }
}

/* Of the run's folder, once all is made. */
static ChatFiles *see_sets(const Maker *m) {
  const Config *c = m->config;
  ChatFiles *files = name_sets(m);
  await_set(m, &c->data.train, "train", files->train, m->shards);
  await_set(m, &c->data.val, "val", files->val, m->shards + c->data.train.n);
  return files;
}

static Chat *open_chat(const Maker *m, const Text *warnings) {
  const Config *c = m->config;
  Chat *chat;
  Why why;
  if (!m->tokenizer)
    config_fail(c, "data.tokenizer", "the model's own tokenizer",
                "conversations are text, which nothing here turns into tokens%s%.*s", warnings->n ? "; " : "",
                warnings->n ? (int)strcspn(warnings->at, "\n") : 0, warnings->n ? warnings->at : "");
  if (!try_chat_open(m->tokenizer, c->data.chat_template, c->data.train_on_inputs, &chat, &why))
    config_fail(c, "data.chat_template", "the template that the model was made with", "%s", why.text);
  return chat;
}

static void open_maker(Maker *m, int64_t vocab) {
  const Config *c = m->config;
  Text warnings = {0};
  m->tokenizer = data_open_tokenizer(c, vocab, &warnings);
  m->chat = open_chat(m, &warnings);
  text_close(&warnings);
  m->options = (TokenizeOptions){.field = "text",
                                 .chat = m->chat,
                                 .chat_name = c->data.chat_template,
                                 .inputs = c->data.train_on_inputs,
                                 .bos = -1,
                                 .eos = -1,
                                 .own = true,
                                 .threads = m->threads};
}

static void close_maker(Maker *m) {
  chat_close(m->chat);
  tokenizer_close(m->tokenizer);
}

static const char *run_data(Arena *arena, const Config *c) { return arena_printf(arena, "%s/data", c->run.folder); }

/* Whether all was there; comm: who shares the work. */
static bool run_maker(Maker *m, Comm *comm, int64_t vocab, bool look) {
  m->comm = comm;
  open_maker(m, vocab);
  bool whole = make_sets(m, look);
  close_maker(m);
  return whole;
}

static bool run_alone(Maker *m, int64_t vocab, bool look) {
  Comm *self = comm_self();
  bool whole = run_maker(m, self, vocab, look);
  comm_close(self);
  return whole;
}

/* Whether the run has all that it would make: rank 0 looks.  All know then how many files those are. */
static bool is_made(Maker *m, Comm *comm, int64_t vocab) {
  int sets = m->config->data.train.n + m->config->data.val.n;
  m->shards = arena_array(m->arena, int, sets);
  bool whole = comm_rank(comm) == 0 && run_alone(m, vocab, true);
  comm_broadcast(comm, m->shards, sizeof *m->shards * (size_t)sets, 0);
  comm_broadcast(comm, &whole, sizeof whole, 0);
  return whole;
}

static bool sees_set(const DataSets *sets) {
  bool all = true;
  glob_t found;
  for (int i = 0; i < sets->n; i++) {
    if (!config_is_json(sets->at[i].path.text)) continue;
    all &= !list_texts(&sets->at[i], &found);
    globfree(&found);
  }
  return all;
}

/* Where some node has not the texts, which rank 0 has looked at, that one makes all. */
static void share_out(Maker *m, Comm *comm, int64_t vocab) {
  const Config *c = m->config;
  if (!comm_any(comm, !sees_set(&c->data.train) || !sees_set(&c->data.val)))
    run_maker(m, comm, vocab, false);
  else if (comm_rank(comm) == 0)
    run_alone(m, vocab, false);
  comm_barrier(comm);
}

ChatFiles *chat_files(Arena *arena, const Config *c, Comm *comm, int64_t vocab) {
  if (!wants_files(c)) return NULL;
  Maker m = {.arena = arena, .config = c, .folder = run_data(arena, c), .threads = comm_core_share(comm)};
  if (!is_made(&m, comm, vocab)) share_out(&m, comm, vocab);
  return see_sets(&m);
}

typedef struct Place {
  char path[PATH_MAX];
} Place;

ChatFiles *chat_files_aside(Arena *arena, const Config *c, Comm *comm, int64_t vocab) {
  if (!wants_files(c)) return NULL;
  Maker m = {.arena = arena, .config = c, .folder = run_data(arena, c), .threads = comm_core_share(comm)};
  if (is_made(&m, comm, vocab)) return see_sets(&m);
  Place *all = arena_array(arena, Place, comm_local_size(comm)), *mine = arena_new(arena, Place);
  *mine = (Place){0};
  if (comm_local_rank(comm) == 0) {
    m.folder = scratch_open();
    run_alone(&m, vocab, false);
    snprintf(mine->path, sizeof mine->path, "%s", m.folder);
  }
  comm_gather_local(comm, mine, sizeof *mine, all);
  m.folder = all->path;
  return name_sets(&m);
}

void chat_files_drop(Comm *comm) {
  comm_barrier(comm);
  scratch_close();
}
