/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/dtype.h"

#include "src/base/fail.h"

static const struct {
  const char *name;
  size_t size;
} types[DT_COUNT] = {[DT_F32] = {"f32", 4}, [DT_I32] = {"i32", 4}, [DT_I64] = {"i64", 8}, [DT_PRED] = {"pred", 1}};

size_t dtype_size(DType dtype) {
  CHECK(dtype < DT_COUNT);
  return types[dtype].size;
}

const char *dtype_name(DType dtype) {
  CHECK(dtype < DT_COUNT);
  return types[dtype].name;
}
