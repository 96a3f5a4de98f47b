/* SPDX-License-Identifier: Apache-2.0 */
/* Saving and loading on any number of ranks. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/ckpt_impl.h"
#include "src/base/file.h"
#include "src/base/hash.h"
#include "test/check.h"
#include "test/mpi/ckpt_case.h"

static Comm *comm, *self, *beside;
static int R, me;

BEFORE_ALL {
  self = comm_self(); /* first: the end of the job is the last one's that starts */
  comm = comm_boot(NULL, NULL);
  R = comm_size(comm);
  me = comm_rank(comm);
  beside = comm_beside(comm);
}

AFTER_ALL {
  comm_beside_close(beside);
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

/* One of the files of step 3 in folder, on rank 0. */
static uint64_t hash_in(const char *folder, const char *name) {
  char path[4600];
  snprintf(path, sizeof path, "%s/step-00000003/%s", folder, name);
  return file_hash(path);
}

static void expect_files_like_one(int files) {
  enum { BIG = 300 * 1001 };
  Why why;
  char one[4200], parts[4200], direct[4200], alone[4200], step[4300];
  snprintf(one, sizeof one, "%s", shared("one-file"));
  snprintf(parts, sizeof parts, "%s-%d", shared("parts"), files);
  snprintf(direct, sizeof direct, "%s-%d", shared("direct"), files);
  snprintf(alone, sizeof alone, "%s-%d", shared("alone"), files);
  EXPECT(case_save(comm, one, 3, &why) && case_save_files(comm, parts, 3, 0, files, &why));
  EXPECT(case_save_files(comm, direct, 3, 2, files, &why));
  if (me == 0) EXPECT(case_save_files(self, alone, 3, 1, files, &why));
  comm_barrier(comm);
  snprintf(step, sizeof step, "%s/step-00000003", one);
  Ckpt *a = open_whole(step);
  snprintf(step, sizeof step, "%s/step-00000003", parts);
  Ckpt *b = open_whole(step);
  EXPECT(ckpt_files(a) == 1 && ckpt_files(b) == files && ckpt_n(a) == ckpt_n(b) && case_holds_all(b, 3));
  for (int i = 0; i < ckpt_n(a); i++)
    EXPECT(!strcmp(ckpt_at(a, i)->path, ckpt_at(b, i)->path) && ckpt_at(a, i)->crc32c == ckpt_at(b, i)->crc32c);
  for (int i = 0; me == 0 && i < files; i++) {
    int64_t nbytes;
    const char *name = ckpt_file(b, i, &nbytes);
    EXPECT(hash_in(parts, name) == hash_in(direct, name) && hash_in(parts, name) == hash_in(alone, name));
  }
  CkptLoad *load = ckpt_load_open(comm, b);
  int64_t first = (int64_t)BIG * me / R, end = (int64_t)BIG * (me + 1) / R;
  float *x = xmalloc(sizeof *x * BIG);
  ckpt_load_read(load, "/model/big.weight", DT_F32, first, end - first, x);
  EXPECT(try_ckpt_load_close(load, &why));
  free(x);
  ckpt_close(a);
  ckpt_close(b);
  comm_barrier(comm);
}

/* The same tensors and checksums, and in each of the files the same bytes, whoever wrote them and how; of more files than tensors
 * some are empty. */
TEST(several_files_hold_what_one_does) {
  expect_files_like_one(2);
  expect_files_like_one(CKPT_CASES + 3);
}

typedef struct Beside {
  const char *folder;
  int threads;
  bool ok;
  atomic_bool over;
  Why why;
} Beside;

static void *save_beside(void *arg) {
  Beside *b = arg;
  b->ok = case_save_by(beside, b->folder, 3, b->threads, &b->why);
  b->over = true;
  return NULL;
}

/* Ranks' main threads go on with agreements of their own meanwhile. */
TEST(a_thread_saves_the_same_bytes_beside_the_ranks_agreements) {
  Why why;
  char folder[4200], step[4200];
  snprintf(folder, sizeof folder, "%s", shared("direct"));
  snprintf(step, sizeof step, "%s", shared("direct/step-00000003"));
  const char *all = shared("all"), *one = shared("all/step-00000003/model.h5"), *two = shared("direct/step-00000003/model.h5");
  EXPECT(case_save(comm, all, 3, &why));
  for (int threads = 1; threads <= 3; threads += 2) {
    Beside b = {.folder = folder, .threads = threads};
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, save_beside, &b));
    while (comm_any(comm, !b.over)) EXPECT(comm_least(comm, (size_t)me) == 0);
    CHECK(!pthread_join(thread, NULL));
    if (!b.ok) check_failed(__FILE__, __LINE__, "%s", b.why.text);
    if (me == 0) EXPECT(file_hash(one) == file_hash(two));
    Ckpt *c = open_whole(step);
    EXPECT(case_holds_all(c, 3));
    ckpt_close(c);
    comm_barrier(comm);
  }
}

TEST(all_ranks_find_the_newest_and_its_facts) {
  Why why;
  Text warnings = {0};
  const char *run = shared("run"), *folder = shared("run/checkpoints");
  EXPECT(!ckpt_find_newest(comm, run, &warnings));
  EXPECT(case_save(comm, folder, 5, &why) && case_save(comm, folder, 25, &why) && case_save(comm, folder, 15, &why));
  Ckpt *c = ckpt_find_newest(comm, run, &warnings);
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
  for (int i = 0; i < 2 * R; i++) {
    int culprit = i % R, threads = i / R;
    if (me == culprit) limit_file(1000);
    why.text[0] = 0;
    bool ok = case_save_by(comm, folder, 2, threads, &why);
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

/* This rank's pieces, as case_cut deals them for that step, or every other one of them. */
static void load_pieces(CkptLoad *load, int64_t step, int every) {
  Arena *arena = arena_open();
  for (int k = 0; k < CKPT_CASES; k++) {
    CkptTensor t = ckpt_case[k];
    case_cut(arena, &t, k, me, R, step);
    for (int p = 0; p < t.n_pieces; p += every) {
      size_t nbytes = (size_t)t.pieces[p].n * dtype_size(t.dtype);
      char *got = arena_alloc(arena, nbytes);
      ckpt_load_read(load, t.path, t.dtype, t.pieces[p].first, t.pieces[p].n, got);
      if (every == 1) EXPECT(!memcmp(got, t.pieces[p].at, nbytes));
    }
  }
  arena_close(arena);
}

/* Bytes that this process has asked files for. */
static int64_t bytes_read(void) {
  size_t n;
  char *text = file_read("/proc/self/io", &n), *at = text ? strstr(text, "rchar: ") : NULL;
  int64_t nbytes = at ? strtoll(at + strlen("rchar: "), NULL, 10) : 0;
  free(text);
  return nbytes;
}

TEST(what_is_loaded_is_checked_and_read_once) {
  Why why;
  const char *folder = shared("checkpoints");
  EXPECT(case_save(comm, folder, 4, &why));
  Ckpt *c = try_ckpt_open(shared("checkpoints/step-00000004"), &why);
  EXPECT(c);
  int64_t before = bytes_read();
  CkptLoad *load = ckpt_load_open(comm, c);
  load_pieces(load, 4, 1);
  EXPECT(try_ckpt_load_close(load, &why));
  int64_t mine = bytes_read() - before, all[8], sum = 0;
  comm_gather(comm, &mine, sizeof mine, all);
  for (int r = 0; r < R; r++) sum += all[r];
  EXPECT(sum < ckpt_nbytes(c) + (R + 1) * 60000); /* HDF5's metadata, and nothing of the 1.2 MB twice */
  load = ckpt_load_open(comm, c);                 /* what nobody asks for is looked at all the same */
  load_pieces(load, 4, 2);
  EXPECT(try_ckpt_load_close(load, &why));
  ckpt_close(c);
  comm_barrier(comm);
}

/* The byte in the middle of a dataset, on disk. */
static void damage(const char *step, const CkptEntry *e) {
  char path[4300];
  int64_t offset;
  unsigned char byte;
  Ckpt *c = try_ckpt_open(step, NULL);
  CHECK(c && try_ckpt_locate(c, ckpt_find(c, e->path), &offset, NULL));
  offset += ckpt_entry_nbytes(e) / 2;
  ckpt_close(c);
  snprintf(path, sizeof path, "%s/model.h5", step);
  int fd = open(path, O_RDWR);
  CHECK(fd >= 0 && fd_read_at(fd, &byte, 1, offset));
  byte ^= 1;
  CHECK(fd_write_at(fd, &byte, 1, offset) && !close(fd));
}

/* A bit of each dataset in turn: the load fails on every rank and names it, whether this, another or no rank has loaded it. */
TEST(a_flipped_bit_in_each_dataset_is_seen_by_the_load_of_all_ranks) {
  Why why;
  const char *step = shared("checkpoints/step-00000004");
  EXPECT(case_save(comm, shared("checkpoints"), 4, &why));
  Ckpt *c = try_ckpt_open(step, &why);
  EXPECT(c);
  for (int i = 0; i < 2 * ckpt_n(c); i++) {
    const CkptEntry *e = ckpt_at(c, i / 2);
    char begin[128];
    if (me == 0) damage(step, e);
    comm_barrier(comm);
    CkptLoad *load = ckpt_load_open(comm, c);
    load_pieces(load, 4, 2);
    why.text[0] = 0;
    bool ok = try_ckpt_load_close(load, &why);
    if (me == 0) damage(step, e);
    comm_barrier(comm);
    snprintf(begin, sizeof begin, "%s, checksum ", e->path);
    EXPECT(!ok && !strncmp(why.text, begin, strlen(begin)));
  }
  ckpt_close(c);
}

TEST(a_damaged_newest_gives_way_to_the_one_before_on_all_ranks) {
  Why why;
  Text warnings = {0};
  const char *run = shared("run"), *folder = shared("run/checkpoints"), *second = shared("run/checkpoints/step-00000002");
  for (int64_t step = 1; step <= 3; step++) EXPECT(case_save(comm, folder, step, &why));
  Ckpt *c = ckpt_find_newest(comm, run, &warnings);
  EXPECT(c && ckpt_step(c) == 3 && !warnings.n);
  if (me == 0) damage(second, ckpt_find(c, "/model/cube"));
  comm_barrier(comm);
  why_not(&why, "/model/norm.weight, checksum 00000001, manifest 00000002");
  c = ckpt_find_before_take(comm, run, c, &why, &warnings);
  EXPECT(c && ckpt_step(c) == 1 && case_holds_all(c, 1));
  const char *at = strstr(warnings.at, "step-00000003 damaged: /model/norm.weight, checksum 00000001");
  EXPECT(at && (at = strstr(at, "\nstep-00000002 damaged: /model/cube, checksum ")));
  EXPECT(at && strstr(at, "\n       using step-00000001 (verified); 2 steps are redone\n"));
  ckpt_close(c);
  text_close(&warnings);
  comm_barrier(comm);
}

/* What a run reads before it loads is looked at when it is found. */
TEST(a_damaged_run_file_is_found_at_once) {
  Why why;
  Text warnings = {0};
  const char *run = shared("run"), *folder = shared("run/checkpoints"), *second = shared("run/checkpoints/step-00000002");
  for (int64_t step = 1; step <= 2; step++) EXPECT(case_save(comm, folder, step, &why));
  Ckpt *c = ckpt_find_newest(comm, run, &warnings);
  if (me == 0) damage(second, ckpt_find(c, "/run/yaml"));
  ckpt_close(c);
  comm_barrier(comm);
  c = ckpt_find_newest(comm, run, &warnings);
  EXPECT(c && ckpt_step(c) == 1 && strstr(warnings.at, "step-00000002 damaged: /run/yaml, checksum "));
  ckpt_close(c);
  text_close(&warnings);
  comm_barrier(comm);
}

TEST(an_unwritable_folder_is_the_same_reason_on_all_ranks) {
  Why why;
  for (int threads = 0; threads <= 1; threads++) {
    EXPECT(!case_save_by(comm, "/proc/none/checkpoints", 1, threads, &why));
    EXPECT(strstr(why.text, "/proc/none"));
  }
}

/* As where it is on a disk of one node. */
TEST(a_folder_that_others_do_not_see_fails_on_all_ranks) {
  Why why;
  if (comm_size(comm) == 1) return;
  for (int threads = 0; threads <= 1; threads++) {
    EXPECT(!case_save_by(comm, comm_rank(comm) ? "/proc/none/checkpoints" : check_folder(), 1, threads, &why));
    EXPECT(strstr(why.text, "/proc/none/checkpoints/step-00000001.tmp/model.h5: ") && strstr(why.text, strerror(ENOENT)));
  }
}
