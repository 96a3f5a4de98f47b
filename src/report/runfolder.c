/* SPDX-License-Identifier: Apache-2.0 */
#include "src/report/runfolder.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/fail.h"
#include "src/base/file.h"
#include "src/base/text.h"
#include "src/report/difference.h"
#include "src/report/environment.h"

RunFolder *runfolder_paths(Arena *arena, const char *path) {
  RunFolder *f = arena_new(arena, RunFolder);
  *f = (RunFolder){.path = arena_strdup(arena, path),
                   .run = arena_printf(arena, "%s/run.yaml", path),
                   .log = arena_printf(arena, "%s/log.txt", path),
                   .error = arena_printf(arena, "%s/error.txt", path),
                   .requeue = arena_printf(arena, "%s/REQUEUE", path),
                   .logs = arena_printf(arena, "%s/logs", path),
                   .checkpoints = arena_printf(arena, "%s/checkpoints", path),
                   .profile = arena_printf(arena, "%s/profile", path),
                   .attempts = arena_printf(arena, "%s/attempts", path),
                   .changed = -1};
  return f;
}

static _Noreturn void fail_folder(const char *reason) {
  fail(FAIL_MACHINE, "run folder %s\nhelp: give run.folder=PATH where this user can write", reason);
}

/* access() also sees what permissions do not say: a file system mounted read-only. */
static void make(const char *path) {
  Why why;
  if (!try_folder_make(path, &why)) fail_folder(why.text);
  if (!access(path, W_OK | X_OK)) return;
  why_not(&why, "%s: %s", path, strerror(errno));
  fail_folder(why.text);
}

void runfolder_make(const RunFolder *f) {
  const char *const paths[] = {f->path, f->logs, f->checkpoints, f->attempts};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) make(paths[i]);
}

/* The highest number among the folder's entries; other names are somebody else's. */
static int last_attempt(const char *path) {
  DIR *dir = opendir(path);
  if (!dir) fail(FAIL_MACHINE, "%s: %s\nhelp: make the folder readable", path, strerror(errno));
  int last = 0;
  for (struct dirent *e; (e = readdir(dir));) {
    int64_t n;
    if (num_parse_int(e->d_name, &n) && n > last && n < INT_MAX) last = (int)n;
  }
  closedir(dir);
  return last;
}

static void write_in(const char *folder, const char *name, const char *text) {
  char path[PATH_MAX];
  Why why;
  if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) fail_folder(strerror(ENAMETOOLONG));
  if (!try_file_write(path, text, strlen(text), &why)) fail_folder(why.text);
}

void runfolder_begin(RunFolder *f, Arena *arena, const char *run_yaml) {
  f->attempt = last_attempt(f->attempts) + 1;
  f->here = arena_printf(arena, "%s/%d", f->attempts, f->attempt);
  f->cut = arena_printf(arena, "%s/metrics-cut.jsonl", f->here);
  if (mkdir(f->here, 0777)) fail(FAIL_MACHINE, "%s: %s\nhelp: make room there", f->here, strerror(errno));
  Text environment = {0}, diff = {0};
  environment_print(&environment);
  write_in(f->here, "environment.txt", environment.at);
  size_t n;
  char *before = file_read(f->run, &n);
  if (before) {
    f->changed = difference_lines(before, run_yaml, &diff);
    write_in(f->here, "run.diff", diff.at);
  } else if (errno != ENOENT)
    fail(FAIL_MACHINE, "%s: %s\nhelp: make the file readable, or move it away", f->run, strerror(errno));
  write_in(f->here, "run.yaml", run_yaml);
  write_in(f->path, "run.yaml", run_yaml);
  free(before);
  text_close(&environment);
  text_close(&diff);
}

void runfolder_banner(const RunFolder *f, const char *banner) { write_in(f->here, "banner.txt", banner); }

const char *runfolder_rank_log(const RunFolder *f, Arena *arena, int rank) {
  return arena_printf(arena, "%s/rank-%05d.log", f->logs, rank);
}

const char *runfolder_rank_profile(const RunFolder *f, Arena *arena, int rank, const char *extension) {
  return arena_printf(arena, "%s/rank-%05d.%s", f->profile, rank, extension);
}
