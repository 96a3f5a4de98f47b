/* SPDX-License-Identifier: Apache-2.0 */
/* Saving and loading on any number of ranks. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/file.h"
#include "src/base/hash.h"
#include "test/check.h"
#include "test/mpi/ckpt_case.h"

static Comm *comm, *self;
static int R, me;

BEFORE_ALL {
  self = comm_self(); /* first: the end of the job is the last one's that starts */
  comm = comm_boot(NULL, NULL);
  R = comm_size(comm);
  me = comm_rank(comm);
}

AFTER_ALL {
  comm_close(comm);
  comm_close(self);
}

/* Rank 0's folder, and below it. */
static const char *shared(const char *name) {
  static char path[4][4200];
  static int turn;
  char folder[4096] = "";
  turn = (turn + 1) % 4;
  if (me == 0) snprintf(folder, sizeof folder, "%s", check_folder());
  comm_broadcast(comm, folder, sizeof folder, 0);
  snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
  return path[turn];
}

static Ckpt *open_whole(const char *path) {
  Why why;
  Ckpt *c = try_ckpt_open(path, &why);
  if (!c) check_failed(__FILE__, __LINE__, "%s", why.text);
  if (!try_ckpt_verify(c, 0, 1, 2, &why)) check_failed(__FILE__, __LINE__, "%s", why.text);
  return c;
}

TEST(what_ranks_save_in_pieces_any_rank_loads_in_any_range) {
  Why why;
  const char *folder = shared("checkpoints");
  EXPECT(case_save(comm, folder, 10, &why));
  Ckpt *c = open_whole(shared("checkpoints/step-00000010"));
  EXPECT(ckpt_step(c) == 10 && case_holds_all(c, 10));
  for (int k = 0; k < CKPT_CASES; k++) {
    int64_t n = case_n(&ckpt_case[k]), stride = n > 1000 ? n / 13 + me : 1;
    for (int64_t first = 0; first < n; first += stride)
      for (int64_t end = first; end <= n; end += stride) EXPECT(case_holds(c, k, first, end - first, 10));
  }
  ckpt_close(c);
  comm_barrier(comm);
}

/* The hash of a file's bytes, on rank 0. */
static uint64_t file_hash(const char *path) {
  Sha256 hash;
  size_t n;
  char *bytes = file_read(path, &n);
  CHECK(bytes);
  sha256_init(&hash);
  sha256_add(&hash, bytes, n);
  free(bytes);
  return sha256_u64(&hash);
}

TEST(the_file_does_not_show_how_many_ranks_wrote_it) {
  Why why;
  const char *many = shared("many"), *one = shared("one"), *a = shared("many/step-00000003/model.h5"),
             *b = shared("one/step-00000003/model.h5");
  EXPECT(case_save(comm, many, 3, &why));
  if (me == 0) {
    EXPECT(case_save(self, one, 3, &why));
    EXPECT(file_hash(a) == file_hash(b));
  }
  comm_barrier(comm);
}

TEST(all_ranks_find_the_newest_and_its_facts) {
  Why why;
  Text warnings = {0};
  const char *run = shared("run"), *folder = shared("run/checkpoints");
  EXPECT(!ckpt_find_newest(comm, run, true, &warnings));
  EXPECT(case_save(comm, folder, 5, &why) && case_save(comm, folder, 25, &why) && case_save(comm, folder, 15, &why));
  Ckpt *c = ckpt_find_newest(comm, run, true, &warnings);
  EXPECT(c && ckpt_step(c) == 25 && warnings.n == 0 && case_holds_all(c, 25));
  EXPECT_TEXT(ckpt_fact(c, "loss"), "2.144");
  Arena *arena = arena_open();
  EXPECT_TEXT(ckpt_text(c, arena, "yaml"), case_texts[0].text);
  EXPECT_TEXT(ckpt_text(c, arena, "choices"), "");
  EXPECT(!ckpt_text(c, arena, "none") && !ckpt_fact(c, "none"));
  arena_close(arena);
  ckpt_close(c);
  comm_barrier(comm);
}

TEST(a_step_saved_again_replaces_the_older) {
  Why why;
  const char *folder = shared("checkpoints");
  EXPECT(case_save(comm, folder, 7, &why));
  EXPECT(case_save(comm, folder, 7, &why));
  Ckpt *c = open_whole(shared("checkpoints/step-00000007"));
  EXPECT(case_holds_all(c, 7) && access(shared("checkpoints/step-00000007.tmp"), F_OK));
  ckpt_close(c);
  comm_barrier(comm);
}

static void limit_file(rlim_t nbytes) {
  struct rlimit limit;
  CHECK(!getrlimit(RLIMIT_FSIZE, &limit));
  limit.rlim_cur = nbytes;
  CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
}

/* The limit meets rank 0's file at its making, or another rank's write in the middle of the file. */
TEST(a_write_that_fails_on_one_rank_fails_on_all_and_leaves_the_older_steps) {
  Why why;
  char folder[4200];
  snprintf(folder, sizeof folder, "%s", shared("checkpoints"));
  EXPECT(case_save(comm, folder, 1, &why));
  for (int culprit = 0; culprit < R; culprit++) {
    if (me == culprit) limit_file(1000);
    why.text[0] = 0;
    bool ok = case_save(comm, folder, 2, &why);
    limit_file(RLIM_INFINITY);
    EXPECT(!ok);
    EXPECT(strstr(why.text, "File too large"));
    EXPECT(access(shared("checkpoints/step-00000002"), F_OK) && access(shared("checkpoints/step-00000002.tmp"), F_OK));
    Ckpt *c = open_whole(shared("checkpoints/step-00000001"));
    EXPECT(case_holds_all(c, 1));
    ckpt_close(c);
    comm_barrier(comm);
  }
  EXPECT(case_save(comm, folder, 2, &why));
  comm_barrier(comm);
}

TEST(a_damaged_newest_gives_way_to_the_one_before_on_all_ranks) {
  Why why;
  Text warnings = {0};
  const char *run = shared("run"), *folder = shared("run/checkpoints"), *file = shared("run/checkpoints/step-00000002/model.h5");
  EXPECT(case_save(comm, folder, 1, &why) && case_save(comm, folder, 2, &why));
  if (me == 0) {
    size_t n;
    char *bytes = file_read(file, &n);
    CHECK(bytes);
    bytes[n / 2] ^= 1; /* within the large tensor */
    CHECK(try_file_write(file, bytes, n, NULL));
    free(bytes);
  }
  comm_barrier(comm);
  Ckpt *c = ckpt_find_newest(comm, run, true, &warnings);
  EXPECT(c && ckpt_step(c) == 1 && case_holds_all(c, 1));
  EXPECT(strstr(warnings.at, "step-00000002 damaged: /model/big.weight, checksum") && strstr(warnings.at, "using step-00000001"));
  ckpt_close(c);
  text_close(&warnings);
  comm_barrier(comm);
}

TEST(an_unwritable_folder_is_the_same_reason_on_all_ranks) {
  Why why;
  EXPECT(!case_save(comm, "/proc/none/checkpoints", 1, &why));
  EXPECT(strstr(why.text, "/proc/none"));
}
