/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a job that fails, on any number of ranks: one message, one exit status, no hang.
 *
 * An error that all ranks share is rank 0's to tell, so the others give it a moment to end the job and speak only when it
 * does not, the lower ranks sooner; of a node's ranks one speaks at most (turns.c).  Whoever speaks ends all. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "src/comm/impl.h"

enum { TURN_MS = 1000, TURN_STEP_MS = 50, TURN_STEPS = 40, ABORT_SECONDS = 10 };

static struct {
  pid_t pid; /* a forked child is no rank */
  int rank, size;
  bool mpi, pmix;
  char context[96], error_file[4096];
} job;

static volatile sig_atomic_t status;

static void write_all(int fd, const char *text) {
  for (size_t n = strlen(text); n;) {
    ssize_t k = write(fd, text, n);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return; /* nothing is left to do about it */
    text += k;
    n -= (size_t)k;
  }
}

static void tell(const char *text) {
  write_all(STDERR_FILENO, text);
  int fd = job.error_file[0] ? open(job.error_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
  if (fd < 0) return;
  write_all(fd, text);
  close(fd);
}

static void sleep_ms(int ms) {
  struct timespec left = {ms / 1000, ms % 1000 * 1000000L};
  while (nanosleep(&left, &left) && errno == EINTR) {
  }
}

static void give_up(int number) {
  (void)number;
  _exit(status);
}

/* An input error on rank 0 is everybody's: where it was seen says nothing. */
static const char *without_context(FailKind kind, char *text) {
  static const char error[] = "error: ";
  size_t n = sizeof error - 1, k = strlen(job.context);
  if (kind != FAIL_INPUT || job.rank || !k || strncmp(text, error, n) || strncmp(text + n, job.context, k)) return text;
  return memcpy(text + k, error, n);
}

/* A rank that is not to tell waits to be ended, but not for ever: then it tells all the same, and ends the job itself. */
static void wait_for_turn(void) {
  enum { LOOK_MS = 50 };
  turn_enter(job.rank);
  if (job.size > 1 && job.rank) sleep_ms(TURN_MS + TURN_STEP_MS * (job.rank < TURN_STEPS ? job.rank : TURN_STEPS));
  for (int waited = 0; !turn_try(job.rank) && waited < ABORT_SECONDS * 1000; waited += LOOK_MS) sleep_ms(LOOK_MS);
}

static void hook(FailKind kind, const char *message) {
  static atomic_flag taken = ATOMIC_FLAG_INIT;
  char text[8704];
  if (getpid() != job.pid) { /* forked from a rank, and none itself */
    write_all(STDERR_FILENO, message);
    _exit((int)kind);
  }
  while (atomic_flag_test_and_set(&taken)) sleep_ms(1000); /* another thread is at it */
  status = (int)kind;
  signal(SIGTERM, SIG_DFL); /* how a launcher ends the ranks that wait here */
  signal(SIGALRM, give_up);
  wait_for_turn();
  alarm(ABORT_SECONDS); /* the error file may lie where everything hangs */
  snprintf(text, sizeof text, "%s", message);
  tell(without_context(kind, text));
  if (job.pmix)
    pmix_abort(status); /* unlike MPI_Abort adds no words of its own */
  else if (job.mpi && job.size > 1)
    MPI_Abort(MPI_COMM_WORLD, status);
  _exit(status);
}

void abort_prepare(int rank, int size, const char *node, bool mpi_is_up, bool pmix_is_up) {
  job.pid = getpid();
  job.rank = rank;
  job.size = size;
  job.mpi = mpi_is_up;
  job.pmix = pmix_is_up;
  job.context[0] = 0;
  if (size > 1 && *node) snprintf(job.context, sizeof job.context, "rank %d (%s): ", rank, node);
  turns_prepare();
  fail_set_context(job.context);
  fail_set_hook(hook);
}

void abort_set_error_file(const char *path) { snprintf(job.error_file, sizeof job.error_file, "%s", path ? path : ""); }
