/* SPDX-License-Identifier: Apache-2.0 */
/* A fuzz target is a program test/fuzz/fuzz_x.c that defines fuzz_target.  It is built in two ways:
 *   by default, with driver.c: cases are made from the seeds by a fixed sequence of changes, for some seconds (a row of the suite);
 *   by `configure CC=clang --enable-fuzz`, with libfuzzer.c: libFuzzer finds its cases by what code they reach.
 * Whatever the bytes are, one() must come back: an exit, by fail() too, a signal, ten seconds or a gigabyte are findings. */
#ifndef TEST_FUZZ_FUZZ_H
#define TEST_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "src/base/arena.h"

enum { FUZZ_SEEDS = 64 };

typedef struct FuzzBytes {
  const uint8_t *at;
  size_t n;
} FuzzBytes;

typedef struct FuzzTarget {
  const char *name; /* of its test: what holds */
  void (*one)(const uint8_t *bytes, size_t n);
  int (*seeds)(Arena *arena, FuzzBytes seeds[FUZZ_SEEDS]); /* good input; how many, at least one; called once, before any case */
  const char *const *words;                                /* what is put into cases as a whole; NULL at the end, or no list */
  size_t most;                                             /* bytes of a case */
} FuzzTarget;

extern const FuzzTarget fuzz_target;

FuzzBytes fuzz_text(const char *text);               /* without its NUL */
FuzzBytes fuzz_file(Arena *arena, const char *name); /* of the sources: "test/golden/x/config.json"; must be there */
const char *fuzz_folder(void); /* a folder of this process's own, for what wants files: in $FUZZ_FOLDER, else in memory */
void fuzz_put(const char *path, const void *bytes, size_t n); /* a file there */

/* Case number i of a seed: the same bytes every time.  Gives their number, at most target->most; out has room for so many. */
size_t fuzz_mutate(const FuzzTarget *target, const FuzzBytes *seeds, int n_seeds, uint64_t seed, uint64_t i, uint8_t *out);

#endif
