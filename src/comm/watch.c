/* SPDX-License-Identifier: Apache-2.0 */
/* The watch: a thread a rank that sees when nothing goes on, and ends the job with who holds it up.
 *
 * The job's own thread writes down which collective it comes to, in which it waits and what else it does: three words under a
 * lock.  The watch looks at them a few times within the timeout, notes since when they have not changed, and sends that to two
 * ranks by messages of a communicator of its own, which no collective of the job can hold up.  These are rank 0 and, should
 * that be the one that hangs, the first rank of another node (of one node: rank 1), which lets rank 0 speak first.
 *
 * Time is counted in looks: a job that is suspended as a whole goes on where it was. */
#include "src/comm/watch.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/base/arena.h"
#include "src/base/clock.h"
#include "src/base/thread.h"

enum { WATCHERS = 2 };
static const double LOOKS = 8, LOOK_MOST = 1; /* in a timeout; seconds from one to the next */
static const double LEAVING = 0.002;          /* the same at the end */
static const double SECOND_LATER = 1; /* seconds: rank 0 has spoken by then, and a job whose rank 0 hangs ends in time, too */
static const char object[] = "the watch of the job";

/* What the job's thread writes, or the one beside it. */
typedef struct Now {
  uint64_t entered, waiting;
  int64_t step;
  int32_t patient;
  uint32_t changes; /* of step, doing and awaits */
  bool awaits;      /* the job's: the one beside */
  const char *collective;
  char doing[sizeof((Beat){0}).doing];
} Now;

struct Watch {
  Comm *comm;
  MPI_Comm channel;
  double timeout, every;
  pthread_t thread;
  pthread_mutex_t lock; /* of now, aside, mesh, timeout and leaving */
  pthread_cond_t left;
  Now now, aside;
  const Mesh *mesh; /* whose device tells of its collectives; NULL: none */
  bool leaving;
  /* The thread's own. */
  double clock, calm; /* calm: it judges nobody until then */
  Beat mine;
  uint32_t changes, aside_changes;
  double changed, aside_changed;         /* when anything did last */
  int watchers[WATCHERS], nwatchers, me; /* me: which of them this rank is, or -1 */
  Beat out[WATCHERS];
  bool said[WATCHERS]; /* that this rank tells nothing more */
  MPI_Request sends[WATCHERS];
  Beat in;
  MPI_Request receive;
  Hearing *ranks; /* a watcher's */
  double *heard;  /* when */
  int others;     /* that have more to tell */
  char (*nodes)[NODE_NAME];
};

/* --- the job's thread ------------------------------------------------------------------------------------------------------- */

static void lock(Watch *w) { CHECK(pthread_mutex_lock(&w->lock) == 0); }
static void unlock(Watch *w) { CHECK(pthread_mutex_unlock(&w->lock) == 0); }

static Now *now_of(const Comm *comm) { return comm->beside ? &comm->watch->aside : &comm->watch->now; }

uint64_t watch_enter(Comm *comm) {
  Watch *w = comm->watch;
  if (!w) return 0;
  lock(w);
  uint64_t number = ++now_of(comm)->entered;
  unlock(w);
  return number;
}

void watch_wait(Comm *comm, uint64_t number, const char *what) {
  Watch *w = comm->watch;
  if (!w) return;
  lock(w);
  now_of(comm)->waiting = number;
  now_of(comm)->collective = what;
  unlock(w);
}

void watch_leave(Comm *comm) { watch_wait(comm, 0, ""); }

void watch_mesh(Comm *comm, const Mesh *mesh) {
  Watch *w = comm->watch;
  if (!w) return;
  lock(w);
  w->mesh = mesh;
  unlock(w);
}

void watch_lock(Comm *comm) {
  if (comm->watch) lock(comm->watch);
}

void watch_unlock(Comm *comm) {
  if (comm->watch) unlock(comm->watch);
}

void comm_doing(Comm *comm, bool patient, const char *format, ...) {
  Watch *w = comm->watch;
  if (!w) return;
  va_list args;
  lock(w);
  va_start(args, format);
  Now *now = now_of(comm);
  vsnprintf(now->doing, sizeof now->doing, format, args);
  va_end(args);
  now->patient = patient;
  now->changes++;
  unlock(w);
}

void comm_await_beside(Comm *beside, bool waits) {
  Watch *w = beside->watch;
  if (!w) return;
  lock(w);
  w->now.awaits = waits;
  w->now.changes++;
  unlock(w);
}

void comm_step(Comm *comm, int64_t step) {
  Watch *w = comm->watch;
  if (!w) return;
  lock(w);
  w->now.step = step;
  w->now.changes++;
  unlock(w);
}

/* --- a look ----------------------------------------------------------------------------------------------------------------- */

/* Where the job's thread waits for the one beside it, that one tells how this rank is: since when it has not gone on may be from
 * before anybody waited for it. */
static void look_aside(Watch *w) {
  Beat *is = &w->mine;
  lock(w);
  const Now *aside = &w->aside;
  uint32_t changes = aside->changes + 2 * (uint32_t)aside->entered + (aside->waiting != 0);
  if (changes != w->aside_changes) w->aside_changed = w->clock;
  w->aside_changes = changes;
  is->idle = w->now.awaits && aside->waiting;
  if (w->now.awaits) {
    is->patient = true;
    is->busy = w->clock - w->aside_changed;
    snprintf(is->doing, sizeof is->doing, "%s", is->idle ? "waiting for the other ranks' threads" : aside->doing);
  }
  unlock(w);
}

/* Of the job's thread, or of the device's collectives where it is in none. */
static void look(Watch *w) {
  Beat was = w->mine, *is = &w->mine;
  lock(w);
  const Now *now = &w->now;
  is->entered = now->entered;
  is->waiting = now->waiting;
  is->step = now->step;
  is->patient = now->patient;
  is->last = w->leaving;
  snprintf(is->collective, sizeof is->collective, "%s", now->waiting ? now->collective : "");
  snprintf(is->doing, sizeof is->doing, "%s", now->doing);
  bool changed = now->changes != w->changes || was.entered != is->entered;
  w->changes = now->changes;
  if (!is->waiting && w->mesh && w->mesh->device->pending(w->mesh, is->collective, sizeof is->collective))
    is->waiting = WAITS_ON_DEVICE;
  unlock(w);
  changed |= was.waiting != is->waiting || strcmp(was.collective, is->collective);
  if (changed) w->changed = w->clock;
  is->busy = w->clock - w->changed;
  is->waited = is->waiting ? is->busy : 0;
  look_aside(w);
}

static bool is_sent(Watch *w, int i) {
  int done = 1;
  if (w->sends[i] != MPI_REQUEST_NULL) MPI(object, MPI_Test(&w->sends[i], &done, MPI_STATUS_IGNORE));
  return done;
}

/* A watcher that has not taken what it was sent is sent nothing more until it has.  True: nothing is left to be sent. */
static bool tell(Watch *w) {
  bool over = true;
  for (int i = 0; i < w->nwatchers; i++) {
    if (i == w->me || !is_sent(w, i)) {
      over &= i == w->me;
      continue;
    }
    if (w->said[i]) continue;
    over = false;
    w->out[i] = w->mine;
    w->said[i] = w->mine.last;
    MPI(object, MPI_Isend(&w->out[i], sizeof w->out[i], MPI_BYTE, w->watchers[i], 0, w->channel, &w->sends[i]));
  }
  return over;
}

static void hear(Watch *w) {
  MPI_Status status;
  for (int done; w->others;) {
    if (w->receive == MPI_REQUEST_NULL)
      MPI(object, MPI_Irecv(&w->in, sizeof w->in, MPI_BYTE, MPI_ANY_SOURCE, 0, w->channel, &w->receive));
    MPI(object, MPI_Test(&w->receive, &done, &status));
    if (!done) return;
    w->ranks[status.MPI_SOURCE].beat = w->in;
    w->heard[status.MPI_SOURCE] = w->clock;
    w->others -= w->in.last;
  }
}

static void judge(Watch *w) {
  int n = w->comm->size;
  double later = w->me ? SECOND_LATER : 0;
  Text text = {0};
  w->ranks[w->comm->rank].beat = w->mine;
  w->heard[w->comm->rank] = w->clock;
  for (int r = 0; r < n; r++) w->ranks[r].silent = w->ranks[r].beat.last ? 0 : w->clock - w->heard[r];
  lock(w);
  double timeout = w->timeout;
  unlock(w);
  if (watch_judge(w->ranks, n, (const char(*)[NODE_NAME])w->nodes, timeout + later, &text)) {
    fail_set_context(""); /* it is the job's, wherever it was seen */
    fail(FAIL_LOST, "%s", text.at);
  }
}

/* Until the next look, or until somebody leaves. */
static void rest(Watch *w) {
  struct timespec until;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &until) == 0);
  lock(w);
  double seconds = (double)until.tv_nsec * 1e-9 + (w->leaving ? LEAVING : w->every);
  until.tv_sec += (time_t)seconds;
  until.tv_nsec = (long)((seconds - floor(seconds)) * 1e9);
  bool leaving = w->leaving;
  while (w->leaving == leaving && pthread_cond_timedwait(&w->left, &w->lock, &until) == 0) {
  }
  unlock(w);
}

static void *watch_run(void *self) {
  Watch *w = self;
  double before = clock_seconds();
  for (bool over = false; !over;) {
    rest(w);
    lock(w);
    double every = w->every, timeout = w->timeout;
    unlock(w);
    double now = clock_seconds(), took = now - before;
    before = now;
    w->clock += took < 2 * every ? took : 2 * every;
    if (took > 2 * every + 1) w->calm = w->clock + timeout; /* this process was stopped, perhaps all were */
    look(w);
    over = tell(w) && w->mine.last;
    if (w->me < 0) continue;
    hear(w);
    if (w->clock >= w->calm) judge(w);
    over &= !w->others;
  }
  return NULL;
}

/* --- life ------------------------------------------------------------------------------------------------------------------- */

/* Rank 0 and the first of another node. */
static void choose(Watch *w) {
  int n = w->comm->size, other = 1;
  while (other < n && !strcmp(w->nodes[other], w->nodes[0])) other++;
  w->watchers[1] = other < n ? other : 1;
  w->nwatchers = WATCHERS;
  w->me = w->comm->rank == 0 ? 0 : w->comm->rank == w->watchers[1] ? 1 : -1;
  w->others = w->me >= 0 ? n - 1 : 0;
}

static void start(Watch *w) {
  pthread_condattr_t monotonic;
  CHECK(pthread_condattr_init(&monotonic) == 0 && pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0);
  CHECK(pthread_mutex_init(&w->lock, NULL) == 0 && pthread_cond_init(&w->left, &monotonic) == 0);
  thread_start(&w->thread, watch_run, w);
}

static double look_every(double timeout) { return timeout / LOOKS < LOOK_MOST ? timeout / LOOKS : LOOK_MOST; }

static void change(Comm *comm, double timeout) {
  Watch *w = comm->watch;
  if (timeout <= 0) {
    watch_close(comm);
    return;
  }
  lock(w);
  w->timeout = comm->watched = timeout;
  w->every = look_every(timeout);
  unlock(w);
}

void comm_watch(Comm *comm, double timeout) {
  if (comm->watch) change(comm, timeout);
  if (comm->watch || timeout <= 0 || comm->transport != &comm_transport_mpi || comm->size == 1) return;
  Watch *w = xmalloc(sizeof *w);
  size_t n = (size_t)comm->size;
  *w = (Watch){.comm = comm,
               .timeout = timeout,
               .every = look_every(timeout),
               .aside.collective = "",
               .now.collective = "",
               .sends = {MPI_REQUEST_NULL, MPI_REQUEST_NULL},
               .receive = MPI_REQUEST_NULL,
               .ranks = xmalloc(n * sizeof *w->ranks),
               .heard = xmalloc(n * sizeof *w->heard),
               .nodes = xmalloc(n * sizeof *w->nodes)};
  memset(w->ranks, 0, n * sizeof *w->ranks);
  memset(w->heard, 0, n * sizeof *w->heard);
  comm_gather(comm, comm->node, sizeof *w->nodes, w->nodes);
  MPI(object, MPI_Comm_dup(comm->world, &w->channel));
  choose(w);
  start(w);
  comm->watch = w;
  comm->watched = timeout;
}

void watch_close(Comm *comm) {
  Watch *w = comm->watch;
  if (!w) return;
  lock(w);
  w->leaving = true;
  CHECK(pthread_cond_signal(&w->left) == 0);
  unlock(w);
  CHECK(pthread_join(w->thread, NULL) == 0);
  MPI(object, MPI_Comm_free(&w->channel));
  CHECK(pthread_mutex_destroy(&w->lock) == 0 && pthread_cond_destroy(&w->left) == 0);
  free(w->ranks);
  free(w->heard);
  free(w->nodes);
  free(w);
  comm->watch = NULL;
  comm->watched = 0;
}
