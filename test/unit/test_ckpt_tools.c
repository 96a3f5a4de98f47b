/* SPDX-License-Identifier: Apache-2.0 */
/* What is done with checkpoints that are there: verified, compared, copied. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/ckpt_impl.h"
#include "src/base/file.h"
#include "test/check.h"
#include "test/mpi/ckpt_case.h"
#include "test/unit/ckpt_files.h"

static Comm *comm;

BEFORE_ALL { comm = comm_self(); }
AFTER_ALL { comm_close(comm); }

static void save(const char *folder, int64_t step) {
  Why why;
  if (!case_save(comm, check_path(folder), step, &why)) check_failed(__FILE__, __LINE__, "%s", why.text);
}

/* --- verifying -------------------------------------------------------------------------------------------------------------- */

static void keep(void *self, const char *damage) {
  Text *text = self;
  text_printf(text, "%s\n", damage);
}

/* One flipped bit, in each dataset in turn, at its first, its last and a middle byte: that dataset is named, and no other. */
TEST(a_flipped_bit_in_each_dataset_is_found_and_named) {
  save("c", 1);
  Ckpt *c = open_step("c/step-00000001");
  EXPECT(ckpt_n(c) == CKPT_CASES + 2);
  for (int i = 0; i < ckpt_n(c); i++) {
    const CkptEntry *e = ckpt_at(c, i);
    int64_t offset, nbytes = ckpt_entry_nbytes(e), places[] = {0, nbytes / 2, nbytes - 1};
    CHECK(try_ckpt_locate(c, e, &offset, NULL));
    for (int k = 0; k < 3; k++) {
      Text found = {0};
      char begin[128];
      flip_bit(check_path("c/step-00000001/model.h5"), offset + places[k], (i + k) % 8);
      int bad = ckpt_verify(c, 0, 1, 1 + k, keep, &found);
      flip_bit(check_path("c/step-00000001/model.h5"), offset + places[k], (i + k) % 8);
      snprintf(begin, sizeof begin, "%s, checksum ", e->path);
      if (bad != 1 || strncmp(found.at, begin, strlen(begin)) != 0)
        check_failed(__FILE__, __LINE__, "%s: %d found, %s", e->path, bad, found.n ? found.at : "none");
      text_close(&found);
    }
  }
  EXPECT(try_ckpt_verify(c, 0, 1, 4, NULL));
  ckpt_close(c);
}

TEST(every_damaged_dataset_is_told_in_order) {
  Text found = {0};
  save("c", 1);
  Ckpt *c = open_step("c/step-00000001");
  for (int i = 0; i < ckpt_n(c); i++) {
    int64_t offset;
    CHECK(try_ckpt_locate(c, ckpt_at(c, i), &offset, NULL));
    flip_bit(check_path("c/step-00000001/model.h5"), offset, 3);
  }
  EXPECT(ckpt_verify(c, 0, 1, 4, keep, &found) == ckpt_n(c));
  const char *at = found.at;
  for (int i = 0; i < ckpt_n(c); i++, at = strchr(at, '\n') + 1)
    EXPECT(!strncmp(at, ckpt_at(c, i)->path, strlen(ckpt_at(c, i)->path)));
  text_close(&found);
  ckpt_close(c);
}

/* --- comparing -------------------------------------------------------------------------------------------------------------- */

typedef struct Seen {
  CkptDiff of[CKPT_CASES + 4];
  int n;
} Seen;

static void see(void *self, const CkptDiff *diff) {
  Seen *seen = self;
  CHECK(seen->n < CKPT_CASES + 4);
  seen->of[seen->n++] = *diff;
}

TEST(a_checkpoint_is_the_same_as_itself) {
  Seen seen = {.n = 0};
  save("a", 3);
  save("b", 3);
  Ckpt *a = open_step("a/step-00000003"), *b = open_step("b/step-00000003");
  EXPECT(ckpt_diff(a, b, see, &seen) == 0 && seen.n == CKPT_CASES + 2);
  for (int i = 0; i < seen.n; i++) EXPECT(seen.of[i].change == CKPT_SAME && seen.of[i].a && seen.of[i].b && seen.of[i].n == 0);
  ckpt_close(a);
  ckpt_close(b);
}

static void save_one(const char *folder, const char *path, int rank, int64_t n, const float *values) {
  CkptPiece piece = {.n = n, .at = values};
  CkptTensor t = {.path = path, .dtype = DT_F32, .rank = rank, .shape = {n, 1}, .pieces = &piece, .n_pieces = 1};
  CkptSave s = {check_path(folder), 1, &t, 1, NULL, 0, NULL, 0};
  CHECK(try_ckpt_write(comm, &s, NULL));
}

static CkptDiff diff_ones(const char *path_b, int rank_b, const float a[4], const float b[4], int *changes) {
  Seen seen = {.n = 0};
  save_one("a", "/model/x", 1, 4, a);
  save_one("b", path_b, rank_b, 4, b);
  Ckpt *x = open_step("a/step-00000001"), *y = open_step("b/step-00000001");
  *changes = ckpt_diff(x, y, see, &seen);
  ckpt_close(x);
  ckpt_close(y);
  CHECK(seen.n == (strcmp(path_b, "/model/x") ? 2 : 1));
  return seen.of[0];
}

TEST(a_difference_has_its_size) {
  int changes;
  const float a[4] = {3, 0, 4, 1}, b[4] = {3, 2, 4, -0.5f}, zero[4] = {0}, none[4] = {NAN, 0, 0, 0}, minus[4] = {-0.0f, 0, 0, 0};
  CkptDiff d = diff_ones("/model/x", 1, a, b, &changes);
  EXPECT(changes == 1 && d.change == CKPT_CHANGED && d.n == 2 && d.most == 2);
  EXPECT_NEAR(d.relative, sqrt((4 + 2.25) / 26), 1e-12);
  d = diff_ones("/model/x", 1, zero, b, &changes);
  EXPECT(d.most == 4 && isinf(d.relative));
  d = diff_ones("/model/x", 1, a, none, &changes);
  EXPECT(changes == 1 && d.n == 3 && isnan(d.most) && isnan(d.relative));
  d = diff_ones("/model/x", 1, none, none, &changes);
  EXPECT(changes == 0);
  d = diff_ones("/model/x", 1, zero, minus, &changes);
  EXPECT(changes == 1 && d.n == 1 && d.most == 0 && d.relative == 0);
}

TEST(other_shapes_and_names_are_differences) {
  int changes;
  const float a[4] = {3, 0, 4, 1};
  EXPECT(diff_ones("/model/x", 2, a, a, &changes).change == CKPT_RESHAPED && changes == 1);
  CkptDiff d = diff_ones("/model/w", 1, a, a, &changes);
  EXPECT(changes == 2 && d.change == CKPT_ONLY_SECOND && !d.a && d.b);
  EXPECT(diff_ones("/model/y", 1, a, a, &changes).change == CKPT_ONLY_FIRST && changes == 2);
}

/* --- copying ---------------------------------------------------------------------------------------------------------------- */

TEST(a_copy_is_the_same_bytes) {
  save("a", 5);
  Why why;
  Ckpt *c = open_step("a/step-00000005");
  const char *files[] = {"model.h5", "manifest.json"};
  EXPECT(try_ckpt_copy(c, check_path("archive/deep"), 2, &why));
  for (int i = 0; i < 2; i++) {
    char from[64], to[64];
    size_t n, m;
    snprintf(from, sizeof from, "a/step-00000005/%s", files[i]);
    snprintf(to, sizeof to, "archive/deep/step-00000005/%s", files[i]);
    char *x = file_read(check_path(from), &n), *y = file_read(check_path(to), &m);
    EXPECT(x && y && n == m && !memcmp(x, y, n));
    free(x);
    free(y);
  }
  EXPECT(!try_ckpt_copy(c, check_path("archive/deep"), 2, &why) && strstr(why.text, "is there already"));
  ckpt_close(c);
}

/* Three files: each that is damaged, longer or missing is named, and a copy has them all. */
TEST(of_several_files_the_damaged_one_is_named) {
  Why why;
  Seen seen = {.n = 0};
  EXPECT(case_save_files(comm, check_path("a"), 5, 1, 3, &why));
  Ckpt *c = open_step("a/step-00000005");
  EXPECT(ckpt_files(c) == 3 && try_ckpt_copy(c, check_path("archive"), 2, &why));
  Ckpt *copy = open_step("archive/step-00000005");
  EXPECT(ckpt_diff(c, copy, see, &seen) == 0 && ckpt_nbytes(c) == ckpt_nbytes(copy));
  ckpt_close(copy);
  for (int i = 0; i < ckpt_n(c); i++) {
    const CkptEntry *e = ckpt_at(c, i);
    int64_t offset, nbytes;
    char path[4200], moved[4200];
    snprintf(path, sizeof path, "%s/%s", check_path("a/step-00000005"), ckpt_file(c, e->file, &nbytes));
    snprintf(moved, sizeof moved, "%s", check_path("moved"));
    CHECK(try_ckpt_locate(c, e, &offset, NULL));
    flip_bit(path, offset, 1);
    EXPECT(!try_ckpt_verify(c, 0, 1, 2, &why) && strstr(why.text, e->path) && strstr(why.text, ckpt_file(c, e->file, &nbytes)));
    flip_bit(path, offset, 1);
    CHECK(!rename(path, moved));
    EXPECT(!try_ckpt_open(check_path("a/step-00000005"), &why) && strstr(why.text, path) && strstr(why.text, "No such file"));
    CHECK(!rename(moved, path) && !truncate(path, nbytes + 1));
    EXPECT(!try_ckpt_open(check_path("a/step-00000005"), &why) && strstr(why.text, path) && strstr(why.text, "manifest"));
    CHECK(!truncate(path, nbytes));
  }
  ckpt_close(c);
}

TEST(a_damaged_step_is_not_copied) {
  Why why;
  int64_t offset;
  save("a", 5);
  Ckpt *c = open_step("a/step-00000005");
  CHECK(try_ckpt_locate(c, ckpt_find(c, "/model/cube"), &offset, NULL));
  flip_bit(check_path("a/step-00000005/model.h5"), offset, 0);
  EXPECT(!try_ckpt_copy(c, check_path("archive"), 2, &why) && strstr(why.text, "/model/cube, checksum "));
  EXPECT(access(check_path("archive/step-00000005"), F_OK) && access(check_path("archive/step-00000005.copy"), F_OK));
  flip_bit(check_path("a/step-00000005/model.h5"), offset, 0);
  EXPECT(try_ckpt_copy(c, check_path("archive"), 2, &why));
  ckpt_close(c);
}

TEST(a_copy_without_room_leaves_nothing) {
  Why why;
  save("a", 5);
  Ckpt *c = open_step("a/step-00000005");
  CHECK(!mkdir(check_path("small"), 0755));
  if (mount("none", check_path("small"), "tmpfs", 0, "size=1m")) {
    printf("note  no file system can be mounted (%s)\n", strerror(errno));
    return;
  }
  bool ok = try_ckpt_copy(c, check_path("small"), 2, &why);
  bool clean = access(check_path("small/step-00000005"), F_OK) && access(check_path("small/step-00000005.copy"), F_OK);
  CHECK(!umount2(check_path("small"), MNT_DETACH));
  EXPECT(!ok && clean && strstr(why.text, "No space left on device"));
  ckpt_close(c);
}
