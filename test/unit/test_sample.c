/* SPDX-License-Identifier: Apache-2.0 */
/* Which token comes next: by probabilities, by the largest alone, by few. */
#include <math.h>
#include <stdlib.h>

#include "src/train/sample.h"
#include "test/check.h"

enum { N = 5, DRAWS = 1000 };

/* Probabilities 0.1, 0.4, 0.05, 0.25, 0.2 at temperature 1. */
static void make_logits(float logits[N]) {
  static const double share[N] = {0.1, 0.4, 0.05, 0.25, 0.2};
  for (int i = 0; i < N; i++) logits[i] = (float)(log(share[i]) + 3);
}

/* How often each comes of equally spaced draws. */
static void count(Sampling how, int times[N]) {
  float logits[N];
  make_logits(logits);
  for (int i = 0; i < N; i++) times[i] = 0;
  for (int k = 0; k < DRAWS; k++) {
    int32_t id = sample(&how, logits, N, (k + 0.5) / DRAWS);
    EXPECT(id >= 0 && id < N);
    times[id]++;
  }
}

static void expect_times(Sampling how, const int want[N]) {
  int times[N];
  count(how, times);
  for (int i = 0; i < N; i++) EXPECT(abs(times[i] - want[i]) <= 1);
}

TEST(tokens_come_as_often_as_they_are_likely) {
  expect_times((Sampling){.temperature = 1, .top_p = 1}, (int[N]){100, 400, 50, 250, 200});
  /* squares of the shares, over their sum 0.275 */
  expect_times((Sampling){.temperature = 0.5, .top_p = 1}, (int[N]){36, 582, 9, 227, 145});
}

TEST(at_temperature_0_the_largest_comes) {
  expect_times((Sampling){.temperature = 0, .top_p = 1}, (int[N]){0, DRAWS, 0, 0, 0});
  EXPECT(sample(&(Sampling){.top_p = 1}, (float[]){1, 2, 2, 0}, 4, 0.99) == 1); /* the first of equal ones */
}

TEST(top_k_keeps_the_largest) {
  expect_times((Sampling){.temperature = 1, .top_p = 1, .top_k = 2}, (int[N]){0, 615, 0, 385, 0});
  expect_times((Sampling){.temperature = 1, .top_p = 1, .top_k = 9}, (int[N]){100, 400, 50, 250, 200});
  EXPECT(sample(&(Sampling){.temperature = 1, .top_p = 1, .top_k = 1}, (float[]){1, 2, 2, 0}, 4, 0.99) == 1);
}

TEST(top_p_keeps_the_fewest_that_are_enough) {
  expect_times((Sampling){.temperature = 1, .top_p = 0.6}, (int[N]){0, 615, 0, 385, 0}); /* 0.4 + 0.25 */
  expect_times((Sampling){.temperature = 1, .top_p = 0.9}, (int[N]){105, 421, 0, 263, 211});
  expect_times((Sampling){.temperature = 1, .top_p = 1e-9}, (int[N]){0, DRAWS, 0, 0, 0});
  expect_times((Sampling){.temperature = 1, .top_p = 0}, (int[N]){0, DRAWS, 0, 0, 0});
  /* of the three that top_k leaves, two have 0.65 / 0.85 */
  expect_times((Sampling){.temperature = 1, .top_p = 0.7, .top_k = 3}, (int[N]){0, 615, 0, 385, 0});
}

/* As transformers' RepetitionPenaltyLogitsProcessor has it. */
TEST(tokens_that_were_there_are_penalised_once_away_from_the_top) {
  const float logits[4] = {1, -1, 2, 0.5f};
  const int32_t ids[] = {1, 2, 1, 4, 2};
  float out[4];
  sample_penalise(logits, 4, 1.25, ids, 5, out);
  EXPECT(out[0] == 1 && out[1] == -1.25f && out[2] == 1.6f && out[3] == 0.5f);
}

TEST(what_is_not_finite_is_told) {
  EXPECT(sample(&(Sampling){.temperature = 1, .top_p = 1}, (float[]){1, NAN}, 2, 0) == -1);
  EXPECT(sample(&(Sampling){.top_p = 1}, (float[]){INFINITY, 0}, 2, 0) == -1);
}
