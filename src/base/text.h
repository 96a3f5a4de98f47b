/* SPDX-License-Identifier: Apache-2.0 */
/* Text that grows, and numbers as text.  Numbers read and print alike in every locale. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A growing, NUL-terminated text on the heap.  Start from {0}; text_close frees it. */
typedef struct Text {
  char *at; /* never NULL after the first append */
  size_t n, cap;
} Text;

void text_add(Text *text, const char *bytes, size_t n);
void text_printf(Text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_close(Text *text);
/* n bytes and a newline, as lines of at most TEXT_WIDTH columns: the first begins at `column`, the others at `indent`.  They are
 * broken at blanks; what stands in [] stays together. */
enum { TEXT_WIDTH = 116 };
void text_wrap(Text *text, const char *bytes, size_t n, int column, int indent);

bool text_ends(const char *text, const char *end); /* whether it ends so */

/* Whole-string parses: false on an empty string, trailing characters or overflow.  Decimal point is '.'. */
bool num_parse_double(const char *text, double *value);
bool num_parse_int(const char *text, int64_t *value);

/* The shortest decimal that reads back as the same double (or float): "0.1", "3e-04", "1", "inf", "nan".
 * out has room for NUM_TEXT bytes. */
enum { NUM_TEXT = 40 };
const char *num_double(double value, char out[NUM_TEXT]);
const char *num_float(float value, char out[NUM_TEXT]);

/* Pins this process's number formatting to the C locale; the first call of main. */
void text_pin_locale(void);

/* Whole file as NUL-terminated bytes (malloc'd, *nbytes without the NUL), or NULL with errno set. */
char *file_read(const char *path, size_t *nbytes);

#endif
