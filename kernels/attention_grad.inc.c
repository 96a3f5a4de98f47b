/* SPDX-License-Identifier: Apache-2.0 */
/* Attention backward: the weights are computed again from lse, block by block (Dao et al. 2022, algorithm 4).  With
 * delta_i = do_i·o_i, p_ij = exp(scale·q_i·k_j - lse_i) and ds_ij = p_ij·(do_i·v_j - delta_i):
 * dv_j = Σ p_ij·do_i,  dk_j = Σ ds_ij·scale·q_i,  dq_i = Σ ds_ij·scale·k_j.
 *
 * Appears once a call; defined before it: SYMBOL, D, DP (D rounded up to 16), KEYS (blocks of keys
 * that meet a block of queries together), ROOM, PARTS, EDGES.  A task is a part of the
 * keys, EDGES[part] to EDGES[part + 1], of one key head with all its query heads; it alone writes their dk and dv.  Part 0
 * sums dq in place, the others each in a copy of their own, which are added in order at the end: no atomics. */

/* A block of keys: keys and values as panels; scaled keys; the gradients gathered. */
typedef struct HPT_AT_NAME(SYMBOL, Keys) {
  float k[HPT_AT_BLOCK * D], v[HPT_AT_BLOCK * D], rows[HPT_AT_BLOCK * DP], dk[HPT_AT_BLOCK * DP], dv[HPT_AT_BLOCK * DP];
} HPT_AT_NAME(SYMBOL, Keys);

/* What a thread works in. */
typedef struct HPT_AT_NAME(SYMBOL, Room) {
  HPT_AT_NAME(SYMBOL, Keys) keys[KEYS];
  float q[HPT_AT_BLOCK * DP], dout[HPT_AT_BLOCK * DP]; /* a block of scaled queries; the gradients of their outputs */
  float p[HPT_AT_BLOCK * HPT_AT_BLOCK], ds[HPT_AT_BLOCK * HPT_AT_BLOCK], dq[16 * DP];
  float lse[HPT_AT_BLOCK], delta[HPT_AT_BLOCK];
  int32_t first[HPT_AT_BLOCK];
} HPT_AT_NAME(SYMBOL, Room);
_Static_assert(sizeof(HPT_AT_NAME(SYMBOL, Room)) == ROOM, "the workspace that was planned");

static const float HPT_AT_NAME(SYMBOL, ones)[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
static const int64_t HPT_AT_NAME(SYMBOL, edges)[PARTS + 1] = {EDGES};

HPT_TILE void HPT_AT_NAME(SYMBOL, scores)(float *s, const float *q, const float *k, int64_t from, int64_t to) {
  hpt_at_scores(s, q, k, from, to, D, DP);
}

HPT_TILE void HPT_AT_NAME(SYMBOL, by_query)(float *dq, const float *ds, const float *k, int64_t depth) {
  hpt_at_times(dq, NULL, ds, HPT_AT_BLOCK, 1, k, depth, DP);
}

HPT_TILE void HPT_AT_NAME(SYMBOL, by_key)(float *dk, const float *ds, const float *q, int64_t depth) {
  hpt_at_times(dk, HPT_AT_NAME(SYMBOL, ones), ds, 1, HPT_AT_BLOCK, q, depth, DP);
}

/* A strip of p and ds from its scores and its do·v; what lies outside the panels is zero. */
static void HPT_AT_NAME(SYMBOL, weigh)(float *p, float *ds, const float *lse, const float *delta, const int32_t *first,
                                       HptAtPanels panels, int64_t i0, int64_t j0) {
  int from = (int)panels.from * HPT_COLS, to = (int)panels.to * HPT_COLS;
  for (int i = 0; i < HPT_ROWS; i++, p += HPT_AT_BLOCK, ds += HPT_AT_BLOCK) {
    float shift = lse[i], less = delta[i];
    int32_t row = (int32_t)(i0 + i), key = (int32_t)j0, seen = first[i];
    for (int j = 0; j < from; j++) p[j] = ds[j] = 0;
    if (panels.masked)
#pragma omp simd
      for (int j = from; j < to; j++) {
        p[j] = hpt_at_seen(hpt_at_exp(p[j] - shift), 0, seen, row, key + j);
        ds[j] = hpt_at_seen(p[j] * (ds[j] - less), 0, seen, row, key + j);
      }
    else
#pragma omp simd
      for (int j = from; j < to; j++) {
        p[j] = hpt_at_exp(p[j] - shift);
        ds[j] = p[j] * (ds[j] - less);
      }
    for (int j = to; j < HPT_AT_BLOCK; j++) p[j] = ds[j] = 0;
  }
}

/* The block of n queries at q0 of head h, into the room. */
static void HPT_AT_NAME(SYMBOL, queries)(const BigCall *call, HPT_AT_NAME(SYMBOL, Room) * room, const float *delta, int64_t b,
                                         int64_t h, int64_t q0, int64_t n) {
  const BigView *dout = &call->in[0], *q = &call->in[1], *lse = &call->in[5];
  hpt_at_pack_rows(room->q, hpt_at_row(q, b, q0, h), q->stride[1], n, D, DP, (float)call->f);
  hpt_at_pack_rows(room->dout, hpt_at_row(dout, b, q0, h), dout->stride[1], n, D, DP, 1);
  for (int64_t i = 0; i < HPT_AT_BLOCK; i++) room->lse[i] = i < n ? hpt_at_row(lse, b, h, q0)[i] : 0;
  for (int64_t i = 0; i < HPT_AT_BLOCK; i++) room->delta[i] = i < n ? delta[(b * q->dim[2] + h) * q->dim[1] + q0 + i] : 0;
}

/* The room's block of n queries at q0 of head h against a block of keys at j0. */
static void HPT_AT_NAME(SYMBOL, block)(HPT_AT_NAME(SYMBOL, Room) * room, HPT_AT_NAME(SYMBOL, Keys) * keys, const BigView *dq,
                                       int64_t b, int64_t h, int64_t q0, int64_t n, int64_t j0, int64_t nkeys) {
  int64_t rows = HPT_AT_UP(n, HPT_ROWS) * HPT_ROWS;
  for (int64_t i = 0; i < rows; i += HPT_ROWS) {
    float *p = room->p + i * HPT_AT_BLOCK, *ds = room->ds + i * HPT_AT_BLOCK;
    HptAtPanels panels = hpt_at_panels(room->first + i, q0 + i, j0);
    HPT_AT_NAME(SYMBOL, scores)(p, room->q + i * DP, keys->k, panels.from, panels.to);
    HPT_AT_NAME(SYMBOL, scores)(ds, room->dout + i * DP, keys->v, panels.from, panels.to);
    HPT_AT_NAME(SYMBOL, weigh)(p, ds, room->lse + i, room->delta + i, room->first + i, panels, q0 + i, j0);
    if (panels.from == panels.to) continue;
    HPT_AT_NAME(SYMBOL, by_query)
    (room->dq, ds + panels.from * HPT_COLS, keys->rows + panels.from * HPT_COLS * DP, (panels.to - panels.from) * HPT_COLS);
    for (int64_t row = 0; row < HPT_AT_MIN(HPT_ROWS, n - i); row++) {
      float *to = hpt_at_row(dq, b, q0 + i + row, h);
      for (int d = 0; d < D; d++) to[d] += room->dq[row * DP + d];
    }
  }
  for (int64_t j = 0; j < nkeys; j += HPT_ROWS) {
    int64_t i = q0 == j0 ? j : 0; /* queries before the key do not see it */
    HPT_AT_NAME(SYMBOL, by_key)(keys->dv + j * DP, room->p + i * HPT_AT_BLOCK + j, room->dout + i * DP, rows - i);
    HPT_AT_NAME(SYMBOL, by_key)(keys->dk + j * DP, room->ds + i * HPT_AT_BLOCK + j, room->q + i * DP, rows - i);
  }
}

static void HPT_AT_NAME(SYMBOL, keys_load)(const BigCall *call, HPT_AT_NAME(SYMBOL, Keys) * keys, int64_t b, int64_t g, int64_t j0,
                                           int64_t n) {
  const BigView *k = &call->in[2], *v = &call->in[3];
  hpt_at_pack_panels(keys->k, hpt_at_row(k, b, j0, g), k->stride[1], n, D);
  hpt_at_pack_panels(keys->v, hpt_at_row(v, b, j0, g), v->stride[1], n, D);
  hpt_at_pack_rows(keys->rows, hpt_at_row(k, b, j0, g), k->stride[1], n, D, DP, (float)call->f);
  memset(keys->dk, 0, sizeof keys->dk);
  memset(keys->dv, 0, sizeof keys->dv);
}

static void HPT_AT_NAME(SYMBOL, keys_store)(const BigCall *call, const HPT_AT_NAME(SYMBOL, Keys) * keys, int64_t b, int64_t g,
                                            int64_t j0, int64_t n) {
  for (int64_t j = 0; j < n; j++) {
    float *dk = hpt_at_row(&call->out[1], b, j0 + j, g), *dv = hpt_at_row(&call->out[2], b, j0 + j, g);
    for (int d = 0; d < D; d++) dk[d] = keys->dk[j * DP + d];
    for (int d = 0; d < D; d++) dv[d] = keys->dv[j * DP + d];
  }
}

/* The keys [from,to), at most KEYS blocks of them, of head g against all queries that see any. */
static void HPT_AT_NAME(SYMBOL, keys)(const BigCall *call, HPT_AT_NAME(SYMBOL, Room) * room, const float *delta, const BigView *dq,
                                      int64_t b, int64_t g, int64_t from, int64_t to) {
  int64_t S = call->in[1].dim[1], group = call->in[1].dim[2] / call->in[2].dim[2];
  const int32_t *start = (const int32_t *)call->in[6].at + b * call->in[6].stride[0];
  for (int64_t j = from; j < to; j += HPT_AT_BLOCK)
    HPT_AT_NAME(SYMBOL, keys_load)(call, room->keys + (j - from) / HPT_AT_BLOCK, b, g, j, HPT_AT_MIN(HPT_AT_BLOCK, to - j));
  for (int64_t i = from; i < S && hpt_at_first(start, i, S, call->n[0]) < to; i += HPT_AT_BLOCK) {
    int64_t n = HPT_AT_MIN(HPT_AT_BLOCK, S - i);
    for (int64_t row = 0; row < HPT_AT_BLOCK; row++) room->first[row] = hpt_at_first(start, i + row, S, call->n[0]);
    for (int64_t h = g * group; h < (g + 1) * group; h++) {
      HPT_AT_NAME(SYMBOL, queries)(call, room, delta, b, h, i, n);
      for (int64_t j = from; j < to && j <= i; j += HPT_AT_BLOCK)
        if (room->first[0] < j + HPT_AT_BLOCK) HPT_AT_NAME(SYMBOL, block)
      (room, room->keys + (j - from) / HPT_AT_BLOCK, dq, b, h, i, n, j, HPT_AT_MIN(HPT_AT_BLOCK, to - j));
    }
  }
  for (int64_t j = from; j < to; j += HPT_AT_BLOCK)
    HPT_AT_NAME(SYMBOL, keys_store)(call, room->keys + (j - from) / HPT_AT_BLOCK, b, g, j, HPT_AT_MIN(HPT_AT_BLOCK, to - j));
}

/* dq of the queries from i on is zero, for the heads of g. */
static void HPT_AT_NAME(SYMBOL, clear)(const BigView *dq, int64_t b, int64_t h0, int64_t heads, int64_t i) {
  for (; i < dq->dim[1]; i++)
    for (int64_t h = 0; h < heads; h++) memset(hpt_at_row(dq, b, i, h0 + h), 0, sizeof(float) * D);
}

void SYMBOL(const BigCall *call) {
  const BigView *q = &call->in[1];
  int64_t B = q->dim[0], S = q->dim[1], H = q->dim[2], G = call->in[2].dim[2], group = H / G;
  HPT_AT_NAME(SYMBOL, Room) *rooms = (HPT_AT_NAME(SYMBOL, Room) *)call->workspace;
  float *delta = (float *)(rooms + call->threads);
  BigView dq[PARTS] = {call->out[0]};
  for (int64_t part = 1; part < PARTS; part++)
    dq[part] = (BigView){.at = delta + B * H * S * (1 + (part - 1) * D), .dim = {B, S, H, D}, .stride = {S * H * D, H * D, D, 1}};
#pragma omp parallel num_threads(call->threads)
  {
#pragma omp for collapse(2) schedule(static)
    for (int64_t b = 0; b < B; b++)
      for (int64_t i = 0; i < S; i++)
        for (int64_t h = 0; h < H; h++) {
          const float *dout = hpt_at_row(&call->in[0], b, i, h), *o = hpt_at_row(&call->in[4], b, i, h);
          float sum = 0;
#pragma omp simd reduction(+ : sum)
          for (int d = 0; d < D; d++) sum += dout[d] * o[d];
          delta[(b * H + h) * S + i] = sum;
        }
#pragma omp for collapse(2) schedule(dynamic)
    for (int64_t part = 0; part < PARTS; part++)
      for (int64_t n = 0; n < B * G; n++) {
        int64_t b = n / G, g = n % G, from = HPT_AT_NAME(SYMBOL, edges)[part], to = HPT_AT_NAME(SYMBOL, edges)[part + 1];
        HPT_AT_NAME(SYMBOL, clear)(&dq[part], b, g * group, group, from);
        for (int64_t j = from; j < to; j += KEYS * HPT_AT_BLOCK) HPT_AT_NAME(SYMBOL, keys)
        (call, rooms + omp_get_thread_num(), delta, &dq[part], b, g, j, HPT_AT_MIN(j + KEYS * HPT_AT_BLOCK, to));
      }
    if (PARTS > 1)
#pragma omp for collapse(2) schedule(static)
      for (int64_t b = 0; b < B; b++)
        for (int64_t i = 0; i < S; i++)
          for (int64_t part = 1; part < PARTS && HPT_AT_NAME(SYMBOL, edges)[part] <= i; part++)
            for (int64_t h = 0; h < H; h++) {
              float *to = hpt_at_row(&dq[0], b, i, h);
              const float *more = hpt_at_row(&dq[part], b, i, h);
              for (int d = 0; d < D; d++) to[d] += more[d];
            }
  }
}
#undef SYMBOL
#undef D
#undef DP
#undef ROOM
#undef KEYS
#undef PARTS
#undef EDGES
