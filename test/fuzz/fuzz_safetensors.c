/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor files and their index.  A case's first byte says what the rest is: a whole file; a header, whose length is then right and
 * behind which lie as many bytes as the next two say; an index beside two good shards. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/safetensors.h"
#include "test/fuzz/fuzz.h"

enum { FILES = '0', HEADERS, INDEXES, MOST = 1 << 13, PART = 64 /* elements */ };

static const char one[] = "model-00001-of-00002.safetensors", two[] = "model-00002-of-00002.safetensors";
static const char header_one[] =
    "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
    "\"b\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[24,32]}}";
static const char header_two[] = "{\"c\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[0,2]},"
                                 "\"d\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[2,10]}}";
static const char index_text[] = "{\"metadata\":{\"total_size\":42},\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\","
                                 "\"b\":\"model-00001-of-00002.safetensors\",\"c\":\"model-00002-of-00002.safetensors\","
                                 "\"d\":\"model-00002-of-00002.safetensors\"}}";

/* Length, header, and so many zeros. */
static size_t make_file(uint8_t *out, const void *header, size_t n, size_t nbytes) {
  for (int i = 0; i < 8; i++) out[i] = (uint8_t)(n >> 8 * i);
  memcpy(out + 8, header, n);
  memset(out + 8 + n, 0, nbytes);
  return 8 + n + nbytes;
}

static const char *path_of(const char *name) {
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
  return path;
}

/* What was taken can be read to its last byte. */
static void read_all(const Safetensors *s) {
  for (int i = 0; i < safetensors_n(s); i++) {
    const SafeTensor *t = safetensors_at(s, i);
    struct stat info;
    CHECK(!stat(safetensors_file(s, t), &info) && t->offset + t->nbytes <= (uint64_t)info.st_size);
    CHECK(safetensors_find(s, t->name) == t);
    float values[PART];
    int64_t whole[PART];
    DType dtype;
    bool floats = t->type == SAFE_F32 || t->type == SAFE_BF16 || t->type == SAFE_F16;
    for (int64_t first = 0; first < t->n; first += PART) {
      int64_t n = t->n - first < PART ? t->n - first : PART;
      if (floats) safetensors_read_f32(s, t, first, n, values);
      if (t->type == SAFE_I64 || t->type == SAFE_I32) safetensors_read_i64(s, t, first, n, whole);
      if (safe_type_dtype(t->type, &dtype)) safetensors_read_raw(s, t, first, n, whole);
    }
    safetensors_soon(s, t, 0, t->n);
  }
}

static void open_path(const char *path) {
  Why why;
  Safetensors *s = try_safetensors_open(path, &why);
  if (s) read_all(s);
  safetensors_close(s);
}

/* What is taken with its bytes is taken without them, and is the same. */
static void parse_header(const uint8_t *header, size_t n) {
  Why why;
  Safetensors *s = try_safetensors_parse("header", (const char *)header, n, &why);
  Safetensors *file = try_safetensors_open(path_of("x.safetensors"), &why);
  Arena *arena = arena_open();
  size_t length;
  if (file) {
    CHECK(s && safetensors_n(s) == safetensors_n(file));
    CHECK(!memcmp(safetensors_header(file, 0, arena, &length), header, n) && length == n);
  }
  arena_close(arena);
  safetensors_close(file);
  safetensors_close(s);
}

static void put_shards(void) {
  static bool there;
  uint8_t file[512];
  if (there) return;
  fuzz_put(path_of(one), file, make_file(file, header_one, strlen(header_one), 32));
  fuzz_put(path_of(two), file, make_file(file, header_two, strlen(header_two), 10));
  there = true;
}

static void try_case(const uint8_t *bytes, size_t n) {
  static uint8_t file[8 + MOST + (1 << 16)];
  size_t mode = n ? bytes[0] % 3 : 0;
  if (n < 3) return;
  if (mode == FILES % 3) {
    fuzz_put(path_of("x.safetensors"), bytes + 1, n - 1);
    open_path(path_of("x.safetensors"));
  } else if (mode == HEADERS % 3) {
    fuzz_put(path_of("x.safetensors"), file, make_file(file, bytes + 3, n - 3, bytes[1] + 256u * bytes[2]));
    open_path(path_of("x.safetensors"));
    parse_header(bytes + 3, n - 3);
  } else {
    put_shards();
    fuzz_put(path_of("model.safetensors.index.json"), bytes + 1, n - 1);
    open_path(fuzz_folder());
  }
}

static FuzzBytes seed_of(Arena *arena, const char *start, const void *bytes, size_t n) {
  uint8_t *copy = arena_alloc(arena, strlen(start) + n);
  memcpy(copy, start, strlen(start));
  memcpy(copy + strlen(start), bytes, n);
  return (FuzzBytes){copy, strlen(start) + n};
}

static int make_seeds(Arena *arena, FuzzBytes seeds[FUZZ_SEEDS]) {
  uint8_t file[512];
  int n = 0;
  FuzzBytes big = fuzz_file(arena, "test/golden/llama2/model.safetensors");
  seeds[n++] = seed_of(arena, "0", file, make_file(file, header_one, strlen(header_one), 32));
  seeds[n++] = seed_of(arena, "0", file, make_file(file, header_two, strlen(header_two), 10));
  seeds[n++] = seed_of(arena, "1  ", header_one, strlen(header_one));
  seeds[n++] = seed_of(arena, "1\n ", big.at + 8, 2048); /* the header alone, most of it */
  seeds[n++] = seed_of(arena, "2", index_text, strlen(index_text));
  return n;
}

static const char *const words[] = {"\"dtype\":",
                                    "\"shape\":",
                                    "\"data_offsets\":[0,8]",
                                    "\"__metadata__\":{\"a\":\"b\"},",
                                    "\"F64\"",
                                    "\"BF16\"",
                                    "\"F4\"",
                                    "[9223372036854775807,2]",
                                    "../",
                                    "/etc/passwd",
                                    "\"weight_map\":{",
                                    "model.safetensors.index.json",
                                    "[[[[[[[[[[[[[",
                                    "\\u0000",
                                    NULL};

const FuzzTarget fuzz_target = {"safetensors", try_case, make_seeds, words, MOST};
