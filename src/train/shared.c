/* SPDX-License-Identifier: Apache-2.0 */
/* A run folder on a disk of one node alone is written by one node alone: checkpoints could neither be written nor read by the
 * others. What rank 0 makes there under a name that nobody has looked for yet, the others must see.  It is in the folder of
 * checkpoints, which may be a link, and has a name that is cleared like a dead save's. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/base/file.h"
#include "src/train/run.h"

/* Seconds; nobody waits longer for a folder than for a rank. */
static double patience(const Config *c) {
  enum { MOST = 60 };
  return c->health.timeout.unit ? fmin(c->health.timeout.value, MOST) : MOST;
}

/* What rank 0 has made; error: why this rank does not see it, an errno. */
typedef struct Probe {
  const char *path;
  int error;
} Probe;

static bool is_seen(void *self) {
  Probe *p = self;
  p->error = access(p->path, F_OK) ? errno : 0;
  return !p->error;
}

void run_check_shared(Run *run) {
  char text[640] = "";
  const char *folder = run->folder->checkpoints;
  int64_t number = (int64_t)(clock_wall() * 1e6); /* microseconds since 1970: no step has it, nobody has looked for it */
  if (comm_size(run->comm) == 1) return;
  comm_broadcast(run->comm, &number, sizeof number, 0);
  const char *probe = ckpt_path(run->arena, folder, number, ".tmp");
  bool made = !run_speaks(run) || !mkdir(probe, 0777);
  if (!made) snprintf(text, sizeof text, "%.500s: %s", probe, strerror(errno));
  if (comm_any_reason(run->comm, !made, text, sizeof text))
    fail(FAIL_MACHINE, "%s\nhelp: give run.folder=PATH where this user can write, with room left", text);
  Probe look = {.path = probe};
  bool seen = file_await(probe, patience(run->config), is_seen, &look);
  const char *error = seen || look.error == ENOENT ? "" : arena_printf(run->arena, " (%s)", strerror(look.error));
  if (!seen) snprintf(text, sizeof text, "rank %d (%s) does not see%s", comm_rank(run->comm), comm_node(run->comm), error);
  bool apart = comm_any_reason(run->comm, !seen, text, sizeof text);
  if (run_speaks(run)) rmdir(probe);
  if (apart)
    config_fail(run->config, "run.folder", "a folder in a file system that all nodes share", "%s what rank 0 makes in %s", text,
                folder);
}
