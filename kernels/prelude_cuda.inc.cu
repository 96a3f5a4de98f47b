/* SPDX-License-Identifier: Apache-2.0 */
/* What precedes every generated CUDA translation unit, which includes no header.  The elementary functions are CUDA's own but
 * for the sigmoid: within 3 ulp of the exact value over the whole range, denormals included.  For sm_80 and newer. */
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;

#define INT64_C(x) x##ll
#define INT32_MIN (-2147483647 - 1)
#define INT64_MIN (-9223372036854775807ll - 1)
#define HPT_INF __int_as_float(0x7f800000)
#define HPT_NAN __int_as_float(0x7fc00000)
#define HPT_INLINE static __device__ __forceinline__

HPT_INLINE float hpt_exp(float x) { return expf(x); }
HPT_INLINE float hpt_expm1(float x) { return expm1f(x); }
HPT_INLINE float hpt_log(float x) { return logf(x); }
HPT_INLINE float hpt_sqrt(float x) { return sqrtf(x); }
HPT_INLINE float hpt_rsqrt(float x) { return rsqrtf(x); }
HPT_INLINE float hpt_sin(float x) { return sinf(x); }
HPT_INLINE float hpt_cos(float x) { return cosf(x); }
HPT_INLINE float hpt_tanh(float x) { return tanhf(x); }
HPT_INLINE float hpt_fma_once(float a, float b, float c) { return fmaf(a, b, c); }
HPT_INLINE bool hpt_finite(float x) { return fabsf(x) < HPT_INF; }

/* Of the two forms of 1 / (1 + exp(-x)) the one whose exponential cannot overflow.  A quotient whose divisor is between 1 and 2
 * needs no care: an estimate and one step of Newton's. */
HPT_INLINE float hpt_sigmoid(float x) {
  float e = expf(-fabsf(x)), d = 1.0f + e, r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(d));
  r = fmaf(fmaf(-d, r, 1.0f), r, r);
  return (x < 0 ? e : 1.0f) * r;
}

/* The larger one; NaN if either is. */
HPT_INLINE float hpt_larger(float a, float b) {
  float c;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}
HPT_INLINE int32_t hpt_larger(int32_t a, int32_t b) { return a > b ? a : b; }
HPT_INLINE int64_t hpt_larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Over N lanes that follow one another, a power of 2: a butterfly, so that all of them end with the same bits. */
template <int N, typename T> HPT_INLINE T hpt_sum(T x) {
#pragma unroll
  for (int i = N / 2; i > 0; i /= 2) x += __shfl_xor_sync(0xffffffffu, x, i);
  return x;
}

template <int N, typename T> HPT_INLINE T hpt_most(T x) {
#pragma unroll
  for (int i = N / 2; i > 0; i /= 2) x = hpt_larger(x, __shfl_xor_sync(0xffffffffu, x, i));
  return x;
}

/* Of N values that lie STRIDE apart, in their order. */
template <int N, int STRIDE, typename T> HPT_INLINE T hpt_sum_across(const T *x) {
  T all = x[0];
#pragma unroll
  for (int i = 1; i < N; i++) all += x[i * STRIDE];
  return all;
}

template <int N, int STRIDE, typename T> HPT_INLINE T hpt_most_across(const T *x) {
  T all = x[0];
#pragma unroll
  for (int i = 1; i < N; i++) all = hpt_larger(x[i * STRIDE], all);
  return all;
}

/* Numbers of 16 bits: memory holds their bits, registers their values.  X_round is to nearest, ties to even, and gives a float
 * that X can hold; X_bits rounds, too.  What is too large becomes infinite, NaN stays NaN. */
struct hpt_bf16 {
  uint16_t bits;
};
struct hpt_f16 {
  uint16_t bits;
};

HPT_INLINE float hpt_bf16_value(hpt_bf16 h) { return __int_as_float((int32_t)((uint32_t)h.bits << 16)); }
HPT_INLINE float hpt_f16_value(hpt_f16 h) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h.bits));
  return x;
}

HPT_INLINE hpt_bf16 hpt_bf16_bits(float x) {
  hpt_bf16 h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h.bits) : "f"(x));
  return h;
}
HPT_INLINE hpt_f16 hpt_f16_bits(float x) {
  hpt_f16 h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(x));
  return h;
}

HPT_INLINE float hpt_bf16_round(float x) { return hpt_bf16_value(hpt_bf16_bits(x)); }
HPT_INLINE float hpt_f16_round(float x) { return hpt_f16_value(hpt_f16_bits(x)); }

HPT_INLINE int32_t hpt_bits(float x) { return __float_as_int(x); }

/* An F32 in two halves: f32_upper, f32_lower and f32_join of base/dtype.h. */
HPT_INLINE float hpt_upper(float x) {
  uint32_t bits = __float_as_uint(x);
  return __uint_as_float((x != x ? bits | 0x400000 : bits + 0x8000) & 0xffff0000u);
}
HPT_INLINE int32_t hpt_lower(float x) { return x != x ? 0 : (int32_t)(__float_as_uint(x) - __float_as_uint(hpt_upper(x))); }
HPT_INLINE float hpt_join(float upper, int32_t lower) { return __uint_as_float(__float_as_uint(upper) + (uint32_t)lower); }

/* rng_bits and bf16_dither of base/rng.h and base/dtype.h. */
HPT_INLINE int32_t hpt_random(int64_t key, int64_t counter) {
  uint64_t k = (2 * (uint64_t)key + 1) * 0x9E3779B97F4A7C15ull, x = (uint64_t)counter * k, y = x, z = y + k;
  x = x * x + y;
  x = x >> 32 | x << 32;
  x = x * x + z;
  x = x >> 32 | x << 32;
  x = x * x + y;
  x = x >> 32 | x << 32;
  return (int32_t)((x * x + z) >> 32);
}
HPT_INLINE float hpt_dither(float x, int32_t draw) {
  uint32_t bits = __float_as_uint(x), moved = bits + ((bits & 0x7fffffff) < 0x7f7f0000 ? (uint32_t)draw & 0xffff : 0);
  return __uint_as_float((x != x ? bits | 0x400000 : moved) & 0xffff0000u);
}

/* N of them as registers hold them best: two in each, the first in the low half. */
template <typename M, int N> struct alignas(2 * N) HptHalves { uint32_t word[N / 2]; };

template <int N> HPT_INLINE float hpt_value(const HptHalves<hpt_bf16, N> &x, int i) {
  return __int_as_float((int32_t)(i % 2 ? x.word[i / 2] & 0xffff0000u : x.word[i / 2] << 16));
}
template <int N> HPT_INLINE float hpt_value(const HptHalves<hpt_f16, N> &x, int i) {
  return hpt_f16_value(hpt_f16{(uint16_t)(i % 2 ? x.word[i / 2] >> 16 : x.word[i / 2])});
}

/* One after the other, from the first. */
template <typename M, int N> HPT_INLINE void hpt_fill(HptHalves<M, N> &x, int i, M h) {
  x.word[i / 2] = i % 2 ? x.word[i / 2] | (uint32_t)h.bits << 16 : h.bits;
}

HPT_INLINE uint32_t hpt_pair(const hpt_bf16 *, float low, float high) {
  uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
HPT_INLINE uint32_t hpt_pair(const hpt_f16 *, float low, float high) {
  uint32_t word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

/* N elements at an address that is a multiple of 16 bytes or of all they take. */
template <typename T, int N> struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) HptChunk { T at[N]; };

template <int N, typename T, typename M> HPT_INLINE void hpt_load(T (&x)[N], const M *from) {
  HptChunk<M, N> chunk = *reinterpret_cast<const HptChunk<M, N> *>(from);
#pragma unroll
  for (int i = 0; i < N; i++) x[i] = chunk.at[i];
}

template <int N, typename T, typename M> HPT_INLINE void hpt_store(M *to, const T (&x)[N]) {
  HptChunk<M, N> chunk;
#pragma unroll
  for (int i = 0; i < N; i++) chunk.at[i] = x[i];
  *reinterpret_cast<HptChunk<M, N> *>(to) = chunk;
}

template <int N, typename M> HPT_INLINE void hpt_load(HptHalves<M, N> &x, const M *from) {
  x = *reinterpret_cast<const HptHalves<M, N> *>(from);
}

template <int N, typename M> HPT_INLINE void hpt_store_halves(M *to, const float (&x)[N]) {
  HptHalves<M, N> halves;
#pragma unroll
  for (int i = 0; i < N; i += 2) halves.word[i / 2] = hpt_pair(to, x[i], x[i + 1]);
  *reinterpret_cast<HptHalves<M, N> *>(to) = halves;
}
template <int N> HPT_INLINE void hpt_store(hpt_bf16 *to, const float (&x)[N]) { hpt_store_halves(to, x); }
template <int N> HPT_INLINE void hpt_store(hpt_f16 *to, const float (&x)[N]) { hpt_store_halves(to, x); }
