/* SPDX-License-Identifier: Apache-2.0 */
/* Views as offsets and strides. */
#include "src/fuse/stage.h"

void strides_dense(const Shape *shape, int64_t stride[IR_RANK]) {
  int64_t n = 1;
  for (int i = shape->rank - 1; i >= 0; i--) {
    stride[i] = n;
    n *= shape->dim[i];
  }
}

bool strides_reshape(const Shape *from, const int64_t *stride, const Shape *to, int64_t out[IR_RANK]) {
  int64_t dim[IR_RANK], step[IR_RANK];
  int rank = 0;
  for (int i = 0; i < from->rank; i++)
    if (from->dim[i] != 1) {
      dim[rank] = from->dim[i];
      step[rank++] = stride[i];
    }
  int j = 0;
  for (int i = 0; i < rank;) { /* runs of axes of equal size on both sides: i…i_end of from, j…j_end of to */
    int i_end = i + 1, j_end = j + 1;
    int64_t a = dim[i], b = to->dim[j];
    while (a != b) {
      if (a < b)
        a *= dim[i_end++];
      else
        b *= to->dim[j_end++];
    }
    for (int k = i; k + 1 < i_end; k++)
      if (step[k] != dim[k + 1] * step[k + 1]) return false;
    int64_t s = step[i_end - 1];
    for (int k = j_end - 1; k >= j; k--) {
      out[k] = s;
      s *= to->dim[k];
    }
    i = i_end;
    j = j_end;
  }
  for (; j < to->rank; j++) out[j] = 1; /* extents of 1 are left */
  return true;
}

bool is_view(const Node *node) { return op_table[node->op].kind == KIND_VIEW && node->op != OP_CONCAT; }

Layout layout_root(const Graph *g, int node) {
  Layout l = {.root = node};
  strides_dense(&graph_node(g, node)->shape, l.stride);
  return l;
}

bool layout_view(const Graph *g, const Node *view, const Layout *in, Layout *out) {
  const Shape *from = &graph_node(g, view->in[0])->shape;
  Layout l = *in; /* out may be in */
  *out = l;
  if (view->op == OP_RESHAPE) return strides_reshape(from, l.stride, &view->shape, out->stride);
  for (int i = 0; i < view->shape.rank; i++) {
    if (view->op == OP_PERMUTE) out->stride[i] = l.stride[view->n[i]];
    if (view->op == OP_BROADCAST && from->dim[i] != view->shape.dim[i]) out->stride[i] = 0;
  }
  if (view->op == OP_SLICE) out->offset += view->n[1] * l.stride[view->n[0]];
  return true;
}

const Node *constant_of(const Graph *g, int node) {
  const Node *x = graph_node(g, node);
  while (is_view(x)) x = graph_node(g, x->in[0]);
  return x->op == OP_CONST ? x : NULL;
}

bool is_widened(const Node *node, const Graph *g) {
  return node->op == OP_CAST && node->dtype == DT_F32 && dtype_size(graph_node(g, node->in[0])->dtype) == 2;
}

Uses count_uses(const Graph *g, Arena *arena) {
  Uses uses = {arena_array(arena, int, g->nodes.n), arena_array(arena, bool, g->vars.n)};
  for (int i = 0; i < g->nodes.n; i++) {
    const Node *x = graph_node(g, i);
    for (int k = 0; k < x->nin; k++) uses.of[x->in[k]]++;
    if (x->op == OP_LOAD) uses.loaded[graph_find_var(g, x->name)] = true;
  }
  return uses;
}
