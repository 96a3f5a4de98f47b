/* SPDX-License-Identifier: Apache-2.0 */
/* export.at_end: a run that is done leaves a Hugging Face folder of its last checkpoint.  That the folder can be made is asked at
 * the start: at the end of weeks of work nothing may fail for its name. */
#include <sys/stat.h>

#include "io/hf_export.h"
#include "src/base/clock.h"
#include "src/report/human.h"
#include "src/train/run.h"

static bool is_there(const char *path) {
  struct stat info;
  return !stat(path, &info);
}

static bool is_done(const Run *run) { return run->step >= run->shape.total_steps; }

void run_check_export(const Run *run) {
  const Config *c = run->config;
  if (!c->export.at_end) return;
  if (!c->checkpoint.every.unit)
    config_fail(c, "export.at_end", "checkpoint.every: a number of steps",
                "what is exported is the last checkpoint, and this run saves none");
  if (!is_done(run) && is_there(c->export.at_end))
    config_fail(c, "export.at_end", "another folder, or move it away", "%s is there already", c->export.at_end);
}

void run_export(Run *run) {
  const char *to = run->config->export.at_end;
  char bytes[HUMAN_TEXT];
  int there = to && is_there(to);
  comm_broadcast(run->comm, &there, sizeof there, 0);
  if (!to || there || !is_done(run)) return;
  double begin = clock_seconds();
  lines_doing(run->lines, "exporting");
  HfExported done = hf_export(run->arena, run->comm, &(HfExport){.from = run->folder->path, .to = to, .dtype = HF_AS_IS});
  lines_doing(run->lines, "");
  if (run_speaks(run))
    lines_end(run->lines, "export", "%s: %s, %s in %.1f s", to, human_bytes((double)done.nbytes, bytes), done.type,
              clock_seconds() - begin);
}
