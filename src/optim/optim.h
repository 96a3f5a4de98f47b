/* SPDX-License-Identifier: Apache-2.0 */
/* Optimisers and learning-rate schedules.  The optimiser only builds graph: the update of one flat vector of parameters. */
#ifndef OPTIM_OPTIM_H
#define OPTIM_OPTIM_H

#include "src/ir/ir.h"

/* AdamW: Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019.  The slots are m and v. */
typedef struct AdamW {
  double beta1, beta2, eps, weight_decay;
} AdamW;

/* Scalar nodes that all vectors share. */
typedef struct AdamWShared {
  int lr;                       /* f32 */
  int correction1, correction2; /* 1 - betaᵗ, t the count of applied updates, this one included */
  int apply;                    /* PRED: false keeps everything as it was */
} AdamWShared;

/* corrections from count (a scalar f32 node: updates applied before this one). */
AdamWShared adamw_shared(Graph *g, const AdamW *adam, int lr, int count, int apply);

/* p, m, v, grad: vectors of one length.  decayed: PRED of that shape, or -1 for none.  The new values replace *p, *m, *v. */
void adamw_update(Graph *g, const AdamW *adam, const AdamWShared *shared, int grad, int decayed, int *p, int *m, int *v);

typedef enum LrKind { LR_CONSTANT, LR_LINEAR, LR_COSINE, LR_WSD } LrKind;

/* Linear warm-up over `warmup` steps (lr at step s = peak·(s+1)/warmup), then by kind from peak to min over the rest; WSD
 * stays at peak and goes down linearly over the last `decay` steps. */
typedef struct LrSchedule {
  LrKind kind;
  double peak, min;
  int64_t warmup, decay, total;
} LrSchedule;

double lr_at(const LrSchedule *schedule, int64_t step); /* step counts from 0 */

#endif
