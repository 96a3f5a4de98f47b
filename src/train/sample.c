/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/sample.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/arena.h"

typedef struct Candidate {
  double weight; /* 1: of the largest */
  int32_t id;
} Candidate;

static int by_weight(const void *a, const void *b) { /* the largest first */
  const Candidate *x = a, *y = b;
  return x->weight != y->weight ? (x->weight < y->weight ? 1 : -1) : x->id < y->id ? -1 : 1;
}

static double sum_of(const Candidate *c, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += c[i].weight;
  return sum;
}

/* Those that can be in the nucleus: all that are less likely than (1 - p) / n together have less than 1 - p. */
static int64_t drop_unlikely(Candidate *c, int64_t n, double top_p) {
  double least = sum_of(c, n) * (1 - top_p) / (double)n;
  int64_t left = 0;
  for (int64_t i = 0; i < n; i++)
    if (c[i].weight >= least) c[left++] = c[i];
  return left;
}

/* How many of n, the largest first, come to a share of top_p of sum. */
static int64_t nucleus(const Candidate *c, int64_t n, double sum, double top_p) {
  double have = 0;
  for (int64_t i = 0; i < n; i++)
    if ((have += c[i].weight) >= top_p * sum) return i + 1;
  return n;
}

static int64_t cut(const Sampling *how, Candidate *c, int64_t n) {
  double sum = sum_of(c, n);
  bool few = how->top_k > 0 && how->top_k < n;
  if (!few && how->top_p >= 1) return n;
  if (!few) n = drop_unlikely(c, n, how->top_p);
  qsort(c, (size_t)n, sizeof *c, by_weight);
  if (few) n = how->top_k, sum = sum_of(c, n);
  return how->top_p < 1 ? nucleus(c, n, sum, how->top_p) : n;
}

void sample_penalise(const float *logits, int64_t n, double penalty, const int32_t *ids, int64_t n_ids, float *out) {
  memcpy(out, logits, sizeof *out * (size_t)n);
  for (int64_t i = 0; i < n_ids; i++)
    if (ids[i] < n) out[ids[i]] = (float)(logits[ids[i]] < 0 ? logits[ids[i]] * penalty : logits[ids[i]] / penalty);
}

int32_t sample(const Sampling *how, const float *logits, int64_t n, double u) {
  int32_t largest = 0;
  for (int32_t i = 0; i < n; i++) {
    if (!isfinite(logits[i])) return -1;
    if (logits[i] > logits[largest]) largest = i;
  }
  if (how->temperature == 0) return largest;
  Candidate *c = xmalloc(sizeof *c * (size_t)n);
  for (int32_t i = 0; i < n; i++) c[i] = (Candidate){exp(((double)logits[i] - logits[largest]) / how->temperature), i};
  int64_t left = cut(how, c, n);
  double rest = u * sum_of(c, left);
  int32_t id = largest; /* where rounding leaves nothing */
  for (int64_t i = 0; i < left; i++)
    if ((rest -= c[i].weight) < 0) {
      id = c[i].id;
      break;
    }
  free(c);
  return id;
}
