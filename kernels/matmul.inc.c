/* SPDX-License-Identifier: Apache-2.0 */
/* c (M,N) = or += a (M,K) · b (K,N) in tiles of HPT_ROWS × HPT_COLS whose sums live in registers (Goto, van de Geijn,
 * "Anatomy of high-performance matrix multiplication", TOMS 2008).  A tile reads a panel of b from the first-level cache, where
 * it has just been packed, and a's rows as they are: they pass slowly enough to come from farther away, and only strides that
 * crowd into few cache sets make a packed, too.
 *
 * Appears once a call; defined before it: SYMBOL, M N K, strides A0 A1 B0 B1 C0, rows MC and columns NC of a task, depth KC of
 * a block, PACKED (1: a is packed), ROOM (bytes of workspace a thread).  Tasks share nothing; an element of c is summed by one
 * thread in the order of k, so its bits depend neither on the number of threads nor on the blocking of rows and columns. */
#ifndef HPT_MM_MIN
#define HPT_MM_WIDE ((HPT_ROWS + 3) / 4 * 4) /* lanes of a panel of a */
#define HPT_MM_PASTE(symbol, name) symbol##_##name
#define HPT_MM_NAME(symbol, name) HPT_MM_PASTE(symbol, name)
#define HPT_MM_MIN(x, y) ((x) < (y) ? (x) : (y))
#define HPT_MM_UP(x, y) (((x) + (y)-1) / (y))

/* One tile's sums over kc, then into c, of which only the first cols columns exist. */
HPT_INLINE void hpt_mm_tile(const float *a, int64_t a_row, int64_t a_k, const float *b, float *c, int64_t c_row, int64_t kc,
                            int add, int rows, int vectors, int cols) {
  HptVec sum[HPT_ROWS][2];
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) __builtin_prefetch(c + i * c_row + v * HPT_LANES, 1);
  hpt_tile(sum, a, a_row, a_k, b, HPT_COLS, kc, rows, vectors);
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
      float *at = c + i * c_row + v * HPT_LANES;
      if (cols >= (v + 1) * HPT_LANES) {
        hpt_store(at, add ? hpt_load(at) + sum[i][v] : sum[i][v]);
        continue;
      }
      float part[HPT_LANES]; /* through memory: a lane that is chosen at run time would drag all sums there */
      hpt_store(part, sum[i][v]);
      for (int j = 0; j < cols - v * HPT_LANES; j++) at[j] = add ? at[j] + part[j] : part[j];
    }
}
#define HPT_MM_TILE(name, rows, vectors, cols)                                                                                     \
  HPT_TILE void name(const float *a, const float *b, float *c, int64_t kc, int add) {                                              \
    hpt_mm_tile(a, PACKED ? 1 : A0, PACKED ? HPT_MM_WIDE : A1, b, c, C0, kc, add, rows, vectors, cols);                            \
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

/* What a thread works in: a panel of b; the rows' panels of a, where a is packed. */
typedef struct HPT_MM_NAME(SYMBOL, Room) {
  float b[KC * HPT_COLS], a[PACKED * HPT_MM_UP(MC, HPT_ROWS) * HPT_MM_WIDE * KC + 16];
} HPT_MM_NAME(SYMBOL, Room);
_Static_assert(sizeof(HPT_MM_NAME(SYMBOL, Room)) <= ROOM, "the workspace that was planned");

/* Rows [i0,i1) and columns [j0,j1) of c. */
static void HPT_MM_NAME(SYMBOL, task)(const BigCall *call, HPT_MM_NAME(SYMBOL, Room) * room, int64_t i0, int64_t i1, int64_t j0,
                                      int64_t j1) {
  const float *a = (const float *)call->in[0].at, *b = (const float *)call->in[1].at;
  float *c = (float *)call->out[0].at;
  for (int64_t k0 = 0; k0 < K; k0 += KC) {
    int64_t kc = HPT_MM_MIN(KC, K - k0);
    int add = k0 > 0 || call->n[0];
    for (int64_t i = i0; PACKED && i < i1; i += HPT_ROWS)
      hpt_pack(room->a + (i - i0) / HPT_ROWS * HPT_MM_WIDE * KC, a + i * A0 + k0 * A1, A0, A1, HPT_MM_WIDE,
               (int)HPT_MM_MIN((int64_t)HPT_ROWS, M - i), kc, 1);
    for (int64_t j = j0; j < j1; j += HPT_COLS) {
      hpt_pack(room->b, b + j * B1 + k0 * B0, B1, B0, HPT_COLS, (int)HPT_MM_MIN((int64_t)HPT_COLS, N - j), kc, 1);
      /* The panel of b to be packed next is asked for meanwhile, some of its rows with each tile. */
      const float *next = b + (j + HPT_COLS < j1 ? (j + HPT_COLS) * B1 + k0 * B0 : j0 * B1 + (k0 + kc) * B0);
      int64_t ahead = 0, step = (kc * HPT_ROWS + i1 - i0 - 1) / (i1 - i0);
      for (int64_t i = i0; i < i1; i += HPT_ROWS) {
        for (int64_t k = 0; B1 == 1 && k < step && ahead < kc; k++, ahead++)
          for (int lane = 0; lane < HPT_COLS; lane += 16) __builtin_prefetch(next + ahead * B0 + lane);
        const float *panel = PACKED ? room->a + (i - i0) / HPT_ROWS * HPT_MM_WIDE * KC : a + i * A0 + k0 * A1;
        float *at = c + i * C0 + j;
        int low = M % HPT_ROWS && i + HPT_ROWS > M, right = N % HPT_COLS && j + HPT_COLS > N; /* 0 where there is no edge */
        if (low && right)
          HPT_MM_NAME(SYMBOL, corner)(panel, room->b, at, kc, add);
        else if (low)
          HPT_MM_NAME(SYMBOL, lower)(panel, room->b, at, kc, add);
        else if (right)
          HPT_MM_NAME(SYMBOL, right)(panel, room->b, at, kc, add);
        else
          HPT_MM_NAME(SYMBOL, tile)(panel, room->b, at, kc, add);
      }
    }
  }
}

void SYMBOL(const BigCall *call) {
#pragma omp parallel for collapse(2) schedule(static) num_threads(call->threads)
  for (int64_t i = 0; i < HPT_MM_UP(M, MC); i++)
    for (int64_t j = 0; j < HPT_MM_UP(N, NC); j++) {
      char *room = (char *)call->workspace + omp_get_thread_num() * ROOM;
      HPT_MM_NAME(SYMBOL, task)
      (call, (HPT_MM_NAME(SYMBOL, Room) *)room, i * MC, HPT_MM_MIN((i + 1) * MC, M), j * NC, HPT_MM_MIN((j + 1) * NC, N));
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
#undef MC
#undef NC
#undef KC
#undef PACKED
#undef ROOM
