/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share. */
#ifndef KERNELS_CUDA_ROWS_H
#define KERNELS_CUDA_ROWS_H

#include <cuda_runtime_api.h>

#include "kernels/cuda/gpu.h"

/* Ends the job when a CUDA call fails; what: the call. */
void gpu_must(cudaError_t status, const char *what);
#define GPU_MUST(call) gpu_must((call), #call)

static inline size_t gpu_round(size_t nbytes) { return (nbytes + 255) & ~(size_t)255; }

/* What the address is known to be aligned to: a power of two up to 256. */
size_t gpu_alignment(const void *at);

bool cudnn_attention_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why);
void cudnn_attention_run(void *plan, const BigCall *call, cudaStream_t stream);
bool cudnn_attention_grad_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why);
bool cudnn_attention_grad_fast_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why);
void cudnn_attention_release(void *plan);
size_t cudnn_attention_workspace(const BigCall *call);
size_t cudnn_attention_grad_workspace(const BigCall *call);
size_t cudnn_attention_grad_fast_workspace(const BigCall *call);
const char *cudnn_version_text(void);

bool cublaslt_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why);
void cublaslt_run(void *plan, const BigCall *call, cudaStream_t stream);
void cublaslt_release(void *plan);
size_t cublaslt_workspace(const BigCall *call);
const char *cublaslt_version_text(void);

bool plain_matmul_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why);
bool plain_attention_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why);
bool plain_attention_grad_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why);
bool plain_embedding_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why);
bool plain_embedding_grad_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why);
void plain_run(void *plan, const BigCall *call, cudaStream_t stream);
void plain_release(void *plan);
size_t plain_workspace(const BigCall *call);

#endif
