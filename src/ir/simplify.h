/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the simplifier. */
#ifndef IR_SIMPLIFY_H
#define IR_SIMPLIFY_H

#include "src/ir/ir.h"

typedef struct Simplify {
  Graph *g;  /* being written; its scope and phase are those of the node that is rewritten */
  int *slot; /* nodes by hash, -1 where free */
  int slots;
} Simplify;

/* Looks at a node that is not in the graph yet, with inputs in normal form and its shape inferred.  Returns the node that has
 * its value, or -1 where the rule does not apply. */
typedef int SimplifyRule(Simplify *s, const Node *node);

/* The node in normal form: rewritten by the rules for its op, or added. */
int simplify_emit(Simplify *s, Node node);
/* Added as it is, unless an equal one of its phase is there. */
int simplify_add(Simplify *s, Node node);

/* A scalar constant in this shape, and whether all elements of a node are one constant. */
int simplify_splat(Simplify *s, DType dtype, double f, Shape shape);
bool simplify_is_splat(const Simplify *s, int node, double *f);

/* simplify_math.c */
SimplifyRule simplify_same, simplify_fold, simplify_neg, simplify_add_zero, simplify_sub_zero, simplify_mul_one, simplify_div_one,
    simplify_and, simplify_select, simplify_cast, simplify_matmul;
/* simplify_view.c */
SimplifyRule simplify_view_of_splat, simplify_reshape, simplify_permute, simplify_slice, simplify_broadcast, simplify_concat;

#endif
