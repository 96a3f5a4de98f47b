/* SPDX-License-Identifier: Apache-2.0 */
/* Element types, shared by graph, device, transport and files. */
#ifndef BASE_DTYPE_H
#define BASE_DTYPE_H

#include <stddef.h>

/* PRED is a truth value (one byte, 0 or 1).  Arithmetic on a CPU is in F32; the interpreter computes in double. */
typedef enum DType { DT_F32, DT_I32, DT_I64, DT_PRED, DT_COUNT } DType;

size_t dtype_size(DType dtype);
const char *dtype_name(DType dtype); /* "f32", "i32", "i64", "pred" */

#endif
