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

/* CUDA C++ of the kernels "fill" (floats) and "fill_halves" (f32_upper and f32_lower of them, base/dtype.h), for NVRTC; includes
 * nothing. */
const char *gpu_fill_text(void);

/* Enqueues; kernel: one of that text, loaded.  lower: for the lower halves; NULL: they are not wanted. */
void gpu_fill(void *kernel, void *at, void *lower, int64_t n, const GpuFill *fill, GpuStream stream);

#endif
