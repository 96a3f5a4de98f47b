/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of what a transformer is made of besides big ops: what benchmarks of generated kernels build.  All Vars are
 * carried; n and m are rows and columns. */
#ifndef TEST_UNIT_KERNEL_GRAPHS_H
#define TEST_UNIT_KERNEL_GRAPHS_H

#include "src/ir/ir.h"

typedef void KernelGraph(Graph *g, int64_t n, int64_t m);
KernelGraph graph_norm, graph_norm_grad, graph_swiglu, graph_swiglu_grad, graph_rope, graph_loss;
KernelGraph graph_adamw, graph_copy_of; /* of n elements */

#endif
