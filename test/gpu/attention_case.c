/* SPDX-License-Identifier: Apache-2.0 */
#include "test/gpu/attention_case.h"

#include <math.h>
#include <stdlib.h>

#include "src/base/arena.h"

static void split(const AttentionCase *c, const BigView *qkv, BigView *q, BigView *k, BigView *v) {
  *q = judge_columns(qkv, 0, c->H * c->D, c->H);
  *k = judge_columns(qkv, c->H * c->D, c->G * c->D, c->G);
  *v = judge_columns(qkv, (c->H + c->G) * c->D, c->G * c->D, c->G);
}

/* Segments of uneven lengths about c->segment, other ones in each sequence. */
static BigView starts(const AttentionCase *c) {
  BigView start = judge_tensor(BIG_I32, 2, (int64_t[]){c->B, c->S});
  int32_t *at = xmalloc(sizeof(int32_t) * (size_t)(c->B * c->S));
  for (int64_t b = 0; b < c->B; b++) {
    int32_t first = 0;
    for (int64_t i = 0; i < c->S; i++) {
      if (i > first && (i - first) >= c->segment + (first * 7 + 13 * b) % c->segment) first = (int32_t)i;
      at[b * c->S + i] = first;
    }
  }
  judge_put(&start, at);
  free(at);
  return start;
}

AttentionCalls attention_calls(AttentionCase c) {
  AttentionCalls calls = {0};
  int64_t width = (c.H + 2 * c.G) * c.D;
  BigCall *f = &calls.forward, *g = &calls.gradient;
  calls.qkv = judge_tensor(c.type, 3, (int64_t[]){c.B, c.S, width});
  calls.dqkv = judge_tensor(c.type, 3, (int64_t[]){c.B, c.S, width});
  calls.o = judge_tensor(c.type, 4, (int64_t[]){c.B, c.S, c.H, c.D});
  calls.lse = judge_tensor(BIG_F32, 3, (int64_t[]){c.B, c.H, c.S});
  BigView dout = judge_tensor(c.type, 4, (int64_t[]){c.B, c.S, c.H, c.D});
  judge_fill(&calls.qkv, 1, 1);
  judge_fill(&dout, 1, 2);
  split(&c, &calls.qkv, &f->in[0], &f->in[1], &f->in[2]);
  if (c.segment) f->in[3] = starts(&c);
  f->out[0] = calls.o;
  f->out[1] = calls.lse;
  g->in[0] = dout;
  for (int i = 0; i < 3; i++) g->in[1 + i] = f->in[i];
  g->in[4] = calls.o;
  g->in[5] = calls.lse;
  g->in[6] = f->in[3];
  split(&c, &calls.dqkv, &g->out[0], &g->out[1], &g->out[2]);
  f->f = g->f = 1 / sqrt((double)c.D);
  f->n[0] = g->n[0] = c.window;
  return calls;
}
