/* SPDX-License-Identifier: Apache-2.0 */
/* A run with little time left stops while there is enough to save. */
#include <math.h>
#include <signal.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/train/run.h"
#include "test/check.h"

static bool near(double left, double step, double eval, double save) {
  Run run = {.ends = clock_seconds() + left, .longest = {[SPENT_TRAINING] = step, [SPENT_EVALS] = eval, [SPENT_SAVES] = save}};
  return limit_is_near(&run);
}

TEST(a_run_without_an_end_goes_on) {
  Run run = {.ends = INFINITY};
  EXPECT(!limit_is_near(&run));
}

/* Two steps, an evaluation, a save, and 2 % or a minute to spare. */
TEST(the_slowest_of_each_still_fits) {
  EXPECT(!near(1000, 1, 1, 1));
  EXPECT(!near(1000, 400, 1, 1) && near(1000, 490, 1, 1));
  EXPECT(!near(1000, 1, 900, 1) && near(1000, 1, 980, 1));
  EXPECT(!near(1000, 1, 1, 900) && near(1000, 1, 1, 980));
  EXPECT(!near(1e6, 1, 1, 1e6 - 70) && near(1e6, 1, 1, 1e6 - 60));
  EXPECT(near(-1, 0, 0, 1e-9));
}

TEST(reasons_have_names) {
  EXPECT_TEXT(limit_pause(SIGUSR1), "SIGUSR1");
  EXPECT_TEXT(limit_pause(PAUSE_TIME), "train.time_limit");
}
