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

void gpu_fill_floats(Job *job, float *at, int64_t n, const JobFill *fill) {
  void (*launch)(void *kernel, float *at, int64_t n, const GpuFill *fill, GpuStream stream);
  void *symbol = dev_cuda_symbol("gpu_fill");
  memcpy(&launch, &symbol, sizeof symbol);
  GpuFill values = {fill->normal, fill->element, fill->std, fill->constant};
  launch(dev_symbol(job->module, "fill"), at, n, &values, dev_stream(job->dev));
}
