/* SPDX-License-Identifier: Apache-2.0 */
/* How much of a GPU's memory is free, by CUDA, and which processes hold it, by NVML: a library of the driver, which may not be
 * there.  Nothing here ends the job: it is asked when something already has. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/dev/cuda.h"

/* NVML's interface, as far as it is used. */
typedef struct NvmlProcess {
  unsigned pid;
  unsigned long long nbytes; /* all ones: not known */
  unsigned instances[2];
} NvmlProcess;

typedef struct Nvml {
  int (*init)(void), (*shutdown)(void);
  int (*find)(const char *bus, void **device);
  int (*processes)(void *device, unsigned *n, NvmlProcess *at);
} Nvml;

enum { PROCESSES_MOST = 64 };
typedef struct Processes {
  unsigned n;
  NvmlProcess at[PROCESSES_MOST];
} Processes;

static bool find_symbol(void *library, const char *name, void *function, size_t nbytes) {
  void *symbol = dlsym(library, name);
  memcpy(function, &symbol, nbytes);
  return symbol != NULL;
}

static void ask(const Nvml *nvml, const char *bus, Processes *all) {
  unsigned n = PROCESSES_MOST;
  void *device;
  if (!nvml->find(bus, &device) && !nvml->processes(device, &n, all->at) && n <= PROCESSES_MOST) all->n = n;
}

/* All that compute on the GPU. */
static void list_all(int gpu, Processes *all) {
  Nvml nvml;
  char bus[32];
  void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  all->n = 0;
  if (!library) return;
  bool found = find_symbol(library, "nvmlInit_v2", &nvml.init, sizeof nvml.init) &&
               find_symbol(library, "nvmlShutdown", &nvml.shutdown, sizeof nvml.shutdown) &&
               find_symbol(library, "nvmlDeviceGetHandleByPciBusId_v2", &nvml.find, sizeof nvml.find) &&
               find_symbol(library, "nvmlDeviceGetComputeRunningProcesses_v3", &nvml.processes, sizeof nvml.processes);
  if (found && cudaDeviceGetPCIBusId(bus, sizeof bus, gpu) == cudaSuccess && nvml.init() == 0) {
    ask(&nvml, bus, all);
    nvml.shutdown();
  }
  dlclose(library);
}

/* In a container processes may go by numbers that the driver does not know: then nobody can say which one this is, and the only
 * one there is must be it. */
static void list_others(int gpu, Processes *all) {
  unsigned kept = 0;
  list_all(gpu, all);
  for (unsigned i = 0; i < all->n; i++)
    if (all->at[i].pid != (unsigned)getpid()) all->at[kept++] = all->at[i];
  if (kept == all->n && kept == 1) kept = 0;
  all->n = kept;
}

void cuda_memory(const Dev *dev, DevMemory *memory) {
  const Cuda *cuda = dev->own;
  if (!cuda->card) return;
  size_t available = 0, total = 0;
  Processes others;
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
  Processes others;
  if (!cuda->card) return;
  list_others(cuda->gpu, &others);
  for (unsigned i = 0; i < others.n; i++) {
    text_printf(out, "   held by process %u", others.at[i].pid);
    name_process(others.at[i].pid, out);
    if (others.at[i].nbytes + 1) text_printf(out, ": %.3f GiB", (double)others.at[i].nbytes / 0x1p30);
    text_printf(out, "\n");
  }
}
