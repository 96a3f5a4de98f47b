/* SPDX-License-Identifier: Apache-2.0 */
/* Random fused kernels with data, and what they should compute.  The same seed gives the same kernel. */
#ifndef TEST_UNIT_RANDOM_KERNEL_H
#define TEST_UNIT_RANDOM_KERNEL_H

#include "src/fuse/fuse.h"

typedef struct KernelCase {
  Arena *arena;
  Kernel *kernel;
  size_t nbytes;
  char *memory;  /* before the run: inputs, and a pattern in what only outputs cover */
  size_t *at;    /* inputs, then outputs: bytes into memory where the access starts */
  double *error; /* of each value: a bound of what float arithmetic may do to it */
} KernelCase;

KernelCase *kernel_random(Arena *arena, uint64_t seed);

/* "" when memory is what a run of the case should leave: outputs near their values in double, everything else untouched;
 * otherwise what is wrong, valid until the next call. */
const char *kernel_compare(const KernelCase *c, const void *memory);

/* All elements of every value in double: rows x columns, ROW and CONST values repeated; COLUMN: blocks x columns. */
double **kernel_evaluate(const KernelCase *c);

#endif
