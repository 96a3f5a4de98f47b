/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

/* Ends the job when it cannot.  Signals are the job's thread's, but for a thread's own faults. */
void thread_start(pthread_t *thread, void *(*body)(void *self), void *self);

#endif
