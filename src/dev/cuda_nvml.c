/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver knows of a GPU beside CUDA, by NVML: a library of the driver, which may not be there, and whose older versions
 * lack a function or another.  It is loaded when it is first asked, and stays.  Numbers are those of nvml.h. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "src/dev/cuda.h"

enum { CLOCK_SM = 1, CORRECTED = 0, UNCORRECTED = 1, SINCE_LOADED = 0 };

/* The interface, as far as it is used. */
static struct {
  int (*init)(void);
  int (*find)(const char *bus, void **device);
  int (*processes)(void *device, unsigned *n, NvmlProcess *at);
  int (*index)(void *device, unsigned *index);
  int (*clock)(void *device, int which, unsigned *mhz), (*clock_most)(void *device, int which, unsigned *mhz);
  int (*reasons)(void *device, unsigned long long *bits);
  int (*ecc)(void *device, int kind, int counter, unsigned long long *n);
  int (*remapped)(void *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed);
} nvml;

static const struct {
  const char *name;
  void *function;
} symbols[] = {{"nvmlInit_v2", &nvml.init},
               {"nvmlDeviceGetHandleByPciBusId_v2", &nvml.find},
               {"nvmlDeviceGetComputeRunningProcesses_v3", &nvml.processes},
               {"nvmlDeviceGetIndex", &nvml.index},
               {"nvmlDeviceGetClockInfo", &nvml.clock},
               {"nvmlDeviceGetMaxClockInfo", &nvml.clock_most},
               {"nvmlDeviceGetCurrentClocksThrottleReasons", &nvml.reasons}, /* the next one's name before */
               {"nvmlDeviceGetCurrentClocksEventReasons", &nvml.reasons},
               {"nvmlDeviceGetTotalEccErrors", &nvml.ecc},
               {"nvmlDeviceGetRemappedRows", &nvml.remapped}};

static bool is_there;

static void load(void) {
  void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  for (size_t i = 0; library && i < sizeof symbols / sizeof *symbols; i++) {
    void *symbol = dlsym(library, symbols[i].name);
    if (symbol) memcpy(symbols[i].function, &symbol, sizeof symbol);
  }
  is_there = nvml.init && nvml.find && nvml.init() == 0;
}

static void *find_device(int gpu) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  char bus[32];
  void *device;
  CHECK(pthread_once(&once, load) == 0);
  if (!is_there || cudaDeviceGetPCIBusId(bus, sizeof bus, gpu) != cudaSuccess || nvml.find(bus, &device)) return NULL;
  return device;
}

void cuda_processes(int gpu, NvmlProcesses *all) {
  unsigned n = NVML_PROCESSES;
  void *device = find_device(gpu);
  all->n = 0;
  if (device && nvml.processes && !nvml.processes(device, &n, all->at) && n <= NVML_PROCESSES) all->n = n;
}

/* Of the bits for which a clock is lower than it may be, those that a well GPU in a well node does not show: its load brings it to
 * its power limit, and that is no fault. */
static void name_reasons(unsigned long long bits, char *out, size_t nbytes) {
  static const struct {
    unsigned long long bit;
    const char *name;
  } names[] = {{0x2, "a clock that was set"}, {0x20, "heat"}, {0x40, "heat"}, {0x80, "the node's power supply"}};
  const char *last = "";
  size_t n = 0;
  *out = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (!(bits & names[i].bit) || !strcmp(names[i].name, last) || n >= nbytes) continue;
    n += (size_t)snprintf(out + n, nbytes - n, "%s%s", n ? ", " : "", last = names[i].name);
  }
}

static double clock_of(int (*ask)(void *, int, unsigned *), void *device) {
  unsigned mhz;
  return ask && !ask(device, CLOCK_SM, &mhz) ? mhz : 0;
}

static int64_t errors_of(void *device, int kind) {
  unsigned long long n;
  return nvml.ecc && !nvml.ecc(device, kind, SINCE_LOADED, &n) ? (int64_t)n : -1;
}

void cuda_sensors(const Dev *dev, bool errors, DevSensors *sensors) {
  const Cuda *cuda = dev->own;
  void *device = cuda->card ? find_device(cuda->gpu) : NULL;
  unsigned index, corrected, uncorrected, pending = 0, failed = 0;
  unsigned long long bits;
  if (!device) return;
  if (nvml.index && !nvml.index(device, &index)) sensors->gpu = (int)index;
  sensors->mhz = clock_of(nvml.clock, device);
  sensors->mhz_most = clock_of(nvml.clock_most, device);
  if (nvml.reasons && !nvml.reasons(device, &bits)) name_reasons(bits, sensors->slowed, sizeof sensors->slowed);
  if (!errors) return;
  sensors->corrected = errors_of(device, CORRECTED);
  sensors->uncorrected = errors_of(device, UNCORRECTED);
  if (nvml.remapped && !nvml.remapped(device, &corrected, &uncorrected, &pending, &failed)) sensors->worn = pending || failed;
}
