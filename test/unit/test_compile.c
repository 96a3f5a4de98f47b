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

/* Others: HPCTRAIN_TEST_SEED=1000 test/unit/test_compile. */
static int first_seed(void) {
  const char *seed = getenv("HPCTRAIN_TEST_SEED");
  return seed ? atoi(seed) : 0;
}

TEST(random_graphs_compute_what_the_interpreter_says) {
  expect_random_right(first_seed(), 24, (RandomSpec){.nodes = 40, .big = true, .collectives = true});
}

TEST(random_graphs_with_a_backward_phase_too) {
  expect_random_right(first_seed() + 500, 18, (RandomSpec){.nodes = 60, .big = true, .phases = true});
}

TEST(random_views_of_views_too) { expect_random_right(first_seed(), 24, (RandomSpec){.nodes = 30, .views = true}); }

/* --- programs that write what they read --------------------------------------------------------------------------------- */

#define VARS                                                                                                                       \
  "var state \"a\" f32[6,4]\nvar state \"b\" f32[6,4]\nvar carry \"c\" f32[48]\nvar state \"n\" f32[]\nvar output \"o\" "          \
  "f32[6,4]\n"
#define LOADS "%0 = load \"a\" : f32[6,4] @0 fwd\n%1 = load \"b\" : f32[6,4] @0 fwd\n%2 = load \"c\" : f32[48] @0 fwd\n"

static const struct {
  const char *label, *text;
} hazards[] = {
    {"two Vars change places", VARS LOADS "%3 = store %1 \"a\" : f32[6,4] @0 fwd\n%4 = store %0 \"b\" : f32[6,4] @0 fwd\n"},
    {"three Vars move on", VARS LOADS "%3 = slice %2 axis=0 lo=8 hi=32 : f32[24] @0 fwd\n"
                                      "%4 = reshape %3 : f32[6,4] @0 fwd\n"
                                      "%5 = store %4 \"a\" : f32[6,4] @0 fwd\n"
                                      "%6 = store %0 \"b\" : f32[6,4] @0 fwd\n"
                                      "%7 = reshape %1 : f32[24] @0 fwd\n"
                                      "%8 = neg %7 : f32[24] @0 fwd\n"
                                      "%9 = concat %7 %8 axis=0 : f32[48] @0 fwd\n"
                                      "%10 = store %9 \"c\" : f32[48] @0 fwd\n"},
    {"a Var is turned over in place", VARS LOADS "%3 = slice %2 axis=0 lo=24 hi=48 : f32[24] @0 fwd\n"
                                                 "%4 = slice %2 axis=0 lo=0 hi=24 : f32[24] @0 fwd\n"
                                                 "%5 = concat %3 %4 axis=0 : f32[48] @0 fwd\n"
                                                 "%6 = store %5 \"c\" : f32[48] @0 fwd\n"},
    {"a Var is shifted within itself", VARS LOADS "%3 = slice %2 axis=0 lo=1 hi=48 : f32[47] @0 fwd\n"
                                                  "%4 = slice %2 axis=0 lo=0 hi=1 : f32[1] @0 fwd\n"
                                                  "%5 = exp %3 : f32[47] @0 fwd\n"
                                                  "%6 = exp %4 : f32[1] @0 fwd\n"
                                                  "%7 = concat %5 %6 axis=0 : f32[48] @0 fwd\n"
                                                  "%8 = store %7 \"c\" : f32[48] @0 fwd\n"},
    {"a square is transposed in place", "var state \"s\" f32[5,5]\n"
                                        "%0 = load \"s\" : f32[5,5] @0 fwd\n"
                                        "%1 = permute %0 axes=1,0 : f32[5,5] @0 fwd\n"
                                        "%2 = add %1 %1 : f32[5,5] @0 fwd\n"
                                        "%3 = store %2 \"s\" : f32[5,5] @0 fwd\n"},
    {"an old value is read after the new one is known", VARS LOADS "%3 = add %0 %1 : f32[6,4] @0 fwd\n"
                                                                   "%4 = store %3 \"a\" : f32[6,4] @0 fwd\n"
                                                                   "%5 = sub %0 %3 : f32[6,4] @0 fwd\n"
                                                                   "%6 = sum %5 axis=0 : f32[1,4] @0 fwd\n"
                                                                   "%7 = broadcast %6 : f32[6,4] @0 fwd\n"
                                                                   "%8 = mul %7 %0 : f32[6,4] @0 fwd\n"
                                                                   "%9 = store %8 \"b\" : f32[6,4] @0 fwd\n"},
    {"a part of a Var is read late through a view", VARS LOADS "%3 = exp %0 : f32[6,4] @0 fwd\n"
                                                               "%4 = slice %0 axis=1 lo=1 hi=2 : f32[6,1] @0 fwd\n"
                                                               "%5 = store %3 \"a\" : f32[6,4] @0 fwd\n"
                                                               "%6 = broadcast %4 : f32[6,4] @0 fwd\n"
                                                               "%7 = matmul %6 %3 ta=1 tb=0 : f32[4,4] @0 fwd\n"
                                                               "%8 = matmul %1 %7 ta=0 tb=0 : f32[6,4] @0 fwd\n"
                                                               "%9 = store %8 \"o\" : f32[6,4] @0 fwd\n"},
    {"a product is written over its own operand", VARS LOADS "%3 = slice %2 axis=0 lo=0 hi=16 : f32[16] @0 fwd\n"
                                                             "%4 = reshape %3 : f32[4,4] @0 fwd\n"
                                                             "%5 = matmul %0 %4 ta=0 tb=0 : f32[6,4] @0 fwd\n"
                                                             "%6 = store %5 \"a\" : f32[6,4] @0 fwd\n"},
    {"a row's sum is written over the row", "var state \"r\" f32[6,1]\nvar state \"a\" f32[6,4]\n"
                                            "%0 = load \"r\" : f32[6,1] @0 fwd\n"
                                            "%1 = load \"a\" : f32[6,4] @0 fwd\n"
                                            "%2 = broadcast %0 : f32[6,4] @0 fwd\n"
                                            "%3 = mul %1 %2 : f32[6,4] @0 fwd\n"
                                            "%4 = sum %3 axis=1 : f32[6,1] @0 fwd\n"
                                            "%5 = store %4 \"r\" : f32[6,1] @0 fwd\n"
                                            "%6 = store %3 \"a\" : f32[6,4] @0 fwd\n"},
    {"a scalar counts, and its old value scales", VARS LOADS "%3 = load \"n\" : f32[] @0 fwd\n"
                                                             "%4 = const f=1 : f32[] @0 fwd\n"
                                                             "%5 = add %3 %4 : f32[] @0 fwd\n"
                                                             "%6 = store %5 \"n\" : f32[] @0 fwd\n"
                                                             "%7 = reshape %3 : f32[1,1] @0 fwd\n"
                                                             "%8 = broadcast %7 : f32[6,4] @0 fwd\n"
                                                             "%9 = mul %0 %8 : f32[6,4] @0 fwd\n"
                                                             "%10 = store %9 \"a\" : f32[6,4] @0 fwd\n"},
    {"products add up in their parts of a Var", VARS LOADS "%3 = slice %2 axis=0 lo=0 hi=16 : f32[16] @0 bwd\n"
                                                           "%4 = reshape %3 : f32[4,4] @0 bwd\n"
                                                           "%5 = matmul %0 %1 ta=1 tb=0 : f32[4,4] @0 bwd\n"
                                                           "%6 = matmul %1 %0 ta=1 tb=0 : f32[4,4] @0 bwd\n"
                                                           "%7 = add %4 %5 : f32[4,4] @0 bwd\n"
                                                           "%8 = add %7 %6 : f32[4,4] @0 bwd\n"
                                                           "%9 = reshape %8 : f32[16] @0 bwd\n"
                                                           "%10 = slice %2 axis=0 lo=16 hi=48 : f32[32] @0 bwd\n"
                                                           "%11 = concat %9 %10 axis=0 : f32[48] @0 bwd\n"
                                                           "%12 = store %11 \"c\" : f32[48] @0 bwd\n"},
    {"a product adds to one part and reads another", VARS LOADS "%3 = slice %2 axis=0 lo=0 hi=16 : f32[16] @0 bwd\n"
                                                                "%4 = reshape %3 : f32[4,4] @0 bwd\n"
                                                                "%5 = slice %2 axis=0 lo=16 hi=32 : f32[16] @0 bwd\n"
                                                                "%6 = reshape %5 : f32[4,4] @0 bwd\n"
                                                                "%7 = matmul %4 %6 ta=1 tb=0 : f32[4,4] @0 bwd\n"
                                                                "%8 = add %4 %7 : f32[4,4] @0 bwd\n"
                                                                "%9 = matmul %6 %4 ta=0 tb=0 : f32[4,4] @0 bwd\n"
                                                                "%10 = add %6 %9 : f32[4,4] @0 bwd\n"
                                                                "%11 = reshape %8 : f32[16] @0 bwd\n"
                                                                "%12 = reshape %10 : f32[16] @0 bwd\n"
                                                                "%13 = concat %11 %12 %11 axis=0 : f32[48] @0 bwd\n"
                                                                "%14 = store %13 \"c\" : f32[48] @0 bwd\n"},
    {"a sum over ranks of what is read elsewhere", VARS LOADS "%3 = all_reduce %2 axis=2 ranks=1 : f32[48] @0 bwd\n"
                                                              "%4 = store %3 \"c\" : f32[48] @0 bwd\n"
                                                              "%5 = slice %2 axis=0 lo=3 hi=27 : f32[24] @0 bwd\n"
                                                              "%6 = reshape %5 : f32[6,4] @0 bwd\n"
                                                              "%7 = add %6 %0 : f32[6,4] @0 bwd\n"
                                                              "%8 = store %7 \"a\" : f32[6,4] @0 bwd\n"},
    {"a forward value of an overwritten Var is wanted later", VARS LOADS "%3 = mul %0 %0 : f32[6,4] @0 fwd\n"
                                                                         "%4 = exp %0 : f32[6,4] @0 fwd\n"
                                                                         "%5 = store %4 \"a\" : f32[6,4] @0 fwd\n"
                                                                         "%6 = matmul %4 %1 ta=1 tb=0 : f32[4,4] @0 bwd\n"
                                                                         "%7 = matmul %1 %6 ta=0 tb=0 : f32[6,4] @0 bwd\n"
                                                                         "%8 = add %7 %3 : f32[6,4] @0 bwd\n"
                                                                         "%9 = store %8 \"b\" : f32[6,4] @0 bwd\n"},
};

TEST(a_load_is_the_value_from_before_whatever_is_stored) {
  DeviceCases *cases = device_cases_open();
  for (size_t i = 0; i < sizeof hazards / sizeof *hazards; i++) device_cases_add_text(cases, hazards[i].text, hazards[i].label);
  expect_right(cases);
  device_cases_close(cases);
}

/* --- corners -------------------------------------------------------------------------------------------------------------- */

#define X "var state \"x\" f32[3,4,5]\n%0 = load \"x\" : f32[3,4,5] @0 fwd\n"

static const struct {
  const char *label, *text;
} corners[] = {
    {"a CONCAT of CONCATs of parts", X "var output \"o\" f32[3,9,5]\n"
                                       "%1 = slice %0 axis=1 lo=0 hi=2 : f32[3,2,5] @0 fwd\n"
                                       "%2 = slice %0 axis=1 lo=1 hi=4 : f32[3,3,5] @0 fwd\n"
                                       "%3 = neg %0 : f32[3,4,5] @0 fwd\n"
                                       "%4 = concat %2 %1 axis=1 : f32[3,5,5] @0 fwd\n"
                                       "%5 = concat %3 %4 axis=1 : f32[3,9,5] @0 fwd\n"
                                       "%6 = store %5 \"o\" : f32[3,9,5] @0 fwd\n"},
    {"a CONCAT along the last axis in one along the first", X "var output \"o\" f32[6,4,5]\n"
                                                              "%1 = slice %0 axis=2 lo=0 hi=2 : f32[3,4,2] @0 fwd\n"
                                                              "%2 = slice %0 axis=2 lo=2 hi=5 : f32[3,4,3] @0 fwd\n"
                                                              "%3 = exp %2 : f32[3,4,3] @0 fwd\n"
                                                              "%4 = concat %3 %1 axis=2 : f32[3,4,5] @0 fwd\n"
                                                              "%5 = concat %4 %0 axis=0 : f32[6,4,5] @0 fwd\n"
                                                              "%6 = store %5 \"o\" : f32[6,4,5] @0 fwd\n"},
    {"one value twice in a CONCAT", X "var output \"o\" f32[3,4,10]\n"
                                      "%1 = exp %0 : f32[3,4,5] @0 fwd\n"
                                      "%2 = concat %1 %1 axis=2 : f32[3,4,10] @0 fwd\n"
                                      "%3 = store %2 \"o\" : f32[3,4,10] @0 fwd\n"},
    {"a RESHAPE of what was turned", X "var output \"o\" f32[20,3]\nvar output \"p\" f32[60]\n"
                                       "%1 = permute %0 axes=2,1,0 : f32[5,4,3] @0 fwd\n"
                                       "%2 = reshape %1 : f32[20,3] @0 fwd\n"
                                       "%3 = store %2 \"o\" : f32[20,3] @0 fwd\n"
                                       "%4 = exp %1 : f32[5,4,3] @0 fwd\n"
                                       "%5 = reshape %4 : f32[60] @0 fwd\n"
                                       "%6 = store %5 \"p\" : f32[60] @0 fwd\n"},
    {"sums along every axis, of what was turned too", X "var output \"o\" f32[1,4,5]\nvar output \"p\" f32[3,1,5]\n"
                                                        "var output \"q\" f32[3,4,1]\nvar output \"r\" f32[5,1,4]\n"
                                                        "%1 = sum %0 axis=0 : f32[1,4,5] @0 fwd\n"
                                                        "%2 = sum %0 axis=1 : f32[3,1,5] @0 fwd\n"
                                                        "%3 = sum %0 axis=2 : f32[3,4,1] @0 fwd\n"
                                                        "%4 = permute %0 axes=2,0,1 : f32[5,3,4] @0 fwd\n"
                                                        "%5 = exp %4 : f32[5,3,4] @0 fwd\n"
                                                        "%6 = sum %5 axis=1 : f32[5,1,4] @0 fwd\n"
                                                        "%7 = store %1 \"o\" : f32[1,4,5] @0 fwd\n"
                                                        "%8 = store %2 \"p\" : f32[3,1,5] @0 fwd\n"
                                                        "%9 = store %3 \"q\" : f32[3,4,1] @0 fwd\n"
                                                        "%10 = store %6 \"r\" : f32[5,1,4] @0 fwd\n"},
    {"a column's sum of a row's sum", "var state \"x\" f32[70,9]\nvar output \"o\" f32[1,1]\nvar output \"p\" f32[1,9]\n"
                                      "%0 = load \"x\" : f32[70,9] @0 fwd\n"
                                      "%1 = sum %0 axis=1 : f32[70,1] @0 fwd\n"
                                      "%2 = sum %1 axis=0 : f32[1,1] @0 fwd\n"
                                      "%3 = broadcast %1 : f32[70,9] @0 fwd\n"
                                      "%4 = mul %3 %0 : f32[70,9] @0 fwd\n"
                                      "%5 = sum %4 axis=0 : f32[1,9] @0 fwd\n"
                                      "%6 = store %2 \"o\" : f32[1,1] @0 fwd\n"
                                      "%7 = store %5 \"p\" : f32[1,9] @0 fwd\n"},
    {"a column's sum goes into a part of a Var", "var state \"x\" f32[70,9]\nvar carry \"g\" f32[20]\n"
                                                 "%0 = load \"x\" : f32[70,9] @0 fwd\n"
                                                 "%1 = load \"g\" : f32[20] @0 fwd\n"
                                                 "%2 = sum %0 axis=0 : f32[1,9] @0 fwd\n"
                                                 "%3 = reshape %2 : f32[9] @0 fwd\n"
                                                 "%4 = slice %1 axis=0 lo=0 hi=11 : f32[11] @0 fwd\n"
                                                 "%5 = concat %4 %3 axis=0 : f32[20] @0 fwd\n"
                                                 "%6 = store %5 \"g\" : f32[20] @0 fwd\n"},
    {"columns' sums of a single row and a single column", "var state \"x\" f32[1,9]\nvar state \"y\" f32[9,1]\n"
                                                          "var output \"o\" f32[1,9]\nvar output \"p\" f32[1,1]\n"
                                                          "%0 = load \"x\" : f32[1,9] @0 fwd\n"
                                                          "%1 = load \"y\" : f32[9,1] @0 fwd\n"
                                                          "%2 = sum %0 axis=0 : f32[1,9] @0 fwd\n"
                                                          "%3 = sum %1 axis=0 : f32[1,1] @0 fwd\n"
                                                          "%4 = store %2 \"o\" : f32[1,9] @0 fwd\n"
                                                          "%5 = store %3 \"p\" : f32[1,1] @0 fwd\n"},
    {"scalars and constants stored as they are", "var output \"o\" f32[]\nvar output \"p\" i64[2,3]\nvar output \"q\" f32[3]\n"
                                                 "var output \"r\" pred[]\nvar state \"n\" f32[]\nvar output \"s\" f32[2,1]\n"
                                                 "%0 = const f=2.5 : f32[] @0 fwd\n"
                                                 "%1 = iota axis=1 : i64[2,3] @0 fwd\n"
                                                 "%2 = table count=3 values=1,2,3 : f32[3] @0 fwd\n"
                                                 "%3 = const f=1 : pred[] @0 fwd\n"
                                                 "%4 = load \"n\" : f32[] @0 fwd\n"
                                                 "%5 = reshape %4 : f32[1,1] @0 fwd\n"
                                                 "%6 = broadcast %5 : f32[2,1] @0 fwd\n"
                                                 "%7 = store %0 \"o\" : f32[] @0 fwd\n"
                                                 "%8 = store %1 \"p\" : i64[2,3] @0 fwd\n"
                                                 "%9 = store %2 \"q\" : f32[3] @0 fwd\n"
                                                 "%10 = store %3 \"r\" : pred[] @0 fwd\n"
                                                 "%11 = store %6 \"s\" : f32[2,1] @0 fwd\n"},
    {"operands that no product takes as they lie", "var state \"x\" f32[3,4,5]\nvar output \"o\" f32[4,4]\n"
                                                   "%0 = load \"x\" : f32[3,4,5] @0 fwd\n"
                                                   "%1 = slice %0 axis=2 lo=2 hi=3 : f32[3,4,1] @0 fwd\n"
                                                   "%2 = reshape %1 : f32[3,4] @0 fwd\n"
                                                   "%3 = iota axis=0 : i64[3,4] @0 fwd\n"
                                                   "%4 = cast %3 : f32[3,4] @0 fwd\n"
                                                   "%5 = matmul %2 %4 ta=1 tb=0 : f32[4,4] @0 fwd\n"
                                                   "%6 = store %5 \"o\" : f32[4,4] @0 fwd\n"},
    {"the product of a repeated row and a constant", "var state \"x\" f32[1,5]\nvar output \"o\" f32[7,2]\n"
                                                     "%0 = load \"x\" : f32[1,5] @0 fwd\n"
                                                     "%1 = broadcast %0 : f32[7,5] @0 fwd\n"
                                                     "%2 = const f=3 : f32[] @0 fwd\n"
                                                     "%3 = reshape %2 : f32[1,1] @0 fwd\n"
                                                     "%4 = broadcast %3 : f32[5,2] @0 fwd\n"
                                                     "%5 = matmul %1 %4 ta=0 tb=0 : f32[7,2] @0 fwd\n"
                                                     "%6 = store %5 \"o\" : f32[7,2] @0 fwd\n"},
    {"the largest of a sum of the largest", X "var output \"o\" f32[3,1,1]\n"
                                              "%1 = maximum %0 axis=2 : f32[3,4,1] @0 fwd\n"
                                              "%2 = broadcast %1 : f32[3,4,5] @0 fwd\n"
                                              "%3 = sub %0 %2 : f32[3,4,5] @0 fwd\n"
                                              "%4 = exp %3 : f32[3,4,5] @0 fwd\n"
                                              "%5 = sum %4 axis=2 : f32[3,4,1] @0 fwd\n"
                                              "%6 = maximum %5 axis=1 : f32[3,1,1] @0 fwd\n"
                                              "%7 = store %6 \"o\" : f32[3,1,1] @0 fwd\n"},
};

TEST(corners_compute_what_the_interpreter_says) {
  DeviceCases *cases = device_cases_open();
  for (size_t i = 0; i < sizeof corners / sizeof *corners; i++) device_cases_add_text(cases, corners[i].text, corners[i].label);
  expect_right(cases);
  device_cases_close(cases);
}
