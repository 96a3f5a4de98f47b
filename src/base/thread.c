/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/thread.h"

#include <signal.h>
#include <string.h>

#include "src/base/fail.h"

bool try_thread_start(pthread_t *thread, void *(*body)(void *self), void *self, Why *why) {
  static const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL};
  sigset_t all, before;
  sigfillset(&all);
  for (int i = 0; i < 4; i++) sigdelset(&all, faults[i]);
  CHECK(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
  int error = pthread_create(thread, NULL, body, self);
  CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
  return !error || why_not(why, "a thread cannot be started: %s", strerror(error));
}

void thread_start(pthread_t *thread, void *(*body)(void *self), void *self) {
  Why why;
  if (!try_thread_start(thread, body, self, &why))
    fail(FAIL_MACHINE, "%s\nhelp: a larger limit of processes (ulimit -u)", why.text);
}
