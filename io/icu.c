/* SPDX-License-Identifier: Apache-2.0 */
/* The module of Unicode's forms: ICU, whose own text is UTF-16. */
#include <stdlib.h>
#include <unicode/uchar.h>
#include <unicode/unorm2.h>

#include "io/unicode.h"
#include "src/base/arena.h"
#include "src/base/utf8.h"

static const UNormalizer2 *normalizer(UnicodeForm form) {
  UErrorCode error = U_ZERO_ERROR;
  const UNormalizer2 *n = form == UNICODE_NFC    ? unorm2_getNFCInstance(&error)
                          : form == UNICODE_NFD  ? unorm2_getNFDInstance(&error)
                          : form == UNICODE_NFKC ? unorm2_getNFKCInstance(&error)
                                                 : unorm2_getNFKDInstance(&error);
  if (U_FAILURE(error)) fail(FAIL_MACHINE, "ICU: no normalizer: %s", u_errorName(error));
  return n;
}

static UChar *to_utf16(const char *text, size_t n, int32_t *length) {
  UChar *out = xmalloc(sizeof *out * (n + 1)); /* no character has more units than bytes */
  *length = 0;
  for (size_t at = 0; at < n;) {
    uint32_t c;
    at += (size_t)utf8_read(text + at, &c);
    U16_APPEND_UNSAFE(out, *length, c);
  }
  return out;
}

static void from_utf16(const UChar *in, int32_t n, Text *out) {
  char bytes[4];
  for (int32_t at = 0; at < n;) {
    UChar32 c;
    U16_NEXT(in, at, n, c);
    text_add(out, bytes, (size_t)utf8_write((uint32_t)c, bytes));
  }
}

/* A character at a time, as Rust's char::to_lowercase: U+0130 is the one that becomes two. */
static void lower(const char *text, size_t n, Text *out) {
  for (size_t at = 0; at < n;) {
    uint32_t c;
    char bytes[4];
    at += (size_t)utf8_read(text + at, &c);
    if (c == 0x130)
      text_add(out, "i\xCC\x87", 3);
    else
      text_add(out, bytes, (size_t)utf8_write((uint32_t)u_tolower((UChar32)c), bytes));
  }
}

/* ICU counts units in 32 bits, and room for twice as many is enough for nearly all texts. */
static bool normalize(UnicodeForm form, const char *text, size_t n, Text *out) {
  if (form == UNICODE_LOWER) return lower(text, n, out), true;
  if (n > INT32_MAX) return false;
  int32_t length;
  UErrorCode error = U_ZERO_ERROR;
  UChar *in = to_utf16(text, n, &length);
  int32_t room = length < (INT32_MAX - 64) / 2 ? 2 * length + 64 : INT32_MAX, made;
  UChar *made_at = xmalloc(sizeof *made_at * (size_t)room);
  made = unorm2_normalize(normalizer(form), in, length, made_at, room, &error);
  if (error == U_BUFFER_OVERFLOW_ERROR && made > room) {
    error = U_ZERO_ERROR;
    made_at = xrealloc(made_at, sizeof *made_at * (size_t)made);
    made = unorm2_normalize(normalizer(form), in, length, made_at, made, &error);
  }
  if (U_SUCCESS(error)) from_utf16(made_at, made, out);
  free(made_at);
  free(in);
  return U_SUCCESS(error);
}

extern const UnicodeModule hpctrain_icu;
const UnicodeModule hpctrain_icu = {sizeof(UnicodeModule), normalize};
