/* SPDX-License-Identifier: Apache-2.0 */
/* Randomness as a function: the value depends on (seed, purpose, name, step, element) alone, never on who asks, in what
 * order or how often.  Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

/* What the numbers are for; part of the key, so that purposes never share a stream.  Only append. */
typedef enum RngPurpose {
  RNG_INIT = 1,
  RNG_DATA_ORDER = 2,
  RNG_SAMPLE = 3,
  RNG_DROPOUT = 4,
  RNG_ROUND = 5,
  RNG_FILE_SAMPLE = 6,
  RNG_TEST = 100
} RngPurpose;

typedef struct Rng {
  uint32_t key[2];
  uint64_t step;
} Rng;

/* name may be "" where there is one stream a purpose. */
Rng rng_make(uint64_t seed, RngPurpose purpose, const char *name, uint64_t step);

/* Four uniform 32-bit words for this element. */
void rng_words(const Rng *rng, uint64_t element, uint32_t words[4]);

/* 32 bits by a generator whose text is short enough for the update of every parameter, and which needs products of 32 bits alone:
 * Squares (Widynski, "Squares: a fast counter-based RNG", arXiv 2004.06278, 2020).  key < 2^53, so that a double can hold it: it is
 * made odd and spread over 64 bits, as that generator wants its keys.  Kernels have the same (OP_RANDOM). */
uint32_t rng_bits(uint64_t key, int64_t counter);
uint64_t rng_key53(const Rng *rng); /* a key for it: of (seed, purpose, name, step) */

double rng_uniform(const Rng *rng, uint64_t element); /* in [0,1), 53 bits */
double rng_normal(const Rng *rng, uint64_t element);  /* mean 0, variance 1: Box-Muller, four elements a block of words */
/* out[i] = std · rng_normal(element first + i), for n elements, several times faster. */
void rng_normals(const Rng *rng, uint64_t first, int64_t n, double std, float *out);

/* A keyed permutation of 0…n-1: index i goes to the result; every value comes once.  Four-round Feistel network on the next
 * even power of two, walked until the result is below n (at most 4 rounds of it on average). */
uint64_t rng_permute(const Rng *rng, uint64_t n, uint64_t i);

#endif
