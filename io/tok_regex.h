/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of tokenizers, which were written for other libraries, by PCRE2 and its compiler.  What the libraries read otherwise is
 * written anew (white space, words, scripts, line ends) or refused. */
#ifndef IO_TOK_REGEX_H
#define IO_TOK_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "src/base/fail.h"

typedef struct Regex Regex;
typedef struct RegexWork RegexWork; /* a thread's */

/* ONIGURUMA: what tokenizer.json files are written for, in its syntax for Ruby.  RUST: the crates regex and fancy_regex. */
typedef enum RegexDialect { REGEX_ONIGURUMA, REGEX_RUST, REGEX_LITERAL } RegexDialect;

bool try_regex_open(const char *pattern, size_t n, RegexDialect dialect, Regex **regex, Why *why);
void regex_close(Regex *regex); /* NULL is fine */

RegexWork *regex_work_open(void);
void regex_work_close(RegexWork *w);

typedef enum RegexFound { REGEX_NO, REGEX_YES, REGEX_GAVE_UP } RegexFound;

/* A walk over the matches in text (n bytes, whole characters): *start and *end are those of the last one, REGEX_START and 0 before
 * the first.  Empty matches count but where another has just ended, as in the libraries.  REGEX_GAVE_UP: too many attempts, or no
 * memory. */
#define REGEX_START ((size_t)-1)
RegexFound regex_next(const Regex *regex, RegexWork *w, const char *text, size_t n, size_t *start, size_t *end);

#endif
