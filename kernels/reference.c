/* SPDX-License-Identifier: Apache-2.0 */
/* Every big op as plain loops that sum in double, for any strides: the last row of each op and the judge of the others.
 * Deliberately slow; attention holds one row of scores at a time, never S×S. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/rows.h"
#include "src/base/arena.h"

static float *at3(const BigView *v, int64_t b, int64_t i, int64_t h) {
  return (float *)v->at + b * v->stride[0] + i * v->stride[1] + h * v->stride[2];
}

static float *lse_at(const BigView *v, int64_t b, int64_t h, int64_t i) { return at3(v, b, h, i); }

static void run_matmul(const BigCall *call) {
  const BigView *a = &call->in[0], *b = &call->in[1], *c = &call->out[0];
  for (int64_t i = 0; i < c->dim[0]; i++)
    for (int64_t j = 0; j < c->dim[1]; j++) {
      double sum = call->n[0] ? *view_at(c, i, j) : 0;
      for (int64_t k = 0; k < a->dim[1]; k++) sum += (double)*view_at(a, i, k) * *view_at(b, k, j);
      *view_at(c, i, j) = (float)sum;
    }
}

/* The sizes of an attention call, and the first key that query i of sequence b sees. */
typedef struct Attention {
  int64_t B, S, H, G, D, window;
  const BigView *start;
} Attention;

static Attention attention_of(const BigCall *call, const BigView *q, const BigView *k, const BigView *start) {
  return (Attention){q->dim[0], q->dim[1], q->dim[2], k->dim[2], q->dim[3], call->n[0], start};
}

static int64_t first_key(const Attention *s, int64_t b, int64_t i) {
  int64_t first = ((const int32_t *)s->start->at)[b * s->start->stride[0] + i * s->start->stride[1]];
  int64_t edge = s->window ? i - s->window + 1 : 0;
  return first > edge ? first : edge;
}

static double dot(const float *x, const float *y, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += (double)x[i] * y[i];
  return sum;
}

/* One query's row: scores into p, then their softmax; returns log Σ exp. */
static double softmax_row(double *p, int64_t n) {
  double max = p[0], sum = 0;
  for (int64_t j = 1; j < n; j++) max = fmax(max, p[j]);
  for (int64_t j = 0; j < n; j++) sum += p[j] = exp(p[j] - max);
  for (int64_t j = 0; j < n; j++) p[j] /= sum;
  return max + log(sum);
}

static void run_attention(const BigCall *call) {
  const BigView *q = &call->in[0], *k = &call->in[1], *v = &call->in[2], *o = &call->out[0];
  Attention s = attention_of(call, q, k, &call->in[3]);
  double *p = xmalloc(sizeof(double) * (size_t)s.S);
  for (int64_t b = 0; b < s.B; b++)
    for (int64_t h = 0; h < s.H; h++)
      for (int64_t i = 0; i < s.S; i++) {
        int64_t g = h / (s.H / s.G), first = first_key(&s, b, i), n = i - first + 1;
        for (int64_t j = 0; j < n; j++) p[j] = call->f * dot(at3(q, b, i, h), at3(k, b, first + j, g), s.D);
        *lse_at(&call->out[1], b, h, i) = (float)softmax_row(p, n);
        for (int64_t d = 0; d < s.D; d++) {
          double sum = 0;
          for (int64_t j = 0; j < n; j++) sum += p[j] * at3(v, b, first + j, g)[d];
          at3(o, b, i, h)[d] = (float)sum;
        }
      }
  free(p);
}

/* One query's share of the gradients.  With p_j = exp(scale·q·k_j - lse) and dp_j = do·v_j:
 * dv_j += p_j·do,  ds_j = p_j·(dp_j - do·o)·scale,  dq += ds_j·k_j,  dk_j += ds_j·q.  k's sums are over this group's heads. */
static void grad_query(const BigCall *call, const Attention *s, int64_t b, int64_t h, int64_t i, double *dq, double *dk,
                       double *dv) {
  const float *dout = at3(&call->in[0], b, i, h), *q = at3(&call->in[1], b, i, h), *o = at3(&call->in[4], b, i, h);
  int64_t g = h / (s->H / s->G), D = s->D;
  double lse = *lse_at(&call->in[5], b, h, i), delta = dot(dout, o, D);
  memset(dq, 0, sizeof(double) * (size_t)D);
  for (int64_t j = first_key(s, b, i); j <= i; j++) {
    const float *k = at3(&call->in[2], b, j, g), *v = at3(&call->in[3], b, j, g);
    double p = exp(call->f * dot(q, k, D) - lse), ds = p * (dot(dout, v, D) - delta) * call->f;
    for (int64_t d = 0; d < D; d++) {
      dq[d] += ds * k[d];
      dk[j * D + d] += ds * q[d];
      dv[j * D + d] += p * dout[d];
    }
  }
}

static void run_attention_grad(const BigCall *call) {
  Attention s = attention_of(call, &call->in[1], &call->in[2], &call->in[6]);
  size_t kv = (size_t)(s.S * s.D);
  double *dk = xmalloc(sizeof(double) * (2 * kv + (size_t)s.D)), *dv = dk + kv, *dq = dv + kv;
  for (int64_t b = 0; b < s.B; b++)
    for (int64_t g = 0; g < s.G; g++) {
      memset(dk, 0, sizeof(double) * 2 * kv);
      for (int64_t h = g * (s.H / s.G); h < (g + 1) * (s.H / s.G); h++)
        for (int64_t i = 0; i < s.S; i++) {
          grad_query(call, &s, b, h, i, dq, dk, dv);
          for (int64_t d = 0; d < s.D; d++) at3(&call->out[0], b, i, h)[d] = (float)dq[d];
        }
      for (int64_t j = 0; j < s.S; j++)
        for (int64_t d = 0; d < s.D; d++) {
          at3(&call->out[1], b, j, g)[d] = (float)dk[j * s.D + d];
          at3(&call->out[2], b, j, g)[d] = (float)dv[j * s.D + d];
        }
    }
  free(dk);
}

static int64_t id_at(const BigView *v, int64_t t) { return ((const int32_t *)v->at)[t * v->stride[0]]; }

static void run_embedding(const BigCall *call) {
  const BigView *out = &call->out[0];
  for (int64_t t = 0; t < out->dim[0]; t++)
    for (int64_t c = 0; c < out->dim[1]; c++) *view_at(out, t, c) = *view_at(&call->in[0], id_at(&call->in[1], t), c);
}

static void run_embedding_grad(const BigCall *call) {
  const BigView *dout = &call->in[0], *ids = &call->in[1], *order = &call->in[2], *dtable = &call->out[0];
  for (int64_t c = 0; c < dtable->dim[1]; c++) {
    int64_t n = 0;
    for (int64_t row = 0; row < dtable->dim[0]; row++) {
      double sum = call->n[0] ? *view_at(dtable, row, c) : 0;
      for (; n < dout->dim[0] && id_at(ids, id_at(order, n)) == row; n++) sum += *view_at(dout, id_at(order, n), c);
      *view_at(dtable, row, c) = (float)sum;
    }
  }
}

BigRun *reference_matmul(Why *why) { return (void)why, run_matmul; }
BigRun *reference_attention(Why *why) { return (void)why, run_attention; }
BigRun *reference_attention_grad(Why *why) { return (void)why, run_attention_grad; }
BigRun *reference_embedding(Why *why) { return (void)why, run_embedding; }
BigRun *reference_embedding_grad(Why *why) { return (void)why, run_embedding_grad; }
