/* SPDX-License-Identifier: Apache-2.0 */
/* Routing and the rows it moves, by all threads: a row's experts are chosen in one sweep over its scores, rows are copied whole. */
#include <math.h>
#include <string.h>

#include "kernels/rows.h"

enum { MOST_CHOICES = 16 };

/* Keeps the k best so far in order; a score moves up past those that it beats, so equal ones stay in the order of experts. */
static void choose_all(const float *scores, int64_t stride, int64_t E, int64_t k, int32_t *expert) {
  float best[MOST_CHOICES];
  int64_t n = 0;
  for (int64_t e = 0; e < E; e++) {
    float score = isnan(scores[e * stride]) ? -INFINITY : scores[e * stride];
    int64_t at = n < k ? n : k;
    while (at > 0 && score > best[at - 1]) at--;
    if (at == k) continue;
    if (n < k) n++;
    for (int64_t j = n - 1; j > at; j--) best[j] = best[j - 1], expert[j] = expert[j - 1];
    best[at] = score;
    expert[at] = (int32_t)e;
  }
}

static void run_route(const BigCall *call) {
  const BigView *scores = &call->in[0];
  int64_t k = call->n[1], T = scores->dim[0];
  int32_t *expert = call->out[0].at;
#pragma omp parallel for num_threads(call->threads) schedule(static)
  for (int64_t t = 0; t < T; t++)
    choose_all((const float *)scores->at + t * scores->stride[0], scores->stride[1], scores->dim[1], k, expert + t * k);
  route_sort(expert, T * k, scores->dim[1]);
}

static void run_take(const BigCall *call) {
  const BigView *x = &call->in[0], *out = &call->out[0];
  const int32_t *index = call->in[1].at;
#pragma omp parallel for num_threads(call->threads) schedule(static)
  for (int64_t i = 0; i < out->dim[0]; i++)
    memcpy((float *)out->at + i * out->stride[0], (const float *)x->at + index[i] / call->n[1] * x->stride[0],
           sizeof(float) * (size_t)out->dim[1]);
}

bool route_applies(const BigCall *call) { return call->n[1] <= MOST_CHOICES; }
BigRun *parallel_route(Why *why) { return (void)why, run_route; }
BigRun *parallel_take(Why *why) { return (void)why, run_take; }
