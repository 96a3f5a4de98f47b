/* SPDX-License-Identifier: Apache-2.0 */
#include "io/reference.h"

#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "io/names.h"
#include "io/safetensors.h"
#include "src/base/text.h"
#include "src/base/vec.h"

enum { DOES_NOT_COUNT = -100 };

struct Reference {
  Arena *arena;
  const char *path;
  Safetensors *file;
};

Reference *reference_open(Arena *arena, const char *path) {
  Reference *ref = arena_new(arena, Reference);
  *ref = (Reference){arena, arena_strdup(arena, path), safetensors_open(path)};
  return ref;
}

void reference_close(Reference *ref) { safetensors_close(ref->file); }

static const SafeTensor *find(const Reference *ref, const char *name) {
  const SafeTensor *t = safetensors_find(ref->file, name);
  if (!t) fail(FAIL_INPUT, "%s has no tensor '%s'\nhelp: test/golden/README.md says what a reference holds", ref->path, name);
  return t;
}

void reference_read(const Reference *ref, const char *name, float *out, int64_t n) {
  int64_t part;
  const char *fused = safetensors_find(ref->file, name) ? NULL : name_fused(ref->arena, name, &part);
  const SafeTensor *t = find(ref, fused ? fused : name);
  if (fused && part < t->n / n) {
    safetensors_read_f32(ref->file, t, part * n, n, out);
    return;
  }
  if (t->n != n)
    fail(FAIL_INPUT, "%s: '%s' has %lld elements, the model makes %lld\nhelp: is it another model's reference?", ref->path, name,
         (long long)t->n, (long long)n);
  safetensors_read_f32(ref->file, t, 0, n, out);
}

/* Ids in [least,vocab). */
static int64_t *read_ids(const Reference *ref, const char *name, int64_t least, int64_t vocab, int rank, int64_t *shape) {
  const SafeTensor *t = find(ref, name);
  if (t->rank != rank) fail(FAIL_INPUT, "%s: '%s' has %d dimensions, not %d", ref->path, name, t->rank, rank);
  if (t->n == 0) fail(FAIL_INPUT, "%s: '%s' is empty", ref->path, name);
  for (int i = 0; i < rank; i++) shape[i] = t->shape[i];
  int64_t *ids = arena_array(ref->arena, int64_t, t->n);
  safetensors_read_i64(ref->file, t, 0, t->n, ids);
  for (int64_t i = 0; i < t->n; i++)
    if (ids[i] < least || ids[i] >= vocab)
      fail(FAIL_INPUT, "%s: '%s' has %lld at %lld, the model's vocabulary ends at %lld\nhelp: is it another model's reference?",
           ref->path, name, (long long)ids[i], (long long)i, (long long)vocab - 1);
  return ids;
}

/* Another matrix of a batch, of the shape of its ids. */
static int64_t *read_beside(const Reference *ref, const char *name, int64_t least, int64_t end, const int64_t ids[2]) {
  int64_t shape[2], *values = read_ids(ref, name, least, end, 2, shape);
  if (ids[0] != shape[0] || ids[1] != shape[1])
    fail(FAIL_INPUT, "%s: 'input_ids' is %lldx%lld, '%s' is %lldx%lld\nhelp: test/golden/README.md says what a reference holds",
         ref->path, (long long)ids[0], (long long)ids[1], name, (long long)shape[0], (long long)shape[1]);
  return values;
}

void reference_read_batch(const Reference *ref, int64_t vocab, int64_t padding, ReferenceBatch *batch) {
  int64_t ids[2];
  batch->ids = read_ids(ref, "input_ids", 0, vocab, 2, ids);
  int64_t *labels = read_beside(ref, "labels", INT32_MIN, vocab, ids), n = ids[0] * ids[1];
  int64_t *mask = safetensors_find(ref->file, "attention_mask") ? read_beside(ref, "attention_mask", 0, 2, ids) : NULL;
  for (int64_t i = 0; i < n; i++) {
    if (labels[i] < 0) labels[i] = DOES_NOT_COUNT;
    if (!mask || mask[i]) continue;
    if (labels[i] >= 0) fail(FAIL_INPUT, "%s: 'labels' counts at %lld, where 'attention_mask' is 0", ref->path, (long long)i);
    labels[i] = padding;
  }
  batch->labels = labels;
  batch->mask = mask;
  batch->rows = ids[0];
  batch->columns = ids[1];
}

/* --- dump ------------------------------------------------------------------------------------------------------------------ */

struct ReferenceDump {
  Arena *arena;
  const char *path;
  VEC(SafeTensor) tensors;
  VEC(const void *) values;
};

ReferenceDump *reference_dump_open(Arena *arena, const char *path) {
  ReferenceDump *dump = arena_new(arena, ReferenceDump);
  dump->arena = arena;
  dump->path = path;
  return dump;
}

static size_t dump_bytes(const SafeTensor *t) { return (t->type == SAFE_I64 ? sizeof(int64_t) : sizeof(float)) * (size_t)t->n; }

static void dump_tensor(ReferenceDump *dump, SafeTensor t, const int64_t *shape, const void *values) {
  if (!dump) return;
  t.name = arena_strdup(dump->arena, t.name);
  t.n = 1;
  for (int i = 0; i < t.rank; i++) t.n *= t.shape[i] = shape[i];
  vec_push(dump->arena, &dump->tensors, t);
  vec_push(dump->arena, &dump->values, memcpy(arena_alloc(dump->arena, dump_bytes(&t)), values, dump_bytes(&t)));
}

void reference_dump(ReferenceDump *dump, const char *name, int rank, const int64_t *shape, const float *values) {
  dump_tensor(dump, (SafeTensor){.name = name, .type = SAFE_F32, .rank = rank}, shape, values);
}

void reference_dump_ids(ReferenceDump *dump, const char *name, int rank, const int64_t *shape, const int64_t *ids) {
  dump_tensor(dump, (SafeTensor){.name = name, .type = SAFE_I64, .rank = rank}, shape, ids);
}

void reference_dump_close(ReferenceDump *dump) {
  if (!dump) return;
  SafeWriter *w = safe_writer_open(dump->path, dump->tensors.at, dump->tensors.n);
  for (int i = 0; i < dump->tensors.n; i++) safe_writer_add(w, dump->values.at[i], dump_bytes(&dump->tensors.at[i]));
  safe_writer_close(w);
}

/* --- training --------------------------------------------------------------------------------------------------------------- */

static double number(const json_t *object, const char *key, const char *path) {
  const json_t *value = json_object_get(object, key);
  if (!json_is_number(value))
    fail(FAIL_INPUT, "%s: no number '%s'\nhelp: test/golden/README.md says what a reference holds", path, key);
  return json_number_value(value);
}

/* "0.1 on parameters of 2 or more dimensions, …": the number it starts with; or a number. */
static double decay(const json_t *root, const char *path) {
  const json_t *value = json_object_get(root, "weight_decay");
  return json_is_string(value) ? strtod(json_string_value(value), NULL) : number(root, "weight_decay", path);
}

static void read_steps(ReferenceTraining *t, Arena *arena, const json_t *steps, const char *path) {
  double *column[3];
  static const char *const keys[] = {"loss", "grad_norm", "lr"};
  t->steps = (int)json_array_size(steps);
  for (int k = 0; k < 3; k++) column[k] = arena_array(arena, double, t->steps);
  for (int s = 0; s < t->steps; s++)
    for (int k = 0; k < 3; k++) column[k][s] = number(json_array_get(steps, (size_t)s), keys[k], path);
  t->loss = column[0];
  t->grad_norm = column[1];
  t->lr = column[2];
}

ReferenceTraining *reference_training_open(Arena *arena, const char *path, int64_t vocab) {
  Why why;
  json_t *root = json_parse_file(path, &why);
  if (!root) fail(FAIL_INPUT, "%s", why.text);
  ReferenceTraining *t = arena_new(arena, ReferenceTraining);
  const json_t *betas = json_object_get(root, "betas");
  for (size_t i = 0; i < 2; i++)
    if (!json_is_number(json_array_get(betas, i))) fail(FAIL_INPUT, "%s: 'betas' is not a list of two numbers", path);
  t->beta1 = json_number_value(json_array_get(betas, 0));
  t->beta2 = json_number_value(json_array_get(betas, 1));
  t->eps = number(root, "eps", path);
  t->clip = number(root, "clip", path);
  t->weight_decay = decay(root, path);
  read_steps(t, arena, json_object_get(root, "steps"), path);
  json_decref(root);
  size_t stem = strlen(path) - (text_ends(path, ".json") ? strlen(".json") : 0);
  Reference *tokens = reference_open(arena, arena_printf(arena, "%.*s.safetensors", (int)stem, path));
  int64_t shape[3];
  t->tokens = read_ids(tokens, "tokens", 0, vocab, 3, shape);
  if (shape[0] != t->steps || shape[2] < 2)
    fail(FAIL_INPUT, "%s has %d steps, %s tokens of %lld", path, t->steps, tokens->path, (long long)shape[0]);
  t->rows = shape[1];
  t->row = shape[2];
  reference_close(tokens);
  return t;
}
