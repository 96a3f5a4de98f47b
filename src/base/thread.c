/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/thread.h"

#include <signal.h>
#include <string.h>

#include "src/base/fail.h"

void thread_start(pthread_t *thread, void *(*body)(void *self), void *self) {
  static const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL};
  sigset_t all, before;
  sigfillset(&all);
  for (int i = 0; i < 4; i++) sigdelset(&all, faults[i]);
  CHECK(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
  int error = pthread_create(thread, NULL, body, self);
  CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
  if (error) fail(FAIL_MACHINE, "a thread cannot be started: %s\nhelp: a larger limit of processes (ulimit -u)", strerror(error));
}
