/* SPDX-License-Identifier: Apache-2.0 */
/* cuDNN's operation graphs through its C backend API: tensors of rank 4, the few ops of attention, and the choice of an
 * execution plan.  The first call that cuDNN refuses leaves its words in the graph; later calls on the graph do nothing
 * and the plan is refused with those words, so that building needs no checks. */
#ifndef KERNELS_CUDA_GRAPH_H
#define KERNELS_CUDA_GRAPH_H

#include <cudnn.h>

#include "kernels/cuda/gpu.h"

typedef struct GraphTensor {
  cudnnBackendDescriptor_t desc;
  int64_t uid; /* names a tensor that is not virtual when the plan runs */
  int64_t dim[4], stride[4];
  cudnnDataType_t type;
} GraphTensor;

enum { GRAPH_OPS = 40, GRAPH_DESCS = 160 };

typedef struct Graph {
  cudnnBackendDescriptor_t ops[GRAPH_OPS], descs[GRAPH_DESCS]; /* descs: all that are to be destroyed */
  int nops, ndescs;
  int64_t nuids;
  bool refused;
  Why why;
} Graph;

/* A tensor in memory; strides in elements. */
GraphTensor graph_memory(Graph *graph, cudnnDataType_t type, const int64_t dim[4], const int64_t stride[4], size_t alignment);
/* A number that the host passes with each run. */
GraphTensor graph_number(Graph *graph, cudnnDataType_t type);
/* Each op's result goes to `to` where one is given, else to a new virtual tensor, which is returned either way. */
typedef struct GraphOp {
  cudnnPointwiseMode_t mode;
  const GraphTensor *x, *y, *condition; /* operands; NULL: has none */
  int axis;                             /* of GEN_INDEX */
  cudnnDataType_t math, type;           /* arithmetic, result */
  const GraphTensor *to;
} GraphOp;
GraphTensor graph_pointwise(Graph *graph, GraphOp op);
GraphTensor graph_matmul(Graph *graph, const GraphTensor *a, const GraphTensor *b, cudnnDataType_t type, const GraphTensor *to);
GraphTensor graph_reduce(Graph *graph, cudnnReduceTensorOp_t op, const GraphTensor *x, const GraphTensor *to);
/* x seen with another shape; strides are those of the result. */
GraphTensor graph_view(Graph *graph, const GraphTensor *x, cudnnDataType_t type, const int64_t dim[4], const int64_t stride[4]);

typedef struct GraphWish {
  bool deterministic; /* no engine whose notes say that it is not; notes do not tell all: attention's fast gradient has none */
  int choice;         /* pass over so many proposals that would do */
  size_t most;        /* bytes of workspace */
} GraphWish;

typedef struct GraphPlan {
  cudnnBackendDescriptor_t desc;
  size_t workspace;        /* bytes */
  char told[GPU_TOLD - 8]; /* engine and knobs: "engine10,k3=1" */
} GraphPlan;

/* The first of cuDNN's proposals that can be built and meets the wish.  Destroys the graph in any case. */
bool graph_try_plan(Graph *graph, GraphWish wish, GraphPlan *plan, Why *why);

/* Enqueues the plan.  uids name the tensors at the addresses (device memory, or the host's for numbers). */
void graph_run(cudnnBackendDescriptor_t plan, int n, const int64_t *uids, void *const *at, void *workspace, cudaStream_t stream);

#endif
