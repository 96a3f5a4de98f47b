/* SPDX-License-Identifier: Apache-2.0 */
/* Added tokens are found by a tree of their bytes: of those that begin leftmost the longest.  Most texts hold no first byte of any,
 * and run through a table of these. */
#include <string.h>

#include "io/tok_impl.h"
#include "src/base/utf8.h"

enum { LONGEST = 1024 }; /* bytes; bounds what a search costs */

typedef struct Node {
  int32_t child, sibling; /* 0: none */
  int32_t token;          /* that ends here, or -1 */
  unsigned char byte;
} Node;

struct Added {
  const AddedToken *tokens;
  VEC(Node) nodes;
  int32_t first[256]; /* nodes by first byte */
  Regex *word;        /* a word's character, where a token must be a word */
};

static int32_t child_of(const Added *a, int32_t node, unsigned char byte) {
  int32_t c = a->nodes.at[node].child;
  while (c && a->nodes.at[c].byte != byte) c = a->nodes.at[c].sibling;
  return c;
}

static void add_token(Arena *arena, Added *a, int32_t token) {
  int32_t node = 0;
  for (size_t i = 0; i < a->tokens[token].n; i++) {
    unsigned char byte = (unsigned char)a->tokens[token].text[i];
    int32_t next = child_of(a, node, byte);
    if (!next) {
      next = a->nodes.n;
      vec_push(arena, &a->nodes, (Node){.sibling = a->nodes.at[node].child, .token = -1, .byte = byte});
      a->nodes.at[node].child = next;
      if (!node) a->first[byte] = next;
    }
    node = next;
  }
  if (a->nodes.at[node].token < 0) a->nodes.at[node].token = token;
}

bool try_added_open(Arena *arena, const AddedToken *tokens, int n, bool normalized, Added **added, Why *why) {
  static const char word[] = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]"; /* \w (Unicode, UTS 18 C) */
  Added *a = *added = arena_new(arena, Added);
  a->tokens = tokens;
  vec_push(arena, &a->nodes, (Node){.token = -1});
  bool words = false;
  for (int i = 0; i < n; i++) {
    if (tokens[i].normalized != normalized || !tokens[i].n) continue;
    if (tokens[i].n > LONGEST) return why_not(why, "the added token '%.40s…' is longer than %d bytes", tokens[i].text, LONGEST);
    add_token(arena, a, i);
    words |= tokens[i].single_word;
  }
  return !words || try_regex_open(word, sizeof word - 1, REGEX_RUST, &a->word, why);
}

void added_close(Added *a) {
  if (a) regex_close(a->word);
}

/* --- search ---------------------------------------------------------------------------------------------------------------- */

/* The longest token at `at`, or NULL. */
static const AddedToken *longest(const Added *a, const char *text, size_t n, size_t at) {
  const AddedToken *found = NULL;
  for (int32_t node = a->first[(unsigned char)text[at]]; node; node = at < n ? child_of(a, node, (unsigned char)text[at]) : 0) {
    at++;
    if (a->nodes.at[node].token >= 0) found = &a->tokens[a->nodes.at[node].token];
  }
  return found;
}

static const AddedToken *search(const Added *a, const char *text, size_t n, size_t *at) {
  for (;; ++*at) {
    while (*at < n && !a->first[(unsigned char)text[*at]]) ++*at;
    if (*at >= n) return NULL;
    const AddedToken *found = longest(a, text, n, *at);
    if (found) return found;
  }
}

static bool is_word(const Added *a, RegexWork *w, const char *at) {
  uint32_t c;
  size_t start = REGEX_START, end = 0;
  return regex_next(a->word, w, at, (size_t)utf8_read(at, &c), &start, &end) == REGEX_YES;
}

bool added_walk(const Added *a, RegexWork *w, const char *text, size_t n, AddedVisit *visit, void *self) {
  size_t done = 0, at = 0;
  size_t spaces = 0; /* where those end that a token took behind it: another, which is itself of spaces, may begin among them */
  const AddedToken *token;
  while ((token = search(a, text, n, &at))) {
    size_t start = at, end = at += token->n;
    if (token->single_word && ((start && is_word(a, w, text + utf8_before(text, start))) || (end < n && is_word(a, w, text + end))))
      continue;
    if (token->lstrip) start = done + (start > done ? utf8_trimmed(text + done, start - done) : 0);
    if (token->rstrip) end = spaces = end < spaces ? spaces : end + utf8_spaces(text + end, n - end);
    if (done < start && !visit(self, -1, text + done, start - done, !done)) return false;
    if (start < end && !visit(self, token->id, text + start, end - start, false)) return false;
    done = end;
  }
  return done >= n || visit(self, -1, text + done, n - done, !done);
}
