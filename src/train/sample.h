/* SPDX-License-Identifier: Apache-2.0 */
/* The next token of logits, by the host: a pure function of them and of a number in [0,1). */
#ifndef TRAIN_SAMPLE_H
#define TRAIN_SAMPLE_H

#include <stdint.h>

/* Probabilities are proportional to exp(logit / temperature); temperature 0: the most likely, whatever the rest.  Of them only the
 * top_k largest may come (0: all; Fan, Lewis and Dauphin, "Hierarchical Neural Story Generation", 2018), and of those the fewest
 * whose share is top_p or more (1: all, 0: one; Holtzman et al., "The Curious Case of Neural Text Degeneration", 2020).  Of equal
 * ones the lower id counts as larger. */
typedef struct Sampling {
  double temperature, top_p;
  int64_t top_k;
} Sampling;

/* logits (n) as out (n), but for those of tokens that were there before: their distance from 0 grows below it and shrinks above it,
 * `penalty` times, once a token (Keskar et al., "CTRL", 2019, section 4.1).  1: nothing changes.  ids beyond n are passed over. */
void sample_penalise(const float *logits, int64_t n, double penalty, const int32_t *ids, int64_t n_ids, float *out);

/* Of logits[0 … n-1]; -1: one of them is not finite. */
int32_t sample(const Sampling *how, const float *logits, int64_t n, double u);

#endif
