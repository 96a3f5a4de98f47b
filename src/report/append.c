/* SPDX-License-Identifier: Apache-2.0 */
#include "src/report/append.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/arena.h"
#include "src/base/text.h"

struct Append {
  char *path;
  int fd; /* -1: not open yet */
  Text waiting;
  int error; /* errno of the failure that is going on; 0: none */
};

Append *append_open(const char *path) {
  Append *a = xmalloc(sizeof *a);
  *a = (Append){.fd = -1};
  append_set_path(a, path);
  return a;
}

/* On stderr alone: the file that takes lines may be this one. */
static void tell(const Append *a, const char *what) {
  char line[512];
  int n = snprintf(line, sizeof line, "warn   %s: %s\n", a->path, what);
  if (n >= (int)sizeof line) n = (int)sizeof line - 1;
  ssize_t written = write(STDERR_FILENO, line, (size_t)n);
  (void)written; /* nobody is left to tell */
}

/* Writes what waits; 0 or errno.  A short write leaves its rest to the next turn, so that no record is doubled or torn. */
static int drain(Append *a) {
  if (a->fd < 0) a->fd = open(a->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (a->fd < 0) return errno;
  size_t done = 0;
  int error = 0;
  while (done < a->waiting.n && !error) {
    ssize_t n = write(a->fd, a->waiting.at + done, a->waiting.n - done);
    if (n > 0)
      done += (size_t)n;
    else if (n == 0)
      error = EIO;
    else if (errno != EINTR)
      error = errno;
  }
  memmove(a->waiting.at, a->waiting.at + done, a->waiting.n - done);
  a->waiting.n -= done;
  return error;
}

static void flush(Append *a) {
  if (!a->path || !a->waiting.n) return;
  int error = drain(a);
  if (error && !a->error) {
    char what[256];
    snprintf(what, sizeof what, "%s; kept in memory until it can be written", strerror(error));
    tell(a, what);
  }
  if (!error && a->error) tell(a, "written again, nothing is missing");
  a->error = error;
  if (error && a->waiting.n > APPEND_WAITING)
    fail(FAIL_MACHINE, "%s: %s, and %zu bytes wait for it\nhelp: make room there, then start the run again: it resumes", a->path,
         strerror(error), a->waiting.n);
}

void append_set_path(Append *a, const char *path) {
  if (!path) return;
  CHECK(!a->path);
  a->path = strcpy(xmalloc(strlen(path) + 1), path);
  flush(a);
}

void append_add(Append *a, const void *record, size_t nbytes) {
  text_add(&a->waiting, record, nbytes);
  flush(a);
}

bool append_sync(Append *a, Why *why) {
  flush(a);
  if (a->error) return why_not(why, "%s: %s", a->path, strerror(a->error));
  if (a->fd < 0) return true;
  return fdatasync(a->fd) == 0 || errno == EINVAL || why_not(why, "%s: %s", a->path, strerror(errno));
}

bool append_close(Append *a, Why *why) {
  if (!a) return true;
  flush(a);
  bool ok = !a->error || why_not(why, "%s: %s; %zu bytes are lost", a->path, strerror(a->error), a->waiting.n);
  if (a->fd >= 0 && close(a->fd) && ok) ok = why_not(why, "%s: %s", a->path, strerror(errno));
  text_close(&a->waiting);
  free(a->path);
  free(a);
  return ok;
}
