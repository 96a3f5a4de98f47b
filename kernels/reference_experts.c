/* SPDX-License-Identifier: Apache-2.0 */
/* The big ops of mixtures of experts as plain loops that sum in double, for any strides: the last row of each and the judge of the
 * others. */
#include <math.h>

#include "kernels/rows.h"

static int32_t *int_at(const BigView *v, int64_t i) { return (int32_t *)v->at + i * v->stride[0]; }

static float worth(float score) { return isnan(score) ? -INFINITY : score; }

/* Of the experts that are not among the n chosen ones the best; the first of equal ones. */
static int32_t choose(const BigView *scores, int64_t t, const int32_t *chosen, int64_t n) {
  int32_t best = -1;
  for (int32_t e = 0; e < scores->dim[1]; e++) {
    bool taken = false;
    for (int64_t j = 0; j < n; j++) taken |= chosen[j] == e;
    if (!taken && (best < 0 || worth(*view_at(scores, t, e)) > worth(*view_at(scores, t, best)))) best = e;
  }
  return best;
}

void route_sort(int32_t *expert, int64_t pairs, int64_t E) {
  int32_t *order = expert + pairs, *inverse = order + pairs, *offsets = inverse + pairs;
  for (int64_t e = 0; e <= E; e++) offsets[e] = 0;
  for (int64_t p = 0; p < pairs; p++) offsets[expert[p] + 1]++;
  for (int64_t e = 0; e < E; e++) offsets[e + 1] += offsets[e];
  for (int64_t p = 0; p < pairs; p++) {
    int32_t place = offsets[expert[p]]++;
    order[place] = (int32_t)p;
    inverse[p] = place;
  }
  for (int64_t e = E; e > 0; e--) offsets[e] = offsets[e - 1]; /* each was moved to the end of its group */
  offsets[0] = 0;
}

static void run_route(const BigCall *call) {
  const BigView *scores = &call->in[0];
  int64_t k = call->n[1], T = scores->dim[0];
  int32_t *expert = call->out[0].at;
  for (int64_t t = 0; t < T; t++)
    for (int64_t j = 0; j < k; j++) expert[t * k + j] = choose(scores, t, expert + t * k, j);
  route_sort(expert, T * k, scores->dim[1]);
}

static void run_take(const BigCall *call) {
  const BigView *out = &call->out[0];
  for (int64_t i = 0; i < out->dim[0]; i++)
    for (int64_t c = 0; c < out->dim[1]; c++)
      *view_at(out, i, c) = *view_at(&call->in[0], *int_at(&call->in[1], i) / call->n[1], c);
}

static void run_grouped(const BigCall *call) {
  const BigView *x = &call->in[0], *w = &call->in[1], *offsets = &call->in[2], *out = &call->out[0];
  int64_t E = offsets->dim[0] - 1, each = w->dim[0] / E;
  for (int64_t e = 0; e < E; e++)
    for (int64_t r = *int_at(offsets, e); r < *int_at(offsets, e + 1); r++)
      for (int64_t n = 0; n < out->dim[1]; n++) {
        double sum = 0;
        for (int64_t k = 0; k < x->dim[1]; k++)
          sum += (double)*view_at(x, r, k) * (call->n[1] ? *view_at(w, e * each + k, n) : *view_at(w, e * each + n, k));
        *view_at(out, r, n) = (float)sum;
      }
}

static void run_grouped_grad(const BigCall *call) {
  const BigView *a = &call->in[0], *b = &call->in[1], *offsets = &call->in[2], *out = &call->out[0];
  int64_t M = a->dim[1];
  for (int64_t e = 0; e < offsets->dim[0] - 1; e++)
    for (int64_t m = 0; m < M; m++)
      for (int64_t n = 0; n < out->dim[1]; n++) {
        float *to = view_at(out, e * M + m, n);
        double sum = call->n[0] ? *to : 0;
        for (int64_t r = *int_at(offsets, e); r < *int_at(offsets, e + 1); r++)
          sum += (double)*view_at(a, r, m) * *view_at(b, r, n);
        *to = (float)sum;
      }
}

BigRun *reference_route(Why *why) { return (void)why, run_route; }
BigRun *reference_take(Why *why) { return (void)why, run_take; }
BigRun *reference_grouped(Why *why) { return (void)why, run_grouped; }
BigRun *reference_grouped_grad(Why *why) { return (void)why, run_grouped_grad; }
