/* SPDX-License-Identifier: Apache-2.0 */
/* Which values are written straight to where their user wants them: a STORE's value into the Var, a CONCAT's pieces into
 * their parts of it, what is reduced over ranks into the place of the result, the terms of a sum into the sum.
 * Needs: a legal graph. */
#include <string.h>

#include "src/fuse/stage.h"

static void into(Target *t, const Graph *g, int root, int node, int64_t offset, const int64_t *stride) {
  t[node].root = root;
  t[node].offset = offset;
  if (stride)
    memcpy(t[node].stride, stride, sizeof t[node].stride);
  else
    strides_dense(&graph_node(g, node)->shape, t[node].stride);
}

static void own_place(Target *t, const Graph *g, int node) {
  if (t[node].root < 0) into(t, g, node, node, 0, NULL);
}

static void concat_targets(Target *t, const Graph *g, const int *uses, int i) {
  const Node *x = graph_node(g, i);
  int axis = (int)x->n[0];
  int64_t at = t[i].offset;
  own_place(t, g, i);
  at = t[i].offset;
  for (int k = 0; k < x->nin; k++) {
    int node = target_chain(g, uses, i, k);
    CHECK(node >= 0);
    into(t, g, t[i].root, node, at, node == x->in[k] ? t[i].stride : NULL);
    at += graph_node(g, x->in[k])->shape.dim[axis] * t[i].stride[axis];
  }
}

static bool accumulates(Op op) { return op == OP_MATMUL || op == OP_EMBEDDING_GRAD; }

/* Whether node is, through views, the part of a Var that target i is written to. */
static bool same_part(const Target *t, const Graph *g, int node, int i) {
  const Node *chain[16], *x = graph_node(g, node);
  int n = 0;
  for (; is_view(x) && n < 16; x = graph_node(g, x->in[0])) chain[n++] = x;
  if (x->op != OP_LOAD || t[i].root < 0) return false;
  const Node *root = graph_node(g, t[i].root);
  if (root->op != OP_STORE || strcmp(root->name, x->name)) return false;
  Layout l = layout_root(g, (int)(x - g->nodes.at));
  while (n--)
    if (!layout_view(g, chain[n], &l, &l)) return false;
  if (l.offset != t[i].offset) return false;
  const Shape *s = &graph_node(g, i)->shape;
  for (int k = 0; k < s->rank; k++)
    if (s->dim[k] > 1 && l.stride[k] != t[i].stride[k]) return false;
  return true;
}

/* sum + product, in the backward pass: the product adds into the sum's place if the sum is a part of a Var that the result
 * goes to, or is itself such a product or sum that nothing else wants. */
static void absorb(Target *t, const Graph *g, const int *uses, int i) {
  const Node *x = graph_node(g, i);
  int sum = x->in[0], product = x->in[1];
  if (x->phase != PHASE_BACKWARD || x->shape.rank != 2 || uses[product] != 1 || !accumulates(graph_node(g, product)->op)) return;
  const Node *s = graph_node(g, sum);
  bool chain = uses[sum] == 1 && (accumulates(s->op) || (s->op == OP_ADD && s->phase == PHASE_BACKWARD && s->shape.rank == 2 &&
                                                         uses[s->in[1]] == 1 && accumulates(graph_node(g, s->in[1])->op)));
  if (chain) {
    own_place(t, g, i);
    into(t, g, t[i].root, sum, t[i].offset, t[i].stride);
  } else if (!same_part(t, g, sum, i)) {
    return;
  }
  t[i].absorbed = true;
  into(t, g, t[i].root, product, t[i].offset, t[i].stride);
}

Target *fuse_targets(const Graph *g, Arena *arena) {
  Target *t = arena_array(arena, Target, g->nodes.n);
  int *uses = count_uses(g, arena);
  for (int i = 0; i < g->nodes.n; i++) t[i].root = -1;
  for (int i = g->nodes.n - 1; i >= 0; i--) {
    const Node *x = graph_node(g, i);
    if (x->op == OP_STORE) {
      int node = target_chain(g, uses, i, 0);
      CHECK(node >= 0);
      into(t, g, i, node, 0, NULL);
    } else if (x->op == OP_CONCAT) {
      concat_targets(t, g, uses, i);
    } else if (x->op == OP_ALL_REDUCE && target_chain(g, uses, i, 0) >= 0) {
      own_place(t, g, i);
      into(t, g, t[i].root, target_chain(g, uses, i, 0), t[i].offset, NULL);
    } else if (x->op == OP_ADD) {
      absorb(t, g, uses, i);
    }
  }
  return t;
}
