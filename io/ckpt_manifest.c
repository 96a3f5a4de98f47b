/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/ckpt_impl.h"
#include "io/json.h"
#include "src/base/clock.h"
#include "src/base/hash.h"
#include "src/base/utf8.h"
#include "src/base/vec.h"

/* --- names on disk ------------------------------------------------------------------------------------------------------ */

char *ckpt_path(Arena *arena, const char *folder, int64_t step, const char *end) {
  return arena_printf(arena, "%s/step-%08lld%s", folder, (long long)step, end);
}

int64_t ckpt_parse_name(const char *name, const char **end) {
  static const char prefix[] = "step-";
  if (strncmp(name, prefix, strlen(prefix)) != 0) return -1;
  name += strlen(prefix);
  size_t n = strspn(name, "0123456789");
  if (n < 8 || n > 18) return -1;
  *end = name + n;
  return strtoll(name, NULL, 10);
}

const char *ckpt_steps_folder(Arena *arena, const char *folder) {
  struct stat info;
  const char *below = arena_printf(arena, "%s/checkpoints", folder);
  return !stat(below, &info) && S_ISDIR(info.st_mode) ? below : folder;
}

const char *ckpt_file_name(Arena *arena, int i, int n) {
  return n > 1 ? arena_printf(arena, "model-%05d-of-%05d.h5", i + 1, n) : CKPT_FILE;
}

static int ascending(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

bool try_ckpt_list(Arena *arena, const char *folder, const int64_t **steps, int *n, Why *why) {
  VEC(int64_t) found = {0};
  const char *within = ckpt_steps_folder(arena, folder), *end = NULL;
  DIR *dir = opendir(within);
  int error = dir || errno == ENOENT || errno == ENOTDIR ? 0 : errno;
  for (struct dirent *d = NULL; dir;) {
    errno = 0; /* tells an error from the end */
    d = readdir(dir);
    error = errno;
    if (!d) break;
    int64_t step = ckpt_parse_name(d->d_name, &end);
    if (step >= 0 && !*end) vec_push(arena, &found, step);
  }
  if (dir) closedir(dir);
  if (found.n) qsort(found.at, (size_t)found.n, sizeof *found.at, ascending);
  *steps = found.at;
  *n = found.n;
  return !error || why_not(why, "%s: cannot be listed: %s", within, strerror(error));
}

const int64_t *ckpt_list(Arena *arena, const char *folder, int *n) {
  const int64_t *steps;
  Why why;
  if (!try_ckpt_list(arena, folder, &steps, n, &why))
    fail(FAIL_MACHINE, "%s\nhelp: make it readable, or see whether its file system is well", why.text);
  return steps;
}

/* --- manifest ----------------------------------------------------------------------------------------------------------- */

/* The manifest knows a damage of its own, too: "crc32c" is of all else in it, written without blanks. */
static void own_checksum(const json_t *root, char out[9]) {
  json_t *rest = json_copy((json_t *)root);
  CHECK(rest);
  json_object_del(rest, "crc32c");
  char *text = json_dumps(rest, JSON_COMPACT);
  CHECK(text);
  snprintf(out, 9, "%08x", crc32c(0, text, strlen(text)));
  free(text);
  json_decref(rest);
}

static json_t *entry_json(const CkptManifest *m, const CkptEntry *e) {
  char crc[9];
  json_t *shape = json_array();
  for (int k = 0; k < e->rank; k++) json_array_append_new(shape, json_integer(e->shape[k]));
  if (e->is_text) json_array_append_new(shape, json_integer(e->n));
  snprintf(crc, sizeof crc, "%08x", e->crc32c);
  return json_pack("{s:s, s:o, s:s, s:s*}", "dtype", e->is_text ? "text" : dtype_name(e->dtype), "shape", shape, "crc32c", crc,
                   "file", m->n_files > 1 ? m->files[e->file].name : NULL);
}

/* Paths may be no UTF-8, which JSON is. */
static json_t *fact_json(const char *fact) {
  Text text = {0};
  utf8_repair(fact, strlen(fact), &text);
  json_t *value = json_string(text.n ? text.at : "");
  text_close(&text);
  return value;
}

bool try_manifest_write(const char *step_folder, const CkptManifest *m, Why *why) {
  char path[4096], now[32], own[9];
  if (snprintf(path, sizeof path, "%s/" CKPT_MANIFEST, step_folder) >= (int)sizeof path)
    return why_not(why, "%s: %s", step_folder, strerror(ENAMETOOLONG));
  json_t *facts = json_object(), *files = json_object(), *datasets = json_object();
  for (int i = 0; i < m->n_facts; i++) CHECK(!json_object_set_new(facts, m->facts[i].name, fact_json(m->facts[i].text)));
  for (int i = 0; i < m->n_entries; i++) CHECK(!json_object_set_new(datasets, m->entries[i].path, entry_json(m, &m->entries[i])));
  for (int i = 0; i < m->n_files; i++) CHECK(!json_object_set_new(files, m->files[i].name, json_integer(m->files[i].nbytes)));
  CHECK((int)json_object_size(datasets) == m->n_entries);
  json_t *root = json_pack("{s:s, s:i, s:I, s:s, s:o, s:o, s:o}", "format", CKPT_FORMAT, "version",
                           m->n_files > 1 ? CKPT_VERSION_FILES : CKPT_VERSION, "step", (json_int_t)m->step, "written",
                           clock_utc(now), "facts", facts, "files", files, "datasets", datasets);
  CHECK(root);
  own_checksum(root, own);
  CHECK(!json_object_set_new(root, "crc32c", json_string(own)));
  return try_json_write_take(path, root, why);
}

static bool read_entry(CkptEntry *e, const json_t *row, const char *path, Why *why) {
  const char *dtype = json_string_value(json_object_get(row, "dtype")), *crc = json_string_value(json_object_get(row, "crc32c"));
  const json_t *shape = json_object_get(row, "shape");
  if (!dtype || !crc || !json_is_array(shape) || json_array_size(shape) > CKPT_MAX_RANK || strlen(crc) != 8 ||
      strspn(crc, "0123456789abcdef") != 8)
    return why_not(why, "%s: dataset '%s': dtype, shape or crc32c is bad", path, e->path);
  e->crc32c = (uint32_t)strtoul(crc, NULL, 16);
  e->is_text = !strcmp(dtype, "text");
  for (e->dtype = 0; !e->is_text && e->dtype < DT_COUNT; e->dtype++)
    if (!strcmp(dtype, dtype_name(e->dtype))) break;
  if (e->dtype == DT_COUNT) return why_not(why, "%s: dataset '%s': dtype %.20s is not known", path, e->path, dtype);
  e->n = 1;
  for (size_t k = 0; k < json_array_size(shape); k++) {
    int64_t extent = json_integer_value(json_array_get(shape, k)), nbytes; /* 0 for what is no integer */
    if (extent <= 0 || __builtin_mul_overflow(e->n, extent, &e->n) || __builtin_mul_overflow(e->n, (int64_t)8, &nbytes))
      return why_not(why, "%s: dataset '%s': bad shape", path, e->path);
    e->shape[k] = extent;
  }
  e->rank = e->is_text ? 0 : (int)json_array_size(shape);
  return !e->is_text || json_array_size(shape) == 1 || why_not(why, "%s: text '%s': bad shape", path, e->path);
}

static bool read_place(Arena *arena, CkptEntry *e, const json_t *row, const CkptManifest *m, const char *path, Why *why) {
  const char *file = json_string_value(json_object_get(row, "file"));
  e->where = e->path;
  if (m->n_files == 1) return true;
  while (e->file < m->n_files && (!file || strcmp(m->files[e->file].name, file))) e->file++;
  if (e->file == m->n_files) return why_not(why, "%s: dataset '%s': its file is none of this checkpoint's", path, e->path);
  e->where = arena_printf(arena, "%s in %s", e->path, file);
  return true;
}

static int by_path(const void *a, const void *b) { return strcmp(((const CkptEntry *)a)->path, ((const CkptEntry *)b)->path); }

static bool read_entries(Arena *arena, json_t *datasets, CkptManifest *m, const char *path, Why *why) {
  const char *name;
  json_t *row;
  CkptEntry *entries = arena_array(arena, CkptEntry, json_object_size(datasets));
  m->entries = entries;
  json_object_foreach(datasets, name, row) {
    CkptEntry *e = &entries[m->n_entries++];
    e->path = arena_strdup(arena, name);
    if (*name != '/') return why_not(why, "%s: bad name '%s'", path, name);
    if (!read_entry(e, row, path, why) || !read_place(arena, e, row, m, path, why)) return false;
  }
  if (m->n_entries) qsort(entries, (size_t)m->n_entries, sizeof *entries, by_path);
  return true;
}

static bool read_facts(Arena *arena, json_t *object, CkptManifest *m, const char *path, Why *why) {
  const char *name;
  json_t *value;
  CkptText *facts = arena_array(arena, CkptText, json_object_size(object));
  m->facts = facts;
  json_object_foreach(object, name, value) {
    if (!json_is_string(value)) return why_not(why, "%s: fact '%s' is no text", path, name);
    facts[m->n_facts++] = (CkptText){arena_strdup(arena, name), arena_strdup(arena, json_string_value(value))};
  }
  return true;
}

/* Names are those that a writer gives, so that none leads elsewhere. */
static bool read_files(Arena *arena, const json_t *object, CkptManifest *m, const char *path, Why *why) {
  size_t n = json_object_size(object);
  if (!n || n > CKPT_FILES_MOST) return why_not(why, "%s: %zu files", path, n);
  CkptFile *files = arena_array(arena, CkptFile, n);
  m->files = files;
  for (m->n_files = 0; m->n_files < (int)n; m->n_files++) {
    const char *name = ckpt_file_name(arena, m->n_files, (int)n);
    const json_t *nbytes = json_object_get(object, name);
    if (!json_is_integer(nbytes) || json_integer_value(nbytes) < 0) return why_not(why, "%s: files: %s is missing", path, name);
    files[m->n_files] = (CkptFile){name, json_integer_value(nbytes)};
  }
  return true;
}

static bool is_ours(const json_t *root) {
  const char *format = json_string_value(json_object_get(root, "format"));
  return format && !strcmp(format, CKPT_FORMAT);
}

static bool read_root(Arena *arena, json_t *root, const char *step_folder, CkptManifest *m, const char *path, Why *why) {
  const char *end = NULL;
  if (!is_ours(root)) return why_not(why, "%s: not the manifest of a checkpoint", path);
  json_int_t version = json_integer_value(json_object_get(root, "version"));
  if (version != CKPT_VERSION && version != CKPT_VERSION_FILES)
    return why_not(why, "%s: format version %lld; this program reads version %d and %d", path, (long long)version, CKPT_VERSION,
                   CKPT_VERSION_FILES);
  const json_t *step = json_object_get(root, "step"), *files = json_object_get(root, "files");
  json_t *facts = json_object_get(root, "facts"), *datasets = json_object_get(root, "datasets");
  if (!json_is_integer(step) || !json_is_object(files) || !json_is_object(facts) || !json_is_object(datasets))
    return why_not(why, "%s: step, files, facts or datasets is missing", path);
  m->step = json_integer_value(step);
  const char *slash = strrchr(step_folder, '/');
  int64_t named = ckpt_parse_name(slash ? slash + 1 : step_folder, &end);
  if (m->step < 0 || (named >= 0 && !*end && named != m->step))
    return why_not(why, "%s: says step %lld in a folder of another name", path, (long long)m->step);
  return read_files(arena, files, m, path, why) && read_facts(arena, facts, m, path, why) &&
         read_entries(arena, datasets, m, path, why);
}

/* One of before there was such a checksum has nothing in its place. */
static bool check_whole(const json_t *root, const char *path, Why *why) {
  enum { KEYS_BEFORE = 7 };
  const json_t *told = json_object_get(root, "crc32c");
  char is[9];
  own_checksum(root, is);
  if (told ? json_is_string(told) && !strcmp(json_string_value(told), is) : json_object_size(root) <= KEYS_BEFORE) return true;
  return why_not(why, "%s, checksum %s, its own %s", path, is, told && json_is_string(told) ? json_string_value(told) : "missing");
}

bool try_manifest_read(Arena *arena, const char *step_folder, CkptManifest *m, Why *why) {
  const char *path = arena_printf(arena, "%s/" CKPT_MANIFEST, step_folder);
  *m = (CkptManifest){0};
  json_t *root = json_parse_file(path, why);
  bool ok = root && read_root(arena, root, step_folder, m, path, why) && check_whole(root, path, why);
  json_decref(root);
  return ok;
}

bool ckpt_is_newer(const char *step_folder) {
  Arena *arena = arena_open();
  json_t *root = json_parse_file(arena_printf(arena, "%s/" CKPT_MANIFEST, step_folder), NULL);
  bool newer = root && is_ours(root) && json_integer_value(json_object_get(root, "version")) > CKPT_VERSION_FILES;
  json_decref(root);
  arena_close(arena);
  return newer;
}
