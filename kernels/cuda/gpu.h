/* SPDX-License-Identifier: Apache-2.0 */
/* Big ops on a GPU: the ops, operands and numbers of kernels/big.h, their pointers in device memory.
 *
 * A use is prepared once and run many times.  Preparing looks at everything in the call but what the pointers point to:
 * types, shapes, strides, numbers, and how well each pointer is aligned (NULL: to 256 bytes, as every allocation is).
 * Running enqueues on a stream and neither allocates, waits nor reads device memory from the host, so that it can be
 * captured in a CUDA graph.
 *
 * Types, where big.h says float32: a, b, q, k, v, o, do, dq, dk, dv, table, out, dout are BF16, F16 or F32, all of one
 * type in a call; c and dtable may be F32 beside 16-bit operands; lse is F32.  Arithmetic is in float32 in every row.
 * attention's `start` may be absent (rank 0): then each sequence is one segment. */
#ifndef KERNELS_CUDA_GPU_H
#define KERNELS_CUDA_GPU_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/big.h"
#include "src/base/fail.h"

typedef struct CUstream_st *GpuStream; /* cudaStream_t, for those who see no CUDA header */

/* What preparing needs of its caller. */
typedef struct GpuTools {
  /* The kernel (cudaKernel_t) of that name from gpu_plain_text(), compiled for this device and loaded; the plain rows call it. */
  void *(*kernel)(void *plain, const char *name);
  void *plain;
  /* Which of the row's own plans for the call: 0 is the fixed rule's; more are there to be timed, until preparing fails. */
  int choice;
} GpuTools;

typedef struct GpuImpl {
  const char *op;   /* "matmul" */
  const char *name; /* "cublaslt": what the key and the banner say */
  bool deterministic;

  /* A plan for this call, and the bytes of workspace a run needs, at most workspace(call); or false and why the row does
   * not apply (a shape, a layout, a version, a device). */
  bool (*try_prepare)(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why);
  /* call: as prepared, with pointers; call->workspace aligned to 256.  Runs of one plan must not overlap: give each stream
   * plans of its own. */
  void (*run)(void *plan, const BigCall *call, GpuStream stream);
  void (*release)(void *plan);
  /* An upper bound, pure: for plans made where there is no GPU. */
  size_t (*workspace)(const BigCall *call);
} GpuImpl;

/* Row number i of op in the order of the fixed rule: deterministic rows before others, plain last; NULL past the last. */
const GpuImpl *gpu_row(const char *op, int i);

/* CUDA C of the plain rows, for NVRTC; includes nothing. */
const char *gpu_plain_text(void);

/* "cuDNN 9.19.0, cuBLASLt 13.1.0" */
const char *gpu_libraries(void);

#endif
