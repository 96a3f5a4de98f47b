/* SPDX-License-Identifier: Apache-2.0 */
/* What devices sustain: datasheet peaks times the fractions that were measured on an H200 held under load, where power and not
 * the clock is the limit.  For other devices the fractions are a lead. */
#include <string.h>

#include "src/prof/prof.h"

static const double products = 0.68, copies = 0.89;

static const struct {
  const char *name;
  double narrow, wide, bytes; /* dense bf16 and float32 (no TF32) FLOP/s; bytes/s */
} peaks[] = {
    {"B200", 2250e12, 75e12, 8.0e12},
    {"H200", 989e12, 67e12, 4.8e12},
    {"H100", 989e12, 67e12, 3.35e12},
    {"A100", 312e12, 19.5e12, 2.04e12},
};

ProfRates prof_rates(const char *device) {
  for (size_t i = 0; i < sizeof peaks / sizeof *peaks; i++)
    if (strstr(device, peaks[i].name))
      return (ProfRates){products * peaks[i].narrow, products * peaks[i].wide, copies * peaks[i].bytes};
  return (ProfRates){0};
}
