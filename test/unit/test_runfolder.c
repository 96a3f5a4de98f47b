/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a run, and files that grow. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "src/base/arena.h"
#include "src/base/text.h"
#include "src/report/append.h"
#include "src/report/difference.h"
#include "src/report/environment.h"
#include "src/report/runfolder.h"
#include "test/check.h"

static int count(const char *text, const char *what) {
  int n = 0;
  for (const char *p = text; (p = strstr(p, what)); p += strlen(what)) n++;
  return n;
}

static void path_of(char path[300], const char *name) { snprintf(path, 300, "%s/%s", check_folder(), name); }

/* Files that grow */

TEST(a_full_disk_loses_nothing_that_can_wait) {
  char path[300];
  path_of(path, "log.txt");
  fflush(stdout);
  if (check_fork()) { /* a limit on file size stands for a full disk; stderr, a file here, has it too */
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit)) _exit(1);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 10;
    if (setrlimit(RLIMIT_FSIZE, &limit)) _exit(1);
    Append *a = append_open(path);
    append_add(a, "12345678\n", 9);
    append_add(a, "abcdefgh\n", 9); /* one byte of it fits */
    append_add(a, "ABCDEFGH\n", 9);
    Why why;
    if (append_sync(a, &why) || !strstr(why.text, "File too large")) _exit(1);
    limit.rlim_cur = before;
    if (setrlimit(RLIMIT_FSIZE, &limit)) _exit(1);
    append_add(a, "end\n", 4);
    if (!append_sync(a, &why) || !append_close(a, &why)) _exit(1);
    _exit(7);
  }
  check_died(__FILE__, __LINE__, 7, "log.txt: written again, nothing is missing");
  size_t n;
  char *text = file_read(path, &n);
  EXPECT_TEXT(text, "12345678\nabcdefgh\nABCDEFGH\nend\n");
  free(text);
}

TEST(what_cannot_wait_longer_ends_the_job_with_a_remedy) {
  EXPECT_FAIL(FAIL_MACHINE, "help: make room", {
    Append *a = append_open("/dev/full");
    static char chunk[1 << 20];
    for (int i = 0; i < 20; i++) append_add(a, chunk, sizeof chunk);
  });
}

/* Run folder */

static bool exists(const char *folder, const char *name) {
  char path[400];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return !access(path, F_OK);
}

TEST(a_run_folder_counts_its_attempts_and_knows_what_changed) {
  Arena *arena = arena_open();
  char path[300];
  path_of(path, "runs/a/b");
  setenv("OMP_TEST_VARIABLE", "3 \033[31m", 1);
  setenv("SLURM_JWT", "hidden", 1);
  RunFolder *f = runfolder_paths(arena, path);
  runfolder_make(f);
  runfolder_begin(f, arena, "a: 1\nb: 2\nc: 3\n");
  EXPECT(f->attempt == 1 && f->changed == -1);
  runfolder_banner(f, "hpctrain\n");
  EXPECT(exists(path, "run.yaml") && exists(path, "logs") && exists(path, "checkpoints") && exists(path, "attempts/1/banner.txt"));
  size_t n;
  char *environment = file_read(arena_printf(arena, "%s/attempts/1/environment.txt", path), &n);
  EXPECT(environment && strstr(environment, "OMP_TEST_VARIABLE=3 ?[31m\n") && strstr(environment, "SLURM_JWT=(not shown)\n"));
  EXPECT(!strstr(environment, "hidden"));
  free(environment);

  f = runfolder_paths(arena, path);
  runfolder_make(f);
  runfolder_begin(f, arena, "a: 1\nB: 2\nc: 3\nd: 4\n");
  EXPECT(f->attempt == 2 && f->changed == 3);
  char *diff = file_read(arena_printf(arena, "%s/attempts/2/run.diff", path), &n);
  EXPECT_TEXT(diff, "- b: 2\n+ B: 2\n+ d: 4\n");
  free(diff);
  f = runfolder_paths(arena, path);
  runfolder_begin(f, arena, "a: 1\nB: 2\nc: 3\nd: 4\n");
  EXPECT(f->attempt == 3 && f->changed == 0);
  EXPECT_TEXT(runfolder_rank_log(f, arena, 37), arena_printf(arena, "%s/logs/rank-00037.log", path));
  unsetenv("OMP_TEST_VARIABLE");
  unsetenv("SLURM_JWT");
  arena_close(arena);
}

TEST(a_run_folder_that_cannot_be_made_ends_with_a_remedy) {
  Arena *arena = arena_open();
  char path[300];
  path_of(path, "file");
  FILE *file = fopen(path, "w");
  EXPECT(file && !fclose(file));
  EXPECT_FAIL(FAIL_MACHINE, "help: give run.folder=", runfolder_make(runfolder_paths(arena, arena_printf(arena, "%s/run", path))));
  EXPECT_FAIL(FAIL_MACHINE, "/proc/run: No such file", runfolder_make(runfolder_paths(arena, "/proc/run")));
  path_of(path, "shut");
  EXPECT(!mkdir(path, 0555));
  if (geteuid()) EXPECT_FAIL(FAIL_MACHINE, "Permission denied", runfolder_make(runfolder_paths(arena, path)));
  arena_close(arena);
}

TEST(the_banner_shows_what_was_set_by_hand) {
  setenv("NCCL_IB_HCA", "mlx5", 1);
  setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  Text text = {0};
  environment_brief(&text);
  EXPECT(strstr(text.at, "NCCL_IB_HCA=mlx5") && !strstr(text.at, "OMPI_") && !strchr(text.at, '\n'));
  text_close(&text);
  unsetenv("NCCL_IB_HCA");
  unsetenv("OMPI_COMM_WORLD_SIZE");
}

/* Applying what a difference says to the first text gives the second. */
TEST(a_difference_leads_from_one_text_to_the_other) {
  for (unsigned a = 0; a < 64; a++)
    for (unsigned b = 0; b < 64; b++) {
      Text before = {0}, after = {0}, diff = {0};
      for (int i = 0; i < 6; i++) {
        if (a >> i & 1) text_printf(&before, "%d\n", i % 4);
        if (b >> i & 1) text_printf(&after, "%d\n", i % 4);
      }
      text_add(&before, "", 0);
      text_add(&after, "", 0);
      int n = difference_lines(before.at, after.at, &diff);
      EXPECT(n == count(diff.at, "\n"));
      EXPECT((n == 0) == !strcmp(before.at, after.at));
      EXPECT((int)after.n - (int)before.n == 2 * (count(diff.at, "+ ") - count(diff.at, "- ")));
      text_close(&before);
      text_close(&after);
      text_close(&diff);
    }
}
