/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter's ops of mixtures of experts, by plain loops. */
#include <math.h>
#include <string.h>

#include "src/ir/interp.h"

static double worth(double score) { return isnan(score) ? -INFINITY : score; }

/* Of what has not been chosen the largest, the first of equal ones. */
static int64_t choose(const double *scores, int64_t experts, const double *chosen, int64_t n) {
  int64_t best = -1;
  for (int64_t e = 0; e < experts; e++) {
    bool taken = false;
    for (int64_t j = 0; j < n; j++) taken |= chosen[j] == (double)e;
    if (!taken && (best < 0 || worth(scores[e]) > worth(scores[best]))) best = e;
  }
  return best;
}

void eval_route(const Eval *e) {
  const int64_t *d = eval_shape(e, 0)->dim, k = e->node->n[0], E = d[1], pairs = d[0] * k;
  double *expert = e->out, *order = expert + pairs, *inverse = order + pairs, *offsets = inverse + pairs;
  for (int64_t t = 0; t < d[0]; t++)
    for (int64_t j = 0; j < k; j++) expert[t * k + j] = (double)choose(e->in[0] + t * E, E, expert + t * k, j);
  int64_t n = 0;
  for (int64_t i = 0; i < E; i++) {
    offsets[i] = (double)n;
    for (int64_t p = 0; p < pairs; p++) {
      if (expert[p] != (double)i) continue;
      inverse[p] = (double)n;
      order[n++] = (double)p;
    }
  }
  offsets[E] = (double)n;
}

static int64_t index_below(double x, int64_t n) {
  CHECK(x >= 0 && x < (double)n);
  return (int64_t)x;
}

void eval_take(const Eval *e) {
  int64_t n = e->node->shape.dim[0], c = e->node->shape.dim[1];
  for (int64_t i = 0; i < n; i++)
    memcpy(e->out + i * c, e->in[0] + index_below(e->in[1][i], n) / e->node->n[0] * c, sizeof *e->out * (size_t)c);
}

/* The rows of expert i. */
static void group_of(const Eval *e, int64_t i, int64_t *lo, int64_t *hi) {
  int64_t rows = eval_shape(e, 0)->dim[0];
  *lo = index_below(e->in[2][i], rows + 1);
  *hi = index_below(e->in[2][i + 1], rows + 1);
  CHECK(*lo <= *hi);
}

void eval_grouped(const Eval *e) {
  int64_t K = eval_shape(e, 0)->dim[1], N = e->node->shape.dim[1], E = eval_shape(e, 2)->dim[0] - 1, lo, hi;
  bool plain = e->node->n[0] != 0;
  for (int64_t i = 0; i < E; i++) {
    group_of(e, i, &lo, &hi);
    const double *w = e->in[1] + i * K * N;
    for (int64_t r = lo; r < hi; r++)
      for (int64_t n = 0; n < N; n++) {
        double sum = 0;
        for (int64_t k = 0; k < K; k++) sum += e->in[0][r * K + k] * (plain ? w[k * N + n] : w[n * K + k]);
        e->out[r * N + n] = sum;
      }
  }
}

void eval_grouped_grad(const Eval *e) {
  int64_t M = eval_shape(e, 0)->dim[1], N = eval_shape(e, 1)->dim[1], E = eval_shape(e, 2)->dim[0] - 1, lo, hi;
  memset(e->out, 0, sizeof *e->out * (size_t)(E * M * N));
  for (int64_t i = 0; i < E; i++) {
    group_of(e, i, &lo, &hi);
    for (int64_t r = lo; r < hi; r++)
      for (int64_t m = 0; m < M; m++)
        for (int64_t n = 0; n < N; n++) e->out[(i * M + m) * N + n] += e->in[0][r * M + m] * e->in[1][r * N + n];
  }
}
