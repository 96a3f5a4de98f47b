/* SPDX-License-Identifier: Apache-2.0 */
/* What precedes every generated CUDA translation unit, which includes no header.  The elementary functions are CUDA's own:
 * within 2 ulp of the exact value over the whole range, denormals included. */
typedef unsigned char uint8_t;
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

/* Of the two forms of 1 / (1 + exp(-x)) the one whose exponential cannot overflow. */
HPT_INLINE float hpt_sigmoid(float x) {
  float e = expf(-fabsf(x));
  return (x < 0 ? e : 1.0f) / (1.0f + e);
}

/* The larger one; NaN if either is. */
HPT_INLINE float hpt_larger(float a, float b) { return a > b || a != a ? a : b; }
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
