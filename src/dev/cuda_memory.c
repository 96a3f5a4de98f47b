/* SPDX-License-Identifier: Apache-2.0 */
/* How much of a GPU's memory is free, by CUDA, and which processes hold it, by NVML.  Nothing here ends the job: it is asked when
 * something already has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/dev/cuda.h"

/* In a container processes may go by numbers that the driver does not know: then nobody can say which one this is, and the only
 * one there is must be it. */
static void list_others(int gpu, NvmlProcesses *all) {
  unsigned kept = 0;
  cuda_processes(gpu, all);
  for (unsigned i = 0; i < all->n; i++)
    if (all->at[i].pid != (unsigned)getpid()) all->at[kept++] = all->at[i];
  if (kept == all->n && kept == 1) kept = 0;
  all->n = kept;
}

void cuda_memory(const Dev *dev, DevMemory *memory) {
  const Cuda *cuda = dev->own;
  if (!cuda->card) return;
  size_t available = 0, total = 0;
  NvmlProcesses others;
  if (cudaMemGetInfo(&available, &total) != cudaSuccess) (void)cudaGetLastError();
  memory->total = total;
  memory->available = available;
  snprintf(memory->place, sizeof memory->place, "GPU %d (%s)", cuda->gpu, cuda->name);
  list_others(cuda->gpu, &others);
  for (unsigned i = 0; i < others.n; i++)
    if (others.at[i].nbytes + 1) memory->others += others.at[i].nbytes;
}

static void name_process(unsigned pid, Text *out) {
  char path[64];
  size_t n;
  snprintf(path, sizeof path, "/proc/%u/comm", pid);
  char *name = file_read(path, &n);
  if (name) text_printf(out, " (%.*s)", (int)strcspn(name, "\n"), name);
  free(name);
}

void cuda_holders(const Dev *dev, Text *out) {
  const Cuda *cuda = dev->own;
  NvmlProcesses others;
  if (!cuda->card) return;
  list_others(cuda->gpu, &others);
  for (unsigned i = 0; i < others.n; i++) {
    text_printf(out, "   held by process %u", others.at[i].pid);
    name_process(others.at[i].pid, out);
    if (others.at[i].nbytes + 1) text_printf(out, ": %.3f GiB", (double)others.at[i].nbytes / 0x1p30);
    text_printf(out, "\n");
  }
}
