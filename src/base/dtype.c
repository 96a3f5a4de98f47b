/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/dtype.h"

#include <string.h>

#include "src/base/fail.h"

static const struct {
  const char *name;
  size_t size;
} types[DT_COUNT] = {[DT_F32] = {"f32", 4},   [DT_I32] = {"i32", 4}, [DT_I64] = {"i64", 8}, [DT_PRED] = {"pred", 1},
                     [DT_BF16] = {"bf16", 2}, [DT_F16] = {"f16", 2}, [DT_I16] = {"i16", 2}};

size_t dtype_size(DType dtype) {
  CHECK(dtype < DT_COUNT);
  return types[dtype].size;
}

const char *dtype_name(DType dtype) {
  CHECK(dtype < DT_COUNT);
  return types[dtype].name;
}

static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static float from_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Drops the low n bits, to nearest, ties to even. */
static uint32_t shift_rounded(uint32_t x, uint32_t n) {
  uint32_t half = 1u << (n - 1), rest = x & (2 * half - 1), kept = x >> n;
  return kept + (rest > half || (rest == half && (kept & 1)));
}

uint16_t f16_of(float x) {
  uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (x != x) return (uint16_t)(sign | 0x7e00);
  if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* from 65520 on */
  if (magnitude >= 0x38800000) return (uint16_t)(sign | (shift_rounded(magnitude, 13) - (112 << 10)));
  if (magnitude < 0x33000000) return (uint16_t)sign; /* below half of the least subnormal, or the tie, which is even */
  uint32_t fraction = (magnitude & 0x7fffff) | 0x800000;
  return (uint16_t)(sign | shift_rounded(fraction, 126 - (magnitude >> 23)));
}

float f16_value(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023;
  if (exponent == 31) return from_bits(sign | 0x7f800000u | fraction << 13);
  if (exponent) return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
  float magnitude = (float)fraction * 0x1p-24f; /* zero and subnormals; exact */
  return sign ? -magnitude : magnitude;
}

uint16_t f32_upper(float x) {
  if (x != x) return bf16_of(x);
  return (uint16_t)((bits_of(x) + 0x8000) >> 16);
}

int16_t f32_lower(float x) {
  if (x != x) return 0;
  return (int16_t)(bits_of(x) - ((uint32_t)f32_upper(x) << 16));
}

float f32_join(uint16_t upper, int16_t lower) { return from_bits(((uint32_t)upper << 16) + (uint32_t)lower); }

void f32_split_all(const float *from, int64_t n, uint16_t *upper, int16_t *lower) {
  for (int64_t i = 0; i < n; i++) {
    uint32_t bits = bits_of(from[i]), high = (bits + 0x8000) >> 16;
    bool none = (bits & 0x7fffffff) > 0x7f800000;
    upper[i] = (uint16_t)(none ? bits >> 16 | 0x40 : high);
    if (lower) lower[i] = (int16_t)(none ? 0 : bits - (high << 16));
  }
}

void f32_join_all(const uint16_t *upper, const int16_t *lower, int64_t n, float *to) {
  for (int64_t i = 0; i < n && lower; i++) to[i] = f32_join(upper[i], lower[i]);
  for (int64_t i = 0; i < n && !lower; i++) to[i] = bf16_value(upper[i]);
}

uint16_t bf16_dither(float x, uint32_t draw) {
  uint32_t bits = bits_of(x);
  if (x != x) return bf16_of(x);
  if ((bits & 0x7fffffff) < 0x7f7f0000) bits += draw & 0xffff; /* from the largest bf16 on there is nowhere to go but infinity */
  return (uint16_t)(bits >> 16);
}

double dtype_load(DType dtype, const void *at, int64_t i) {
  return dtype == DT_F32    ? ((const float *)at)[i]
         : dtype == DT_I32  ? ((const int32_t *)at)[i]
         : dtype == DT_I64  ? (double)((const int64_t *)at)[i]
         : dtype == DT_BF16 ? bf16_value(((const uint16_t *)at)[i])
         : dtype == DT_F16  ? f16_value(((const uint16_t *)at)[i])
         : dtype == DT_I16  ? ((const int16_t *)at)[i]
                            : ((const uint8_t *)at)[i];
}

void dtype_store(DType dtype, void *at, int64_t i, double value) {
  if (dtype == DT_F32) ((float *)at)[i] = (float)value;
  if (dtype == DT_I32) ((int32_t *)at)[i] = (int32_t)value;
  if (dtype == DT_I64) ((int64_t *)at)[i] = (int64_t)value;
  if (dtype == DT_BF16) ((uint16_t *)at)[i] = bf16_of((float)value);
  if (dtype == DT_F16) ((uint16_t *)at)[i] = f16_of((float)value);
  if (dtype == DT_I16) ((int16_t *)at)[i] = (int16_t)value;
  if (dtype == DT_PRED) ((uint8_t *)at)[i] = value != 0;
}

float dtype_round(DType dtype, float x) {
  return dtype == DT_BF16 ? bf16_value(bf16_of(x)) : dtype == DT_F16 ? f16_value(f16_of(x)) : x;
}
