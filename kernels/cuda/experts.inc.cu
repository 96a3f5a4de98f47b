/* SPDX-License-Identifier: Apache-2.0 */
/* Mixtures of experts: routing, rows by a permutation, and products in groups of rows, as plainly as plain.inc.cu, behind which
 * this is compiled; then the same products by tensor cores. */

/* A thread a row: the k best in order, each score moving up past those that it beats; at most ROUTE_CHOICES, which
 * gpu_plain_text says. */
extern "C" __global__ void plain_route(View scores, View out, Numbers numbers) {
  long long t = (long long)blockIdx.x * blockDim.x + threadIdx.x, k = numbers.m;
  int *expert = (int *)out.at + t * k, kept[ROUTE_CHOICES], n = 0;
  float best[ROUTE_CHOICES], least = __uint_as_float(0xff800000); /* -inf */
  if (t >= scores.dim[0]) return;
  for (int e = 0; e < scores.dim[1]; e++) {
    float score = get(scores, place(scores, t, e));
    if (score != score) score = least;
    int at = n;
    while (at > 0 && score > best[at - 1]) at--;
    if (at == k) continue;
    if (n < k) n++;
    for (int j = n - 1; j > at; j--) best[j] = best[j - 1], kept[j] = kept[j - 1];
    best[at] = score;
    kept[at] = e;
  }
  for (int j = 0; j < k; j++) expert[j] = kept[j];
}

/* A block an expert, which knows its first place by counting all that come before: pairs of experts below its own; then it hands
 * out places to its own, as many pairs at a time as there are threads, in their order. */
extern "C" __global__ void plain_route_sort(View scores, View out, Numbers numbers) {
  __shared__ int counts[THREADS];
  int T = (int)scores.dim[0], E = (int)scores.dim[1], pairs = T * (int)numbers.m, self = blockIdx.x, before = 0;
  int *expert = (int *)out.at, *order = expert + pairs, *inverse = order + pairs, *offsets = inverse + pairs;
  for (int p = threadIdx.x; p < pairs; p += THREADS) before += expert[p] < self;
  counts[threadIdx.x] = before;
  __syncthreads();
  int next = 0;
  for (int i = 0; i < THREADS; i++) next += counts[i];
  if (threadIdx.x == 0) offsets[self] = next;
  if (threadIdx.x == 0 && self == 0) offsets[E] = pairs;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int tile = 0; tile < pairs; tile += THREADS) {
    int p = tile + threadIdx.x;
    bool mine = p < pairs && expert[p] == self;
    unsigned votes = __ballot_sync(0xffffffff, mine);
    __syncthreads();
    if (lane == 0) counts[warp] = __popc(votes);
    __syncthreads();
    int at = next + __popc(votes & ((1u << lane) - 1));
    for (int w = 0; w < THREADS / 32; w++) {
      if (w < warp) at += counts[w];
      next += counts[w];
    }
    if (!mine) continue;
    order[at] = p;
    inverse[p] = at;
  }
}

/* A block a row; 16 bytes a thread where both rows begin at multiples of that. */
extern "C" __global__ void plain_take(View x, View index, View inverse, View out, Numbers numbers) {
  int size = x.type == F32 ? 4 : 2;
  long long row = blockIdx.x, from = whole(index, row) / (int)numbers.m, n = out.dim[1] * size;
  const char *source = (const char *)x.at + from * x.stride[0] * size;
  char *to = (char *)out.at + row * out.stride[0] * size;
  bool wide = (((unsigned long long)source | (unsigned long long)to | (unsigned long long)n) & 15) == 0;
  for (long long i = threadIdx.x * 16; wide && i < n; i += THREADS * 16) *(uint4 *)(to + i) = *(const uint4 *)(source + i);
  for (long long i = threadIdx.x * 2; !wide && i < n; i += THREADS * 2)
    *(unsigned short *)(to + i) = *(const unsigned short *)(source + i);
}

/* A thread an element of out. */
extern "C" __global__ void plain_grouped(View x, View w, View offsets, View out, Numbers numbers) {
  long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x, r = e / out.dim[1], n = e % out.dim[1];
  long long experts = offsets.dim[0] - 1, each = w.dim[0] / experts, expert = 0;
  if (r >= out.dim[0]) return;
  while (whole(offsets, expert + 1) <= r) expert++;
  float sum = 0;
  for (long long k = 0; k < x.dim[1]; k++)
    sum += get(x, place(x, r, k)) * get(w, numbers.m ? place(w, expert * each + k, n) : place(w, expert * each + n, k));
  put(out, place(out, r, n), sum);
}

/* A thread an element of out. */
extern "C" __global__ void plain_grouped_grad(View a, View b, View offsets, View out, Numbers numbers) {
  long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x, row = e / out.dim[1], n = e % out.dim[1];
  long long M = a.dim[1], expert = row / M, m = row % M;
  if (row >= out.dim[0]) return;
  long long p = place(out, row, n);
  float sum = numbers.n ? get(out, p) : 0;
  for (long long r = whole(offsets, expert); r < whole(offsets, expert + 1); r++)
    sum += get(a, place(a, r, m)) * get(b, place(b, r, n));
  put(out, p, sum);
}

/* --- products by tensor cores ----------------------------------------------------------------------------------------------
 *
 * A block of 8 warps makes 128 × 128 of c (rows,cols) = or += A (rows,depth) · B (depth,cols), operands of 16 bits, sums in
 * float32. Tiles of 32 of the depth travel to shared memory one ahead, zeros in place of what is not there.  An operand lies with
 * its depth contiguous (DEEP) or with its rows or columns contiguous; ldmatrix turns the latter.  Leading dimensions and contiguous
 * extents are multiples of 8, addresses of 16 bytes: the host has looked.  Rows of shared memory are padded so that the 8 that
 * ldmatrix reads at a time lie in different banks. */

enum { TILE = 128, TILE_DEPTH = 32, MMA_THREADS = 256, DEEP_ROW = 40, FLAT_ROW = 136, STAGE = 5120 };

struct Operand16 {
  const unsigned short *at;
  long long lead; /* elements from row to row of memory */
  bool deep;
};

struct Block16 {
  Operand16 a, b;
  long long row, col, rows, cols, depth; /* the block's first row and column of so many */
};

/* 16 bytes to shared memory, or zeros. */
static __device__ void copy16(void *to, const void *from, bool there) {
  unsigned at = (unsigned)__cvta_generic_to_shared(to);
  int n = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(n));
}

/* 128 rows (or columns) from first of `extent`, 32 of the depth from k on. */
static __device__ void load_tile(unsigned short *to, const Operand16 &x, long long first, long long extent, long long k,
                                 long long depth) {
  for (int c = threadIdx.x; c < TILE * TILE_DEPTH / 8; c += MMA_THREADS) {
    int chunks = x.deep ? TILE_DEPTH / 8 : TILE / 8, line = c / chunks, part = c % chunks * 8;
    long long outer = x.deep ? first + line : k + line, inner = x.deep ? k + part : first + part;
    bool there = outer < (x.deep ? extent : depth) && inner < (x.deep ? depth : extent);
    copy16(to + line * (x.deep ? DEEP_ROW : FLAT_ROW) + part, there ? x.at + outer * x.lead + inner : x.at, there);
  }
}

/* Four 8 × 8 matrices of the tile: rows from m on, and from m + 8; depth from k on, and from k + 8.  depth_first: these two come
 * side by side, else the rows' two do. */
static __device__ void load_fragment(unsigned r[4], const unsigned short *tile, bool deep, int m, int k, bool depth_first) {
  int lane = threadIdx.x % 32, line = lane % 8, low = lane / 8 % 2 * 8, high = lane / 16 * 8;
  int row = m + (depth_first ? high : low), at = k + (depth_first ? low : high);
  const unsigned short *from = deep ? tile + (row + line) * DEEP_ROW + at : tile + (at + line) * FLAT_ROW + row;
  unsigned address = (unsigned)__cvta_generic_to_shared(from);
  if (deep)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}

template <int TYPE> static __device__ void multiply(float c[4], const unsigned a[4], const unsigned b[2]) {
  if (TYPE == BF16)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* A warp's 64 × 32 of the product of two tiles. */
template <int TYPE>
static __device__ void multiply_tiles(float sum[4][4][4], const unsigned short *a, bool a_deep, const unsigned short *b,
                                      bool b_deep) {
  int warp = threadIdx.x / 32, m = warp % 2 * 64, n = warp / 2 * 32;
  for (int k = 0; k < TILE_DEPTH; k += 16) {
    unsigned fa[4][4], fb[2][4];
#pragma unroll
    for (int i = 0; i < 4; i++) load_fragment(fa[i], a, a_deep, m + 16 * i, k, false);
#pragma unroll
    for (int j = 0; j < 2; j++) load_fragment(fb[j], b, b_deep, n + 16 * j, k, true);
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) multiply<TYPE>(sum[i][j], fa[i], fb[j / 2] + j % 2 * 2);
  }
}

/* first: the row of c where the block's rows begin to count. */
template <int TYPE> static __device__ void make_block(const Block16 &s, const View &c, long long first, bool add) {
  __shared__ __align__(16) unsigned short tiles[2][2][STAGE];
  float sum[4][4][4] = {};
  int steps = (int)((s.depth + TILE_DEPTH - 1) / TILE_DEPTH);
  for (int t = 0; t <= steps; t++) {
    if (t < steps) {
      load_tile(tiles[t % 2][0], s.a, s.row, s.rows, (long long)t * TILE_DEPTH, s.depth);
      load_tile(tiles[t % 2][1], s.b, s.col, s.cols, (long long)t * TILE_DEPTH, s.depth);
    }
    asm volatile("cp.async.commit_group;");
    if (t == 0) continue;
    asm volatile("cp.async.wait_group 1;");
    __syncthreads();
    multiply_tiles<TYPE>(sum, tiles[(t - 1) % 2][0], s.a.deep, tiles[(t - 1) % 2][1], s.b.deep);
    __syncthreads();
  }
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        long long row = s.row + warp % 2 * 64 + i * 16 + lane / 4 + e / 2 * 8,
                  col = s.col + warp / 2 * 32 + j * 8 + lane % 4 * 2 + e % 2;
        if (row >= s.rows || col >= s.cols) continue;
        long long p = place(c, first + row, col);
        put(c, p, add ? get(c, p) + sum[i][j][e] : sum[i][j][e]);
      }
}

/* blockIdx.x counts blocks of rows, expert by expert; there are more of them than can be needed. */
template <int TYPE, bool PLAIN> static __device__ void grouped(const View &x, const View &w, const View &offsets, const View &out) {
  int experts = (int)offsets.dim[0] - 1, expert = 0, block = blockIdx.x;
  for (; expert < experts; expert++) {
    int blocks = (whole(offsets, expert + 1) - whole(offsets, expert) + TILE - 1) / TILE;
    if (block < blocks) break;
    block -= blocks;
  }
  if (expert == experts) return;
  long long first = whole(offsets, expert), each = w.dim[0] / experts * w.stride[0];
  Block16 s = {{(const unsigned short *)x.at + first * x.stride[0], x.stride[0], true},
               {(const unsigned short *)w.at + expert * each, w.stride[0], !PLAIN},
               (long long)block * TILE,
               (long long)blockIdx.y * TILE,
               whole(offsets, expert + 1) - first,
               out.dim[1],
               x.dim[1]};
  make_block<TYPE>(s, out, first, false);
}

/* blockIdx: columns, rows, expert. */
template <int TYPE>
static __device__ void grouped_grad(const View &a, const View &b, const View &offsets, const View &out, bool add) {
  long long first = whole(offsets, blockIdx.z), M = a.dim[1];
  Block16 s = {{(const unsigned short *)a.at + first * a.stride[0], a.stride[0], false},
               {(const unsigned short *)b.at + first * b.stride[0], b.stride[0], false},
               (long long)blockIdx.y * TILE,
               (long long)blockIdx.x * TILE,
               M,
               out.dim[1],
               whole(offsets, blockIdx.z + 1) - first};
  make_block<TYPE>(s, out, blockIdx.z * M, add);
}

#define GROUPED(NAME, TYPE)                                                                                                        \
  extern "C" __global__ void __launch_bounds__(MMA_THREADS)                                                                        \
      mma_grouped_##NAME(View x, View w, View offsets, View out, Numbers numbers) {                                                \
    if (numbers.m)                                                                                                                 \
      grouped<TYPE, true>(x, w, offsets, out);                                                                                     \
    else                                                                                                                           \
      grouped<TYPE, false>(x, w, offsets, out);                                                                                    \
  }                                                                                                                                \
  extern "C" __global__ void __launch_bounds__(MMA_THREADS)                                                                        \
      mma_grouped_grad_##NAME(View a, View b, View offsets, View out, Numbers numbers) {                                           \
    grouped_grad<TYPE>(a, b, offsets, out, numbers.n != 0);                                                                        \
  }
GROUPED(bf16, BF16)
GROUPED(f16, F16)
