/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic a token costs in training, and what share of the hardware's peak a run reaches.  Two countings are in use:
 * causal counts half of every attention matrix, full counts all of it.  Recomputation is not counted: it is not progress. */
#ifndef REPORT_FLOPS_H
#define REPORT_FLOPS_H

#include <stdint.h>

typedef struct FlopsShape {
  int64_t parameters;           /* of the model, each matrix once */
  int64_t embedding_parameters; /* of the token table where only rows are looked up; 0 where it is the head too (tied) */
  int64_t layers, heads, head_dim, seq_len;
  int64_t window, window_layers; /* in so many of the layers a query sees that many keys at most */
  double spared_products;        /* FLOPs a token: gradients that nothing trained needs */
  int64_t spared_attentions;     /* layers through whose attention no gradient goes, for the same reason */
} FlopsShape;

typedef struct Flops {
  double causal, full; /* forward and backward, a token */
} Flops;

/* 6 (parameters without the table) + 6 L d_attn S causal, 12 full (S: with a window what of it is seen, on average); d_attn = heads
 * * head_dim; less what is spared, which of an attention is 4 of 6. */
Flops flops_per_token(const FlopsShape *shape);

/* How fast a job goes; 0 is unknown throughout. */
typedef struct Speed {
  Flops per_token;
  int devices; /* GPUs, or ranks on CPUs */
  double peak; /* FLOP/s of one device */
} Speed;

/* What a step's tokens cost each, if it says so, or else what all do. */
Flops speed_per_token(const Speed *speed, const Flops *step);

/* NaN where something is unknown. */
double speed_tokens(double tokens, double seconds);                                  /* a second, whole job */
double speed_flops(const Speed *speed, double flops_per_token, double tokens_per_s); /* a second and device */
double speed_mfu(const Speed *speed, double flops_per_token, double tokens_per_s);   /* share of the peak, 0 to 1 */

#endif
