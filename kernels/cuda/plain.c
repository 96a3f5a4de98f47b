/* SPDX-License-Identifier: Apache-2.0 */
/* The plain rows: launches of the kernels in plain.inc.cu. */
#include <stdlib.h>

#include "kernels/cuda/rows.h"
#include "src/base/arena.h"

typedef struct PlainNumbers {
  long long n;
  float f;
} PlainNumbers;

_Static_assert(sizeof(BigView) == 96 && offsetof(BigView, rank) == 88, "View of plain.inc.cu is laid out as BigView");

enum { KERNELS = 2, VIEWS = BIG_IN + BIG_OUT, THREADS = 128 };

/* What a use launches, one kernel after another. */
typedef struct Plain {
  void *kernel[KERNELS];
  dim3 grid[KERNELS];
  int nkernels, nin, nout;
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
  *p = (Plain){.nin = nin, .nout = nout};
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

void plain_run(void *plan, const BigCall *call, cudaStream_t stream) {
  const Plain *p = plan;
  BigView views[VIEWS];
  void *parameters[VIEWS + 1];
  PlainNumbers numbers = {call->n[0], (float)call->f};
  int n = 0;
  for (int i = 0; i < p->nin; i++) views[n++] = call->in[i];
  for (int i = 0; i < p->nout; i++) views[n++] = call->out[i];
  if (p->one_struct) n = 1;
  for (int i = 0; i < n; i++) parameters[i] = &views[i];
  parameters[n] = &numbers;
  for (int i = 0; i < p->nkernels; i++) {
    cudaLaunchConfig_t config = {.gridDim = p->grid[i], .blockDim = {THREADS, 1, 1}, .stream = stream};
    GPU_MUST(cudaLaunchKernelExC(&config, p->kernel[i], parameters));
  }
}

void plain_release(void *plan) { free(plan); }
