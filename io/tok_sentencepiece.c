/* SPDX-License-Identifier: Apache-2.0 */
/* SentencePiece models, by the library itself (Kudo, Richardson, "SentencePiece", EMNLP 2018). */
#include <stdlib.h>
#include <string.h>

#include "io/sentencepiece.h"
#include "io/tok_impl.h"
#include "src/base/module.h"

typedef struct Sp {
  const SpModule *module;
  void *model;
  int32_t anchor; /* a piece that has text by itself, without a space; -1: none */
} Sp;

static void put_ids(void *self, const int *ids, size_t n) { ids_add(self, ids, (int64_t)n); }
static void put_text(void *self, const char *text, size_t n) { text_add(self, text, n); }

static bool library_decode(const Sp *s, const int32_t *ids, size_t n, Text *text, Why *why) {
  char words[256];
  return s->module->decode(s->model, ids, n, put_text, text, words, sizeof words) ||
         why_not(why, "SentencePiece cannot decode: %s", words);
}

static int32_t find_anchor(const Sp *s, int64_t vocab) {
  Text text = {0};
  int32_t found = -1;
  for (int32_t id = 0; found < 0 && id < vocab; id++) {
    size_t n;
    const char *text_of = s->module->piece(s->model, id, &n);
    if (s->module->kind(s->model, id) != SP_NORMAL || !n || *text_of < '!' || *text_of > '~') continue;
    text.n = 0;
    if (library_decode(s, &id, 1, &text, NULL) && text.n) found = id;
  }
  text_close(&text);
  return found;
}

static bool open_sp(Tokenizer *t, char *bytes, size_t n, const char *pattern, Why *why) {
  if (pattern) return why_not(why, "a SentencePiece model is cut by no pattern\nhelp: leave the pattern out");
  if (!try_sp_check(bytes, n, why)) return false;
  const SpModule *module = module_symbol("hpctrain_sentencepiece.so", "hpctrain_sentencepiece", why);
  if (!module) return false;
  if (module->size != sizeof *module)
    return why_not(why, "hpctrain_sentencepiece.so is of another build than this program\nhelp: install both from one build");
  char words[256];
  void *model = module->open(bytes, n, words, sizeof words);
  if (!model) return why_not(why, "no SentencePiece model: %s", words);
  Sp *s = t->self = arena_new(t->arena, Sp);
  *s = (Sp){module, model, -1};
  t->vocab = module->pieces(model);
  int ids[4];
  module->special(model, ids);
  static const TokenizerRole roles[] = {TOKENIZER_BOS, TOKENIZER_EOS, TOKENIZER_UNK, TOKENIZER_PAD};
  for (int i = 0; i < 4; i++) t->special[roles[i]] = ids[i];
  if (ids[0] >= 0) ids_add(&t->before, &t->special[TOKENIZER_BOS], 1);
  s->anchor = find_anchor(s, t->vocab);
  return true;
}

static void close_sp(void *self) {
  Sp *s = self;
  s->module->close(s->model);
}

static void *open_work(const Tokenizer *t) {
  (void)t;
  return NULL;
}

static void close_work(void *work) { (void)work; }

static bool encode(const Tokenizer *t, void *work, const char *text, size_t n, Ids *ids, Why *why) {
  (void)work;
  const Sp *s = t->self;
  char words[256];
  return s->module->encode(s->model, text, n, put_ids, ids, words, sizeof words) ||
         why_not(why, "%s: SentencePiece cannot encode a text of %zu bytes: %s", t->path, n, words);
}

static bool is_byte(const Sp *s, int32_t id) { return s->module->kind(s->model, id) == SP_BYTE; }

/* Ids in a row without bytes; behind others, which keeps a space that the first of a text would lose. */
static bool decode_run(const Sp *s, const int32_t *ids, int64_t n, bool first, Text *text, Why *why) {
  if (first || s->anchor < 0) return library_decode(s, ids, (size_t)n, text, why);
  Text anchor = {0}, with = {0};
  int32_t *behind = xmalloc(sizeof *behind * (size_t)(n + 1));
  behind[0] = s->anchor;
  memcpy(behind + 1, ids, sizeof *ids * (size_t)n);
  bool ok = library_decode(s, behind, 1, &anchor, why) && library_decode(s, behind, (size_t)n + 1, &with, why);
  if (ok && with.n > anchor.n) text_add(text, with.at + anchor.n, with.n - anchor.n);
  text_close(&anchor);
  text_close(&with);
  free(behind);
  return ok;
}

/* The library puts U+FFFD for bytes that are no character; raw ones are put together here. */
static bool decode_raw(const Sp *s, const int32_t *ids, int64_t n, Text *text, Why *why) {
  for (int64_t i = 0, end; i < n; i = end) {
    for (end = i; end < n && !is_byte(s, ids[end]);) end++;
    if (end > i && !decode_run(s, ids + i, end - i, !i, text, why)) return false;
    for (; end < n && is_byte(s, ids[end]); end++) {
      size_t length;
      const char *byte = s->module->piece(s->model, ids[end], &length);
      text_add(text, &(char){(char)fallback_byte(byte, length)}, 1);
    }
  }
  return true;
}

static bool decode(const Tokenizer *t, const int32_t *ids, int64_t n, bool raw, Text *text, Why *why) {
  const Sp *s = t->self;
  int32_t *known = xmalloc(sizeof *known * (size_t)n);
  int64_t count = 0;
  for (int64_t i = 0; i < n; i++)
    if (tokenizer_has(t, ids[i])) known[count++] = ids[i];
  bool ok = raw ? decode_raw(s, known, count, text, why) : library_decode(s, known, (size_t)count, text, why);
  free(known);
  return ok;
}

static bool has(const Tokenizer *t, int32_t id) {
  (void)t, (void)id;
  return true;
}

static bool silent(const Tokenizer *t, int32_t id) {
  const Sp *s = t->self;
  SpKind kind = s->module->kind(s->model, id);
  return kind == SP_CONTROL || kind == SP_UNKNOWN || kind == SP_UNUSED;
}

static const char *piece(const Tokenizer *t, int32_t id, size_t *n) {
  const Sp *s = t->self;
  return s->module->piece(s->model, id, n);
}

const TokFormat tok_sentencepiece = {
    "SentencePiece", "tokenizer.model", open_sp, close_sp, open_work, close_work, encode, decode, has, silent, piece};
