/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/clock.h"

#include <time.h>
#include <unistd.h>

#include "src/base/process.h"

static double seconds(clockid_t id) {
  struct timespec t;
  clock_gettime(id, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double clock_seconds(void) { return seconds(CLOCK_MONOTONIC); }

double clock_wall(void) { return seconds(CLOCK_REALTIME); }

double clock_since_exec(void) {
  ProcessStat self;
  if (!process_stat(0, &self)) return 0;
  return seconds(CLOCK_BOOTTIME) - (double)self.started / (double)sysconf(_SC_CLK_TCK);
}

const char *clock_utc(char out[32]) {
  time_t now = time(NULL);
  struct tm tm;
  gmtime_r(&now, &tm);
  strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
  return out;
}
