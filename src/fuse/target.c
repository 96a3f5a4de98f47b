/* SPDX-License-Identifier: Apache-2.0 */
/* Which values are written straight to where their user wants them: a STORE's value into the Var, a CONCAT's pieces into
 * their parts of it, what is reduced over ranks into the place of the result, the terms of a sum into the sum, a sum that is sent
 * off the device into what was fetched for it.
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

static void concat_targets(Target *t, const Graph *g, const Uses *uses, int i) {
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

static bool accumulates(Op op) { return op == OP_MATMUL || op == OP_EMBEDDING_GRAD || op == OP_GROUPED_GRAD; }

/* The layout of a node within what it is a view of; false: there are no strides. */
static bool find_layout(const Graph *g, int node, Layout *l) {
  const Node *x = graph_node(g, node);
  if (is_view(x)) return find_layout(g, x->in[0], l) && layout_view(g, x, l, l);
  *l = layout_root(g, node);
  return true;
}

static bool same_strides(const Shape *s, const int64_t *a, const int64_t *b) {
  for (int k = 0; k < s->rank; k++)
    if (s->dim[k] > 1 && a[k] != b[k]) return false;
  return true;
}

/* Whether node is, through views, the part of a Var, or of what was fetched, that target i is written to. */
static bool same_part(const Target *t, const Graph *g, int node, int i) {
  Layout l;
  if (t[i].root < 0 || !find_layout(g, node, &l)) return false;
  const Node *x = graph_node(g, l.root), *root = graph_node(g, t[i].root);
  bool same_var = x->op == OP_LOAD && root->op == OP_STORE && !strcmp(root->name, x->name);
  if (!same_var && !(x->op == OP_FETCH && x == root)) return false;
  return l.offset == t[i].offset && same_strides(&graph_node(g, i)->shape, l.stride, t[i].stride);
}

/* The FETCH whose elements from `at` on a piece, fetched + a + b + …, adds to, and nobody else reads; -1. */
static int fetched_term(const Graph *g, const Uses *uses, int piece, int64_t at) {
  const Node *x = piece >= 0 ? graph_node(g, piece) : NULL;
  int64_t dense[IR_RANK];
  Layout l;
  while (x && x->op == OP_ADD && graph_node(g, x->in[0])->op == OP_ADD && uses->of[x->in[0]] == 1) x = graph_node(g, x->in[0]);
  if (!x || x->op != OP_ADD || !find_layout(g, x->in[0], &l) || graph_node(g, l.root)->op != OP_FETCH) return -1;
  for (int node = x->in[0]; node != l.root; node = graph_node(g, node)->in[0])
    if (uses->of[node] != 1) return -1;
  strides_dense(&x->shape, dense);
  return l.offset == at && same_strides(&x->shape, l.stride, dense) ? l.root : -1;
}

/* What is sent may lie where it was fetched to, if it is made of sums of which each reads the part that it is written to, and
 * nothing else reads any: fetched + concat(a, b, …), as pass_accumulate leaves it, reduced over ranks in place or not.  It must,
 * where a STORE's would: a product that adds may round otherwise than one that is added. */
static void send_target(Target *t, const Graph *g, const Uses *uses, int i) {
  int sent = target_chain(g, uses, i, 0), value = sent, fetch = -1, terms = 0;
  while (value >= 0 && graph_node(g, value)->op == OP_ALL_REDUCE) value = target_chain(g, uses, value, 0);
  if (value < 0) return;
  const Node *x = graph_node(g, value);
  int n = x->op == OP_CONCAT ? x->nin : 1;
  int64_t at = 0;
  for (int k = 0; k < n; k++, terms++) {
    const Node *piece = x->op == OP_CONCAT ? graph_node(g, x->in[k]) : x;
    int from = fetched_term(g, uses, x->op == OP_CONCAT ? target_chain(g, uses, value, k) : value, at);
    if (from < 0 || (k && from != fetch)) return;
    fetch = from;
    at += shape_size(&piece->shape);
  }
  if (uses->of[fetch] == terms && shape_equal(&graph_node(g, fetch)->shape, &graph_node(g, i)->shape))
    into(t, g, fetch, sent, 0, NULL);
}

/* sum + product, in the backward pass: the product adds into the sum's place if the sum is a part of a Var that the result
 * goes to, or is itself such a product or sum that nothing else wants. */
static void absorb(Target *t, const Graph *g, const Uses *uses, int i) {
  const Node *x = graph_node(g, i);
  int sum = x->in[0], product = x->in[1];
  if (x->phase != PHASE_BACKWARD || x->shape.rank != 2 || uses->of[product] != 1 || !accumulates(graph_node(g, product)->op))
    return;
  const Node *s = graph_node(g, sum);
  bool chain = uses->of[sum] == 1 && (accumulates(s->op) || (s->op == OP_ADD && s->phase == PHASE_BACKWARD && s->shape.rank == 2 &&
                                                             uses->of[s->in[1]] == 1 && accumulates(graph_node(g, s->in[1])->op)));
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
  const Uses counted = count_uses(g, arena), *uses = &counted;
  for (int i = 0; i < g->nodes.n; i++) t[i].root = -1;
  for (int i = g->nodes.n - 1; i >= 0; i--) {
    const Node *x = graph_node(g, i);
    if (x->op == OP_STORE) {
      int node = target_chain(g, uses, i, 0);
      CHECK(node >= 0);
      into(t, g, i, node, 0, NULL);
    } else if (x->op == OP_SEND) {
      send_target(t, g, uses, i);
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
