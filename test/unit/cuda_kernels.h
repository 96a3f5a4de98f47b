/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels as CUDA code, for tests and benchmarks on a GPU and for those that only compile. */
#ifndef TEST_UNIT_CUDA_KERNELS_H
#define TEST_UNIT_CUDA_KERNELS_H

#include "src/dev/dev.h"
#include "src/fuse/fuse.h"
#include "src/gen/gen.h"

/* A cuda device without a cache: for `arch` without a GPU, or the first GPU when arch is NULL.  NULL, with a note on stderr,
 * where hpctrain was built without CUDA or, for arch NULL, where there is no GPU. */
Dev *cuda_device_try(const char *arch, int threads);
bool cuda_has_gpu(void);            /* and the module to use it */
const char *cuda_module_file(void); /* NULL: not built */

/* A bit an argument of a step of the program: its address is a multiple of 16, given that of its buffer. */
uint64_t cuda_aligned(const Step *step);

typedef struct CudaKernels {
  Arena *arena;
  VEC(const char *) texts; /* of kernel k0, k1, …; none twice */
  VEC(DevLaunch) launches;
} CudaKernels;

CudaKernels *cuda_kernels_open(void);
void cuda_kernels_close(CudaKernels *kernels);
int cuda_kernels_add(CudaKernels *kernels, const Kernel *kernel, uint64_t aligned); /* its number */
/* All of them as one image, built in so many parts. */
bool cuda_kernels_try_build(const CudaKernels *kernels, Dev *dev, int parts, void **image, size_t *nbytes, Why *why);
/* Built and loaded; ends the program when that fails. */
DevModule *cuda_kernels_load(const CudaKernels *kernels, Dev *dev, int parts);
void cuda_kernels_launch(const CudaKernels *kernels, Dev *dev, DevModule *module, int kernel, void *const *pointers, int n);

#endif
