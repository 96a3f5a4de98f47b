/* SPDX-License-Identifier: Apache-2.0 */
/* Element types, shared by graph, device, transport and files. */
#ifndef BASE_DTYPE_H
#define BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* PRED is a truth value (one byte, 0 or 1).  BF16 and F16 are formats of memory and of operands of big ops: all other arithmetic
 * is in F32 (the interpreter's in double), and a CAST rounds to nearest, ties to even. */
typedef enum DType { DT_F32, DT_I32, DT_I64, DT_PRED, DT_BF16, DT_F16, DT_I16, DT_COUNT } DType;

size_t dtype_size(DType dtype);
const char *dtype_name(DType dtype); /* "f32", "i32", "i64", "pred", "bf16", "f16", "i16" */

/* F32, BF16 or F16. */
static inline bool dtype_is_float(DType dtype) { return dtype == DT_F32 || dtype == DT_BF16 || dtype == DT_F16; }

/* The 16 bits of a number and back; what is too large becomes infinite, NaN stays NaN. */
static inline uint16_t bf16_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
  return (uint16_t)((x != x ? bits | 0x400000 : rounded) >> 16); /* quiet, and not infinite */
}
static inline float bf16_value(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float x;
  memcpy(&x, &wide, sizeof x);
  return x;
}
uint16_t f16_of(float x);
float f16_value(uint16_t bits);
/* An F32 as a bf16, rounded to nearest with ties away from zero, and what the bits of that leave: together they are the F32 again,
 * bit for bit (of a NaN, a NaN).  Ties to even would leave one number too many for 16 bits. */
uint16_t f32_upper(float x);
int16_t f32_lower(float x);
float f32_join(uint16_t upper, int16_t lower);
/* The two of n; lower NULL: the upper ones alone. */
void f32_split_all(const float *from, int64_t n, uint16_t *upper, int16_t *lower);
/* Back; lower NULL: the upper ones' values, which are bf16. */
void f32_join_all(const uint16_t *upper, const int16_t *lower, int64_t n, float *to);

/* An F32 as one of the two bf16 next to it, the farther from 0 with a chance in proportion to how near it is: the draw's low 16
 * bits are added below the last place kept, and what is below is cut off.  Uniform draws make the mean x itself.  What a bf16 can
 * hold stays as it is; NaN stays NaN; what is finite stays finite: beyond the largest bf16 it is that one. */
uint16_t bf16_dither(float x, uint32_t draw);

/* Element i of an array of the type, as a double and from one. */
double dtype_load(DType dtype, const void *at, int64_t i);
void dtype_store(DType dtype, void *at, int64_t i, double value);

/* x as the type can hold it: itself for F32. */
float dtype_round(DType dtype, float x);

#endif
