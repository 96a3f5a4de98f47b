/* SPDX-License-Identifier: Apache-2.0 */
/* A run folder on a disk of one node alone is written by one node alone: checkpoints could neither be written nor read by the
 * others. What rank 0 makes there under a name that nobody has looked for yet, the others must see.  A client of NFS may remember
 * for a minute that a name was not there (acdirmax, nfs(5)), but asks again about a folder that is opened.  It is in the folder of
 * checkpoints, which may be a link, and has a name that is cleared like a dead save's. */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/train/run.h"

/* Seconds; nobody waits longer for a folder than for a rank. */
static double patience(const Config *c) {
  enum { MOST = 60 };
  return c->health.timeout.unit ? fmin(c->health.timeout.value, MOST) : MOST;
}

static void open_parents(Arena *arena, const char *path) {
  for (const char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
    DIR *dir = opendir(arena_strndup(arena, path, (size_t)(at - path)));
    if (dir) closedir(dir);
  }
}

/* False with errno. */
static bool appears(const char *path, double patience) {
  Arena *arena = arena_open();
  double end = clock_seconds() + patience;
  bool seen;
  while (!(seen = !access(path, F_OK)) && clock_seconds() < end) {
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    open_parents(arena, path);
  }
  int error = errno;
  arena_close(arena);
  errno = error;
  return seen;
}

void run_check_shared(Run *run) {
  char text[640] = "";
  const char *folder = run->folder->checkpoints;
  int64_t number = 100000000 + (int64_t)(clock_wall() * 1e6);
  if (comm_size(run->comm) == 1) return;
  comm_broadcast(run->comm, &number, sizeof number, 0);
  const char *probe = ckpt_path(run->arena, folder, number, ".tmp");
  bool made = !run_speaks(run) || !mkdir(probe, 0777);
  if (!made) snprintf(text, sizeof text, "%.500s: %s", probe, strerror(errno));
  if (comm_any_reason(run->comm, !made, text, sizeof text))
    fail(FAIL_MACHINE, "%s\nhelp: give run.folder=PATH where this user can write, with room left", text);
  bool seen = appears(probe, patience(run->config));
  const char *error = seen || errno == ENOENT ? "" : arena_printf(run->arena, " (%s)", strerror(errno));
  if (!seen) snprintf(text, sizeof text, "rank %d (%s) does not see%s", comm_rank(run->comm), comm_node(run->comm), error);
  bool apart = comm_any_reason(run->comm, !seen, text, sizeof text);
  if (run_speaks(run)) rmdir(probe);
  if (apart)
    config_fail(run->config, "run.folder", "a folder in a file system that all nodes share", "%s what rank 0 makes in %s", text,
                folder);
}
