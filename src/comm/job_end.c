/* SPDX-License-Identifier: Apache-2.0 */
/* When the scheduler will end this job.  Slurm 23.02 and newer say so in the environment; older ones tell squeue, once, by the rank
 * that asks.  PMIx's PMIX_TIME_REMAINING is no help: srun does not set it, and mpirun sets it wrongly above a day. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/base/text.h"
#include "src/comm/impl.h"

bool launch_parse_end(const char *text, double *end) {
  static const char *const endless[] = {"NONE", "N/A", "UNLIMITED", "Unknown"};
  struct tm local = {.tm_isdst = -1};
  *end = 0;
  const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &local);
  if (rest && !*rest) {
    *end = (double)mktime(&local);
    return true;
  }
  for (size_t i = 0; i < sizeof endless / sizeof *endless; i++)
    if (!strcmp(text, endless[i])) *end = INFINITY;
  return isinf(*end);
}

/* The first line that squeue prints, or the reason why there is none. */
static bool ask_squeue(const char *job, char *line, size_t nbytes, Why *why) {
  char command[160];
  snprintf(command, sizeof command, "SLURM_TIME_FORMAT=standard timeout 30 squeue -h -j %s -o %%e 2>&1", job);
  FILE *out = popen(command, "re");
  if (!out) return why_not(why, "squeue: %s", strerror(errno));
  bool got = fgets(line, (int)nbytes, out);
  int status = pclose(out);
  line[strcspn(line, "\n")] = 0;
  if (got && (!status || (status < 0 && errno == ECHILD))) return true; /* ECHILD: somebody ignores SIGCHLD */
  return why_not(why, "squeue: %s", got ? line : "no answer");
}

bool try_comm_job_end(double *end, Why *why) {
  const char *job = getenv("SLURM_JOB_ID"), *told = getenv("SLURM_JOB_END_TIME");
  int64_t seconds;
  char line[256] = "";
  if (!job || strspn(job, "0123456789") != strlen(job) || !*job) {
    *end = INFINITY;
    return true;
  }
  if (told && num_parse_int(told, &seconds)) {
    *end = (double)seconds;
    return true;
  }
  if (!ask_squeue(job, line, sizeof line, why)) return false;
  return launch_parse_end(line, end) || why_not(why, "squeue: its answer '%s' is no time", line);
}
