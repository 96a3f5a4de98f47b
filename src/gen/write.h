/* SPDX-License-Identifier: Apache-2.0 */
/* What kernel texts of all targets have in common: names, expressions, row addresses.  Private to src/gen.
 *
 * Value 7 is v7 everywhere, its accumulator s7; indices along outer axes are x0, x1, …; input and output addresses are i0, o0
 * and, at the row, a0, b0.  Elementary functions are called by names (hpt_exp) that each target's prelude defines, as it does
 * int32_t, int64_t, uint8_t, hpt_bf16, hpt_f16, INT64_C, HPT_INF and HPT_NAN.
 *
 * A number of 16 bits is a float in a register, always one that its type can hold: only casts round. */
#ifndef GEN_WRITE_H
#define GEN_WRITE_H

#include "src/gen/loops.h"

typedef struct Gen {
  const Kernel *kernel;
  const Loops *loops;
  const char *symbol;
  Text *text;
  int indent;
  const char *index; /* the type of x0, x1, …: holds all offsets of rows */
} Gen;

extern const char *const gen_register_type[DT_COUNT], *const gen_memory_type[DT_COUNT];
const char *gen_load(DType type);  /* before what is in memory, to make it a register's: "hpt_bf16_value(", or "" */
const char *gen_store(DType type); /* before what is in a register, to make it memory's */
const char *gen_close(DType type); /* after either: ")" or "" */

void gen_line(Gen *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
void gen_comment(Gen *g);                           /* the kernel's own, as one */
void gen_indices(Gen *g, int without);              /* x0, x1, … of `row`, but for the last `without` of them */
void gen_row_offset(Gen *g, const int64_t *stride); /* " + x0 * 4096 + x1 * 16": where the row starts */
void gen_value(Gen *g, int i, const char *column);  /* "const float v7 = …;" for all but reductions and FULL inputs */
const char *gen_lowest(DType type);                 /* what a maximum starts from */
bool gen_is_reduction(const KernelValue *v);        /* along the row */
bool gen_reduces(const Gen *g, int i, int sweep);   /* whether value i is a reduction that this sweep completes */

#endif
