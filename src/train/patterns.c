/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/patterns.h"

#include <fnmatch.h>
#include <string.h>

#include "src/base/vec.h"

bool pattern_fits(const char *pattern, const char *name) { return fnmatch(pattern, name, 0) == 0; }

int patterns_find(const Patterns *patterns, const char *name) {
  for (int i = 0; i < patterns->n; i++)
    if (pattern_fits(patterns->at[i].text, name)) return i;
  return -1;
}

/* --- renaming ------------------------------------------------------------------------------------------------------------- */

enum { STARS_MOST = 16 };

typedef struct Stretch {
  const char *at;
  size_t n;
} Stretch;

/* The length of the part of a pattern that stands for one character: "x", "?", "\\*", "[a-z]". */
static size_t element_length(const char *pattern) {
  if (*pattern == '\\' && pattern[1]) return 2;
  if (*pattern != '[') return 1;
  size_t n = 1;
  n += pattern[n] == '!' || pattern[n] == '^';
  n += pattern[n] == ']';
  while (pattern[n] && pattern[n] != ']') n++;
  return pattern[n] ? n + 1 : 1; /* a bracket that is not closed stands for itself */
}

static bool element_fits(const char *element, size_t n, char c) {
  char pattern[64], text[2] = {c, 0};
  if (n >= sizeof pattern) return false;
  memcpy(pattern, element, n);
  pattern[n] = 0;
  return pattern_fits(pattern, text);
}

/* As pattern_fits; stretches: what each * stands for. */
static bool fit(const char *pattern, const char *name, Stretch *stretches, int left) {
  for (; *pattern && *pattern != '*'; name++) {
    size_t n = element_length(pattern);
    if (!*name || !element_fits(pattern, n, *name)) return false;
    pattern += n;
  }
  if (!*pattern) return !*name;
  for (size_t n = 0; left && n <= strlen(name); n++) {
    *stretches = (Stretch){name, n};
    if (fit(pattern + 1, name + n, stretches + 1, left - 1)) return true;
  }
  return false;
}

const char *pattern_rename(Arena *arena, const char *from, const char *to, const char *name) {
  Stretch stretches[STARS_MOST + 1];
  if (!fit(from, name, stretches, STARS_MOST)) return NULL;
  Text text = {0};
  for (int k = 0; *to; to++) {
    const Stretch letter = {to, 1}, *s = *to == '*' ? &stretches[k++] : &letter;
    text_add(&text, s->at, s->n);
  }
  const char *renamed = arena_strdup(arena, text.at ? text.at : "");
  text_close(&text);
  return renamed;
}

/* --- what was meant ------------------------------------------------------------------------------------------------------- */

/* The parts of a name or pattern between some characters. */
typedef VEC(const char *) Words;

static void add_words(Arena *arena, Words *words, const char *text, const char *between) {
  for (const char *at = text + strspn(text, between); *at; at += strspn(at, between)) {
    size_t n = strcspn(at, between);
    vec_push(arena, words, arena_strndup(arena, at, n));
    at += n;
  }
}

static bool has_word(const Words *words, const char *word) {
  for (int i = 0; i < words->n; i++)
    if (!strcmp(words->at[i], word)) return true;
  return false;
}

/* The name, or the part of one, that is spelled nearly as the pattern or as a part of it that no name has; NULL. */
static const char *near(Arena *arena, const char *pattern, const char *const *names, int n) {
  const char *nearest = config_nearest(pattern, names, n);
  Words theirs = {0}, ours = {0};
  for (int i = 0; i < n; i++) add_words(arena, &theirs, names[i], ".");
  add_words(arena, &ours, pattern, ".*?[]\\");
  for (int i = 0; i < ours.n && !nearest; i++)
    if (!has_word(&theirs, ours.at[i])) nearest = config_nearest(ours.at[i], theirs.at, theirs.n);
  return nearest;
}

void pattern_need(const Config *c, const char *key, const Pattern *pattern, const char *what, const char *const *names, int n) {
  for (int i = 0; i < n; i++)
    if (pattern_fits(pattern->text, names[i])) return;
  Arena *arena = arena_open();
  const char *nearest = near(arena, pattern->text, names, n), *help = "there is none";
  if (nearest) help = arena_printf(arena, "did you mean '%s'?", nearest);
  if (!nearest && n) help = arena_printf(arena, "such are %s%s%s", names[0], n > 1 ? " and " : "", n > 1 ? names[n / 2] : "");
  config_fail_at(c, pattern->place, help, "%s: '%s' fits no %s", key, pattern->text, what);
}

/* --- names in brief ------------------------------------------------------------------------------------------------------- */

enum { TOLD = 3 };

void brief_add(Brief *brief, const char *name) {
  if (brief->n++ < TOLD) text_printf(&brief->text, "%s%s", brief->n > 1 ? ", " : "", name);
}

const char *brief_take(Arena *arena, Brief *brief) {
  if (brief->n > TOLD) text_printf(&brief->text, " and %d more", brief->n - TOLD);
  const char *told = arena_strdup(arena, brief->text.at ? brief->text.at : "");
  text_close(&brief->text);
  return told;
}
