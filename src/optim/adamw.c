/* SPDX-License-Identifier: Apache-2.0 */
/* AdamW as graph: moments, their corrections, decay on matrices, all of it undone where the step is not applied. */
#include <math.h>

#include "src/optim/optim.h"

/* 1 - betaᵗ = -expm1(t·log beta), which keeps its digits for betas near 1. */
static int correction(Graph *g, double beta, int t) {
  return ir_unary(g, OP_NEG, ir_unary(g, OP_EXPM1, ir_scale(g, t, log(beta))));
}

AdamWShared adamw_shared(Graph *g, const AdamW *adam, int lr, int count, int apply) {
  int t = ir_add(g, count, ir_const(g, DT_F32, 1));
  return (AdamWShared){lr, correction(g, adam->beta1, t), correction(g, adam->beta2, t), apply};
}

void adamw_update(Graph *g, const AdamW *adam, const AdamWShared *shared, int grad, int decayed, int *p, int *m, int *v) {
  int m_new = ir_add(g, ir_scale(g, *m, adam->beta1), ir_scale(g, grad, 1 - adam->beta1));
  int v_new = ir_add(g, ir_scale(g, *v, adam->beta2), ir_scale(g, ir_mul(g, grad, grad), 1 - adam->beta2));
  int denominator = ir_add(g, ir_unary(g, OP_SQRT, ir_div(g, v_new, shared->correction2)), ir_const(g, DT_F32, adam->eps));
  int step = ir_mul(g, shared->lr, ir_div(g, ir_div(g, m_new, shared->correction1), denominator));
  int kept = *p;
  if (decayed >= 0 && adam->weight_decay != 0) {
    int one = ir_const(g, DT_F32, 1);
    int shrink = ir_sub(g, one, ir_scale(g, shared->lr, adam->weight_decay));
    kept = ir_mul(g, *p, ir_select(g, decayed, shrink, one));
  }
  *p = ir_select(g, shared->apply, ir_sub(g, kept, step), *p);
  *m = ir_select(g, shared->apply, m_new, *m);
  *v = ir_select(g, shared->apply, v_new, *v);
}
