/* SPDX-License-Identifier: Apache-2.0 */
/* What rows a run sees: made ahead or not, with marks, of whole documents; and how soon the first are there. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/base/file.h"
#include "src/base/rng.h"
#include "src/train/documents.h"
#include "src/train/prefetch.h"
#include "test/check.h"

enum { VOCAB = 1000, S = 8 };

/* Ids from 1 on; marks NULL: none. */
static void write_file(const char *name, const uint8_t *marks, int n) {
  TokensWriter *w = tokens_writer_open(check_path(name), 2);
  TokenNote note = {.vocab = VOCAB, .marked = marks};
  tokens_writer_note(w, &note);
  for (int32_t i = 0; i < n; i++) {
    int32_t id = 1 + i;
    if (marks)
      tokens_writer_add_marked(w, &id, marks + i, 1);
    else
      tokens_writer_add(w, &id, 1);
  }
  tokens_writer_close(w);
}

/* Of a run file whose data are these. */
static Config *config_more(Arena *arena, const char *data, const char *more) {
  char *text = arena_printf(arena,
                            "hpctrain: 1\nmodel: {vocab_size: 1000, hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 1, "
                            "intermediate_size: 8}\ndata: {%s}\ntrain: {seq_len: %d, duration: 10 steps, global_batch_size: 4 "
                            "sequences, lr: 1e-2, schedule: constant}\n%s\n",
                            data, S, more);
  char *argv[] = {"test", NULL};
  return config_parse(arena, "t.yaml", text, 1, argv);
}

static Config *config_of(Arena *arena, const char *data) { return config_more(arena, data, ""); }

static Config *config_file(Arena *arena, const char *name, const char *more) {
  return config_of(arena, arena_printf(arena, "train: \"%s\"%s", check_path(name), more));
}

typedef struct Made {
  int32_t ids[4 * S], labels[4 * S], starts[4 * S];
} Made;

static Made make(const Data *data, Arena *arena, int64_t first, int64_t n) {
  Made made = {{0}, {0}, {0}};
  DataRoom room = data_room(data, arena);
  Why why;
  CHECK(n <= 4);
  if (!try_data_train(data, &room, first, n, made.ids, made.labels, made.starts, &why)) fail(FAIL_INPUT, "%s", why.text);
  return made;
}

/* --- made ahead ------------------------------------------------------------------------------------------------------------- */

static bool same_rows(const Data *data, Arena *arena, Prefetch *p, int64_t first) {
  Made made = make(data, arena, first, 2);
  const Rows *rows = prefetch_take(p, first);
  size_t n = 2 * S * sizeof(int32_t);
  return !memcmp(rows->ids, made.ids, n) && !memcmp(rows->labels, made.labels, n) && !memcmp(rows->starts, made.starts, n);
}

TEST(rows_made_ahead_are_the_rows_whoever_asks_in_whatever_order) {
  Arena *arena = arena_open();
  write_file("a.bin", NULL, 900);
  const Config *c = config_file(arena, "a.bin", ", packing: true, document_end: 5");
  for (int ahead = 1; ahead <= 5; ahead++) {
    Data *data = data_open(arena, c, NULL, VOCAB);
    data_set_end(data, c, VOCAB, -1);
    Prefetch *p = prefetch_open(arena, data, c, 2, 6, ahead);
    for (int64_t i = 0; i < 60; i++) EXPECT(same_rows(data, arena, p, i * 6));
    for (int again = 0; again < 3; again++) /* a way back; the same once more */
      for (int64_t i = 7; i < 12; i++) EXPECT(same_rows(data, arena, p, i * 6));
    Rng rng = rng_make(1, RNG_TEST, "rows", 0);
    for (uint64_t i = 0; i < 100; i++) EXPECT(same_rows(data, arena, p, (int64_t)(rng_uniform(&rng, i) * 1e6)));
    prefetch_close(p);
    data_close(data);
  }
  arena_close(arena);
}

TEST(what_was_taken_is_the_takers_to_write) {
  Arena *arena = arena_open();
  write_file("a.bin", NULL, 900);
  const Config *c = config_file(arena, "a.bin", "");
  Data *data = data_open(arena, c, NULL, VOCAB);
  Prefetch *p = prefetch_open(arena, data, c, 2, 2, 1);
  for (int64_t i = 0; i < 50; i++) {
    Made made = make(data, arena, 2 * i, 2);
    const Rows *rows = prefetch_take(p, 2 * i);
    usleep(20); /* the thread has its chance */
    EXPECT(!memcmp(rows->ids, made.ids, 2 * S * sizeof(int32_t)));
    memset(rows->ids, 0x77, 2 * S * sizeof(int32_t));
    memset(rows->labels, 0x77, 2 * S * sizeof(int32_t));
  }
  prefetch_close(p);
  data_close(data);
  arena_close(arena);
}

TEST(a_thread_that_makes_rows_ends_at_any_time) {
  Arena *arena = arena_open();
  write_file("a.bin", NULL, 900);
  const Config *c = config_file(arena, "a.bin", "");
  Data *data = data_open(arena, c, NULL, VOCAB);
  for (int taken = 0; taken < 40; taken++) {
    Prefetch *p = prefetch_open(arena, data, c, 4, 4, 1 + taken % 4);
    for (int i = 0; i < taken % 7; i++) prefetch_take(p, 4 * i);
    prefetch_close(p);
  }
  data_close(data);
  arena_close(arena);
}

/* An id that is none lies in a row that is made ahead and never asked for, and then in one that is. */
TEST(what_is_wrong_with_a_row_is_told_when_it_is_asked_for) {
  Arena *arena = arena_open();
  uint16_t ids[1 + 10 * S] = {0};
  int bad = 1 + 7 * S;
  ids[bad] = VOCAB;
  CHECK(try_file_write(check_path("raw"), ids, sizeof ids, NULL));
  const Config *c = config_file(arena, "raw", ", dtype: uint16, tokenizer: none");
  Data *data = data_open(arena, c, NULL, VOCAB);
  int64_t number = 0;
  const char *source;
  while (data_sample(data, number, &source) != 7) number++;
  EXPECT(number > 0 || data_sample(data, 1, &source) != 7);
  int64_t start = (number + 10 - 3) % 10;
  Prefetch *p = prefetch_open(arena, data, c, 1, 1, 8);
  prefetch_take(p, start);
  if ((start + 1) % 10 != number) prefetch_take(p, start + 1);
  usleep(2000);
  prefetch_close(p);
  char want[256];
  snprintf(want, sizeof want, "raw: token %d is 1000, but the vocabulary ends at 999", bad);
  EXPECT_FAIL(FAIL_INPUT, want, prefetch_take(prefetch_open(arena, data, c, 1, 1, 2), number));
  data_close(data);
  arena_close(arena);
}

/* By whoever reads: here a thread. */
TEST(a_file_that_is_cut_short_while_it_is_read_is_named) {
  Arena *arena = arena_open();
  uint8_t *marks = arena_alloc(arena, 60000);
  memset(marks, TOKEN_COUNTS, 60000);
  write_file("a.bin", marks, 900);
  CHECK(!truncate(check_path("a.bin"), 1024 + 2 * 60000) && !truncate(check_path("a.mask"), 60000)); /* several pages */
  int32_t header[3] = {20240520, 1, 60000};
  FILE *f = fopen(check_path("a.bin"), "r+");
  CHECK(f && fwrite(header, sizeof header, 1, f) == 1 && !fclose(f));
  const Config *c = config_file(arena, "a.bin", "");
  for (int marked = 0; marked < 2; marked++) {
    const char *name = check_path(marked ? "a.mask" : "a.bin");
    Data *data = data_open(arena, c, NULL, VOCAB);
    struct stat info;
    CHECK(!stat(name, &info));
    EXPECT_FAIL(FAIL_MACHINE, marked ? "a.mask: cannot be read at byte " : "a.bin: cannot be read at byte ", {
      Prefetch *p = prefetch_open(arena, data, c, 2, 2, 1);
      CHECK(!truncate(name, 2));
      for (int64_t i = 0; i < 1000; i++) prefetch_take(p, 2 * i);
    });
    data_close(data);
    CHECK(!truncate(name, info.st_size));
    f = fopen(check_path("a.bin"), "r+");
    CHECK(f && fwrite(header, sizeof header, 1, f) == 1 && !fclose(f));
  }
  arena_close(arena);
}

/* --- marks ------------------------------------------------------------------------------------------------------------------- */

TEST(labels_whose_mark_says_so_are_ignored) {
  Arena *arena = arena_open();
  uint8_t marks[200];
  for (int i = 0; i < 200; i++) marks[i] = i % 3 == 0;
  write_file("a.bin", marks, 200);
  Data *data = data_open(arena, config_file(arena, "a.bin", ""), NULL, VOCAB);
  for (int64_t i = 0; i < 24; i++) {
    Made made = make(data, arena, i, 1);
    for (int t = 0; t < S; t++) EXPECT(made.labels[t] == (made.ids[t] % 3 == 0 ? made.ids[t] + 1 : -100)); /* ids count from 1 */
  }
  data_close(data);
  arena_close(arena);
}

TEST(marks_that_are_all_1_change_nothing_and_files_without_them_count) {
  Arena *arena = arena_open();
  uint8_t marks[100];
  memset(marks, TOKEN_COUNTS, sizeof marks);
  write_file("plain-1.bin", NULL, 100);
  write_file("plain-2.bin", NULL, 100);
  write_file("some-1.bin", marks, 100);
  write_file("some-2.bin", NULL, 100);
  Data *plain = data_open(arena, config_file(arena, "plain-*.bin", ""), NULL, VOCAB);
  Data *some = data_open(arena, config_file(arena, "some-*.bin", ""), NULL, VOCAB);
  for (int64_t i = 0; i < 24; i++) {
    Made a = make(plain, arena, i, 1), b = make(some, arena, i, 1);
    EXPECT(!memcmp(&a, &b, sizeof a));
  }
  data_close(plain);
  data_close(some);
  arena_close(arena);
}

TEST(marks_of_documents_are_as_good_as_an_id_that_ends_them) {
  Arena *arena = arena_open();
  uint8_t marks[200];
  for (int i = 0; i < 200; i++) marks[i] = (uint8_t)(TOKEN_COUNTS | (i == 5 || i == 9 || i == 100 ? TOKEN_BEGINS : 0));
  write_file("a.bin", marks, 200);
  const Config *c = config_file(arena, "a.bin", ", packing: true");
  Data *data = data_open(arena, c, NULL, VOCAB);
  data_set_end(data, c, VOCAB, -1);
  for (int64_t i = 0; i < 24; i++) {
    Made made = make(data, arena, i, 1);
    for (int t = 0; t < S; t++) {
      int at = made.ids[t] - 1, begin = at >= 100 ? 100 : at >= 9 ? 9 : at >= 5 ? 5 : 0, first = made.ids[0] - 1;
      EXPECT(made.starts[t] == (begin > first ? begin - first : 0));
      EXPECT((made.labels[t] == -100) == (at + 1 == 5 || at + 1 == 9 || at + 1 == 100));
    }
  }
  data_close(data);
  arena_close(arena);
}

/* Whoever wrote the file: without a note of its header. */
TEST(packing_takes_marks_of_documents_that_are_ones_own_and_wants_one) {
  Arena *arena = arena_open();
  uint8_t marks[200];
  memset(marks, TOKEN_COUNTS, sizeof marks);
  write_file("a.bin", NULL, 200);
  const Config *c = config_file(arena, "a.bin", ", packing: true");
  for (int begins = 0; begins < 2; begins++) {
    marks[100] |= begins ? TOKEN_BEGINS : 0;
    CHECK(try_file_write(check_path("a.mask"), marks, sizeof marks, NULL));
    Data *data = data_open(arena, c, NULL, VOCAB);
    if (begins)
      data_set_end(data, c, VOCAB, -1);
    else
      EXPECT_FAIL(FAIL_INPUT, "nothing tells where documents end", data_set_end(data, c, VOCAB, -1));
    data_close(data);
  }
  arena_close(arena);
}

/* Of 10 rows the last two are for validation, the last but one alone where eval.tokens is a row. */
TEST(sets_of_which_nothing_counts_are_refused_by_name) {
  Arena *arena = arena_open();
  const struct {
    int first; /* label that counts, and it alone; of `rows` rows */
    const char *data, *more, *want;
  } cases[] = {{1, "train: a.bin, val_fraction: 0.2", "", "val: none of its 16 tokens counts"},
               {64, "train: a.bin, val_fraction: 0.2", "", "val: none of its 16 tokens counts"},
               {65, "train: a.bin, val_fraction: 0.2", "", "a.bin: none of its 64 tokens counts"},
               {73, "train: a.bin, val: {v: a.bin}", "eval: {tokens: 72 tokens}", "v: none of its first 72 tokens counts"},
               {72, "train: a.bin, val: {v: a.bin}", "eval: {tokens: 72 tokens}", NULL},
               {0, "train: a.bin", "", "a.bin: none of its 80 tokens counts"},
               {0, "train: [b.bin, a.bin]", "", NULL},
               {80, "train: [{path: b.bin, weight: 1}, {path: a.bin, weight: 1}]", "", NULL},
               {0, "train: [{path: b.bin, weight: 1}, {path: a.bin, weight: 1}]", "", "a.bin: none of its 80 tokens counts"}};
  CHECK(!chdir(check_folder()));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint8_t marks[10 * S + 1] = {0};
    marks[cases[i].first] = TOKEN_COUNTS;
    write_file("b.bin", NULL, 100);
    write_file("a.bin", marks, sizeof marks);
    const Config *c = config_more(arena, cases[i].data, cases[i].more);
    if (cases[i].want)
      EXPECT_FAIL(FAIL_INPUT, cases[i].want, data_open(arena, c, NULL, VOCAB));
    else
      data_close(data_open(arena, c, NULL, VOCAB));
  }
  arena_close(arena);
}

TEST(marks_that_are_missing_too_few_or_none_are_named) {
  Arena *arena = arena_open();
  uint8_t marks[100];
  memset(marks, TOKEN_COUNTS, sizeof marks);
  write_file("a.bin", marks, 100);
  const Config *c = config_file(arena, "a.bin", "");
  CHECK(!truncate(check_path("a.mask"), 99));
  EXPECT_FAIL(FAIL_INPUT, "a.mask: 99 bytes, but the token file beside it has 100 ids", data_open(arena, c, NULL, VOCAB));
  CHECK(!unlink(check_path("a.mask")));
  EXPECT_FAIL(FAIL_INPUT, "a.mask: No such file", data_open(arena, c, NULL, VOCAB));
  write_file("a.bin", NULL, 100);
  memset(marks, TOKEN_COUNTS, sizeof marks);
  marks[50] = 4;
  CHECK(try_file_write(check_path("a.mask"), marks, sizeof marks, NULL));
  Data *data = data_open(arena, c, NULL, VOCAB);
  EXPECT_FAIL(FAIL_INPUT, "a.mask: byte 50 is 4, no mark", for (int64_t i = 0; i < 12; i++) make(data, arena, i, 1));
  data_close(data);
  EXPECT_FAIL(FAIL_INPUT, "a.mask is there, and would be taken for marks", write_file("a.bin", NULL, 100));
  EXPECT_FAIL(FAIL_INPUT, "a.mask holds the marks of the token file", data_open(arena, config_file(arena, "a.*", ""), NULL, VOCAB));
  arena_close(arena);
}

/* As two ranks may have them, of which one sees a file that is no more. */
TEST(the_hash_of_data_tells_files_of_equal_size_apart_by_what_they_were_made_of) {
  Arena *arena = arena_open();
  const Config *c = config_file(arena, "h.bin", "");
  uint64_t hash[3];
  for (int i = 0; i < 3; i++) {
    TokensWriter *w = tokens_writer_open(check_path("h.bin"), 2);
    TokenNote note = {.vocab = VOCAB};
    memset(note.job, i < 2 ? 'a' : 'b', 64);
    tokens_writer_note(w, &note);
    for (int32_t id = 0; id < 100; id++) tokens_writer_add(w, &id, 1);
    tokens_writer_close(w);
    Data *data = data_open(arena, c, NULL, VOCAB);
    hash[i] = data_hash(data);
    data_close(data);
  }
  EXPECT(hash[0] == hash[1] && hash[0] != hash[2]);
  arena_close(arena);
}

/* --- documents ---------------------------------------------------------------------------------------------------------------- */

/* Documents of these lengths, whose ids from `counts` on count. */
static void write_documents(const char *name, const int *lengths, int n, int counts) {
  uint8_t marks[900];
  int at = 0;
  for (int d = 0; d < n; d++)
    for (int i = 0; i < lengths[d]; i++) marks[at++] = (uint8_t)((i ? 0 : TOKEN_BEGINS) | (i >= counts ? TOKEN_COUNTS : 0));
  write_file(name, marks, at);
}

static int by_value(const void *a, const void *b) { return *(const int32_t *)a - *(const int32_t *)b; }

/* Every label that counts comes once an epoch, behind its own id, and none else; what is over is padding. */
static void expect_whole(const Data *data, Arena *arena, const int32_t *want, int n) {
  int32_t got[900];
  int found = 0;
  for (int64_t i = 0; i < data_epoch_sequences(data); i++) {
    Made made = make(data, arena, i, 1);
    for (int t = 0; t < S; t++)
      if (made.labels[t] >= 0) {
        EXPECT(made.labels[t] == made.ids[t] + 1);
        got[found++] = made.labels[t];
      }
  }
  qsort(got, (size_t)found, sizeof *got, by_value);
  EXPECT(found == n && !memcmp(got, want, sizeof *got * (size_t)n));
}

static const int lengths[] = {3, 9, 2, 5, 4, 7, 3, 6, 2, 8};
enum { DOCUMENTS = sizeof lengths / sizeof *lengths };

/* Labels that count: ids behind the second of each document; at most S of a document's. */
static int wanted(int32_t *want) {
  int n = 0, id = 1;
  for (int d = 0; d < DOCUMENTS; d++) {
    for (int i = 0; i < lengths[d]; i++)
      if (i >= 2 && i <= S) want[n++] = id + i;
    id += lengths[d];
  }
  return n;
}

TEST(a_document_is_a_row_and_every_label_comes_once) {
  Arena *arena = arena_open();
  int32_t want[900];
  int n = wanted(want);
  write_documents("d.bin", lengths, DOCUMENTS, 2);
  Data *data = data_open(arena, config_file(arena, "d.bin", ", format: chat"), NULL, VOCAB);
  EXPECT(data_epoch_sequences(data) == DOCUMENTS - 2); /* those of two ids have nothing that counts */
  expect_whole(data, arena, want, n);
  Text told = {0};
  data_marks(data, &told);
  EXPECT(strstr(told.at, "10 documents in 8 sequences") && strstr(told.at, "2 have nothing that counts") &&
         !strstr(told.at, "longer"));
  text_close(&told);
  data_close(data);
  arena_close(arena);
}

TEST(packed_documents_share_rows_as_segments_and_every_label_comes_once) {
  Arena *arena = arena_open();
  int32_t want[900];
  int n = wanted(want);
  write_documents("d.bin", lengths, DOCUMENTS, 2);
  const Config *c = config_file(arena, "d.bin", ", format: chat, packing: true");
  Data *data = data_open(arena, c, NULL, VOCAB);
  data_set_end(data, c, VOCAB, -1);
  EXPECT(data_epoch_sequences(data) <= 6); /* 39 labels in rows of 8 */
  expect_whole(data, arena, want, n);
  for (int64_t i = 0; i < data_epoch_sequences(data); i++) {
    Made made = make(data, arena, i, 1);
    for (int t = 0; t < S; t++) {
      bool padding = made.ids[t] == 0, begins = t == 0 || made.ids[t] != made.ids[t - 1] + 1;
      if (!padding) EXPECT(made.starts[t] == (begins ? t : made.starts[t - 1]));
      if (padding) EXPECT(made.labels[t] == DATA_PADDING && made.starts[t] > 0 && made.ids[made.starts[t]] == 0);
    }
  }
  data_close(data);
  arena_close(arena);
}

TEST(longer_documents_are_cut_dropped_or_refused_as_asked) {
  Arena *arena = arena_open();
  const int some[] = {4, 12, 5};
  write_documents("d.bin", some, 3, 0);
  Data *cut = data_open(arena, config_file(arena, "d.bin", ", format: chat"), NULL, VOCAB);
  Data *drop = data_open(arena, config_file(arena, "d.bin", ", format: chat, too_long: drop"), NULL, VOCAB);
  expect_whole(cut, arena, (int32_t[]){2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 18, 19, 20, 21}, 15);
  expect_whole(drop, arena, (int32_t[]){2, 3, 4, 18, 19, 20, 21}, 7);
  Text told = {0};
  data_marks(cut, &told);
  EXPECT(strstr(told.at, "1 are longer than train.seq_len"));
  text_close(&told);
  EXPECT_FAIL(FAIL_INPUT, "d.bin: document 2 of its pattern (of JSON lines, that line that is not blank) has 12 tokens",
              data_open(arena, config_file(arena, "d.bin", ", format: chat, too_long: refuse"), NULL, VOCAB));
  write_documents("shards-1.bin", lengths, 1, 0);
  write_documents("shards-2.bin", some, 3, 0);
  const Config *two = config_of(arena, arena_printf(arena, "train: [\"%s\", \"%s\"], format: chat, too_long: refuse",
                                                    check_path("shards-1.bin"), check_path("shards-*.bin")));
  EXPECT_FAIL(FAIL_INPUT, "shards-2.bin: document 3 of its pattern ", data_open(arena, two, NULL, VOCAB));
  write_file("plain.bin", NULL, 100);
  EXPECT_FAIL(FAIL_INPUT, "plain.bin: no mark says where a document begins",
              data_open(arena, config_file(arena, "plain.bin", ", format: chat"), NULL, VOCAB));
  data_close(cut);
  data_close(drop);
  arena_close(arena);
}

static int by_bytes(const void *a, const void *b) { return memcmp(a, b, 2 * S * sizeof(int32_t)); }

/* A step's rows, ids and labels of each. */
static void rows_of(const Data *data, Arena *arena, int64_t step, int32_t rows[4][2 * S]) {
  Made made = make(data, arena, 4 * step, 4);
  for (int r = 0; r < 4; r++) {
    memcpy(rows[r], made.ids + r * S, S * sizeof(int32_t));
    memcpy(rows[r] + S, made.labels + r * S, S * sizeof(int32_t));
  }
}

/* All that is behind a row's length is padding. */
static int length_of(const int32_t row[2 * S]) {
  int n = S;
  while (n > 0 && row[n - 1] == 0) n--;
  return n;
}

/* Of these files, or of a mixture of them. */
static void expect_same_steps(Arena *arena, const char *train) {
  const char *base = arena_printf(arena, "train: %s, format: chat", train);
  Data *plain = data_open(arena, config_of(arena, base), NULL, VOCAB),
       *sorted = data_open(arena, config_of(arena, arena_printf(arena, "%s, buckets: [2, 4]", base)), NULL, VOCAB);
  EXPECT(data_hash(plain) != data_hash(sorted)); /* ranks that sort agree on lengths */
  int moved = 0;
  for (int64_t step = 9; step >= 0; step--) {
    int32_t a[4][2 * S], b[4][2 * S];
    RowLengths of = data_lengths(sorted, NULL, 4 * step, 4);
    int64_t sum = 0;
    rows_of(plain, arena, step, a);
    rows_of(sorted, arena, step, b);
    for (int r = 0; r < 4; r++) {
      RowLengths one = data_lengths(sorted, NULL, 4 * step + r, 1);
      const char *source, *was;
      EXPECT(one.longest == length_of(b[r]) && one.sum == one.longest && (!r || one.longest >= length_of(b[r - 1])));
      int64_t same = 0, sample = data_sample(sorted, 4 * step + r, &source);
      while (data_sample(plain, 4 * step + same, &was) != sample || (was && strcmp(was, source))) EXPECT(++same < 4);
      EXPECT(!memcmp(a[same], b[r], sizeof *a) && !was == !source);
      sum += one.sum;
    }
    EXPECT(of.sum == sum && of.longest == length_of(b[3]));
    moved += memcmp(a, b, sizeof a) != 0;
    qsort(a, 4, sizeof *a, by_bytes);
    qsort(b, 4, sizeof *b, by_bytes);
    EXPECT(!memcmp(a, b, sizeof a));
  }
  EXPECT(moved > 5 && data_lengths(plain, NULL, 0, 4).longest == S);
  data_close(plain);
  data_close(sorted);
}

TEST(with_buckets_each_step_has_the_same_rows_by_length) {
  Arena *arena = arena_open();
  write_documents("d.bin", lengths, DOCUMENTS, 2);
  write_documents("e.bin", lengths + 3, 5, 1);
  const char *one = arena_printf(arena, "\"%s\"", check_path("d.bin"));
  expect_same_steps(arena, one);
  expect_same_steps(arena, arena_printf(arena, "[{path: %s, weight: 3}, {path: \"%s\", weight: 1}]", one, check_path("e.bin")));
  arena_close(arena);
}

/* Two ranks' passes of two rows: each rank's thread knows the longest row of both, and the job's sorts nothing. */
TEST(rows_made_ahead_say_how_long_the_pass_is_and_where_they_are_from) {
  Arena *arena = arena_open();
  write_documents("d.bin", lengths, DOCUMENTS, 2);
  const Config *c = config_file(arena, "d.bin", ", format: chat, buckets: [2, 4]");
  Data *data = data_open(arena, c, NULL, VOCAB);
  for (int64_t rank = 0; rank < 4; rank++) {
    Prefetch *p = prefetch_open(arena, data, c, 1, 2, 2);
    for (int64_t i = 0; i < 40; i++) {
      int64_t pass = (i < 20 ? i : i / 7) * 2, at = pass + rank % 2; /* first on and on, then back and forth */
      RowLengths want = data_lengths(data, NULL, pass, 2);
      if (rank < 2) EXPECT_TEXT(prefetch_file(p, at), check_path("d.bin"));
      const Rows *rows = prefetch_take(p, at);
      EXPECT(rows->lengths.longest == want.longest && rows->lengths.sum == want.sum);
      EXPECT_TEXT(rows->file, check_path("d.bin"));
      EXPECT(!memcmp(rows->ids, make(data, arena, at, 1).ids, S * sizeof(int32_t)));
    }
    prefetch_close(p);
  }
  data_close(data);
  arena_close(arena);
}

/* Else all of it would be the end of the file before's last document. */
TEST(files_of_which_no_mark_says_that_a_document_begins_are_refused_beside_those_that_have_them) {
  Arena *arena = arena_open();
  uint8_t marks[9] = {0, TOKEN_BEGINS | TOKEN_COUNTS, 1, 1, 1, 1, 1, 1, 1};
  Config *c = config_file(arena, "c-*.bin", ", format: chat");
  write_documents("c-1.bin", lengths, DOCUMENTS, 2);
  write_file("c-2.bin", NULL, 0);
  data_close(data_open(arena, c, NULL, VOCAB));
  write_file("c-3.bin", NULL, 100);
  EXPECT_FAIL(FAIL_INPUT, "c-3.bin: no mark says where a document begins\n", data_open(arena, c, NULL, VOCAB));
  write_file("c-3.bin", marks, 9);
  EXPECT_FAIL(FAIL_INPUT, "c-3.bin: by its marks no document begins with its first token\n", data_open(arena, c, NULL, VOCAB));
  write_file("c-3.bin", marks + 1, 8);
  Data *data = data_open(arena, c, NULL, VOCAB);
  EXPECT(data_epoch_sequences(data) == DOCUMENTS - 2 + 1);
  data_close(data);
  arena_close(arena);
}

/* Best fit leaves little: lengths up to the row's take at most so much more than their sum. */
TEST(packing_fills_rows) {
  enum { LONG = 512, N = 4000 };
  Arena *arena = arena_open();
  TokensWriter *w = tokens_writer_open(check_path("d.bin"), 2);
  Rng rng = rng_make(3, RNG_TEST, "lengths", 0);
  for (uint64_t d = 0; d < N; d++) {
    int n = 2 + (int)(rng_uniform(&rng, d) * (LONG - 1));
    for (int i = 0; i < n; i++)
      tokens_writer_add_marked(w, &(int32_t){i}, &(uint8_t){(uint8_t)(TOKEN_COUNTS | (i ? 0 : TOKEN_BEGINS))}, 1);
  }
  tokens_writer_close(w);
  const char *path = check_path("d.bin");
  Tokens *tokens = tokens_open(&path, 1, &(TokensAsk){0, VOCAB, "tokens"});
  Documents *d;
  Why why;
  EXPECT(try_documents_open(arena, tokens, LONG, true, LONG_CUT, &d, &why));
  const DocumentsTold *told = documents_told(d);
  EXPECT(told->documents == N && (double)told->inputs > 0.95 * (double)told->rows * LONG);
  tokens_close(tokens);
  arena_close(arena);
}

/* --- the first batch --------------------------------------------------------------------------------------------------------- */

/* A terabyte is a number here: nobody may look at all of it.  In processor time, since the machine may be busy. */
TEST(the_first_batch_of_a_terabyte_is_there_within_a_fifth_of_a_second) {
  Arena *arena = arena_open();
  const char *path = check_path("huge.bin");
  int64_t nbytes = (int64_t)1 << 40;
  CHECK(try_file_write(path, "\1\0", 2, NULL));
  while (truncate(path, nbytes)) nbytes /= 2;
  if (nbytes < (int64_t)1 << 40)
    fprintf(stderr, "note: this file system has no files of 1 TB; of %" PRId64 " bytes then\n", nbytes);
  const Config *c = config_file(arena, "huge.bin", ", dtype: uint16, tokenizer: none");
  double cpu = check_cpu_seconds(), clock = clock_seconds();
  Data *data = data_open(arena, c, NULL, VOCAB);
  EXPECT(data_tokens(data) == nbytes / 2);
  Prefetch *p = prefetch_open(arena, data, c, 4, 4, 1);
  prefetch_take(p, 0);
  EXPECT(check_cpu_seconds() - cpu < 0.2);
  fprintf(stderr, "%.4f s\n", clock_seconds() - clock);
  prefetch_close(p);
  data_close(data);
  arena_close(arena);
}
