/* SPDX-License-Identifier: Apache-2.0 */
#include "io/hf_papers.h"

#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "src/base/vec.h"
#include "src/config/config.h"

/* By our name and by torch's. */
static const struct {
  DType dtype;
  const char *name, *torch;
} types[] = {{DT_BF16, "bf16", "bfloat16"}, {DT_F16, "fp16", "float16"}, {DT_F32, "fp32", "float32"}};
enum { TYPES = sizeof types / sizeof *types };

static const char *const type_keys[] = {"dtype", "torch_dtype"}; /* newer and older */

const char *hf_type_name(int dtype) {
  int i = 0;
  while (types[i].dtype != (DType)dtype) CHECK(++i < TYPES);
  return types[i].name;
}

int hf_type_parse(const char *name) {
  for (int i = 0; i < TYPES; i++)
    if (!strcmp(types[i].name, name)) return (int)types[i].dtype;
  return -1;
}

static const char *torch_name(int dtype) {
  int i = 0;
  while (types[i].dtype != (DType)dtype) CHECK(++i < TYPES);
  return types[i].torch;
}

/* --- the type ------------------------------------------------------------------------------------------------------------- */

static json_t *parse(const ModelFolder *from, const char *text) {
  Why why;
  json_t *root = json_parse(text, strlen(text), MODEL_CONFIG, &why);
  if (!root) fail(FAIL_INPUT, "%s: %s\nhelp: use another checkpoint", model_folder_path(from), why.text);
  return root;
}

static int told_type(const ModelFolder *from) {
  const char *text = model_folder_paper(from, MODEL_CONFIG);
  json_t *root = text ? parse(from, text) : NULL;
  int dtype = -1;
  for (int k = 0; k < 2 && dtype < 0; k++) {
    const char *word = json_string_value(json_object_get(root, type_keys[k]));
    for (int i = 0; word && i < TYPES; i++)
      if (!strcmp(word, types[i].torch)) dtype = (int)types[i].dtype;
  }
  json_decref(root);
  return dtype;
}

int hf_own_type(Arena *arena, const ModelFolder *from) {
  static const DType computed[] = {[PRECISION_FP32] = DT_F32, [PRECISION_BF16] = DT_BF16, [PRECISION_FP16] = DT_F16};
  const Ckpt *c = model_folder_ckpt(from);
  if (ckpt_fact(c, "imported")) return -1;
  int told = told_type(from);
  if (told >= 0) return told;
  const char *name = arena_printf(arena, "%s: /run/config", model_folder_path(from)), *text = ckpt_text(c, arena, "config");
  char *words[] = {(char *)name, NULL};
  return text ? (int)computed[config_parse(arena, name, text, 1, words)->precision.compute] : DT_F32;
}

/* --- config.json ---------------------------------------------------------------------------------------------------------- */

/* The end of a JSON text's string that begins at `at`. */
static const char *string_end(const char *at) {
  for (at++; *at && *at != '"'; at++)
    if (*at == '\\' && at[1]) at++;
  return at;
}

/* The same text but for the string that key has in the outermost object, if it has one; good JSON. */
static const char *replace_word(Arena *arena, const char *text, const char *key, const char *word) {
  int depth = 0;
  for (const char *at = text; *at; at++) {
    depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
    if (*at != '"') continue;
    const char *end = string_end(at), *colon = end + 1 + strspn(end + 1, " \t\r\n"),
               *value = colon + 1 + strspn(colon + 1, " \t\r\n");
    bool found =
        depth == 1 && *colon == ':' && *value == '"' && (size_t)(end - at - 1) == strlen(key) && !strncmp(at + 1, key, strlen(key));
    if (found) return arena_printf(arena, "%.*s\"%s\"%s", (int)(value - text), text, word, string_end(value) + 1);
    at = end;
  }
  return text;
}

/* The shortest text that reads back as the same numbers, of two. */
static const char *print_json(Arena *arena, const json_t *root) {
  for (size_t digits = 15;; digits += 2) {
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(digits));
    json_t *back = text ? json_loads(text, 0, NULL) : NULL;
    CHECK(back);
    bool same = digits == 17 || json_equal(back, root);
    const char *copy = same ? arena_printf(arena, "%s\n", text) : NULL;
    json_decref(back);
    free(text);
    if (copy) return copy;
  }
}

/* The ids with which a text begins and ends: null where there is none. */
static void set_ids(json_t *root, const Tokenizer *t) {
  static const struct {
    const char *key;
    TokenizerRole role;
  } ids[] = {{"bos_token_id", TOKENIZER_BOS}, {"eos_token_id", TOKENIZER_EOS}};
  for (int k = 0; k < 2; k++) {
    int32_t id = t ? tokenizer_special(t, ids[k].role) : -1;
    if (!json_object_get(root, ids[k].key)) CHECK(!json_object_set_new(root, ids[k].key, id >= 0 ? json_integer(id) : json_null()));
  }
}

/* Rope in the newer form too, and both words for the type. */
static const char *own_config(Arena *arena, const ModelFolder *from, int dtype, const Tokenizer *t) {
  json_t *root = parse(from, model_folder_config(from));
  json_t *theta = json_object_get(root, "rope_theta"), *scaling = json_object_get(root, "rope_scaling");
  if (theta) {
    json_t *rope = json_is_object(scaling) ? json_copy(scaling) : json_pack("{s:s}", "rope_type", "default");
    CHECK(rope && !json_object_set(rope, "rope_theta", theta) && !json_object_set_new(root, "rope_parameters", rope));
  }
  for (int k = 0; k < 2; k++) CHECK(!json_object_set_new(root, type_keys[k], json_string(torch_name(dtype))));
  set_ids(root, t);
  const char *text = print_json(arena, root);
  json_decref(root);
  return text;
}

/* --- all of them ---------------------------------------------------------------------------------------------------------- */

static const char *own_generation(Arena *arena, const Tokenizer *t) {
  json_t *root = json_pack("{s:b}", "_from_model_config", 1);
  CHECK(root);
  if (t) set_ids(root, t);
  const char *text = print_json(arena, root);
  json_decref(root);
  return text;
}

const CkptText *hf_papers(Arena *arena, const ModelFolder *from, int dtype, int *n) {
  const CkptText *papers = model_folder_papers(from, n);
  CkptText *out = arena_array(arena, CkptText, *n);
  for (int i = 0; i < *n; i++) {
    CkptText paper = {papers[i].name + strlen(MODEL_PAPERS), papers[i].text, papers[i].n};
    if (strchr(paper.name, '/') || *paper.name == '.')
      fail(FAIL_INPUT, "%s: '%s' is no file's name\nhelp: use another checkpoint", model_folder_path(from), paper.name);
    if (!strcmp(paper.name, MODEL_CONFIG)) {
      for (int k = 0; k < 2 && dtype >= 0; k++) paper.text = replace_word(arena, paper.text, type_keys[k], torch_name(dtype));
      paper.n = strlen(paper.text);
    }
    out[i] = paper;
  }
  return out;
}

/* Without it transformers takes a tokenizer.json for that of the model's family, and knows none of its special tokens. */
static const char *own_tokenizer_config(Arena *arena, const Tokenizer *t) {
  json_t *root = json_pack("{s:s, s:b}", "tokenizer_class", "PreTrainedTokenizerFast", "clean_up_tokenization_spaces", 0);
  CHECK(root);
  for (int role = 0; role < TOKENIZER_ROLES; role++) {
    const char *text = tokenizer_special_text(t, role);
    if (text) CHECK(!json_object_set_new(root, tokenizer_role_key(role), json_string(text)));
  }
  const char *text = print_json(arena, root);
  json_decref(root);
  return text;
}

static bool lacks(const ModelFolder *from, const char *name) {
  return !ckpt_fact(model_folder_ckpt(from), "imported") && !model_folder_paper(from, name);
}

const CkptText *hf_own_papers(Arena *arena, const ModelFolder *from, int dtype, const Tokenizer *t, int *n) {
  static const char beside[] = "tokenizer_config.json";
  CkptText *own = arena_array(arena, CkptText, 3);
  *n = 0;
  if (lacks(from, MODEL_CONFIG)) {
    own[(*n)++] = (CkptText){.name = MODEL_CONFIG, .text = own_config(arena, from, dtype < 0 ? DT_F32 : dtype, t)};
    own[(*n)++] = (CkptText){.name = MODEL_GENERATION, .text = own_generation(arena, t)};
  }
  if (t && !strcmp(tokenizer_kind(t), "tokenizer.json") && lacks(from, beside))
    own[(*n)++] = (CkptText){.name = beside, .text = own_tokenizer_config(arena, t)};
  for (int i = 0; i < *n; i++) own[i].n = strlen(own[i].text);
  return own;
}
