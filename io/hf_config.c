/* SPDX-License-Identifier: Apache-2.0 */
/* One table of fields reads, checks and writes; what is no plain number has a function.  A field that no table names is a
 * warning: newer versions add fields, most of which do not touch the arithmetic. */
#include "io/hf_config.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/json.h"
#include "src/base/text.h"
#include "src/base/vec.h"

enum { WIDEST = 1 << 24 }; /* no model's width, vocabulary or length comes near; products of two stay exact */

typedef enum FieldKind { FIELD_INT, FIELD_REAL, FIELD_BOOL } FieldKind;

typedef struct Field {
  const char *name;
  FieldKind kind;
  bool required;
  size_t offset;      /* in HfConfig or HfRope */
  double otherwise;   /* where absent or null */
  double least, most; /* inclusive */
} Field;

static const Field fields[] = {
    {"hidden_size", FIELD_INT, true, offsetof(HfConfig, hidden_size), 0, 1, WIDEST},
    {"intermediate_size", FIELD_INT, true, offsetof(HfConfig, intermediate_size), 0, 1, WIDEST},
    {"num_hidden_layers", FIELD_INT, true, offsetof(HfConfig, num_hidden_layers), 0, 1, 10000},
    {"num_attention_heads", FIELD_INT, true, offsetof(HfConfig, num_attention_heads), 0, 1, 65536},
    {"num_key_value_heads", FIELD_INT, false, offsetof(HfConfig, num_key_value_heads), 0, 1, 65536},
    {"head_dim", FIELD_INT, false, offsetof(HfConfig, head_dim), 0, 1, 65536},
    {"vocab_size", FIELD_INT, true, offsetof(HfConfig, vocab_size), 0, 1, WIDEST},
    {"max_position_embeddings", FIELD_INT, false, offsetof(HfConfig, max_position_embeddings), 2048, 1, 1 << 30},
    {"rms_norm_eps", FIELD_REAL, false, offsetof(HfConfig, rms_norm_eps), 1e-6, 0, 1},
    {"initializer_range", FIELD_REAL, false, offsetof(HfConfig, initializer_range), 0.02, 0, 100},
    {"tie_word_embeddings", FIELD_BOOL, false, offsetof(HfConfig, tie_word_embeddings), 0, 0, 1},
};

static const Field stretch_fields[] = {
    {"factor", FIELD_REAL, true, offsetof(HfRope, factor), 0, 1, 1e6},
    {"low_freq_factor", FIELD_REAL, true, offsetof(HfRope, low_freq_factor), 0, 1e-6, 1e6},
    {"high_freq_factor", FIELD_REAL, true, offsetof(HfRope, high_freq_factor), 0, 1e-6, 1e6},
    {"original_max_position_embeddings", FIELD_INT, true, offsetof(HfRope, original_max_position_embeddings), 0, 1, 1 << 30},
};

/* Fields with one value that is built: false, or zero, or a text, or null. */
static const struct {
  const char *name, *text; /* text NULL: false, 0 or null */
} fixed[] = {
    {"attention_bias", NULL},      {"mlp_bias", NULL}, {"hidden_act", "silu"}, {"attention_dropout", NULL},
    {"quantization_config", NULL},
};

/* Read elsewhere, or without effect on the arithmetic. */
static const char *const silent[] = {
    "_name_or_path",  "architectures",   "bos_token_id", "dtype",      "eos_token_id", "model_type",           "pad_token_id",
    "pretraining_tp", "rope_parameters", "rope_scaling", "rope_theta", "torch_dtype",  "transformers_version", "use_cache",
};

static const char *const rope_names[] = {"rope_theta", "rope_type", "type"};

enum {
  FIELDS = sizeof fields / sizeof *fields,
  STRETCH_FIELDS = sizeof stretch_fields / sizeof *stretch_fields,
  FIXED = sizeof fixed / sizeof *fixed,
  SILENT = sizeof silent / sizeof *silent,
  ROPE_NAMES = sizeof rope_names / sizeof *rope_names,
};

typedef struct Reader {
  Arena *arena;
  const char *path;
  Why *why;
  VEC(const char *) warnings;
} Reader;

/* --- fields by table ---------------------------------------------------------------------------------------------------- */

static bool read_field(const Reader *r, const json_t *object, const char *prefix, const Field *field, void *into) {
  const json_t *value = json_object_get(object, field->name);
  double number = field->otherwise;
  void *at = (char *)into + field->offset;
  if (value && !json_is_null(value)) {
    bool fits = field->kind == FIELD_INT    ? json_is_integer(value)
                : field->kind == FIELD_BOOL ? json_is_boolean(value)
                                            : json_is_number(value);
    static const char *const words[] = {"a whole number", "a number", "true or false"};
    if (!fits) return why_not(r->why, "%s: %s%s is not %s", r->path, prefix, field->name, words[field->kind]);
    number = json_is_boolean(value) ? json_is_true(value) : json_number_value(value);
    if (!(number >= field->least && number <= field->most)) {
      char a[NUM_TEXT], b[NUM_TEXT], c[NUM_TEXT];
      return why_not(r->why, "%s: %s%s is %s, not within %s and %s", r->path, prefix, field->name, num_double(number, a),
                     num_double(field->least, b), num_double(field->most, c));
    }
  } else if (field->required) {
    return why_not(r->why, "%s: %s%s is missing", r->path, prefix, field->name);
  }
  if (field->kind == FIELD_INT) *(int64_t *)at = (int64_t)number;
  if (field->kind == FIELD_REAL) *(double *)at = number;
  if (field->kind == FIELD_BOOL) *(bool *)at = number != 0;
  return true;
}

static bool read_fields(const Reader *r, const json_t *object, const char *prefix, const Field *table, int n, void *into) {
  for (int i = 0; i < n; i++)
    if (!read_field(r, object, prefix, &table[i], into)) return false;
  return true;
}

static bool check_fixed(const Reader *r, const json_t *root) {
  for (int i = 0; i < FIXED; i++) {
    const json_t *value = json_object_get(root, fixed[i].name);
    if (!value || json_is_null(value)) continue;
    const char *text = json_string_value(value);
    bool fits = fixed[i].text ? text && !strcmp(text, fixed[i].text)
                              : json_is_false(value) || (json_is_number(value) && json_number_value(value) == 0);
    if (fits) continue;
    char *given = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    CHECK(given);
    why_not(r->why, "%s: %s is %.60s; only %s is built", r->path, fixed[i].name, given,
            fixed[i].text            ? fixed[i].text
            : json_is_boolean(value) ? "false"
                                     : "none");
    free(given);
    return false;
  }
  return true;
}

static bool is_known(const char *name) {
  for (int i = 0; i < FIELDS; i++)
    if (!strcmp(name, fields[i].name)) return true;
  for (int i = 0; i < FIXED; i++)
    if (!strcmp(name, fixed[i].name)) return true;
  for (int i = 0; i < SILENT; i++)
    if (!strcmp(name, silent[i])) return true;
  return false;
}

static void warn(Reader *r, const char *prefix, const char *name) {
  const char *text = arena_printf(r->arena, "%s: %s%.100s is not understood, and has no effect", r->path, prefix, name);
  vec_push(r->arena, &r->warnings, text);
}

static void warn_unknown(Reader *r, json_t *root) {
  const char *name;
  json_t *value;
  json_object_foreach(root, name, value) {
    if (!is_known(name)) warn(r, "", name);
  }
}

/* --- what is no plain number -------------------------------------------------------------------------------------------- */

static bool read_architecture(const Reader *r, const json_t *root, int *architecture) {
  const json_t *list = json_object_get(root, "architectures");
  const char *name = json_string_value(json_array_get(list, 0)), *type = json_string_value(json_object_get(root, "model_type"));
  if (!name && !type) return why_not(r->why, "%s: neither architectures nor model_type", r->path);
  for (*architecture = 0; *architecture < name_architectures(); ++*architecture) {
    const NameArchitecture *known = name_architecture(*architecture);
    if (name ? !strcmp(name, known->architecture) : !strcmp(type, known->model_type)) return true;
  }
  if (name) return why_not(r->why, "%s: architectures is %.80s; built is %s", r->path, name, name_architecture(0)->architecture);
  return why_not(r->why, "%s: model_type is %.80s; built is %s", r->path, type, name_architecture(0)->model_type);
}

static bool read_rope_kind(const Reader *r, const json_t *rope, const char *prefix, RopeKind *kind) {
  const json_t *value = json_object_get(rope, "rope_type");
  const char *key = value ? "rope_type" : "type";
  if (!value) value = json_object_get(rope, "type");
  const char *name = json_string_value(value);
  *kind = ROPE_DEFAULT;
  if (!value) return true;
  for (*kind = 0; name && *kind < ROPE_KINDS; ++*kind)
    if (!strcmp(name, name_rope(*kind))) return true;
  return why_not(r->why, "%s: %s%s is %.40s; built are %s and %s", r->path, prefix, key, name ? name : "no text",
                 name_rope(ROPE_DEFAULT), name_rope(ROPE_WAVELENGTH));
}

/* Settings a layer type would be objects. */
static bool warn_rope(Reader *r, json_t *rope, const char *prefix, RopeKind kind) {
  const char *name;
  json_t *value;
  json_object_foreach(rope, name, value) {
    bool known = false;
    for (int i = 0; i < ROPE_NAMES; i++) known = known || !strcmp(name, rope_names[i]);
    for (int i = 0; i < STRETCH_FIELDS; i++) known = known || (kind == ROPE_WAVELENGTH && !strcmp(name, stretch_fields[i].name));
    if (known) continue;
    if (json_is_object(value))
      return why_not(r->why, "%s: %s%.80s is an object; only one rope for all layers is built", r->path, prefix, name);
    warn(r, prefix, name);
  }
  return true;
}

static bool read_rope(Reader *r, const json_t *root, HfRope *rope) {
  json_t *newer = json_object_get(root, "rope_parameters"), *older = json_object_get(root, "rope_scaling");
  if (json_is_null(newer)) newer = NULL;
  if (json_is_null(older)) older = NULL;
  if (newer && older) return why_not(r->why, "%s: both rope_parameters and rope_scaling", r->path);
  json_t *object = newer ? newer : older;
  const char *prefix = newer ? "rope_parameters." : "rope_scaling.";
  if (object && !json_is_object(object))
    return why_not(r->why, "%s: %s is no object", r->path, newer ? "rope_parameters" : "rope_scaling");

  /* theta lies in rope_parameters, or, in the older form, at the top */
  static const Field theta = {"rope_theta", FIELD_REAL, false, offsetof(HfRope, theta), 10000, 1, 1e15};
  bool inside = json_object_get(object, "rope_theta") != NULL;
  if (!read_field(r, inside ? object : root, inside ? prefix : "", &theta, rope)) return false;
  if (!read_rope_kind(r, object, prefix, &rope->kind)) return false;
  if (object && !warn_rope(r, object, prefix, rope->kind)) return false;
  if (rope->kind == ROPE_DEFAULT) return true;
  if (!read_fields(r, object, prefix, stretch_fields, STRETCH_FIELDS, rope)) return false;
  return rope->high_freq_factor > rope->low_freq_factor ||
         why_not(r->why, "%s: %shigh_freq_factor is not above low_freq_factor", r->path, prefix);
}

/* What one field says about another. */
static bool check_sizes(const Reader *r, HfConfig *c) {
  if (!c->num_key_value_heads) c->num_key_value_heads = c->num_attention_heads;
  if (c->num_attention_heads % c->num_key_value_heads)
    return why_not(r->why, "%s: num_attention_heads %lld is no multiple of num_key_value_heads %lld", r->path,
                   (long long)c->num_attention_heads, (long long)c->num_key_value_heads);
  if (!c->head_dim && c->hidden_size % c->num_attention_heads)
    return why_not(r->why, "%s: hidden_size %lld is no multiple of num_attention_heads %lld, and there is no head_dim", r->path,
                   (long long)c->hidden_size, (long long)c->num_attention_heads);
  if (!c->head_dim) c->head_dim = c->hidden_size / c->num_attention_heads;
  if (c->head_dim % 2)
    return why_not(r->why, "%s: head_dim %lld is odd; rotary positions turn pairs", r->path, (long long)c->head_dim);
  return true;
}

/* --- public ------------------------------------------------------------------------------------------------------------- */

static bool read_root(Reader *r, json_t *root, HfConfig *config) {
  if (!json_is_object(root)) return why_not(r->why, "%s: no JSON object", r->path);
  if (!read_architecture(r, root, &config->architecture) || !check_fixed(r, root)) return false;
  if (!read_fields(r, root, "", fields, FIELDS, config) || !check_sizes(r, config)) return false;
  if (!read_rope(r, root, &config->rope)) return false;
  warn_unknown(r, root);
  config->warnings = r->warnings.at;
  config->n_warnings = r->warnings.n;
  return true;
}

static bool read_root_take(Arena *arena, const char *path, json_t *root, HfConfig *config, Why *why) {
  Reader r = {.arena = arena, .path = path, .why = why};
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

bool try_hf_config_parse(Arena *arena, const char *name, const char *text, HfConfig *config, Why *why) {
  return read_root_take(arena, name, json_parse(text, strlen(text), name, why), config, why);
}

HfConfig hf_config_read(Arena *arena, const char *path) {
  HfConfig config;
  Why why;
  if (!try_hf_config_read(arena, path, &config, &why))
    fail(FAIL_INPUT, "%s\nhelp: give the folder of a Hugging Face model with architecture %s", why.text,
         name_architecture(0)->architecture);
  return config;
}

static void put_fields(json_t *object, const Field *table, int n, const void *from) {
  for (int i = 0; i < n; i++) {
    const void *at = (const char *)from + table[i].offset;
    json_t *value = table[i].kind == FIELD_INT    ? json_integer(*(const int64_t *)at)
                    : table[i].kind == FIELD_REAL ? json_real(*(const double *)at)
                                                  : json_boolean(*(const bool *)at);
    CHECK(!json_object_set_new(object, table[i].name, value));
  }
}

static json_t *to_json(const HfConfig *config) {
  const NameArchitecture *known = name_architecture(config->architecture);
  json_t *root = json_pack("{s:[s], s:s, s:b, s:b, s:s, s:s}", "architectures", known->architecture, "model_type",
                           known->model_type, "attention_bias", 0, "mlp_bias", 0, "hidden_act", "silu", "torch_dtype", "float32");
  CHECK(root);
  put_fields(root, fields, FIELDS, config);
  json_t *scaling = json_null();
  if (config->rope.kind != ROPE_DEFAULT) {
    scaling = json_pack("{s:s}", "rope_type", name_rope(config->rope.kind));
    put_fields(scaling, stretch_fields, STRETCH_FIELDS, &config->rope);
  }
  CHECK(!json_object_set_new(root, "rope_theta", json_real(config->rope.theta)));
  CHECK(!json_object_set_new(root, "rope_scaling", scaling));
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
