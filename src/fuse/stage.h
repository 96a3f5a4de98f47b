/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this stage share.  Private to it.
 *
 *   legalise   copies where a value cannot be read or written in place (graph to graph)
 *   target     which values are written straight into a Var or a part of a CONCAT
 *   hazard     what must run before a Var is written
 *   group      which nodes are one kernel
 *   lower      kernels, steps, buffers
 *   plan       offsets */
#ifndef FUSE_STAGE_H
#define FUSE_STAGE_H

#include "src/fuse/fuse.h"

/* --- layout.c: views as offsets and strides ------------------------------------------------------------------------------ */

/* Where a node's elements are within the dense value of its root: the first node that is no view (a CONCAT counts as none). */
typedef struct Layout {
  int root;
  int64_t offset, stride[IR_RANK];
} Layout;

void strides_dense(const Shape *shape, int64_t stride[IR_RANK]);
/* Strides of a reshaped view, if there are any. */
bool strides_reshape(const Shape *from, const int64_t *stride, const Shape *to, int64_t out[IR_RANK]);
/* From the layout of a view's input to that of the view; false: no strides do it. */
bool layout_view(const Graph *g, const Node *view, const Layout *in, Layout *out);
/* A node that is no view: itself, dense. */
Layout layout_root(const Graph *g, int node);
bool is_view(const Node *node); /* KIND_VIEW but CONCAT */
/* The constant that a node is through views; NULL: it is none. */
const Node *constant_of(const Graph *g, int node);
bool is_widened(const Node *node, const Graph *g); /* a 16-bit value in F32: what reads it reads the 16 bits */
/* Who reads what. */
typedef struct Uses {
  int *of;      /* by node: how often it is an input */
  bool *loaded; /* by var */
} Uses;
Uses count_uses(const Graph *g, Arena *arena);

/* --- legalise.c ----------------------------------------------------------------------------------------------------------- */

/* Afterwards every view of a value that is read has strides, big ops and collectives get operands laid out as they want, the
 * axis of a reduction is the last one or the first of two, and every CONCAT piece and STORE value is followed by
 * target_chain to a node of its own.  copied: by var, those that a copy at the very end writes. */
Graph *fuse_legalise(const Graph *g, Arena *arena, const bool *copied, const FuseOptions *options);
/* Whether operand k of a big op is left out. */
bool fuse_omits(const Graph *g, const Node *node, int k, const FuseOptions *options);

/* The node whose result a CONCAT piece or a STORE value is, through reshapes of single use; -1 if it cannot be written where
 * the user wants it. */
int target_chain(const Graph *g, const Uses *uses, int user, int input);

/* --- target.c ------------------------------------------------------------------------------------------------------------- */

/* Where a node's result is written: into the value or Var of another node (a STORE, a CONCAT, an ALL_REDUCE, a FETCH), which may be
 * itself.  root -1: in a buffer of its own, dense. */
typedef struct Target {
  int root;
  int64_t offset, stride[IR_RANK];
  bool absorbed; /* an ADD that its product's accumulation does, in place */
} Target;

Target *fuse_targets(const Graph *g, Arena *arena);
int *fuse_absorbers(const Graph *g, Arena *arena, const Target *targets); /* by product: the absorbed ADD; -1 */

/* --- hazard.c ------------------------------------------------------------------------------------------------------------- */

/* A node that reads a Var which another writes: it runs before. */
typedef struct Hazard {
  struct Hazard *next;
  int reader;
  bool together; /* or in the same kernel */
} Hazard;

/* By node that writes a Var (an attention node for its RESULTs, an absorbed ADD for its product).  Where no order of the nodes
 * as they stand will do, copied[var] is set, and *again. */
Hazard **fuse_hazards(const Graph *g, Arena *arena, const Target *targets, bool *copied, bool *again);
bool *fuse_stored_vars(const Graph *g, Arena *arena); /* by var: whether this program writes it */
int fuse_var_read(const Graph *g, int node);          /* the Var whose value a node is, through views; -1 */

/* --- group.c -------------------------------------------------------------------------------------------------------------- */

typedef struct Grouping {
  int *group; /* by node; -1: not in a kernel */
  int n;
} Grouping;

bool is_fusable(const Node *node);
bool is_column(const Graph *g, const Node *node); /* a reduction over rows */
/* The member-to-be that input k of node is inside a kernel: itself, or the ROW value that it repeats; -1: only through
 * memory. */
int inner_operand(const Graph *g, const Node *node, int k);
/* A node's iteration space: at least one axis. */
Shape domain_of(const Graph *g, const Node *node);

Grouping fuse_group(const Graph *g, Arena *arena, const Target *targets, Hazard *const *hazards, bool unfused);
/* remat.c: a graph in which the backward pass computes cheap forward values again rather than have them stored. */
Graph *fuse_rematerialise(const Graph *g, Arena *arena, const Grouping *grouping);

/* --- lower.c -------------------------------------------------------------------------------------------------------------- */

Program *fuse_lower(const Graph *g, Arena *arena, const Target *targets, Hazard *const *hazards, const Grouping *grouping,
                    const FuseOptions *options);

#endif
