/* SPDX-License-Identifier: Apache-2.0 */
#include "src/config/units.h"

#include <math.h>
#include <string.h>

#include "src/base/fail.h"

const Suffix suffixes[] = {{"Ki", 1024.0}, {"Mi", 1048576.0}, {"Gi", 1073741824.0}, {"K", 1e3},
                           {"M", 1e6},     {"B", 1e9},        {"T", 1e12},          {NULL, 0}};

static const struct {
  const char *many, *one, *brief;
} units[] = {
    [UNIT_NONE] = {"none", "none", NULL},      [UNIT_STEPS] = {"steps", "step", NULL},
    [UNIT_TOKENS] = {"tokens", "token", NULL}, [UNIT_SEQUENCES] = {"sequences", "sequence", NULL},
    [UNIT_EPOCHS] = {"epochs", "epoch", NULL}, [UNIT_SECONDS] = {"seconds", "second", "s"},
    [UNIT_PERCENT] = {"%", "%", NULL},         [UNIT_AUTO] = {"auto", "auto", NULL},
};

const char *unit_name(Unit unit) { return units[unit].many; }

const char *unit_name_one(Unit unit) { return units[unit].one; }

Unit unit_take(const char **rest) {
  for (int u = UNIT_STEPS; u <= UNIT_PERCENT; u++) {
    const char *brief = units[u].brief;
    if (strcmp(*rest, units[u].many) != 0 && strcmp(*rest, units[u].one) != 0 && (!brief || strcmp(*rest, brief) != 0)) continue;
    *rest += strlen(*rest);
    return (Unit)u;
  }
  return UNIT_NONE;
}

/* Longer times than a second, in seconds. */
static const struct {
  const char *names[3];
  double seconds;
} times[] = {{{"min", "minutes", "minute"}, 60}, {{"h", "hours", "hour"}, 3600}, {{"d", "days", "day"}, 86400}};

bool time_take(const char **rest, double *value) {
  for (size_t t = 0; t < sizeof times / sizeof *times; t++) {
    for (int i = 0; i < 3; i++) {
      if (strcmp(*rest, times[t].names[i]) != 0) continue;
      *value *= times[t].seconds;
      *rest += strlen(*rest);
      return true;
    }
  }
  return false;
}

/* Larger ones first; binary ones before the others. */
static const Suffix byte_units[] = {{"TiB", 0x1p40}, {"GiB", 0x1p30}, {"MiB", 0x1p20}, {"KiB", 0x1p10}, {"TB", 1e12},
                                    {"GB", 1e9},     {"MB", 1e6},     {"kB", 1e3},     {"KB", 1e3},     {"B", 1}};
enum { BYTE_UNITS = sizeof byte_units / sizeof *byte_units };

bool bytes_take(double value, const char *unit, int64_t *nbytes) {
  for (int i = 0; i < BYTE_UNITS; i++) {
    double all = nearbyint(value * byte_units[i].times);
    if (strcmp(unit, byte_units[i].name) != 0) continue;
    if (!(all >= 1 && all < 0x1p53 && fabs(all - value * byte_units[i].times) <= 0.5)) return false; /* a larger one has no int64 */
    *nbytes = (int64_t)all;
    return true;
  }
  return false;
}

void bytes_print(int64_t nbytes, Text *out) {
  const Suffix *best = &byte_units[0];
  for (int i = 0; i < BYTE_UNITS; i++) {
    bool better = nbytes % (int64_t)best->times || byte_units[i].times > best->times;
    if (better && nbytes % (int64_t)byte_units[i].times == 0) best = &byte_units[i];
  }
  text_printf(out, "%lld%s", (long long)(nbytes / (int64_t)best->times), best->name);
}

void number_print(double value, Text *out) {
  char number[NUM_TEXT];
  if (value == floor(value) && fabs(value) < 1e16) {
    text_printf(out, "%.0f", value);
    return;
  }
  num_double(value, number);
  char *exponent = strstr(number, "e-0"); /* 1e-05 as people write it */
  if (exponent) memmove(exponent + 2, exponent + 3, strlen(exponent + 3) + 1);
  text_printf(out, "%s", number);
}

int64_t config_steps(const Config *c, Amount amount, int64_t epoch_sequences, int64_t total_steps) {
  double seq_len = (double)c->train.seq_len, batch = c->train.global_batch_size.value;
  if (c->train.global_batch_size.unit == UNIT_TOKENS) batch /= seq_len;
  const double steps[] = {
      [UNIT_NONE] = 0,
      [UNIT_STEPS] = amount.value,
      [UNIT_TOKENS] = amount.value / (seq_len * batch),
      [UNIT_SEQUENCES] = amount.value / batch,
      [UNIT_EPOCHS] = amount.value * (double)epoch_sequences / batch,
      [UNIT_SECONDS] = 0,
      [UNIT_PERCENT] = amount.value * (double)total_steps / 100,
      [UNIT_AUTO] = 0,
  };
  return (int64_t)floor(steps[amount.unit]); /* products of whole numbers come first, so 3 % of 100 is 3 */
}

int64_t config_total_steps(const Config *c, int64_t epoch_sequences) {
  int64_t steps = config_steps(c, c->train.duration, epoch_sequences, 0);
  if (steps < 1)
    config_fail(c, "train.duration", "a longer duration or a smaller global_batch_size", "duration is less than one step");
  return steps;
}
