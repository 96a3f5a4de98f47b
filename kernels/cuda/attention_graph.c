/* SPDX-License-Identifier: Apache-2.0 */
/* The graphs of attention and its gradient.  cuDNN's engines recognise one graph of primitive ops, so the order of ops is
 * theirs.  In the graph tensors are (B,H,S,D), whatever their strides. */
#include "kernels/cuda/attention.h"
#include "kernels/cuda/rows.h"

static void operand_bind(Writer *w, Source source, int64_t at, const GraphTensor *tensor) {
  CHECK(w->to->nbindings < BINDINGS);
  w->to->bindings[w->to->nbindings++] = (Binding){source, at, tensor->uid};
}

static GraphTensor number(Writer *w, size_t offset) {
  GraphTensor t = graph_number(&w->graph, CUDNN_DATA_FLOAT);
  operand_bind(w, FROM_PLAN, (int64_t)offset, &t);
  return t;
}

/* The view (B,S,H,D), or with its last two dimensions in the graph exchanged. */
static GraphTensor operand(Writer *w, Source source, int i, bool transposed) {
  const BigView *v = source == FROM_IN ? &w->call->in[i] : &w->call->out[i];
  int64_t dim[4] = {w->B, v->dim[2] * w->G / w->to->G, w->S, w->D}, stride[4] = {v->stride[0], v->stride[2], v->stride[1], 1};
  if (transposed) {
    dim[2] = w->D, dim[3] = w->S;
    stride[2] = 1, stride[3] = v->stride[1];
  }
  GraphTensor t = graph_memory(&w->graph, w->type, dim, stride, 16);
  operand_bind(w, source, i, &t);
  return t;
}

/* float32 values of shape (B,H,S,last) in the workspace. */
static GraphTensor buffer(Writer *w, int64_t last) {
  const int64_t dim[4] = {w->B, w->H, w->S, last}, stride[4] = {w->H * w->S * last, w->S * last, last, 1};
  GraphTensor t = graph_memory(&w->graph, CUDNN_DATA_FLOAT, dim, stride, 16);
  operand_bind(w, FROM_WORKSPACE, (int64_t)w->buffers, &t);
  w->buffers += gpu_round(sizeof(float) * (size_t)(w->B * w->H * w->S * last));
  return t;
}

static GraphTensor lse_operand(Writer *w, Source source, int i) {
  const BigView *v = source == FROM_IN ? &w->call->in[i] : &w->call->out[i];
  const int64_t dim[4] = {w->B, w->H, w->S, 1}, stride[4] = {v->stride[0], v->stride[1], 1, 1};
  size_t alignment = v->stride[0] % 4 || v->stride[1] % 4 ? 4 : 16;
  if (gpu_alignment(v->at) < alignment) alignment = 4;
  GraphTensor t = graph_memory(&w->graph, CUDNN_DATA_FLOAT, dim, stride, alignment);
  operand_bind(w, source, i, &t);
  return t;
}

static GraphTensor pointwise(Writer *w, cudnnPointwiseMode_t mode, const GraphTensor *x, const GraphTensor *y) {
  return graph_pointwise(&w->graph, (GraphOp){.mode = mode, .x = x, .y = y, .math = CUDNN_DATA_FLOAT, .type = CUDNN_DATA_FLOAT});
}

static GraphTensor index_of(Writer *w, const GraphTensor *score, int axis) {
  return graph_pointwise(
      &w->graph,
      (GraphOp){.mode = CUDNN_POINTWISE_GEN_INDEX, .x = score, .axis = axis, .math = CUDNN_DATA_FLOAT, .type = CUDNN_DATA_INT32});
}

/* score where the comparison holds, else -inf. */
static GraphTensor keep_if(Writer *w, const GraphTensor *score, cudnnPointwiseMode_t compare, const GraphTensor *x,
                           const GraphTensor *y) {
  GraphTensor seen = graph_pointwise(
      &w->graph, (GraphOp){.mode = compare, .x = x, .y = y, .math = CUDNN_DATA_BOOLEAN, .type = CUDNN_DATA_BOOLEAN});
  return graph_pointwise(&w->graph, (GraphOp){.mode = CUDNN_POINTWISE_BINARY_SELECT,
                                              .x = score,
                                              .y = &w->minus_infinity,
                                              .condition = &seen,
                                              .math = CUDNN_DATA_FLOAT,
                                              .type = CUDNN_DATA_FLOAT});
}

/* Keys after the query, before its window, before its segment. */
static GraphTensor masked(Writer *w, GraphTensor score) {
  GraphTensor row = index_of(w, &score, 2), column = index_of(w, &score, 3);
  score = keep_if(w, &score, CUDNN_POINTWISE_CMP_GE, &row, &column);
  if (w->windowed) {
    row = index_of(w, &score, 2), column = index_of(w, &score, 3);
    GraphTensor reach = pointwise(w, CUDNN_POINTWISE_ADD, &column, &w->window);
    score = keep_if(w, &score, CUDNN_POINTWISE_CMP_GT, &reach, &row);
  }
  if (w->segmented) {
    column = index_of(w, &score, 3);
    score = keep_if(w, &score, CUDNN_POINTWISE_CMP_GE, &column, &w->start);
  }
  return score;
}

/* What forward and backward begin with; `start` is operand number `start` of the call. */
static void begin(Writer *w, int start) {
  w->scale = number(w, offsetof(Attention, scale));
  w->minus_infinity = number(w, offsetof(Attention, minus_infinity));
  if (w->windowed) w->window = number(w, offsetof(Attention, window));
  if (w->segmented) {
    const BigView *v = &w->call->in[start];
    const int64_t dim[4] = {w->B, 1, w->S, 1}, stride[4] = {v->stride[0], v->stride[0], v->stride[1], 1};
    w->start = graph_memory(&w->graph, CUDNN_DATA_INT32, dim, stride, 4);
    operand_bind(w, FROM_IN, start, &w->start);
  }
}

void attention_write_forward(Writer *w) {
  Graph *g = &w->graph;
  begin(w, 3);
  GraphTensor q = operand(w, FROM_IN, 0, false), k = operand(w, FROM_IN, 1, true), v = operand(w, FROM_IN, 2, false);
  GraphTensor o = operand(w, FROM_OUT, 0, false), lse = lse_operand(w, FROM_OUT, 1);
  GraphTensor score = graph_matmul(g, &q, &k, CUDNN_DATA_FLOAT, NULL);
  score = masked(w, pointwise(w, CUDNN_POINTWISE_MUL, &score, &w->scale));
  GraphTensor max = graph_reduce(g, CUDNN_REDUCE_TENSOR_MAX, &score, NULL);
  GraphTensor below = pointwise(w, CUDNN_POINTWISE_SUB, &score, &max);
  GraphTensor e = pointwise(w, CUDNN_POINTWISE_EXP, &below, NULL);
  GraphTensor sum = graph_reduce(g, CUDNN_REDUCE_TENSOR_ADD, &e, NULL);
  GraphTensor log_sum = pointwise(w, CUDNN_POINTWISE_LOG, &sum, NULL);
  graph_pointwise(g, (GraphOp){.mode = CUDNN_POINTWISE_ADD, .x = &max, .y = &log_sum, .math = CUDNN_DATA_FLOAT, .to = &lse});
  GraphTensor p =
      graph_pointwise(g, (GraphOp){.mode = CUDNN_POINTWISE_DIV, .x = &e, .y = &sum, .math = CUDNN_DATA_FLOAT, .type = w->type});
  graph_matmul(g, &p, &v, w->type, &o);
}

/* to = xᵀ · y for x (B,H,S,S): with fewer key heads than query heads, summed over each group. */
static void key_gradient(Writer *w, const GraphTensor *x, const GraphTensor *y, const GraphTensor *to) {
  const int64_t dim[4] = {w->B, w->H, w->S, w->S}, stride[4] = {w->H * w->S * w->S, w->S * w->S, 1, w->S};
  GraphTensor turned = graph_view(&w->graph, x, w->type, dim, stride);
  if (w->H == w->G) {
    graph_matmul(&w->graph, &turned, y, w->type, to);
    return;
  }
  GraphTensor whole = graph_matmul(&w->graph, &turned, y, w->type, NULL);
  graph_reduce(&w->graph, CUDNN_REDUCE_TENSOR_ADD, &whole, to);
}

static void query_gradient(Writer *w, const GraphTensor *ds, const GraphTensor *k, const GraphTensor *dq, bool fast) {
  const int64_t dim[4] = {k->dim[0], k->dim[1], k->dim[3], k->dim[2]},
                stride[4] = {k->stride[0], k->stride[1], k->stride[3], k->stride[2]};
  GraphTensor keys = graph_view(&w->graph, k, w->type, dim, stride);
  if (!fast) {
    graph_matmul(&w->graph, ds, &keys, w->type, dq);
    return;
  }
  GraphTensor sums = buffer(w, w->D);
  graph_matmul(&w->graph, ds, &keys, CUDNN_DATA_FLOAT, &sums);
  graph_pointwise(&w->graph, (GraphOp){.mode = CUDNN_POINTWISE_IDENTITY, .x = &sums, .math = CUDNN_DATA_FLOAT, .to = dq});
}

void attention_write_gradient(Writer *w, bool fast) {
  Graph *g = &w->graph;
  begin(w, 6);
  w->one = number(w, offsetof(Attention, one));
  GraphTensor dout = operand(w, FROM_IN, 0, false), q = operand(w, FROM_IN, 1, false), k = operand(w, FROM_IN, 2, true);
  GraphTensor v = operand(w, FROM_IN, 3, true), o = operand(w, FROM_IN, 4, false), lse = lse_operand(w, FROM_IN, 5);
  GraphTensor dq = operand(w, FROM_OUT, 0, false), dk = operand(w, FROM_OUT, 1, false), dv = operand(w, FROM_OUT, 2, false);
  GraphTensor delta = buffer(w, 1);

  GraphTensor product = pointwise(w, CUDNN_POINTWISE_MUL, &dout, &o);
  GraphTensor total = graph_reduce(g, CUDNN_REDUCE_TENSOR_ADD, &product, NULL);
  graph_pointwise(g, (GraphOp){.mode = CUDNN_POINTWISE_MUL, .x = &total, .y = &w->one, .math = CUDNN_DATA_FLOAT, .to = &delta});

  GraphTensor score = graph_matmul(g, &q, &k, CUDNN_DATA_FLOAT, NULL);
  score = pointwise(w, CUDNN_POINTWISE_MUL, &score, &w->scale);
  score = masked(w, pointwise(w, CUDNN_POINTWISE_SUB, &score, &lse));
  GraphTensor p = pointwise(w, CUDNN_POINTWISE_EXP, &score, NULL);
  key_gradient(w, &p, &dout, &dv);

  GraphTensor ds = graph_matmul(g, &dout, &v, CUDNN_DATA_FLOAT, NULL);
  ds = pointwise(w, CUDNN_POINTWISE_SUB, &ds, &delta);
  ds = pointwise(w, CUDNN_POINTWISE_MUL, &ds, &p);
  ds = pointwise(w, CUDNN_POINTWISE_MUL, &ds, &w->scale);
  key_gradient(w, &ds, &q, &dk);
  query_gradient(w, &ds, &k, &dq, fast);
}
