/* SPDX-License-Identifier: Apache-2.0 */
/* What precedes every generated translation unit: elementary functions that a compiler can vectorise.
 *
 * Each is branchless float arithmetic, so a loop that calls it under "#pragma omp simd" becomes vector code, and each is
 * within 2 ulp of the exact value over the whole range: infinities, NaN, denormal arguments and results included.
 * Polynomials are minimax fits (Remez) on the reduced range.
 *
 * Then vector types of the CPU's width, for the kernels written by hand. */
#include <math.h>
#include <string.h>

/* All that is used of omp.h, which not every compiler has at hand. */
int omp_get_thread_num(void);
int omp_get_num_threads(void);
int omp_get_max_threads(void);

#define HPT_INLINE static inline __attribute__((always_inline, unused))

#define HPT_INF __builtin_inff()
#define HPT_NAN __builtin_nanf("")
#define hpt_sqrt __builtin_sqrtf
#define hpt_expm1 expm1f
#define hpt_sin sinf
#define hpt_cos cosf
#define hpt_fma_once __builtin_fmaf
#define hpt_finite(x) (__builtin_fabsf(x) < HPT_INF)

/* a·b + c in one rounding where the CPU has it; where it has not, these functions are right with two roundings too. */
HPT_INLINE float hpt_fma(float a, float b, float c) {
#if defined(__FMA__) || defined(__AVX512F__) || defined(__aarch64__)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

HPT_INLINE int32_t hpt_bits(float x) {
  union {
    float f;
    int32_t i;
  } u = {x};
  return u.i;
}

HPT_INLINE float hpt_from_bits(int32_t i) {
  union {
    int32_t i;
    float f;
  } u = {i};
  return u.f;
}

/* Numbers of 16 bits: memory holds their bits, registers their values.  X_round is to nearest, ties to even, and gives a float
 * that X can hold; X_bits takes only such a float.  What is too large becomes infinite, NaN stays NaN. */
typedef uint16_t hpt_bf16, hpt_f16;

HPT_INLINE float hpt_bf16_value(hpt_bf16 h) { return hpt_from_bits((int32_t)((uint32_t)h << 16)); }
HPT_INLINE hpt_bf16 hpt_bf16_bits(float x) { return (uint16_t)((uint32_t)hpt_bits(x) >> 16); }
HPT_INLINE float hpt_bf16_round(float x) {
  uint32_t bits = (uint32_t)hpt_bits(x);
  uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1), quiet = bits | 0x400000;
  return hpt_from_bits((int32_t)((x != x ? quiet : rounded) & 0xffff0000));
}

/* An F32 in two halves: f32_upper, f32_lower and f32_join of base/dtype.h. */
HPT_INLINE float hpt_upper(float x) {
  uint32_t bits = (uint32_t)hpt_bits(x), quiet = bits | 0x400000;
  return hpt_from_bits((int32_t)((x != x ? quiet : bits + 0x8000) & 0xffff0000));
}
HPT_INLINE int32_t hpt_lower(float x) { return x != x ? 0 : (int32_t)((uint32_t)hpt_bits(x) - (uint32_t)hpt_bits(hpt_upper(x))); }
HPT_INLINE float hpt_join(float upper, int32_t lower) {
  return hpt_from_bits((int32_t)((uint32_t)hpt_bits(upper) + (uint32_t)lower));
}

/* rng_bits and bf16_dither of base/rng.h and base/dtype.h. */
HPT_INLINE int32_t hpt_random(int64_t key, int64_t counter) {
  uint64_t k = (2 * (uint64_t)key + 1) * 0x9E3779B97F4A7C15u, x = (uint64_t)counter * k, y = x, z = y + k;
  x = x * x + y;
  x = x >> 32 | x << 32;
  x = x * x + z;
  x = x >> 32 | x << 32;
  x = x * x + y;
  x = x >> 32 | x << 32;
  return (int32_t)((x * x + z) >> 32);
}
HPT_INLINE float hpt_dither(float x, int32_t draw) {
  uint32_t bits = (uint32_t)hpt_bits(x), quiet = bits | 0x400000;
  uint32_t moved = bits + ((bits & 0x7fffffff) < 0x7f7f0000 ? (uint32_t)draw & 0xffff : 0);
  return hpt_from_bits((int32_t)((x != x ? quiet : moved) & 0xffff0000));
}

/* Exponents are biased by 15 and by 127; numbers below 2^-14 are multiples of 2^-24, as floats next to a half are. */
HPT_INLINE float hpt_f16_value(hpt_f16 h) {
  uint32_t magnitude = h & 0x7fff, sign = (uint32_t)(h & 0x8000) << 16;
  uint32_t large = (magnitude << 13) + (magnitude >= 0x7c00 ? 0x70000000 : 0x38000000);
  uint32_t small = (uint32_t)hpt_bits((float)(int32_t)magnitude * 0x1p-24f);
  return hpt_from_bits((int32_t)(sign | (magnitude < 0x400 ? small : large)));
}

HPT_INLINE float hpt_f16_round(float x) {
  uint32_t bits = (uint32_t)hpt_bits(x), magnitude = bits & 0x7fffffff;
  uint32_t large = (magnitude + 0xfff + (magnitude >> 13 & 1)) & 0xffffe000;
  uint32_t small = (uint32_t)hpt_bits((__builtin_fabsf(x) + 0.5f) - 0.5f);
  large = large > 0x477fe000 ? 0x7f800000 : large; /* beyond 65504 */
  large = magnitude < 0x38800000 ? small : large;
  large = magnitude > 0x7f800000 ? 0x7fc00000 : large;
  return hpt_from_bits((int32_t)((bits & 0x80000000) | large));
}

HPT_INLINE hpt_f16 hpt_f16_bits(float x) {
  uint32_t bits = (uint32_t)hpt_bits(x), magnitude = bits & 0x7fffffff;
  uint32_t large = (magnitude >> 13) - (112 << 10), small = (uint32_t)hpt_bits(__builtin_fabsf(x) + 0.5f) - 0x3f000000;
  large = magnitude < 0x38800000 ? small : large;
  large = magnitude >= 0x7f800000 ? 0x7c00 | (magnitude >> 13 & 0x3ff) : large;
  return (uint16_t)((bits >> 16 & 0x8000) | large);
}

/* exp(x) = 2^n · exp(r), |r| <= ln 2 / 2, n = x / ln 2 rounded by the shift.  2^n is applied in two halves, so that a result
 * beyond the normal range is rounded once. */
HPT_INLINE float hpt_exp(float x) {
  const float shift = 0x1.8p23f;
  x = x < -104.0f ? -104.0f : x; /* exp(-104) rounds to 0, exp(89) to infinity; a NaN passes both */
  x = x > 89.0f ? 89.0f : x;
  float t = hpt_fma(x, 0x1.715476p0f, shift);
  float n = t - shift;
  float r = hpt_fma(n, -0x1.62e4p-1f, x);
  r = hpt_fma(n, -0x1.7f7d1cp-20f, r);
  float p = 0x1.6a1cp-10f;
  p = hpt_fma(p, r, 0x1.123fdp-7f);
  p = hpt_fma(p, r, 0x1.555914p-5f);
  p = hpt_fma(p, r, 0x1.55548ap-3f);
  p = hpt_fma(p, r, 0x1.fffffcp-2f);
  float one_r = 1.0f + r, lost = r - (one_r - 1.0f);
  p = one_r + hpt_fma(p, r * r, lost);
  int32_t k = (int32_t)((uint32_t)hpt_bits(t) - (uint32_t)hpt_bits(shift));
  k = k < -152 ? -152 : k; /* what a NaN leaves in k must still be an exponent */
  k = k > 130 ? 130 : k;
  int32_t half = k >> 1;
  return p * hpt_from_bits((half + 127) << 23) * hpt_from_bits((k - half + 127) << 23);
}

/* log(x) = n·ln 2 + log(1 + f), 1 + f in [√½, √2). */
HPT_INLINE float hpt_log(float x) {
  int32_t tiny = x < 0x1p-126f;
  int32_t i = (int32_t)((uint32_t)hpt_bits(tiny ? x * 0x1p25f : x) - 0x3f3504f3u); /* what is below 0 may go round */
  float n = (float)((i >> 23) - (tiny ? 25 : 0));
  float f = hpt_from_bits((i & 0x7fffff) + 0x3f3504f3) - 1.0f;
  float p = 0x1.144cp-4f;
  p = hpt_fma(p, f, -0x1.de36cap-4f);
  p = hpt_fma(p, f, 0x1.e6f28ap-4f);
  p = hpt_fma(p, f, -0x1.fc2306p-4f);
  p = hpt_fma(p, f, 0x1.233758p-3f);
  p = hpt_fma(p, f, -0x1.555c46p-3f);
  p = hpt_fma(p, f, 0x1.99a4b6p-3f);
  p = hpt_fma(p, f, -0x1.000006p-2f);
  p = hpt_fma(p, f, 0x1.555548p-2f);
  float r = hpt_fma(hpt_fma(p, f, -0.5f), f * f, n * 0x1.7f7d1cp-20f);
  r = hpt_fma(n, 0x1.62e4p-1f, f + r);
  r = x == 0.0f ? -__builtin_inff() : r;
  r = x < 0.0f ? __builtin_nanf("") : r;
  return x < __builtin_inff() ? r : x; /* infinity and NaN are their own logarithms */
}

/* Of the two forms of 1 / (1 + exp(-x)) the one whose exponential cannot overflow; then what 1 + e lost is put right. */
HPT_INLINE float hpt_sigmoid(float x) {
  float e = hpt_exp(-__builtin_fabsf(x)), d = 1.0f + e, lost = e - (d - 1.0f);
  float q = (x < 0.0f ? e : 1.0f) / d, inverse = x < 0.0f ? 1.0f - q : q;
  return q - q * lost * inverse;
}

HPT_INLINE float hpt_tanh(float x) {
  float a = __builtin_fabsf(x), u = x * x;
  float p = 0x1.5256d8p-6f + u * -0x1.76ac1ap-8f;
  p = hpt_fma(p, u, -0x1.b84448p-5f);
  p = hpt_fma(p, u, 0x1.110768p-3f);
  p = hpt_fma(p, u, -0x1.555534p-2f);
  float small = hpt_fma(p * u, a, a);
  float large = 1.0f - 2.0f / (hpt_exp(2.0f * a) + 1.0f);
  return __builtin_copysignf(a < 0.625f ? small : large, x);
}

HPT_INLINE float hpt_rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }

/* HPT_LANES floats in a register; HptVecAt is the same at any address that a float may have. */
#if defined(__AVX512F__)
#define HPT_LANES 16
#elif defined(__AVX__)
#define HPT_LANES 8
#else
#define HPT_LANES 4
#endif
typedef float HptVec __attribute__((vector_size(4 * HPT_LANES)));
typedef float HptVecAt __attribute__((vector_size(4 * HPT_LANES), aligned(4), may_alias));
typedef float HptFourAt __attribute__((vector_size(16), aligned(4), may_alias));

HPT_INLINE HptVec hpt_load(const float *at) { return *(const HptVecAt *)at; }
HPT_INLINE void hpt_store(float *at, HptVec x) { *(HptVecAt *)at = x; }

/* The tile of a matrix product whose sums fit the registers: HPT_ROWS × 2 vectors.  12 and 6 divide 96; the attention's
 * blocks rely on it. */
#if defined(__AVX512F__) || defined(__aarch64__)
#define HPT_ROWS 12
#else
#define HPT_ROWS 6
#endif
#define HPT_COLS (2 * HPT_LANES)

/* A function around hpt_tile, so that its products and sums become fused ones. */
#if defined(__clang__)
#define HPT_TILE static __attribute__((noinline, unused))
#else
#define HPT_TILE static __attribute__((noinline, unused, optimize("fp-contract=fast")))
#endif

/* sum[i][v] = Σ over k < depth of a[i·a_row + k·a_k] · b[k·b_k + v·HPT_LANES + lane]. */
HPT_INLINE void hpt_tile(HptVec sum[HPT_ROWS][2], const float *a, int64_t a_row, int64_t a_k, const float *b, int64_t b_k,
                         int64_t depth, int rows, int vectors) {
#if defined(__clang__)
#pragma clang fp contract(fast)
#endif
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) sum[i][v] = (HptVec){0};
  for (int64_t k = 0; k < depth; k++) {
    HptVec x[2];
    if (a_k > HPT_COLS) __builtin_prefetch(a + (k + 16) * a_k); /* no hardware sees such strides coming */
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) x[v] = hpt_load(b + k * b_k + v * HPT_LANES);
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++) sum[i][v] += a[i * a_row + k * a_k] * x[v];
  }
}

/* panel[k·wide + lane] = scale · from[lane·lane_stride + k·k_stride], 0 for lanes from `lanes` on: an operand as hpt_tile
 * reads it fastest.  Copies and 4×4 transposes. */
HPT_INLINE void hpt_pack(float *panel, const float *from, int64_t lane_stride, int64_t k_stride, int wide, int lanes, int64_t depth,
                         float scale) {
  int fours = lanes / 4 * 4;
  int64_t k4 = k_stride == 1 && lane_stride != 1 ? depth / 4 * 4 : 0;
  for (int lane = 0; lane < fours; lane += 4)
    for (int64_t k = 0; k < k4; k += 4) {
      const float *at = from + lane * lane_stride + k;
      HptFourAt x0 = *(const HptFourAt *)at * scale, x1 = *(const HptFourAt *)(at + lane_stride) * scale;
      HptFourAt x2 = *(const HptFourAt *)(at + 2 * lane_stride) * scale, x3 = *(const HptFourAt *)(at + 3 * lane_stride) * scale;
      HptFourAt y0 = __builtin_shufflevector(x0, x1, 0, 4, 1, 5), y1 = __builtin_shufflevector(x2, x3, 0, 4, 1, 5);
      HptFourAt y2 = __builtin_shufflevector(x0, x1, 2, 6, 3, 7), y3 = __builtin_shufflevector(x2, x3, 2, 6, 3, 7);
      float *to = panel + k * wide + lane;
      *(HptFourAt *)to = __builtin_shufflevector(y0, y1, 0, 1, 4, 5);
      *(HptFourAt *)(to + wide) = __builtin_shufflevector(y0, y1, 2, 3, 6, 7);
      *(HptFourAt *)(to + 2 * wide) = __builtin_shufflevector(y2, y3, 0, 1, 4, 5);
      *(HptFourAt *)(to + 3 * wide) = __builtin_shufflevector(y2, y3, 2, 3, 6, 7);
    }
  for (int64_t k = 0; k < depth; k++) {
    const float *at = from + k * k_stride;
    float *to = panel + k * wide;
    int lane = k < k4 ? fours : 0;
    if (lane_stride == 1)
      for (; lane + HPT_LANES <= lanes; lane += HPT_LANES) hpt_store(to + lane, hpt_load(at + lane) * scale);
    if (lane_stride == 1)
      for (; lane < fours; lane += 4) *(HptFourAt *)(to + lane) = *(const HptFourAt *)(at + lane) * scale;
    for (; lane < wide; lane++) to[lane] = lane < lanes ? at[lane * lane_stride] * scale : 0;
  }
}
