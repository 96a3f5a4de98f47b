/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/ahead.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>

#include "src/base/arena.h"
#include "src/base/thread.h"

enum { WAITING_MOST = 16 };

typedef struct Wish {
  int fd;
  int64_t offset, nbytes;
} Wish;

struct Ahead {
  pthread_mutex_t lock; /* of all that follows */
  pthread_cond_t change;
  pthread_t thread;
  bool tried, started, ended; /* to start the thread; it was; it is to end */
  int first, n;               /* of the wishes that wait, in a ring */
  Wish wishes[WAITING_MOST];
};

static void grant(const Wish *wish) { (void)posix_fadvise(wish->fd, wish->offset, wish->nbytes, POSIX_FADV_WILLNEED); }

static void *work(void *self) {
  Ahead *a = self;
  pthread_mutex_lock(&a->lock);
  for (;;) {
    while (!a->n && !a->ended) pthread_cond_wait(&a->change, &a->lock);
    if (a->ended) break;
    Wish wish = a->wishes[a->first];
    a->first = (a->first + 1) % WAITING_MOST;
    a->n--;
    pthread_mutex_unlock(&a->lock);
    grant(&wish);
    pthread_mutex_lock(&a->lock);
  }
  pthread_mutex_unlock(&a->lock);
  return NULL;
}

Ahead *ahead_open(void) {
  Ahead *a = xmalloc(sizeof *a);
  *a = (Ahead){.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};
  return a;
}

void ahead_ask(Ahead *a, int fd, int64_t offset, int64_t nbytes) {
  Wish wish = {fd, offset, nbytes};
  pthread_mutex_lock(&a->lock);
  if (!a->tried) a->started = try_thread_start(&a->thread, work, a, NULL);
  a->tried = true;
  bool taken = a->started && a->n < WAITING_MOST; /* else the disk has enough to do, and the caller is not in its way */
  if (taken) {
    a->wishes[(a->first + a->n++) % WAITING_MOST] = wish;
    pthread_cond_signal(&a->change);
  }
  pthread_mutex_unlock(&a->lock);
  if (!taken) grant(&wish);
}

void ahead_close(Ahead *a) {
  if (!a) return;
  pthread_mutex_lock(&a->lock);
  a->ended = true;
  pthread_cond_signal(&a->change);
  pthread_mutex_unlock(&a->lock);
  if (a->started) CHECK(pthread_join(a->thread, NULL) == 0);
  free(a);
}
