/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/config: suffixes and unit names. */
#ifndef CONFIG_UNITS_H
#define CONFIG_UNITS_H

#include "src/config/table.h"

typedef struct Suffix {
  const char *name;
  double times;
} Suffix;

extern const Suffix suffixes[]; /* longer names first; name NULL at the end */

const char *unit_name(Unit unit);     /* "steps", "%" */
const char *unit_name_one(Unit unit); /* "step" */
Unit unit_take(const char **rest);    /* the unit that is all of *rest, which then is ""; or UNIT_NONE */
/* The same of what is longer than a second ("24h", "90 min"): *value becomes seconds. */
bool time_take(const char **rest, double *value);

/* Bytes: "60GiB", "1.5 TB". */
bool bytes_take(double value, const char *unit, int64_t *nbytes); /* false: no such unit, or no whole bytes */
void bytes_print(int64_t nbytes, Text *out);                      /* reads back */

#endif
