/* SPDX-License-Identifier: Apache-2.0 */
/* Rounding by chance to bf16, and the generator that it draws from.  Statistics are of fixed keys, so that they come out alike each
 * time; bounds are of five standard errors. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/dtype.h"
#include "src/base/rng.h"
#include "test/check.h"

enum { N = 1 << 18 };

static uint64_t key_of(const char *unit, uint64_t step) {
  Rng rng = rng_make(1, RNG_ROUND, unit, step);
  return rng_key53(&rng);
}

/* --- the generator ------------------------------------------------------------------------------------------------------ */

/* squares32, written again from the paper's text. */
static uint32_t squares(uint64_t ctr, uint64_t key) {
  uint64_t x = ctr * key, y = x, z = y + key;
  for (int round = 0; round < 3; round++) {
    x = x * x + (round % 2 ? z : y);
    x = x >> 32 | x << 32;
  }
  return (uint32_t)((x * x + z) >> 32);
}

TEST(bits_are_those_of_squares_with_an_odd_key) {
  for (uint64_t k = 0; k < 1000; k++) {
    uint64_t key = key_of("unit", k), counter = key_of("counter", k);
    EXPECT(key < UINT64_C(1) << 53);
    EXPECT(rng_bits(key, (int64_t)counter) == squares(counter, (2 * key + 1) * UINT64_C(0x9E3779B97F4A7C15)));
  }
}

/* Of as many fair coins: how far from half of them are heads, in standard errors. */
static double excess(int64_t heads, int64_t coins) { return fabs((double)heads - (double)coins / 2) / (sqrt((double)coins) / 2); }

static void count_bits(uint32_t word, int64_t heads[32]) {
  for (int b = 0; b < 32; b++) heads[b] += word >> b & 1;
}

static void expect_fair(const int64_t heads[32], int64_t coins) {
  for (int b = 0; b < 32; b++) EXPECT(excess(heads[b], coins) < 5);
}

TEST(each_bit_is_a_fair_coin) {
  static const int64_t starts[] = {0, INT64_C(1) << 31, INT64_C(1) << 40};
  for (int s = 0; s < 3; s++) {
    int64_t heads[32] = {0};
    uint64_t key = key_of("layers.0", (uint64_t)s);
    for (int64_t i = 0; i < N; i++) count_bits(rng_bits(key, starts[s] + i), heads);
    expect_fair(heads, N);
  }
}

/* Two streams agree in a bit as often as not: two steps that follow one another, two units, an element and the ones after it, an
 * element and the same one of the next shard, and the two halves of a draw. */
TEST(streams_know_nothing_of_one_another) {
  uint64_t a = key_of("layers.0", 1), keys[] = {key_of("layers.0", 2), key_of("layers.1", 1), a, a, a, a + 1};
  static const int64_t lags[] = {0, 0, 1, 2, 1 << 20, 0};
  for (size_t k = 0; k < sizeof lags / sizeof *lags; k++) {
    int64_t heads[32] = {0}, halves[32] = {0};
    for (int64_t i = 0; i < N; i++) {
      uint32_t x = rng_bits(a, i), y = rng_bits(keys[k], i + lags[k]);
      count_bits(x ^ y, heads);
      count_bits(x ^ (y >> 16 | y << 16), halves);
    }
    expect_fair(heads, N);
    expect_fair(halves, N);
  }
}

/* Pearson's chi square of the upper and the lower byte of each half: 255 degrees of freedom, of deviation sqrt(510). */
TEST(bytes_are_uniform) {
  for (int shift = 0; shift < 32; shift += 8) {
    int64_t count[256] = {0};
    double chi = 0, due = N / 256.0;
    uint64_t key = key_of("embed", 9);
    for (int64_t i = 0; i < N; i++) count[rng_bits(key, i) >> shift & 255]++;
    for (int b = 0; b < 256; b++) chi += ((double)count[b] - due) * ((double)count[b] - due) / due;
    EXPECT(fabs(chi - 255) < 5 * sqrt(510));
  }
}

/* Keys of neighbouring steps at one element: what that element sees over time. */
TEST(an_element_sees_fair_coins_over_the_steps) {
  enum { STEPS = 20000 };
  int64_t heads[32] = {0}, turns[32] = {0};
  uint32_t last = 0;
  for (uint64_t step = 0; step < STEPS; step++) {
    uint32_t now = rng_bits(key_of("layers.3", step), 12345);
    count_bits(now, heads);
    count_bits(now ^ last, turns);
    last = now;
  }
  expect_fair(heads, STEPS);
  expect_fair(turns, STEPS);
}

/* --- rounding ------------------------------------------------------------------------------------------------------------- */

static float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

TEST(what_a_bf16_can_hold_stays_as_it_is) {
  static const uint32_t draws[] = {0, 1, 0x7fff, 0x8000, 0xffff, 0x10000, 0xffffffff};
  for (uint32_t h = 0; h < 65536; h++)
    for (size_t d = 0; d < sizeof draws / sizeof *draws; d++) {
      float x = bf16_value((uint16_t)h);
      uint16_t is = bf16_dither(x, draws[d]);
      EXPECT(isnan(x) ? isnan(bf16_value(is)) : is == h);
    }
}

/* Of every distance between two neighbours, zero and subnormals included: up in just as many of all 65536 draws as it says. */
TEST(the_chance_of_rounding_up_is_the_distance) {
  static const uint32_t uppers[] = {0, 1, 0x007f, 0x0080, 0x3f80, 0x3fff, 0x7f7e, 0x8000, 0x8001, 0xbf81, 0xff7e};
  static const uint32_t lowers[] = {1, 2, 0x1234, 0x7fff, 0x8000, 0xfffe, 0xffff};
  for (size_t u = 0; u < sizeof uppers / sizeof *uppers; u++)
    for (size_t l = 0; l < sizeof lowers / sizeof *lowers; l++) {
      uint32_t up = 0;
      for (uint32_t draw = 0; draw < 65536; draw++) {
        uint32_t is = bf16_dither(float_of(uppers[u] << 16 | lowers[l]), draw | draw << 16);
        EXPECT(is == uppers[u] || is == uppers[u] + 1);
        up += is != uppers[u];
      }
      EXPECT(up == lowers[l]);
    }
}

TEST(what_is_finite_stays_finite_and_nothing_else_becomes_so) {
  static const uint32_t beyond[] = {0x7f7f0001, 0x7f7f8000, 0x7f7fffff};
  for (int i = 0; i < 3; i++)
    for (uint32_t draw = 0; draw < 65536; draw += 0xff) {
      EXPECT(bf16_dither(float_of(beyond[i]), draw) == 0x7f7f);
      EXPECT(bf16_dither(-float_of(beyond[i]), draw) == 0xff7f);
      EXPECT(bf16_dither(INFINITY, draw) == 0x7f80 && bf16_dither(-INFINITY, draw) == 0xff80);
      EXPECT(isnan(bf16_value(bf16_dither(float_of(0x7f800001), draw))) && isnan(bf16_value(bf16_dither(-NAN, draw))));
    }
}

/* Numbers of all sizes, each with a draw of its own: what rounding loses adds up to nothing, in units of the last place. */
TEST(errors_cancel) {
  double sum = 0, square = 0;
  Rng rng = rng_make(5, RNG_TEST, "numbers", 0);
  uint64_t key = key_of("layers.0", 3);
  for (int64_t i = 0; i < N; i++) {
    float x = (float)rng_normal(&rng, (uint64_t)i);
    int e;
    frexpf(x, &e);
    double error = ldexp((double)bf16_value(bf16_dither(x, rng_bits(key, i))) - (double)x, 8 - e);
    EXPECT(fabs(error) < 1);
    sum += error;
    square += error * error;
  }
  EXPECT(fabs(sum) < 5 * sqrt(square));
  EXPECT_NEAR(square / N, 1 / 6.0, 0.01); /* the mean of p(1-p) */
}

/* What to nearest would never leave: a mean that decays by 1 in 1000. */
TEST(small_changes_are_not_lost) {
  float nearest = 1, dithered = 1;
  for (uint64_t step = 0; step < 3000; step++) {
    nearest = dtype_round(DT_BF16, nearest * 0.999f);
    dithered = bf16_value(bf16_dither(dithered * 0.999f, rng_bits(key_of("layers.1", step), 7)));
  }
  EXPECT(nearest == 1 && dithered > 0.03 && dithered < 0.08); /* 0.0497 in exact numbers */
}
