/* SPDX-License-Identifier: Apache-2.0 */
/* Decoders of a tokenizer.json: each makes a row of texts of a row of texts, which at the end are put together. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "io/tok_impl.h"
#include "io/utf8.h"

/* Texts in a row: the i-th ends at ends[i]. */
typedef struct Row {
  Text text;
  size_t *ends;
  int64_t n, cap;
} Row;

typedef struct DecodeRow {
  StageType stage;
  bool (*open)(Arena *arena, const json_t *json, Decode *d, Why *why);
  void (*apply)(const Decode *d, const Row *in, bool raw, Row *out);
} DecodeRow;

static void end_text(Row *r) {
  if (r->n == r->cap) {
    r->cap = r->cap ? 2 * r->cap : 256;
    r->ends = xrealloc(r->ends, sizeof *r->ends * (size_t)r->cap);
  }
  r->ends[r->n++] = r->text.n;
}

static const char *text_of(const Row *r, int64_t i, size_t *n) {
  size_t start = i ? r->ends[i - 1] : 0;
  *n = r->ends[i] - start;
  return r->text.at + start;
}

/* --- ByteLevel ------------------------------------------------------------------------------------------------------------- */

/* The alphabet: bytes that print stand for themselves, the 68 others are characters from U+0100 on (openai/gpt-2, src/encoder.py).
 */
enum { LOW = 0x21, HIGH = 0x7F, HIGH_END = 0xA1, HYPHEN = 0xAD }; /* those below LOW, from HIGH to HIGH_END, and the soft hyphen */

uint32_t char_of_byte(unsigned char byte) {
  if (byte < LOW) return 0x100u + byte;
  if (byte >= HIGH && byte < HIGH_END) return 0x100u + LOW + byte - HIGH;
  return byte == HYPHEN ? 0x100u + LOW + HIGH_END - HIGH : byte;
}

int byte_of_char(uint32_t c) {
  if (c < 0x100) return char_of_byte((unsigned char)c) == c ? (int)c : -1;
  uint32_t other = c - 0x100;
  if (other < LOW) return (int)other;
  if (other < LOW + HIGH_END - HIGH) return (int)(other - LOW + HIGH);
  return other == LOW + HIGH_END - HIGH ? HYPHEN : -1;
}

static bool open_nothing(Arena *arena, const json_t *json, Decode *d, Why *why) {
  (void)arena, (void)json, (void)d, (void)why;
  return true;
}

/* A text with another character in it stays as it is. */
static void add_byte_level(const char *at, size_t n, Text *out) {
  size_t before = out->n;
  for (size_t i = 0; i < n;) {
    uint32_t c;
    i += (size_t)utf8_read(at + i, &c);
    int byte = byte_of_char(c);
    if (byte < 0) {
      out->n = before;
      text_add(out, at, n);
      return;
    }
    text_add(out, &(char){(char)byte}, 1);
  }
}

static void apply_byte_level(const Decode *d, const Row *in, bool raw, Row *out) {
  (void)d;
  Text bytes = {0};
  size_t n;
  for (int64_t i = 0; i < in->n; i++) {
    const char *at = text_of(in, i, &n);
    add_byte_level(at, n, raw ? &out->text : &bytes);
  }
  if (!raw) utf8_repair(bytes.at, bytes.n, &out->text);
  text_close(&bytes);
  end_text(out);
}

/* --- ByteFallback ---------------------------------------------------------------------------------------------------------- */

int fallback_byte(const char *at, size_t n) {
  if (n != 6 || memcmp(at, "<0x", 3) || !isxdigit((unsigned char)at[3]) || !isxdigit((unsigned char)at[4]) || at[5] != '>')
    return -1;
  return (int)strtol((char[]){at[3], at[4], 0}, NULL, 16);
}

/* Bytes in a row become one text if they are UTF-8, else a U+FFFD each. */
static void add_bytes(Text *bytes, bool raw, Row *out) {
  bool good = raw || utf8_valid(bytes->at, bytes->n) == bytes->n;
  if (bytes->n && good) {
    text_add(&out->text, bytes->at, bytes->n);
    end_text(out);
  }
  for (size_t i = 0; !good && i < bytes->n; i++) {
    text_add(&out->text, "\xEF\xBF\xBD", 3);
    end_text(out);
  }
  bytes->n = 0;
}

static void apply_byte_fallback(const Decode *d, const Row *in, bool raw, Row *out) {
  (void)d;
  Text bytes = {0};
  size_t n;
  for (int64_t i = 0; i < in->n; i++) {
    const char *at = text_of(in, i, &n);
    int byte = fallback_byte(at, n);
    if (byte >= 0) {
      text_add(&bytes, &(char){(char)byte}, 1);
      continue;
    }
    add_bytes(&bytes, raw, out);
    text_add(&out->text, at, n);
    end_text(out);
  }
  add_bytes(&bytes, raw, out);
  text_close(&bytes);
}

/* --- the others ------------------------------------------------------------------------------------------------------------ */

static void apply_fuse(const Decode *d, const Row *in, bool raw, Row *out) {
  (void)d, (void)raw;
  text_add(&out->text, in->text.at, in->text.n);
  end_text(out);
}

static bool open_replace(Arena *arena, const json_t *json, Decode *d, Why *why) {
  return (d->text = tok_text(arena, json, "content", &d->n, why)) && tok_pattern(arena, json, &d->regex, why);
}

/* Bytes that are no characters (raw) go by as escaped ones. */
static void replace_in(const Decode *d, RegexWork *w, const char *at, size_t n, Text *out) {
  size_t start = REGEX_START, end = 0, done = 0;
  while (n && regex_next(d->regex, w, at, n, &start, &end) == REGEX_YES) {
    text_add(out, at + done, start - done);
    text_add(out, d->text, d->n);
    done = end;
  }
  text_add(out, at + done, n - done);
}

static void apply_replace(const Decode *d, const Row *in, bool raw, Row *out) {
  (void)raw;
  RegexWork *w = regex_work_open();
  Text escaped = {0}, replaced = {0};
  size_t n;
  for (int64_t i = 0; i < in->n; i++) {
    const char *at = text_of(in, i, &n);
    if (utf8_valid(at, n) == n) {
      replace_in(d, w, at, n, &out->text);
    } else {
      escaped.n = replaced.n = 0;
      utf8_escape(at, n, &escaped);
      replace_in(d, w, escaped.at, escaped.n, &replaced);
      utf8_unescape(replaced.at, replaced.n, &out->text);
    }
    end_text(out);
  }
  text_close(&escaped);
  text_close(&replaced);
  regex_work_close(w);
}

static bool open_strip(Arena *arena, const json_t *json, Decode *d, Why *why) {
  d->start = json_integer_value(json_object_get(json, "start"));
  d->stop = json_integer_value(json_object_get(json, "stop"));
  return (d->text = tok_text(arena, json, "content", &d->n, why)) && (d->n || why_not(why, "content is empty"));
}

static void apply_strip(const Decode *d, const Row *in, bool raw, Row *out) {
  (void)raw;
  for (int64_t i = 0; i < in->n; i++) {
    size_t n;
    const char *at = text_of(in, i, &n);
    for (int64_t k = 0; k < d->start && n >= d->n && !memcmp(at, d->text, d->n); k++) at += d->n, n -= d->n;
    for (int64_t k = 0; k < d->stop && n >= d->n && !memcmp(at + n - d->n, d->text, d->n); k++) n -= d->n;
    text_add(&out->text, at, n);
    end_text(out);
  }
}

static bool open_metaspace(Arena *arena, const json_t *json, Decode *d, Why *why) {
  const char *scheme = json_string_value(json_object_get(json, "prepend_scheme"));
  d->keep_first = (scheme && !strcmp(scheme, "never")) || !tok_bool(json, "add_prefix_space", true);
  return (d->text = tok_text(arena, json, "replacement", &d->n, why)) && (d->n || why_not(why, "replacement is empty"));
}

static void apply_metaspace(const Decode *d, const Row *in, bool raw, Row *out) {
  (void)raw;
  for (int64_t i = 0; i < in->n; i++) {
    size_t n;
    const char *at = text_of(in, i, &n);
    for (const char *found; (found = memmem(at, n, d->text, d->n));) {
      text_add(&out->text, at, (size_t)(found - at));
      if (i || d->keep_first) text_add(&out->text, " ", 1);
      n -= (size_t)(found - at) + d->n;
      at = found + d->n;
    }
    text_add(&out->text, at, n);
    end_text(out);
  }
}

static const DecodeRow rows[] = {
    {{"ByteLevel", "add_prefix_space trim_offsets use_regex"}, open_nothing, apply_byte_level}, /* none of them matters here */
    {{"ByteFallback", ""}, open_nothing, apply_byte_fallback},
    {{"Fuse", ""}, open_nothing, apply_fuse},
    {{"Replace", "pattern content"}, open_replace, apply_replace},
    {{"Strip", "content start stop"}, open_strip, apply_strip},
    {{"Metaspace", "replacement add_prefix_space prepend_scheme split str_rep"}, open_metaspace, apply_metaspace},
};

typedef struct Opening {
  Arena *arena;
  Decodes *decodes;
} Opening;

static StageType type_of(int i) { return rows[i].stage; }

static bool open_row(void *self, int i, const json_t *json, Why *why) {
  const Opening *o = self;
  Decode d = {.row = &rows[i]};
  bool ok = rows[i].open(o->arena, json, &d, why);
  vec_push(o->arena, o->decodes, d);
  return ok;
}

bool try_decodes_open(Arena *arena, const json_t *json, Decodes *decodes, Why *why) {
  static const StageKind kind = {
      .what = "decoder", .members = "decoders", .n = sizeof rows / sizeof *rows, .type = type_of, .open = open_row};
  return try_stages_open(&kind, json, &(Opening){arena, decodes}, why);
}

void decodes_close(Decodes *decodes) {
  for (int i = 0; i < decodes->n; i++) regex_close(decodes->at[i].regex);
}

void decodes_apply(const Decodes *decodes, const char *spelling, const size_t *ends, int64_t n, bool raw, Text *out) {
  Row rows_of[2] = {0};
  for (int64_t i = 0; i < n; i++) {
    rows_of[0].text.n = i ? ends[i - 1] : 0;
    text_add(&rows_of[0].text, spelling + rows_of[0].text.n, ends[i] - rows_of[0].text.n);
    end_text(&rows_of[0]);
  }
  Row *in = &rows_of[0], *to = &rows_of[1];
  for (int i = 0; i < decodes->n && n; i++) {
    to->text.n = 0;
    to->n = 0;
    text_add(&to->text, "", 0);
    decodes->at[i].row->apply(&decodes->at[i], in, raw, to);
    Row *swap = in;
    in = to;
    to = swap;
  }
  text_add(out, "", 0);
  size_t length;
  for (int64_t i = 0; i < in->n; i++) { /* without a decoder the library puts spaces between */
    const char *at = text_of(in, i, &length);
    if (i && !decodes->n) text_add(out, " ", 1);
    text_add(out, at, length);
  }
  for (int i = 0; i < 2; i++) {
    text_close(&rows_of[i].text);
    free(rows_of[i].ends);
  }
}
