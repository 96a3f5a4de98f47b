/* SPDX-License-Identifier: Apache-2.0 */
/* Big ops on a GPU: shared by gpu.c and gpu_tune.c.  Private to them. */
#ifndef EXEC_GPU_H
#define EXEC_GPU_H

#include "kernels/cuda/gpu.h"
#include "src/exec/job.h"

/* One way to run a call, prepared.  told: the row, and which of its plans: "cublaslt:algo66,tile20,…". */
typedef struct GpuPlan {
  const GpuImpl *impl;
  void *plan; /* NULL: none yet */
  char told[GPU_TOLD + 32];
} GpuPlan;

struct GpuUse {
  const char *key, *op;
  BigCall call; /* of the first of the steps */
  size_t workspace;
  GpuPlan chosen;
};

const GpuImpl *gpu_row(const char *op, int i);
bool gpu_allowed(const GpuRow *row, const Choices *choices);
bool gpu_try_prepare(const Job *job, const GpuUse *use, const GpuImpl *impl, int choice, GpuPlan *plan, Why *why);

/* Ends the job: no row can; tried: why, a line a row. */
_Noreturn void gpu_refuse(const Job *job, const GpuUse *use, const char *tried);

/* gpu_tune.c: whether a record (choices->tuned) names the plan of this use; then it is prepared as soon as it can be. */
bool gpu_recorded(Job *job, GpuUse *use);
/* All ranks take rank 0's plan of each use, which it measures where there is none yet; writes the record. */
void gpu_tune(Job *job);

#endif
