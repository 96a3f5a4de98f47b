/* SPDX-License-Identifier: Apache-2.0 */
/* Big ops on a GPU: the ops, operands and numbers of kernels/big.h, their pointers in device memory.
 *
 * A use is prepared once and run many times.  Preparing looks at everything in the call but what the pointers point to:
 * types, shapes, strides, numbers, and how well each pointer is aligned (NULL: to 256 bytes, as every allocation is).
 * Running enqueues on a stream and neither allocates, waits nor reads device memory from the host, so that it can be
 * captured in a CUDA graph.
 *
 * Types, where big.h says float32: a, b, bias, q, k, v, o, do, dq, dk, dv, table, x, w, out, dout are BF16, F16 or F32, all of one
 * type in a call; c, dtable and grouped_grad's out may be F32 beside 16-bit operands; lse and scores are F32.  Arithmetic is in
 * float32 in every row. attention's `start` may be absent (rank 0): then each sequence is one segment. */
#ifndef KERNELS_CUDA_GPU_H
#define KERNELS_CUDA_GPU_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/big.h"
#include "src/base/fail.h"

enum { GPU_ROUTE_CHOICES = 16 }; /* experts a token at most: its thread keeps them in registers */

typedef struct CUstream_st *GpuStream; /* cudaStream_t, for those who see no CUDA header */

/* What preparing needs of its caller. */
typedef struct GpuTools {
  /* The kernel (cudaKernel_t) of that name from gpu_plain_text(), compiled for this device and loaded; the plain rows call it. */
  void *(*kernel)(void *plain, const char *name);
  void *plain;
  /* Which of the row's own plans for the call: 0 is the fixed rule's; more are there to be timed, until preparing fails. */
  int choice;
} GpuTools;

/* What is known of an implementation without CUDA: kernels/gpu_rows.c, a part of the program, so that plans can be made
 * anywhere.  Rows of an op are in the order of the fixed rule: deterministic ones before others, plain last. */
typedef struct GpuRow {
  const char *op;     /* "matmul" */
  const char *name;   /* "cublaslt": what the key and the banner say */
  bool deterministic; /* each run gives the same bits */
  bool plain;         /* calls kernels of gpu_plain_text() */
  bool biased;        /* adds a product's bias */
  /* An upper bound of what try_prepare asks for, pure; 0 for calls that the row never takes. */
  size_t (*workspace)(const BigCall *call);
} GpuRow;

enum {
  GPU_MATMUL_CUBLASLT,
  GPU_MATMUL_PLAIN,
  GPU_ATTENTION_CUDNN,
  GPU_ATTENTION_PLAIN,
  GPU_ATTENTION_GRAD_CUDNN,
  GPU_ATTENTION_GRAD_CUDNN_FAST,
  GPU_ATTENTION_GRAD_PLAIN,
  GPU_EMBEDDING_PLAIN,
  GPU_EMBEDDING_GRAD_PLAIN,
  GPU_ROUTE_PLAIN,
  GPU_TAKE_PLAIN,
  GPU_GROUPED_MMA,
  GPU_GROUPED_PLAIN,
  GPU_GROUPED_GRAD_MMA,
  GPU_GROUPED_GRAD_PLAIN,
  GPU_ROWS
};
extern const GpuRow gpu_rows[GPU_ROWS];
bool gpu_adds_bias(void); /* whether every row of products does */

enum { GPU_TOLD = 160 };

/* How the row of the same number does it: kernels/cuda/gpu.c, a part of the module. */
typedef struct GpuImpl {
  const GpuRow *row;
  /* A plan for this call, and the bytes of workspace a run needs, at most row->workspace(call); or false and why the row does
   * not apply (a shape, a layout, a version, a device). */
  bool (*try_prepare)(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why);
  /* call: as prepared, with pointers aligned no worse; call->workspace aligned to 256.  Runs of one plan must not overlap:
   * give each stream plans of its own. */
  void (*run)(void *plan, const BigCall *call, GpuStream stream);
  void (*release)(void *plan);
  /* Which of the row's plans this is, in one word that means the same in every process; NULL: the row has one plan. */
  void (*tell)(const void *plan, char word[GPU_TOLD]);
} GpuImpl;

/* Row number i of op; NULL past the last. */
const GpuImpl *gpu_impl(const char *op, int i);

/* CUDA C of the plain rows, for NVRTC; includes nothing. */
const char *gpu_plain_text(void);

/* "cuDNN 9.19.0, cuBLASLt 13.1.0" */
const char *gpu_libraries(void);
/* The kind of the GPU in use, in one word: "NVIDIA_H200". */
const char *gpu_device_name(void);

/* What an address is known to be aligned to: a power of two up to 256 (NULL: 256). */
static inline size_t gpu_alignment(const void *at) {
  size_t bits = (size_t)at | 256;
  return bits & (~bits + 1);
}

static inline size_t gpu_round(size_t nbytes) { return (nbytes + 255) & ~(size_t)255; }

#endif
