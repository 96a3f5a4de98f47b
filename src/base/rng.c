/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/rng.h"

#include <math.h>

#include "src/base/fail.h"
#include "src/base/hash.h"

static void philox(const uint32_t key[2], uint32_t c[4]) {
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; round++) {
    uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k0, (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k1, (uint32_t)a};
    for (int i = 0; i < 4; i++) c[i] = next[i];
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

Rng rng_make(uint64_t seed, RngPurpose purpose, const char *name, uint64_t step) {
  Sha256 s;
  sha256_init(&s);
  uint64_t head[2] = {seed, (uint64_t)purpose};
  sha256_add(&s, head, sizeof head);
  sha256_add_text(&s, name);
  uint64_t key = sha256_u64(&s);
  return (Rng){{(uint32_t)key, (uint32_t)(key >> 32)}, step};
}

void rng_words(const Rng *rng, uint64_t element, uint32_t words[4]) {
  words[0] = (uint32_t)element;
  words[1] = (uint32_t)(element >> 32);
  words[2] = (uint32_t)rng->step;
  words[3] = (uint32_t)(rng->step >> 32);
  philox(rng->key, words);
}

uint32_t rng_bits(uint64_t key, int64_t counter) {
  key = (2 * key + 1) * 0x9E3779B97F4A7C15u;
  uint64_t x = (uint64_t)counter * key, y = x, z = y + key;
  x = x * x + y;
  x = x >> 32 | x << 32;
  x = x * x + z;
  x = x >> 32 | x << 32;
  x = x * x + y;
  x = x >> 32 | x << 32;
  return (uint32_t)((x * x + z) >> 32);
}

uint64_t rng_key53(const Rng *rng) {
  uint32_t w[4];
  rng_words(rng, 0, w);
  return ((uint64_t)w[0] << 32 | w[1]) >> 11;
}

static double uniform53(uint32_t high, uint32_t low) { return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53; }

double rng_uniform(const Rng *rng, uint64_t element) {
  uint32_t w[4];
  rng_words(rng, element, w);
  return uniform53(w[0], w[1]);
}

/* The normals of elements 4·block … 4·block + 3. */
static void normal_block(const Rng *rng, uint64_t block, double normal[4]) {
  uint32_t w[4];
  rng_words(rng, block, w);
  for (int i = 0; i < 4; i += 2) {
    double u = ((double)w[i] + 1) * 0x1p-32, angle = 2 * M_PI * 0x1p-32 * w[i + 1]; /* u in (0,1] */
    double radius = sqrt(-2 * log(u));
    normal[i] = radius * cos(angle);
    normal[i + 1] = radius * sin(angle);
  }
}

double rng_normal(const Rng *rng, uint64_t element) {
  double normal[4];
  normal_block(rng, element / 4, normal);
  return normal[element % 4];
}

void rng_normals(const Rng *rng, uint64_t first, int64_t n, double std, float *out) {
  double normal[4];
  for (int64_t i = 0; i < n; i++) {
    uint64_t element = first + (uint64_t)i;
    if (i == 0 || element % 4 == 0) normal_block(rng, element / 4, normal);
    out[i] = (float)(std * normal[element % 4]);
  }
}

uint64_t rng_permute(const Rng *rng, uint64_t n, uint64_t i) {
  CHECK(i < n && n <= UINT64_C(1) << 62);
  int half = 1;
  while (n > UINT64_C(1) << 2 * half) half++;
  uint64_t mask = (UINT64_C(1) << half) - 1;
  do {
    uint64_t left = i >> half, right = i & mask;
    for (uint64_t round = 0; round < 4; round++) {
      uint32_t w[4];
      rng_words(rng, right << 2 | round, w);
      uint64_t next = left ^ (((uint64_t)w[1] << 32 | w[0]) & mask);
      left = right;
      right = next;
    }
    i = left << half | right;
  } while (i >= n);
  return i;
}
