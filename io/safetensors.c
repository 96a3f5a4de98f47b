/* SPDX-License-Identifier: Apache-2.0 */
/* Reading: the header is held against the file before anything else believes it.  Tensors must lie one after another from
 * the header's end to the file's end, each as long as its shape and type say; then no later read can leave the file.
 * Bytes are fetched with pread, not mapped, so that a file cut short afterwards is an error and not a signal. */
#include "io/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/json.h"
#include "src/base/ahead.h"
#include "src/base/file.h"
#include "src/base/vec.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensor files are little-endian and read as they lie");

enum { HEADER_MAX = 100000000 }; /* bytes; the format's own bound */
#define ANY UINT64_MAX           /* of a buffer's length: it is as long as its tensors say */

static const struct {
  const char *name;
  int bits;
} types[SAFE_TYPES] = {
    [SAFE_F32] = {"F32", 32},
    [SAFE_F16] = {"F16", 16},
    [SAFE_BF16] = {"BF16", 16},
    [SAFE_I64] = {"I64", 64},
    [SAFE_I32] = {"I32", 32},
    [SAFE_F64] = {"F64", 64},
    [SAFE_I16] = {"I16", 16},
    [SAFE_I8] = {"I8", 8},
    [SAFE_U64] = {"U64", 64},
    [SAFE_U32] = {"U32", 32},
    [SAFE_U16] = {"U16", 16},
    [SAFE_U8] = {"U8", 8},
    [SAFE_BOOL] = {"BOOL", 8},
    [SAFE_C64] = {"C64", 64},
    [SAFE_F8_E4M3] = {"F8_E4M3", 8},
    [SAFE_F8_E5M2] = {"F8_E5M2", 8},
    [SAFE_F8_E8M0] = {"F8_E8M0", 8},
    [SAFE_F8_E4M3FNUZ] = {"F8_E4M3FNUZ", 8},
    [SAFE_F8_E5M2FNUZ] = {"F8_E5M2FNUZ", 8},
    [SAFE_F6_E2M3] = {"F6_E2M3", 6},
    [SAFE_F6_E3M2] = {"F6_E3M2", 6},
    [SAFE_F4] = {"F4", 4},
};

typedef struct File {
  char *path;
  int fd;
} File;

struct Safetensors {
  Arena *arena;
  VEC(File) files;
  VEC(SafeTensor) tensors;
  const SafeTensor **by_name; /* sorted */
  Ahead *ahead;
};

static const struct {
  SafeType type;
  DType dtype;
} alike[] = {{SAFE_F32, DT_F32}, {SAFE_F16, DT_F16}, {SAFE_BF16, DT_BF16}, {SAFE_I64, DT_I64},
             {SAFE_I32, DT_I32}, {SAFE_I16, DT_I16}, {SAFE_BOOL, DT_PRED}, {SAFE_U8, DT_PRED}};
enum { ALIKE = sizeof alike / sizeof *alike };

const char *safe_type_name(SafeType type) { return types[type].name; }
int safe_type_bits(SafeType type) { return types[type].bits; }

bool safe_type_dtype(SafeType type, DType *dtype) {
  int i = 0;
  while (i < ALIKE && alike[i].type != type) i++;
  if (i < ALIKE) *dtype = alike[i].dtype;
  return i < ALIKE;
}

SafeType safe_type_of(DType dtype) {
  int i = 0;
  while (alike[i].dtype != dtype) CHECK(++i < ALIKE);
  return alike[i].type;
}

/* --- one file's header -------------------------------------------------------------------------------------------------- */

static bool read_shape(const json_t *shape, SafeTensor *t, const char *path, Why *why) {
  if (!json_is_array(shape)) return why_not(why, "%s: tensor '%s': no shape", path, t->name);
  if (json_array_size(shape) > SAFE_MAX_RANK)
    return why_not(why, "%s: tensor '%s' has %zu dimensions; at most %d are read", path, t->name, json_array_size(shape),
                   SAFE_MAX_RANK);
  t->rank = (int)json_array_size(shape);
  t->n = 1;
  for (int k = 0; k < t->rank; k++) {
    const json_t *extent = json_array_get(shape, (size_t)k);
    t->shape[k] = json_is_integer(extent) ? json_integer_value(extent) : -1;
    if (t->shape[k] < 0 || __builtin_mul_overflow(t->n, t->shape[k], &t->n))
      return why_not(why, "%s: tensor '%s': bad shape (dimension %d)", path, t->name, k);
  }
  return true;
}

/* nbytes is the buffer's length; offsets count from its start. */
static bool read_tensor(const json_t *row, SafeTensor *t, uint64_t nbytes, const char *path, Why *why) {
  const char *type = json_string_value(json_object_get(row, "dtype"));
  if (!type) return why_not(why, "%s: tensor '%s': no dtype", path, t->name);
  for (t->type = 0; t->type < SAFE_TYPES; t->type++)
    if (!strcmp(type, types[t->type].name)) break;
  if (t->type == SAFE_TYPES) return why_not(why, "%s: tensor '%s': unknown dtype '%.20s'", path, t->name, type);
  if (!read_shape(json_object_get(row, "shape"), t, path, why)) return false;

  const json_t *offsets = json_object_get(row, "data_offsets");
  const json_t *from = json_array_get(offsets, 0), *to = json_array_get(offsets, 1);
  if (json_array_size(offsets) != 2 || !json_is_integer(from) || !json_is_integer(to))
    return why_not(why, "%s: tensor '%s': data_offsets are not two integers", path, t->name);
  int64_t begin = json_integer_value(from), end = json_integer_value(to), bits;
  if (begin < 0 || end < begin || (uint64_t)end > nbytes)
    return why_not(why, "%s: tensor '%s' is said to lie at bytes %" PRId64 " to %" PRId64 " of %" PRIu64, path, t->name, begin, end,
                   nbytes);
  t->offset = (uint64_t)begin;
  t->nbytes = (uint64_t)(end - begin);
  if (__builtin_mul_overflow(t->n, (int64_t)types[t->type].bits, &bits) || bits % 8 || (uint64_t)bits / 8 != t->nbytes)
    return why_not(why, "%s: tensor '%s': its shape and %s do not make the %" PRIu64 " bytes of its data_offsets", path, t->name,
                   type, t->nbytes);
  return true;
}

static int by_offset(const void *a, const void *b) {
  const SafeTensor *x = a, *y = b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return (x->nbytes > y->nbytes) - (x->nbytes < y->nbytes); /* empty ones first */
}

/* One after another from 0 to nbytes. */
static bool check_cover(const SafeTensor *t, int n, uint64_t nbytes, const char *path, Why *why) {
  uint64_t at = 0;
  for (int i = 0; i < n; i++) {
    if (t[i].offset < at) return why_not(why, "%s: tensors '%s' and '%s' overlap", path, t[i - 1].name, t[i].name);
    if (t[i].offset > at)
      return why_not(why, "%s: %" PRIu64 " bytes before tensor '%s' belong to none", path, t[i].offset - at, t[i].name);
    at += t[i].nbytes;
  }
  return at == nbytes || nbytes == ANY || why_not(why, "%s: the last %" PRIu64 " bytes belong to no tensor", path, nbytes - at);
}

static bool check_metadata(json_t *metadata, const char *path, Why *why) {
  const char *key;
  json_t *value;
  if (!json_is_object(metadata)) return why_not(why, "%s: __metadata__ is not an object", path);
  json_object_foreach(metadata, key, value) {
    if (!json_is_string(value)) return why_not(why, "%s: __metadata__ '%.100s' is not a text", path, key);
  }
  return true;
}

static bool take_header(Safetensors *s, json_t *header, uint64_t start, uint64_t nbytes, const char *path, Why *why) {
  const char *name;
  json_t *row;
  int first = s->tensors.n;
  json_object_foreach(header, name, row) {
    if (!strcmp(name, "__metadata__")) {
      if (!check_metadata(row, path, why)) return false;
      continue;
    }
    SafeTensor t = {.name = arena_strdup(s->arena, name), .file = s->files.n - 1};
    if (!read_tensor(row, &t, nbytes, path, why)) return false;
    vec_push(s->arena, &s->tensors, t);
  }
  int n = s->tensors.n - first;
  SafeTensor *mine = n ? s->tensors.at + first : NULL;
  if (n) qsort(mine, (size_t)n, sizeof *mine, by_offset);
  if (!check_cover(mine, n, nbytes, path, why)) return false;
  for (int i = 0; i < n; i++) mine[i].offset += start;
  return true;
}

static bool read_header(int fd, uint64_t size, const char *path, json_t **header, uint64_t *start, Why *why) {
  unsigned char length[8];
  uint64_t n = 0;
  if (size < 8 || !fd_read_at(fd, length, 8, 0)) return why_not(why, "%s: too short for a safetensors file", path);
  for (int i = 0; i < 8; i++) n |= (uint64_t)length[i] << 8 * i;
  if (file_is_pointer(length, 8)) return why_not(why, "%s: " FILE_POINTER, path);
  if (n > HEADER_MAX || n > size - 8)
    return why_not(why, "%s: not a safetensors file, or cut short: a header of %" PRIu64 " bytes in a file of %" PRIu64, path, n,
                   size);
  char *text = xmalloc((size_t)n + 1);
  errno = 0;
  bool ok = fd_read_at(fd, text, (size_t)n, 8);
  text[n] = 0;
  if (!ok) {
    why_not(why, "%s: %s", path, errno ? strerror(errno) : "cut short while being read");
  } else if (*text != '{') {
    ok = why_not(why, "%s: not a safetensors file: its header does not begin with '{'", path);
  } else {
    *header = json_parse(text, (size_t)n, path, why);
    ok = *header != NULL;
  }
  free(text);
  *start = 8 + n;
  return ok;
}

/* Appends the file's tensors. */
static bool add_file(Safetensors *s, const char *path, Why *why) {
  struct stat info;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return why_not(why, "%s: %s", path, strerror(errno));
  vec_push(s->arena, &s->files, (File){arena_strdup(s->arena, path), fd});
  if (fstat(fd, &info)) return why_not(why, "%s: %s", path, strerror(errno));
  if (!S_ISREG(info.st_mode)) return why_not(why, "%s: not a plain file", path);
  json_t *header = NULL;
  uint64_t size = (uint64_t)info.st_size, start = 0;
  if (!read_header(fd, size, path, &header, &start, why)) return false;
  bool ok = take_header(s, header, start, size - start, path, why);
  json_decref(header);
  return ok;
}

static int by_name(const void *a, const void *b) {
  return strcmp((*(const SafeTensor *const *)a)->name, (*(const SafeTensor *const *)b)->name);
}

static bool sort_names(Safetensors *s, Why *why) {
  int n = s->tensors.n;
  s->by_name = arena_array(s->arena, const SafeTensor *, n);
  for (int i = 0; i < n; i++) s->by_name[i] = &s->tensors.at[i];
  if (n) qsort(s->by_name, (size_t)n, sizeof *s->by_name, by_name);
  for (int i = 1; i < n; i++)
    if (!strcmp(s->by_name[i - 1]->name, s->by_name[i]->name))
      return why_not(why, "tensor '%s' is both in %s and in %s", s->by_name[i]->name, safetensors_file(s, s->by_name[i - 1]),
                     safetensors_file(s, s->by_name[i]));
  return true;
}

Safetensors *try_safetensors_parse(const char *name, const char *text, size_t n, Why *why) {
  Arena *arena = arena_open();
  Safetensors *s = arena_new(arena, Safetensors);
  s->arena = arena;
  vec_push(arena, &s->files, (File){arena_strdup(arena, name), -1});
  json_t *header = json_parse(text, n, name, why);
  bool ok = header && take_header(s, header, 8 + n, ANY, name, why) && sort_names(s, why);
  json_decref(header);
  if (ok) return s;
  safetensors_close(s);
  return NULL;
}

const char *safetensors_header(const Safetensors *s, int file, Arena *arena, size_t *n) {
  const File *f = &s->files.at[file];
  unsigned char length[8];
  errno = 0;
  bool ok = fd_read_at(f->fd, length, 8, 0);
  *n = 0;
  for (int i = 0; ok && i < 8; i++) *n |= (size_t)length[i] << 8 * i;
  if (*n > HEADER_MAX) fail(FAIL_INPUT, "%s: its header has changed\nhelp: copy it again", f->path);
  char *text = arena_alloc(arena, *n + 1);
  if (!ok || !fd_read_at(f->fd, text, *n, 8))
    fail(FAIL_INPUT, "%s: %s\nhelp: copy it again", f->path, errno ? strerror(errno) : "the file has become shorter");
  return text;
}

/* --- files and folders -------------------------------------------------------------------------------------------------- */

/* The shard called base, opened once; -1 and why when it cannot be. */
static int find_shard(Safetensors *s, const char *folder, const char *base, const char *index, Why *why) {
  if (!*base || strchr(base, '/') || *base == '.') {
    why_not(why, "%s: '%.100s' is not the name of a file beside it", index, base);
    return -1;
  }
  const char *path = arena_printf(s->arena, "%s/%s", folder, base);
  for (int i = s->files.n - 1; i >= 0; i--)
    if (!strcmp(s->files.at[i].path, path)) return i;
  return add_file(s, path, why) ? s->files.n - 1 : -1;
}

/* A tensor that the index does not know would be loaded by nobody else. */
static bool refuse_unlisted(const Safetensors *s, const json_t *map, const char *index, Why *why) {
  for (int i = 0; i < s->tensors.n; i++)
    if (!json_object_get(map, s->tensors.at[i].name))
      return why_not(why, "%s: tensor '%.200s' is not in %s", safetensors_file(s, &s->tensors.at[i]), s->tensors.at[i].name, index);
  return true;
}

static bool add_index(Safetensors *s, const char *folder, const char *index, Why *why) {
  json_t *root = json_parse_file(index, why), *map = json_object_get(root, "weight_map"), *value;
  const char *name;
  bool ok = root != NULL;
  if (ok && !json_is_object(map)) ok = why_not(why, "%s: no weight_map", index);
  if (ok) {
    json_object_foreach(map, name, value) {
      if (!json_is_string(value)) ok = why_not(why, "%s: '%.100s' has no file name", index, name);
      if (ok && find_shard(s, folder, json_string_value(value), index, why) < 0) ok = false;
      if (!ok) break;
    }
  }
  if (ok) ok = sort_names(s, why);
  if (ok) {
    json_object_foreach(map, name, value) {
      const SafeTensor *t = safetensors_find(s, name);
      if (t && t->file == find_shard(s, folder, json_string_value(value), index, why)) continue;
      ok = why_not(why, "%s: tensor '%.200s' is not in %s, where %s has it", folder, name, json_string_value(value), index);
      break;
    }
  }
  ok = ok && refuse_unlisted(s, map, index, why);
  json_decref(root);
  return ok;
}

static bool open_all(Safetensors *s, const char *path, Why *why) {
  struct stat info;
  if (stat(path, &info)) return why_not(why, "%s: %s", path, strerror(errno));
  if (!S_ISDIR(info.st_mode)) return add_file(s, path, why) && sort_names(s, why);
  const char *one = arena_printf(s->arena, "%s/model.safetensors", path);
  const char *index = arena_printf(s->arena, "%s/model.safetensors.index.json", path);
  if (!access(one, F_OK)) return add_file(s, one, why) && sort_names(s, why);
  if (!access(index, F_OK)) return add_index(s, path, index, why);
  bool pickled = !access(arena_printf(s->arena, "%s/pytorch_model.bin", path), F_OK) ||
                 !access(arena_printf(s->arena, "%s/pytorch_model.bin.index.json", path), F_OK);
  return why_not(why, "%s: neither model.safetensors nor model.safetensors.index.json%s", path,
                 pickled ? "; pytorch_model.bin is not read, transformers saves both" : "");
}

Safetensors *try_safetensors_open(const char *path, Why *why) {
  Arena *arena = arena_open();
  Safetensors *s = arena_new(arena, Safetensors);
  s->arena = arena;
  s->ahead = ahead_open();
  if (open_all(s, path, why)) return s;
  safetensors_close(s);
  return NULL;
}

Safetensors *safetensors_open(const char *path) {
  Why why;
  Safetensors *s = try_safetensors_open(path, &why);
  if (!s)
    fail(FAIL_INPUT, "%s\nhelp: give a whole .safetensors file or a Hugging Face model folder; copy it again if it was cut short",
         why.text);
  return s;
}

void safetensors_close(Safetensors *s) {
  if (!s) return;
  ahead_close(s->ahead);
  for (int i = 0; i < s->files.n; i++)
    if (s->files.at[i].fd >= 0) close(s->files.at[i].fd);
  arena_close(s->arena);
}

int safetensors_n(const Safetensors *s) { return s->tensors.n; }

const SafeTensor *safetensors_at(const Safetensors *s, int i) {
  CHECK(i >= 0 && i < s->tensors.n);
  return &s->tensors.at[i];
}

const SafeTensor *safetensors_find(const Safetensors *s, const char *name) {
  SafeTensor key = {.name = name};
  const SafeTensor *at = &key;
  if (!s->tensors.n) return NULL;
  const SafeTensor **found = bsearch(&at, s->by_name, (size_t)s->tensors.n, sizeof *s->by_name, by_name);
  return found ? *found : NULL;
}

const char *safetensors_file(const Safetensors *s, const SafeTensor *t) { return s->files.at[t->file].path; }

int safetensors_files(const Safetensors *s) { return s->files.n; }

const char *safetensors_path(const Safetensors *s, int file) {
  CHECK(file >= 0 && file < s->files.n);
  return s->files.at[file].path;
}

/* --- elements ----------------------------------------------------------------------------------------------------------- */

static void convert_bf16(const void *in, int64_t n, void *out) {
  const uint16_t *from = in;
  float *to = out;
  for (int64_t i = 0; i < n; i++) to[i] = bf16_value(from[i]);
}

static void convert_f16(const void *in, int64_t n, void *out) {
  const uint16_t *from = in;
  float *to = out;
  for (int64_t i = 0; i < n; i++) to[i] = f16_value(from[i]);
}

static void convert_i32(const void *in, int64_t n, void *out) {
  const int32_t *from = in;
  int64_t *to = out;
  for (int64_t i = 0; i < n; i++) to[i] = from[i];
}

typedef void Convert(const void *in, int64_t n, void *out);

/* NULL for what is read as it lies. */
static void read_range(const Safetensors *s, const SafeTensor *t, int64_t first, int64_t n, void *out, size_t out_size,
                       Convert *convert) {
  CHECK(first >= 0 && n >= 0 && first <= t->n && n <= t->n - first);
  size_t size = (size_t)types[t->type].bits / 8;
  const File *file = &s->files.at[t->file];
  char part[65536];
  while (n) {
    int64_t take = convert && n > (int64_t)(sizeof part / size) ? (int64_t)(sizeof part / size) : n;
    void *to = convert ? part : out;
    if (!fd_read_at(file->fd, to, (size_t)take * size, (long long)(t->offset + (uint64_t)first * size)))
      fail(FAIL_INPUT, "%s: tensor '%s': %s\nhelp: the file changed or its disk fails; copy it again", file->path, t->name,
           errno ? strerror(errno) : "the file is shorter than it was when opened");
    if (convert) convert(part, take, out);
    out = (char *)out + (size_t)take * out_size;
    first += take;
    n -= take;
  }
}

void safetensors_read_raw(const Safetensors *s, const SafeTensor *t, int64_t first, int64_t n, void *out) {
  DType dtype;
  CHECK(safe_type_dtype(t->type, &dtype));
  read_range(s, t, first, n, out, dtype_size(dtype), NULL);
}

void safetensors_soon(const Safetensors *s, const SafeTensor *t, int64_t first, int64_t n) {
  int64_t size = types[t->type].bits / 8;
  if (first < 0 || first >= t->n) return;
  if (n > t->n - first) n = t->n - first;
  ahead_ask(s->ahead, s->files.at[t->file].fd, (int64_t)t->offset + first * size, n * size);
}

void safetensors_read_f32(const Safetensors *s, const SafeTensor *t, int64_t first, int64_t n, float *out) {
  Convert *const convert[SAFE_TYPES] = {[SAFE_F16] = convert_f16, [SAFE_BF16] = convert_bf16};
  if (t->type != SAFE_F32 && !convert[t->type])
    fail(FAIL_INPUT, "%s: tensor '%s' is %s\nhelp: F32, BF16 and F16 are read as weights", safetensors_file(s, t), t->name,
         types[t->type].name);
  read_range(s, t, first, n, out, sizeof *out, convert[t->type]);
}

void safetensors_read_i64(const Safetensors *s, const SafeTensor *t, int64_t first, int64_t n, int64_t *out) {
  if (t->type != SAFE_I64 && t->type != SAFE_I32)
    fail(FAIL_INPUT, "%s: tensor '%s' is %s\nhelp: I64 and I32 are read as integers", safetensors_file(s, t), t->name,
         types[t->type].name);
  read_range(s, t, first, n, out, sizeof *out, t->type == SAFE_I32 ? convert_i32 : NULL);
}
