/* SPDX-License-Identifier: Apache-2.0 */
#include "io/tokenizer.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/tok_impl.h"
#include "src/base/file.h"
#include "src/base/hash.h"
#include "src/base/utf8.h"

enum { FILE_MOST = 256 << 20, TEXT_MOST = 1 << 30 };

struct TokenizerWork {
  const Tokenizer *t;
  void *work;
};

/* --- ids ------------------------------------------------------------------------------------------------------------------- */

void ids_add(Ids *ids, const int32_t *more, int64_t n) {
  if (ids->n + n > ids->cap) {
    ids->cap = ids->cap ? ids->cap : 256;
    while (ids->cap < ids->n + n) ids->cap *= 2;
    ids->at = xrealloc(ids->at, sizeof *ids->at * (size_t)ids->cap);
  }
  for (int64_t i = 0; i < n; i++) ids->at[ids->n + i] = more[i];
  ids->n += n;
}

void ids_close(Ids *ids) {
  free(ids->at);
  *ids = (Ids){0};
}

/* --- bytes ----------------------------------------------------------------------------------------------------------------- */

static bool open_bytes(Tokenizer *t, char *bytes, size_t n, const char *pattern, Why *why) {
  (void)bytes, (void)n;
  t->vocab = 256;
  return !pattern || why_not(why, "bytes are cut by no pattern\nhelp: leave the pattern out");
}

static void *open_no_work(const Tokenizer *t) {
  (void)t;
  return NULL;
}

static void close_no_work(void *work) { (void)work; }

static bool encode_bytes(const Tokenizer *t, void *work, const char *text, size_t n, Ids *ids, Why *why) {
  (void)t, (void)work, (void)why;
  int32_t part[256];
  for (size_t done = 0; done < n;) {
    int64_t k = 0;
    while (k < 256 && done < n) part[k++] = (unsigned char)text[done++];
    ids_add(ids, part, k);
  }
  return true;
}

static bool decode_bytes(const Tokenizer *t, const int32_t *ids, int64_t n, bool raw, Text *text, Why *why) {
  (void)t, (void)why;
  Text bytes = {0}, *to = raw ? text : &bytes;
  text_add(to, "", 0);
  for (int64_t i = 0; i < n; i++)
    if (ids[i] >= 0 && ids[i] < 256) text_add(to, &(char){(char)ids[i]}, 1);
  if (!raw) utf8_repair(bytes.at, bytes.n, text);
  text_close(&bytes);
  return true;
}

static bool has_all(const Tokenizer *t, int32_t id) {
  (void)t, (void)id;
  return true;
}

static const char *piece_of_byte(const Tokenizer *t, int32_t id, size_t *n) {
  static char all[256];
  (void)t;
  all[id] = (char)id;
  return *n = 1, &all[id];
}

static bool silent_none(const Tokenizer *t, int32_t id) {
  (void)t, (void)id;
  return false;
}

const TokFormat tok_bytes = {"bytes",      NULL,         open_bytes, NULL,        open_no_work, close_no_work,
                             encode_bytes, decode_bytes, has_all,    silent_none, piece_of_byte};

/* --- which format ---------------------------------------------------------------------------------------------------------- */

static bool looks_json(const char *bytes, size_t n) {
  size_t at = 0;
  while (at < n && strchr(" \t\r\n", bytes[at]) && bytes[at]) at++;
  return at < n && bytes[at] == '{';
}

/* A first line "base64 rank". */
static bool looks_tiktoken(const char *bytes, size_t n) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
  size_t at = 0;
  while (at < n && bytes[at] && strchr(digits, bytes[at])) at++;
  return at && at + 1 < n && bytes[at] == ' ' && bytes[at + 1] >= '0' && bytes[at + 1] <= '9';
}

static const TokFormat *format_of(const char *bytes, size_t n) {
  return looks_json(bytes, n) ? &tok_json : looks_tiktoken(bytes, n) ? &tok_tiktoken : &tok_sentencepiece;
}

/* The tokenizer's file in a folder: the first of the usual names, or the first *.tiktoken by name. */
static const char *file_in(Arena *arena, const char *folder) {
  static const char *const names[] = {"tokenizer.json", "tokenizer.model"};
  struct stat info;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *path = arena_printf(arena, "%s/%s", folder, names[i]);
    if (!stat(path, &info)) return path;
  }
  struct dirent **found;
  const char *path = NULL;
  int n = scandir(folder, &found, NULL, alphasort);
  for (int i = 0; i < n; i++) {
    const char *dot = strrchr(found[i]->d_name, '.');
    if (!path && dot && !strcmp(dot, ".tiktoken")) path = arena_printf(arena, "%s/%s", folder, found[i]->d_name);
    free(found[i]);
  }
  if (n >= 0) free(found);
  return path;
}

static char *read_whole(Tokenizer *t, const char *path, size_t *n, Why *why) {
  struct stat info;
  t->path = arena_strdup(t->arena, path);
  if (stat(path, &info))
    return why_not(why, "%s: %s\nhelp: a tokenizer.json, *.model or *.tiktoken, a folder with one, or bytes", path,
                   strerror(errno)),
           NULL;
  if (S_ISDIR(info.st_mode)) {
    t->path = file_in(t->arena, path);
    if (!t->path) return why_not(why, "%s: no tokenizer.json, tokenizer.model or *.tiktoken is there", path), NULL;
    if (stat(t->path, &info)) return why_not(why, "%s: %s", t->path, strerror(errno)), NULL;
  }
  if (!S_ISREG(info.st_mode) || info.st_size > FILE_MOST)
    return why_not(why, "%s: no tokenizer: no plain file, or larger than 256 MiB", t->path), NULL;
  char *bytes = file_read(t->path, n);
  if (!bytes) why_not(why, "%s: %s", t->path, strerror(errno));
  if (!bytes || !file_is_pointer(bytes, *n)) return bytes;
  free(bytes);
  return why_not(why, "%s: " FILE_POINTER, t->path), NULL;
}

bool tokenizer_is_there(const char *path) {
  struct stat info;
  Arena *arena = arena_open();
  bool there = !strcmp(path, "bytes") || (!stat(path, &info) && (!S_ISDIR(info.st_mode) || file_in(arena, path)));
  arena_close(arena);
  return there;
}

/* bytes may be changed.  Consumes nothing. */
static bool parse(Tokenizer *t, const TokFormat *format, char *bytes, size_t n, const char *pattern, Why *why) {
  t->format = format;
  Sha256 hash;
  sha256_init(&hash);
  sha256_add_text(&hash, format->name);
  sha256_add_text(&hash, pattern ? pattern : "");
  if (n) sha256_add(&hash, bytes, n);
  sha256_hex(&hash, t->hash);
  Why reason;
  bool ok = format->open(t, bytes, n, pattern, &reason);
  if (ok && t->vocab < 1) ok = why_not(&reason, "it has no pieces");
  return ok || why_not(why, "%s: %s", t->path, reason.text);
}

static Tokenizer *start(void) {
  Arena *arena = arena_open();
  Tokenizer *t = arena_new(arena, Tokenizer);
  t->arena = arena;
  for (int role = 0; role < TOKENIZER_ROLES; role++) t->special[role] = -1;
  return t;
}

static bool finish(bool ok, Tokenizer *t, Tokenizer **tokenizer) {
  if (!ok) tokenizer_close(t);
  *tokenizer = ok ? t : NULL;
  return ok;
}

bool try_tokenizer_open(const char *path, const char *pattern, Tokenizer **tokenizer, Why *why) {
  Tokenizer *t = start();
  size_t n = 0;
  char *bytes = NULL;
  t->path = "bytes";
  if (!strcmp(path, "bytes")) return finish(parse(t, &tok_bytes, NULL, 0, pattern, why), t, tokenizer);
  bool ok = (bytes = read_whole(t, path, &n, why)) && parse(t, format_of(bytes, n), bytes, n, pattern, why);
  free(bytes);
  return finish(ok, t, tokenizer);
}

bool try_tokenizer_parse(const char *path, const char *bytes, size_t n, const char *pattern, Tokenizer **tokenizer, Why *why) {
  Tokenizer *t = start();
  char *copy = arena_strndup(t->arena, bytes, n);
  t->path = arena_strdup(t->arena, path);
  return finish(parse(t, format_of(copy, n), copy, n, pattern, why), t, tokenizer);
}

void tokenizer_close(Tokenizer *t) {
  if (!t) return;
  if (t->self && t->format->close) t->format->close(t->self);
  ids_close(&t->before);
  ids_close(&t->after);
  arena_close(t->arena);
}

/* --- use ------------------------------------------------------------------------------------------------------------------- */

const char *tokenizer_path(const Tokenizer *t) { return t->path; }
const char *tokenizer_kind(const Tokenizer *t) { return t->format->name; }
const char *tokenizer_usual_name(const Tokenizer *t) { return t->format->file; }
const char *tokenizer_hash(const Tokenizer *t) { return t->hash; }
int64_t tokenizer_vocab(const Tokenizer *t) { return t->vocab; }
bool tokenizer_has(const Tokenizer *t, int32_t id) { return id >= 0 && id < t->vocab && t->format->has(t, id); }
int32_t tokenizer_special(const Tokenizer *t, TokenizerRole role) { return t->special[role]; }
const char *tokenizer_special_text(const Tokenizer *t, TokenizerRole role) { return t->special_text[role]; }

const char *tokenizer_role_key(TokenizerRole role) {
  static const char *const keys[TOKENIZER_ROLES] = {"bos_token", "eos_token", "unk_token", "pad_token"};
  return keys[role];
}

void tokenizer_template(const Tokenizer *t, const Ids **before, const Ids **after) {
  *before = &t->before;
  *after = &t->after;
}

TokenizerWork *tokenizer_work_open(const Tokenizer *t) {
  TokenizerWork *w = xmalloc(sizeof *w);
  *w = (TokenizerWork){t, t->format->work_open(t)};
  return w;
}

void tokenizer_work_close(TokenizerWork *w) {
  w->t->format->work_close(w->work);
  free(w);
}

bool try_tokenizer_encode(TokenizerWork *w, const char *text, size_t n, Ids *ids, Why *why) {
  if (n >= TEXT_MOST)
    return why_not(why, "a document of %zu bytes is longer than 1 GiB\nhelp: cut it in parts, as JSON lines or lines of text", n);
  return !n || w->t->format->encode(w->t, w->work, text, n, ids, why);
}

/* A damaged file may have pieces of megabytes, and ids come from elsewhere. */
static bool check_spelled(const Tokenizer *t, const int32_t *ids, int64_t n, Why *why) {
  size_t spelled = 0, length;
  for (int64_t i = 0; i < n && spelled < TEXT_MOST; i++) {
    tokenizer_piece(t, ids[i], &length);
    spelled += length;
  }
  return spelled < TEXT_MOST || why_not(why, "the pieces of %lld ids are longer than 1 GiB", (long long)n);
}

bool try_tokenizer_decode(const Tokenizer *t, const int32_t *ids, int64_t n, bool raw, Text *text, Why *why) {
  Why reason;
  text_add(text, "", 0);
  size_t before = text->n;
  if (!n || (check_spelled(t, ids, n, &reason) && t->format->decode(t, ids, n, raw, text, &reason))) return true;
  text->n = before;
  text->at[before] = 0;
  return why_not(why, "%s: decoding %lld ids: %s\nhelp: fewer at a time, or another tokenizer", t->path, (long long)n, reason.text);
}

void tokenizer_decode(const Tokenizer *t, const int32_t *ids, int64_t n, bool raw, Text *text) {
  Why why;
  if (!try_tokenizer_decode(t, ids, n, raw, text, &why)) fail(FAIL_INPUT, "%s", why.text);
}

const char *tokenizer_piece(const Tokenizer *t, int32_t id, size_t *n) {
  return tokenizer_has(t, id) ? t->format->piece(t, id, n) : (*n = 0, "");
}

bool try_tokenizer_show(const Tokenizer *t, const int32_t *ids, int64_t n, Text *text, Why *why) {
  int64_t done = 0;
  text_add(text, "", 0);
  for (int64_t i = 0; i < n; i++) {
    size_t before = text->n, length;
    if (!tokenizer_has(t, ids[i]) || !t->format->silent(t, ids[i])) continue;
    if (!try_tokenizer_decode(t, &ids[i], 1, false, text, why)) return false;
    bool spelled = text->n > before; /* decoding spells it anyway */
    text->n = before;
    if (spelled) continue;
    if (!try_tokenizer_decode(t, ids + done, i - done, false, text, why)) return false;
    const char *piece = tokenizer_piece(t, ids[i], &length);
    text_add(text, piece, length);
    done = i + 1;
  }
  return done == n || try_tokenizer_decode(t, ids + done, n - done, false, text, why);
}

/* The second of two: the first of a text may lose a space. */
int32_t *tokenizer_bytes(const Tokenizer *t) {
  int32_t *bytes = xmalloc(sizeof *bytes * (size_t)t->vocab);
  Text text = {0};
  for (int32_t id = 0; id < t->vocab; id++) {
    bytes[id] = 0;
    if (!tokenizer_has(t, id) || t->format->silent(t, id)) continue;
    text.n = 0;
    tokenizer_decode(t, &id, 1, true, &text);
    size_t one = text.n;
    text.n = 0;
    tokenizer_decode(t, (int32_t[]){id, id}, 2, true, &text);
    bytes[id] = (int32_t)(text.n - one);
  }
  text_close(&text);
  return bytes;
}
