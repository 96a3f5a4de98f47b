/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/chat.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/file.h"
#include "src/train/data.h"
#include "src/train/tokenize.h"

typedef struct Maker {
  Arena *arena;
  const Config *config;
  const char *folder;
  TokenizeOptions options;
  const Tokenizer *tokenizer; /* NULL: another rank makes the files */
} Maker;

static bool has_json(const DataSets *sets) {
  for (int i = 0; i < sets->n; i++)
    if (config_is_json(sets->at[i].path.text)) return true;
  return false;
}

static bool wants_files(const Config *c) {
  return c->data.format == DATA_CHAT && (has_json(&c->data.train) || has_json(&c->data.val));
}

static void make(const Maker *m, const DataSet *set, const char *out) {
  glob_t found;
  TokenizeOptions o = m->options;
  o.out = out;
  int rc = glob(set->path.text, GLOB_ERR | GLOB_TILDE, NULL, &found);
  if (rc)
    config_fail_at(m->config, set->path.place, "check data.train and data.val", "%s: %s", set->path.text,
                   rc == GLOB_NOMATCH ? "no such file" : "its folder cannot be read");
  Comm *alone = comm_self();
  tokenize_files(m->arena, alone, m->tokenizer, &o, found.gl_pathv, (int)found.gl_pathc);
  comm_close(alone);
  globfree(&found);
}

static const char **make_sets(const Maker *m, const DataSets *sets, const char *kind) {
  const char **files = arena_array(m->arena, const char *, sets->n);
  for (int i = 0; i < sets->n; i++) {
    const DataSet *set = &sets->at[i];
    bool json = config_is_json(set->path.text);
    files[i] = json ? arena_printf(m->arena, "%s/%s-%d.bin", m->folder, kind, i + 1) : set->path.text;
    if (json && m->tokenizer) make(m, set, files[i]);
  }
  return files;
}

static Chat *open_chat(const Maker *m) {
  const Config *c = m->config;
  Chat *chat;
  Why why;
  if (!m->tokenizer)
    config_fail(c, "data.tokenizer", "the model's own tokenizer", "conversations are text, which nothing here turns into tokens");
  if (!try_chat_open(m->tokenizer, c->data.chat_template, c->data.train_on_inputs, &chat, &why)) {
    char *help = strstr(why.text, "\nhelp: ");
    if (help) *help = 0;
    config_fail(c, "data.chat_template", help ? help + strlen("\nhelp: ") : "the template that the model was made with", "%s",
                why.text);
  }
  return chat;
}

ChatFiles *chat_files(Arena *arena, const Config *c, Comm *comm, const char *folder, int64_t vocab) {
  if (!wants_files(c)) return NULL;
  Maker m = {.arena = arena, .config = c, .folder = folder};
  bool mine = comm_rank(comm) == 0;
  Text warnings = {0};
  Tokenizer *t = mine ? data_open_tokenizer(c, vocab, &warnings) : NULL;
  Chat *chat = NULL;
  m.tokenizer = t;
  if (mine) chat = open_chat(&m);
  m.options = (TokenizeOptions){.field = "text",
                                .chat = chat,
                                .chat_name = c->data.chat_template,
                                .inputs = c->data.train_on_inputs,
                                .bos = -1,
                                .eos = -1,
                                .own = true,
                                .threads = comm_core_share(comm)};
  ChatFiles *files = arena_new(arena, ChatFiles);
  files->train = make_sets(&m, &c->data.train, "train");
  files->val = make_sets(&m, &c->data.val, "val");
  text_close(&warnings);
  chat_close(chat);
  tokenizer_close(t);
  comm_barrier(comm);
  return files;
}

ChatFiles *chat_files_aside(Arena *arena, const Config *c, int64_t vocab, const char **folder) {
  *folder = NULL;
  if (!wants_files(c)) return NULL;
  const char *place = getenv("TMPDIR");
  char *made = arena_printf(arena, "%s/hpctrain.XXXXXX", place ? place : "/tmp");
  if (!mkdtemp(made)) fail(FAIL_MACHINE, "%s: %s\nhelp: TMPDIR names a folder for temporary files", made, strerror(errno));
  *folder = made;
  Comm *alone = comm_self();
  ChatFiles *files = chat_files(arena, c, alone, made, vocab);
  comm_close(alone);
  return files;
}

void chat_files_drop(const char *folder) {
  Why why;
  if (folder && !try_tree_remove(folder, &why)) fail(FAIL_MACHINE, "%s", why.text);
}
