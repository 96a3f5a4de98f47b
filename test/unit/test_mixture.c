/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "src/base/rng.h"
#include "src/train/mixture.h"
#include "test/check.h"

static Mixture make(Arena *arena, const double *weights, int n) {
  Mixture m;
  int small;
  EXPECT(try_mixture_make(arena, weights, n, &m, &small));
  return m;
}

/* After each of so many numbers every source is within one of its share, and its own numbers come in order. */
static void expect_fair(const Mixture *m, const double *weights, int64_t numbers, double slack) {
  double sum = 0;
  int64_t taken[64] = {0}, bad = 0;
  for (int i = 0; i < m->n; i++) sum += weights[i];
  for (int64_t number = 0; number < numbers; number++) {
    int64_t own;
    int source = mixture_source(m, number, &own);
    bad += own != taken[source]++;
    for (int i = 0; i < m->n; i++) bad += !(fabs((double)taken[i] - (double)(number + 1) * weights[i] / sum) < 1 + slack);
  }
  EXPECT(bad == 0);
}

TEST(every_prefix_holds_each_source_by_its_share_to_less_than_one) {
  Arena *arena = arena_open();
  static const double rows[][5] = {{1},    {0.9, 0.1},     {1, 1, 1},   {0.5, 0.25, 0.125, 0.125},
                                   {7, 3}, {0.333, 0.667}, {1e6, 1, 1}, {2, 3, 5, 7, 11}};
  static const int32_t periods[] = {1, 10, 3, 8, 10, 1000, 1000002, 28};
  for (int r = 0; r < 8; r++) {
    int n = 0;
    while (n < 5 && rows[r][n] > 0) n++;
    Mixture m = make(arena, rows[r], n);
    EXPECT(m.period == periods[r]);
    expect_fair(&m, rows[r], 2 * m.period + 17 < 100000 ? 2 * m.period + 17 : 100000, 1e-9);
  }
  arena_close(arena);
}

TEST(random_weights_are_kept_too) {
  Arena *arena = arena_open();
  for (uint64_t seed = 0; seed < 40; seed++) {
    Rng rng = rng_make(seed, RNG_TEST, "", 0);
    double weights[12];
    int n = 2 + (int)(seed % 11);
    for (int i = 0; i < n; i++) weights[i] = floor(1 + 300 * rng_uniform(&rng, (uint64_t)i));
    Mixture m = make(arena, weights, n);
    EXPECT(m.period < MIXTURE_PERIOD);
    expect_fair(&m, weights, 3 * m.period, 1e-9);
  }
  arena_close(arena);
}

TEST(weights_that_no_period_fits_are_rounded_to_the_longest) {
  Arena *arena = arena_open();
  const double weights[] = {M_PI, M_E, M_SQRT2};
  Mixture m = make(arena, weights, 3);
  EXPECT(m.period == MIXTURE_PERIOD && m.share[0] + m.share[1] + m.share[2] == m.period);
  expect_fair(&m, weights, m.period, 1);
  int small;
  EXPECT(!try_mixture_make(arena, (double[]){1, 1e-8}, 2, &m, &small) && small == 1);
  arena_close(arena);
}

TEST(half_a_turn_is_one) {
  Arena *arena = arena_open();
  const double weights[] = {1, 2 * MIXTURE_PERIOD - 1};
  Mixture two = make(arena, weights, 2);
  EXPECT(two.period == MIXTURE_PERIOD && two.share[0] == 1 && two.share[1] == MIXTURE_PERIOD - 1);
  expect_fair(&two, weights, MIXTURE_PERIOD, 1);
  Mixture three = make(arena, (double[]){1, 2 * MIXTURE_PERIOD - 2, 1}, 3);
  EXPECT(three.share[0] == 1 && three.share[1] == MIXTURE_PERIOD - 2 && three.share[2] == 1);
  arena_close(arena);
}

TEST(a_sources_number_leads_back_to_the_streams) {
  Arena *arena = arena_open();
  Mixture m = make(arena, (double[]){5, 2, 4}, 3);
  for (int64_t number = 0; number < 1000; number++) {
    int64_t own;
    int source = mixture_source(&m, number, &own);
    EXPECT(mixture_number(&m, source, own) == number);
  }
  arena_close(arena);
}
