/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest tiktoken file: all bytes, which each must have, and two pieces more, "ab" and " the". */
#ifndef TEST_TIKTOKEN_RANKS_H
#define TEST_TIKTOKEN_RANKS_H

#include "src/base/text.h"

static inline void tiktoken_ranks(Text *out) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (int b = 0; b < 256; b++) text_printf(out, "%c%c== %d\n", digits[b >> 2], digits[(b & 3) << 4], b);
  text_printf(out, "YWI= 256\nIHRoZQ== 257\n");
}

#endif
