/* SPDX-License-Identifier: Apache-2.0 */
/* Rope settings: an object rope_parameters, theta in it; or in the older form rope_scaling, theta beside it at the top. */
#include <math.h>
#include <string.h>

#include "io/hf_impl.h"

enum {
  LINEAR = 1 << ROPE_LINEAR,
  DYNAMIC = 1 << ROPE_DYNAMIC,
  WAVELENGTH = 1 << ROPE_WAVELENGTH,
  YARN = 1 << ROPE_YARN,
  STRETCHED = LINEAR | DYNAMIC | WAVELENGTH | YARN,
  EVERY = STRETCHED | 1 << ROPE_DEFAULT
};

/* What is read of an object; HfRope has what follows from it. */
typedef struct Fields {
  HfRope rope;
  double mscale, mscale_all_dim;
} Fields;

#define NUMBER(name, of, use, field, absent, least, most)                                                                          \
  { name, of, use, offsetof(Fields, field), absent, absent, least, most, NULL, NULL, NULL }

static const HfField fields[] = {
    NUMBER("factor", LINEAR | DYNAMIC | WAVELENGTH, HF_REAL, rope.factor, NAN, 1, 1e6),
    NUMBER("factor", YARN, HF_REAL, rope.factor, 0, 1, 1e6), /* absent: the longest over the original length */
    NUMBER("low_freq_factor", WAVELENGTH, HF_REAL, rope.low_freq_factor, NAN, 1e-6, 1e6),
    NUMBER("high_freq_factor", WAVELENGTH, HF_REAL, rope.high_freq_factor, NAN, 1e-6, 1e6),
    NUMBER("original_max_position_embeddings", WAVELENGTH, HF_INT, rope.original_max_position_embeddings, NAN, 1, 1 << 30),
    NUMBER("original_max_position_embeddings", YARN, HF_INT, rope.original_max_position_embeddings, 0, 1, 1 << 30),
    NUMBER("beta_fast", YARN, HF_REAL, rope.beta_fast, 32, 1e-3, 1e6),
    NUMBER("beta_slow", YARN, HF_REAL, rope.beta_slow, 1, 1e-3, 1e6),
    NUMBER("attention_factor", YARN, HF_REAL, rope.attention_factor, 0, 1e-6, 1e6), /* absent: from the three below */
    NUMBER("mscale", YARN, HF_REAL, mscale, 0, 0, 1e3),
    NUMBER("mscale_all_dim", YARN, HF_REAL, mscale_all_dim, 0, 0, 1e3),
    NUMBER("truncate", YARN, HF_BOOL, rope.truncate, 1, 0, 1),
    {.name = "partial_rotary_factor", .of = EVERY, .use = HF_ONLY, .only = "1"},
    {.name = "rope_theta", .of = EVERY, .use = HF_SILENT},
    {.name = "rope_type", .of = EVERY, .use = HF_SILENT},
    {.name = "type", .of = EVERY, .use = HF_SILENT},
};
enum { FIELDS = sizeof fields / sizeof *fields };

static bool read_kind(const HfReader *r, const json_t *rope, const char *prefix, RopeKind *kind) {
  const json_t *value = json_object_get(rope, "rope_type");
  const char *key = value ? "rope_type" : "type";
  if (!value) value = json_object_get(rope, "type");
  const char *name = json_string_value(value);
  *kind = ROPE_DEFAULT;
  if (!value) return true;
  for (*kind = 0; name && *kind < ROPE_KINDS; ++*kind)
    if (!strcmp(name, name_rope(*kind))) return true;
  return why_not(r->why, "%s: %s%s is %.40s; built are %s, %s, %s, %s and %s", r->path, prefix, key, name ? name : "no text",
                 name_rope(0), name_rope(1), name_rope(2), name_rope(3), name_rope(4));
}

/* Settings by type of layer would be objects. */
static bool refuse_objects(HfReader *r, const json_t *object, const char *prefix) {
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)object, name, value) {
    if (json_is_object(value))
      return why_not(r->why, "%s: %s%.80s is an object; only one rope for all layers is built", r->path, prefix, name);
  }
  return true;
}

/* Peng et al., "YaRN", 2023, section 3.4: by how much logits are sharpened for a factor, which cosines and sines each bear the root
 * of. */
static double sharpening(double factor, double mscale) { return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1; }

static bool resolve(const HfReader *r, const char *prefix, const Fields *f, HfConfig *config) {
  HfRope *rope = &config->rope;
  *rope = f->rope;
  if (rope->kind == ROPE_WAVELENGTH && !(rope->high_freq_factor > rope->low_freq_factor))
    return why_not(r->why, "%s: %shigh_freq_factor is not above low_freq_factor", r->path, prefix);
  if (rope->kind == ROPE_DYNAMIC && config->head_dim <= 2)
    return why_not(r->why, "%s: %s of heads of 2 is no dynamic rope", r->path, prefix);
  if (rope->kind != ROPE_YARN) return true;
  if (rope->theta <= 1) return why_not(r->why, "%s: rope_theta is 1; yarn wants more", r->path);
  if (!rope->original_max_position_embeddings) rope->original_max_position_embeddings = config->max_position_embeddings;
  if (!rope->factor) rope->factor = (double)config->max_position_embeddings / (double)rope->original_max_position_embeddings;
  if (rope->factor < 1)
    return why_not(r->why, "%s: %soriginal_max_position_embeddings is more than max_position_embeddings", r->path, prefix);
  if (rope->attention_factor) return true;
  rope->attention_factor = sharpening(rope->factor, 1);
  if (f->mscale && f->mscale_all_dim)
    rope->attention_factor = sharpening(rope->factor, f->mscale) / sharpening(rope->factor, f->mscale_all_dim);
  return true;
}

/* Files for old and new readers have both forms; theta may stand in the older one, or beside it. */
static bool say_the_same(const json_t *newer, const json_t *older, json_t *theta) {
  const char *name;
  json_t *value, *copy = json_copy((json_t *)older);
  if (theta && !json_object_get(copy, "rope_theta")) json_object_set(copy, "rope_theta", theta);
  bool same = json_object_size(copy) == json_object_size(newer);
  json_object_foreach(copy, name, value) {
    const json_t *other = json_object_get(newer, name);
    bool numbers = json_is_number(value) && json_is_number(other);
    same = same && other && (numbers ? json_number_value(value) == json_number_value(other) : json_equal(value, other));
  }
  json_decref(copy);
  return same;
}

bool hf_rope_read(HfReader *r, const json_t *root, HfConfig *config) {
  const json_t *newer = json_object_get(root, "rope_parameters"), *older = json_object_get(root, "rope_scaling");
  if (json_is_null(newer)) newer = NULL;
  if (json_is_null(older)) older = NULL;
  if (newer && older && !say_the_same(newer, older, json_object_get(root, "rope_theta")))
    return why_not(r->why, "%s: rope_parameters and rope_scaling, which differ", r->path);
  const json_t *object = newer ? newer : older;
  const char *prefix = newer ? "rope_parameters." : "rope_scaling.";
  if (object && !json_is_object(object))
    return why_not(r->why, "%s: %s is no object", r->path, newer ? "rope_parameters" : "rope_scaling");
  if (config->head_dim % 2)
    return why_not(r->why, "%s: head_dim %lld is odd; rotary positions turn pairs", r->path, (long long)config->head_dim);

  HfField theta = NUMBER("rope_theta", EVERY, HF_REAL, rope.theta, 10000, 1, 1e15);
  if (config->rope.theta > 0) theta.absent = theta.null = config->rope.theta;
  Fields f = {0};
  bool inside = json_object_get(object, "rope_theta") != NULL;
  if (!hf_field_read(r, inside ? object : root, inside ? prefix : "", &theta, &f)) return false;
  if (!read_kind(r, object, prefix, &f.rope.kind)) return false;
  if (object && !refuse_objects(r, object, prefix)) return false;
  if (object && !hf_fields_read(r, object, prefix, fields, FIELDS, 1u << f.rope.kind, &f)) return false;
  return resolve(r, prefix, &f, config);
}

void hf_rope_write(json_t *root, const HfConfig *config) {
  json_t *scaling = json_null();
  if (config->rope.kind != ROPE_DEFAULT) {
    Fields f = {.rope = config->rope};
    scaling = json_pack("{s:s}", "rope_type", name_rope(config->rope.kind));
    hf_fields_write(scaling, fields, FIELDS, 1u << config->rope.kind, &f);
  }
  CHECK(!json_object_set_new(root, "rope_theta", json_real(config->rope.theta)));
  CHECK(!json_object_set_new(root, "rope_scaling", scaling));
}
