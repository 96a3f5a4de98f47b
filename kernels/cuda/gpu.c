/* SPDX-License-Identifier: Apache-2.0 */
/* The table of big-op implementations for GPUs. */
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/rows.h"
#include "kernels/texts.h"
#include "src/dev/dev.h"

#define PLAIN(op) plain_##op##_prepare, plain_run, plain_release, NULL
#define MMA(op) mma_##op##_prepare, plain_run, plain_release, NULL
#define CUDNN(op) cudnn_##op##_prepare, cudnn_attention_run, cudnn_attention_release, cudnn_attention_tell

static const GpuImpl impls[GPU_ROWS] = {
    {&gpu_rows[GPU_MATMUL_CUBLASLT], cublaslt_prepare, cublaslt_run, cublaslt_release, cublaslt_tell},
    {&gpu_rows[GPU_MATMUL_PLAIN], PLAIN(matmul)},
    {&gpu_rows[GPU_ATTENTION_CUDNN], CUDNN(attention)},
    {&gpu_rows[GPU_ATTENTION_PLAIN], PLAIN(attention)},
    {&gpu_rows[GPU_ATTENTION_GRAD_CUDNN], CUDNN(attention_grad)},
    {&gpu_rows[GPU_ATTENTION_GRAD_CUDNN_FAST], CUDNN(attention_grad_fast)},
    {&gpu_rows[GPU_ATTENTION_GRAD_PLAIN], PLAIN(attention_grad)},
    {&gpu_rows[GPU_EMBEDDING_PLAIN], PLAIN(embedding)},
    {&gpu_rows[GPU_EMBEDDING_GRAD_PLAIN], PLAIN(embedding_grad)},
    {&gpu_rows[GPU_ROUTE_PLAIN], PLAIN(route)},
    {&gpu_rows[GPU_TAKE_PLAIN], PLAIN(take)},
    {&gpu_rows[GPU_GROUPED_MMA], MMA(grouped)},
    {&gpu_rows[GPU_GROUPED_PLAIN], PLAIN(grouped)},
    {&gpu_rows[GPU_GROUPED_GRAD_MMA], MMA(grouped_grad)},
    {&gpu_rows[GPU_GROUPED_GRAD_PLAIN], PLAIN(grouped_grad)},
};

const GpuImpl *gpu_impl(const char *op, int i) {
  for (int row = 0; row < GPU_ROWS; row++)
    if (strcmp(impls[row].row->op, op) == 0 && i-- == 0) return &impls[row];
  return NULL;
}

const char *gpu_plain_text(void) {
  static Text text;
  if (!text.n) text_printf(&text, "%senum { ROUTE_CHOICES = %d };\n%s", text_plain, GPU_ROUTE_CHOICES, text_experts);
  return text.at;
}

const char *gpu_libraries(void) {
  static char text[96];
  snprintf(text, sizeof text, "cuDNN %s, cuBLASLt %s", cudnn_version_text(), cublaslt_version_text());
  return text;
}

const char *gpu_device_name(void) {
  static struct cudaDeviceProp prop;
  int gpu;
  if (*prop.name) return prop.name;
  GPU_MUST(cudaGetDevice(&gpu));
  GPU_MUST(cudaGetDeviceProperties(&prop, gpu));
  for (char *c = prop.name; *c; c++)
    if (*c == ' ') *c = '_';
  return prop.name;
}

void gpu_must(cudaError_t status, const char *what) {
  if (status == cudaErrorMemoryAllocation) dev_memory_failed(what, cudaGetErrorString(status));
  if (status != cudaSuccess) fail(FAIL_MACHINE, "%s: %s: %s", what, cudaGetErrorName(status), cudaGetErrorString(status));
}
