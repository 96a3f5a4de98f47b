/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/safetensors.h"
#include "src/base/arena.h"
#include "src/base/file.h"
#include "src/base/rng.h"
#include "src/base/text.h"
#include "test/check.h"

static const char *golden(const char *name) {
  static char path[4096];
  const char *srcdir = getenv("srcdir");
  snprintf(path, sizeof path, "%s/test/golden/%s", srcdir ? srcdir : ".", name);
  return path;
}

/* A file in the test's own folder: length, header, and nbytes of buffer (byte i is i). */
static const char *make_file(const char *name, const char *header, size_t length, size_t nbytes) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/%s", check_folder(), name);
  FILE *f = fopen(path, "wb");
  CHECK(f);
  for (int i = 0; i < 8; i++) fputc((int)(length >> 8 * i & 255), f);
  fputs(header, f);
  for (size_t i = 0; i < nbytes; i++) fputc((int)(i & 255), f);
  CHECK(!fclose(f));
  return path;
}

/* The reason for which a file with this header and buffer is refused; "" when it is taken. */
static const char *refusal(const char *header, size_t nbytes) {
  static Why why;
  why.text[0] = 0;
  Safetensors *s = try_safetensors_open(make_file("x.safetensors", header, strlen(header), nbytes), &why);
  CHECK(!s == !!why.text[0]);
  safetensors_close(s);
  return why.text;
}

#define REFUSED(header, nbytes, words) EXPECT(strstr(refusal(header, nbytes), words))

TEST(a_models_tensors_are_listed_with_name_shape_and_type) {
  Safetensors *s = safetensors_open(golden("llama2"));
  EXPECT(safetensors_n(s) == 21);
  const SafeTensor *t = safetensors_find(s, "model.layers.1.mlp.down_proj.weight");
  EXPECT(t && t->type == SAFE_F32 && t->rank == 2 && t->shape[0] == 64 && t->shape[1] == 176 && t->n == 64 * 176);
  EXPECT(!safetensors_find(s, "model.layers.2.mlp.down_proj.weight"));
  for (int i = 1; i < safetensors_n(s); i++) EXPECT(safetensors_at(s, i)->offset > safetensors_at(s, i - 1)->offset);
  safetensors_close(s);
}

TEST(a_range_is_the_same_as_the_part_of_the_whole) {
  Safetensors *s = safetensors_open(golden("llama2/golden.safetensors"));
  const SafeTensor *t = safetensors_find(s, "logits");
  float *whole = xmalloc(sizeof(float) * (size_t)t->n), part[100];
  safetensors_read_f32(s, t, 0, t->n, whole);
  for (int64_t first = 0; first + 100 <= t->n; first += 977) {
    safetensors_read_f32(s, t, first, 100, part);
    EXPECT(!memcmp(part, whole + first, sizeof part));
  }
  for (int64_t i = 0; i < t->n; i++) EXPECT(isfinite(whole[i]));
  int64_t ids[192];
  safetensors_read_i64(s, safetensors_find(s, "input_ids"), 0, 192, ids);
  for (int i = 0; i < 192; i++) EXPECT(ids[i] >= 0 && ids[i] < 320);
  EXPECT_FAIL(FAIL_INPUT, "'input_ids' is I64", safetensors_read_f32(s, safetensors_find(s, "input_ids"), 0, 1, part));
  EXPECT_FAIL(FAIL_BUG, "CHECK", safetensors_read_f32(s, t, t->n - 10, 11, part));
  free(whole);
  safetensors_close(s);
}

TEST(what_is_written_reads_back_to_the_bit) {
  char path[4096];
  snprintf(path, sizeof path, "%s/out.safetensors", check_folder());
  float weights[6] = {1, -2.5f, 0x1p-149f, INFINITY, -0.0f, 3e38f}, back[6];
  int64_t ids[2] = {INT64_MIN, 7}, ids_back[2];
  SafeTensor list[] = {{.name = "w \"quoted\"", .type = SAFE_F32, .rank = 2, .shape = {2, 3}},
                       {.name = "empty", .type = SAFE_F32, .rank = 2, .shape = {0, 3}},
                       {.name = "ids", .type = SAFE_I64, .rank = 1, .shape = {2}},
                       {.name = "scalar", .type = SAFE_F32}};
  SafeWriter *w = safe_writer_open(path, list, 4);
  safe_writer_add(w, weights, 10); /* calls need not keep to tensors */
  safe_writer_add(w, (char *)weights + 10, 14);
  safe_writer_add(w, ids, sizeof ids);
  EXPECT(access(path, F_OK)); /* not there before it is whole */
  EXPECT_FAIL(FAIL_BUG, "CHECK", safe_writer_close(w));
  safe_writer_add(w, weights, 4);
  safe_writer_close(w);
  Safetensors *s = safetensors_open(path);
  EXPECT(safetensors_n(s) == 4 && safetensors_find(s, "empty")->n == 0 && safetensors_find(s, "scalar")->n == 1);
  safetensors_read_f32(s, safetensors_find(s, "w \"quoted\""), 0, 6, back);
  safetensors_read_i64(s, safetensors_find(s, "ids"), 0, 2, ids_back);
  EXPECT(!memcmp(back, weights, sizeof back) && !memcmp(ids_back, ids, sizeof ids));
  EXPECT(safetensors_find(s, "ids")->offset % 8 == 0);
  safetensors_close(s);
}

/* Every bfloat16 and half against the definition of its bits. */
TEST(half_precisions_convert_exactly) {
  const char *header = "{\"b\":{\"dtype\":\"BF16\",\"shape\":[65536],\"data_offsets\":[0,131072]},"
                       "\"h\":{\"dtype\":\"F16\",\"shape\":[65536],\"data_offsets\":[131072,262144]}}";
  const char *path = make_file("half", header, strlen(header), 0);
  FILE *f = fopen(path, "ab");
  for (int i = 0; i < 2 * 65536; i++) fputc(i & 255, f), fputc(i >> 8 & 255, f);
  CHECK(!fclose(f));
  Safetensors *s = safetensors_open(path);
  static float b[65536], h[65536];
  safetensors_read_f32(s, safetensors_find(s, "b"), 0, 65536, b);
  safetensors_read_f32(s, safetensors_find(s, "h"), 0, 65536, h);
  for (int i = 0; i < 65536; i++) {
    double sign = i & 0x8000 ? -1 : 1;
    int e = i >> 7 & 255, m = i & 127;
    double want = e == 255 ? (m ? NAN : INFINITY) : e ? ldexp(128 + m, e - 134) : ldexp(m, -133);
    EXPECT(isnan(want) ? isnan(b[i]) : b[i] == (float)(sign * want) && !signbit(b[i]) == (sign > 0));
    e = i >> 10 & 31, m = i & 1023;
    want = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    EXPECT(isnan(want) ? isnan(h[i]) : h[i] == (float)(sign * want) && !signbit(h[i]) == (sign > 0));
  }
  float part[7];
  safetensors_read_f32(s, safetensors_find(s, "h"), 40001, 7, part);
  EXPECT(!memcmp(part, h + 40001, sizeof part));
  safetensors_close(s);
}

TEST(shards_read_as_one_model) {
  const char *folder = check_folder(), *a = "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
             *b = "{\"b\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
  char index[4096];
  snprintf(index, sizeof index, "%s/model.safetensors.index.json", folder);
  make_file("model-00001-of-00002.safetensors", a, strlen(a), 4);
  make_file("model-00002-of-00002.safetensors", b, strlen(b), 8);
  const char *good = "{\"metadata\":{\"total_size\":12},\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\","
                     "\"b\":\"model-00002-of-00002.safetensors\"}}";
  CHECK(try_file_write(index, good, strlen(good), NULL));
  Safetensors *s = safetensors_open(folder);
  int64_t v[2];
  safetensors_read_i64(s, safetensors_find(s, "b"), 0, 2, v);
  EXPECT(v[0] == 0x03020100 && v[1] == 0x07060504);
  EXPECT(strstr(safetensors_file(s, safetensors_find(s, "a")), "model-00001-of-00002.safetensors"));
  safetensors_close(s);

  const struct {
    const char *text, *words;
  } bad[] = {
      {"{\"weight_map\":{\"a\":\"../../etc/passwd\"}}", "not the name of a file beside it"},
      {"{\"weight_map\":{\"a\":\"model-00003-of-00002.safetensors\"}}", "No such file"},
      {"{\"weight_map\":{\"b\":\"model-00001-of-00002.safetensors\"}}", "tensor 'b' is not in"},
      {"{\"weight_map\":{\"a\":7}}", "'a' has no file name"},
      {"{}", "no weight_map"},
      {"{\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\",\"b\":\"model-00002-of-00002.safetensors\",\"c\":"
       "\"model-00001-of-00002.safetensors\"}}",
       "tensor 'c' is not in"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    CHECK(try_file_write(index, bad[i].text, strlen(bad[i].text), NULL));
    EXPECT_FAIL(FAIL_INPUT, bad[i].words, safetensors_open(folder));
  }
}

TEST(a_tensor_that_no_index_knows_is_refused) {
  const char *folder = check_folder(), *a =
                                           "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\","
                                           "\"shape\":[1],\"data_offsets\":[4,5]}}";
  char index[4096];
  snprintf(index, sizeof index, "%s/model.safetensors.index.json", folder);
  make_file("1.safetensors", a, strlen(a), 5);
  const char *map = "{\"weight_map\":{\"a\":\"1.safetensors\"}}";
  CHECK(try_file_write(index, map, strlen(map), NULL));
  EXPECT_FAIL(FAIL_INPUT, "tensor 'b' is not in", safetensors_open(folder));
}

TEST(a_tensor_in_two_shards_is_refused) {
  const char *folder = check_folder(), *a = "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}";
  const char *b = "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\",\"shape\":[1],"
                  "\"data_offsets\":[4,5]}}";
  char index[4096];
  snprintf(index, sizeof index, "%s/model.safetensors.index.json", folder);
  make_file("1.safetensors", a, strlen(a), 4);
  make_file("2.safetensors", b, strlen(b), 5);
  const char *map = "{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"2.safetensors\"}}";
  CHECK(try_file_write(index, map, strlen(map), NULL));
  EXPECT_FAIL(FAIL_INPUT, "tensor 'a' is both in", safetensors_open(folder));
}

#define ROW(name, type, shape, range) "\"" name "\":{\"dtype\":\"" type "\",\"shape\":[" shape "],\"data_offsets\":[" range "]}"

TEST(lying_headers_are_refused_by_name) {
  EXPECT_TEXT(refusal("{" ROW("a", "F32", "2", "0,8") "," ROW("b", "F32", "1", "8,12") "}    ", 12), "");
  EXPECT_TEXT(refusal("{\"__metadata__\":{\"x\":\"y\"}}", 0), "");
  REFUSED("{" ROW("a", "F32", "2", "0,8") "}", 7, "'a' is said to lie at bytes 0 to 8 of 7");
  REFUSED("{" ROW("a", "F32", "2", "0,8") "}", 9, "the last 1 bytes belong to no tensor");
  REFUSED("{" ROW("a", "F32", "2", "1,9") "}", 9, "1 bytes before tensor 'a' belong to none");
  REFUSED("{" ROW("a", "F32", "2", "0,8") "," ROW("b", "F32", "2", "4,12") "}", 12, "'a' and 'b' overlap");
  REFUSED("{" ROW("a", "F32", "2", "0,8") "," ROW("b", "F32", "2", "0,8") "}", 8, "overlap");
  REFUSED("{" ROW("a", "F32", "2", "0,8") "," ROW("a", "F32", "2", "8,16") "}", 16, "duplicate object key");
  REFUSED("{" ROW("a", "F32", "3", "0,8") "}", 8, "'a': its shape and F32 do not make the 8 bytes");
  REFUSED("{" ROW("a", "F32", "2", "8,0") "}", 8, "'a' is said to lie at bytes 8 to 0");
  REFUSED("{" ROW("a", "F32", "2", "-8,0") "}", 8, "'a' is said to lie at");
  REFUSED("{" ROW("a", "F32", "-2,-1", "0,8") "}", 8, "'a': bad shape");
  REFUSED("{" ROW("a", "F32", "4294967296,4294967296", "0,0") "}", 0, "'a': bad shape");
  REFUSED("{" ROW("a", "F32", "4611686018427387904", "0,0") "}", 0, "'a': its shape and F32");
  REFUSED("{" ROW("a", "F32", "2.0", "0,8") "}", 8, "'a': bad shape");
  REFUSED("{" ROW("a", "F32", "1,1,1,1,1,1,1,1,2", "0,8") "}", 8, "9 dimensions");
  REFUSED("{" ROW("a", "F33", "2", "0,8") "}", 8, "unknown dtype 'F33'");
  REFUSED("{" ROW("a", "F4", "3", "0,1") "}", 1, "'a': its shape and F4");
  REFUSED("{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "data_offsets are not two integers");
  REFUSED("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,9]}}", 8, "data_offsets are not two integers");
  REFUSED("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,99999999999999999999]}}", 8, "too big integer");
  REFUSED("{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "'a': no dtype");
  REFUSED("{\"a\":7}", 0, "'a': no dtype");
  REFUSED("{\"__metadata__\":{\"x\":1}}", 0, "'x' is not a text");
  REFUSED(" {}", 0, "does not begin with '{'");
  REFUSED("[]", 0, "does not begin with '{'");
  REFUSED("{", 0, "x.safetensors:1");
  REFUSED("{}x", 0, "x.safetensors:1");
}

TEST(a_lying_header_length_is_refused) {
  Why why;
  const uint64_t lengths[] = {3, 8, 99999999, 100000001, UINT64_C(1) << 63, UINT64_MAX};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
    EXPECT(!try_safetensors_open(make_file("n", "{}", lengths[i], 0), &why));
  const char *path = make_file("n", "{}", 2, 0);
  CHECK(!truncate(path, 5));
  EXPECT_FAIL(FAIL_INPUT, "too short", safetensors_open(path));
  static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
  CHECK(try_file_write(path, pointer, strlen(pointer), NULL));
  EXPECT_FAIL(FAIL_INPUT, "pointer of Git LFS, not the file itself: git lfs pull", safetensors_open(path));
  EXPECT_FAIL(FAIL_INPUT, "No such file", safetensors_open("nowhere.safetensors"));
  EXPECT_FAIL(FAIL_INPUT, "neither model.safetensors", safetensors_open(check_folder()));
}

/* Damage anywhere is found, or changes only tensors' bytes and names; nothing outside the file is ever touched. */
TEST(random_damage_does_no_harm) {
  size_t n;
  char *good = file_read(golden("llama2/train.safetensors"), &n), *bad = xmalloc(80);
  char path[4096];
  snprintf(path, sizeof path, "%s/bad", check_folder());
  Rng rng = rng_make(1, RNG_TEST, "damage", 0);
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600), taken = 0;
  for (uint64_t turn = 0; turn < 4000; turn++) {
    uint32_t w[4];
    memcpy(bad, good, 80);
    rng_words(&rng, turn, w);
    for (uint32_t k = 0; k <= w[0] % 3; k++) {
      uint32_t v[4];
      rng_words(&rng, turn << 8 | (k + 1), v);
      bad[v[0] % 80] ^= (char)(1u << v[1] % 8);
    }
    size_t length = w[1] % 4 ? n : w[2] % n;
    CHECK(!ftruncate(fd, (off_t)length) && fd_write_at(fd, bad, length < 80 ? length : 80, 0)); /* zeros follow */
    Why why;
    Safetensors *s = try_safetensors_open(path, &why);
    for (int i = 0; s && i < safetensors_n(s); i++) {
      const SafeTensor *t = safetensors_at(s, i);
      int64_t last;
      EXPECT(t->offset + t->nbytes <= length);
      if ((t->type == SAFE_I64 || t->type == SAFE_I32) && t->n) safetensors_read_i64(s, t, t->n - 1, 1, &last);
      taken++;
    }
    safetensors_close(s);
  }
  EXPECT(taken < 2000);
  close(fd);
  free(good);
  free(bad);
}
