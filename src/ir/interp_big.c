/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter's big ops, by plain loops. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/ir/interp.h"

int64_t interp_result_offset(const Graph *g, const Node *node, int64_t i) {
  int64_t n[3] = {shape_size(&node->shape), 0, 0};
  if (node->op == OP_ATTENTION) n[1] = n[0] / node->shape.dim[3];
  if (node->op == OP_ATTENTION_GRAD) n[1] = n[2] = shape_size(&graph_node(g, node->in[2])->shape);
  return (i > 0 ? n[0] : 0) + (i > 1 ? n[1] : 0) + (i > 2 ? n[2] : 0);
}

/* A (rows,cols) matrix as it is or, in memory of the caller's to free, transposed. */
static double *transposed(const double *x, int64_t rows, int64_t cols) {
  double *out = xmalloc(sizeof *out * (size_t)(rows * cols));
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++) out[j * rows + i] = x[i * cols + j];
  return out;
}

/* Sums in ascending k whatever the blocking. */
void eval_matmul(const Eval *e) {
  enum { BLOCK = 64 };
  const Shape *c = &e->node->shape, *as = eval_shape(e, 0), *bs = eval_shape(e, 1);
  bool ta = e->node->n[0] != 0, tb = e->node->n[1] != 0;
  int64_t m = c->dim[0], n = c->dim[1], inner = as->dim[!ta];
  double *at = ta ? transposed(e->in[0], as->dim[0], as->dim[1]) : NULL;
  double *bt = tb ? transposed(e->in[1], bs->dim[0], bs->dim[1]) : NULL;
  const double *a = ta ? at : e->in[0], *b = tb ? bt : e->in[1];
  for (int64_t i = 0; i < m * n; i++) e->out[i] = e->node->nin == 3 ? e->in[2][i % n] : 0;
  for (int64_t from = 0; from < inner; from += BLOCK) {
    int64_t to = from + BLOCK < inner ? from + BLOCK : inner;
    for (int64_t i = 0; i < m; i++)
      for (int64_t k = from; k < to; k++)
        for (int64_t j = 0; j < n; j++) e->out[i * n + j] += a[i * inner + k] * b[k * n + j];
  }
  free(at);
  free(bt);
}

/* Extents and strides that both directions of attention share. */
typedef struct Attention {
  int64_t b, s, h, d, kv_heads, window;
  double scale;
  const double *q, *k, *v, *start;
} Attention;

static Attention attention_of(const Eval *e, int first) {
  const int64_t *q = eval_shape(e, first)->dim;
  return (Attention){.b = q[0],
                     .s = q[1],
                     .h = q[2],
                     .d = q[3],
                     .kv_heads = eval_shape(e, first + 1)->dim[2],
                     .window = e->node->n[0],
                     .scale = e->node->f,
                     .q = e->in[first],
                     .k = e->in[first + 1],
                     .v = e->in[first + 2],
                     .start = e->in[e->node->nin - 1]};
}

/* The first key that query i of sequence b sees. */
static int64_t first_key(const Attention *a, int64_t b, int64_t i) {
  double start = a->start[b * a->s + i];
  CHECK(start >= 0 && start <= (double)i);
  int64_t lo = (int64_t)start;
  return a->window > 0 && a->window <= i && i - a->window + 1 > lo ? i - a->window + 1 : lo;
}

static int64_t q_at(const Attention *a, int64_t b, int64_t i, int64_t h) { return ((b * a->s + i) * a->h + h) * a->d; }
static int64_t k_at(const Attention *a, int64_t b, int64_t j, int64_t h) {
  return ((b * a->s + j) * a->kv_heads + h / (a->h / a->kv_heads)) * a->d;
}

static double dot(const double *x, const double *y, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
  return sum;
}

static void axpy(double f, const double *x, double *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] += f * x[i];
}

static void attend(const Attention *a, int64_t b, int64_t i, int64_t h, double *score, double *o, double *lse) {
  int64_t lo = first_key(a, b, i);
  double most = -INFINITY, sum = 0;
  for (int64_t j = lo; j <= i; j++) {
    score[j] = a->scale * dot(a->q + q_at(a, b, i, h), a->k + k_at(a, b, j, h), a->d);
    most = score[j] > most || isnan(score[j]) ? score[j] : most;
  }
  for (int64_t j = lo; j <= i; j++) sum += score[j] = exp(score[j] - most);
  for (int64_t c = 0; c < a->d; c++) o[c] = 0;
  for (int64_t j = lo; j <= i; j++) axpy(score[j] / sum, a->v + k_at(a, b, j, h), o, a->d);
  *lse = most + log(sum);
}

void eval_attention(const Eval *e) {
  Attention a = attention_of(e, 0);
  double *score = xmalloc(sizeof *score * (size_t)a.s), *lse = e->out + interp_result_offset(e->g, e->node, 1);
  for (int64_t b = 0; b < a.b; b++)
    for (int64_t h = 0; h < a.h; h++)
      for (int64_t i = 0; i < a.s; i++) attend(&a, b, i, h, score, e->out + q_at(&a, b, i, h), &lse[(b * a.h + h) * a.s + i]);
  free(score);
}

/* With p the probabilities, D = do·o: dv += p·do, ds = p·(do·v - D), dq += scale·ds·k, dk += scale·ds·q. */
void eval_attention_grad(const Eval *e) {
  Attention a = attention_of(e, 1);
  const double *dout = e->in[0], *o = e->in[4], *lse = e->in[5];
  double *dq = e->out, *dk = dq + interp_result_offset(e->g, e->node, 1), *dv = dq + interp_result_offset(e->g, e->node, 2);
  memset(e->out, 0, sizeof *e->out * (size_t)interp_result_offset(e->g, e->node, 3));
  for (int64_t b = 0; b < a.b; b++)
    for (int64_t h = 0; h < a.h; h++)
      for (int64_t i = 0; i < a.s; i++) {
        int64_t iq = q_at(&a, b, i, h);
        double d = dot(dout + iq, o + iq, a.d);
        for (int64_t j = first_key(&a, b, i); j <= i; j++) {
          int64_t jk = k_at(&a, b, j, h);
          double p = exp(a.scale * dot(a.q + iq, a.k + jk, a.d) - lse[(b * a.h + h) * a.s + i]);
          double ds = a.scale * p * (dot(dout + iq, a.v + jk, a.d) - d);
          axpy(p, dout + iq, dv + jk, a.d);
          axpy(ds, a.k + jk, dq + iq, a.d);
          axpy(ds, a.q + iq, dk + jk, a.d);
        }
      }
}

static int64_t row_of(const double *ids, int64_t t, int64_t rows) {
  CHECK(ids[t] >= 0 && ids[t] < (double)rows);
  return (int64_t)ids[t];
}

void eval_embedding(const Eval *e) {
  int64_t t = e->node->shape.dim[0], c = e->node->shape.dim[1], rows = eval_shape(e, 0)->dim[0];
  for (int64_t i = 0; i < t; i++) memcpy(e->out + i * c, e->in[0] + row_of(e->in[1], i, rows) * c, sizeof *e->out * (size_t)c);
}

/* In the order of the sort, as the kernels do. */
void eval_embedding_grad(const Eval *e) {
  int64_t t = eval_shape(e, 0)->dim[0], rows = e->node->shape.dim[0], c = e->node->shape.dim[1];
  memset(e->out, 0, sizeof *e->out * (size_t)(rows * c));
  for (int64_t k = 0; k < t; k++) {
    int64_t i = row_of(e->in[2], k, t);
    axpy(1, e->in[0] + i * c, e->out + row_of(e->in[1], i, rows) * c, c);
  }
}
