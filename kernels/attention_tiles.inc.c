/* SPDX-License-Identifier: Apache-2.0 */
/* What attention's forward and backward share; appears once a translation unit.  Queries and keys are taken in blocks of
 * HPT_AT_BLOCK, queries of a block in strips of HPT_ROWS, keys in panels of HPT_COLS; strips and panels that see nothing of each
 * other are skipped. */
#ifndef HPT_AT_BLOCK
#define HPT_AT_BLOCK 96
#define HPT_AT_PANELS (HPT_AT_BLOCK / HPT_COLS)
#define HPT_AT_PASTE(symbol, name) symbol##_##name
#define HPT_AT_NAME(symbol, name) HPT_AT_PASTE(symbol, name)
#define HPT_AT_MIN(x, y) ((x) < (y) ? (x) : (y))
#define HPT_AT_MAX(x, y) ((x) > (y) ? (x) : (y))
#define HPT_AT_UP(x, y) (((x) + (y)-1) / (y))

/* exp(x) for x <= 0 as softmax wants it: shorter than hpt_exp, and exactly 0 below -87. */
HPT_INLINE float hpt_at_exp(float x) {
  const float shift = 0x1.8p23f;
  float y = x < -87.0f ? -87.0f : x;
  float t = hpt_fma(y, 0x1.715476p0f, shift), n = t - shift;
  float r = hpt_fma(n, -0x1.7f7d1cp-20f, hpt_fma(n, -0x1.62e4p-1f, y));
  float p = 0x1.6a1cp-10f;
  p = hpt_fma(p, r, 0x1.123fdp-7f);
  p = hpt_fma(p, r, 0x1.555914p-5f);
  p = hpt_fma(p, r, 0x1.55548ap-3f);
  p = hpt_fma(p, r, 0x1.fffffcp-2f);
  p = hpt_fma(p, r * r, r) + 1.0f;
  p *= hpt_from_bits((int32_t)((uint32_t)hpt_bits(t) - (uint32_t)hpt_bits(shift) + 127u) << 23);
  return x < -87.0f ? 0.0f : p;
}

/* The first key that query i sees; does not fall as i grows.  What follows the last query sees nothing. */
HPT_INLINE int32_t hpt_at_first(const int32_t *start, int64_t i, int64_t S, int64_t window) {
  if (i >= S) return INT32_MAX;
  int64_t edge = window ? i - window + 1 : 0;
  return edge > start[i] ? (int32_t)edge : start[i];
}

HPT_INLINE float *hpt_at_row(const BigView *v, int64_t b, int64_t i, int64_t h) {
  return (float *)v->at + b * v->stride[0] + i * v->stride[1] + h * v->stride[2];
}

/* n of HPT_AT_BLOCK rows of D numbers, scaled, padded with zeros to DP numbers and to HPT_AT_BLOCK rows. */
HPT_INLINE void hpt_at_pack_rows(float *to, const float *from, int64_t stride, int64_t n, int D, int DP, float scale) {
  hpt_pack(to, from, 1, stride, DP, D, n, scale);
  memset(to + n * DP, 0, sizeof(float) * (size_t)((HPT_AT_BLOCK - n) * DP));
}

/* The same rows transposed: a panel of D × HPT_COLS for every HPT_COLS of them. */
HPT_INLINE void hpt_at_pack_panels(float *to, const float *from, int64_t stride, int64_t n, int D) {
  for (int64_t j = 0; j < HPT_AT_BLOCK; j += HPT_COLS)
    hpt_pack(to + j * D, from + HPT_AT_MIN(j, n) * stride, stride, 1, HPT_COLS, (int)HPT_AT_MIN(HPT_AT_MAX(n - j, 0), HPT_COLS), D,
             1);
}

/* The panels [from,to) of the key block at j0 that any query of the strip at i0 sees. */
typedef struct HptAtPanels {
  int64_t from, to;
  int masked; /* not every query sees all of them */
} HptAtPanels;

HPT_INLINE HptAtPanels hpt_at_panels(const int32_t *first, int64_t i0, int64_t j0) {
  int64_t lo = HPT_AT_MAX((int64_t)first[0] - j0, 0), hi = HPT_AT_MIN(i0 + HPT_ROWS - 1 - j0, HPT_AT_BLOCK - 1);
  if (lo > hi) return (HptAtPanels){0, 0, 0};
  HptAtPanels p = {lo / HPT_COLS, hi / HPT_COLS + 1, 0};
  p.masked = j0 + p.to * HPT_COLS - 1 > i0 || j0 + p.from * HPT_COLS < first[HPT_ROWS - 1];
  return p;
}

/* x, or other where query i, which sees keys from first on, does not see key j. */
HPT_INLINE float hpt_at_seen(float x, float other, int32_t first, int32_t i, int32_t j) {
  return ((j >= first) & (j <= i)) ? x : other;
}

/* s[i][j] = q_i · k_j for a strip of queries and the panels [from,to) of keys. */
HPT_INLINE void hpt_at_scores(float *s, const float *q, const float *panels, int64_t from, int64_t to, int D, int DP) {
  for (int64_t p = from; p < to; p++) {
    HptVec sum[HPT_ROWS][2];
    hpt_tile(sum, q, DP, 1, panels + p * D * HPT_COLS, HPT_COLS, D, HPT_ROWS, 2);
#pragma GCC unroll 16
    for (int i = 0; i < HPT_ROWS; i++) {
      hpt_store(s + i * HPT_AT_BLOCK + p * HPT_COLS, sum[i][0]);
      hpt_store(s + i * HPT_AT_BLOCK + p * HPT_COLS + HPT_LANES, sum[i][1]);
    }
  }
}

/* out[i][:] = out[i][:]·keep[i] (keep NULL: 0) + Σ over k < depth of a[i·a_row + k·a_k]·x[k][:], HPT_ROWS rows of DP
 * numbers. */
HPT_INLINE void hpt_at_times_part(float *out, const float *keep, const float *a, int64_t a_row, int64_t a_k, const float *x,
                                  int64_t depth, int DP, int vectors) {
  HptVec sum[HPT_ROWS][2];
  hpt_tile(sum, a, a_row, a_k, x, DP, depth, HPT_ROWS, vectors);
#pragma GCC unroll 16
  for (int i = 0; i < HPT_ROWS; i++)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
      float *at = out + i * DP + v * HPT_LANES;
      hpt_store(at, keep ? hpt_load(at) * keep[i] + sum[i][v] : sum[i][v]);
    }
}

HPT_INLINE void hpt_at_times(float *out, const float *keep, const float *a, int64_t a_row, int64_t a_k, const float *x,
                             int64_t depth, int DP) {
  int d = 0;
  for (; d + HPT_COLS <= DP; d += HPT_COLS) hpt_at_times_part(out + d, keep, a, a_row, a_k, x + d, depth, DP, 2);
  if (d < DP) hpt_at_times_part(out + d, keep, a, a_row, a_k, x + d, depth, DP, 1);
}
#endif
