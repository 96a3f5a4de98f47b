/* SPDX-License-Identifier: Apache-2.0 */
/* What sensors of a device say; of the host the clock of its cores, as far as the kernel tells. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/text.h"
#include "src/dev/back.h"

DevSensors dev_sensors(const Dev *dev, bool errors) {
  DevSensors sensors = {.gpu = -1, .corrected = -1, .uncorrected = -1};
  if (dev->ops->sensors) dev->ops->sensors(dev, errors, &sensors);
  return sensors;
}

/* Sums over cores. */
typedef struct Clocks {
  double mhz, mhz_most;
  int n, n_most;
} Clocks;

static bool read_khz(const char *sys, int cpu, const char *name, double *khz) {
  char path[512];
  size_t nbytes;
  snprintf(path, sizeof path, "%s/cpu%d/cpufreq/%s", sys, cpu, name);
  char *text = file_read(path, &nbytes);
  *khz = text ? atof(text) : 0;
  free(text);
  return *khz > 0;
}

static void add_cpufreq(const char *sys, const cpu_set_t *cpus, Clocks *c) {
  double khz;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, cpus)) continue;
    if (read_khz(sys, cpu, "scaling_cur_freq", &khz)) c->mhz += khz / 1e3, c->n++;
    if (read_khz(sys, cpu, "cpuinfo_max_freq", &khz)) c->mhz_most += khz / 1e3, c->n_most++;
  }
}

/* "processor : 3", then "cpu MHz : 2000.1": there is no such line on many machines. */
static void add_cpuinfo(const char *path, const cpu_set_t *cpus, Clocks *c) {
  size_t nbytes;
  char *text = file_read(path, &nbytes);
  int cpu = -1;
  double mhz;
  for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
    if (sscanf(line, "processor : %d", &cpu) == 1) continue;
    if (cpu >= 0 && cpu < CPU_SETSIZE && CPU_ISSET(cpu, cpus) && sscanf(line, "cpu MHz : %lf", &mhz) == 1) c->mhz += mhz, c->n++;
  }
  free(text);
}

void sensors_clock_of(const char *sys, const char *proc, DevSensors *sensors) {
  cpu_set_t cpus;
  Clocks c = {0};
  if (sched_getaffinity(0, sizeof cpus, &cpus)) return;
  add_cpufreq(sys, &cpus, &c);
  if (!c.n) add_cpuinfo(proc, &cpus, &c);
  if (c.n) sensors->mhz = c.mhz / c.n;
  if (c.n_most) sensors->mhz_most = c.mhz_most / c.n_most;
}

void dev_host_sensors(const Dev *dev, bool errors, DevSensors *sensors) {
  (void)dev, (void)errors;
  sensors_clock_of("/sys/devices/system/cpu", "/proc/cpuinfo", sensors);
}
