/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of one process that knows no MPI: damage, full disks, sudden death. */
#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/h5.h"
#include "io/model_folder.h"
#include "src/base/clock.h"
#include "src/base/file.h"
#include "src/train/setup.h"
#include "test/check.h"
#include "test/mpi/ckpt_case.h"
#include "test/unit/ckpt_files.h"

static Comm *comm;

BEFORE_ALL { comm = comm_self(); }
AFTER_ALL { comm_close(comm); }

static void save(int64_t step) {
  Why why;
  if (!case_save(comm, check_folder(), step, &why)) check_failed(__FILE__, __LINE__, "%s", why.text);
}

/* The reason for which the step is refused, at opening or verifying; "" when it is good. */
static const char *refusal(const char *name) {
  static Why why;
  why.text[0] = 0;
  Ckpt *c = try_ckpt_open(check_path(name), &why);
  if (c) try_ckpt_verify(c, 0, 1, 2, &why);
  ckpt_close(c);
  return why.text;
}

TEST(what_is_saved_loads_and_verifies) {
  save(12);
  Ckpt *c = open_step("step-00000012");
  Why why;
  EXPECT(try_ckpt_verify(c, 0, 1, 2, &why) && case_holds_all(c, 12) && ckpt_n(c) == CKPT_CASES + 2);
  const CkptEntry *e = ckpt_find(c, "/optim/m/deep");
  EXPECT(e && e->dtype == DT_F32 && e->rank == 4 && e->shape[2] == 3 && e->n == 12 && !ckpt_find(c, "/optim/x"));
  float x[2];
  EXPECT_FAIL(FAIL_INPUT, "/state/counts is not f32", ckpt_read(c, "/state/counts", DT_F32, 0, 1, x));
  EXPECT_FAIL(FAIL_INPUT, "no dataset /model/none", ckpt_read(c, "/model/none", DT_F32, 0, 1, x));
  EXPECT_FAIL(FAIL_BUG, "CHECK", ckpt_read(c, "/model/norm.weight", DT_F32, 12, 2, x));
  ckpt_close(c);
}

#define PIECE(begin, count, from)                                                                                                  \
  { .first = begin, .n = count, .at = from }

TEST(pieces_that_do_not_cover_are_our_fault) {
  float x[6] = {0};
  CkptPiece gap[2] = {PIECE(0, 3, x), PIECE(4, 2, x)}, twice[2] = {PIECE(0, 4, x), PIECE(3, 3, x)}, part[1] = {PIECE(0, 5, x)};
  CkptTensor t = {.path = "/model/x", .dtype = DT_F32, .rank = 1, .shape = {6}, .pieces = gap, .n_pieces = 2};
  CkptSave s = {check_folder(), 1, &t, 1, NULL, 0, NULL, 0};
  EXPECT_FAIL(FAIL_BUG, "CHECK", try_ckpt_write(comm, &s, NULL));
  t.pieces = twice;
  EXPECT_FAIL(FAIL_BUG, "CHECK", try_ckpt_write(comm, &s, NULL));
  t.pieces = part, t.n_pieces = 1;
  EXPECT_FAIL(FAIL_BUG, "CHECK", try_ckpt_write(comm, &s, NULL));
}

/* Every bit of data that is flipped is found; elsewhere in the file nothing worse than a refusal follows. */
TEST(flipped_bits_are_found) {
  save(1);
  struct stat info;
  char *file = strdup(check_path("step-00000001/model.h5"));
  int found = 0;
  CHECK(!stat(file, &info));
  Rng rng = rng_make(3, RNG_TEST, "flip", 0);
  for (uint64_t turn = 0; turn < 300; turn++) {
    uint32_t w[4];
    rng_words(&rng, turn, w);
    off_t at = w[0] % (turn % 2 ? info.st_size : 20000); /* half of them among the metadata */
    flip_bit(file, at, (int)(w[1] % 8));
    pid_t child = fork(); /* a damaged file may break the library's end, which is then the child's */
    if (!child) {
      const char *why = refusal("step-00000001");
      bool same = true;
      if (!*why) {
        Ckpt *c = try_ckpt_open(check_path("step-00000001"), NULL);
        same = case_holds_all(c, 1);
      }
      _exit(!same ? 2 : *why ? 1 : 0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    flip_bit(file, at, (int)(w[1] % 8));
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) < 2);
    found += WEXITSTATUS(status);
  }
  EXPECT(found > 50);
  free(file);
}

TEST(truncated_missing_and_foreign_files_are_refused_by_name) {
  save(1);
  struct stat info;
  CHECK(!stat(check_path("step-00000001/model.h5"), &info));
  for (int part = 0; part < 8; part++) {
    CHECK(!truncate(check_path("step-00000001/model.h5"), info.st_size * part / 8));
    EXPECT(strstr(refusal("step-00000001"), "model.h5: ") && strstr(refusal("step-00000001"), "manifest"));
  }
  CHECK(!truncate(check_path("step-00000001/model.h5"), info.st_size)); /* zeros of the right length */
  EXPECT(strstr(refusal("step-00000001"), "model.h5: "));
  CHECK(!unlink(check_path("step-00000001/model.h5")));
  EXPECT(strstr(refusal("step-00000001"), "No such file"));
}

TEST(bad_manifests_are_refused_before_the_file_is_looked_at) {
  save(1);
  CHECK(!truncate(check_path("step-00000001/model.h5"), 0));
#define HEAD "{\"format\":\"hpctrain checkpoint\",\"version\":1,\"step\":1,\"facts\":{},\"files\":{\"model.h5\":0},\"datasets\":"
#define SEVERAL "{\"format\":\"hpctrain checkpoint\",\"version\":2,\"step\":1,\"facts\":{},\"files\":{"
#define ROW "{\"dtype\":\"f32\",\"shape\":[1],\"crc32c\":\"00000000\",\"file\":"
  const struct {
    const char *text, *words;
  } bad[] = {
      {"", "manifest.json:1"},
      {"{", "manifest.json:1"},
      {"[]", "not the manifest of a checkpoint"},
      {"{\"format\":\"other\"}", "not the manifest of a checkpoint"},
      {"{\"format\":\"hpctrain checkpoint\",\"version\":3}", "format version 3; this program reads version 1 and 2"},
      {"{\"format\":\"hpctrain checkpoint\",\"version\":1}", "is missing"},
      {"{\"format\":\"hpctrain checkpoint\",\"version\":1,\"step\":2,\"facts\":{},\"files\":{\"model.h5\":0},\"datasets\":{}}",
       "says step 2"},
      {HEAD "7}", "is missing"},
      {HEAD "{\"/a\":{}}}", "dataset '/a': dtype, shape or crc32c is bad"},
      {HEAD "{\"/a\":{\"dtype\":\"f32\",\"shape\":[-1],\"crc32c\":\"00000000\"}}}", "'/a': bad shape"},
      {HEAD "{\"/a\":{\"dtype\":\"f32\",\"shape\":[4294967296,4294967296],\"crc32c\":\"00000000\"}}}", "'/a': bad shape"},
      {HEAD "{\"/a\":{\"dtype\":\"f99\",\"shape\":[1],\"crc32c\":\"00000000\"}}}", "dtype f99 is not known"},
      {HEAD "{\"/a\":{\"dtype\":\"f32\",\"shape\":[1],\"crc32c\":\"0000000g\"}}}", "crc32c is bad"},
      {HEAD "{\"a\":{}}}", "bad name 'a'"},
      {SEVERAL "\"model-00001-of-00002.h5\":0,\"../x.h5\":0},\"datasets\":{}}", "files: model-00002-of-00002.h5 is missing"},
      {SEVERAL "\"model-00001-of-00002.h5\":0,\"model-00002-of-00002.h5\":-1},\"datasets\":{}}",
       "model-00002-of-00002.h5 is missing"},
      {SEVERAL "},\"datasets\":{}}", "0 files"},
      {SEVERAL "\"model-00001-of-00002.h5\":0,\"model-00002-of-00002.h5\":0},\"datasets\":{\"/a\":" ROW "\"model.h5\"}}}",
       "dataset '/a': its file is none"},
      {SEVERAL "\"model-00001-of-00002.h5\":0,\"model-00002-of-00002.h5\":0},\"datasets\":{\"/a\":" ROW "1}}}",
       "dataset '/a': its file is none"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    CHECK(try_file_write(check_path("step-00000001/manifest.json"), bad[i].text, strlen(bad[i].text), NULL));
    if (!strstr(refusal("step-00000001"), bad[i].words))
      check_failed(__FILE__, __LINE__, "%s: %s", bad[i].text, refusal("step-00000001"));
  }
}

/* What a flipped bit makes of a blank is a blank or no JSON; all else that is still JSON is told by the manifest's own checksum. */
TEST(a_flipped_bit_in_the_manifest_is_found) {
  size_t n, found = 0;
  save(1);
  char *path = strdup(check_path("step-00000001/manifest.json")), *text = file_read(path, &n);
  for (size_t i = 0; i < n; i++) {
    flip_bit(path, (int64_t)i, (int)(i % 8));
    bool told = strstr(refusal("step-00000001"), "manifest.json");
    if (!told && !strchr(" \n", text[i])) check_failed(__FILE__, __LINE__, "byte %zu of %zu, of '%.20s'", i, n, text + i);
    flip_bit(path, (int64_t)i, (int)(i % 8));
    found += told;
  }
  EXPECT(found > n / 2);
  char *own = strrchr(text, ','); /* one of before there was a checksum */
  CHECK(own);
  strcpy(own, "}");
  CHECK(try_file_write(path, text, strlen(text), NULL));
  EXPECT(!*refusal("step-00000001"));
  free(path);
  free(text);
}

/* A dataset of the right name that lies in another file, or is not what the manifest says. */
TEST(datasets_that_lead_elsewhere_are_refused) {
  const char *names[] = {"external", "link", "chunked", "type", "shape", "nowhere"};
  h5_start();
  for (int kind = 0; kind < 6; kind++) {
    CHECK(try_folder_make(check_path("step-00000001"), NULL));
    CHECK(try_file_write(check_path("secret"), "sesame..", 8, NULL));
    hid_t whole = H5Pcreate(H5P_FILE_CREATE), create = H5Pcreate(H5P_DATASET_CREATE);
    if (kind == 5) CHECK(H5Pset_userblock(whole, 512) >= 0);
    hid_t file = H5Fcreate(check_path("step-00000001/model.h5"), H5F_ACC_TRUNC, whole, H5P_DEFAULT);
    hid_t space = H5Screate_simple(1, (hsize_t[]){kind == 4 ? 3 : 2}, NULL);
    if (kind == 0) CHECK(H5Pset_external(create, check_path("secret"), 0, 8) >= 0);
    if (kind == 1) CHECK(H5Lcreate_external(check_path("other.h5"), "/x", file, "/x", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    if (kind == 2) CHECK(H5Pset_chunk(create, 1, (hsize_t[]){2}) >= 0);
    hid_t where = kind == 1 ? H5Fcreate(check_path("other.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT) : file;
    hid_t dataset = H5Dcreate2(where, "/x", kind == 3 ? H5T_STD_I32LE : H5T_IEEE_F32LE, space, 0, create, 0);
    CHECK(dataset >= 0 && H5Dclose(dataset) >= 0 && H5Pclose(create) >= 0 && H5Pclose(whole) >= 0 && H5Sclose(space) >= 0);
    CHECK((where == file || H5Fclose(where) >= 0) && H5Fclose(file) >= 0);
    struct stat info;
    char text[300];
    CHECK(!stat(check_path("step-00000001/model.h5"), &info));
    snprintf(text, sizeof text,
             "{\"format\":\"hpctrain checkpoint\",\"version\":1,\"step\":1,\"facts\":{},\"files\":{\"model.h5\":%lld},"
             "\"datasets\":{\"/x\":{\"dtype\":\"f32\",\"shape\":[2],\"crc32c\":\"00000000\"}}}",
             (long long)info.st_size);
    CHECK(try_file_write(check_path("step-00000001/manifest.json"), text, strlen(text), NULL));
    const char *why = refusal("step-00000001");
    if (!strstr(why, kind == 1 ? "/x: " : "/x: type or shape is not the manifest's"))
      check_failed(__FILE__, __LINE__, "%s: %s", names[kind], why);
  }
}

TEST(an_uncommitted_step_is_never_taken) {
  Text warnings = {0};
  save(1);
  save(2);
  CHECK(!rename(check_path("step-00000002"), check_path("step-00000002.tmp")));
  CHECK(!mkdir(check_path("step-9"), 0755) && !mkdir(check_path("step-00000003.old"), 0755));
  Ckpt *c = ckpt_find_newest(comm, check_folder(), &warnings);
  EXPECT(c && ckpt_step(c) == 1 && warnings.n == 0);
  ckpt_close(c);
  save(4); /* clears away what is left */
  EXPECT(access(check_path("step-00000002.tmp"), F_OK) && access(check_path("step-00000003.old"), F_OK));
  EXPECT(!access(check_path("step-9"), F_OK));
}

/* Where names cannot be exchanged, a death between two renames leaves both whole. */
TEST(a_step_that_has_lost_its_name_gets_it_back) {
  save(1);
  CHECK(!rename(check_path("step-00000001"), check_path("step-00000001.tmp")));
  save(1);
  CHECK(!rename(check_path("step-00000001"), check_path("step-00000001.old")));
  CHECK(!mkdir(check_path("step-00000002.old"), 0755));
  ckpt_clear(check_folder());
  EXPECT(access(check_path("step-00000001.tmp"), F_OK) && access(check_path("step-00000001.old"), F_OK));
  EXPECT(access(check_path("step-00000002"), F_OK) && access(check_path("step-00000002.old"), F_OK));
  Ckpt *c = ckpt_find_newest(comm, check_folder(), NULL);
  EXPECT(c && ckpt_step(c) == 1);
  ckpt_close(c);
}

TEST(a_fact_that_is_no_utf_8_is_kept_as_far_as_it_is) {
  CkptText fact = {"imported", "a\xff/b"};
  CkptTensor step = {.path = "/state/step", .dtype = DT_I64, .pieces = &(CkptPiece){.n = 1, .at = &(int64_t){1}}, .n_pieces = 1};
  CkptSave save = {.folder = check_folder(), .step = 1, .tensors = &step, .n_tensors = 1, .facts = &fact, .n_facts = 1};
  CHECK(try_ckpt_write(comm, &save, NULL));
  Ckpt *c = open_step("step-00000001");
  EXPECT_TEXT(ckpt_fact(c, "imported"), "a\xef\xbf\xbd/b");
  ckpt_close(c);
}

TEST(when_all_are_damaged_nothing_starts_over) {
  Text warnings = {0};
  save(1);
  CHECK(!truncate(check_path("step-00000001/model.h5"), 100));
  EXPECT_FAIL(FAIL_INPUT, "none of its 1 checkpoints is whole", ckpt_find_newest(comm, check_folder(), &warnings));
  EXPECT_FAIL(FAIL_INPUT, "step-00000001 damaged", ckpt_find_newest(comm, check_path("step-00000001"), &warnings));
  Why why = {"/model/cube, checksum"};
  save(2);
  Ckpt *c = ckpt_find_newest(comm, check_folder(), &warnings);
  EXPECT_FAIL(FAIL_INPUT, "none of its 2 checkpoints is whole", ckpt_find_before_take(comm, check_folder(), c, &why, &warnings));
  EXPECT_FAIL(FAIL_INPUT, "step-00000002 damaged: /model/cube",
              ckpt_find_before_take(comm, check_path("step-00000002"), c, &why, &warnings));
  ckpt_close(c);
}

TEST(pruning_keeps_the_newest_good_ones_and_the_milestones) {
  Why why;
  Arena *arena = arena_open();
  int n;
  for (int64_t step = 10; step <= 60; step += 10) save(step);
  CHECK(!truncate(check_path("step-00000060/model.h5"), 100));
  EXPECT(try_ckpt_prune(check_folder(), 0, 0, &why));
  ckpt_list(arena, check_folder(), &n);
  EXPECT(n == 6);
  EXPECT(try_ckpt_prune(check_folder(), 2, 20, &why));
  const int64_t *steps = ckpt_list(arena, check_folder(), &n);
  EXPECT(n == 4 && steps[0] == 20 && steps[1] == 40 && steps[2] == 50 && steps[3] == 60);
  arena_close(arena);
}

/* Told of each opening of a step's manifest from here on. */
static int watch_opens(int64_t step) {
  int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  char name[64];
  snprintf(name, sizeof name, "step-%08lld/manifest.json", (long long)step);
  CHECK(watch >= 0 && inotify_add_watch(watch, check_path(name), IN_OPEN) >= 0);
  return watch;
}

static bool was_opened(int watch) {
  char events[4096];
  return read(watch, events, sizeof events) > 0;
}

TEST(pruning_opens_none_of_the_older_milestones) {
  Why why;
  for (int64_t step = 10; step <= 40; step += 10) save(step);
  int older = watch_opens(10), newest = watch_opens(40);
  EXPECT(try_ckpt_prune(check_folder(), 1, 10, &why));
  EXPECT(was_opened(newest) && !was_opened(older));
  CHECK(!close(older) && !close(newest));
}

/* Where nothing can be told, nothing may begin anew: here a link to itself stands for a file system that has lost its server. */
TEST(a_folder_that_cannot_be_listed_is_not_an_empty_one) {
  Arena *arena = arena_open();
  const int64_t *steps;
  Why why;
  int n;
  EXPECT(!symlink(check_path("loop"), check_path("loop")));
  EXPECT(!try_ckpt_list(arena, check_path("loop"), &steps, &n, &why) && strstr(why.text, "loop: cannot be listed: "));
  EXPECT(!try_ckpt_prune(check_path("loop"), 1, 0, &why));
  EXPECT_FAIL(FAIL_MACHINE, "loop: cannot be listed: ", ckpt_list(arena, check_path("loop"), &n));
  EXPECT(try_ckpt_list(arena, check_path("absent"), &steps, &n, &why) && n == 0);
  arena_close(arena);
}

TEST(what_a_newer_program_has_saved_is_not_passed_over) {
  Text warnings = {0};
  Why why;
  save(1);
  EXPECT(!mkdir(check_path("step-00000002"), 0777));
  static const char manifest[] = "{\"format\":\"hpctrain checkpoint\",\"version\":3}";
  EXPECT(try_file_write(check_path("step-00000002/manifest.json"), manifest, strlen(manifest), &why));
  EXPECT_FAIL(FAIL_INPUT, "help: a newer hpctrain has saved it", ckpt_find_newest(comm, check_folder(), &warnings));
  EXPECT_FAIL(FAIL_INPUT, "help: a newer hpctrain has saved it", ckpt_find_newest(comm, check_path("step-00000002"), &warnings));
  EXPECT_FAIL(FAIL_INPUT, "help: a newer hpctrain has saved it", model_folder_open(check_path("step-00000002")));
}

/* The most steps at a time, by saving and pruning a run. */
static int64_t most_at_a_time(int64_t every, int64_t good, int64_t keep, int64_t last) {
  int64_t there[32], n = 0, most = 0;
  for (int64_t step = 1; step <= last; step++) {
    bool due = (every && (step % every == 0 || step == last)) || (good && step % good == 0);
    if (!due) continue;
    there[n++] = step;
    if (n > most) most = n;
    int64_t left = 0;
    for (int64_t i = 0; i < n; i++)
      if (n - i <= keep || (good && there[i] % good == 0)) there[left++] = there[i];
    n = left;
  }
  return most;
}

TEST(room_is_asked_for_as_many_as_there_will_be_at_a_time) {
  for (int64_t every = 0; every <= 5; every++)
    for (int64_t good = 0; good <= 6; good++)
      for (int64_t keep = 1; keep <= 3; keep++)
        for (int64_t last = 1; last <= 25; last++) {
          Config c = {0};
          c.checkpoint.keep = keep;
          c.checkpoint.every = (Amount){.value = (double)every, .unit = every ? UNIT_STEPS : UNIT_NONE};
          c.checkpoint.keep_every = (Amount){.value = (double)good, .unit = good ? UNIT_STEPS : UNIT_NONE};
          EXPECT(setup_checkpoints(&c, last) == most_at_a_time(every, good, keep, last));
        }
}

TEST(a_file_in_the_place_of_a_step_is_not_replaced) {
  Why why;
  save(1);
  CHECK(try_file_write(check_path("step-00000002"), "mine", 4, NULL));
  EXPECT(!case_save(comm, check_folder(), 2, &why) && strstr(why.text, "step-00000002: rename: "));
  size_t n;
  char *text = file_read(check_path("step-00000002"), &n);
  EXPECT(text && !strcmp(text, "mine") && access(check_path("step-00000002.tmp"), F_OK));
  free(text);
  CHECK(!unlink(check_path("step-00000002")));
  save(2);
}

TEST(a_full_disk_leaves_the_older_step) {
  Why why;
  if (mount("none", check_folder(), "tmpfs", 0, "size=6m")) {
    printf("note  no file system can be mounted (%s): only the limit on file sizes is tested\n", strerror(errno));
    return;
  }
  const char *folder = check_path("checkpoints");
  bool first = case_save(comm, folder, 1, &why);
  char *fill = xmalloc(2 << 20);
  memset(fill, 1, 2 << 20);
  CHECK(try_file_write(check_path("fill"), fill, 2 << 20, NULL));
  bool second = case_save(comm, folder, 2, &why);
  free(fill);
  bool clean = access(check_path("checkpoints/step-00000002"), F_OK) && access(check_path("checkpoints/step-00000002.tmp"), F_OK);
  Ckpt *c = try_ckpt_open(check_path("checkpoints/step-00000001"), NULL);
  bool holds = c && case_holds_all(c, 1);
  ckpt_close(c);
  CHECK(!unlink(check_path("fill")));
  bool third = case_save(comm, folder, 2, &why);
  CHECK(!umount2(check_folder(), MNT_DETACH));
  EXPECT(first && !second && clean && holds && third);
}

/* Killed at random moments of saves: what has a name is whole, and the newest is the last that was committed or one more. */
TEST(death_during_a_save_leaves_the_step_before) {
  Rng rng = rng_make(5, RNG_TEST, "kill", 0);
  double begin = clock_seconds();
  save(1);
  double one = clock_seconds() - begin;
  int64_t last = 1;
  for (uint64_t turn = 0; turn < 25; turn++) {
    uint32_t w[4];
    rng_words(&rng, turn, w);
    pid_t child = fork();
    if (!child)
      for (int64_t step = last + 1;; step++) save(step);
    usleep((useconds_t)(4e6 * one * (w[0] % 1000) / 1000));
    CHECK(!kill(child, SIGKILL) && waitpid(child, NULL, 0) == child);
    Text warnings = {0};
    Ckpt *c = ckpt_find_newest(comm, check_folder(), &warnings);
    EXPECT(c && warnings.n == 0 && ckpt_step(c) >= last && case_holds_all(c, ckpt_step(c)));
    last = ckpt_step(c);
    ckpt_close(c);
    CHECK(try_ckpt_prune(check_folder(), 2, 0, NULL));
  }
  EXPECT(last > 1);
}
