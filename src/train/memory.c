/* SPDX-License-Identifier: Apache-2.0 */
/* What a run really has of memory, beside what was planned.  On a GPU the plan is allocated at the start, and the driver says what
 * the process holds beside it: CUDA's context, NCCL, libraries, which take theirs when they are first used.  On a CPU memory
 * counts as it is touched. */
#include <stdio.h>
#include <stdlib.h>

#include "src/base/arena.h"
#include "src/base/process.h"
#include "src/train/run.h"

static const double gib = 1 << 30;
static const double little = 1.0 / 32; /* GiB, what a process holds of its own: no share of a small run's plan */

double run_planned(const Run *run) {
  JobMemory m = job_memory(engine_job(run->engine));
  return (double)(m.vars + m.tables + m.transient + (dev_is_host(run->dev) ? m.host + run_save_copies(run) : 0)) / gib;
}

double run_memory(const Run *run) {
  bool host = dev_is_host(run->dev);
  return (host ? (double)(process_peak() - run->memory_before) : (double)dev_allocated_peak(run->dev)) / gib;
}

DevMemory run_memory_look(Run *run) {
  DevMemory memory = dev_memory(run->dev);
  double beside = (double)dev_memory_beside(&memory, dev_allocated(run->dev)) / gib;
  if (beside > run->memory_beside) run->memory_beside = beside;
  return memory;
}

void run_memory_tell(Run *run) {
  DevMemory m = run_memory_look(run);
  double allocated = (double)dev_allocated(run->dev) / gib, free = (double)m.available / gib, total = (double)m.total / gib;
  if (!m.total || !run_speaks(run)) return;
  if (m.shared)
    lines_banner(run->lines, "memory", "allocated: %.3g GiB a rank; %.3g free of %.3g on %s", allocated, free, total, m.place);
  else
    lines_banner(run->lines, "memory", "allocated: %.3g GiB; %.3g in use on %s (%.3g by context, NCCL, libraries), %.3g free",
                 allocated, total - free, m.place, run->memory_beside, free);
}

typedef struct Peak {
  double own, beside; /* GiB: what is planned; what the driver says of the process besides */
} Peak;

void run_memory_end(Run *run) {
  int n = comm_size(run->comm), rank = 0;
  run_memory_look(run);
  Peak mine = {run_memory(run), run->memory_beside}, *all = xmalloc(sizeof *all * (size_t)n);
  comm_gather(run->comm, &mine, sizeof mine, all);
  for (int r = 1; r < n; r++)
    if (all[r].own + all[r].beside > all[rank].own + all[rank].beside) rank = r;
  Peak most = all[rank];
  free(all);
  double planned = run_planned(run), more = most.own - planned;
  if (!run_speaks(run) || planned <= 0) return;
  char off[32], beside[64] = "";
  if (more < little && more > -little)
    snprintf(off, sizeof off, "%+.0f MiB", 1024 * more);
  else
    snprintf(off, sizeof off, "%+.1f %%", 100 * more / planned);
  if (most.beside > 0) snprintf(beside, sizeof beside, "; %.3g of context, NCCL, libraries", most.beside);
  lines_end(run->lines, "memory", "at the peak %.3g GiB on rank %d (%.3g planned, %s%s)", most.own + most.beside, rank, planned,
            off, beside);
}
