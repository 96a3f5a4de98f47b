/* SPDX-License-Identifier: Apache-2.0 */
#include "src/report/human.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *const count_units[] = {"", "k", "M", "B", "T", NULL};
static const char *const rate_units[] = {"", "k", "M", "G", "T", "P", "E", NULL};
static const char *const byte_units[] = {" B", " kB", " MB", " GB", " TB", " PB", " EB", NULL};

static const char *unknown(char out[HUMAN_TEXT]) { return strcpy(out, "-"); }

/* The bounds are those of the rounded number, so that 999.6 is 1.00k and not 1000. */
static const char *scale(double value, const char *const *unit, char out[HUMAN_TEXT]) {
  if (!(value >= 0) || isinf(value)) return unknown(out);
  bool whole = value == floor(value);
  while (value >= 999.5 && unit[1]) {
    value /= 1000;
    whole = false;
    unit++;
  }
  int decimals = whole || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  if (value >= 1e9)
    snprintf(out, HUMAN_TEXT, "%.2e%s", value, *unit);
  else
    snprintf(out, HUMAN_TEXT, "%.*f%s", decimals, value, *unit);
  return out;
}

const char *human_count(double value, char out[HUMAN_TEXT]) { return scale(value, count_units, out); }
const char *human_rate(double value, char out[HUMAN_TEXT]) { return scale(value, rate_units, out); }
const char *human_bytes(double nbytes, char out[HUMAN_TEXT]) { return scale(nbytes, byte_units, out); }

const char *human_duration(double seconds, char out[HUMAN_TEXT]) {
  if (!(seconds >= 0) || seconds >= 86400e6) return unknown(out);
  long long s = llround(seconds), m = s / 60, h = m / 60, d = h / 24;
  if (d >= 1000)
    snprintf(out, HUMAN_TEXT, "%lldd", d);
  else if (d)
    snprintf(out, HUMAN_TEXT, "%lldd %lldh", d, h % 24);
  else if (h)
    snprintf(out, HUMAN_TEXT, "%lldh %lldm", h, m % 60);
  else if (m)
    snprintf(out, HUMAN_TEXT, "%lldm %llds", m, s % 60);
  else
    snprintf(out, HUMAN_TEXT, "%llds", s);
  return out;
}

const char *human_fixed(double value, int width, int decimals, char out[HUMAN_TEXT]) {
  if (isnan(value)) return strcpy(out, "nan");
  for (; decimals >= 0; decimals--)
    if (snprintf(out, HUMAN_TEXT, "%.*f", decimals, value) <= width) return out;
  for (int digits = 2; digits >= 0; digits--)
    if (snprintf(out, HUMAN_TEXT, "%.*e", digits, value) <= width) break;
  return out;
}
