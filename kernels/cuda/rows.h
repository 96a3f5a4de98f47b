/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share. */
#ifndef KERNELS_CUDA_ROWS_H
#define KERNELS_CUDA_ROWS_H

#include <cuda_runtime_api.h>

#include "kernels/cuda/gpu.h"

/* Ends the job when a CUDA call fails; what: the call. */
void gpu_must(cudaError_t status, const char *what);
#define GPU_MUST(call) gpu_must((call), #call)

bool cudnn_attention_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why);
void cudnn_attention_run(void *plan, const BigCall *call, cudaStream_t stream);
bool cudnn_attention_grad_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why);
bool cudnn_attention_grad_fast_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why);
void cudnn_attention_release(void *plan);
void cudnn_attention_tell(const void *plan, char word[GPU_TOLD]);
const char *cudnn_version_text(void);

bool cublaslt_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why);
void cublaslt_run(void *plan, const BigCall *call, cudaStream_t stream);
void cublaslt_release(void *plan);
void cublaslt_tell(const void *plan, char word[GPU_TOLD]);
const char *cublaslt_version_text(void);

bool plain_matmul_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why);
bool plain_attention_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why);
bool plain_attention_grad_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why);
bool plain_embedding_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why);
bool plain_embedding_grad_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why);
bool plain_route_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why);
bool plain_take_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why);
bool plain_grouped_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why);
bool plain_grouped_grad_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why);
bool mma_grouped_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why);
bool mma_grouped_grad_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why);
void plain_run(void *plan, const BigCall *call, cudaStream_t stream);
void plain_release(void *plan);

#endif
