/* SPDX-License-Identifier: Apache-2.0 */
#include "io/json_lines.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/utf8.h"

static bool is_blank(const char *at, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!memchr(" \t\r", at[i], 3)) return false;
  return true;
}

size_t json_mark(const char *text, size_t n) { return n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0; }

static void read_lines(const char *path, bool json, TextLineVisit *visit, void *self) {
  size_t n, line = 1;
  char *text = file_read(path, &n);
  if (!text) fail(FAIL_INPUT, "%s: %s", path, strerror(errno));
  Text place = {0};
  for (const char *at = text + (json ? json_mark(text, n) : 0), *end = text + n; at < end; line++) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    size_t length = (size_t)((stop ? stop : end) - at);
    place.n = 0;
    text_printf(&place, "%s:%zu", path, line);
    if (!is_blank(at, length)) visit(self, place.at, at, length && at[length - 1] == '\r' ? length - 1 : length);
    at += length + 1;
  }
  text_close(&place);
  free(text);
}

void text_lines_read(const char *path, TextLineVisit *visit, void *self) { read_lines(path, false, visit, self); }

typedef struct JsonVisit {
  JsonLineVisit *visit;
  void *self;
} JsonVisit;

static void visit_json(void *self, const char *place, const char *line, size_t n) {
  const JsonVisit *v = self;
  json_error_t error;
  json_t *value = json_loadb(line, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
  if (!value) fail(FAIL_INPUT, "%s: no JSON: %s", place, error.text);
  v->visit(v->self, place, value);
  json_decref(value);
}

void json_lines_read(const char *path, JsonLineVisit *visit, void *self) {
  read_lines(path, true, visit_json, &(JsonVisit){visit, self});
}

void json_text_add(Text *out, const char *bytes, size_t n) {
  Text whole = {0};
  utf8_repair(bytes, n, &whole);
  json_t *text = json_stringn_nocheck(whole.n ? whole.at : "", whole.n);
  char *quoted = json_dumps(text, JSON_ENCODE_ANY | JSON_ENSURE_ASCII); /* or U+2028 would end lines for some */
  CHECK(quoted);
  text_printf(out, "%s", quoted);
  free(quoted);
  json_decref(text);
  text_close(&whole);
}
