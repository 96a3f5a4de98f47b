/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 (RFC 3629: shortest forms, no surrogates, up to U+10FFFF). */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

#include "src/base/text.h"

/* The character at `at`, of which n > 0 bytes are there: its length and, in c, its number; or minus the number of bytes that
 * together become one U+FFFD (the maximal subpart, Unicode 3.9, definition D93b). */
int utf8_next(const char *at, size_t n, uint32_t *c);
/* The same where the text is known to be whole (escaped bytes included). */
int utf8_read(const char *at, uint32_t *c);
size_t utf8_before(const char *text, size_t at); /* where the character that ends at `at` > 0 begins */
int utf8_write(uint32_t c, char out[4]);         /* its length */

size_t utf8_spaces(const char *text, size_t n);          /* bytes of White_Space (Unicode) that whole characters begin with */
size_t utf8_trimmed(const char *text, size_t n);         /* bytes before those that they end with */
size_t utf8_valid(const char *text, size_t n);           /* bytes before the first that is part of no character */
void utf8_repair(const char *text, size_t n, Text *out); /* appends, with U+FFFD for what is none */

/* Bytes that are part of no character, as characters of their own: byte b as U+DC00 + b, which no valid text holds (Python's
 * surrogateescape, PEP 383).  Undone, the text is what it was. */
void utf8_escape(const char *text, size_t n, Text *out);
void utf8_unescape(const char *text, size_t n, Text *out);
/* Byte of an escaped one, or -1. */
static inline int utf8_escaped(uint32_t c) { return c >= 0xDC80 && c <= 0xDCFF ? (int)(c - 0xDC00) : -1; }

#endif
