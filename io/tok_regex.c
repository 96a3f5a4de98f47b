/* SPDX-License-Identifier: Apache-2.0 */
#include "io/tok_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <ctype.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/arena.h"
#include "src/base/text.h"
#include "src/base/utf8.h"

struct Regex {
  pcre2_code *code;
  bool compiled; /* to machine code */
};

struct RegexWork {
  pcre2_match_data *data;
  pcre2_match_context *context;
  pcre2_jit_stack *stack; /* NULL until one is wanted */
};

/* Attempts at one place of a text, about a second's; and bytes of the stack, which long words never need. */
enum { MATCH_LIMIT = 50000000, STACK_FIRST = 32 << 10, STACK_MOST = 16 << 20 };

/* Classes of letters behind \ as Oniguruma and Rust have them; those of PCRE2 differ: its \s holds U+180E, its \w no marks and no
 * letter that is of another category (Unicode, UTS 18 C).  Without their brackets; besides, what one of the two adds: Rust, and
 * Oniguruma where the letter is not in brackets, for which it has another table of Latin-1. */
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define SPACE "\\t-\\r\\x20\\x{85}\\p{Z}"
static const struct {
  char letter;
  const char *class, *rust, *alone;
} classes[] = {{'s', SPACE, "", ""},
               {'d', "\\p{Nd}", "", ""},
               {'w', WORD, "\\x{200c}\\x{200d}", "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"},
               {'h', "0-9A-Fa-f", "", ""}};

/* [:name:] as Oniguruma has them; Rust's are ASCII's. */
static const struct {
  const char *name, *class;
} named[] = {{"alnum", "\\p{Alphabetic}\\p{Nd}"},
             {"alpha", "\\p{Alphabetic}"},
             {"blank", "\\t\\p{Zs}"},
             {"cntrl", "\\p{Cc}"},
             {"digit", "\\p{Nd}"},
             {"lower", "\\p{Lowercase}"},
             {"punct", "\\p{P}\\p{S}"},
             {"space", SPACE},
             {"upper", "\\p{Uppercase}"},
             {"word", WORD},
             {"xdigit", "0-9A-Fa-f"}};

/* Letters behind \ that mean the same everywhere. */
static const char same[] = "pPrntfxAz";

typedef struct Translation {
  const char *at, *end;
  RegexDialect dialect;
  bool in_class;
  Text *out;
  Why *why;
} Translation;

static bool unknown(const Translation *t, const char *what, size_t n) {
  return why_not(t->why, "the pattern's '%.*s' is not known here", (int)n, what);
}

/* A script's name behind \p is that of its letters; PCRE2 takes in what scripts share, unless it is told (from 10.40 on). */
static bool is_script(const char *name, size_t n) {
  char pattern[64];
  int error;
  size_t offset;
  for (size_t i = 0; i < n; i++)
    if (!isalpha((unsigned char)name[i]) && name[i] != '_') return false;
  if (n <= 2 || snprintf(pattern, sizeof pattern, "\\p{sc:%.*s}", (int)n, name) >= (int)sizeof pattern) return false;
  pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF, &error, &offset, NULL);
  pcre2_code_free(code);
  return code;
}

/* What \p{…}, \P{…} or \x{…} names, from the bracket on. */
static bool translate_name(Translation *t) {
  const char *close = memchr(t->at, '}', (size_t)(t->end - t->at)), *name = t->at + 1;
  if (!close) return unknown(t, t->at - 2, 3);
  name += *name == '^';
  text_add(t->out, t->at, (size_t)(name - t->at));
  if (t->at[-1] != 'x' && is_script(name, (size_t)(close - name))) text_printf(t->out, "sc:");
  text_add(t->out, name, (size_t)(close + 1 - name));
  t->at = close + 1;
  return true;
}

static bool translate_escape(Translation *t) {
  char c = t->at[1];
  for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
    bool outside = c == toupper(classes[i].letter);
    if (c != classes[i].letter && !outside) continue;
    if (outside && t->in_class) return unknown(t, t->at, 2);
    const char *more = t->dialect == REGEX_RUST ? classes[i].rust : t->in_class ? "" : classes[i].alone;
    text_printf(t->out, "%s%s%s%s", t->in_class ? "" : outside ? "[^" : "[", classes[i].class, more, t->in_class ? "" : "]");
    t->at += 2;
    return true;
  }
  if (c == 'v') /* one character, where PCRE2 has a class */
    text_printf(t->out, "\\x0b");
  else if (ispunct((unsigned char)c) || c == ' ' || strchr(same, c))
    text_add(t->out, t->at, 2);
  else
    return unknown(t, t->at, 2);
  t->at += 2;
  return t->at == t->end || *t->at != '{' || !strchr("pPx", c) || translate_name(t);
}

/* [:name:], left bytes from it on. */
static bool translate_named(Translation *t, size_t left) {
  const char *name = t->at + 2, *close = memmem(t->at, left, ":]", 2);
  size_t n = close && close >= name ? (size_t)(close - name) : 0, i = 0;
  while (i < sizeof named / sizeof *named && (strlen(named[i].name) != n || memcmp(named[i].name, name, n))) i++;
  if (t->dialect == REGEX_RUST || i == sizeof named / sizeof *named) return unknown(t, t->at, n ? n + 4 : 2);
  text_printf(t->out, "%s", named[i].class);
  t->at = close + 2;
  return true;
}

static bool translate_in_class(Translation *t) {
  size_t left = (size_t)(t->end - t->at);
  if (*t->at == '[' && left > 1 && t->at[1] == ':') return translate_named(t, left);
  if (*t->at == '[' || (left > 1 && t->at[0] == '&' && t->at[1] == '&')) return unknown(t, t->at, 1);
  if (*t->at == ']') t->in_class = false;
  text_add(t->out, t->at++, 1);
  return true;
}

static void open_class(Translation *t) {
  t->in_class = true;
  text_add(t->out, t->at++, 1);
  if (t->at < t->end && *t->at == '^') text_add(t->out, t->at++, 1);
  if (t->at < t->end && *t->at == ']') {
    text_printf(t->out, "\\]");
    t->at++;
  }
}

static bool translate(Translation *t) {
  bool ruby = t->dialect == REGEX_ONIGURUMA;
  while (t->at < t->end) {
    bool more = t->at + 1 < t->end;
    if (*t->at == '\\') {
      if (!more || !t->at[1]) return unknown(t, "\\", 1);
      if (!translate_escape(t)) return false;
    } else if (t->in_class) {
      if (!translate_in_class(t)) return false;
    } else if (*t->at == '[') {
      open_class(t);
    } else if (*t->at == '^' || *t->at == '$') { /* Ruby's are those of lines, Rust's of the text */
      text_printf(t->out, ruby ? "(?m:%c)" : *t->at == '^' ? "\\A" : "\\z", *t->at);
      t->at++;
    } else if (ruby && more && t->at[0] == '}' && t->at[1] == '+') { /* possessive in one, repeated in the other */
      return unknown(t, t->at, 2);
    } else {
      text_add(t->out, t->at++, 1);
    }
  }
  return true;
}

static bool compile(Regex *r, const Text *pattern, bool literal, Why *why) {
  int error;
  size_t offset;
  pcre2_compile_context *context = pcre2_compile_context_create(NULL);
  CHECK(context && !pcre2_set_newline(context, PCRE2_NEWLINE_LF));
  r->code = pcre2_compile((PCRE2_SPTR)pattern->at, pattern->n,
                          literal ? PCRE2_LITERAL | PCRE2_UTF : PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset,
                          context);
  pcre2_compile_context_free(context);
  if (!r->code) {
    PCRE2_UCHAR text[256];
    pcre2_get_error_message(error, text, sizeof text);
    return why_not(why, "the pattern '%.200s' is none: %s (PCRE2, at %zu)", pattern->at, (char *)text, offset);
  }
  r->compiled = !pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE); /* without it, the same more slowly */
  return true;
}

bool try_regex_open(const char *pattern, size_t n, RegexDialect dialect, Regex **regex, Why *why) {
  Text text = {0};
  text_add(&text, "", 0);
  Translation t = {.at = pattern, .end = pattern + n, .dialect = dialect, .out = &text, .why = why};
  Regex *r = xmalloc(sizeof *r);
  *r = (Regex){0};
  bool ok = utf8_valid(pattern, n) == n || why_not(why, "the pattern is no UTF-8");
  if (ok && dialect == REGEX_LITERAL)
    text_add(&text, pattern, n);
  else
    ok = ok && translate(&t);
  ok = ok && compile(r, &text, dialect == REGEX_LITERAL, why);
  text_close(&text);
  if (!ok) {
    regex_close(r);
    r = NULL;
  }
  *regex = r;
  return ok;
}

void regex_close(Regex *r) {
  if (!r) return;
  pcre2_code_free(r->code);
  free(r);
}

RegexWork *regex_work_open(void) {
  RegexWork *w = xmalloc(sizeof *w);
  *w = (RegexWork){pcre2_match_data_create(1, NULL), pcre2_match_context_create(NULL), NULL};
  if (!w->data || !w->context) fail(FAIL_MACHINE, "out of memory for matching patterns");
  pcre2_set_match_limit(w->context, MATCH_LIMIT);
  return w;
}

void regex_work_close(RegexWork *w) {
  if (w->stack) pcre2_jit_stack_free(w->stack);
  pcre2_match_context_free(w->context);
  pcre2_match_data_free(w->data);
  free(w);
}

/* A stack of its own for what the thread's has no room for.  Few patterns ever want it, and a work may live for a text of one
 * token.
 */
static bool get_stack(RegexWork *w) {
  if (w->stack) return false;
  w->stack = pcre2_jit_stack_create(STACK_FIRST, STACK_MOST, NULL);
  if (w->stack) pcre2_jit_stack_assign(w->context, NULL, w->stack);
  return w->stack;
}

static int match(const Regex *r, RegexWork *w, const char *text, size_t n, size_t from) {
  int rc = PCRE2_ERROR_JIT_STACKLIMIT;
  if (r->compiled) {
    do {
      rc = pcre2_jit_match(r->code, (PCRE2_SPTR)text, n, from, 0, w->data, w->context);
    } while (rc == PCRE2_ERROR_JIT_STACKLIMIT && get_stack(w));
  }
  if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
    rc = pcre2_match(r->code, (PCRE2_SPTR)text, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, w->data, w->context);
  return rc;
}

RegexFound regex_next(const Regex *r, RegexWork *w, const char *text, size_t n, size_t *start, size_t *end) {
  size_t last = *end;
  bool first = *start == REGEX_START;
  for (size_t from = last; from <= n;) {
    int rc = match(r, w, text, n, from);
    if (rc == PCRE2_ERROR_NOMATCH) return REGEX_NO;
    if (rc < 0) return REGEX_GAVE_UP;
    const size_t *found = pcre2_get_ovector_pointer(w->data);
    if (found[1] > found[0] || first || found[0] != last) {
      *start = found[0];
      *end = found[1];
      return REGEX_YES;
    }
    uint32_t c;
    if (from == n) return REGEX_NO;
    from += (size_t)utf8_read(text + from, &c);
  }
  return REGEX_NO;
}
