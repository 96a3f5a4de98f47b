/* SPDX-License-Identifier: Apache-2.0 */
/* *.tiktoken: lines "base64 rank" (openai/tiktoken, tiktoken/load.py).  Two neighbours make a piece where their bytes together are
 * one, at its rank; so each way to cut a piece in two pieces is a merge.  Special tokens are not looked for in texts, as in the
 * library's encode_ordinary. */
#include <stdlib.h>
#include <string.h>

#include "io/tok_families.h"
#include "io/tok_impl.h"
#include "src/base/text.h"
#include "src/base/utf8.h"

/* Of base64, for a piece of 1024 bytes: looking at all its cuts costs the square of its length. */
enum { DIGITS_MOST = 1368 };

typedef struct Spelling {
  const char *at; /* NULL: there is no such id */
  uint32_t n;
  bool special;
} Spelling;

typedef struct Tiktoken {
  Bpe *bpe;
  Regex *regex;
  Spelling *spelling; /* vocab */
  int64_t pieces;     /* lines */
  int32_t most;       /* rank */
} Tiktoken;

typedef struct Line {
  const char *base64;
  size_t n;
  int32_t rank;
} Line;

/* --- reading --------------------------------------------------------------------------------------------------------------- */

static int digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* RFC 4648, with padding; at most 3/4·n bytes.  -1: is none. */
static int64_t decode_base64(const char *in, size_t n, char *out) {
  int64_t made = 0;
  if (!n || n % 4) return -1;
  for (size_t i = 0; i < n; i += 4) {
    int left = i + 4 < n || in[i + 3] != '=' ? 4 : in[i + 2] != '=' ? 3 : 2;
    uint32_t bits = 0;
    for (int k = 0; k < 4; k++) {
      int value = k < left ? digit(in[i + k]) : 0;
      if (value < 0) return -1;
      bits = bits << 6 | (uint32_t)value;
    }
    for (int k = 0; k + 1 < left; k++) out[made++] = (char)(bits >> (16 - 8 * k));
  }
  return made;
}

/* The next line that is not empty; false at the end, or with why where it is none. */
static bool next_line(const char **at, const char *end, Line *line, int64_t number, Why *why) {
  while (*at < end && (**at == '\n' || **at == '\r')) ++*at;
  if (*at == end) return false;
  const char *stop = memchr(*at, '\n', (size_t)(end - *at)), *space;
  if (!stop) stop = end;
  space = memchr(*at, ' ', (size_t)(stop - *at));
  int64_t rank = -1;
  char text[16] = "";
  size_t n = space ? (size_t)(stop - space - 1) : 0;
  while (n && strchr("\r ", space[n])) n--;
  if (n && n < sizeof text) memcpy(text, space + 1, n);
  if (!num_parse_int(text, &rank) || rank < 0 || rank >= TOK_IDS_MOST) {
    why_not(why, "line %lld is no \"base64 rank\"", (long long)number);
    return false;
  }
  *line = (Line){*at, (size_t)(space - *at), (int32_t)rank};
  if (line->n > DIGITS_MOST) {
    why_not(why, "line %lld has %zu digits of base64; a piece has at most %d", (long long)number, line->n, DIGITS_MOST);
    return false;
  }
  *at = stop;
  return true;
}

static bool count_lines(Tiktoken *k, const char *bytes, size_t n, Why *why) {
  Line line;
  Why reason = {""};
  k->most = -1;
  for (const char *at = bytes; next_line(&at, bytes + n, &line, k->pieces + 1, &reason); k->pieces++)
    if (line.rank > k->most) k->most = line.rank;
  return !*reason.text || why_not(why, "%s", reason.text);
}

static bool read_lines(Arena *arena, Tiktoken *k, const char *bytes, size_t n, Why *why) {
  Line line;
  int64_t number = 1;
  for (const char *at = bytes; next_line(&at, bytes + n, &line, number, why); number++) {
    char *piece = arena_alloc(arena, line.n);
    int64_t length = decode_base64(line.base64, line.n, piece);
    if (length < 1) return why_not(why, "line %lld is no base64", (long long)number);
    if (k->spelling[line.rank].at) return why_not(why, "rank %d comes twice", line.rank);
    k->spelling[line.rank] = (Spelling){piece, (uint32_t)length, false};
    if (!bpe_add_piece(k->bpe, piece, (size_t)length, line.rank))
      return why_not(why, "line %lld: its piece comes twice", (long long)number);
  }
  return true;
}

/* Gives how many there are; add false: they are only counted. */
static int64_t find_merges(Tiktoken *k, bool add) {
  int64_t found = 0;
  for (int32_t id = 0; id <= k->most; id++) {
    const Spelling *s = &k->spelling[id];
    for (uint32_t i = 1; s->at && i < s->n; i++) {
      int32_t left = bpe_find(k->bpe, s->at, i), right = left < 0 ? -1 : bpe_find(k->bpe, s->at + i, s->n - i);
      if (right < 0) continue;
      if (add) bpe_add_merge(k->bpe, left, right, (uint32_t)id, id);
      found++;
    }
  }
  return found;
}

/* --- families -------------------------------------------------------------------------------------------------------------- */

static const TokFamily *find_family(const char *pattern, int64_t ranks) {
  for (int i = 0; i < tok_nfamilies; i++)
    if (pattern ? !strcmp(tok_families[i].name, pattern) : tok_families[i].ranks == ranks) return &tok_families[i];
  return NULL;
}

static bool take_pattern(Tiktoken *k, const TokFamily *family, const char *pattern, Why *why) {
  if (family) return try_regex_open(family->pattern, strlen(family->pattern), REGEX_RUST, &k->regex, why);
  if (pattern) return try_regex_open(pattern, strlen(pattern), REGEX_RUST, &k->regex, why);
  Text names = {0};
  for (int i = 0; i < tok_nfamilies; i++) text_printf(&names, "%s%s", i ? ", " : "", tok_families[i].name);
  why_not(
      why,
      "%lld ranks are no family's that is known; its pattern is not in the file\nhelp: name one (%s) or give a regular expression",
      (long long)k->pieces, names.at);
  text_close(&names);
  return false;
}

static int64_t family_vocab(const TokFamily *f, int64_t vocab) {
  if (f && f->reserved_to > vocab) vocab = f->reserved_to;
  for (int i = 0; f && f->special[i].text; i++)
    if (f->special[i].id >= vocab) vocab = f->special[i].id + 1;
  return vocab;
}

static void place_special(Tokenizer *t, Tiktoken *k, const TokFamily *f) {
  for (int i = 0; f && f->special[i].text; i++) {
    int32_t id = f->special[i].id;
    if (k->spelling[id].at) continue; /* another file than the family's */
    k->spelling[id] = (Spelling){f->special[i].text, (uint32_t)strlen(f->special[i].text), true};
    if (f->bos && !strcmp(f->bos, f->special[i].text)) t->special[TOKENIZER_BOS] = id;
    if (!strcmp(f->eos, f->special[i].text)) t->special[TOKENIZER_EOS] = id;
  }
  for (int32_t id = k->most + 1; f && id < f->reserved_to; id++) {
    if (k->spelling[id].at) continue;
    const char *text = arena_printf(t->arena, "<|reserved_%d|>", id);
    k->spelling[id] = (Spelling){text, (uint32_t)strlen(text), true};
  }
  if (t->special[TOKENIZER_BOS] >= 0) ids_add(&t->before, &t->special[TOKENIZER_BOS], 1);
}

static bool open_tiktoken(Tokenizer *t, char *bytes, size_t n, const char *pattern, Why *why) {
  Tiktoken *k = t->self = arena_new(t->arena, Tiktoken);
  if (!count_lines(k, bytes, n, why)) return false;
  const TokFamily *family = find_family(pattern, k->pieces);
  if (!take_pattern(k, family, pattern, why)) return false;
  t->vocab = family_vocab(family, k->most + 1);
  k->spelling = arena_array(t->arena, Spelling, t->vocab);
  k->bpe = bpe_open(t->arena, k->pieces, 0);
  if (!read_lines(t->arena, k, bytes, n, why)) return false;
  bpe_room_for_merges(k->bpe, t->arena, find_merges(k, false));
  find_merges(k, true);
  BpeOptions o = {.bytes = true, .ignore_merges = true, .unk = -1};
  for (int b = 0; b < 256; b++) {
    o.byte_id[b] = bpe_find(k->bpe, &(char){(char)b}, 1);
    if (o.byte_id[b] < 0) return why_not(why, "byte %d is no piece", b);
  }
  bpe_start(k->bpe, &o);
  place_special(t, k, family);
  return true;
}

static void close_tiktoken(void *self) { regex_close(((Tiktoken *)self)->regex); }

/* --- use ------------------------------------------------------------------------------------------------------------------ */

typedef struct TiktokenWork {
  RegexWork *regex;
  BpeWork *bpe;
  Text escaped, word;
} TiktokenWork;

static void *open_work(const Tokenizer *t) {
  (void)t;
  TiktokenWork *w = xmalloc(sizeof *w);
  *w = (TiktokenWork){.regex = regex_work_open(), .bpe = bpe_work_open()};
  return w;
}

static void close_work(void *work) {
  TiktokenWork *w = work;
  regex_work_close(w->regex);
  bpe_work_close(w->bpe);
  text_close(&w->escaped);
  text_close(&w->word);
  free(w);
}

static bool encode_word(const Tiktoken *k, TiktokenWork *w, const char *word, size_t n, bool escaped, Ids *ids, Why *why) {
  w->word.n = 0;
  if (escaped) {
    utf8_unescape(word, n, &w->word);
    word = w->word.at;
    n = w->word.n;
  }
  return bpe_word(k->bpe, w->bpe, word, n, ids, why);
}

/* What the pattern does not match is left out, as in the library; the known ones match everything. */
static bool encode(const Tokenizer *t, void *work, const char *text, size_t n, Ids *ids, Why *why) {
  const Tiktoken *k = t->self;
  TiktokenWork *w = work;
  bool escaped = utf8_valid(text, n) < n;
  if (escaped) {
    w->escaped.n = 0;
    utf8_escape(text, n, &w->escaped);
    text = w->escaped.at;
    n = w->escaped.n;
  }
  size_t start = REGEX_START, end = 0;
  RegexFound found;
  Why reason;
  bool ok = true;
  while (ok && (found = regex_next(k->regex, w->regex, text, n, &start, &end)) == REGEX_YES)
    ok = encode_word(k, w, text + start, end - start, escaped, ids, &reason);
  if (ok && found == REGEX_GAVE_UP) ok = tok_gave_up(&reason);
  return ok || why_not(why, "%s: a text of %zu bytes: %s\nhelp: shorter documents", t->path, n, reason.text);
}

static bool decode(const Tokenizer *t, const int32_t *ids, int64_t n, bool raw, Text *text, Why *why) {
  (void)why;
  const Tiktoken *k = t->self;
  Text bytes = {0}, *to = raw ? text : &bytes;
  for (int64_t i = 0; i < n; i++)
    if (tokenizer_has(t, ids[i])) text_add(to, k->spelling[ids[i]].at, k->spelling[ids[i]].n);
  if (!raw) utf8_repair(bytes.at, bytes.n, text);
  text_close(&bytes);
  return true;
}

static bool has(const Tokenizer *t, int32_t id) { return ((const Tiktoken *)t->self)->spelling[id].at; }
static bool silent(const Tokenizer *t, int32_t id) { return ((const Tiktoken *)t->self)->spelling[id].special; }

static const char *piece(const Tokenizer *t, int32_t id, size_t *n) {
  const Spelling *s = &((const Tiktoken *)t->self)->spelling[id];
  return *n = s->n, s->at;
}

const TokFormat tok_tiktoken = {
    "tiktoken", "tokenizer.tiktoken", open_tiktoken, close_tiktoken, open_work, close_work, encode, decode, has, silent, piece};
