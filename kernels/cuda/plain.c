/* SPDX-License-Identifier: Apache-2.0 */
/* The plain rows: launches of the kernels in plain.inc.cu and experts.inc.cu; and of the latter's grouped products by tensor cores.
 */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/rows.h"
#include "src/base/arena.h"

typedef struct PlainNumbers {
  long long n, m;
  float f;
} PlainNumbers;

_Static_assert(sizeof(BigView) == 96 && offsetof(BigView, rank) == 88, "View of plain.inc.cu is laid out as BigView");

enum { KERNELS = 2, VIEWS = BIG_IN + BIG_OUT, THREADS = 128, MMA_THREADS = 256, MMA_TILE = 128 };

/* What a use launches, one kernel after another. */
typedef struct Plain {
  void *kernel[KERNELS];
  dim3 grid[KERNELS];
  int nkernels, nin, nout, threads;
  bool one_struct; /* the views are one parameter, not one each */
} Plain;

static bool try_kernel(Plain *p, const GpuTools *tools, const char *name, dim3 grid, Why *why) {
  CHECK(p->nkernels < KERNELS);
  if (tools->choice > 0) return why_not(why, "plain has no more plans");
  p->kernel[p->nkernels] = tools->kernel(tools->plain, name);
  CHECK(p->kernel[p->nkernels]);
  if (grid.y > 65535 || grid.z > 65535) return why_not(why, "more than 65535 heads or sequences");
  p->grid[p->nkernels++] = grid;
  return true;
}

static dim3 over_elements(const BigView *v) { return (dim3){(unsigned)((v->dim[0] * v->dim[1] + THREADS - 1) / THREADS), 1, 1}; }

/* A block for each of (B,S,H,·): position, head, sequence. */
static dim3 over_positions(const BigView *v) { return (dim3){(unsigned)v->dim[1], (unsigned)v->dim[2], (unsigned)v->dim[0]}; }

static bool finish(Plain *p, bool ok, void **plan, size_t *workspace) {
  *workspace = 0;
  if (ok) return *plan = p, true;
  free(p);
  return false;
}

static Plain *plain_new(int nin, int nout) {
  Plain *p = xmalloc(sizeof *p);
  *p = (Plain){.nin = nin, .nout = nout, .threads = THREADS};
  return p;
}

bool plain_matmul_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why) {
  Plain *p = plain_new(3, 1); /* a bias of no rank is none */
  return finish(p, try_kernel(p, tools, "plain_matmul", over_elements(&call->out[0]), why), plan, workspace);
}

bool plain_attention_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why) {
  Plain *p = plain_new(4, 2);
  return finish(p, try_kernel(p, tools, "plain_attention", over_positions(&call->out[0]), why), plan, workspace);
}

bool plain_attention_grad_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why) {
  Plain *p = plain_new(7, 3);
  p->one_struct = true;
  return finish(p,
                try_kernel(p, tools, "plain_attention_dq", over_positions(&call->out[0]), why) &&
                    try_kernel(p, tools, "plain_attention_dkv", over_positions(&call->out[1]), why),
                plan, workspace);
}

bool plain_embedding_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why) {
  Plain *p = plain_new(2, 1);
  return finish(p, try_kernel(p, tools, "plain_embedding", over_elements(&call->out[0]), why), plan, workspace);
}

bool plain_embedding_grad_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why) {
  Plain *p = plain_new(3, 1);
  return finish(p, try_kernel(p, tools, "plain_embedding_grad", (dim3){(unsigned)call->out[0].dim[0], 1, 1}, why), plan, workspace);
}

bool plain_route_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why) {
  unsigned T = (unsigned)call->in[0].dim[0], E = (unsigned)call->in[0].dim[1];
  if (call->n[1] > GPU_ROUTE_CHOICES) return why_not(why, "more than %d experts a token", GPU_ROUTE_CHOICES);
  Plain *p = plain_new(1, 1);
  return finish(p,
                try_kernel(p, tools, "plain_route", (dim3){(T + THREADS - 1) / THREADS, 1, 1}, why) &&
                    try_kernel(p, tools, "plain_route_sort", (dim3){E, 1, 1}, why),
                plan, workspace);
}

bool plain_take_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why) {
  Plain *p = plain_new(3, 1);
  return finish(p, try_kernel(p, tools, "plain_take", (dim3){(unsigned)call->out[0].dim[0], 1, 1}, why), plan, workspace);
}

bool plain_grouped_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why) {
  Plain *p = plain_new(3, 1);
  return finish(p, try_kernel(p, tools, "plain_grouped", over_elements(&call->out[0]), why), plan, workspace);
}

bool plain_grouped_grad_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why) {
  Plain *p = plain_new(3, 1);
  return finish(p, try_kernel(p, tools, "plain_grouped_grad", over_elements(&call->out[0]), why), plan, workspace);
}

/* Rows that copies of 16 bytes can walk. */
static bool eights(const BigView *v) {
  bool rows = v->stride[1] == 1 || v->dim[1] == 1;
  return rows && v->dim[1] % 8 == 0 && v->stride[0] % 8 == 0 && gpu_alignment(v->at) >= 16 &&
         (v->type == BIG_BF16 || v->type == BIG_F16);
}

static unsigned tiles(int64_t n) { return (unsigned)((n + MMA_TILE - 1) / MMA_TILE); }

static bool mma_prepare(const GpuTools *tools, const BigCall *call, const char *name, dim3 grid, void **plan, size_t *workspace,
                        Why *why) {
  char kernel[40];
  if (!eights(&call->in[0]) || !eights(&call->in[1]) || call->out[0].dim[1] % 8)
    return why_not(why, "no operands of 16 bits in rows of multiples of 8");
  snprintf(kernel, sizeof kernel, "%s_%s", name, call->in[0].type == BIG_BF16 ? "bf16" : "f16");
  Plain *p = plain_new(3, 1);
  p->threads = MMA_THREADS;
  return finish(p, try_kernel(p, tools, kernel, grid, why), plan, workspace);
}

/* As many blocks of rows as there may be at most: each expert's last is not full. */
bool mma_grouped_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why) {
  const BigView *out = &call->out[0];
  dim3 grid = {tiles(out->dim[0]) + (unsigned)call->in[2].dim[0] - 1, tiles(out->dim[1]), 1};
  return mma_prepare(tools, call, "mma_grouped", grid, plan, workspace, why);
}

bool mma_grouped_grad_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why) {
  dim3 grid = {tiles(call->out[0].dim[1]), tiles(call->in[0].dim[1]), (unsigned)call->in[2].dim[0] - 1};
  return mma_prepare(tools, call, "mma_grouped_grad", grid, plan, workspace, why);
}

void plain_run(void *plan, const BigCall *call, cudaStream_t stream) {
  const Plain *p = plan;
  BigView views[VIEWS];
  void *parameters[VIEWS + 1];
  PlainNumbers numbers = {call->n[0], call->n[1], (float)call->f};
  int n = 0;
  for (int i = 0; i < p->nin; i++) views[n++] = call->in[i];
  for (int i = 0; i < p->nout; i++) views[n++] = call->out[i];
  if (p->one_struct) n = 1;
  for (int i = 0; i < n; i++) parameters[i] = &views[i];
  parameters[n] = &numbers;
  for (int i = 0; i < p->nkernels; i++) {
    cudaLaunchConfig_t config = {.gridDim = p->grid[i], .blockDim = {(unsigned)p->threads, 1, 1}, .stream = stream};
    GPU_MUST(cudaLaunchKernelExC(&config, p->kernel[i], parameters));
  }
}

void plain_release(void *plan) { free(plan); }
