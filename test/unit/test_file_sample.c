/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a file is still the same one. */
#include "io/file_sample.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/base/arena.h"
#include "src/base/clock.h"
#include "src/base/file.h"
#include "test/check.h"

enum { BLOCKS = 16, SMALL = 50001, LARGE = 5 << 20 };

static const char *file_of(unsigned char byte, size_t n) {
  static char path[4200];
  snprintf(path, sizeof path, "%s/file", check_folder());
  char *bytes = xmalloc(n);
  for (size_t i = 0; i < n; i++) bytes[i] = (char)(byte + i % 251);
  CHECK(try_file_write(path, bytes, n, NULL));
  free(bytes);
  return path;
}

static uint64_t hash_of(const char *path) {
  FileSample s;
  Why why;
  if (!try_file_sample(path, BLOCKS, (FileGap){0}, &s, &why)) check_failed(__FILE__, __LINE__, "%s", why.text);
  return s.hash;
}

static uint64_t hash_with(const char *path, int64_t at) {
  unsigned char byte;
  int fd = open(path, O_RDWR);
  CHECK(fd >= 0 && fd_read_at(fd, &byte, 1, at));
  byte ^= 1;
  CHECK(fd_write_at(fd, &byte, 1, at));
  uint64_t hash = hash_of(path);
  byte ^= 1;
  CHECK(fd_write_at(fd, &byte, 1, at) && !close(fd));
  return hash;
}

TEST(any_bit_of_a_small_file_counts_and_of_a_large_one_those_at_its_ends) {
  const char *path = file_of(0, SMALL);
  uint64_t was = hash_of(path);
  for (int64_t at = 0; at < SMALL; at += 997) EXPECT(hash_with(path, at) != was);
  EXPECT(hash_with(path, SMALL - 1) != was && hash_of(path) == was);
  path = file_of(0, LARGE);
  was = hash_of(path);
  EXPECT(hash_with(path, 0) != was && hash_with(path, 1023) != was && hash_with(path, LARGE - 1) != was && hash_of(path) == was);
}

TEST(a_file_that_was_made_anew_is_another_and_one_that_was_touched_is_not) {
  const char *path = file_of(0, LARGE);
  uint64_t was = hash_of(path);
  struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
  CHECK(!utimensat(AT_FDCWD, path, times, 0));
  FileSample s;
  EXPECT(try_file_sample(path, BLOCKS, (FileGap){0}, &s, NULL) && s.hash == was && s.nbytes == LARGE);
  EXPECT_TEXT(s.written, "2001-09-09T01:46:40Z");
  EXPECT(hash_of(file_of(1, LARGE)) != was && hash_of(file_of(0, LARGE - 1)) != was && hash_of(file_of(0, LARGE)) == was);
  int fd = open(path, O_RDWR); /* only what lies between its ends, about half of it */
  char *other = calloc(1, LARGE / 2);
  CHECK(other && fd >= 0 && fd_write_at(fd, other, LARGE / 2, LARGE / 4) && !close(fd));
  free(other);
  EXPECT(hash_of(path) != was);
}

TEST(a_gap_and_nothing_else_may_differ) {
  FileSample s;
  enum { AT = 4000, N = 200 }; /* across two blocks */
  for (int large = 0; large < 2; large++) {
    const char *path = file_of(0, large ? LARGE : 2 * AT);
    EXPECT(try_file_sample(path, BLOCKS, (FileGap){AT, N}, &s, NULL));
    uint64_t was = s.hash;
    const struct {
      int at;
      bool same;
    } changes[] = {{AT - 1, false}, {AT, true}, {AT + 95, true}, {0, false}, {AT + N, large}};
    for (int i = 0; i < 5; i++) {
      path = file_of(0, large ? LARGE : 2 * AT);
      int fd = open(path, O_RDWR);
      CHECK(fd >= 0 && fd_write_at(fd, "\xff", 1, changes[i].at) && !close(fd));
      EXPECT(try_file_sample(path, BLOCKS, (FileGap){AT, N}, &s, NULL) && (s.hash == was) == changes[i].same);
    }
  }
}

TEST(a_terabyte_takes_no_longer) {
  const char *path = file_of(0, SMALL);
  FileSample s;
  if (truncate(path, 1LL << 40)) {
    printf("note  skipped: a file cannot be that long here\n");
    return;
  }
  double begin = clock_seconds();
  EXPECT(try_file_sample(path, BLOCKS, (FileGap){0}, &s, NULL) && s.nbytes == 1LL << 40);
  printf("note  %.2g s\n", clock_seconds() - begin);
}

TEST(a_file_that_is_not_there_is_told) {
  FileSample s;
  Why why;
  EXPECT(!try_file_sample("/nowhere/file", BLOCKS, (FileGap){0}, &s, &why));
  EXPECT_TEXT(why.text, "/nowhere/file: No such file or directory");
}
