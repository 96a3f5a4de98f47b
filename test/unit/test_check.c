/* SPDX-License-Identifier: Apache-2.0 */
/* Every expectation must fire: a child process in which one fails ends with status 99 and says why. */
#include "test/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { FIRED = 99 };

TEST(false_expectation_fires) {
  EXPECT(1 == 1);
  EXPECT_FAIL(FIRED, "test_check.c:13: 1 == 2", EXPECT(1 == 2));
}

TEST(near_compares_relative_to_the_larger) {
  EXPECT_NEAR(100, 101, 0.01);
  EXPECT_NEAR(-101, -100, 0.01);
  EXPECT_NEAR(0.0, -0.0, 0);
  EXPECT_NEAR(INFINITY, INFINITY, 0);
  EXPECT_FAIL(FIRED, "not within 0.01", EXPECT_NEAR(100, 101.02, 0.01));
  EXPECT_FAIL(FIRED, "not within", EXPECT_NEAR(1e-30, 0, 0.5));
}

TEST(nothing_is_near_a_nan) {
  EXPECT_FAIL(FIRED, "nan", EXPECT_NEAR(NAN, NAN, 1));
  EXPECT_FAIL(FIRED, "nan", EXPECT_NEAR(NAN, 1, INFINITY));
  EXPECT_FAIL(FIRED, "nan", EXPECT_NEAR(1, NAN, INFINITY));
  EXPECT_FAIL(FIRED, "not within", EXPECT_NEAR(1, 1.5, NAN));
}

TEST(near_an_infinity_is_only_itself) {
  EXPECT_FAIL(FIRED, "inf", EXPECT_NEAR(INFINITY, 1, 1e-3));
  EXPECT_FAIL(FIRED, "inf", EXPECT_NEAR(INFINITY, -INFINITY, 1e-3));
}

TEST(different_text_fires) {
  EXPECT_TEXT("a", "a");
  EXPECT_FAIL(FIRED, "is \"a\", not \"b\"", EXPECT_TEXT("a", "b"));
  EXPECT_FAIL(FIRED, "(null)", EXPECT_TEXT(NULL, "b"));
}

TEST(expected_end_that_does_not_come_fires) {
  EXPECT_FAIL(FIRED, "ended with status 0", EXPECT_FAIL(FAIL_INPUT, "", (void)0));
  EXPECT_FAIL(FIRED, "ended with status 3", EXPECT_FAIL(FAIL_INPUT, "disk", fail(FAIL_MACHINE, "disk")));
  EXPECT_FAIL(FIRED, "with \"tape\"", EXPECT_FAIL(FAIL_MACHINE, "tape", fail(FAIL_MACHINE, "disk")));
  EXPECT_FAIL(FIRED, "ended with signal 6", EXPECT_FAIL(FAIL_BUG, "", abort()));
}

static char before[4096];

TEST(folder_is_there) {
  snprintf(before, sizeof before, "%s", check_folder());
  EXPECT(access(before, W_OK) == 0);
  EXPECT_TEXT(check_folder(), before);
}

TEST(folder_of_the_test_before_is_gone) { EXPECT(*before && access(before, F_OK) != 0); }
