/* SPDX-License-Identifier: Apache-2.0 */
/* Between the two halves of cuDNN's attention: the graph (attention_graph.c) and its plan and runs (attention_cudnn.c). */
#ifndef KERNELS_CUDA_ATTENTION_H
#define KERNELS_CUDA_ATTENTION_H

#include "kernels/cuda/graph.h"

/* Where a run finds a tensor of the graph. */
typedef enum Source { FROM_IN, FROM_OUT, FROM_WORKSPACE, FROM_PLAN } Source;

typedef struct Binding {
  Source source;
  int64_t at; /* operand number, or offset in bytes */
  int64_t uid;
} Binding;

enum { BINDINGS = 16 };

/* A prepared use. */
typedef struct Attention {
  cudnnBackendDescriptor_t plan;
  int64_t B, G, part_B, part_G; /* sequences and key heads, in all and in a part */
  float scale, minus_infinity, one, window;
  Binding bindings[BINDINGS];
  int nbindings;
  size_t workspace; /* the engine's own; buffers of the graph follow it */
} Attention;

/* While a graph is written. */
typedef struct Writer {
  Graph graph;
  Attention *to;
  const BigCall *call;
  int64_t B, S, H, G, D; /* of a part */
  cudnnDataType_t type;
  size_t buffers; /* bytes of the graph's buffers so far */
  GraphTensor scale, minus_infinity, one, window, start;
  bool windowed, segmented;
} Writer;

void attention_write_forward(Writer *w);
void attention_write_gradient(Writer *w, bool fast);

#endif
