/* SPDX-License-Identifier: Apache-2.0 */
/* Writing safetensors: all shapes are known first, so the header goes out at once and the tensors follow as they come. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/safetensors.h"
#include "src/base/arena.h"
#include "src/base/file.h"
#include "src/base/text.h"

struct SafeWriter {
  Arena *arena;
  const char *path, *aside;
  int fd;
  uint64_t at, end; /* bytes written; the file's length to be */
};

static _Noreturn void fail_write(const SafeWriter *w, const char *reason) {
  unlink(w->aside);
  fail(FAIL_MACHINE, "%s: cannot be written: %s\nhelp: free some space, or write elsewhere", w->path, reason);
}

static void write_bytes(SafeWriter *w, const void *bytes, size_t nbytes) {
  if (!fd_write_at(w->fd, bytes, nbytes, (long long)w->at)) fail_write(w, strerror(errno));
  w->at += nbytes;
}

static json_t *describe(const SafeTensor *t, uint64_t *at) {
  CHECK(t->rank >= 0 && t->rank <= SAFE_MAX_RANK);
  json_t *shape = json_array();
  uint64_t begin = *at, n = 1;
  for (int k = 0; k < t->rank; k++) {
    json_array_append_new(shape, json_integer(t->shape[k]));
    n *= (uint64_t)t->shape[k];
  }
  *at += n * (uint64_t)safe_type_bits(t->type) / 8;
  return json_pack("{s:s, s:o, s:[I, I]}", "dtype", safe_type_name(t->type), "shape", shape, "data_offsets", (json_int_t)begin,
                   (json_int_t)*at);
}

SafeWriter *safe_writer_open_as(const char *path, const char *header, size_t n, uint64_t nbytes) {
  Arena *arena = arena_open();
  SafeWriter *w = arena_new(arena, SafeWriter);
  unsigned char count[8];
  *w = (SafeWriter){.arena = arena, .path = arena_strdup(arena, path), .aside = arena_printf(arena, "%s.tmp", path)};
  w->fd = open(w->aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (w->fd < 0) fail_write(w, strerror(errno));
  for (int i = 0; i < 8; i++) count[i] = (unsigned char)(n >> 8 * i);
  write_bytes(w, count, sizeof count);
  write_bytes(w, header, n);
  w->end = w->at + nbytes;
  return w;
}

SafeWriter *safe_writer_open(const char *path, const SafeTensor *tensors, int n) {
  json_t *header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
  uint64_t nbytes = 0;
  for (int i = 0; i < n; i++) CHECK(!json_object_set_new(header, tensors[i].name, describe(&tensors[i], &nbytes)));
  CHECK(json_object_size(header) == (size_t)n + 1); /* no name twice */
  char *text = json_dumps(header, JSON_COMPACT);
  json_decref(header);
  CHECK(text);
  Text padded = {0};
  text_printf(&padded, "%s%*s", text, (int)(-strlen(text) % 8), ""); /* the tensors begin at a multiple of 8 */
  SafeWriter *w = safe_writer_open_as(path, padded.at, padded.n, nbytes);
  text_close(&padded);
  free(text);
  return w;
}

void safe_writer_add(SafeWriter *w, const void *bytes, size_t nbytes) {
  CHECK(nbytes <= w->end - w->at);
  write_bytes(w, bytes, nbytes);
}

void safe_writer_close(SafeWriter *w) {
  CHECK(w->at == w->end);
  Why why;
  if (fsync(w->fd) || close(w->fd) || rename(w->aside, w->path)) fail_write(w, strerror(errno));
  if (!try_sync_parent(w->path, &why)) fail(FAIL_MACHINE, "%s\nhelp: the disk does not keep what is written", why.text);
  arena_close(w->arena);
}
