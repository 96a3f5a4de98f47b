/* SPDX-License-Identifier: Apache-2.0 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/h5.h"
#include "io/megatron.h"
#include "io/tokens.h"
#include "src/base/arena.h"
#include "src/base/file.h"
#include "src/base/text.h"
#include "src/cmd/cmd.h"
#include "test/check.h"
#include "test/megatron_index.h"

/* n ids from first on, counting up. */
static void write_count(const char *name, int width, int32_t first, int n) {
  TokensWriter *w = tokens_writer_open(check_path(name), width);
  for (int i = 0; i < n; i++) tokens_writer_add(w, &(int32_t){first + i}, 1);
  tokens_writer_close(w);
}

static void write_raw(const char *name, const void *bytes, size_t n) { CHECK(try_file_write(check_path(name), bytes, n, NULL)); }

static Tokens *open_one(const char *name, int width, int64_t vocab) {
  const char *pattern = check_path(name);
  return tokens_open(&pattern, 1, &(TokensAsk){width, vocab, "tokens"});
}

TEST(sample_i_is_the_ids_from_iS_on_in_both_widths) {
  for (int width = 2; width <= 4; width += 2) {
    write_count("a.bin", width, 100, 1000);
    Tokens *t = open_one("a.bin", 0, 2000);
    EXPECT(tokens_n(t) == 1000 && tokens_samples(t, 16) == 62 && tokens_samples(t, 999) == 1 && tokens_samples(t, 333) == 3);
    int32_t out[17];
    for (int64_t i = 0; i < 62; i++) {
      tokens_sample(t, i, 16, out);
      for (int k = 0; k <= 16; k++) EXPECT(out[k] == 100 + i * 16 + k);
    }
    tokens_close(t);
  }
}

TEST(samples_cross_files_in_sorted_order) {
  write_count("f-02.bin", 4, 7, 5);
  write_count("f-01.bin", 2, 0, 7);
  write_count("f-10.bin", 2, 13, 30);
  write_count("f-03.bin", 2, 0, 0);
  write_count("f-04.bin", 2, 12, 1);
  Tokens *t = open_one("f-*.bin", 0, 100);
  EXPECT(tokens_files(t) == 5 && tokens_n(t) == 43);
  for (int64_t S = 1; S <= 42; S++)
    for (int64_t i = 0; i < tokens_samples(t, S); i++) {
      int32_t out[43];
      tokens_sample(t, i, S, out);
      for (int64_t k = 0; k <= S; k++) EXPECT(out[k] == i * S + k);
    }
  tokens_close(t);
}

TEST(several_patterns_are_read_in_their_order) {
  write_count("a.bin", 2, 50, 10);
  write_count("b.bin", 2, 20, 10);
  const char *patterns[] = {check_path("b.bin"), check_path("a*")};
  Tokens *t = tokens_open(patterns, 2, &(TokensAsk){0, 100, "tokens"});
  int32_t out[20];
  tokens_sample(t, 0, 19, out);
  EXPECT(out[0] == 20 && out[9] == 29 && out[10] == 50);
  tokens_close(t);
}

TEST(headerless_files_are_read_as_told) {
  write_raw("raw", (uint16_t[]){3, 1, 4, 1, 5, 9}, 12);
  Tokens *t = open_one("raw", 2, 10);
  int32_t out[6];
  tokens_sample(t, 0, 5, out);
  EXPECT(tokens_n(t) == 6 && out[0] == 3 && out[5] == 9);
  tokens_close(t);
  write_raw("raw", (uint32_t[]){3, 1, 4, 1, 5, 70000}, 24);
  t = open_one("raw", 4, 80000);
  tokens_sample(t, 0, 5, out);
  EXPECT(tokens_n(t) == 6 && out[5] == 70000);
  tokens_close(t);
  EXPECT_FAIL(FAIL_INPUT, "set data.dtype to uint16 or uint32", open_one("raw", 0, 80000));
  write_raw("raw", "abc", 3);
  EXPECT_FAIL(FAIL_INPUT, "3 bytes are no whole number of 2-byte ids", open_one("raw", 2, 80000));
}

TEST(short_long_and_foreign_files_are_refused_by_name) {
  write_count("a.bin", 2, 0, 100);
  CHECK(!truncate(check_path("a.bin"), 1024 + 199));
  EXPECT_FAIL(FAIL_INPUT, "a.bin: 100 tokens by its header make 1224 bytes, but it has 1223", open_one("a.bin", 0, 200));
  CHECK(!truncate(check_path("a.bin"), 1024 + 202));
  EXPECT_FAIL(FAIL_INPUT, "a.bin: 100 tokens by its header", open_one("a.bin", 0, 200));
  CHECK(!truncate(check_path("a.bin"), 1000));
  EXPECT_FAIL(FAIL_INPUT, "a.bin: 1000 bytes are too short for its header", open_one("a.bin", 0, 200));
  write_count("b.bin", 2, 0, 100);
  EXPECT_FAIL(FAIL_INPUT, "b.bin: its header says 2-byte ids, data.dtype 4-byte ones", open_one("b.bin", 4, 200));

  int32_t header[256] = {20240520, 2, 0};
  write_raw("c.bin", header, sizeof header);
  EXPECT_FAIL(FAIL_INPUT, "c.bin: version 2 of magic 20240520", open_one("c.bin", 0, 200));
  header[1] = 1, header[2] = -1;
  write_raw("c.bin", header, sizeof header);
  EXPECT_FAIL(FAIL_INPUT, "c.bin: -1 tokens by its header", open_one("c.bin", 0, 200));

  const struct {
    int32_t magic;
    const char *what;
  } kin[] = {{20240522, "evaluation"}, {20240326, "model"}, {20240327, "state"}, {20240328, "tokenizer"}, {20240803, "model"}};
  for (int i = 0; i < 5; i++) {
    header[0] = kin[i].magic;
    write_raw("d.bin", header, sizeof header);
    EXPECT_FAIL(FAIL_INPUT, kin[i].what, open_one("d.bin", 2, 200));
  }
  write_raw("x.idx", "MMIDIDX\0\0\1\0\0\0\0\0\0\0", 17);
  EXPECT_FAIL(FAIL_INPUT, "x.idx is a Megatron index", open_one("x.idx", 2, 200));
  write_raw("empty", "", 0);
  EXPECT_FAIL(FAIL_INPUT, "empty has no header", open_one("empty", 0, 200));
  EXPECT_FAIL(FAIL_INPUT, "none*: no such file", open_one("none*", 0, 200));
  EXPECT_FAIL(FAIL_INPUT, "not a plain file", open_one(".", 2, 200));
}

/* The index and its ids; gives the index's bytes. */
static size_t write_megatron(const char *name, int type, int width, int32_t last_length) {
  MegatronFile index = megatron_file(type, width, last_length);
  char path[64];
  snprintf(path, sizeof path, "%s.bin", name);
  if (width == 2)
    write_raw(path, (uint16_t[]){5, 6, 7, 8, 9, 10, 65000}, 14);
  else
    write_raw(path, (int32_t[]){5, 6, 7, 8, 9, 10, 70000}, 28);
  snprintf(path, sizeof path, "%s.idx", name);
  write_raw(path, &index, sizeof index);
  return sizeof index;
}

TEST(megatrons_files_are_known_by_the_index_beside_them) {
  for (int width = 2; width <= 4; width += 2) {
    write_megatron("m", width == 2 ? 8 : 4, width, 4);
    Tokens *t = open_one("m.bin", 0, 80000);
    int32_t out[7];
    tokens_sample(t, 0, 6, out);
    EXPECT(tokens_n(t) == 7 && out[0] == 5 && out[5] == 10 && out[6] == (width == 2 ? 65000 : 70000));
    tokens_close(t);
    EXPECT_FAIL(FAIL_INPUT, "m.bin is there", open_one("m", 0, 80000));
    MegatronIndex index;
    EXPECT(try_megatron_open(check_path("m.idx"), 7 * (uint64_t)width, &index, NULL));
    EXPECT(megatron_next(&index, -1) == 0 && megatron_next(&index, 0) == 3 && megatron_next(&index, 2) == 3);
    EXPECT(megatron_next(&index, 3) >= 7);
    megatron_close(&index);
  }
}

TEST(documents_begin_behind_an_end_and_where_an_index_says) {
  write_raw("raw", (uint16_t[]){3, 1, 9, 9, 5, 9, 2, 6, 5}, 18);
  Tokens *t = open_one("raw", 2, 10);
  int32_t ids[9], starts[9], none[9] = {0}, ends[9] = {0, 0, 0, 3, 4, 4, 6, 6, 6}, second[5] = {0, 0, 2, 2, 2};
  tokens_sample(t, 0, 8, ids);
  tokens_starts(t, 0, 8, 9, ids, NULL, starts);
  EXPECT(!memcmp(starts, ends, sizeof ends) && !tokens_indexed(t));
  tokens_starts(t, 0, 8, -1, ids, NULL, starts);
  EXPECT(!memcmp(starts, none, sizeof none));
  tokens_sample(t, 1, 4, ids);
  tokens_starts(t, 1, 4, 9, ids, NULL, starts);
  EXPECT(!memcmp(starts, second, sizeof second));
  tokens_close(t);
  write_megatron("m", 4, 4, 4);
  write_megatron("n", 4, 4, 4);
  const char *both[] = {check_path("m.bin"), check_path("n.bin")};
  t = tokens_open(both, 2, &(TokensAsk){0, 80000, "tokens"});
  int32_t many[14], where[14], by_index[14] = {0, 0, 0, 3, 3, 3, 3, 7, 7, 7, 10, 10, 10, 10};
  tokens_sample(t, 0, 13, many);
  tokens_starts(t, 0, 13, -1, many, NULL, where);
  EXPECT(!memcmp(where, by_index, sizeof where) && tokens_indexed(t));
  tokens_close(t);
}

TEST(a_damaged_megatron_index_is_refused_by_name) {
  size_t n = write_megatron("m", 4, 4, 4);
  EXPECT_FAIL(FAIL_INPUT, "m.bin: its header says 4-byte ids, data.dtype 2-byte ones", open_one("m.bin", 2, 80000));
  CHECK(!truncate(check_path("m.bin"), 24));
  EXPECT_FAIL(FAIL_INPUT, "m.idx: its sequences do not end where the ids beside it do (24 bytes)", open_one("m.bin", 0, 80000));
  write_megatron("m", 4, 4, -1);
  EXPECT_FAIL(FAIL_INPUT, "m.idx: its sequences do not end", open_one("m.bin", 0, 80000));
  write_megatron("m", 5, 4, 4);
  EXPECT_FAIL(FAIL_INPUT, "m.idx: its ids are of type 5 (int64); int32 and uint16 are read", open_one("m.bin", 0, 80000));
  write_megatron("m", 200, 4, 4);
  EXPECT_FAIL(FAIL_INPUT, "m.idx: its ids are of type 200; int32", open_one("m.bin", 0, 80000));
  for (size_t cut = 9; cut < n; cut++) {
    write_megatron("m", 4, 4, 4);
    CHECK(!truncate(check_path("m.idx"), (off_t)cut));
    EXPECT_FAIL(FAIL_INPUT, "m.idx", open_one("m.bin", 0, 80000));
  }
}

/* --- HDF5 ----------------------------------------------------------------------------------------------------------------- */

/* 30 ids from 0 on, which HDF5 converts to the type; chunk: 0 for one piece. */
static void write_h5(const char *name, const char *dataset, hid_t type, int rank, hsize_t chunk) {
  int32_t ids[30];
  for (int i = 0; i < 30; i++) ids[i] = i;
  h5_start();
  hid_t file = H5Fcreate(check_path(name), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  hid_t space = H5Screate_simple(rank, rank == 1 ? (hsize_t[]){30} : (hsize_t[]){5, 6}, NULL), made = H5Pcreate(H5P_DATASET_CREATE);
  if (chunk) CHECK(H5Pset_chunk(made, 1, &chunk) >= 0);
  hid_t links = H5Pcreate(H5P_LINK_CREATE);
  CHECK(H5Pset_create_intermediate_group(links, 1) >= 0);
  hid_t set = H5Dcreate2(file, dataset, type, space, links, made, H5P_DEFAULT);
  CHECK(set >= 0 && H5Dwrite(set, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, ids) >= 0);
  CHECK(H5Dclose(set) >= 0 && H5Pclose(made) >= 0 && H5Pclose(links) >= 0 && H5Sclose(space) >= 0 && H5Fclose(file) >= 0);
}

static Tokens *open_h5(const char *name, const char *dataset, int64_t vocab) {
  const char *pattern = check_path(name);
  return tokens_open(&pattern, 1, &(TokensAsk){0, vocab, dataset});
}

TEST(datasets_of_hdf5_are_read_whatever_their_width_and_shape) {
  write_count("z.bin", 2, 30, 30);
  const hid_t types[] = {H5T_STD_U8LE, H5T_STD_U16LE, H5T_STD_I32LE, H5T_STD_U32LE, H5T_STD_I64LE, H5T_STD_U64LE};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    int32_t out[60];
    write_h5("a.h5", i % 2 ? "tokens" : "train/ids", types[i], 1 + i % 2, 0);
    const char *both[] = {check_path("a.h5"), check_path("z.bin")};
    Tokens *t = tokens_open(both, 2, &(TokensAsk){0, 60, i % 2 ? "tokens" : "train/ids"});
    EXPECT(tokens_n(t) == 60);
    tokens_sample(t, 0, 59, out);
    for (int k = 0; k < 60; k++) EXPECT(out[k] == k);
    tokens_close(t);
  }
}

/* What others pad with: at each width the greatest id, were it read without its sign. */
TEST(negative_numbers_of_hdf5_are_no_ids_at_any_width) {
  const hid_t types[] = {H5T_STD_I8LE, H5T_STD_I16LE, H5T_STD_I32LE, H5T_STD_I64LE};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    int32_t ids[30] = {[20] = -1}, out[30];
    write_h5("s.h5", "tokens", types[i], 1, 0);
    Tokens *t = open_h5("s.h5", "tokens", 100000);
    tokens_sample(t, 0, 29, out);
    for (int k = 0; k < 30; k++) EXPECT(out[k] == k);
    tokens_close(t);
    hid_t file = H5Fopen(check_path("s.h5"), H5F_ACC_RDWR, H5P_DEFAULT), set = H5Dopen2(file, "tokens", H5P_DEFAULT);
    CHECK(H5Dwrite(set, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, ids) >= 0 && H5Dclose(set) >= 0 && H5Fclose(file) >= 0);
    EXPECT_FAIL(FAIL_INPUT, "s.h5: token 20 is -1, no id\nhelp: leave padding out",
                tokens_sample(open_h5("s.h5", "tokens", 100000), 0, 29, out));
  }
}

TEST(datasets_of_hdf5_that_cannot_be_read_are_named) {
  int32_t out[30];
  write_h5("a.h5", "tokens", H5T_STD_I64LE, 1, 0);
  EXPECT_FAIL(FAIL_INPUT, "a.h5 has no dataset 'text'\nhelp: data.hdf5_dataset names it; the file has tokens",
              open_h5("a.h5", "text", 60));
  hid_t file = H5Fcreate(check_path("e.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  CHECK(H5Lcreate_external(check_path("a.h5"), "/tokens", file, "tokens", H5P_DEFAULT, H5P_DEFAULT) >= 0 && H5Fclose(file) >= 0);
  EXPECT_FAIL(FAIL_INPUT, "e.h5: 'tokens' is no dataset of this file", open_h5("e.h5", "tokens", 60));
  EXPECT_FAIL(FAIL_INPUT, "a.h5: token 20 is 20, but the vocabulary ends at 19",
              tokens_sample(open_h5("a.h5", "tokens", 20), 0, 29, out));
  write_h5("b.h5", "tokens", H5T_IEEE_F32LE, 1, 0);
  EXPECT_FAIL(FAIL_INPUT, "b.h5: dataset 'tokens' is not of little-endian integers", open_h5("b.h5", "tokens", 60));
  write_h5("b.h5", "tokens", H5T_STD_I32BE, 1, 0);
  EXPECT_FAIL(FAIL_INPUT, "b.h5: dataset 'tokens' is not of little-endian integers", open_h5("b.h5", "tokens", 60));
  write_h5("c.h5", "tokens", H5T_STD_U16LE, 1, 10);
  EXPECT_FAIL(FAIL_INPUT, "c.h5: dataset 'tokens' does not lie in one piece\nhelp: h5repack", open_h5("c.h5", "tokens", 60));
  write_raw("d.h5", "\x89HDF\r\n\x1a\n and no more", 20);
  EXPECT_FAIL(FAIL_INPUT, "d.h5: ", open_h5("d.h5", "tokens", 60));
  EXPECT_FAIL(FAIL_INPUT, "a.h5: its header says 8-byte ids, data.dtype 2-byte ones", open_one("a.h5", 2, 60));
  struct stat info;
  CHECK(!stat(check_path("a.h5"), &info));
  for (off_t cut = 16; cut < info.st_size; cut += 97) { /* HDF5 says so, or its answer is held against the size */
    CHECK(!truncate(check_path("a.h5"), info.st_size - cut));
    EXPECT_FAIL(FAIL_INPUT, "a.h5", open_h5("a.h5", "tokens", 60));
  }
}

TEST(less_than_one_sequence_is_refused) {
  write_count("a.bin", 2, 0, 64);
  Tokens *t = open_one("a.bin", 0, 200);
  EXPECT(tokens_samples(t, 63) == 1);
  EXPECT_FAIL(FAIL_INPUT, "64 tokens are less than one sequence of 64 and its last label", tokens_samples(t, 64));
  tokens_close(t);
}

TEST(an_id_outside_the_vocabulary_is_named_with_file_and_place) {
  write_count("a.bin", 2, 0, 10);
  write_count("b.bin", 2, 10, 10);
  Tokens *t = open_one("*.bin", 0, 15);
  int32_t out[6];
  tokens_sample(t, 1, 5, out);
  EXPECT_FAIL(FAIL_INPUT, "b.bin: token 5 is 15, but the vocabulary ends at 14", tokens_sample(t, 2, 5, out));
  tokens_close(t);
}

TEST(the_order_is_a_bijection_that_changes_with_seed_stream_and_epoch) {
  for (int64_t n = 1; n < 700; n = n * 2 + 1) {
    int same_epoch = 0, same_seed = 0, same_stream = 0;
    char *seen = xmalloc((size_t)n);
    memset(seen, 0, (size_t)n);
    for (int64_t i = 0; i < n; i++) {
      int64_t sample = tokens_order((TokensRange){5, n}, 1, 0, 0, i);
      EXPECT(sample >= 5 && sample < 5 + n && !seen[sample - 5]++);
      EXPECT(tokens_order((TokensRange){5, n}, 1, 0, 0, i) == sample);
      same_epoch += tokens_order((TokensRange){5, n}, 1, 0, 1, i) == sample;
      same_stream += tokens_order((TokensRange){5, n}, 1, 1, 0, i) == sample;
      same_seed += tokens_order((TokensRange){5, n}, 2, 0, 0, i) == sample;
    }
    free(seen);
    if (n > 100) EXPECT(same_epoch < n / 10 && same_seed < n / 10 && same_stream < n / 10);
  }
}

TEST(a_split_is_disjoint_whole_and_from_the_end) {
  const double fractions[] = {0, 1e-9, 0.02, 0.5, 0.9};
  for (int64_t n = 20; n < 1000; n += 93)
    for (int k = 0; k < 5; k++) {
      TokensRange train, val;
      tokens_split(n, fractions[k], &train, &val);
      EXPECT(train.first == 0 && train.n > 0 && val.first == train.n && train.n + val.n == n && (val.n > 0) == (k > 0));
    }
  EXPECT_FAIL(FAIL_INPUT, "1 sequences leave none to train on", tokens_split(1, 0.1, &(TokensRange){0}, &(TokensRange){0}));
}

TEST(a_file_appears_only_when_it_is_whole) {
  TokensWriter *w = tokens_writer_open(check_path("a.bin"), 2);
  tokens_writer_add(w, (int32_t[]){1, 2, 3}, 3);
  EXPECT(access(check_path("a.bin"), F_OK));
  EXPECT_FAIL(FAIL_BUG, "CHECK", tokens_writer_add(w, &(int32_t){65536}, 1));
  tokens_writer_close(w);
  EXPECT(!access(check_path("a.bin"), F_OK) && access(check_path("a.bin.tmp"), F_OK));
  EXPECT_FAIL(FAIL_MACHINE, "none/a.bin: cannot be written: No such file", tokens_writer_open(check_path("none/a.bin"), 2));
}

TEST(a_crash_leaves_no_ids_with_marks_of_others) {
  TokenNote note = {.vocab = 10, .marked = true};
  memset(note.tokenizer, 'a', 64);
  memset(note.job, 'b', 64);
  for (int crash = 0; crash < 2; crash++) {
    TokensWriter *w = tokens_writer_open(check_path("m.bin"), 2);
    tokens_writer_note(w, &note);
    for (int i = 0; i < 3; i++) tokens_writer_add_marked(w, &i, &(uint8_t){(uint8_t)crash}, 1);
    if (crash) {
      CHECK(!unlink(check_path("m.bin.tmp"))); /* between the renames nothing more can be done */
      EXPECT_FAIL(FAIL_MACHINE, "m.bin: cannot be written", tokens_writer_close(w));
    } else {
      tokens_writer_close(w);
    }
    int64_t n = 0;
    EXPECT(tokens_made(check_path("m.bin"), &note, 2, &n) == (crash ? TOKENS_NOT_MADE : TOKENS_MADE));
  }
}

/* Some hosts let processes map so much that memory would come to its end first. */
static bool has_few_maps(void) {
  size_t n;
  char *text = file_read("/proc/sys/vm/max_map_count", &n);
  bool few = text && strtod(text, NULL) < 2e6;
  free(text);
  return few;
}

/* As if so many files were open that one more is all that the kernel lets this process map.  What the heap needs it has before. */
static void leave_one_map(void) {
  enum { BLOCKS = 16, BLOCK = 64 << 10 };
  void *blocks[BLOCKS], *last = MAP_FAILED, *map;
  CHECK(mallopt(M_TRIM_THRESHOLD, 1 << 30) && mallopt(M_MMAP_THRESHOLD, 1 << 30));
  for (int i = 0; i < BLOCKS; i++) blocks[i] = malloc(BLOCK);
  for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
  for (int i = 0; (map = mmap(NULL, 1, i % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED; i++)
    last = map;
  CHECK(last != MAP_FAILED && !munmap(last, 1));
}

TEST(more_files_than_a_process_may_map_are_told_with_what_helps) {
  const char *patterns[] = {check_path("a.bin"), check_path("b.bin")};
  write_count("a.bin", 2, 0, 10);
  write_count("b.bin", 2, 0, 10);
  if (!check_has_few_addresses() || !has_few_maps()) return;
  EXPECT_FAIL(FAIL_INPUT, "b.bin: mmap: Cannot allocate memory\nhelp: fewer and larger files, a larger vm.max_map_count", {
    leave_one_map();
    tokens_open(patterns, 2, &(TokensAsk){0, 100, "tokens"});
  });
}

/* The entropy of equally frequent bytes is the logarithm of their number. */
TEST(tokenize_makes_a_token_a_byte_and_tells_the_entropy) {
  write_raw("a.txt", "\0\377ab", 4);
  write_raw("b.txt", "cdef", 4);
  char *argv[] = {"tokenize", (char *)check_path("out.bin"), (char *)check_path("a.txt"), (char *)check_path("b.txt"), NULL};
  char log[4096], line[200] = "";
  snprintf(log, sizeof log, "%s", check_path("log"));
  fflush(stdout);
  int saved = dup(STDOUT_FILENO);
  CHECK(freopen(log, "w", stdout));
  EXPECT(cmd_tokenize(4, argv) == 0);
  fflush(stdout);
  CHECK(dup2(saved, STDOUT_FILENO) >= 0 && !close(saved));
  FILE *f = fopen(log, "r");
  CHECK(f && fgets(line, sizeof line, f) && !fclose(f));
  EXPECT_TEXT(line, "data   8e-06 MB, 8 tokens, order-0 entropy 3.00 bits/byte\n");
  Tokens *t = open_one("out.bin", 0, 256);
  int32_t out[8];
  tokens_sample(t, 0, 7, out);
  EXPECT(tokens_n(t) == 8 && out[0] == 0 && out[1] == 255 && out[2] == 'a' && out[7] == 'f');
  tokens_close(t);
  EXPECT_FAIL(FAIL_INPUT, "none.txt: No such file", cmd_tokenize(3, (char *[]){"tokenize", "x.bin", "none.txt", NULL}));
  EXPECT_FAIL(FAIL_INPUT, "usage: hpctrain tokenize", cmd_tokenize(2, (char *[]){"tokenize", "x.bin", NULL}));
  EXPECT_FAIL(FAIL_INPUT, "both input and output", cmd_tokenize(3, (char *[]){"tokenize", "x", "x", NULL}));
}
