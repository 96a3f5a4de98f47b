/* SPDX-License-Identifier: Apache-2.0 */
/* Normalizers of a tokenizer.json: each makes a text of a text.  Unicode's forms are ICU's (io/unicode.h). */
#include <string.h>

#include "io/tok_impl.h"
#include "io/unicode.h"
#include "src/base/utf8.h"

typedef struct NormalRow {
  StageType stage;
  bool (*open)(Arena *arena, const json_t *json, Normal *n, Why *why);
  /* most: bytes that out may have */
  bool (*apply)(const Normal *n, RegexWork *w, const char *text, size_t length, size_t most, Text *out, Why *why);
  UnicodeForm form;
} NormalRow;

static bool open_prepend(Arena *arena, const json_t *json, Normal *n, Why *why) {
  return (n->text = tok_text(arena, json, "prepend", &n->n, why));
}

static bool apply_prepend(const Normal *n, RegexWork *w, const char *text, size_t length, size_t most, Text *out, Why *why) {
  (void)w, (void)most, (void)why;
  if (length) text_add(out, n->text, n->n);
  text_add(out, text, length);
  return true;
}

static bool open_replace(Arena *arena, const json_t *json, Normal *n, Why *why) {
  return (n->text = tok_text(arena, json, "content", &n->n, why)) && tok_pattern(arena, json, &n->regex, why);
}

static bool apply_replace(const Normal *n, RegexWork *w, const char *text, size_t length, size_t most, Text *out, Why *why) {
  size_t start = REGEX_START, end = 0, done = 0;
  RegexFound found = REGEX_NO;
  while (length && (found = regex_next(n->regex, w, text, length, &start, &end)) == REGEX_YES) {
    text_add(out, text + done, start - done);
    text_add(out, n->text, n->n);
    if (out->n > most) return tok_too_long(why);
    done = end;
  }
  text_add(out, text + done, length - done);
  return found != REGEX_GAVE_UP || tok_gave_up(why);
}

static bool open_strip(Arena *arena, const json_t *json, Normal *n, Why *why) {
  (void)arena, (void)why;
  n->left = tok_bool(json, "strip_left", false);
  n->right = tok_bool(json, "strip_right", false);
  return true;
}

static bool apply_strip(const Normal *n, RegexWork *w, const char *text, size_t length, size_t most, Text *out, Why *why) {
  (void)w, (void)most, (void)why;
  size_t start = n->left ? utf8_spaces(text, length) : 0;
  text_add(out, text + start, n->right ? utf8_trimmed(text + start, length - start) : length - start);
  return true;
}

static bool open_unicode(Arena *arena, const json_t *json, Normal *n, Why *why) {
  (void)arena, (void)json, (void)n;
  return try_unicode_open(why);
}

static bool apply_unicode(const Normal *n, RegexWork *w, const char *text, size_t length, size_t most, Text *out, Why *why) {
  (void)w, (void)most;
  return unicode_normalize(n->row->form, text, length, out) || tok_too_long(why);
}

static const NormalRow rows[] = {
    {{"Prepend", "prepend"}, open_prepend, apply_prepend},          {{"Replace", "pattern content"}, open_replace, apply_replace},
    {{"Strip", "strip_left strip_right"}, open_strip, apply_strip}, {{"NFC", ""}, open_unicode, apply_unicode, UNICODE_NFC},
    {{"NFD", ""}, open_unicode, apply_unicode, UNICODE_NFD},        {{"NFKC", ""}, open_unicode, apply_unicode, UNICODE_NFKC},
    {{"NFKD", ""}, open_unicode, apply_unicode, UNICODE_NFKD},      {{"Lowercase", ""}, open_unicode, apply_unicode, UNICODE_LOWER},
};

typedef struct Opening {
  Arena *arena;
  Normals *normals;
} Opening;

static StageType type_of(int i) { return rows[i].stage; }

static bool open_row(void *self, int i, const json_t *json, Why *why) {
  const Opening *o = self;
  Normal n = {.row = &rows[i]};
  bool ok = rows[i].open(o->arena, json, &n, why);
  vec_push(o->arena, o->normals, n);
  return ok;
}

bool try_normals_open(Arena *arena, const json_t *json, Normals *normals, Why *why) {
  static const StageKind kind = {
      .what = "normalizer", .members = "normalizers", .n = sizeof rows / sizeof *rows, .type = type_of, .open = open_row};
  return try_stages_open(&kind, json, &(Opening){arena, normals}, why);
}

void normals_close(Normals *normals) {
  for (int i = 0; i < normals->n; i++) regex_close(normals->at[i].regex);
}

bool normals_apply(const Normals *normals, RegexWork *w, const char *text, size_t n, Text scratch[2], Text **out, Why *why) {
  size_t most = tok_most(n) < INT32_MAX ? tok_most(n) : INT32_MAX;
  for (int i = 0; i < normals->n; i++) {
    Text *to = &scratch[i % 2];
    to->n = 0;
    text_add(to, "", 0);
    if (!normals->at[i].row->apply(&normals->at[i], w, text, n, most, to, why)) return false;
    if (to->n > most) return tok_too_long(why);
    text = to->at;
    n = to->n;
    *out = to;
  }
  return true;
}
