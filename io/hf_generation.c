/* SPDX-License-Identifier: Apache-2.0 */
#include "io/hf_generation.h"

#include <string.h>

#include "io/json.h"

static bool take(const json_t *id, int32_t *end) {
  json_int_t value = json_integer_value(id);
  *end = (int32_t)value;
  return json_is_integer(id) && value >= 0 && value <= INT32_MAX;
}

static int take_ends(const json_t *ids, int32_t ends[HF_ENDS]) {
  size_t n = json_is_array(ids) ? json_array_size(ids) : 1;
  if (!ids || json_is_null(ids)) return 0;
  if (n > HF_ENDS) return -1;
  for (size_t i = 0; i < n; i++)
    if (!take(json_is_array(ids) ? json_array_get(ids, i) : ids, &ends[i])) return -1;
  return (int)n;
}

int try_hf_generation_ends(const char *path, const char *text, int32_t ends[HF_ENDS], Why *why) {
  json_t *root = json_parse(text, strlen(text), path, why);
  if (!root) return -1;
  int n = take_ends(json_object_get(root, "eos_token_id"), ends);
  if (n < 0) why_not(why, "%s: eos_token_id is no id, nor a list of at most %d", path, HF_ENDS);
  json_decref(root);
  return n;
}
