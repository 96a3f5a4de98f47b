/* SPDX-License-Identifier: Apache-2.0 */
/* What comes from outside while a run goes on: signals to any rank, and files in the run folder, which rank 0 looks for. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/train/run.h"

/* In the run folder; NULL: no file asks for it. */
static const char *const files[WISHES] = {[WISH_STOP] = "STOP", [WISH_SAVE] = "SAVE"};

static volatile sig_atomic_t told; /* the signal that told this process to stop */

static void hear(int number) { told = number; }

static void listen(int number, int flags) {
  struct sigaction action = {.sa_handler = hear, .sa_flags = SA_RESTART | flags};
  sigemptyset(&action.sa_mask);
  CHECK(!sigaction(number, &action, NULL));
}

void wishes_open(void) { listen(SIGUSR1, 0); }

void wishes_listen(void) {
  listen(SIGINT, SA_RESETHAND); /* the second one has its usual effect */
  listen(SIGTERM, 0);
  CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR); /* a reader of stdout that ends does not end the training */
}

/* A file is taken away as it is seen, so that it counts once.  Looked for once a second: file systems may be slow. */
static bool take_file(const Run *run, Wish wish) {
  Arena *arena = arena_open();
  const char *path = arena_printf(arena, "%s/%s", run->folder->path, files[wish]);
  bool there = !access(path, F_OK);
  if (there && unlink(path)) lines_warn(run->lines, run->step, "%s: %s", path, strerror(errno));
  if (there) lines_note(run->lines, "%s found in the run folder", files[wish]);
  arena_close(arena);
  return there;
}

void wishes_take(const Run *run, int64_t wanted[WISHES]) {
  static double looked = -1;
  double now = clock_seconds();
  memset(wanted, 0, sizeof *wanted * WISHES);
  wanted[WISH_PAUSE] = told;
  if (!run_speaks(run)) return;
  if (limit_is_near(run)) wanted[WISH_PAUSE] = PAUSE_TIME;
  if (now < looked + 1) return;
  looked = now;
  for (Wish w = 0; w < WISHES; w++)
    if (files[w] && take_file(run, w)) wanted[w] = true;
}
