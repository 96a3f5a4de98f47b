/* SPDX-License-Identifier: Apache-2.0 */
/* Values by rule into a GPU's memory. */
#ifndef KERNELS_CUDA_FILL_H
#define KERNELS_CUDA_FILL_H

#include <stdint.h>

#include "kernels/cuda/gpu.h"
#include "src/base/rng.h"

typedef struct GpuFill {
  const Rng *normal; /* std times rng_normal of element, element + 1, …; NULL: the constant */
  uint64_t element;
  double std;
  float constant;
} GpuFill;

/* CUDA C++ of the kernel "fill", for NVRTC; includes nothing. */
const char *gpu_fill_text(void);

/* Enqueues; kernel: "fill" of that text, loaded. */
void gpu_fill(void *kernel, float *at, int64_t n, const GpuFill *fill, GpuStream stream);

#endif
