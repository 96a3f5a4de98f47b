/* SPDX-License-Identifier: Apache-2.0 */
/* A signal may come in the midst of malloc: what removes the folder calls nothing but what signal-safety(7) allows, and
 * getdents64, which is a bare system call. */
#include "src/train/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/fail.h"

static struct {
  char path[PATH_MAX]; /* "": none is open */
  FailUndo undo;
} scratch;

/* A pass over what is there; false: nothing is, or it does not go. */
static bool drop_files(int fd) {
  _Alignas(struct dirent64) char room[4096];
  bool any = false;
  if (lseek(fd, 0, SEEK_SET)) return false;
  for (ssize_t n; (n = getdents64(fd, room, sizeof room)) > 0;)
    for (ssize_t at = 0; at < n;) {
      const struct dirent64 *entry = (const struct dirent64 *)(room + at);
      at += entry->d_reclen;
      if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) any = !unlinkat(fd, entry->d_name, 0) || any;
    }
  return any;
}

static void drop(void *unused) {
  (void)unused;
  int fd = open(scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  while (fd >= 0 && drop_files(fd)) {
  }
  if (fd >= 0) close(fd);
  rmdir(scratch.path);
}

const char *scratch_open(void) {
  const char *place = getenv("TMPDIR");
  CHECK(!*scratch.path);
  int n = snprintf(scratch.path, sizeof scratch.path, "%s/hpctrain.XXXXXX", place ? place : "/tmp");
  errno = ENAMETOOLONG;
  if (n >= (int)sizeof scratch.path || !mkdtemp(scratch.path))
    fail(FAIL_MACHINE, "%s: %s\nhelp: TMPDIR names a folder for temporary files", scratch.path, strerror(errno));
  scratch.undo = (FailUndo){.undo = drop};
  fail_undo_push(&scratch.undo);
  return scratch.path;
}

void scratch_close(void) {
  if (!*scratch.path) return;
  fail_undo_pop(&scratch.undo);
  drop(NULL);
  scratch.path[0] = 0;
}
