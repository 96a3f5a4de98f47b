/* SPDX-License-Identifier: Apache-2.0 */
/* Products in groups of rows that are known when they run: grouped and grouped_grad of big.h, in blocks like matmul.inc.c's.  Both
 * operands are packed, padded with zeros to whole tiles, so that one tile serves all sizes; at the edges its sums go by way of a
 * tile of their own.  Blocks share nothing, and an element is summed by one thread in the order of k: its bits depend neither on
 * the number of threads nor on who takes which block.
 *
 * Appears once a call; defined before it: SYMBOL, RUN (hpt_grouped or hpt_grouped_grad), ROOM (bytes of workspace a thread), and
 * the sizes GR_ROWS, GR_COLS, GR_DEPTH of a block. */
#ifndef HPT_GR_WIDE
#define HPT_GR_WIDE ((HPT_ROWS + 3) / 4 * 4) /* lanes of a panel of a */
#define HPT_GR_MIN(x, y) ((x) < (y) ? (x) : (y))
#define HPT_GR_UP(x, y) (((x) + (y)-1) / (y))

typedef struct HptGroupedRoom {
  float a[GR_ROWS / HPT_ROWS * HPT_GR_WIDE * GR_DEPTH + 16], b[GR_DEPTH * HPT_COLS], edge[HPT_ROWS * HPT_COLS];
} HptGroupedRoom;
_Static_assert(sizeof(HptGroupedRoom) <= ROOM, "the workspace that was planned");

/* c (rows,cols) = or += a (rows,depth) · b (depth,cols); at most GR_ROWS × GR_COLS.  Strides in elements; c's second is 1. */
typedef struct HptGroupedBlock {
  const float *a, *b;
  float *c;
  int64_t a_row, a_k, b_k, b_col, c_row, rows, cols, depth;
  int add;
} HptGroupedBlock;

HPT_TILE void hpt_gr_tile(const float *a, const float *b, float *c, int64_t c_row, int64_t depth, int add) {
  HptVec sum[HPT_ROWS][2];
  hpt_tile(sum, a, 1, HPT_GR_WIDE, b, HPT_COLS, depth, HPT_ROWS, 2);
#pragma GCC unroll 16
  for (int i = 0; i < HPT_ROWS; i++)
#pragma GCC unroll 2
    for (int v = 0; v < 2; v++) {
      float *at = c + i * c_row + v * HPT_LANES;
      hpt_store(at, add ? hpt_load(at) + sum[i][v] : sum[i][v]);
    }
}

static void hpt_gr_edge(const float *edge, float *c, int64_t c_row, int64_t rows, int64_t cols, int add) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++) c[i * c_row + j] = add ? c[i * c_row + j] + edge[i * HPT_COLS + j] : edge[i * HPT_COLS + j];
}

static void hpt_gr_zero(const HptGroupedBlock *s) {
  for (int64_t i = 0; i < s->rows; i++) memset(s->c + i * s->c_row, 0, sizeof(float) * (size_t)s->cols);
}

static void hpt_gr_block(const HptGroupedBlock *s, HptGroupedRoom *room) {
  if (s->depth == 0 && !s->add) hpt_gr_zero(s);
  for (int64_t k0 = 0; k0 < s->depth; k0 += GR_DEPTH) {
    int64_t depth = HPT_GR_MIN((int64_t)GR_DEPTH, s->depth - k0);
    int add = k0 > 0 || s->add;
    for (int64_t i = 0; i < s->rows; i += HPT_ROWS)
      hpt_pack(room->a + i / HPT_ROWS * HPT_GR_WIDE * GR_DEPTH, s->a + i * s->a_row + k0 * s->a_k, s->a_row, s->a_k, HPT_GR_WIDE,
               (int)HPT_GR_MIN((int64_t)HPT_ROWS, s->rows - i), depth, 1);
    for (int64_t j = 0; j < s->cols; j += HPT_COLS) {
      int64_t cols = HPT_GR_MIN((int64_t)HPT_COLS, s->cols - j);
      hpt_pack(room->b, s->b + j * s->b_col + k0 * s->b_k, s->b_col, s->b_k, HPT_COLS, (int)cols, depth, 1);
      for (int64_t i = 0; i < s->rows; i += HPT_ROWS) {
        const float *panel = room->a + i / HPT_ROWS * HPT_GR_WIDE * GR_DEPTH;
        float *c = s->c + i * s->c_row + j;
        if (cols == HPT_COLS && i + HPT_ROWS <= s->rows) {
          hpt_gr_tile(panel, room->b, c, s->c_row, depth, add);
          continue;
        }
        hpt_gr_tile(panel, room->b, room->edge, HPT_COLS, depth, 0);
        hpt_gr_edge(room->edge, c, s->c_row, HPT_GR_MIN((int64_t)HPT_ROWS, s->rows - i), cols, add);
      }
    }
  }
}

static HptGroupedRoom *hpt_gr_room(const BigCall *call) {
  return (HptGroupedRoom *)((char *)call->workspace + omp_get_thread_num() * (int64_t)ROOM);
}

/* Block number i of all experts': whose rows it is of, from where; their number is known once they are counted. */
static int64_t hpt_gr_blocks(const int32_t *offsets, int64_t E, int64_t i, int64_t *expert, int64_t *first) {
  int64_t n = 0;
  for (int64_t e = 0; e < E; e++) {
    int64_t blocks = HPT_GR_UP((int64_t)offsets[e + 1] - offsets[e], (int64_t)GR_ROWS);
    if (i >= n && i < n + blocks) {
      *expert = e;
      *first = offsets[e] + (i - n) * GR_ROWS;
    }
    n += blocks;
  }
  return n;
}

HPT_INLINE void hpt_grouped(const BigCall *call) {
  const BigView *x = &call->in[0], *w = &call->in[1], *out = &call->out[0];
  const int32_t *offsets = (const int32_t *)call->in[2].at;
  int64_t E = call->in[2].dim[0] - 1, N = out->dim[1], none, blocks = hpt_gr_blocks(offsets, E, -1, &none, &none);
#pragma omp parallel for collapse(2) schedule(dynamic) num_threads(call->threads)
  for (int64_t i = 0; i < blocks; i++)
    for (int64_t j = 0; j < HPT_GR_UP(N, GR_COLS); j++) {
      int64_t e = 0, first = 0, k = call->n[1] ? w->stride[0] : 1, col = call->n[1] ? 1 : w->stride[0];
      hpt_gr_blocks(offsets, E, i, &e, &first);
      HptGroupedBlock block = {.a = (const float *)x->at + first * x->stride[0],
                               .b = (const float *)w->at + e * (w->dim[0] / E) * w->stride[0] + j * GR_COLS * col,
                               .c = (float *)out->at + first * out->stride[0] + j * GR_COLS,
                               .a_row = x->stride[0],
                               .a_k = 1,
                               .b_k = k,
                               .b_col = col,
                               .c_row = out->stride[0],
                               .rows = HPT_GR_MIN((int64_t)GR_ROWS, offsets[e + 1] - first),
                               .cols = HPT_GR_MIN((int64_t)GR_COLS, N - j * GR_COLS),
                               .depth = x->dim[1]};
      hpt_gr_block(&block, hpt_gr_room(call));
    }
}

HPT_INLINE void hpt_grouped_grad(const BigCall *call) {
  const BigView *a = &call->in[0], *b = &call->in[1], *out = &call->out[0];
  const int32_t *offsets = (const int32_t *)call->in[2].at;
  int64_t E = call->in[2].dim[0] - 1, M = a->dim[1], N = out->dim[1];
#pragma omp parallel for collapse(3) schedule(dynamic) num_threads(call->threads)
  for (int64_t e = 0; e < E; e++)
    for (int64_t i = 0; i < HPT_GR_UP(M, GR_ROWS); i++)
      for (int64_t j = 0; j < HPT_GR_UP(N, GR_COLS); j++) {
        HptGroupedBlock block = {.a = (const float *)a->at + offsets[e] * a->stride[0] + i * GR_ROWS,
                                 .b = (const float *)b->at + offsets[e] * b->stride[0] + j * GR_COLS,
                                 .c = (float *)out->at + (e * M + i * GR_ROWS) * out->stride[0] + j * GR_COLS,
                                 .a_row = 1,
                                 .a_k = a->stride[0],
                                 .b_k = b->stride[0],
                                 .b_col = 1,
                                 .c_row = out->stride[0],
                                 .rows = HPT_GR_MIN((int64_t)GR_ROWS, M - i * GR_ROWS),
                                 .cols = HPT_GR_MIN((int64_t)GR_COLS, N - j * GR_COLS),
                                 .depth = offsets[e + 1] - offsets[e],
                                 .add = call->n[0] != 0};
        hpt_gr_block(&block, hpt_gr_room(call));
      }
}
#endif

void SYMBOL(const BigCall *call) { RUN(call); }
#undef SYMBOL
#undef RUN
#undef ROOM
#undef GR_ROWS
#undef GR_COLS
#undef GR_DEPTH
