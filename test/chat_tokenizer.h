/* SPDX-License-Identifier: Apache-2.0 */
/* A golden tokenizer with the special tokens of all chat templates, as text of a tokenizer.json. */
#ifndef TEST_CHAT_TOKENIZER_H
#define TEST_CHAT_TOKENIZER_H

#include "io/json.h"

/* Of this file; without the token named `but` (NULL: with all).  The caller's. */
static inline char *chat_tokenizer(const char *path, const char *but) {
  static const char *const specials[] = {"<|begin_of_text|>", "<|end_of_text|>", "<s>",     "</s>",       "<|im_start|>",
                                         "<|im_end|>",        "[INST]",          "[/INST]", "<|eot_id|>", "<|start_header_id|>",
                                         "<|end_header_id|>"};
  Why why;
  json_t *root = json_parse_file(path, &why);
  if (!root) fail(FAIL_INPUT, "%s", why.text);
  json_t *added = json_object_get(root, "added_tokens");
  json_int_t next = (json_int_t)json_object_size(json_object_get(json_object_get(root, "model"), "vocab"));
  for (size_t i = 0; i < json_array_size(added); i++) {
    json_int_t id = json_integer_value(json_object_get(json_array_get(added, i), "id"));
    if (id >= next) next = id + 1;
  }
  for (size_t s = 0; s < sizeof specials / sizeof *specials; s++) {
    size_t i = 0, n = json_array_size(added);
    while (i < n && strcmp(json_string_value(json_object_get(json_array_get(added, i), "content")), specials[s])) i++;
    if (i < n || (but && !strcmp(but, specials[s]))) continue;
    json_array_append_new(added, json_pack("{s:I,s:s,s:b,s:b,s:b,s:b,s:b}", "id", next++, "content", specials[s], "single_word", 0,
                                           "lstrip", 0, "rstrip", 0, "normalized", 0, "special", 1));
  }
  char *text = json_dumps(root, JSON_COMPACT);
  json_decref(root);
  return text;
}

#endif
