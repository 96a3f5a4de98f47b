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

enum { BINDINGS = 16, PADS = BIG_IN + BIG_OUT };

/* An operand's padded copy in the workspace. */
typedef struct Pad {
  Source source; /* FROM_IN or FROM_OUT */
  int at;        /* operand number */
  size_t offset; /* from where the copies begin */
} Pad;

/* A prepared use. */
typedef struct Attention {
  GraphPlan plan;
  int64_t B, G, part_B, part_G; /* sequences and key heads, in all and in a part */
  float scale, minus_infinity, one, window;
  Binding bindings[BINDINGS];
  int nbindings;
  Pad pads[PADS]; /* inputs, then outputs */
  int npads;
  BigCall padded; /* what the graph works on where there are pads */
  /* Bytes of the workspace: the engine's own, buffers of the graph, padded inputs, padded outputs. */
  size_t engine, buffers, pads_in, pads_out;
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
