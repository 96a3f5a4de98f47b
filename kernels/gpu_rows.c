/* SPDX-License-Identifier: Apache-2.0 */
/* The table of rows for GPUs, and the workspace that each may want. */
#include <string.h>

#include "kernels/cuda/bounds.h"
#include "kernels/cuda/gpu.h"

static const size_t SPLIT_BYTES = (size_t)2 << 30; /* of dS in a part of attention's gradient */

const AttentionPlaces attention_places[] = {{0, 1, 3, 4, 2}, {1, 2, 6, 7, 3}, {1, 2, 6, 7, 3}};

/* The largest divisor of n, at least 1, of which so many units of nbytes keep within SPLIT_BYTES. */
static int64_t divisor(int64_t n, size_t nbytes) {
  int64_t part = n;
  while (part > 1 && (n % part != 0 || (size_t)part * nbytes > SPLIT_BYTES)) part--;
  return part;
}

AttentionPart attention_part(const BigCall *call, AttentionKind kind) {
  const BigView *q = &call->in[attention_places[kind].q], *k = &call->in[attention_places[kind].k];
  int64_t B = q->dim[0], S = q->dim[1], G = k->dim[2];
  size_t group = 2 * (size_t)(q->dim[2] / G) * (size_t)S * (size_t)S;
  if (kind != ATTENTION_GRADIENT) return (AttentionPart){B, G};
  int64_t heads = divisor(G, group);
  return (AttentionPart){heads == G ? divisor(B, group * (size_t)G) : 1, heads};
}

static int64_t padded_length(int64_t S) { return (S + ATTENTION_ROWS - 1) / ATTENTION_ROWS * ATTENTION_ROWS; }

/* (B,S,H,D), lse (B,H,S), start (B,S). */
BigView attention_padded(const BigCall *call, AttentionKind kind, const BigView *v) {
  BigView to = *v;
  AttentionPart part = attention_part(call, kind);
  int64_t G = call->in[attention_places[kind].k].dim[2], row = 1;
  to.at = NULL;
  to.dim[v->rank == 3 ? 2 : 1] = padded_length(v->dim[v->rank == 3 ? 2 : 1]);
  for (int r = v->rank - 1; r >= 0; r--) {
    bool heads = (v->rank == 4 && r == 2) || (v->rank == 3 && r == 1);
    to.stride[r] = row;
    row *= heads ? to.dim[r] * part.G / G : to.dim[r];
  }
  return to;
}

size_t attention_padded_bytes(const BigCall *call, AttentionKind kind, const BigView *v) {
  BigView to = attention_padded(call, kind, v);
  if (!v->rank) return 0;
  return gpu_round((size_t)(attention_part(call, kind).B * to.stride[0]) * (v->type == BIG_F32 || v->type == BIG_I32 ? 4 : 2));
}

static size_t padded_bytes(const BigCall *call, AttentionKind kind) {
  const AttentionPlaces *at = &attention_places[kind];
  size_t nbytes = 0;
  if (kind == ATTENTION_FORWARD || call->in[at->q].dim[1] % ATTENTION_ROWS == 0) return 0;
  for (int i = 0; i < at->nin; i++) nbytes += attention_padded_bytes(call, kind, &call->in[i]);
  for (int i = 0; i < at->nout; i++) nbytes += attention_padded_bytes(call, kind, &call->out[i]);
  return nbytes;
}

static size_t bound(const BigCall *call, AttentionKind kind) {
  const BigView *q = &call->in[attention_places[kind].q], *k = &call->in[attention_places[kind].k];
  if (q->type != BIG_BF16 && q->type != BIG_F16) return 0;
  AttentionPart part = attention_part(call, kind);
  size_t S = (size_t)padded_length(q->dim[1]), D = (size_t)q->dim[3], slack = (size_t)1 << 20;
  size_t heads = (size_t)(part.B * part.G * (q->dim[2] / k->dim[2]));
  size_t delta = 2 * heads * S * sizeof(float), sums = heads * S * D * sizeof(float), scores = heads * S * S * 2;
  size_t grouped = k->dim[2] == q->dim[2] ? 0 : 2 * heads * S * D * 2;
  if (kind == ATTENTION_FORWARD) return slack;
  return slack + grouped + delta + (kind == ATTENTION_GRADIENT ? scores : sums) + padded_bytes(call, kind);
}

static size_t attention_forward(const BigCall *call) { return bound(call, ATTENTION_FORWARD); }
static size_t attention_gradient(const BigCall *call) { return bound(call, ATTENTION_GRADIENT); }
static size_t attention_fast_gradient(const BigCall *call) { return bound(call, ATTENTION_FAST_GRADIENT); }

static size_t product(const BigCall *call) {
  (void)call;
  return CUBLASLT_WORKSPACE;
}

static size_t none(const BigCall *call) {
  (void)call;
  return 0;
}

const GpuRow gpu_rows[GPU_ROWS] = {
    [GPU_MATMUL_CUBLASLT] = {"matmul", "cublaslt", true, false, true, product},
    [GPU_MATMUL_PLAIN] = {"matmul", "plain", true, true, true, none},
    [GPU_ATTENTION_CUDNN] = {"attention", "cudnn", true, false, false, attention_forward},
    [GPU_ATTENTION_PLAIN] = {"attention", "plain", true, true, false, none},
    [GPU_ATTENTION_GRAD_CUDNN] = {"attention_grad", "cudnn", true, false, false, attention_gradient},
    [GPU_ATTENTION_GRAD_CUDNN_FAST] = {"attention_grad", "cudnn-fast", false, false, false, attention_fast_gradient},
    [GPU_ATTENTION_GRAD_PLAIN] = {"attention_grad", "plain", true, true, false, none},
    [GPU_EMBEDDING_PLAIN] = {"embedding", "plain", true, true, false, none},
    [GPU_EMBEDDING_GRAD_PLAIN] = {"embedding_grad", "plain", true, true, false, none},
    [GPU_ROUTE_PLAIN] = {"route", "plain", true, true, false, none},
    [GPU_TAKE_PLAIN] = {"take", "plain", true, true, false, none},
    [GPU_GROUPED_MMA] = {"grouped", "mma", true, true, false, none},
    [GPU_GROUPED_PLAIN] = {"grouped", "plain", true, true, false, none},
    [GPU_GROUPED_GRAD_MMA] = {"grouped_grad", "mma", true, true, false, none},
    [GPU_GROUPED_GRAD_PLAIN] = {"grouped_grad", "plain", true, true, false, none},
};

bool gpu_adds_bias(void) {
  for (int i = 0; i < GPU_ROWS; i++)
    if (!strcmp(gpu_rows[i].op, "matmul") && !gpu_rows[i].biased) return false;
  return true;
}
