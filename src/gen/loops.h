/* SPDX-License-Identifier: Apache-2.0 */
/* How a fused kernel runs, whatever the target: which loops there are and which value is computed in which.
 *
 * A row is gone over in sweeps.  Sweep k computes what the k-th layer of row reductions needs; ROW values that follow from
 * it are known before sweep k + 1.  All FULL outputs are written in the last sweep and ROW outputs after it, so that an
 * output may lie over an input read at the same index.  A FULL value that several sweeps need is computed in each of them,
 * unless it is expensive and the target can keep a row of it: then it is kept from its first sweep. */
#ifndef GEN_LOOPS_H
#define GEN_LOOPS_H

#include "src/fuse/fuse.h"

typedef struct LoopValue {
  bool used;
  Level level;       /* by the strides, not as declared: what does not change along the columns is a ROW or CONST value */
  int sweep;         /* ROW: how many sweeps must be over; FULL: the first sweep that could compute it */
  uint64_t computed; /* FULL: the sweeps that compute it, a bit each */
  uint64_t read;     /* FULL: the sweeps that find it kept by the first sweep that computed it */
} LoopValue;

typedef struct Loops {
  int nouter; /* axes of the rows: those of the domain, neighbours merged where all accesses allow it */
  int64_t dim[IR_RANK];
  int64_t rows, columns;
  int axis[IR_RANK];          /* of a domain axis: its number among the outer ones; nouter: the columns; -1: extent 1 */
  int64_t (*stride)[IR_RANK]; /* of the inputs, then the outputs: along the outer axes, then the columns */
  bool pointwise;             /* no value needs a whole row: any loop may be the inner one, and rows may be cut */
  bool across;                /* vectors hold rows, not columns: short rows whose neighbours touch, as partial sums have */

  /* What threads share out: units.  A unit is a block of rows when there are column sums (column_sums), else a row or,
   * when pieces > 1, a piece of at most `piece` columns of a row. */
  bool column_sums;
  int64_t units, unit_rows, pieces, piece;
  int64_t work; /* of the whole kernel, in elements read or written or their like */

  int nsweeps;
  LoopValue *value; /* of each kernel value */
} Loops;

/* What of a row a target may keep from one sweep to the next. */
typedef struct LoopsKeep {
  size_t nbytes; /* of all values kept */
  bool inputs;   /* inputs too, where reading memory again costs more than keeping them */
} LoopsKeep;

Loops *loops_make(Arena *arena, const Kernel *kernel, const LoopsKeep *keep);

/* When an output is written. */
typedef enum Write {
  WRITE_ELEMENTS, /* in the last sweep, an element a column */
  WRITE_ROW,      /* after the last sweep */
  ADD_ELEMENTS,   /* in the last sweep, added to the block's partial sums */
  ADD_ROW         /* after the last sweep, added to the block's one partial sum */
} Write;
Write loops_write(const Loops *loops, const Kernel *kernel, int o);

#endif
