/* SPDX-License-Identifier: Apache-2.0 */
/* Normalizers of a tokenizer.json: each makes a text of a text.  Unicode's forms are ICU's (io/unicode.h). */
#include <string.h>

#include "io/tok_impl.h"
#include "io/unicode.h"
#include "io/utf8.h"

typedef struct NormalRow {
  const char *type, *keys;
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
    {"Prepend", "prepend", open_prepend, apply_prepend},          {"Replace", "pattern content", open_replace, apply_replace},
    {"Strip", "strip_left strip_right", open_strip, apply_strip}, {"NFC", "", open_unicode, apply_unicode, UNICODE_NFC},
    {"NFD", "", open_unicode, apply_unicode, UNICODE_NFD},        {"NFKC", "", open_unicode, apply_unicode, UNICODE_NFKC},
    {"NFKD", "", open_unicode, apply_unicode, UNICODE_NFKD},      {"Lowercase", "", open_unicode, apply_unicode, UNICODE_LOWER},
};

enum { DEEPEST = 8, MOST = 64 }; /* sequences in sequences; normalizers */

static bool open_at(Arena *arena, const json_t *json, Normals *normals, int depth, Why *why) {
  if (json_is_null(json) || !json) return true;
  const char *type = json_string_value(json_object_get(json, "type"));
  if (!type) return why_not(why, "normalizer: has no type");
  if (!strcmp(type, "Sequence")) {
    const json_t *all = json_object_get(json, "normalizers"), *one;
    size_t i;
    if (!json_is_array(all) || depth == DEEPEST || !tok_check_keys(json, "normalizers", why))
      return why_not(why, "normalizer: a Sequence that is not understood");
    json_array_foreach(all, i, one) if (!open_at(arena, one, normals, depth + 1, why)) return false;
    return true;
  }
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (strcmp(rows[i].type, type)) continue;
    Normal n = {.row = &rows[i]};
    Why reason;
    bool ok = tok_check_keys(json, rows[i].keys, &reason) && rows[i].open(arena, json, &n, &reason);
    vec_push(arena, normals, n);
    if (normals->n > MOST) return why_not(why, "more than %d normalizers", MOST);
    return ok || why_not(why, "normalizer %s: %s", type, reason.text);
  }
  return why_not(why, "normalizer '%.40s' is not known here", type);
}

bool try_normals_open(Arena *arena, const json_t *json, Normals *normals, Why *why) {
  return open_at(arena, json, normals, 0, why);
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
