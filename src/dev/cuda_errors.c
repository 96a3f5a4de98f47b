/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with a GPU or its use, and what to do about it. */
#include <stdio.h>
#include <string.h>

#include "src/dev/cuda.h"

static const char no_graphs[] = "gpu.graph: false runs without CUDA graphs; please report it with run.yaml and log.txt";
static const char old_code[] = "remove the kernel cache (hpctrain in $XDG_CACHE_HOME, else in ~/.cache) and start again";
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
    {cudaErrorMemoryAllocation, "see what else runs on the GPU (nvidia-smi); a smaller train.micro_batch_size needs less"},
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

/* Of the host, and pinned: all others are the GPU's. */
static bool is_host_call(const char *call) { return !strncmp(call, "cudaMallocHost", 14) || !strncmp(call, "cudaHost", 8); }

static _Noreturn void memory_failed(cudaError_t error, const char *call) {
  char what[64], words[256];
  (void)cudaGetLastError(); /* which forgets it: more is asked of the GPU */
  snprintf(what, sizeof what, "%.*s", (int)strcspn(call, "("), call);
  snprintf(words, sizeof words, "CUDA: %s (%s)", cudaGetErrorString(error), cudaGetErrorName(error));
  if (is_host_call(call)) dev_host_memory_failed(0, what, words);
  dev_memory_failed(what, words);
}

void cuda_check(cudaError_t error, const char *call) {
  Why why;
  if (error == cudaErrorMemoryAllocation) memory_failed(error, call);
  if (!cuda_try(error, call, &why)) fail(FAIL_MACHINE, "%s", why.text);
}
