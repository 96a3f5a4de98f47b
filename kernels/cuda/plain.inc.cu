/* SPDX-License-Identifier: Apache-2.0 */
/* Every big op in the plainest CUDA that finishes: any strides and types, sums in float32 in a fixed order, no atomics.  The
 * judge of the fast rows, and the row that is left when none of them applies.  Compiled by NVRTC; includes nothing.  View
 * and Numbers are laid out as BigView and PlainNumbers of plain.c. */

enum { F32, BF16, F16, I32 };

struct View {
  void *at;
  long long dim[5], stride[5];
  int rank, type;
};

struct Numbers {
  long long n, m;
  float f;
};

static __device__ long long place(const View &v, long long i, long long j, long long k = 0, long long l = 0) {
  return i * v.stride[0] + j * v.stride[1] + k * v.stride[2] + l * v.stride[3];
}

static __device__ float get(const View &v, long long p) {
  if (v.type == F32) return ((const float *)v.at)[p];
  unsigned short bits = ((const unsigned short *)v.at)[p];
  if (v.type == BF16) return __uint_as_float((unsigned)bits << 16);
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}

static __device__ void put(const View &v, long long p, float x) {
  unsigned short bits;
  if (v.type == F32) {
    ((float *)v.at)[p] = x;
    return;
  }
  if (v.type == BF16) {
    unsigned u = __float_as_uint(x); /* to nearest even; a NaN stays one */
    bits = x == x ? (unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16) : 0x7fff;
  } else
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  ((unsigned short *)v.at)[p] = bits;
}

static __device__ int whole(const View &v, long long i) { return ((const int *)v.at)[i]; }

/* One thread an element of c. */
extern "C" __global__ void plain_matmul(View a, View b, View bias, View c, Numbers numbers) {
  long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x, i = e / c.dim[1], j = e % c.dim[1];
  if (i >= c.dim[0]) return;
  float sum = 0;
  for (long long k = 0; k < a.dim[1]; k++) sum += get(a, place(a, i, k)) * get(b, place(b, k, j));
  long long p = place(c, i, j);
  if (numbers.n) sum += get(c, p);
  put(c, p, bias.rank ? sum + get(bias, place(bias, j, 0)) : sum);
}

/* Attention: blocks of THREADS threads, keys (or queries) a tile of THREADS at a time. */
enum { THREADS = 128 };

/* The first key that query i of sequence b sees. */
static __device__ long long first_key(const View &start, long long b, long long i, long long window) {
  long long first = start.rank ? whole(start, place(start, b, i)) : 0, edge = window ? i - window + 1 : 0;
  return first > edge ? first : edge;
}

static __device__ float dot(const View &x, long long p, const View &y, long long q, long long n) {
  float sum = 0;
  for (long long d = 0; d < n; d++) sum += get(x, p + d * x.stride[3]) * get(y, q + d * y.stride[3]);
  return sum;
}

/* The sum, or the largest, of one number a thread; every thread gets it. */
static __device__ float over_block(float x, bool largest) {
  __shared__ float all[THREADS];
  all[threadIdx.x] = x;
  __syncthreads();
  float y = all[0];
  for (int t = 1; t < THREADS; t++) y = largest ? fmaxf(y, all[t]) : y + all[t];
  __syncthreads();
  return y;
}

/* A block a query: the log of the sum, then the weighted values, a thread a column. */
extern "C" __global__ void plain_attention(View q, View k, View v, View start, View o, View lse, Numbers numbers) {
  __shared__ float p[THREADS];
  long long i = blockIdx.x, h = blockIdx.y, b = blockIdx.z, g = h / (q.dim[2] / k.dim[2]), D = q.dim[3];
  long long first = first_key(start, b, i, numbers.n), query = place(q, b, i, h);
  float top = __uint_as_float(0xff800000), sum = 0; /* -inf */
  for (long long j = first + threadIdx.x; j <= i; j += THREADS)
    top = fmaxf(top, numbers.f * dot(q, query, k, place(k, b, j, g), D));
  top = over_block(top, true);
  for (long long j = first + threadIdx.x; j <= i; j += THREADS)
    sum += expf(numbers.f * dot(q, query, k, place(k, b, j, g), D) - top);
  float l = top + logf(over_block(sum, false));
  if (threadIdx.x == 0) put(lse, place(lse, b, h, i), l);
  for (long long d0 = 0; d0 < D; d0 += THREADS) {
    long long d = d0 + threadIdx.x;
    float y = 0;
    for (long long tile = first; tile <= i; tile += THREADS) {
      long long j = tile + threadIdx.x;
      p[threadIdx.x] = j <= i ? expf(numbers.f * dot(q, query, k, place(k, b, j, g), D) - l) : 0;
      __syncthreads();
      for (long long t = 0; d < D && t < THREADS && tile + t <= i; t++) y += p[t] * get(v, place(v, b, tile + t, g, d));
      __syncthreads();
    }
    if (d < D) put(o, place(o, b, i, h, d), y);
  }
}

/* The operands of attention's gradient, in the order of the call. */
struct Grad {
  View dout, q, k, v, o, lse, start, dq, dk, dv;
};

/* p and ds of query i and key j, by plain_attention's formulas; 0 when i does not see j. */
static __device__ void weights(const Grad &a, Numbers numbers, long long b, long long h, long long g, long long i, long long j,
                               float *p, float *ds) {
  long long D = a.q.dim[3], dout = place(a.dout, b, i, h);
  *p = *ds = 0;
  if (i >= a.q.dim[1] || j > i || j < first_key(a.start, b, i, numbers.n)) return;
  float delta = dot(a.dout, dout, a.o, place(a.o, b, i, h), D), dp = dot(a.dout, dout, a.v, place(a.v, b, j, g), D);
  *p = expf(numbers.f * dot(a.q, place(a.q, b, i, h), a.k, place(a.k, b, j, g), D) - get(a.lse, place(a.lse, b, h, i)));
  *ds = *p * (dp - delta) * numbers.f;
}

/* A block a query. */
extern "C" __global__ void plain_attention_dq(Grad a, Numbers numbers) {
  __shared__ float ds[THREADS];
  long long i = blockIdx.x, h = blockIdx.y, b = blockIdx.z, g = h / (a.q.dim[2] / a.k.dim[2]), D = a.q.dim[3];
  for (long long d0 = 0; d0 < D; d0 += THREADS) {
    long long d = d0 + threadIdx.x;
    float y = 0, p;
    for (long long tile = first_key(a.start, b, i, numbers.n); tile <= i; tile += THREADS) {
      weights(a, numbers, b, h, g, i, tile + threadIdx.x, &p, &ds[threadIdx.x]);
      __syncthreads();
      for (long long t = 0; d < D && t < THREADS && tile + t <= i; t++) y += ds[t] * get(a.k, place(a.k, b, tile + t, g, d));
      __syncthreads();
    }
    if (d < D) put(a.dq, place(a.dq, b, i, h, d), y);
  }
}

/* A block a key: over the group's heads, over the queries from the key on. */
extern "C" __global__ void plain_attention_dkv(Grad a, Numbers numbers) {
  __shared__ float p[THREADS], ds[THREADS];
  long long j = blockIdx.x, g = blockIdx.y, b = blockIdx.z, S = a.q.dim[1], D = a.q.dim[3], heads = a.q.dim[2] / a.k.dim[2];
  for (long long d0 = 0; d0 < D; d0 += THREADS) {
    long long d = d0 + threadIdx.x;
    float dk = 0, dv = 0;
    for (long long h = g * heads; h < (g + 1) * heads; h++)
      for (long long tile = j; tile < S; tile += THREADS) {
        weights(a, numbers, b, h, g, tile + threadIdx.x, j, &p[threadIdx.x], &ds[threadIdx.x]);
        __syncthreads();
        for (long long t = 0; d < D && t < THREADS && tile + t < S; t++) {
          dk += ds[t] * get(a.q, place(a.q, b, tile + t, h, d));
          dv += p[t] * get(a.dout, place(a.dout, b, tile + t, h, d));
        }
        __syncthreads();
      }
    if (d < D) {
      put(a.dk, place(a.dk, b, j, g, d), dk);
      put(a.dv, place(a.dv, b, j, g, d), dv);
    }
  }
}

/* A thread an element of out. */
extern "C" __global__ void plain_embedding(View table, View ids, View out) {
  long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x, t = e / out.dim[1], c = e % out.dim[1];
  if (t < out.dim[0]) put(out, place(out, t, c), get(table, place(table, whole(ids, t * ids.stride[0]), c)));
}

static __device__ long long id_at(const View &ids, const View &order, long long n) {
  return whole(ids, whole(order, n * order.stride[0]) * ids.stride[0]);
}

/* A block a row of dtable, which sums its own tokens in the order that sorts the ids. */
extern "C" __global__ void plain_embedding_grad(View dout, View ids, View order, View dtable, Numbers numbers) {
  long long row = blockIdx.x, T = dout.dim[0], lo = 0, hi = T;
  while (lo < hi) {
    long long mid = lo + (hi - lo) / 2;
    if (id_at(ids, order, mid) < row)
      lo = mid + 1;
    else
      hi = mid;
  }
  for (long long c = threadIdx.x; c < dtable.dim[1]; c += blockDim.x) {
    long long p = place(dtable, row, c);
    float sum = numbers.n ? get(dtable, p) : 0;
    for (long long n = lo; n < T && id_at(ids, order, n) == row; n++)
      sum += get(dout, place(dout, whole(order, n * order.stride[0]), c));
    put(dtable, p, sum);
  }
}
