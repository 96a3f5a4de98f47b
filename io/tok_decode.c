/* SPDX-License-Identifier: Apache-2.0 */
/* Decoders of a tokenizer.json: each makes a row of texts of a row of texts, which at the end are put together.  None makes more
 * texts than it is given; that no stage makes too long ones is seen to here. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "io/tok_impl.h"
#include "src/base/utf8.h"

/* Texts in a row: the i-th ends at ends[i]. */
typedef struct Row {
  Text text;
  size_t *ends;
  int64_t n, cap;
} Row;

typedef struct Decoding {
  bool raw;    /* bytes that are no characters stay */
  size_t most; /* bytes that a row may have */
  Why *why;
} Decoding;

typedef struct DecodeRow {
  StageType stage;
  bool (*open)(Arena *arena, const json_t *json, Decode *d, Why *why);
  /* Where a stage can make much of little it looks at most itself. */
  bool (*apply)(const Decode *d, const Decoding *how, const Row *in, Row *out);
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

static bool apply_byte_level(const Decode *d, const Decoding *how, const Row *in, Row *out) {
  (void)d;
  Text bytes = {0};
  size_t n;
  for (int64_t i = 0; i < in->n; i++) {
    const char *at = text_of(in, i, &n);
    add_byte_level(at, n, how->raw ? &out->text : &bytes);
  }
  if (!how->raw) utf8_repair(bytes.at, bytes.n, &out->text);
  text_close(&bytes);
  end_text(out);
  return true;
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

static bool apply_byte_fallback(const Decode *d, const Decoding *how, const Row *in, Row *out) {
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
    add_bytes(&bytes, how->raw, out);
    text_add(&out->text, at, n);
    end_text(out);
  }
  add_bytes(&bytes, how->raw, out);
  text_close(&bytes);
  return true;
}

/* --- the others ------------------------------------------------------------------------------------------------------------ */

static bool apply_fuse(const Decode *d, const Decoding *how, const Row *in, Row *out) {
  (void)d, (void)how;
  text_add(&out->text, in->text.at, in->text.n);
  end_text(out);
  return true;
}

static bool open_replace(Arena *arena, const json_t *json, Decode *d, Why *why) {
  return (d->text = tok_text(arena, json, "content", &d->n, why)) && tok_pattern(arena, json, &d->regex, why);
}

static bool replace_in(const Decode *d, const Decoding *how, RegexWork *w, const char *at, size_t n, Text *out) {
  size_t start = REGEX_START, end = 0, done = 0;
  RegexFound found = REGEX_NO;
  while (n && (found = regex_next(d->regex, w, at, n, &start, &end)) == REGEX_YES) {
    text_add(out, at + done, start - done);
    text_add(out, d->text, d->n);
    if (out->n > how->most) return tok_too_long(how->why);
    done = end;
  }
  text_add(out, at + done, n - done);
  return found != REGEX_GAVE_UP || tok_gave_up(how->why);
}

/* Bytes that are no characters (raw) go by as escaped ones. */
static bool replace_bytes(const Decode *d, const Decoding *how, RegexWork *w, const char *at, size_t n, Text scratch[2],
                          Text *out) {
  if (utf8_valid(at, n) == n) return replace_in(d, how, w, at, n, out);
  scratch[0].n = scratch[1].n = 0;
  utf8_escape(at, n, &scratch[0]);
  if (!replace_in(d, how, w, scratch[0].at, scratch[0].n, &scratch[1])) return false;
  utf8_unescape(scratch[1].at, scratch[1].n, out);
  return true;
}

static bool apply_replace(const Decode *d, const Decoding *how, const Row *in, Row *out) {
  RegexWork *w = regex_work_open();
  Text scratch[2] = {0};
  bool ok = true;
  for (int64_t i = 0; ok && i < in->n; i++) {
    size_t n;
    const char *at = text_of(in, i, &n);
    ok = replace_bytes(d, how, w, at, n, scratch, &out->text);
    end_text(out);
  }
  for (int i = 0; i < 2; i++) text_close(&scratch[i]);
  regex_work_close(w);
  return ok;
}

static bool open_strip(Arena *arena, const json_t *json, Decode *d, Why *why) {
  d->start = json_integer_value(json_object_get(json, "start"));
  d->stop = json_integer_value(json_object_get(json, "stop"));
  return (d->text = tok_text(arena, json, "content", &d->n, why)) && (d->n || why_not(why, "content is empty"));
}

static bool apply_strip(const Decode *d, const Decoding *how, const Row *in, Row *out) {
  (void)how;
  for (int64_t i = 0; i < in->n; i++) {
    size_t n;
    const char *at = text_of(in, i, &n);
    for (int64_t k = 0; k < d->start && n >= d->n && !memcmp(at, d->text, d->n); k++) at += d->n, n -= d->n;
    for (int64_t k = 0; k < d->stop && n >= d->n && !memcmp(at + n - d->n, d->text, d->n); k++) n -= d->n;
    text_add(&out->text, at, n);
    end_text(out);
  }
  return true;
}

static bool open_metaspace(Arena *arena, const json_t *json, Decode *d, Why *why) {
  const char *scheme = json_string_value(json_object_get(json, "prepend_scheme"));
  d->keep_first = (scheme && !strcmp(scheme, "never")) || !tok_bool(json, "add_prefix_space", true);
  return (d->text = tok_text(arena, json, "replacement", &d->n, why)) && (d->n || why_not(why, "replacement is empty"));
}

static bool apply_metaspace(const Decode *d, const Decoding *how, const Row *in, Row *out) {
  (void)how;
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
  return true;
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

static void start_row(Row *r) {
  r->text.n = 0;
  r->n = 0;
  text_add(&r->text, "", 0);
}

/* The stages in turn: what one makes goes to spare, and the two change places. */
static bool apply_all(const Decodes *decodes, const Decoding *how, Row *row, Row *spare) {
  for (int i = 0; i < decodes->n && row->n; i++) {
    start_row(spare);
    if (!decodes->at[i].row->apply(&decodes->at[i], how, row, spare)) return false;
    if (spare->text.n > how->most) return tok_too_long(how->why);
    Row swap = *row;
    *row = *spare;
    *spare = swap;
  }
  return true;
}

bool try_decodes_apply(const Decodes *decodes, const char *spelling, const size_t *ends, int64_t n, bool raw, Text *out, Why *why) {
  Row row = {0}, spare = {0};
  size_t length;
  start_row(&row);
  for (int64_t i = 0; i < n; i++) {
    text_add(&row.text, spelling + row.text.n, ends[i] - row.text.n);
    end_text(&row);
  }
  bool ok = apply_all(decodes, &(Decoding){raw, tok_most(row.text.n), why}, &row, &spare);
  for (int64_t i = 0; ok && i < row.n; i++) { /* without a decoder the library puts spaces between */
    const char *at = text_of(&row, i, &length);
    if (i && !decodes->n) text_add(out, " ", 1);
    text_add(out, at, length);
  }
  text_close(&row.text);
  free(row.ends);
  text_close(&spare.text);
  free(spare.ends);
  return ok;
}
