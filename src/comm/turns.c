/* SPDX-License-Identifier: Apache-2.0 */
/* Which of a node's failing ranks tells.  Each enters its number in a file of the launcher's folder for this job, which ends with
 * it; the lowest that is entered tells, and nobody after one that did.  Time alone cannot order ranks: on a busy machine one may
 * come seconds late.  Where the launcher has no such folder, every rank takes its turn to be its own. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/comm/impl.h"

/* A script that a launcher starts may run several programs, one after another: what was entered long before this one began is of
 * one before it.  Ranks begin within SKEW_SECONDS of each other. */
enum { TOLD = -1, MOST_ENTRIES = 4096 /* more than a node has ranks */, SKEW_SECONDS = 2 };

typedef struct Entry {
  double at; /* wall clock: one node has one */
  int64_t rank;
} Entry;

static double begin; /* of this program, or a little before */

void turns_prepare(void) { begin = clock_wall() - clock_since_exec() - SKEW_SECONDS; }

/* -1: there is no such file. */
static int entries_open(void) {
  const char *folder = getenv("PMIX_SERVER_TMPDIR"), *job = getenv("PMIX_NAMESPACE");
  char path[PATH_MAX];
  if (!folder || !job || snprintf(path, sizeof path, "%s/hpctrain-%s", folder, job) >= (int)sizeof path) return -1;
  return open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static bool entry_add(int fd, int rank) {
  Entry entry = {clock_wall(), rank};
  return write(fd, &entry, sizeof entry) == sizeof entry;
}

void turn_enter(int rank) {
  int fd = entries_open();
  if (fd < 0) return;
  (void)entry_add(fd, rank); /* one that is not entered waits for those that are, as it should */
  close(fd);
}

bool turn_try(int rank) {
  static Entry entries[MOST_ENTRIES]; /* of the one thread of this process that fails */
  int fd = entries_open();
  if (fd < 0) return true;
  bool mine = !flock(fd, LOCK_EX | LOCK_NB); /* which closing ends; another that has it is about to tell, or not to */
  ssize_t n = pread(fd, entries, sizeof entries, 0) / (ssize_t)sizeof *entries;
  for (ssize_t i = 0; i < n; i++) mine = mine && (entries[i].at < begin || entries[i].rank >= rank);
  if (mine) (void)entry_add(fd, TOLD);
  close(fd);
  return mine;
}
