/* SPDX-License-Identifier: Apache-2.0 */
/* A target with a fault of its own, that the driver must find: any case that holds a 7 where the seed has none. */
#include <stdlib.h>
#include <string.h>

#include "src/base/fail.h"
#include "test/fuzz/fuzz.h"

static void find_fault(const uint8_t *bytes, size_t n) {
  const char *fault = getenv("FAULT");
  if (!n || !memchr(bytes, '7', n)) return;
  if (fault && !strcmp(fault, "signal")) abort();
  if (fault && !strcmp(fault, "fail")) fail(FAIL_INPUT, "a planted fault");
  if (fault && !strcmp(fault, "memory")) memset(xmalloc(3ull << 29), 1, 3ull << 29);
}

static int make_seeds(Arena *arena, FuzzBytes seeds[FUZZ_SEEDS]) {
  (void)arena;
  seeds[0] = fuzz_text("a number: 12");
  return 1;
}

const FuzzTarget fuzz_target = {"planted", find_fault, make_seeds, NULL, 64};
