/* SPDX-License-Identifier: Apache-2.0 */
/* Built as test/unit/fake_cuda.so. */
#include "test/unit/fake_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/gpu.h"
#include "src/base/arena.h"
#include "src/dev/back.h"

extern const CudaModule hpctrain_cuda;
const CudaModule hpctrain_cuda = {.sizes = CUDA_MODULE_SIZES};

extern Fake fake;
Fake fake;

typedef struct FakePlan {
  int choice;
} FakePlan;

static bool product_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why) {
  (void)call;
  if (tools->choice >= fake.plans) return why_not(why, "has no plan %d", tools->choice);
  FakePlan *p = *plan = xmalloc(sizeof *p);
  p->choice = tools->choice;
  fake.prepared++;
  *workspace = 64;
  return true;
}

static bool plain_prepare(const GpuTools *tools, const BigCall *call, void **plan, size_t *workspace, Why *why) {
  (void)call;
  if (tools->choice) return why_not(why, "has one plan");
  if (!tools->plain) return why_not(why, "its kernels are not there yet");
  *plan = xmalloc(sizeof(FakePlan));
  fake.prepared++;
  *workspace = 0;
  return true;
}

/* The output is the sum of what the call reads first. */
static void product_run(void *plan, const BigCall *call, GpuStream stream) {
  const FakePlan *p = plan;
  (void)stream;
  *(float *)call->out[0].at = *(const float *)call->in[0].at + *(const float *)call->in[1].at;
  fake.now += fake.seconds[p->choice];
  fake.ran++;
}

static void plan_release(void *plan) {
  fake.released++;
  free(plan);
}

static void product_tell(const void *plan, char word[GPU_TOLD]) {
  snprintf(word, GPU_TOLD, "algo%d", fake.first + ((const FakePlan *)plan)->choice);
}

static const GpuImpl impls[] = {
    {&gpu_rows[GPU_MATMUL_CUBLASLT], product_prepare, product_run, plan_release, product_tell},
    {&gpu_rows[GPU_MATMUL_PLAIN], plain_prepare, product_run, plan_release, NULL},
    {&gpu_rows[GPU_ATTENTION_GRAD_CUDNN_FAST], product_prepare, product_run, plan_release, product_tell},
    {&gpu_rows[GPU_ATTENTION_GRAD_PLAIN], plain_prepare, product_run, plan_release, NULL},
};

const GpuImpl *gpu_impl(const char *op, int i) {
  for (size_t row = 0; row < sizeof impls / sizeof *impls; row++)
    if (!strcmp(impls[row].row->op, op) && i-- == 0) return &impls[row];
  return NULL;
}

const char *gpu_device_name(void) { return "FAKE_1"; }
