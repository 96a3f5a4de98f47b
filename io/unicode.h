/* SPDX-License-Identifier: Apache-2.0 */
/* Unicode's normalisation forms (UAX 15) and lower case, by ICU, in a module that is loaded when a tokenizer asks for one. */
#ifndef IO_UNICODE_H
#define IO_UNICODE_H

#include <stdbool.h>
#include <stddef.h>

#include "src/base/fail.h"
#include "src/base/text.h"

typedef enum UnicodeForm { UNICODE_NFC, UNICODE_NFD, UNICODE_NFKC, UNICODE_NFKD, UNICODE_LOWER, UNICODE_FORMS } UnicodeForm;

/* What the module exports as hpctrain_icu.  Text is made of whole characters, escaped bytes (utf8.h) among them. */
typedef struct UnicodeModule {
  size_t size; /* of this, as a sign that both are of one build */
  bool (*normalize)(UnicodeForm form, const char *text, size_t n, Text *out);
} UnicodeModule;

bool try_unicode_open(Why *why); /* loads the module once; before any thread normalises */
/* Appends; threads may at once.  False: the text, or what it becomes, has more than 2^31 - 1 units of 16 bits. */
bool unicode_normalize(UnicodeForm form, const char *text, size_t n, Text *out);

#endif
