/* SPDX-License-Identifier: Apache-2.0 */
/* The state of lowering, shared by lower.c (steps and buffers) and kernel.c (what is in a kernel).  Private to them. */
#ifndef FUSE_LOWER_H
#define FUSE_LOWER_H

#include "src/fuse/stage.h"

typedef VEC(int) Ints;

typedef enum GroupState { GROUP_WAITING, GROUP_EMITTING, GROUP_EMITTED } GroupState;

typedef struct Lower {
  const Graph *g;
  Arena *arena;
  const Target *targets;
  Hazard *const *hazards;
  const Grouping *grouping;
  const FuseOptions *options;
  VEC(Step) steps;
  VEC(Buffer) buffers;
  bool *live, *emitted, *waited;
  GroupState *group_state;
  Ints *members;             /* by group: live nodes in order */
  bool *in_memory;           /* by node of a kernel: somebody wants it from memory */
  int *value;                /* by node: its value in the kernel being built */
  int *own;                  /* by node: the buffer of its dense result; -1 */
  int *var_buffer;           /* by var; -1 */
  int *result, *next_result; /* by attention node: a live RESULT of it, and the one after; -1 */
  int *absorber;             /* by node: the absorbed ADD that this product belongs to; -1 */
  int *collective;           /* by node: which; -1 */
  int ncollectives;
  Ints sending; /* SENDs of the last that were started together */
} Lower;

int lower_buffer(Lower *l, BufferClass class, int var, size_t nbytes, const char *name);
/* Where a node's value is: its own result's, or that of the root it is a view of. */
Place lower_place(Lower *l, int node);
void lower_step(Lower *l, Step step);   /* appends, and stretches the lives of the buffers it names */
void lower_require(Lower *l, int node); /* emits what makes node, and waits for it */
/* Emits what must run before node writes to a Var, but for members of its own kernel `group` (-1: it has none). */
void lower_readers(Lower *l, int node, int group);

/* kernel.c: the kernel of a group, and those that finish its column sums. */
void lower_kernel(Lower *l, int group);

/* share.c: lets a kernel write over an input that dies with it. */
void fuse_share(Program *p);

#endif
