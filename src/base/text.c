/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/text.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/arena.h"
#include "src/base/fail.h"

static void text_reserve(Text *text, size_t more) {
  if (text->n + more + 1 <= text->cap) return;
  size_t cap = text->cap ? text->cap : 256;
  while (cap < text->n + more + 1) cap *= 2;
  text->at = xrealloc(text->at, cap);
  text->cap = cap;
}

void text_add(Text *text, const char *bytes, size_t n) {
  text_reserve(text, n);
  if (n) memcpy(text->at + text->n, bytes, n);
  text->n += n;
  text->at[text->n] = 0;
}

void text_printf(Text *text, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, format, args);
  va_end(args);
  CHECK(n >= 0);
  text_reserve(text, (size_t)n);
  vsnprintf(text->at + text->n, (size_t)n + 1, format, again);
  va_end(again);
  text->n += (size_t)n;
}

void text_close(Text *text) {
  free(text->at);
  *text = (Text){0};
}

/* Where the word at `at` ends, with the blanks before it. */
static size_t word_end(const char *bytes, size_t n, size_t at) {
  int depth = 0;
  while (at < n && bytes[at] == ' ') at++;
  for (; at < n && (bytes[at] != ' ' || depth); at++) depth += (bytes[at] == '[') - (bytes[at] == ']');
  return at;
}

void text_wrap(Text *text, const char *bytes, size_t n, int column, int indent) {
  for (size_t at = 0, end; at < n; at = end) {
    end = word_end(bytes, n, at);
    if (column + (int)(end - at) > TEXT_WIDTH && column > indent) {
      while (bytes[at] == ' ') at++;
      text_printf(text, "\n%*s", indent, "");
      column = indent;
    }
    text_add(text, bytes + at, end - at);
    column += (int)(end - at);
  }
  text_add(text, "\n", 1);
}

bool text_ends(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && !strcmp(text + n - m, end);
}

void text_pin_locale(void) {
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (c) uselocale(c); /* a program that never calls setlocale is in the C locale already; libraries may */
}

bool num_parse_double(const char *text, double *value) {
  if (!*text || *text == ' ') return false;
  char *end;
  errno = 0;
  double v = strtod(text, &end);
  if (*end || (errno == ERANGE && fabs(v) == HUGE_VAL)) return false;
  *value = v;
  return true;
}

bool num_parse_int(const char *text, int64_t *value) {
  if (!*text || *text == ' ') return false;
  char *end;
  errno = 0;
  long long v = strtoll(text, &end, 10);
  if (*end || errno) return false;
  *value = v;
  return true;
}

const char *num_double(double value, char out[NUM_TEXT]) {
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(out, NUM_TEXT, "%.*g", digits, value);
    if (strtod(out, NULL) == value) break;
  }
  return out;
}

const char *num_float(float value, char out[NUM_TEXT]) {
  for (int digits = 1; digits <= 9; digits++) {
    snprintf(out, NUM_TEXT, "%.*g", digits, (double)value);
    if (strtof(out, NULL) == value) break;
  }
  return out;
}

char *file_read(const char *path, size_t *nbytes) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  Text text = {0};
  char part[65536];
  size_t n;
  while ((n = fread(part, 1, sizeof part, f)) > 0) text_add(&text, part, n);
  int error = ferror(f) ? (errno ? errno : EIO) : 0;
  fclose(f);
  if (error) {
    text_close(&text);
    errno = error;
    return NULL;
  }
  text_add(&text, "", 0);
  *nbytes = text.n;
  return text.at;
}
