/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of GPU kernels need: device memory, random operands, and comparisons made on the device. */
#ifndef TEST_GPU_JUDGE_H
#define TEST_GPU_JUDGE_H

#include <cuda_runtime_api.h>

#include "kernels/cuda/gpu.h"

/* The first GPU, the plain rows' kernels and the judge's own, compiled for it; false: there is no GPU. */
bool judge_open(void);
extern GpuTools judge_tools;
extern cudaStream_t judge_stream;

/* CUDA C to a cubin (malloc'd) for "sm_90a"; needs no GPU. */
char *judge_compile(const char *source, const char *arch, size_t *nbytes);

/* A contiguous view of no memory yet; and one of fresh device memory, every byte 0xff (NaN in each type), given back by
 * judge_reset. */
BigView judge_shape(int type, int rank, const int64_t *dim);
BigView judge_tensor(int type, int rank, const int64_t *dim);
/* Columns [from, from+n) of the last dimension of a contiguous view (…,C), as (…,heads,n/heads) when heads is not 0. */
BigView judge_columns(const BigView *v, int64_t from, int64_t n, int64_t heads);
void judge_reset(void);

void judge_fill(const BigView *v, double scale, uint64_t seed); /* normal-like numbers, none zero */
void judge_poison(const BigView *v);                            /* NaN in each element of a contiguous view */
void judge_put(const BigView *v, const int32_t *values);        /* host's integers into a contiguous I32 view */

/* ‖x - y‖ / ‖y‖, or ‖x‖ when y is 0; NaN when there is one. */
double judge_error(const BigView *x, const BigView *y);
/* A 64-bit sum over the bits of all elements: equal for equal bits. */
uint64_t judge_bits(const BigView *v);

/* A row prepared with workspace of its own, freed by judge_reset. */
typedef struct JudgeRun {
  const GpuImpl *row;
  void *plan, *workspace;
  size_t nbytes;
  Why why;
} JudgeRun;

/* plan is NULL when the row does not apply (why says so). */
JudgeRun judge_prepare(const GpuImpl *row, const BigCall *call);
void judge_run(JudgeRun *run, const BigCall *call); /* asynchronous */
void judge_release(JudgeRun *run);
const GpuImpl *judge_row(const char *op, const char *name);
void judge_wait(void);

#endif
