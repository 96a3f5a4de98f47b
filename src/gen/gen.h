/* SPDX-License-Identifier: Apache-2.0 */
/* Text of fused kernels for a target.  Pure: the same kernel gives the same text, on every rank. */
#ifndef GEN_GEN_H
#define GEN_GEN_H

#include "src/fuse/fuse.h"

/* Appends `void SYMBOL(void *const *p, int threads)`: p holds the inputs' addresses, then the outputs' (each already at the
 * element the access starts from).  An output may be written over an input that is read at the same index.  To be compiled
 * after kernels_prelude. */
void gen_c(const Kernel *kernel, const char *symbol, Text *text);

/* How a CUDA kernel is to be launched: in blocks of so many threads. */
typedef struct GenLaunch {
  int64_t blocks;
  int threads;
} GenLaunch;

/* Appends `extern "C" __global__ void SYMBOL(inputs' addresses…, outputs' addresses…)`, on the same terms; to be compiled by
 * NVRTC for sm_80 or newer, after kernels_prelude_cuda.  aligned: a bit an argument, inputs first: its address is a multiple of 16.
 * The bits of the results depend on the kernel alone, not on aligned. */
GenLaunch gen_cuda(const Kernel *kernel, const char *symbol, uint64_t aligned, Text *text);

#endif
