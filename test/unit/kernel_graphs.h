/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of what a transformer is made of besides big ops: what benchmarks of generated kernels build.  All Vars are
 * carried; n and m are rows and columns; activations are of type `type`, the rest is F32. */
#ifndef TEST_UNIT_KERNEL_GRAPHS_H
#define TEST_UNIT_KERNEL_GRAPHS_H

#include "src/ir/ir.h"

typedef void KernelGraph(Graph *g, int64_t n, int64_t m, DType type);
KernelGraph graph_norm, graph_norm_grad, graph_swiglu, graph_swiglu_grad, graph_loss;
KernelGraph graph_rope;      /* of n tokens with 16 heads of m */
KernelGraph graph_rope_qkv;  /* 32 and 8 of them, which lie beside 8 others */
KernelGraph graph_transpose; /* (n,m) to (m,n) */
KernelGraph graph_adamw, graph_adamw_brief, graph_copy_of, graph_cast, graph_squares,
    graph_hash_of; /* of n elements; graph_cast: from F32 to type; the last two: over m rows first */

#endif
