/* SPDX-License-Identifier: Apache-2.0 */
/* job_fill on a GPU: the kernel of kernels/cuda/fill.inc.cu. */
#include "kernels/cuda/fill.h"

#include <string.h>

#include "src/exec/job.h"

const char *gpu_fill_code(void) {
  const char *(*text)(void);
  void *symbol = dev_cuda_symbol("gpu_fill_text");
  memcpy(&text, &symbol, sizeof symbol);
  return text();
}

void gpu_fill_floats(Job *job, void *at, void *lower, bool halves, int64_t n, const JobFill *fill) {
  void (*launch)(void *kernel, void *to, void *rest, int64_t count, const GpuFill *values, GpuStream stream);
  void *symbol = dev_cuda_symbol("gpu_fill");
  memcpy(&launch, &symbol, sizeof symbol);
  GpuFill values = {fill->normal, fill->element, fill->std, fill->constant};
  launch(dev_symbol(job->module, halves ? "fill_halves" : "fill"), at, lower, n, &values, dev_stream(job->dev));
}
