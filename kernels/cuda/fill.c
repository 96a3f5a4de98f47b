/* SPDX-License-Identifier: Apache-2.0 */
/* The launch of fill.inc.cu: a thread four elements, the words of one block of the generator. */
#include "kernels/cuda/fill.h"

#include "kernels/cuda/rows.h"
#include "kernels/texts.h"

enum { THREADS = 256 };

/* Fill of fill.inc.cu. */
typedef struct FillArgument {
  uint32_t key[2];
  uint64_t step, element;
  double std;
  float constant;
  int32_t normal;
} FillArgument;

const char *gpu_fill_text(void) { return text_fill; }

void gpu_fill(void *kernel, void *at, void *lower, int64_t n, const GpuFill *fill, GpuStream stream) {
  const Rng none = {{0, 0}, 0}, *rng = fill->normal ? fill->normal : &none;
  FillArgument argument = {{rng->key[0], rng->key[1]}, rng->step, fill->element, fill->std, fill->constant, fill->normal != NULL};
  long long count = n;
  uint64_t quads = (fill->element + (uint64_t)n + 3) / 4 - fill->element / 4;
  dim3 grid = {(unsigned)((quads + THREADS - 1) / THREADS), 1, 1};
  cudaLaunchConfig_t config = {.gridDim = grid, .blockDim = {THREADS, 1, 1}, .stream = stream};
  GPU_MUST(cudaLaunchKernelExC(&config, kernel, (void *[]){&at, &lower, &count, &argument}));
}
