/* SPDX-License-Identifier: Apache-2.0 */
/* The post_processor of a tokenizer.json: the ids that come before and behind a text when special tokens are asked for. */
#include <string.h>

#include "io/tok_impl.h"

typedef struct TemplateRow {
  StageType stage;
  bool (*open)(Tokenizer *t, const json_t *json, Why *why);
} TemplateRow;

static bool add_id(const Tokenizer *t, const json_t *id, Ids *to, Why *why) {
  json_int_t value = json_integer_value(id);
  if (!json_is_integer(id) || value < 0 || value >= t->vocab || !tokenizer_has(t, (int32_t)value))
    return why_not(why, "an id that is none");
  ids_add(to, &(int32_t){(int32_t)value}, 1);
  return true;
}

/* Only offsets. */
static bool open_nothing(Tokenizer *t, const json_t *json, Why *why) {
  (void)t, (void)json, (void)why;
  return true;
}

/* What is said of a single text; a pair of texts is not. */
static bool open_template(Tokenizer *t, const json_t *json, Why *why) {
  const json_t *pieces = json_object_get(json, "single"), *piece, *id;
  size_t i, k;
  bool behind = false;
  json_array_foreach(pieces, i, piece) {
    const char *name = json_string_value(json_object_get(json_object_get(piece, "SpecialToken"), "id"));
    if (json_object_get(piece, "Sequence")) {
      behind = true;
      continue;
    }
    const json_t *ids = name ? json_object_get(json_object_get(json_object_get(json, "special_tokens"), name), "ids") : NULL;
    if (!json_is_array(ids)) return why_not(why, "a piece that is not understood");
    json_array_foreach(ids, k, id) if (!add_id(t, id, behind ? &t->after : &t->before, why)) return false;
  }
  return true;
}

static bool open_bert(Tokenizer *t, const json_t *json, Why *why) {
  return add_id(t, json_array_get(json_object_get(json, "cls"), 1), &t->before, why) &&
         add_id(t, json_array_get(json_object_get(json, "sep"), 1), &t->after, why);
}

static const TemplateRow rows[] = {
    {{"ByteLevel", "add_prefix_space trim_offsets use_regex"}, open_nothing},
    {{"TemplateProcessing", "single pair special_tokens"}, open_template},
    {{"RobertaProcessing", "sep cls trim_offsets add_prefix_space"}, open_bert},
    {{"BertProcessing", "sep cls"}, open_bert},
};

static StageType type_of(int i) { return rows[i].stage; }
static bool open_row(void *self, int i, const json_t *json, Why *why) { return rows[i].open(self, json, why); }

bool try_template_open(Tokenizer *t, const json_t *json, Why *why) {
  static const StageKind kind = {
      .what = "post_processor", .members = "processors", .n = sizeof rows / sizeof *rows, .type = type_of, .open = open_row};
  return try_stages_open(&kind, json, t, why);
}
