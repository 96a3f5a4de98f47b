/* SPDX-License-Identifier: Apache-2.0 */
/* How long a rank is in collectives.  On a CPU its thread waits in them, by the clock.  A GPU is in several at a time, behind what
 * it computes; its own clock could tell to the microsecond, but only by events in its graphs.  So a thread looks, some hundred
 * times a second, whether the words that lanes write say that one of them is in a collective (nccl.c): of many looks the share is
 * the time's.  Between looks that lie far apart this process was stopped, which is no waiting. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/base/arena.h"
#include "src/base/clock.h"
#include "src/base/thread.h"
#include "src/comm/impl.h"

static const double EVERY = 0.002, FAR = 0.02; /* seconds */

struct Meter {
  const Mesh *mesh;
  pthread_t thread;
  pthread_mutex_t lock; /* of the rest */
  double waited;
  bool over;
};

static void *look(void *self) {
  Meter *m = self;
  double before = clock_seconds();
  for (bool over = false; !over;) {
    nanosleep(&(struct timespec){.tv_nsec = (long)(EVERY * 1e9)}, NULL);
    double now = clock_seconds(), took = now - before;
    before = now;
    bool is_in = took < FAR && m->mesh->device->is_in(m->mesh);
    CHECK(pthread_mutex_lock(&m->lock) == 0);
    if (is_in) m->waited += took;
    over = m->over;
    CHECK(pthread_mutex_unlock(&m->lock) == 0);
  }
  return NULL;
}

static Meter *meter_open(const Mesh *mesh) {
  Meter *m = xmalloc(sizeof *m);
  *m = (Meter){.mesh = mesh};
  CHECK(pthread_mutex_init(&m->lock, NULL) == 0);
  thread_start(&m->thread, look, m);
  return m;
}

void meter_close(Meter *m) {
  if (!m) return;
  CHECK(pthread_mutex_lock(&m->lock) == 0);
  m->over = true;
  CHECK(pthread_mutex_unlock(&m->lock) == 0);
  CHECK(pthread_join(m->thread, NULL) == 0 && pthread_mutex_destroy(&m->lock) == 0);
  free(m);
}

double comm_waited(Mesh *mesh) {
  if (!mesh->device) return mesh->comm->waited;
  if (!mesh->meter) mesh->meter = meter_open(mesh);
  CHECK(pthread_mutex_lock(&mesh->meter->lock) == 0);
  double waited = mesh->meter->waited;
  CHECK(pthread_mutex_unlock(&mesh->meter->lock) == 0);
  return waited;
}

bool comm_overlaps(const Mesh *mesh) { return mesh->device != NULL; }
