/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/ahead.h"
#include "src/base/arena.h"
#include "src/base/clock.h"
#include "src/base/crc.h"
#include "src/base/dtype.h"
#include "src/base/file.h"
#include "src/base/hash.h"
#include "src/base/memory.h"
#include "src/base/process.h"
#include "src/base/rng.h"
#include "src/base/text.h"
#include "src/base/thread.h"
#include "src/base/vec.h"
#include "test/check.h"

static const char *sha256_of(const char *bytes, size_t n, char hex[65]) {
  Sha256 s;
  sha256_init(&s);
  sha256_add(&s, bytes, n);
  sha256_hex(&s, hex);
  return hex;
}

/* FIPS 180-4's examples. */
TEST(sha256_gives_the_published_digests) {
  char hex[65];
  EXPECT_TEXT(sha256_of("", 0, hex), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_TEXT(sha256_of("abc", 3, hex), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_TEXT(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, hex),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  char *million = xmalloc(1000000);
  memset(million, 'a', 1000000);
  EXPECT_TEXT(sha256_of(million, 1000000, hex), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  free(million);
}

TEST(sha256_does_not_depend_on_how_bytes_arrive) {
  char bytes[300], whole[65], parts[65];
  for (int i = 0; i < 300; i++) bytes[i] = (char)(i * 7);
  sha256_of(bytes, sizeof bytes, whole);
  for (size_t cut = 0; cut <= sizeof bytes; cut++) {
    Sha256 s;
    sha256_init(&s);
    sha256_add(&s, bytes, cut);
    sha256_add(&s, bytes + cut, sizeof bytes - cut);
    sha256_hex(&s, parts);
    EXPECT_TEXT(parts, whole);
  }
}

/* RFC 3720 B.4 and the check value of the CRC catalogues. */
TEST(crc32c_gives_the_published_values) {
  unsigned char bytes[32] = {0};
  EXPECT(crc32c(0, "123456789", 9) == 0xE3069283u);
  EXPECT(crc32c(0, bytes, 32) == 0x8A9136AAu);
  memset(bytes, 0xFF, 32);
  EXPECT(crc32c(0, bytes, 32) == 0x62A8AB43u);
  for (int i = 0; i < 32; i++) bytes[i] = (unsigned char)i;
  EXPECT(crc32c(0, bytes, 32) == 0x46DD794Eu);
}

TEST(crc32c_continues) {
  for (size_t cut = 0; cut <= 9; cut++) EXPECT(crc32c(crc32c(0, "123456789", cut), &"123456789"[cut], 9 - cut) == 0xE3069283u);
}

/* Known answers of philox4x32-10 from Random123's kat_vectors. */
TEST(philox_gives_the_published_words) {
  static const struct {
    uint32_t counter[4], key[2], words[4];
  } rows[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const uint32_t *c = rows[i].counter;
    Rng rng = {{rows[i].key[0], rows[i].key[1]}, (uint64_t)c[3] << 32 | c[2]};
    uint32_t words[4];
    rng_words(&rng, (uint64_t)c[1] << 32 | c[0], words);
    EXPECT(memcmp(words, rows[i].words, sizeof words) == 0);
  }
}

TEST(rng_streams_differ_by_each_part_of_their_key) {
  Rng rngs[] = {rng_make(1, RNG_TEST, "a", 0), rng_make(2, RNG_TEST, "a", 0), rng_make(1, RNG_INIT, "a", 0),
                rng_make(1, RNG_TEST, "b", 0), rng_make(1, RNG_TEST, "a", 1)};
  enum { N = sizeof rngs / sizeof *rngs };
  for (int i = 0; i < N; i++)
    for (int j = 0; j < i; j++) EXPECT(rng_uniform(&rngs[i], 7) != rng_uniform(&rngs[j], 7));
}

TEST(rng_moments_are_those_of_the_distribution) {
  enum { N = 100000 };
  Rng rng = rng_make(3, RNG_TEST, "moments", 0);
  double mean = 0, square = 0, uniform = 0;
  for (uint64_t i = 0; i < N; i++) {
    double x = rng_normal(&rng, i), u = rng_uniform(&rng, i);
    EXPECT(u >= 0 && u < 1);
    mean += x / N;
    square += x * x / N;
    uniform += u / N;
  }
  /* five standard errors */
  EXPECT(fabs(mean) < 5 / sqrt(N));
  EXPECT(fabs(square - 1) < 5 * sqrt(2.0 / N));
  EXPECT(fabs(uniform - 0.5) < 5 * sqrt(1 / 12.0 / N));
}

TEST(permutation_is_a_bijection) {
  static const uint64_t sizes[] = {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 1000, 4097};
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
    uint64_t n = sizes[k];
    Rng rng = rng_make(k, RNG_DATA_ORDER, "", 0);
    char *seen = xmalloc(n);
    memset(seen, 0, n);
    for (uint64_t i = 0; i < n; i++) {
      uint64_t to = rng_permute(&rng, n, i);
      EXPECT(to < n && !seen[to]);
      seen[to] = 1;
    }
    free(seen);
  }
}

TEST(permutation_is_keyed_and_mixes) {
  enum { N = 4096 };
  Rng a = rng_make(1, RNG_DATA_ORDER, "", 0), b = rng_make(1, RNG_DATA_ORDER, "", 1);
  int same = 0, stay = 0, follow = 0;
  for (uint64_t i = 0; i < N; i++) {
    uint64_t to = rng_permute(&a, N, i);
    same += to == rng_permute(&b, N, i);
    stay += to == i;
    follow += rng_permute(&a, N, (i + 1) % N) == (to + 1) % N;
  }
  EXPECT(same < 20 && stay < 20 && follow < 20); /* about 1 each is expected of random ones */
}

TEST(permutation_of_a_huge_set_stays_inside) {
  Rng rng = rng_make(1, RNG_DATA_ORDER, "", 0);
  uint64_t n = (UINT64_C(1) << 61) + 12345;
  EXPECT(rng_permute(&rng, n, 0) < n);
  EXPECT(rng_permute(&rng, n, n - 1) < n);
  EXPECT_FAIL(FAIL_BUG, "i < n", rng_permute(&rng, 10, 10));
}

TEST(double_reads_back_as_printed) {
  static const double edges[] = {0.0, -0.0, 0.1, 1, 1e22, 3e-4, DBL_MIN, DBL_MAX, DBL_TRUE_MIN, -1.0 / 3};
  Rng rng = rng_make(1, RNG_TEST, "double", 0);
  for (uint64_t i = 0; i < 2000; i++) {
    double value;
    uint32_t w[4];
    rng_words(&rng, i, w);
    memcpy(&value, w, sizeof value);
    if (i < sizeof edges / sizeof *edges) value = edges[i];
    if (!isfinite(value)) continue;
    char text[NUM_TEXT];
    double back;
    EXPECT(num_parse_double(num_double(value, text), &back));
    EXPECT(memcmp(&back, &value, sizeof value) == 0);
  }
}

TEST(float_reads_back_as_printed) {
  Rng rng = rng_make(1, RNG_TEST, "float", 0);
  for (uint64_t i = 0; i < 2000; i++) {
    float value;
    uint32_t w[4];
    rng_words(&rng, i, w);
    memcpy(&value, w, sizeof value);
    if (!isfinite(value)) continue;
    char text[NUM_TEXT];
    EXPECT(strtof(num_float(value, text), NULL) == value);
  }
}

TEST(numbers_print_short) {
  char text[NUM_TEXT];
  EXPECT_TEXT(num_double(0.1, text), "0.1");
  EXPECT_TEXT(num_double(3e-4, text), "0.0003");
  EXPECT_TEXT(num_double(1, text), "1");
  EXPECT_TEXT(num_double(INFINITY, text), "inf");
  EXPECT_TEXT(num_float(0.1f, text), "0.1");
  EXPECT(strstr(num_double(NAN, text), "nan"));
}

TEST(half_a_number_is_no_number) {
  double d;
  int64_t i;
  static const char *bad[] = {"", " 1", "1 ", "1x", "--1", "1e999", "0,5"};
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) EXPECT(!num_parse_double(bad[k], &d) && !num_parse_int(bad[k], &i));
  EXPECT(!num_parse_int("9223372036854775808", &i));
  EXPECT(num_parse_int("-9223372036854775808", &i) && i == INT64_MIN);
}

TEST(arena_memory_is_zeroed_aligned_and_apart) {
  Arena *arena = arena_open();
  unsigned char *parts[200];
  for (size_t k = 0; k < 200; k++) {
    size_t n = k * k * 7 % 5000 + (k == 100) * 1000000;
    parts[k] = arena_alloc(arena, n);
    EXPECT((uintptr_t)parts[k] % 16 == 0);
    for (size_t i = 0; i < n; i++) EXPECT(parts[k][i] == 0);
    memset(parts[k], (int)k, n);
  }
  for (size_t k = 0; k < 200; k++) {
    size_t n = k * k * 7 % 5000 + (k == 100) * 1000000;
    for (size_t i = 0; i < n; i++) EXPECT(parts[k][i] == k);
  }
  arena_close(arena);
}

TEST(arena_text_is_a_copy) {
  Arena *arena = arena_open();
  char from[] = "layers.17";
  char *copy = arena_strdup(arena, from), *part = arena_strndup(arena, from, 6);
  from[0] = 'x';
  EXPECT_TEXT(copy, "layers.17");
  EXPECT_TEXT(part, "layers");
  EXPECT_TEXT(arena_printf(arena, "%s.%d", part, 3), "layers.3");
  arena_close(arena);
}

TEST(vec_keeps_what_was_pushed) {
  Arena *arena = arena_open();
  VEC(int64_t) v = {0};
  for (int i = 0; i < 1000; i++) vec_push(arena, &v, (int64_t)i * i);
  EXPECT(v.n == 1000);
  for (int i = 0; i < 1000; i++) EXPECT(v.at[i] == (int64_t)i * i);
  arena_close(arena);
}

TEST(a_list_has_at_most_as_many_items_as_an_int_counts) {
  int cap = INT_MAX / 2 + 1;
  void *at = NULL;
  EXPECT_FAIL(FAIL_BUG, "INT_MAX", vec_grow(NULL, &at, cap, &cap, 1));
}

TEST(text_grows) {
  Text text = {0};
  for (int i = 0; i < 1000; i++) text_printf(&text, "%d,", i % 10);
  EXPECT(text.n == 2000 && strlen(text.at) == 2000);
  EXPECT(strncmp(text.at + 1990, "5,6,7,8,9,", 10) == 0);
  text_close(&text);
  EXPECT(!text.at && !text.n);
}

TEST(wrapped_text_has_its_words_in_short_lines) {
  static const char words[] = "[--alpha ONE ...] beta gamma: [--delta TWO | --epsilon] zeta";
  Text all = {0}, text = {0}, joined = {0};
  for (int i = 0; i < 4; i++) text_printf(&all, "%s%s", i ? " " : "", words);
  text_wrap(&text, all.at, all.n, 90, 7);
  int column = 90;
  for (const char *at = text.at; *at; at++) {
    column = *at == '\n' ? 0 : column + 1;
    EXPECT(column <= TEXT_WIDTH);
    if (*at == '\n' && at[1]) { /* broken at a blank */
      EXPECT(strspn(at + 1, " ") == 7);
      text_add(&joined, " ", 1);
      at += 7;
      column = 7;
    } else if (*at != '\n') {
      text_add(&joined, at, 1);
    }
  }
  EXPECT_TEXT(joined.at, all.at);
  EXPECT(strstr(text.at, "\n       [--alpha ONE ...]") && !strstr(text.at, "TWO\n"));
  text_close(&text);
  text_close(&joined);
  text_close(&all);
}

TEST(fail_says_its_context_once_and_chooses_the_status) {
  EXPECT_FAIL(FAIL_INPUT, "error: no such key\nhelp: look\n", fail(FAIL_INPUT, "no such key\nhelp: look"));
  EXPECT_FAIL(FAIL_MACHINE, "error: rank 3 (n002): disk full\n", fail_set_context("rank 3 (n002): ");
              fail(FAIL_MACHINE, "disk full"));
  EXPECT_FAIL(FAIL_BUG, "CHECK(1 == 2)", CHECK(1 == 2));
}

static void say(void *self) { CHECK(write(STDERR_FILENO, self, strlen(self)) > 0); }

TEST(what_is_undone_goes_newest_first_and_by_the_process_that_pushed_it) {
  FailUndo a = {.undo = say, .self = "a"}, b = {.undo = say, .self = "b"}, c = {.undo = say, .self = "c"};
  fail_undo_push(&a);
  EXPECT_FAIL(FAIL_INPUT, "cerror: gone\n", fail_undo_push(&c); fail(FAIL_INPUT, "gone"));
  fail_undo_pop(&a);
  EXPECT_FAIL(FAIL_INPUT, "cberror: gone\n", fail_undo_push(&b); fail_undo_push(&a); fail_undo_push(&c); fail_undo_pop(&a);
              fail(FAIL_INPUT, "gone"));
}

TEST(why_tells_the_reason) {
  Why why;
  EXPECT(!why_not(&why, "short by %d", 3));
  EXPECT_TEXT(why.text, "short by 3");
  EXPECT(!why_not(NULL, "unheard"));
}

TEST(clock_moves_forward) {
  double a = clock_seconds(), b = clock_seconds();
  EXPECT(b >= a);
  EXPECT(clock_since_exec() >= 0 && clock_since_exec() < 600);
  char text[32];
  EXPECT(strlen(clock_utc(text)) == strlen("2026-11-29T10:02:11Z"));
}

TEST(crc32c_is_the_same_by_table_and_by_the_processor) {
  unsigned char bytes[200];
  for (int i = 0; i < 200; i++) bytes[i] = (unsigned char)(i * 37 + i / 7);
  if (!crc_has_machine()) return;
  for (size_t from = 0; from < 9; from++)
    for (size_t n = 0; n <= 150; n++)
      EXPECT(crc_by_table(0x12345678u + (uint32_t)n, bytes + from, n) ==
             crc_by_machine(0x12345678u + (uint32_t)n, bytes + from, n));
}

TEST(crc32c_of_pieces_combines_to_that_of_the_whole) {
  unsigned char bytes[1000];
  for (int i = 0; i < 1000; i++) bytes[i] = (unsigned char)(i * 7);
  EXPECT(crc32c(0, "123456789", 9) == 0xe3069283);
  uint32_t whole = crc32c(0, bytes, 1000);
  for (size_t cut = 0; cut <= 1000; cut += 37) {
    EXPECT(crc32c(crc32c(0, bytes, cut), bytes + cut, 1000 - cut) == whole);
    EXPECT(crc32c_combine(crc32c(0, bytes, cut), crc32c(0, bytes + cut, 1000 - cut), 1000 - cut) == whole);
  }
}

TEST(file_is_whole_or_as_it_was) {
  Arena *arena = arena_open();
  Why why;
  const char *path = arena_printf(arena, "%s/a/b/file", check_folder());
  EXPECT(!try_file_write(path, "new", 3, &why) && strstr(why.text, path));
  EXPECT(try_folder_make(arena_printf(arena, "%s/a/b", check_folder()), &why));
  EXPECT(try_file_write(path, "old", 3, &why) && try_file_write(path, "longer", 6, &why));
  size_t n;
  char *bytes = file_read(path, &n);
  EXPECT(n == 6);
  EXPECT_TEXT(bytes, "longer");
  free(bytes);
  EXPECT(access(arena_printf(arena, "%s.tmp", path), F_OK) != 0);
  EXPECT(!try_folder_make(path, &why) && strstr(why.text, path));
  arena_close(arena);
}

TEST(tree_removal_follows_no_link) {
  Arena *arena = arena_open();
  Why why;
  const char *tree = arena_printf(arena, "%s/tree", check_folder()), *other = arena_printf(arena, "%s/other", check_folder());
  EXPECT(try_folder_make(arena_printf(arena, "%s/deep/er", tree), &why) && try_folder_make(other, &why));
  EXPECT(symlink(other, arena_printf(arena, "%s/deep/link", tree)) == 0);
  EXPECT(try_tree_remove(tree, &why) && access(tree, F_OK) != 0);
  EXPECT(access(other, F_OK) == 0);
  EXPECT(try_tree_remove(tree, &why));
  arena_close(arena);
}

TEST(bytes_come_back_from_their_offset) {
  Arena *arena = arena_open();
  char bytes[4];
  int fd = open(arena_printf(arena, "%s/file", check_folder()), O_RDWR | O_CREAT, 0600);
  EXPECT(fd >= 0);
  EXPECT(fd_write_at(fd, "abcd", 4, 100) && fd_read_at(fd, bytes, 4, 100) && memcmp(bytes, "abcd", 4) == 0);
  EXPECT(!fd_read_at(fd, bytes, 4, 102) && errno == 0);
  close(fd);
  EXPECT(!fd_write_at(-1, "a", 1, 0) && errno != 0);
  arena_close(arena);
}

/* Every finite 16-bit number is its own rounding; between neighbours the nearer one is taken, in the middle the even one. */
static void expect_nearest(uint16_t (*of)(float), float (*value)(uint16_t), uint16_t infinity) {
  for (uint32_t bits = 0; bits < infinity; bits++) {
    float x = value((uint16_t)bits), next = value((uint16_t)(bits + 1));
    EXPECT(of(x) == bits && of(-x) == (bits | 0x8000));
    if (bits + 1 == infinity) continue;
    float middle = x + (next - x) / 2;
    EXPECT(of(middle) == bits + (bits & 1));
    EXPECT(of(nextafterf(middle, 0)) == bits && of(nextafterf(middle, INFINITY)) == bits + 1);
  }
  EXPECT(of(INFINITY) == infinity && of(FLT_MAX) == infinity);
  EXPECT(isnan(value(of(NAN))) && isnan(value(of(-NAN))));
}

/* Every exponent, all that the lower half can be, both signs. */
TEST(two_halves_of_a_number_are_the_number) {
  for (uint32_t i = 0; i < 1u << 24; i++) {
    uint32_t upper = i >> 8, lower = (i & 255) * 257, bits = upper << 16 | lower;
    float x, back;
    memcpy(&x, &bits, sizeof x);
    back = f32_join(f32_upper(x), f32_lower(x));
    EXPECT(isnan(x) ? isnan(back) && isnan(bf16_value(f32_upper(x))) : !memcmp(&back, &x, sizeof x));
    float rounded = bf16_value(f32_upper(x));
    if (isfinite(rounded)) EXPECT(fabsf(rounded - x) <= fabsf(dtype_round(DT_BF16, x) - x));
  }
}

/* Special numbers among random bits. */
TEST(many_floats_are_split_and_joined_as_one_is) {
  enum { N = 4099 };
  static float x[N], joined[N], values[N];
  static uint16_t upper[N], alone[N];
  static int16_t lower[N];
  Rng rng = rng_make(3, RNG_TEST, "split", 0);
  const uint32_t special[] = {0,          0x80000000, 0x7f800000, 0xff800000, 0x7f800001,
                              0x7fffffff, 0xffc00000, 0x7f7fffff, 0x00007fff, 0x00008000};
  for (int i = 0; i < N; i++) {
    uint32_t words[4];
    rng_words(&rng, (uint64_t)i, words);
    if (i < (int)(sizeof special / sizeof *special)) words[0] = special[i];
    memcpy(&x[i], words, sizeof x[i]);
  }
  f32_split_all(x, N, upper, lower);
  f32_split_all(x, N, alone, NULL);
  f32_join_all(upper, lower, N, joined);
  f32_join_all(upper, NULL, N, values);
  for (int i = 0; i < N; i++) {
    float back = f32_join(upper[i], lower[i]), value = bf16_value(upper[i]);
    EXPECT(upper[i] == f32_upper(x[i]) && lower[i] == f32_lower(x[i]) && alone[i] == upper[i]);
    EXPECT(!memcmp(&joined[i], &back, sizeof back) && !memcmp(&values[i], &value, sizeof value));
  }
}

TEST(numbers_of_16_bits_are_the_nearest) {
  expect_nearest(bf16_of, bf16_value, 0x7f80);
  expect_nearest(f16_of, f16_value, 0x7c00);
}

/* --- memory of a node ----------------------------------------------------------------------------------------------------- */

static void put(const char *name, const char *text) {
  Arena *arena = arena_open();
  Why why = {""};
  char *path = arena_printf(arena, "%s/%s", check_folder(), name), *slash = strrchr(path, '/');
  *slash = 0;
  EXPECT(try_folder_make(path, &why));
  *slash = '/';
  EXPECT(try_file_write(path, text, strlen(text), &why));
  arena_close(arena);
}

static NodeMemory node(void) {
  Arena *arena = arena_open();
  NodeMemory memory =
      node_memory_of(arena_printf(arena, "%s/proc", check_folder()), arena_printf(arena, "%s/group", check_folder()));
  arena_close(arena);
  return memory;
}

TEST(memory_left_is_the_nodes_or_what_its_control_groups_leave) {
  EXPECT(node().total == 0 && node().available == 0);
  put("proc/meminfo", "MemTotal:  1000 kB\nMemFree:  100 kB\nMemAvailable:   600 kB\n");
  EXPECT(node().total == 1024000 && node().available == 614400);
  EXPECT_TEXT(node().limit, "this node");
  put("proc/self/cgroup", "0::/job/step\n");
  put("group/job/step/memory.max", "max\n");
  put("group/job/step/memory.current", "5000\n");
  EXPECT(node().available == 614400);
  put("group/job/memory.max", "500000\n");
  put("group/job/memory.current", "300000\n");
  put("group/job/memory.stat", "anon 1\ninactive_file 50000\nactive_file 7\n");
  EXPECT(node().total == 500000 && node().available == 250000);
  EXPECT_TEXT(node().limit, "control group /job");
  put("proc/self/cgroup", "5:cpu:/x\n4:memory:/old\n0::/\n"); /* version 1 */
  put("group/memory/old/memory.limit_in_bytes", "9223372036854771712\n");
  put("group/memory/old/memory.usage_in_bytes", "100\n");
  EXPECT(node().available == 614400);
  put("group/memory/memory.limit_in_bytes", "2000\n");
  put("group/memory/memory.usage_in_bytes", "3000\n"); /* more than allowed: nothing is left */
  EXPECT(node().total == 2000 && node().available == 0);
  EXPECT_TEXT(node().limit, "control group /memory");
}

TEST(memory_of_the_host_that_is_not_there_is_told_with_what_is) {
  EXPECT_FAIL(FAIL_MACHINE, "no memory of the host: 1048576.000 GiB wanted, ", { xmalloc((size_t)1 << 50); });
}

TEST(this_node_has_memory) {
  NodeMemory memory = node_memory();
  EXPECT(memory.total > 0 && memory.available > 0 && memory.available <= memory.total && *memory.limit);
}

/* --- processes ------------------------------------------------------------------------------------------------------------ */

static void count_folder(void *self, const char *folder, bool second) {
  (void)second;
  EXPECT(!strncmp(folder, "/sys/fs/cgroup", 14));
  ++*(int *)self;
}

TEST(a_process_has_room_for_itself_and_no_more_than_the_node_has) {
  int folders = 0;
  process_cgroups("memory", count_folder, &folders);
  EXPECT(process_peak() > 0 && node_memory().total >= process_peak());
  EXPECT(node_memory().total <= (int64_t)sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE));
}

TEST(a_text_ends_in_its_last_characters_in_itself_and_in_nothing) {
  EXPECT(text_ends("a.bin", ".bin") && text_ends(".bin", ".bin") && text_ends("a", "") && text_ends("", ""));
  EXPECT(!text_ends("bin", ".bin") && !text_ends("a.bin ", ".bin") && !text_ends("", "a"));
}

static pthread_t heard_by;
static atomic_int heard, sent;

static void hear(int number) {
  (void)number;
  heard_by = pthread_self();
  heard++;
}

/* A system call ends with whatever signal the thread may be given. */
static void *offer_oneself(void *self) {
  while (!sent) getppid();
  getppid();
  return self;
}

TEST(signals_of_the_process_are_for_the_thread_that_started_others) {
  struct sigaction before, ours = {.sa_handler = hear};
  sigset_t one, kept;
  pthread_t thread;
  EXPECT(!sigaction(SIGUSR1, &ours, &before));
  thread_start(&thread, offer_oneself, NULL);
  EXPECT(!sigemptyset(&one) && !sigaddset(&one, SIGUSR1) && !pthread_sigmask(SIG_BLOCK, &one, &kept));
  EXPECT(!sigismember(&kept, SIGUSR1)); /* the start has left it as it was */
  EXPECT(!kill(getpid(), SIGUSR1));
  sent = 1;
  EXPECT(!pthread_join(thread, NULL) && heard == 0);
  EXPECT(!pthread_sigmask(SIG_SETMASK, &kept, NULL) && heard == 1 && pthread_equal(heard_by, pthread_self()));
  EXPECT(!sigaction(SIGUSR1, &before, NULL));
}

static void *do_nothing(void *self) { return self; }

/* As with a limit of processes, which does not hold for root: a stack for which there is no room. */
/* No processor has so many addresses, whatever the kernel allows. */
static void want_large_stacks(void) {
  pthread_attr_t attributes;
  CHECK(!pthread_attr_init(&attributes) && !pthread_attr_setstacksize(&attributes, (size_t)1 << 62));
  CHECK(!pthread_setattr_default_np(&attributes));
}

TEST(a_thread_that_cannot_be_is_told_with_what_helps_or_done_without) {
  EXPECT_FAIL(FAIL_MACHINE, "ulimit -u", {
    pthread_t thread;
    want_large_stacks();
    thread_start(&thread, do_nothing, NULL);
  });
  EXPECT_FAIL(FAIL_INPUT, "a thread cannot be started: Resource temporarily unavailable", {
    pthread_t thread;
    Why why;
    want_large_stacks();
    if (!try_thread_start(&thread, do_nothing, NULL, &why)) fail(FAIL_INPUT, "%s", why.text);
  });
}

/* Pages of the file that memory has. */
static int cached_pages(int fd, size_t nbytes) {
  unsigned char *pages = xmalloc(nbytes / 4096);
  void *map = mmap(NULL, nbytes, PROT_READ, MAP_SHARED, fd, 0);
  int n = 0;
  CHECK(map != MAP_FAILED && !mincore(map, nbytes, pages));
  for (size_t i = 0; i < nbytes / 4096; i++) n += pages[i] & 1;
  CHECK(!munmap(map, nbytes));
  free(pages);
  return n;
}

/* More wishes than wait at a time, and with no thread at all: everything that is asked for comes. */
TEST(what_is_asked_for_ahead_is_read_without_a_reader) {
  enum { NBYTES = 4 << 20, PART = 64 << 10 };
  pthread_attr_t before;
  CHECK(!pthread_getattr_default_np(&before));
  for (int threads = 1; threads >= 0; threads--) {
    char name[] = "ahead-XXXXXX", *bytes = xmalloc(NBYTES);
    int fd = mkstemp(name), tries = 0;
    memset(bytes, 1, NBYTES);
    CHECK(fd >= 0 && !unlink(name) && fd_write_at(fd, bytes, NBYTES, 0) && !fsync(fd));
    CHECK(!posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
    Ahead *ahead = ahead_open();
    if (!threads) want_large_stacks();
    for (int at = 0; at < NBYTES; at += PART) ahead_ask(ahead, fd, at, PART);
    while (cached_pages(fd, NBYTES) < NBYTES / 4096 && tries++ < 10000) usleep(1000);
    EXPECT(cached_pages(fd, NBYTES) == NBYTES / 4096);
    ahead_close(ahead);
    ahead_close(NULL);
    close(fd);
    free(bytes);
  }
  CHECK(!pthread_setattr_default_np(&before));
}

TEST(a_reader_ahead_that_is_closed_leaves_its_wishes) {
  for (int i = 0; i < 200; i++) {
    Ahead *ahead = ahead_open();
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    for (int k = 0; k < i % 40; k++) ahead_ask(ahead, fd, 0, 1 << 20);
    ahead_close(ahead);
    close(fd);
  }
}

/* A look: whether it is there; from the look number `makes` on it is. */
typedef struct Look {
  const char *path;
  int looks, makes;
} Look;

static bool look_once(void *self) {
  Look *l = self;
  if (++l->looks == l->makes) CHECK(!mkdir(l->path, 0777));
  return !access(l->path, F_OK);
}

TEST(what_shows_late_is_waited_for_by_opening_the_folders_above) {
  char within[256], path[300], events[4096];
  snprintf(within, sizeof within, "%s", check_path("within"));
  snprintf(path, sizeof path, "%s/late", within);
  CHECK(!mkdir(within, 0777));
  int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  CHECK(watch >= 0 && inotify_add_watch(watch, within, IN_OPEN) >= 0);
  Look never = {.path = path}, third = {.path = path, .makes = 3}, there = {.path = path};
  EXPECT(!file_await(path, 0.1, look_once, &never) && never.looks > 1);
  EXPECT(read(watch, events, sizeof events) > 0);
  EXPECT(file_await(path, 1e9, look_once, &third) && third.looks == 3);
  EXPECT(read(watch, events, sizeof events) > 0);
  EXPECT(file_await(path, 0, look_once, &there) && there.looks == 1 && read(watch, events, sizeof events) < 0);
  CHECK(!close(watch));
}

/* /proc may be that of the outer PID namespace, where another process has this one's number. */
TEST(a_process_knows_itself_in_a_pid_namespace_too) {
  ProcessStat self;
  double before = clock_since_exec();
  pid_t outer = fork();
  CHECK(outer >= 0);
  if (!outer) {
    if (unshare(CLONE_NEWPID)) _exit(77);
    pid_t inner = fork();
    if (!inner) _exit(getpid() == 1 && process_stat(0, &self) && clock_since_exec() <= before + 1 ? 0 : 1);
    int status = 1;
    _exit(inner > 0 && waitpid(inner, &status, 0) == inner && WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  }
  int status;
  CHECK(waitpid(outer, &status, 0) == outer && WIFEXITED(status));
  if (WEXITSTATUS(status) == 77)
    fprintf(stderr, "note  only root can make a PID namespace\n");
  else
    EXPECT(WEXITSTATUS(status) == 0);
}

TEST(processes_are_known_by_name_parent_and_start_whatever_they_are_called) {
  ProcessStat self, child;
  char name[16];
  CHECK(!prctl(PR_GET_NAME, name) && !prctl(PR_SET_NAME, "a (b) Z 1 2"));
  EXPECT(process_stat(getpid(), &self));
  EXPECT_TEXT(self.name, "a (b) Z 1 2");
  EXPECT(self.state == 'R' && self.parent == getppid() && self.started > 0);
  EXPECT(clock_since_exec() >= 0 && clock_since_exec() < 3600);
  pid_t pid = fork();
  if (!pid) _exit(0);
  siginfo_t ended;
  CHECK(pid > 0 && !waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT));
  EXPECT(process_stat(pid, &child) && child.state == 'Z' && child.parent == getpid() && child.started >= self.started);
  CHECK(waitpid(pid, NULL, 0) == pid && !prctl(PR_SET_NAME, name));
  EXPECT(!process_stat(pid, &child));
}
