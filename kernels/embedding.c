/* SPDX-License-Identifier: Apache-2.0 */
/* Embedding: rows copied by all threads; and its gradient, summed in the ids' sorted order, so that each table row is
 * written by one thread, in one order, whatever the number of threads. */
#include <string.h>

#include "kernels/rows.h"

/* Row vectors of last stride 1; a stride of a dimension of size 1 says nothing. */
static float *row_at(const BigView *v, int64_t i) { return (float *)v->at + i * v->stride[0]; }

static void run_embedding(const BigCall *call) {
  const BigView *out = &call->out[0];
  const int32_t *ids = call->in[1].at;
#pragma omp parallel for num_threads(call->threads) schedule(static)
  for (int64_t t = 0; t < out->dim[0]; t++)
    memcpy(row_at(out, t), row_at(&call->in[0], ids[t]), sizeof(float) * (size_t)out->dim[1]);
}

/* The first n in [0,T] with ids[order[n]] >= row. */
static int64_t lower_bound(const int32_t *ids, const int32_t *order, int64_t T, int64_t row) {
  int64_t lo = 0, hi = T;
  while (lo < hi) {
    int64_t mid = lo + (hi - lo) / 2;
    if (ids[order[mid]] < row)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

static void run_embedding_grad(const BigCall *call) {
  const BigView *dtable = &call->out[0];
  const int32_t *ids = call->in[1].at, *order = call->in[2].at;
  int64_t T = call->in[0].dim[0], V = dtable->dim[0], C = dtable->dim[1];
#pragma omp parallel for num_threads(call->threads) schedule(static, 64)
  for (int64_t row = 0; row < V; row++) {
    float *sum = row_at(dtable, row);
    if (!call->n[0]) memset(sum, 0, sizeof(float) * (size_t)C);
    for (int64_t n = lower_bound(ids, order, T, row); n < T && ids[order[n]] == row; n++) {
      const float *more = row_at(&call->in[0], order[n]);
      for (int64_t c = 0; c < C; c++) sum[c] += more[c];
    }
  }
}

bool embedding_applies(const BigCall *call) {
  const BigView *rows[] = {&call->in[0], &call->out[0]};
  for (int i = 0; i < 2; i++)
    if (rows[i]->stride[1] != 1 && rows[i]->dim[1] > 1) return false;
  for (int i = 1; i < BIG_IN && call->in[i].rank == 1; i++)
    if (call->in[i].stride[0] != 1 && call->in[i].dim[0] > 1) return false;
  return true;
}

BigRun *parallel_embedding(Why *why) { return (void)why, run_embedding; }
BigRun *parallel_embedding_grad(Why *why) { return (void)why, run_embedding_grad; }
