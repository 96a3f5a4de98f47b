/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules of the learning rate: what each promises at its corners and in between. */
#include "src/optim/optim.h"
#include "test/check.h"

static const LrKind kinds[] = {LR_CONSTANT, LR_LINEAR, LR_COSINE, LR_WSD};
enum { KINDS = sizeof kinds / sizeof *kinds };

static LrSchedule schedule(LrKind kind) {
  return (LrSchedule){.kind = kind, .peak = 3e-3, .min = 3e-4, .warmup = 20, .decay = 30, .total = 120};
}

TEST(warmup_is_linear_and_ends_at_the_peak) {
  for (int k = 0; k < KINDS; k++) {
    LrSchedule s = schedule(kinds[k]);
    for (int64_t i = 0; i < s.warmup; i++) EXPECT_NEAR(lr_at(&s, i), s.peak * (double)(i + 1) / 20, 1e-12);
    EXPECT(lr_at(&s, s.warmup) == s.peak);
    s.warmup = 0;
    EXPECT(lr_at(&s, 0) == s.peak);
  }
}

TEST(after_warmup_it_never_rises_and_ends_at_the_minimum) {
  for (int k = 0; k < KINDS; k++) {
    LrSchedule s = schedule(kinds[k]);
    for (int64_t i = s.warmup; i < s.total; i++) EXPECT(lr_at(&s, i + 1) <= lr_at(&s, i) && lr_at(&s, i) > s.min);
    EXPECT(lr_at(&s, s.total) == (kinds[k] == LR_CONSTANT ? s.peak : s.min));
    EXPECT(lr_at(&s, s.total + 5) == lr_at(&s, s.total));
  }
}

TEST(linear_and_cosine_are_halfway_in_the_middle) {
  LrSchedule linear = schedule(LR_LINEAR), cosine = schedule(LR_COSINE);
  EXPECT_NEAR(lr_at(&linear, 70), (3e-3 + 3e-4) / 2, 1e-12);
  EXPECT_NEAR(lr_at(&cosine, 70), (3e-3 + 3e-4) / 2, 1e-12);
  EXPECT_NEAR(lr_at(&linear, 45), 3e-4 + 0.75 * 2.7e-3, 1e-12);
  EXPECT(lr_at(&cosine, 45) > lr_at(&linear, 45));
}

TEST(wsd_stays_at_the_peak_until_its_decay) {
  LrSchedule s = schedule(LR_WSD);
  for (int64_t i = s.warmup; i <= s.total - s.decay; i++) EXPECT(lr_at(&s, i) == s.peak);
  EXPECT_NEAR(lr_at(&s, s.total - 15), (3e-3 + 3e-4) / 2, 1e-12);
}
