/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of arithmetic that change no bit of the result, neither in float nor in the interpreter's double: signed zeros,
 * infinities and NaN included. */
#include <math.h>

#include "src/ir/interp.h"
#include "src/ir/simplify.h"

static const Node *input(const Simplify *s, const Node *node, int i) { return graph_node(s->g, node->in[i]); }

int simplify_same(Simplify *s, const Node *node) {
  (void)s;
  return node->in[0];
}

/* Whether a number is the same in the type as in double.  False for NaN. */
static bool exact(DType dtype, double f) {
  switch (dtype) {
  case DT_F32:
    return (double)(float)f == f;
  case DT_I32:
    return f >= INT32_MIN && f <= INT32_MAX;
  case DT_I64:
    return fabs(f) < 0x1p53;
  default:
    return f == 0 || f == 1;
  }
}

/* A result that is a float, from inputs that are, was not rounded, or rounded to what float would have rounded to. */
int simplify_fold(Simplify *s, const Node *node) {
  double in[3];
  CHECK(node->nin <= 3);
  for (int i = 0; i < node->nin; i++)
    if (!simplify_is_splat(s, node->in[i], &in[i]) || !exact(input(s, node, i)->dtype, in[i])) return -1;
  double f = interp_scalar(node, in);
  return exact(node->dtype, f) ? simplify_splat(s, node->dtype, f, node->shape) : -1;
}

int simplify_neg(Simplify *s, const Node *node) {
  const Node *x = input(s, node, 0);
  return x->op == OP_NEG ? x->in[0] : -1;
}

static bool is_const(const Simplify *s, int i, double f) {
  double is;
  return simplify_is_splat(s, i, &is) && is == f && signbit(is) == signbit(f);
}

/* -0 is what adding never changes; integers have one zero. */
int simplify_add_zero(Simplify *s, const Node *node) {
  double zero = node->dtype == DT_F32 ? -0.0 : 0.0;
  if (is_const(s, node->in[1], zero)) return node->in[0];
  return is_const(s, node->in[0], zero) ? node->in[1] : -1;
}

int simplify_sub_zero(Simplify *s, const Node *node) { return is_const(s, node->in[1], 0) ? node->in[0] : -1; }

int simplify_mul_one(Simplify *s, const Node *node) {
  if (is_const(s, node->in[1], 1)) return node->in[0];
  return is_const(s, node->in[0], 1) ? node->in[1] : -1;
}

int simplify_div_one(Simplify *s, const Node *node) { return is_const(s, node->in[1], 1) ? node->in[0] : -1; }

int simplify_and(Simplify *s, const Node *node) { return node->in[0] == node->in[1] ? node->in[0] : simplify_mul_one(s, node); }

int simplify_select(Simplify *s, const Node *node) {
  double p;
  if (node->in[1] == node->in[2]) return node->in[1];
  return simplify_is_splat(s, node->in[0], &p) ? node->in[p != 0 ? 1 : 2] : -1;
}

/* 16 bits to F32 loses nothing, so the way back finds the same number. */
int simplify_cast(Simplify *s, const Node *node) {
  const Node *x = input(s, node, 0);
  if (x->dtype == node->dtype) return node->in[0];
  bool widened = x->op == OP_CAST && x->dtype == DT_F32 && input(s, x, 0)->dtype == node->dtype && dtype_is_float(node->dtype);
  return widened ? x->in[0] : -1;
}

/* A transposed operand is read in place. */
int simplify_matmul(Simplify *s, const Node *node) {
  for (int i = 0; i < 2; i++) {
    const Node *x = input(s, node, i);
    if (x->op != OP_PERMUTE) continue; /* of a matrix, and not the identity: a transpose */
    int in[3];
    for (int k = 0; k < node->nin; k++) in[k] = node->in[k];
    Node flipped = *node;
    in[i] = x->in[0];
    flipped.in = in;
    flipped.n[i] = !node->n[i];
    return simplify_emit(s, flipped);
  }
  return -1;
}
