/* SPDX-License-Identifier: Apache-2.0 */
/* The table of big-op implementations for GPUs. */
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/rows.h"
#include "kernels/texts.h"

#define PLAIN_ROW(which)                                                                                                           \
  {                                                                                                                                \
    .op = #which, .name = "plain", .deterministic = true, .try_prepare = plain_##which##_prepare, .run = plain_run,                \
    .release = plain_release, .workspace = plain_workspace                                                                         \
  }

#define CUDNN_ROW(which, called, same_bits, what)                                                                                  \
  {                                                                                                                                \
    .op = which, .name = called, .deterministic = same_bits, .try_prepare = cudnn_##what##_prepare, .run = cudnn_attention_run,    \
    .release = cudnn_attention_release, .workspace = cudnn_##what##_workspace                                                      \
  }

static const GpuImpl rows[] = {
    {.op = "matmul",
     .name = "cublaslt",
     .deterministic = true,
     .try_prepare = cublaslt_prepare,
     .run = cublaslt_run,
     .release = cublaslt_release,
     .workspace = cublaslt_workspace},
    PLAIN_ROW(matmul),
    CUDNN_ROW("attention", "cudnn", true, attention),
    PLAIN_ROW(attention),
    CUDNN_ROW("attention_grad", "cudnn", true, attention_grad),
    CUDNN_ROW("attention_grad", "cudnn-fast", false, attention_grad_fast),
    PLAIN_ROW(attention_grad),
    PLAIN_ROW(embedding),
    PLAIN_ROW(embedding_grad),
};
enum { ROWS = sizeof rows / sizeof *rows };

const GpuImpl *gpu_row(const char *op, int i) {
  for (int row = 0; row < ROWS; row++)
    if (strcmp(rows[row].op, op) == 0 && i-- == 0) return &rows[row];
  return NULL;
}

const char *gpu_plain_text(void) { return text_plain; }

const char *gpu_libraries(void) {
  static char text[96];
  snprintf(text, sizeof text, "cuDNN %s, cuBLASLt %s", cudnn_version_text(), cublaslt_version_text());
  return text;
}

void gpu_must(cudaError_t status, const char *what) {
  if (status != cudaSuccess) fail(FAIL_MACHINE, "%s: %s: %s", what, cudaGetErrorName(status), cudaGetErrorString(status));
}

size_t gpu_alignment(const void *at) {
  size_t bits = (size_t)at | 256;
  return bits & (~bits + 1);
}
