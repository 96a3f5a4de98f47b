/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA kernels from the inside: the shape of a launch (cuda_shape.c), what is in it (cuda.c), tiles (cuda_tile.c).  Private to
 * them. */
#ifndef GEN_CUDA_H
#define GEN_CUDA_H

#include "src/gen/gen.h"
#include "src/gen/write.h"

enum {
  POINTWISE_THREADS = 256,
  WARP = 32,
  KEPT_REGISTERS = 64 /* for what is kept from sweep to sweep, or loaded before all of them; half of it for sums of columns */
};

typedef struct Cuda {
  Gen g;
  uint64_t aligned;
  int vector, threads, steps; /* V, T, chunks a thread */
  int rows;                   /* a block's */
  bool across;                /* neighbouring threads have neighbouring rows */
  bool held;                  /* a row is in registers */
  bool early;                 /* all that a row reads is loaded before its first sweep */
  bool ahead;                 /* and while the row before is worked on */
  int sums;                   /* registers of sums of columns; 0: they are in memory */
  int resident;               /* blocks that a multiprocessor is to have room for */
} Cuda;

const KernelArg *cuda_argument(const Kernel *k, int arg); /* inputs, then outputs */

/* How rows are shared out, before it is known which values are kept from sweep to sweep; bytes of a row that may be. */
void cuda_shape_rows(Cuda *c, const Kernel *k);
size_t cuda_kept_most(const Cuda *c, const Kernel *k);
void cuda_shape_held(Cuda *c); /* once loops are known */
void cuda_shape_pointwise(Cuda *c);

const char *cuda_index_type(const Cuda *c); /* for rows and offsets of rows: 32 bits spare registers */
int64_t cuda_column_stride(const Cuda *c, int arg);
bool cuda_is_full_input(const Cuda *c, int value);  /* that the kernel reads along the columns */
bool cuda_is_constant(const Cuda *c, int value);    /* a full input that is the same in all rows */
bool cuda_is_packed(const Cuda *c, DType type);     /* registers hold two numbers each */
int cuda_register_bytes(const Cuda *c, DType type); /* that an element of an input takes there */
bool cuda_is_vector(const Cuda *c, int arg);        /* a chunk is as few accesses as can be */

void cuda_end(Cuda *c);                             /* "}" */
void cuda_scalars(Cuda *c, Level level, int sweep); /* ROW values known once `sweep` sweeps are over (CONST values: level) */
void cuda_row_pointer(Cuda *c, int arg);            /* a0 or b0 */
const char *cuda_stored(const Cuda *c, int output, char out[32]); /* the value to be written, but for its rounding */

/* A pointwise kernel of which some arguments run along the columns and others along another axis. */
bool cuda_is_tiled(const Cuda *c);
GenLaunch cuda_tile(Cuda *c);

#endif
