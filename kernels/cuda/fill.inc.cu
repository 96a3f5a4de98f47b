/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA C++, compiled by NVRTC; includes nothing.  The numbers of src/base/rng.c, where they are kept: Philox4x32-10, then
 * Box-Muller in double.  log, sin and cos are the one difference, by the last bit of a double at most. */

struct Fill {
  unsigned key[2];
  unsigned long long step, element;
  double std;
  float constant;
  int normal;
};

static __device__ void philox(const Fill &f, unsigned long long block, unsigned c[4]) {
  unsigned k0 = f.key[0], k1 = f.key[1];
  c[0] = (unsigned)block, c[1] = (unsigned)(block >> 32), c[2] = (unsigned)f.step, c[3] = (unsigned)(f.step >> 32);
  for (int round = 0; round < 10; round++) {
    unsigned high0 = __umulhi(0xD2511F53u, c[0]), low0 = 0xD2511F53u * c[0];
    unsigned high1 = __umulhi(0xCD9E8D57u, c[2]), low1 = 0xCD9E8D57u * c[2];
    c[0] = high1 ^ c[1] ^ k0, c[1] = low1, c[2] = high0 ^ c[3] ^ k1, c[3] = low0;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
}

/* A thread makes four elements, those of one block of words, and returns the number of the first; the first and the last may
 * stand out of the n that are wanted. */
static __device__ long long make(const Fill &f, float value[4]) {
  unsigned long long block = f.element / 4 + (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = 0; i < 4; i++) value[i] = f.constant;
  if (f.normal) {
    unsigned w[4];
    philox(f, block, w);
    for (int i = 0; i < 4; i += 2) {
      double u = ((double)w[i] + 1) * 0x1p-32, angle = 2 * 3.14159265358979323846 * 0x1p-32 * w[i + 1], sine, cosine;
      double radius = sqrt(-2 * log(u));
      sincos(angle, &sine, &cosine);
      value[i] = (float)(f.std * (radius * cosine));
      value[i + 1] = (float)(f.std * (radius * sine));
    }
  }
  return (long long)(block * 4 - f.element);
}

extern "C" __global__ void fill(float *at, void *, long long n, Fill f) {
  float value[4];
  long long first = make(f, value);
  if (first >= 0 && first + 4 <= n && (unsigned long long)(at + first) % 16 == 0)
    *(float4 *)(at + first) = make_float4(value[0], value[1], value[2], value[3]);
  else
    for (int i = 0; i < 4; i++)
      if (first + i >= 0 && first + i < n) at[first + i] = value[i];
}

extern "C" __global__ void fill_halves(unsigned short *upper, short *lower, long long n, Fill f) {
  float value[4];
  long long first = make(f, value);
  for (int i = 0; i < 4; i++) {
    if (first + i < 0 || first + i >= n) continue;
    unsigned bits = __float_as_uint(value[i]), half = (bits + 0x8000) >> 16;
    upper[first + i] = (unsigned short)half;
    if (lower) lower[first + i] = (short)(bits - (half << 16));
  }
}
