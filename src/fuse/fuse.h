/* SPDX-License-Identifier: Apache-2.0 */
/* From a graph to a flat list of steps over planned buffers: which nodes become one kernel, where every value lives, when
 * every buffer is alive.
 *
 * Fused kernels.  Pointwise nodes and reductions over the last axis with one iteration space ("domain") become one kernel.
 * A domain is rows x columns: all axes but the last, and the last.  Each value in a kernel has a level: FULL (one a row and
 * column), ROW (one a row: what a reduction over the columns gives, and what follows from it), or COLUMN (one a column: the
 * sum over all rows of a FULL value; written to per-block partials and finished by a kernel of its own).  Views between
 * kernels cost nothing: they are offsets and strides of an access.
 *
 * Reduction order depends on the domain and the options alone: rows are cut into `blocks` blocks of equal size (the last may be
 * shorter); within a block rows follow one another; partials are added in block order. */
#ifndef FUSE_FUSE_H
#define FUSE_FUSE_H

#include "src/ir/ir.h"

/* --- places ------------------------------------------------------------------------------------------------------------ */

/* Where the elements of a dense or strided tensor lie: element (i0,i1,…) at offset + Σ i·stride, in elements, of a buffer. */
typedef struct Place {
  int buffer;
  int64_t offset;
  int64_t stride[IR_RANK];
} Place;

/* Lifetimes decide where a buffer lies. */
typedef enum BufferClass {
  BUFFER_VAR,       /* a Var: at a fixed address for the whole job, not planned here */
  BUFFER_TABLE,     /* the constants of a TABLE node: written once, before the first run */
  BUFFER_TRANSIENT, /* alive from the step that first writes it to the step that last reads it */
  BUFFER_HOST,      /* the same, of what has been sent off the device and will be fetched */
} BufferClass;

/* What every buffer's address and size are a multiple of: cache lines of a CPU, transactions and libraries of a GPU. */
enum { BUFFER_ALIGN = 256 };

typedef struct Buffer {
  BufferClass class;
  int var;          /* of the graph: BUFFER_VAR its Var, else the node whose value it is; -1: of none */
  size_t nbytes;    /* rounded up to BUFFER_ALIGN */
  int first, last;  /* steps; both included */
  const char *name; /* for people: the node or what it is for */
  int64_t offset;   /* in the transient arena, or in the host's, bytes: the plan's answer */
} Buffer;

/* --- kernels ----------------------------------------------------------------------------------------------------------- */

typedef enum Level { LEVEL_CONST, LEVEL_ROW, LEVEL_FULL, LEVEL_COLUMN } Level;

/* What a kernel value does: an input access, a constant, the index, a pointwise op, or a reduction. */
typedef enum KernelOp { K_INPUT, K_CONST, K_IOTA, K_POINTWISE, K_SUM, K_MAXIMUM, K_COLUMN_SUM } KernelOp;

typedef struct KernelValue {
  KernelOp kop;
  Op op; /* K_POINTWISE: which */
  DType dtype;
  Level level;
  int in[3], nin; /* earlier values.  A ROW or CONST input of a FULL value is repeated along the columns.  K_SUM, K_MAXIMUM: of
                     a FULL value along the columns -> ROW.  K_COLUMN_SUM: of a FULL or ROW value over the rows -> COLUMN */
  int input;      /* K_INPUT: index into inputs */
  double f;       /* K_CONST */
  int axis;       /* K_IOTA: of the domain */
} KernelValue;

/* An argument: element type and strides along the domain's axes (0 where repeated; the last axis is 0 for a ROW value). */
typedef struct KernelArg {
  DType dtype;
  int64_t stride[IR_RANK];
  int value; /* outputs: which value is written */
} KernelArg;

typedef struct Kernel {
  Shape domain; /* rank >= 1; a scalar's is (1) */
  int blocks;   /* of rows; fixed by the domain and the options */
  int nvalues, ninputs, noutputs;
  KernelValue *values;
  KernelArg *inputs, *outputs; /* a COLUMN output is written as (blocks, columns) partials, dense; (blocks, 1) if the
                                  value summed is a ROW */
  const char *comment;         /* the graph it came from, a line a node */
} Kernel;

/* --- steps and the program ---------------------------------------------------------------------------------------------- */

typedef enum StepKind {
  STEP_KERNEL,
  STEP_BIG,
  STEP_COLLECTIVE_START,
  STEP_COLLECTIVE_WAIT,
  STEP_TRANSFER_START, /* op: OP_FETCH or OP_SEND; one end is a Var elsewhere or a BUFFER_HOST */
  STEP_TRANSFER_WAIT
} StepKind;

enum { STEP_ARGS = 40 }; /* of a kernel at most, inputs and outputs together */

typedef struct StepArg {
  Place place;
  Shape shape; /* big ops and collectives */
  DType dtype;
} StepArg;

typedef struct Step {
  StepKind kind;
  int node; /* of the graph: for profiles and messages; a kernel's last */
  const Kernel *kernel;
  /* Big ops: op_table name, numbers as kernels/big.h wants them. */
  Op op;
  int64_t n[2];
  double f;
  int workspace;  /* buffer, or -1 */
  int collective; /* which, for start and wait: 0, 1, …; transfers count too */
  int nin, nout;
  StepArg *in, *out; /* kernels: in the order of the kernel's inputs and outputs; only the place and dtype count */
} Step;

typedef struct Program {
  Arena *arena;
  const Graph *graph;  /* what it was lowered from; Vars by index */
  const Graph *source; /* before fusion: the same function for the interpreter; same Vars */
  int nsteps, nbuffers, ncollectives;
  Step *steps;
  Buffer *buffers;
  size_t transient; /* bytes of the transient arena: the plan's peak */
  size_t host;      /* bytes of BUFFER_HOSTs, likewise */
  size_t live;      /* the most bytes alive at one step on the device: no plan can do better */
  int peak_step;    /* a step where that many are alive */
} Program;

/* For GPUs, all of them alike: two blocks for each of the 132 multiprocessors of an H200, not too long for small batches. */
enum { GPU_COLUMN_BLOCKS = 264, GPU_COLUMN_BLOCK_ROWS = 4, GPU_COLUMN_BLOCK_WIDTH = 4096 };

typedef struct FuseOptions {
  bool unfused;  /* every node a kernel of its own: the judge of fusion */
  bool no_start; /* attention whose segments all start at 0 is a step without that operand, which is its last */
  bool biases;   /* products add their bias themselves; else a kernel behind them does */
  /* Sums over rows are cut into at most so many blocks of at least so many rows; 0: as suits a CPU.  column_block_width: rows of
   * half that many columns are cut into twice as many blocks, of a quarter or less into four times as many; 0: none are. */
  int column_blocks, column_block_rows, column_block_width;
  /* Workspace of a big op in bytes (its step is complete but for the workspace buffer), or NULL: none. */
  size_t (*workspace)(void *self, const Step *step, const Graph *g);
  void *self;
} FuseOptions;

/* legalise.c, group.c, lower.c, plan.c: the whole stage. */
Program *fuse_program(Arena *arena, const Graph *g, const FuseOptions *options);

/* copy.c: all of it in another arena, so that what compiling it took can be given back. */
Program *program_copy(Arena *arena, const Program *program);

/* plan.c: sets the offset of every transient buffer, so that no two that are alive at one step overlap, and transient, host, live
 * and peak_step. */
void plan_memory(Program *program);

void program_print(const Program *program, Text *text); /* run.debug=fuse,mem and hpctrain ir --after=fuse */

#endif
