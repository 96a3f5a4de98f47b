/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with a GPU or its use, and what to do about it. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/text.h"
#include "src/dev/cuda.h"

static const char no_graphs[] = "gpu.graph: false runs without CUDA graphs; please report it with run.yaml and log.txt";
static const char old_code[] = "remove the kernel cache and start again";
static const char stray[] =
    "a kernel did this, perhaps one that was started long before: run again with run.debug: sync, which names it, or "
    "under compute-sanitizer; then report it with run.yaml and log.txt";
static const char broken[] =
    "the GPU or its link is at fault: have the node looked after (dmesg shows its Xid), and start elsewhere";

static const struct {
  cudaError_t error;
  const char *help;
} remedies[] = {
    {cudaErrorNoDevice, "run on a node with an NVIDIA GPU that this job may see (nvidia-smi, CUDA_VISIBLE_DEVICES), or on CPUs"},
    {cudaErrorInvalidDevice, "see CUDA_VISIBLE_DEVICES: it names GPUs that are not there"},
    {cudaErrorSystemDriverMismatch, "the kernel's driver and its library differ in version: reboot the node, or reload the driver"},
    {cudaErrorSystemNotReady, "a service of the GPUs is not running: nvidia-fabricmanager, on nodes with NVSwitch"},
    {cudaErrorDevicesUnavailable, "another process holds the GPU for itself: see nvidia-smi"},
    {cudaErrorMemoryAllocation, "see what else runs on the GPU (nvidia-smi); a smaller micro_batch_size needs less"},
    {cudaErrorECCUncorrectable, broken},
    {cudaErrorNvlinkUncorrectable, broken},
    {cudaErrorHardwareStackError, broken},
    {cudaErrorNoKernelImageForDevice, old_code},
    {cudaErrorInvalidKernelImage, old_code},
    {cudaErrorUnsupportedPtxVersion, old_code},
    {cudaErrorIllegalAddress, stray},
    {cudaErrorMisalignedAddress, stray},
    {cudaErrorInvalidAddressSpace, stray},
    {cudaErrorIllegalInstruction, stray},
    {cudaErrorInvalidPc, stray},
    {cudaErrorLaunchFailure, stray},
    {cudaErrorAssert, stray},
    {cudaErrorLaunchTimeout, "the GPU also serves a screen, and ends what runs for seconds: use another, or take the screen away"},
    {cudaErrorStreamCaptureUnsupported, no_graphs},
    {cudaErrorStreamCaptureInvalidated, no_graphs},
    {cudaErrorStreamCaptureUnjoined, no_graphs},
    {cudaErrorStreamCaptureIsolation, no_graphs},
    {cudaErrorStreamCaptureImplicit, no_graphs},
    {cudaErrorCapturedEvent, no_graphs},
    {cudaErrorGraphExecUpdateFailure, no_graphs},
};

/* A driver that is too old, and none at all, are one error to CUDA. */
static const char *driver_help(void) {
  static char help[256];
  int driver = 0, toolkit = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || !driver)
    return "there is no NVIDIA driver on this node: use one that has GPUs, or CPUs (device.kind: cpu)";
  (void)cudaRuntimeGetVersion(&toolkit);
  snprintf(
      help, sizeof help,
      "the driver knows CUDA up to %d.%d, hpctrain was built with %d.%d: install a newer driver, or build with an older toolkit",
      driver / 1000, driver % 1000 / 10, toolkit / 1000, toolkit % 1000 / 10);
  return help;
}

static const char *help_of(cudaError_t error) {
  if (error == cudaErrorInsufficientDriver) return driver_help();
  for (size_t i = 0; i < sizeof remedies / sizeof *remedies; i++)
    if (remedies[i].error == error) return remedies[i].help;
  return "this is a fault of hpctrain, or of the GPU; please report it with run.yaml and log.txt";
}

bool cuda_try(cudaError_t error, const char *call, Why *why) {
  if (error == cudaSuccess) return true;
  return why_not(why, "CUDA: %s (%s)\n   in %.*s\nhelp: %s", cudaGetErrorString(error), cudaGetErrorName(error),
                 (int)strcspn(call, "("), call, help_of(error));
}

void cuda_check(cudaError_t error, const char *call) {
  Why why;
  if (!cuda_try(error, call, &why)) fail(FAIL_MACHINE, "%s", why.text);
}

/* --- who holds memory ----------------------------------------------------------------------------------------------------- */

/* NVML's interface, as far as it is used: a library of the driver, which may not be there. */
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

static bool find_symbol(void *library, const char *name, void *function, size_t nbytes) {
  void *symbol = dlsym(library, name);
  memcpy(function, &symbol, nbytes);
  return symbol != NULL;
}

static void name_process(unsigned pid, Text *out) {
  char path[64];
  size_t n;
  snprintf(path, sizeof path, "/proc/%u/comm", pid);
  char *name = file_read(path, &n);
  if (name) text_printf(out, " (%.*s)", (int)strcspn(name, "\n"), name);
  free(name);
}

static void list_holders(const Nvml *nvml, const char *bus, Text *out) {
  enum { MOST = 64 };
  NvmlProcess at[MOST];
  unsigned n = MOST;
  void *device;
  if (nvml->find(bus, &device) || nvml->processes(device, &n, at)) return;
  for (unsigned i = 0; i < n && i < MOST; i++) {
    if (at[i].pid == (unsigned)getpid()) continue;
    text_printf(out, "\n   held by process %u", at[i].pid);
    name_process(at[i].pid, out);
    if (at[i].nbytes + 1) text_printf(out, ": %.3f GiB", (double)at[i].nbytes / 0x1p30);
  }
}

/* A line a process that computes on the GPU, after a line break each; nothing where NVML does not tell. */
static void add_holders(int gpu, Text *out) {
  Nvml nvml;
  char bus[32];
  void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return;
  bool found = find_symbol(library, "nvmlInit_v2", &nvml.init, sizeof nvml.init) &&
               find_symbol(library, "nvmlShutdown", &nvml.shutdown, sizeof nvml.shutdown) &&
               find_symbol(library, "nvmlDeviceGetHandleByPciBusId_v2", &nvml.find, sizeof nvml.find) &&
               find_symbol(library, "nvmlDeviceGetComputeRunningProcesses_v3", &nvml.processes, sizeof nvml.processes);
  if (found && cudaDeviceGetPCIBusId(bus, sizeof bus, gpu) == cudaSuccess && nvml.init() == 0) {
    list_holders(&nvml, bus, out);
    nvml.shutdown();
  }
  dlclose(library);
}

void cuda_no_memory(const Dev *dev, size_t nbytes, const char *what) {
  const Cuda *cuda = dev->own;
  size_t available = 0, total = 0;
  Text holders = {0};
  text_printf(&holders, "%s", "");
  (void)cudaGetLastError();
  CUDA(cudaMemGetInfo(&available, &total));
  add_holders(cuda->gpu, &holders);
  fail(FAIL_MACHINE,
       "no memory on GPU %d (%s): %.3f GiB wanted, %.3f GiB held before, %.3f GiB free of %.3f GiB\n   for %s%s\n"
       "help: %smore ranks, a smaller micro_batch_size, or recompute: block; hpctrain plan shows what each saves",
       cuda->gpu, cuda->name, (double)nbytes / 0x1p30, (double)dev->allocated / 0x1p30, (double)available / 0x1p30,
       (double)total / 0x1p30, what, holders.at, holders.n ? "end these processes, or use another GPU; else " : "");
}
