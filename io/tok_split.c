/* SPDX-License-Identifier: Apache-2.0 */
/* Pre-tokenizers of a tokenizer.json: they cut a text into words.  Each is the same stage with other settings: what spaces become,
 * what comes before, where a pattern cuts and what becomes of its matches.  A word of one stage goes through the next at once. */
#include <string.h>

#include "io/tok_impl.h"
#include "src/base/utf8.h"

/* GPT-2's own pattern (openai/gpt-2, src/encoder.py), which ByteLevel cuts by. */
#define PATTERN_BYTE_LEVEL "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
/* Rust's \w (Unicode, UTS 18 C) and char::is_ascii_punctuation. */
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}"
#define PUNCTUATION "[!-\\/:-@\\[-`{-~\\p{P}]"

static bool set_pattern(Split *s, const char *pattern, SplitBehaviour behaviour, Why *why) {
  s->behaviour = behaviour;
  return try_regex_open(pattern, strlen(pattern), REGEX_ONIGURUMA, &s->regex, why);
}

static bool read_behaviour(const json_t *json, SplitBehaviour *behaviour, Why *why) {
  static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
  const char *name = json_string_value(json_object_get(json, "behavior"));
  for (int i = 0; name && i <= SPLIT_CONTIGUOUS; i++)
    if (!strcmp(names[i], name)) return *behaviour = (SplitBehaviour)i, true;
  return why_not(why, "behavior '%.40s' is not known here", name ? name : "");
}

static bool open_split(Arena *arena, const json_t *json, Split *s, Why *why) {
  s->invert = tok_bool(json, "invert", false);
  return read_behaviour(json, &s->behaviour, why) && tok_pattern(arena, json, &s->regex, why);
}

static bool open_byte_level(Arena *arena, const json_t *json, Split *s, Why *why) {
  (void)arena;
  s->prefix = " ";
  s->prepend = tok_bool(json, "add_prefix_space", true) ? PREPEND_ALWAYS : PREPEND_NEVER;
  return !tok_bool(json, "use_regex", true) || set_pattern(s, PATTERN_BYTE_LEVEL, SPLIT_ISOLATED, why);
}

static bool open_metaspace(Arena *arena, const json_t *json, Split *s, Why *why) {
  static const char *const names[] = {"never", "first", "always"};
  const char *scheme = json_string_value(json_object_get(json, "prepend_scheme"));
  size_t n;
  s->prepend = PREPEND_ALWAYS;
  for (int i = 0; scheme && i <= PREPEND_ALWAYS; i++)
    if (!strcmp(names[i], scheme)) s->prepend = (SplitPrepend)i;
  if (scheme && strcmp(names[s->prepend], scheme)) return why_not(why, "prepend_scheme '%.40s' is not known here", scheme);
  if (!tok_bool(json, "add_prefix_space", true)) s->prepend = PREPEND_NEVER;
  if (!(s->space = tok_text(arena, json, "replacement", &n, why))) return false;
  uint32_t c;
  if (!*s->space || (size_t)utf8_read(s->space, &c) != n) return why_not(why, "replacement is not one character");
  s->prefix = s->space;
  s->behaviour = SPLIT_WITH_NEXT;
  return !tok_bool(json, "split", true) || try_regex_open(s->space, n, REGEX_LITERAL, &s->regex, why);
}

static bool open_digits(Arena *arena, const json_t *json, Split *s, Why *why) {
  (void)arena;
  return set_pattern(s, "\\p{N}", tok_bool(json, "individual_digits", false) ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS, why);
}

static bool open_punctuation(Arena *arena, const json_t *json, Split *s, Why *why) {
  (void)arena;
  SplitBehaviour behaviour = SPLIT_ISOLATED;
  if (json_object_get(json, "behavior") && !read_behaviour(json, &behaviour, why)) return false;
  return set_pattern(s, PUNCTUATION, behaviour, why);
}

static bool open_whitespace(Arena *arena, const json_t *json, Split *s, Why *why) {
  (void)arena, (void)json;
  s->invert = true;
  return set_pattern(s, "[" WORD "]+|[^" WORD "\\s]+", SPLIT_REMOVED, why);
}

static bool open_whitespace_split(Arena *arena, const json_t *json, Split *s, Why *why) {
  (void)arena, (void)json;
  return set_pattern(s, "\\s", SPLIT_REMOVED, why);
}

static bool open_delimiter(Arena *arena, const json_t *json, Split *s, Why *why) {
  size_t n;
  s->behaviour = SPLIT_REMOVED;
  const char *text = tok_text(arena, json, "delimiter", &n, why);
  return text && try_regex_open(text, n, REGEX_LITERAL, &s->regex, why);
}

enum { BYTE_LEVEL }; /* its row */

static const struct {
  StageType stage;
  bool (*open)(Arena *arena, const json_t *json, Split *s, Why *why);
} rows[] = {
    [BYTE_LEVEL] = {{"ByteLevel", "add_prefix_space trim_offsets use_regex"}, open_byte_level}, /* offsets are not ours */
    {{"Split", "pattern behavior invert"}, open_split},
    {{"Metaspace", "replacement add_prefix_space prepend_scheme split str_rep"}, open_metaspace},
    {{"Digits", "individual_digits"}, open_digits},
    {{"Punctuation", "behavior"}, open_punctuation},
    {{"Whitespace", ""}, open_whitespace},
    {{"WhitespaceSplit", ""}, open_whitespace_split},
    {{"CharDelimiterSplit", "delimiter"}, open_delimiter},
};

typedef struct Opening {
  Arena *arena;
  Splits *splits;
  bool *bytes;
} Opening;

static StageType type_of(int i) { return rows[i].stage; }

static bool open_row(void *self, int i, const json_t *json, Why *why) {
  const Opening *o = self;
  Split s = {0};
  bool ok = rows[i].open(o->arena, json, &s, why);
  vec_push(o->arena, o->splits, s);
  *o->bytes = i == BYTE_LEVEL;
  return ok;
}

/* Behind ByteLevel words are bytes. */
static bool may_follow(const void *self, const char *type, Why *why) {
  const Opening *o = self;
  return !*o->bytes || why_not(why, "pre_tokenizer: %.40s behind ByteLevel is not known here", type);
}

bool try_splits_open(Arena *arena, const json_t *json, Splits *splits, bool *bytes, Why *why) {
  static const StageKind kind = {.what = "pre_tokenizer",
                                 .members = "pretokenizers",
                                 .n = sizeof rows / sizeof *rows,
                                 .type = type_of,
                                 .open = open_row,
                                 .may_follow = may_follow};
  *bytes = false;
  return try_stages_open(&kind, json, &(Opening){arena, splits, bytes}, why);
}

void splits_close(Splits *splits) {
  for (int i = 0; i < splits->n; i++) regex_close(splits->at[i].regex);
}

/* --- cutting --------------------------------------------------------------------------------------------------------------- */

typedef struct Walk {
  const Splits *splits;
  RegexWork *regex;
  Text *scratch; /* a text a stage */
  SplitVisit *visit;
  void *self;
  size_t left; /* bytes that stages may write still */
  Why *why;
} Walk;

static bool walk_stage(Walk *w, int stage, const char *text, size_t n, bool first);

/* Parts of a text in order, matches and what lies between, as they become words. */
typedef struct Parts {
  Walk *walk;
  int stage;
  const char *text;
  bool first;         /* the text is where all of it begins */
  size_t start, end;  /* a part that is held back, since it may grow */
  bool held, matched; /* of the part before */
} Parts;

static bool give(const Parts *p, size_t start, size_t end) {
  return start == end || walk_stage(p->walk, p->stage + 1, p->text + start, end - start, p->first && !start);
}

static bool give_held(Parts *p) {
  bool held = p->held;
  p->held = false;
  return !held || give(p, p->start, p->end);
}

static bool hold(Parts *p, size_t start, size_t end) {
  if (!give_held(p)) return false;
  p->start = start;
  p->end = end;
  return p->held = true;
}

static bool grow(Parts *p, size_t end) {
  p->end = end;
  return true;
}

/* The rules of the library's split: a match joins what is before or behind it, unless that is a match, too. */
static bool add_part(Parts *p, const Split *s, size_t start, size_t end, bool match) {
  bool before = p->matched;
  match ^= s->invert;
  p->matched = match;
  switch (s->behaviour) {
  case SPLIT_REMOVED:
    return match || give(p, start, end);
  case SPLIT_ISOLATED:
    return give(p, start, end);
  case SPLIT_WITH_PREVIOUS:
    return p->held && match && !before ? grow(p, end) : hold(p, start, end);
  case SPLIT_WITH_NEXT:
    return p->held && before && !match ? grow(p, end) : hold(p, start, end);
  case SPLIT_CONTIGUOUS:
    return p->held && match == before ? grow(p, end) : hold(p, start, end);
  }
  return true;
}

static bool cut(Walk *w, int stage, const char *text, size_t n, bool first) {
  const Split *s = &w->splits->at[stage];
  Parts p = {.walk = w, .stage = stage, .text = text, .first = first};
  size_t start = REGEX_START, end = 0, done = 0;
  RegexFound found;
  while ((found = regex_next(s->regex, w->regex, text, n, &start, &end)) == REGEX_YES) {
    if (start > done && !add_part(&p, s, done, start, false)) return false;
    if (!add_part(&p, s, start, end, true)) return false;
    done = end;
  }
  if (found == REGEX_GAVE_UP) return tok_gave_up(w->why);
  return (done == n || add_part(&p, s, done, n, false)) && give_held(&p);
}

/* The text with another for its spaces and a prefix, in the stage's scratch. */
static void rewrite(const Split *s, Text *out, const char *text, size_t n, bool first) {
  size_t prefix = strlen(s->prefix), space = s->space ? strlen(s->space) : 0;
  out->n = 0;
  for (size_t i = 0; i < n;) {
    const char *found = s->space ? memchr(text + i, ' ', n - i) : NULL;
    size_t plain = found ? (size_t)(found - text) - i : n - i;
    text_add(out, text + i, plain);
    i += plain;
    if (found) text_add(out, s->space, space), i++;
  }
  bool wanted = s->prepend == PREPEND_ALWAYS || (s->prepend == PREPEND_FIRST && first);
  if (!wanted || (out->n >= prefix && !memcmp(out->at, s->prefix, prefix))) return;
  text_add(out, s->prefix, prefix);
  memmove(out->at + prefix, out->at, out->n - prefix);
  memcpy(out->at, s->prefix, prefix);
}

static bool walk_stage(Walk *w, int stage, const char *text, size_t n, bool first) {
  if (stage == w->splits->n) return w->visit(w->self, text, n, w->why);
  const Split *s = &w->splits->at[stage];
  if (s->space || s->prepend != PREPEND_NEVER) {
    rewrite(s, &w->scratch[stage], text, n, first);
    text = w->scratch[stage].at;
    n = w->scratch[stage].n;
    if (n > w->left) return tok_too_long(w->why);
    w->left -= n;
  }
  return s->regex ? cut(w, stage, text, n, first) : walk_stage(w, stage + 1, text, n, first);
}

bool splits_walk(const Splits *splits, RegexWork *regex, Text *scratch, const char *text, size_t n, bool first, SplitVisit *visit,
                 void *self, Why *why) {
  Walk w = {splits, regex, scratch, visit, self, tok_most(n), why};
  return !n || walk_stage(&w, 0, text, n, first);
}
