/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "src/base/text.h"

static double seconds(clockid_t id) {
  struct timespec t;
  clock_gettime(id, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double clock_seconds(void) { return seconds(CLOCK_MONOTONIC); }

double clock_wall(void) { return seconds(CLOCK_REALTIME); }

double clock_since_exec(void) {
  size_t n;
  char *stat = file_read("/proc/self/stat", &n); /* proc(5): field 22, ticks after boot; the name in field 2 may hold blanks */
  if (!stat) return 0;
  char *p = strrchr(stat, ')');
  for (int field = 2; p && field < 22; field++) p = strchr(p + 1, ' ');
  double start = p ? strtod(p, NULL) / (double)sysconf(_SC_CLK_TCK) : 0;
  free(stat);
  return p ? seconds(CLOCK_BOOTTIME) - start : 0;
}

const char *clock_utc(char out[32]) {
  time_t now = time(NULL);
  struct tm tm;
  gmtime_r(&now, &tm);
  strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
  return out;
}
