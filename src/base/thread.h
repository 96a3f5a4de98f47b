/* SPDX-License-Identifier: Apache-2.0 */
/* Threads beside the job's own.  Signals are that one's: what a handler notes it will see, and no other thread is interrupted. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

#include "src/base/fail.h"

/* Runs body(self).  Its own faults (SIGSEGV, SIGBUS, …) are the only signals that the thread gets. */
bool try_thread_start(pthread_t *thread, void *(*body)(void *self), void *self, Why *why);
/* The same, and ends the job when it cannot. */
void thread_start(pthread_t *thread, void *(*body)(void *self), void *self);

#endif
