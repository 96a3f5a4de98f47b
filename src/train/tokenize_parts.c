/* SPDX-License-Identifier: Apache-2.0 */
/* What is to be tokenized: files in order, cut into parts, and these put together to shards of about equal size.  All of it follows
 * from the inputs alone, never from how many ranks or threads there are. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "src/base/fail.h"
#include "src/base/hash.h"
#include "src/base/text.h"
#include "src/config/config.h"
#include "src/train/tokenize_parts.h"

static void refuse_packed(const char *path) {
  static const char *const packed[] = {".gz", ".zst", ".bz2", ".xz", ".lz4", ".zip", ".parquet", ".arrow"};
  for (size_t i = 0; i < sizeof packed / sizeof *packed; i++)
    if (text_ends(path, packed[i]))
      fail(FAIL_INPUT, "%s: %s files are not read\nhelp: unpack it to text or JSON lines first", path, packed[i]);
}

static void add_file(Arena *arena, Sources *sources, const char *path, const struct stat *info, bool lines) {
  refuse_packed(path);
  bool json = config_is_json(path);
  Source s = {.path = arena_strdup(arena, path),
              .size = info->st_size,
              .changed = (int64_t)info->st_mtim.tv_sec * 1000000000 + info->st_mtim.tv_nsec,
              .json = json,
              .lines = lines || json};
  vec_push(arena, sources, s);
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Plain files of a folder and below in byte order of their names; hidden ones and links to folders are passed over. */
static void add_folder(Arena *arena, Sources *sources, const char *folder, bool lines) {
  DIR *dir = opendir(folder);
  if (!dir) fail(FAIL_INPUT, "%s: %s", folder, strerror(errno));
  VEC(const char *) names = {0};
  for (struct dirent *entry; (entry = readdir(dir));)
    if (entry->d_name[0] != '.') vec_push(arena, &names, arena_printf(arena, "%s/%s", folder, entry->d_name));
  closedir(dir);
  if (names.n) qsort(names.at, (size_t)names.n, sizeof *names.at, by_bytes);
  for (int i = 0; i < names.n; i++) {
    struct stat info, own;
    if (lstat(names.at[i], &own) || stat(names.at[i], &info)) fail(FAIL_INPUT, "%s: %s", names.at[i], strerror(errno));
    if (S_ISDIR(info.st_mode) && !S_ISLNK(own.st_mode)) add_folder(arena, sources, names.at[i], lines);
    if (S_ISREG(info.st_mode)) add_file(arena, sources, names.at[i], &info, lines);
  }
}

void sources_add(Arena *arena, Sources *sources, const char *path, bool lines) {
  struct stat info;
  if (stat(path, &info)) fail(FAIL_INPUT, "%s: %s\nhelp: text files, *.jsonl files or folders are wanted", path, strerror(errno));
  size_t n = strlen(path);
  while (n > 1 && path[n - 1] == '/') n--;
  if (S_ISDIR(info.st_mode)) return add_folder(arena, sources, arena_strndup(arena, path, n), lines);
  if (!S_ISREG(info.st_mode)) fail(FAIL_INPUT, "%s: neither a plain file nor a folder\nhelp: write it to a file first", path);
  add_file(arena, sources, path, &info, lines);
}

int64_t sources_size(const Sources *sources) {
  int64_t size = 0;
  for (int i = 0; i < sources->n; i++) size += sources->at[i].size;
  return size;
}

void shards_cut(Arena *arena, const Sources *sources, int64_t most, Shards *shards) {
  Shard shard = {0};
  for (int i = 0; i < sources->n; i++) {
    const Source *s = &sources->at[i];
    for (int64_t at = 0, take; at < s->size; at += take) {
      int64_t left = s->size - at, room = most - shard.size;
      take = s->lines && left > room ? room : left;
      vec_push(arena, &shard.parts, (Part){s, at, at + take});
      shard.size += take;
      if (shard.size < most) continue;
      vec_push(arena, shards, shard);
      shard = (Shard){0};
    }
  }
  if (shard.size) vec_push(arena, shards, shard);
}

void shard_hash(const Shard *shard, const char *settings, char hex[65]) {
  Sha256 hash;
  sha256_init(&hash);
  sha256_add_text(&hash, settings);
  for (int i = 0; i < shard->parts.n; i++) {
    const Part *p = &shard->parts.at[i];
    int64_t numbers[] = {p->source->size, p->source->changed, p->begin, p->end};
    sha256_add_text(&hash, p->source->path);
    sha256_add(&hash, numbers, sizeof numbers);
  }
  sha256_hex(&hash, hex);
}
