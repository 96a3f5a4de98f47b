/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled programs on a CPU against the interpreter: random graphs, every op on odd shapes, and the corners by hand; fused
 * and unfused, on one thread and two. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/check.h"
#include "test/unit/device_cases.h"
#include "test/unit/random_graph.h"

/* Sums of float32 in another order than the interpreter's, through some tens of nodes. */
static const double TOLERANCE = 1e-4;

static Choices choices_of(bool unfused, int threads) {
  return (Choices){.units_alive = 2, .unfused = unfused, .matmul = "auto", .threads = threads};
}

/* Fused and unfused are near the interpreter, and the same whatever the threads. */
static void expect_right(const DeviceCases *cases) {
  Choices one = choices_of(false, 1), two = choices_of(false, 2), apart = choices_of(true, 1);
  DeviceResults fused = device_cases_run(cases, &one);
  EXPECT_TEXT(device_compare(cases, &fused, TOLERANCE), "");
  DeviceResults threads = device_cases_run(cases, &two);
  EXPECT_TEXT(device_same_bits(cases, &fused, &threads), "");
  DeviceResults unfused = device_cases_run(cases, &apart);
  EXPECT_TEXT(device_compare(cases, &unfused, TOLERANCE), "");
}

/* --- random graphs ------------------------------------------------------------------------------------------------------ */

static void expect_random_right(int first, int n, RandomSpec spec) {
  DeviceCases *cases = device_cases_open();
  for (int i = 0; i < n; i++) {
    spec.seed = (uint64_t)(first + i);
    const Graph *g = random_graph(cases->arena, spec);
    char label[64];
    snprintf(label, sizeof label, "seed %d", first + i);
    device_cases_add(cases, g, random_values(cases->arena, g, spec.seed), label);
  }
  expect_right(cases);
  device_cases_close(cases);
}

/* More of them: HPCTRAIN_TEST_SEED=1000 test/unit/test_compile. */
static int first_seed(void) {
  const char *seed = getenv("HPCTRAIN_TEST_SEED");
  return seed ? atoi(seed) : 0;
}

TEST(random_graphs_compute_what_the_interpreter_says) {
  expect_random_right(first_seed(), 40, (RandomSpec){.nodes = 40, .big = true, .collectives = true});
}

TEST(random_graphs_with_a_backward_phase_too) {
  expect_random_right(first_seed() + 500, 30, (RandomSpec){.nodes = 60, .big = true, .phases = true});
}

TEST(random_views_of_views_too) { expect_random_right(first_seed(), 40, (RandomSpec){.nodes = 30, .views = true}); }
