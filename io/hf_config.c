/* SPDX-License-Identifier: Apache-2.0 */
/* The table of fields reads, checks and writes; here is what one field says about another. */
#include "io/hf_config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/hf_impl.h"

static bool read_family(const HfReader *r, const json_t *root, NameFamily *family) {
  const json_t *list = json_object_get(root, "architectures");
  const char *name = json_string_value(json_array_get(list, 0)), *type = json_string_value(json_object_get(root, "model_type"));
  char known[256];
  if (!name && !type) return why_not(r->why, "%s: neither architectures nor model_type", r->path);
  for (*family = 0; *family < NAME_FAMILIES; ++*family) {
    const NameArchitecture *a = name_architecture(*family);
    if (name ? !strcmp(name, a->architecture) : !strcmp(type, a->model_type)) return true;
  }
  return why_not(r->why, "%s: %s is %.80s; built are %s", r->path, name ? "architectures" : "model_type", name ? name : type,
                 name_known(known, sizeof known));
}

/* What the architecture derives from others. */
static bool resolve_sizes(const HfReader *r, HfConfig *c) {
  if (!c->num_key_value_heads) c->num_key_value_heads = c->num_attention_heads;
  if (!c->intermediate_size) c->intermediate_size = 4 * c->hidden_size;
  if (c->num_attention_heads % c->num_key_value_heads)
    return why_not(r->why, "%s: num_attention_heads %lld is no multiple of num_key_value_heads %lld", r->path,
                   (long long)c->num_attention_heads, (long long)c->num_key_value_heads);
  if (c->num_experts_per_tok > c->num_local_experts)
    return why_not(r->why, "%s: num_experts_per_tok %lld is more than num_local_experts %lld", r->path,
                   (long long)c->num_experts_per_tok, (long long)c->num_local_experts);
  if (!c->head_dim && c->hidden_size % c->num_attention_heads)
    return why_not(r->why, "%s: hidden_size %lld is no multiple of num_attention_heads %lld, and there is no head_dim", r->path,
                   (long long)c->hidden_size, (long long)c->num_attention_heads);
  if (!c->head_dim) c->head_dim = c->hidden_size / c->num_attention_heads;
  if (c->head_dim > HF_WIDEST_HEAD || c->intermediate_size > HF_WIDEST)
    return why_not(r->why, "%s: hidden_size %lld is too wide", r->path, (long long)c->hidden_size);
  return true;
}

static bool read_root(HfReader *r, const json_t *root, HfConfig *config) {
  if (!json_is_object(root)) return why_not(r->why, "%s: no JSON object", r->path);
  if (!read_family(r, root, &config->family)) return false;
  unsigned of = 1u << config->family;
  if (!hf_fields_read(r, root, "", hf_fields, hf_nfields, of, config) || !resolve_sizes(r, config)) return false;
  for (int i = 0; i < hf_nfields; i++)
    if (hf_fields[i].of & of && hf_fields[i].read && !hf_fields[i].read(r, root, config)) return false;
  config->warnings = r->warnings.at;
  config->n_warnings = r->warnings.n;
  return true;
}

static bool read_root_take(Arena *arena, const char *path, json_t *root, HfConfig *config, Why *why) {
  HfReader r = {.arena = arena, .path = path, .why = why};
  *config = (HfConfig){0};
  bool ok = root && read_root(&r, root, config);
  json_decref(root);
  return ok;
}

bool try_hf_config_read(Arena *arena, const char *path, HfConfig *config, Why *why) {
  struct stat info;
  if (!stat(path, &info) && S_ISDIR(info.st_mode)) path = arena_printf(arena, "%s/config.json", path);
  return read_root_take(arena, path, json_parse_file(path, why), config, why);
}

bool try_hf_config_parse(Arena *arena, const char *name, const char *text, size_t nbytes, HfConfig *config, Why *why) {
  return read_root_take(arena, name, json_parse(text, nbytes, name, why), config, why);
}

HfConfig hf_config_read(Arena *arena, const char *path) {
  HfConfig config;
  Why why;
  if (!try_hf_config_read(arena, path, &config, &why))
    fail(FAIL_INPUT, "%s\nhelp: the folder of a Hugging Face model that is built, its config.json as its makers wrote it",
         why.text);
  return config;
}

static json_t *to_json(const HfConfig *config) {
  const NameArchitecture *known = name_architecture(config->family);
  unsigned of = 1u << config->family;
  json_t *root = json_pack("{s:[s], s:s, s:s}", "architectures", known->architecture, "model_type", known->model_type,
                           "torch_dtype", "float32");
  CHECK(root);
  hf_fields_write(root, hf_fields, hf_nfields, of, config);
  for (int i = 0; i < hf_nfields; i++)
    if (hf_fields[i].of & of && hf_fields[i].write) hf_fields[i].write(root, config);
  return root;
}

bool try_hf_config_write(const char *path, const HfConfig *config, Why *why) {
  return try_json_write_take(path, to_json(config), why);
}

void hf_config_print(const HfConfig *config, Text *out) {
  json_t *root = to_json(config);
  char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
  CHECK(text);
  text_printf(out, "%s\n", text);
  free(text);
  json_decref(root);
}
