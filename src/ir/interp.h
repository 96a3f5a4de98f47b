/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the interpreter: what an evaluation gets. */
#ifndef IR_INTERP_H
#define IR_INTERP_H

#include "src/ir/ir.h"

typedef struct Eval {
  const Graph *g;
  const Node *node;
  const double *const *in; /* a dense value an input; of an attention node all results in a row */
  double *out;
  InterpCollective *collective;
  void *self;
} Eval;

typedef void EvalFn(const Eval *e);

static inline const Shape *eval_shape(const Eval *e, int i) { return &graph_node(e->g, e->node->in[i])->shape; }

/* interp_big.c */
EvalFn eval_matmul, eval_attention, eval_attention_grad, eval_embedding, eval_embedding_grad;

/* interp_experts.c */
EvalFn eval_route, eval_take, eval_grouped, eval_grouped_grad;

/* Of result i of an attention node: the elements before it in the node's value; i == the number of results gives all. */
int64_t interp_result_offset(const Graph *g, const Node *node, int64_t i);

/* interp.c: a pointwise node of scalars. */
double interp_scalar(const Node *node, const double *in);

#endif
