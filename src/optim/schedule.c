/* SPDX-License-Identifier: Apache-2.0 */
/* The learning rate of a step: a row a kind. */
#include <math.h>

#include "src/optim/optim.h"

static double share_linear(const LrSchedule *s, int64_t step) {
  return 1 - (double)(step - s->warmup) / (double)(s->total - s->warmup);
}

static double share_cosine(const LrSchedule *s, int64_t step) {
  return 0.5 * (1 + cos(M_PI * (double)(step - s->warmup) / (double)(s->total - s->warmup)));
}

static double share_constant(const LrSchedule *s, int64_t step) {
  (void)s, (void)step;
  return 1;
}

static double share_wsd(const LrSchedule *s, int64_t step) {
  int64_t left = s->total - step;
  return left >= s->decay ? 1 : (double)left / (double)s->decay;
}

/* How far above min the rate still is, from 1 to 0. */
static double (*const shares[])(const LrSchedule *, int64_t) = {
    [LR_CONSTANT] = share_constant, [LR_LINEAR] = share_linear, [LR_COSINE] = share_cosine, [LR_WSD] = share_wsd};

double lr_at(const LrSchedule *schedule, int64_t step) {
  if (step < schedule->warmup) return schedule->peak * (double)(step + 1) / (double)schedule->warmup;
  if (step >= schedule->total) return schedule->kind == LR_CONSTANT ? schedule->peak : schedule->min;
  return schedule->min + (schedule->peak - schedule->min) * shares[schedule->kind](schedule, step);
}
