/* SPDX-License-Identifier: Apache-2.0 */
/* Through float32, which holds all of them, some thousand elements at a time.  Loops are plain, for the compiler to widen: what is
 * not finite is first only counted, and looked for where there is any. */
#include "io/convert.h"

#include <math.h>

#include "src/base/fail.h"

enum { PART = 4096 };

static void widen(DType from, const void *in, int64_t n, float *out) {
  const uint16_t *bits = in;
  if (from == DT_BF16)
    for (int64_t i = 0; i < n; i++) out[i] = bf16_value(bits[i]);
  else if (from == DT_F16)
    for (int64_t i = 0; i < n; i++) out[i] = f16_value(bits[i]);
  else
    memcpy(out, in, sizeof *out * (size_t)n);
}

static void narrow(const float *in, int64_t n, DType as, void *out) {
  uint16_t *bits = out;
  if (as == DT_BF16)
    for (int64_t i = 0; i < n; i++) bits[i] = bf16_of(in[i]);
  else if (as == DT_F16)
    for (int64_t i = 0; i < n; i++) bits[i] = f16_of(in[i]);
  else
    memcpy(out, in, sizeof *in * (size_t)n);
}

/* Whether all bits of any exponent are set. */
static bool any_infinite(DType type, const void *at, int64_t n) {
  uint32_t any = 0;
  if (type == DT_F32) {
    const uint32_t *bits = at;
    for (int64_t i = 0; i < n; i++) any |= (bits[i] & 0x7f800000) == 0x7f800000;
  } else {
    uint16_t mask = type == DT_BF16 ? 0x7f80 : 0x7c00;
    const uint16_t *bits = at;
    for (int64_t i = 0; i < n; i++) any |= (bits[i] & mask) == mask;
  }
  return any;
}

static int64_t first_infinite(DType type, const void *at, int64_t n) {
  int64_t i = 0;
  while (i < n && isfinite(dtype_load(type, at, i))) i++;
  return i < n ? i : -1;
}

static int64_t first_no_truth(const void *at, int64_t n) {
  const uint8_t *bytes = at;
  int64_t i = 0;
  while (i < n && bytes[i] <= 1) i++;
  return i < n ? i : -1;
}

int64_t convert_weights(DType from, const void *in, int64_t n, DType as, void *out, double *value) {
  size_t size = dtype_size(from), wide = dtype_size(as);
  CHECK(from == as || (dtype_is_float(from) && dtype_is_float(as)));
  if (!dtype_is_float(from)) {
    int64_t bad = from == DT_PRED ? first_no_truth(in, n) : -1;
    if (bad >= 0) *value = ((const uint8_t *)in)[bad];
    if (in != out) memcpy(out, in, size * (size_t)n);
    return bad;
  }
  for (int64_t done = 0, take; done < n; done += take) {
    float part[PART];
    const char *source = (const char *)in + (size_t)done * size;
    char *to = (char *)out + (size_t)done * wide;
    take = n - done < PART ? n - done : PART;
    if (from != as) {
      widen(from, source, take, part);
      narrow(part, take, as, to);
    } else if (in != out) {
      memcpy(to, source, size * (size_t)take);
    }
    if (!any_infinite(as, to, take)) continue;
    int64_t bad = first_infinite(as, to, take);
    *value = dtype_load(from, source, bad);
    return done + bad;
  }
  return -1;
}
