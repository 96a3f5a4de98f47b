/* SPDX-License-Identifier: Apache-2.0 */
/* c (M,N) = or += a (M,K) · b (K,N): both operands packed into panels, multiplied in tiles of HPT_MM_ROWS × 2 vectors whose sums
 * live in registers (Goto, van de Geijn, "Anatomy of high-performance matrix multiplication", TOMS 2008).
 *
 * Appears once a call; these are defined before it: SYMBOL, M N K, strides A0 A1 B0 B1 C0, the blocking NC KC MC NB: columns
 * of b packed at a time, depth of a block, rows and columns of a task.  All threads pack b, then share the tasks; an element
 * of c is summed by one thread in the order of k, so its bits depend neither on the number of threads nor on the blocking of
 * rows and columns. */
#ifndef HPT_MM_MIN
#define HPT_MM_WIDE ((HPT_ROWS + 3) / 4 * 4) /* lanes of a panel of a */
#define HPT_MM_PASTE(symbol, name) symbol##_##name
#define HPT_MM_NAME(symbol, name) HPT_MM_PASTE(symbol, name)
#define HPT_MM_MIN(x, y) ((x) < (y) ? (x) : (y))
#define HPT_MM_UP(x, y) (((x) + (y)-1) / (y))

/* One tile's sums over kc, then into c, of which only the first cols columns exist. */
HPT_INLINE void hpt_mm_tile(const float *a, const float *b, float *c, int64_t c_row, int64_t kc, int add, int rows, int vectors,
                            int cols) {
  HptVec sum[HPT_ROWS][2];
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++) __builtin_prefetch(c + i * c_row);
  hpt_tile(sum, a, 1, HPT_MM_WIDE, b, HPT_COLS, kc, rows, vectors);
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
      float *at = c + i * c_row + v * HPT_LANES;
      if (cols >= (v + 1) * HPT_LANES)
        hpt_store(at, add ? hpt_load(at) + sum[i][v] : sum[i][v]);
      else
        for (int j = 0; j < cols - v * HPT_LANES; j++) at[j] = add ? at[j] + sum[i][v][j] : sum[i][v][j];
    }
}
#define HPT_MM_TILE(name, rows, vectors, cols)                                                                                     \
  HPT_TILE void name(const float *a, const float *b, float *c, int64_t kc, int add) {                                              \
    hpt_mm_tile(a, b, c, C0, kc, add, rows, vectors, cols);                                                                        \
  }
#endif

/* A tile in the middle, at the lower edge, at the right edge, and in the corner. */
#define HPT_MM_LAST_ROWS ((M - 1) % HPT_ROWS + 1)
#define HPT_MM_LAST_COLS ((N - 1) % HPT_COLS + 1)
#define HPT_MM_LAST_VECTORS HPT_MM_UP(HPT_MM_LAST_COLS, HPT_LANES)
HPT_MM_TILE(HPT_MM_NAME(SYMBOL, tile), HPT_ROWS, 2, HPT_COLS)
HPT_MM_TILE(HPT_MM_NAME(SYMBOL, lower), HPT_MM_LAST_ROWS, 2, HPT_COLS)
HPT_MM_TILE(HPT_MM_NAME(SYMBOL, right), HPT_ROWS, HPT_MM_LAST_VECTORS, HPT_MM_LAST_COLS)
HPT_MM_TILE(HPT_MM_NAME(SYMBOL, corner), HPT_MM_LAST_ROWS, HPT_MM_LAST_VECTORS, HPT_MM_LAST_COLS)

/* Rows [i0,i1) and columns [j0,j1) of c; packed holds columns from jc on, and a has room for the rows' panels of one block. */
static void HPT_MM_NAME(SYMBOL, task)(const BigCall *call, const float *packed, int64_t jc, int64_t i0, int64_t i1, int64_t j0,
                                      int64_t j1, float *a) {
  const float *from = (const float *)call->in[0].at;
  float *c = (float *)call->out[0].at;
  for (int64_t k0 = 0; k0 < K; k0 += KC) {
    int64_t kc = HPT_MM_MIN(KC, K - k0);
    int add = k0 > 0 || call->n[0];
    for (int64_t i = i0; i < i1; i += HPT_ROWS)
      hpt_pack(a + (i - i0) / HPT_ROWS * HPT_MM_WIDE * KC, from + i * A0 + k0 * A1, A0, A1, HPT_MM_WIDE,
               (int)HPT_MM_MIN((int64_t)HPT_ROWS, M - i), kc, 1);
    for (int64_t j = j0; j < j1; j += HPT_COLS) {
      const float *b = packed + (j - jc) * K + k0 * HPT_COLS;
      for (int64_t i = i0; i < i1; i += HPT_ROWS) {
        const float *panel = a + (i - i0) / HPT_ROWS * HPT_MM_WIDE * KC;
        float *at = c + i * C0 + j;
        if (i + HPT_ROWS <= M && j + HPT_COLS <= N) {
          HPT_MM_NAME(SYMBOL, tile)(panel, b, at, kc, add);
        } else if (j + HPT_COLS <= N) {
          HPT_MM_NAME(SYMBOL, lower)(panel, b, at, kc, add);
        } else if (i + HPT_ROWS <= M) {
          HPT_MM_NAME(SYMBOL, right)(panel, b, at, kc, add);
        } else {
          HPT_MM_NAME(SYMBOL, corner)(panel, b, at, kc, add);
        }
      }
    }
  }
}

void SYMBOL(const BigCall *call) {
  const float *b = (const float *)call->in[1].at;
  float *packed = (float *)call->workspace, *panels = packed + (int64_t)K * HPT_MM_UP(NC, HPT_COLS) * HPT_COLS;
#pragma omp parallel num_threads(call->threads)
  for (int64_t jc = 0; jc < N; jc += NC) {
    int64_t nc = HPT_MM_MIN(NC, N - jc);
#pragma omp for collapse(2) schedule(static)
    for (int64_t j = 0; j < HPT_MM_UP(nc, HPT_COLS); j++)
      for (int64_t k = 0; k < HPT_MM_UP(K, KC); k++) {
        int64_t col = jc + j * HPT_COLS;
        hpt_pack(packed + j * HPT_COLS * K + k * KC * HPT_COLS, b + col * B1 + k * KC * B0, B1, B0, HPT_COLS,
                 (int)HPT_MM_MIN((int64_t)HPT_COLS, N - col), HPT_MM_MIN(KC, K - k * KC), 1);
      }
#pragma omp for collapse(2) schedule(dynamic)
    for (int64_t i = 0; i < HPT_MM_UP(M, MC); i++)
      for (int64_t j = 0; j < HPT_MM_UP(nc, NB); j++) HPT_MM_NAME(SYMBOL, task)
    (call, packed, jc, i * MC, HPT_MM_MIN((i + 1) * MC, M), jc + j * NB, jc + HPT_MM_MIN((j + 1) * NB, nc),
     panels + (int64_t)omp_get_thread_num() * HPT_MM_UP(MC, HPT_ROWS) * HPT_MM_WIDE * KC);
  }
}
#undef HPT_MM_LAST_ROWS
#undef HPT_MM_LAST_COLS
#undef HPT_MM_LAST_VECTORS
#undef SYMBOL
#undef M
#undef N
#undef K
#undef A0
#undef A1
#undef B0
#undef B1
#undef C0
#undef NC
#undef KC
#undef MC
#undef NB
