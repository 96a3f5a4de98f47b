/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/utf8.h"

#include <string.h>

static int is_tail(unsigned char b) { return (b & 0xC0) == 0x80; }

int utf8_next(const char *at, size_t n, uint32_t *c) {
  const unsigned char *s = (const unsigned char *)at;
  if (s[0] < 0x80) return *c = s[0], 1;
  if (s[0] < 0xC2 || s[0] > 0xF4) return -1;
  int length = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
  unsigned char low = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80, high = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
  if (n < 2 || s[1] < low || s[1] > high) return -1;
  uint32_t value = (uint32_t)(s[0] & (0x7F >> length)) << 6 | (s[1] & 0x3F);
  for (int i = 2; i < length; i++) {
    if ((size_t)i >= n || !is_tail(s[i])) return -i;
    value = value << 6 | (s[i] & 0x3F);
  }
  *c = value;
  return length;
}

int utf8_read(const char *at, uint32_t *c) {
  const unsigned char *s = (const unsigned char *)at;
  if (s[0] < 0x80) return *c = s[0], 1;
  if (s[0] < 0xE0) return *c = (s[0] & 0x1Fu) << 6 | (s[1] & 0x3Fu), 2;
  if (s[0] < 0xF0) return *c = (s[0] & 0x0Fu) << 12 | (s[1] & 0x3Fu) << 6 | (s[2] & 0x3Fu), 3;
  return *c = (s[0] & 0x07u) << 18 | (s[1] & 0x3Fu) << 12 | (s[2] & 0x3Fu) << 6 | (s[3] & 0x3Fu), 4;
}

int utf8_write(uint32_t c, char out[4]) {
  if (c < 0x80) return out[0] = (char)c, 1;
  int length = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (int i = length - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3F));
  out[0] = (char)((0xF00 >> length & 0xF0) | c);
  return length;
}

size_t utf8_before(const char *text, size_t at) {
  do at--;
  while (is_tail((unsigned char)text[at]));
  return at;
}

static bool is_space(uint32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

size_t utf8_spaces(const char *text, size_t n) {
  size_t at = 0;
  uint32_t c;
  for (int length; at < n && (length = utf8_read(text + at, &c), is_space(c));) at += (size_t)length;
  return at;
}

size_t utf8_trimmed(const char *text, size_t n) {
  uint32_t c;
  for (size_t at; n && (at = utf8_before(text, n), utf8_read(text + at, &c), is_space(c));) n = at;
  return n;
}

size_t utf8_valid(const char *text, size_t n) {
  size_t at = 0;
  while (at < n) {
    uint64_t eight;
    if (at + 8 <= n && (memcpy(&eight, text + at, 8), !(eight & 0x8080808080808080u))) {
      at += 8;
      continue;
    }
    uint32_t c;
    int length = utf8_next(text + at, n - at, &c);
    if (length < 0) return at;
    at += (size_t)length;
  }
  return n;
}

void utf8_repair(const char *text, size_t n, Text *out) {
  text_add(out, "", 0);
  while (n) {
    size_t good = utf8_valid(text, n);
    text_add(out, text, good);
    text += good;
    if (!(n -= good)) break;
    uint32_t c;
    int bad = -utf8_next(text, n, &c);
    text_add(out, "\xEF\xBF\xBD", 3);
    text += bad;
    n -= (size_t)bad;
  }
}

void utf8_escape(const char *text, size_t n, Text *out) {
  while (n) {
    size_t good = utf8_valid(text, n);
    text_add(out, text, good);
    text += good;
    if (!(n -= good)) break;
    char escaped[4];
    text_add(out, escaped, (size_t)utf8_write(0xDC00u + (unsigned char)*text, escaped));
    text++;
    n--;
  }
}

void utf8_unescape(const char *text, size_t n, Text *out) {
  for (size_t at = 0; at < n;) {
    uint32_t c;
    int length = utf8_read(text + at, &c), byte = utf8_escaped(c);
    text_add(out, byte < 0 ? text + at : &(char){(char)byte}, byte < 0 ? (size_t)length : 1);
    at += (size_t)length;
  }
}
