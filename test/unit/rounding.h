/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel of all that rounds to 16 bits, to nearest and by chance, on the numbers that may go wrong. */
#ifndef TEST_UNIT_ROUNDING_H
#define TEST_UNIT_ROUNDING_H

#include "src/fuse/fuse.h"

enum { ROUNDING_FLOATS = 65536 * 12 + 100000, ROUNDING_OUTPUTS = 8 };

typedef struct RoundingCase {
  Kernel *kernel;
  void *in, *out[ROUNDING_OUTPUTS];
  size_t in_bytes, out_bytes[ROUNDING_OUTPUTS];
} RoundingCase;

/* Of the first n floats. */
RoundingCase rounding_case(Arena *arena, int64_t n);
/* "" when out is as the host's conversions have it: the same bits, but that any NaN is as good as another. */
const char *rounding_compare(const RoundingCase *c);

#endif
