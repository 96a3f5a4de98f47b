/* SPDX-License-Identifier: Apache-2.0 */
/* Text of fused kernels for a target.  Pure: the same kernel gives the same text, on every rank. */
#ifndef GEN_GEN_H
#define GEN_GEN_H

#include "src/fuse/fuse.h"

/* Appends `void SYMBOL(void *const *p, int threads)`: p holds the inputs' addresses, then the outputs' (each already at the
 * element the access starts from).  An output may be written over an input that is read at the same index.  To be compiled
 * after kernels_prelude. */
void gen_c(const Kernel *kernel, const char *symbol, Text *text);

#endif
