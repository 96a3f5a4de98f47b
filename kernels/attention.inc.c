/* SPDX-License-Identifier: Apache-2.0 */
/* Attention forward: softmax on the fly over blocks of keys (Milakov, Gimelshein 2018; Dao et al., "FlashAttention", 2022).
 *
 * Appears once a call; defined before it: SYMBOL, D, DP (D rounded up to 16), HEADS, QUERIES (a multiple of 96), ROOM.  A
 * task is QUERIES queries of up to HEADS heads that share keys; it is one thread's from first key to last, so bits do not depend on
 * the number of threads. */

/* What a thread works in. */
typedef struct HPT_AT_NAME(SYMBOL, Room) {
  float k[HPT_AT_BLOCK * D], v[HPT_AT_BLOCK * DP];      /* a block of keys, as panels; of values */
  float q[HEADS][QUERIES * DP], o[HEADS][QUERIES * DP]; /* the task's queries, scaled; what they have gathered */
  float max[HEADS][QUERIES], sum[HEADS][QUERIES * 16];  /* of a query's scores; of exp(score - max), by lane */
  float p[16 * HPT_AT_BLOCK], keep[16];                 /* a strip's scores, then weights; how its sums shrink */
  int32_t first[QUERIES];
} HPT_AT_NAME(SYMBOL, Room);
_Static_assert(sizeof(HPT_AT_NAME(SYMBOL, Room)) == ROOM, "the workspace that was planned");

HPT_TILE void HPT_AT_NAME(SYMBOL, scores)(float *s, const float *q, const float *k, int64_t from, int64_t to) {
  hpt_at_scores(s, q, k, from, to, D, DP);
}

HPT_TILE void HPT_AT_NAME(SYMBOL, gather)(float *o, const float *keep, const float *p, const float *v, int64_t depth) {
  hpt_at_times(o, keep, p, HPT_AT_BLOCK, 1, v, depth, DP);
}

/* A strip's scores to weights exp(score - max), with the running max and sum. */
static void HPT_AT_NAME(SYMBOL, softmax)(HPT_AT_NAME(SYMBOL, Room) * room, HptAtPanels panels, float *max, float *sum,
                                         const int32_t *first, int64_t i0, int64_t j0) {
  int from = (int)panels.from * HPT_COLS, to = (int)panels.to * HPT_COLS;
  float top[HPT_ROWS];
  for (int i = 0; i < HPT_ROWS; i++) {
    float *s = room->p + i * HPT_AT_BLOCK, most = max[i];
    int32_t row = (int32_t)(i0 + i), key = (int32_t)j0, seen = first[i];
    if (panels.masked)
#pragma omp simd
      for (int j = from; j < to; j++) s[j] = hpt_at_seen(s[j], -__builtin_inff(), seen, row, key + j);
#pragma omp simd reduction(max : most)
    for (int j = from; j < to; j++) most = s[j] > most ? s[j] : most;
    top[i] = most;
  }
#pragma omp simd
  for (int i = 0; i < HPT_ROWS; i++) {
    float now = top[i] > -__builtin_inff() ? top[i] : 0; /* a query that has seen no key yet */
    room->keep[i] = hpt_at_exp(max[i] - now);
    max[i] = top[i];
    top[i] = now;
  }
  for (int i = 0; i < HPT_ROWS; i++) {
    float *s = room->p + i * HPT_AT_BLOCK, most = top[i], keep = room->keep[i];
    HptVec total = hpt_load(sum + i * 16) * keep;
#pragma omp simd
    for (int j = from; j < to; j++) s[j] = hpt_at_exp(s[j] - most);
    for (int j = from; j < to; j += HPT_LANES) total += hpt_load(s + j);
    hpt_store(sum + i * 16, total);
  }
}

static void HPT_AT_NAME(SYMBOL, store)(const BigCall *call, HPT_AT_NAME(SYMBOL, Room) * room, int64_t b, int64_t h0, int64_t heads,
                                       int64_t q0, int64_t n) {
  const BigView *lse = &call->out[1];
  for (int64_t h = 0; h < heads; h++)
    for (int64_t i = 0; i < n; i++) {
      float *o = hpt_at_row(&call->out[0], b, q0 + i, h0 + h), sum = 0;
      const float *from = room->o[h] + i * DP;
      for (int lane = 0; lane < HPT_LANES; lane++) sum += room->sum[h][i * 16 + lane];
      for (int d = 0; d < D; d++) o[d] = from[d] / sum;
      *hpt_at_row(lse, b, h0 + h, q0 + i) = room->max[h][i] + hpt_log(sum);
    }
}

static void HPT_AT_NAME(SYMBOL, task)(const BigCall *call, HPT_AT_NAME(SYMBOL, Room) * room, int64_t b, int64_t g, int64_t h0,
                                      int64_t heads, int64_t q0) {
  const BigView *q = &call->in[0], *k = &call->in[1], *v = &call->in[2];
  int64_t S = q->dim[1], n = HPT_AT_MIN(QUERIES, S - q0);
  const int32_t *start = (const int32_t *)call->in[3].at + b * call->in[3].stride[0];
  for (int64_t i = 0; i < QUERIES; i++) room->first[i] = hpt_at_first(start, q0 + i, S, call->n[0]);
  for (int64_t h = 0; h < heads; h++) {
    for (int64_t i = 0; i < n; i += HPT_AT_BLOCK)
      hpt_at_pack_rows(room->q[h] + i * DP, hpt_at_row(q, b, q0 + i, h0 + h), q->stride[1], HPT_AT_MIN(HPT_AT_BLOCK, n - i), D, DP,
                       (float)call->f);
    for (int i = 0; i < QUERIES; i++) room->max[h][i] = -__builtin_inff();
  }
  memset(room->o, 0, sizeof room->o);
  memset(room->sum, 0, sizeof room->sum);
  for (int64_t j0 = room->first[0] / HPT_AT_BLOCK * HPT_AT_BLOCK; j0 < q0 + n; j0 += HPT_AT_BLOCK) {
    int64_t keys = HPT_AT_MIN(HPT_AT_BLOCK, S - j0);
    hpt_at_pack_panels(room->k, hpt_at_row(k, b, j0, g), k->stride[1], keys, D);
    hpt_at_pack_rows(room->v, hpt_at_row(v, b, j0, g), v->stride[1], keys, D, DP, 1);
    for (int64_t h = 0; h < heads; h++)
      for (int64_t i = 0; i < n; i += HPT_ROWS) {
        HptAtPanels panels = hpt_at_panels(room->first + i, q0 + i, j0);
        if (panels.from == panels.to) continue;
        HPT_AT_NAME(SYMBOL, scores)(room->p, room->q[h] + i * DP, room->k, panels.from, panels.to);
        HPT_AT_NAME(SYMBOL, softmax)(room, panels, room->max[h] + i, room->sum[h] + i * 16, room->first + i, q0 + i, j0);
        HPT_AT_NAME(SYMBOL, gather)
        (room->o[h] + i * DP, room->keep, room->p + panels.from * HPT_COLS, room->v + panels.from * HPT_COLS * DP,
         (panels.to - panels.from) * HPT_COLS);
      }
  }
  HPT_AT_NAME(SYMBOL, store)(call, room, b, h0, heads, q0, n);
}

void SYMBOL(const BigCall *call) {
  const BigView *q = &call->in[0], *k = &call->in[1];
  int64_t B = q->dim[0], blocks = HPT_AT_UP(q->dim[1], QUERIES), G = k->dim[2], group = q->dim[2] / G,
          parts = HPT_AT_UP(group, HEADS);
  HPT_AT_NAME(SYMBOL, Room) *rooms = (HPT_AT_NAME(SYMBOL, Room) *)call->workspace;
#pragma omp parallel for collapse(2) schedule(dynamic) num_threads(call->threads)
  for (int64_t block = 0; block < blocks; block++) /* the last blocks see most, so they come first */
    for (int64_t n = 0; n < B * G * parts; n++) {
      int64_t b = n / parts / G, g = n / parts % G, h = n % parts * HEADS;
      HPT_AT_NAME(SYMBOL, task)
      (call, rooms + omp_get_thread_num(), b, g, g * group + h, HPT_AT_MIN(HEADS, group - h), (blocks - 1 - block) * QUERIES);
    }
}
#undef SYMBOL
#undef D
#undef DP
#undef HEADS
#undef QUERIES
#undef ROOM
