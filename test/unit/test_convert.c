/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "io/convert.h"
#include "src/base/arena.h"
#include "src/base/rng.h"
#include "test/check.h"

enum { N = 1 << 16 };

/* Every finite number of 16 bits goes to float32 and back; the others are found where they stand. */
TEST(sixteen_bits_come_back_from_float32) {
  static const DType types[] = {DT_BF16, DT_F16};
  static uint16_t in[N], out[N];
  static float wide[N];
  double value;
  for (int k = 0; k < 2; k++) {
    int n = 0, exponent = types[k] == DT_BF16 ? 0x7f80 : 0x7c00;
    for (int i = 0; i < N; i++)
      if ((i & exponent) != exponent) in[n++] = (uint16_t)i;
    EXPECT(convert_weights(types[k], in, n, DT_F32, wide, &value) == -1);
    EXPECT(convert_weights(DT_F32, wide, n, types[k], out, &value) == -1);
    EXPECT(!memcmp(in, out, sizeof *in * (size_t)n));
    EXPECT(convert_weights(types[k], in, n, types[k], in, &value) == -1); /* in place */
    in[40000] = (uint16_t)(exponent | 1);
    EXPECT(convert_weights(types[k], in, n, DT_F32, wide, &value) == 40000 && isnan(value));
    EXPECT(convert_weights(types[k], in, n, types[k], out, &value) == 40000 && isnan(value));
  }
}

TEST(rounding_is_to_nearest_even_and_an_overflow_is_named) {
  static float in[N];
  static uint16_t out[N];
  Rng rng = rng_make(1, RNG_TEST, "convert", 0);
  double value;
  static const DType types[] = {DT_BF16, DT_F16};
  rng_normals(&rng, 0, N, 3, in);
  in[7] = 0x1.01p0f; /* half way between two bf16: to the even one below */
  for (int k = 0; k < 2; k++) {
    EXPECT(convert_weights(DT_F32, in, N, types[k], out, &value) == -1);
    for (int i = 0; i < N; i++) EXPECT((float)dtype_load(types[k], out, i) == dtype_round(types[k], in[i]));
  }
  convert_weights(DT_F32, in, N, DT_BF16, out, &value);
  EXPECT(dtype_load(DT_BF16, out, 7) == 1);
  in[50001] = -70000;
  EXPECT(convert_weights(DT_F32, in, N, DT_BF16, out, &value) == -1);
  EXPECT(convert_weights(DT_F32, in, N, DT_F16, out, &value) == 50001 && value == -70000);
  in[3] = INFINITY;
  EXPECT(convert_weights(DT_F32, in, N, DT_BF16, out, &value) == 3 && isinf(value));
}

TEST(a_truth_value_that_is_neither_is_found) {
  uint8_t in[4] = {0, 1, 1, 0}, out[4];
  double value;
  EXPECT(convert_weights(DT_PRED, in, 4, DT_PRED, out, &value) == -1 && !memcmp(in, out, sizeof in));
  in[2] = 7;
  EXPECT(convert_weights(DT_PRED, in, 4, DT_PRED, out, &value) == 2 && value == 7);
}

TEST(whole_numbers_are_copied) {
  int64_t in[3] = {1, INT64_MIN, -1}, out[3];
  double value;
  EXPECT(convert_weights(DT_I64, in, 3, DT_I64, out, &value) == -1 && !memcmp(in, out, sizeof in));
}
