/* SPDX-License-Identifier: Apache-2.0 */
#include "io/unicode.h"

#include "src/base/module.h"

static const UnicodeModule *module;

bool try_unicode_open(Why *why) {
  if (module) return true;
  const UnicodeModule *found = module_symbol("hpctrain_icu.so", "hpctrain_icu", why);
  if (!found) return false;
  if (found->size != sizeof *found)
    return why_not(why, "hpctrain_icu.so is of another build than this program\nhelp: install both from one build");
  module = found;
  return true;
}

bool unicode_normalize(UnicodeForm form, const char *text, size_t n, Text *out) {
  size_t ascii = 0;
  while (form != UNICODE_LOWER && ascii < n && (unsigned char)text[ascii] < 0x80) ascii++;
  if (ascii < n || form == UNICODE_LOWER) return module->normalize(form, text, n, out);
  text_add(out, text, n); /* is every form of itself */
  return true;
}
