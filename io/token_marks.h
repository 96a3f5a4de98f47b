/* SPDX-License-Identifier: Apache-2.0 */
/* Marks of a token file's ids: NAME.mask beside NAME.bin (or any other ending), a byte an id, as NumPy writes an array of uint8.
 *   1  the id counts as a label: the loss is over those that count
 *   2  a document begins with it
 * and their sum.  0 and 1 alone are what others call a loss mask: 0 is their label -100. */
#ifndef IO_TOKEN_MARKS_H
#define IO_TOKEN_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/fail.h"

typedef struct TokenMarks {
  const uint8_t *map; /* NULL: there are none, and all ids count */
  size_t nbytes;
  const char *path; /* of the token file; the caller's */
} TokenMarks;

bool token_marks_is(const char *path);    /* by its name */
char *token_marks_path(const char *path); /* of the token file's; the caller's, on the heap */

/* Maps them if they are there.  Input errors, which name the file: it has another number of bytes than n; or wanted, it is not
 * there. */
bool try_token_marks_open(const char *path, int64_t n, bool wanted, TokenMarks *marks, Why *why);
void token_marks_close(TokenMarks *marks);

/* Whether one of them has this bit in its mark; reads as far as the first. */
bool token_marks_any(const TokenMarks *marks, int64_t from, int64_t n, uint8_t bit);

/* Of ids from … from+n-1, which are there.  False: one is no mark. */
bool try_token_marks_read(const TokenMarks *marks, int64_t from, int64_t n, uint8_t *out, Why *why);

#endif
