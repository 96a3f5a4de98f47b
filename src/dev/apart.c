/* SPDX-License-Identifier: Apache-2.0 */
/* A device apart from the host, without one: the cpu's code, run by a thread of its own in the order in which it was started,
 * on memory that faults when it is touched while that thread has nothing to do.  What is written for GPUs (copies both ways,
 * what overlaps, what waits for what) is tested on it. */
#include <errno.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "src/base/arena.h"
#include "src/base/clock.h"
#include "src/base/thread.h"
#include "src/base/vec.h"
#include "src/dev/back.h"

enum { BLOCKS_MOST = 16, POINTERS_MOST = 64 };

typedef struct Work Work;
struct Work {
  void (*run)(Dev *dev, Work *work);
  Work *next;
  void *a, *b; /* copy: to and from; launch: the function; call: self; event */
  void (*body)(void *self);
  size_t n; /* bytes, pointers */
  void *pointers[POINTERS_MOST];
};

typedef struct Apart {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t more, less;
  Work *first, **end;
  int64_t started, ended; /* works */
  bool stop;
  struct {
    void *at;
    size_t nbytes;
  } blocks[BLOCKS_MOST];
} Apart;

/* --- the thread ----------------------------------------------------------------------------------------------------------- */

/* All memory; under the lock. */
static void protect(const Apart *a, int protection) {
  for (int i = 0; i < BLOCKS_MOST; i++)
    if (a->blocks[i].at) CHECK(mprotect(a->blocks[i].at, a->blocks[i].nbytes, protection) == 0);
}

static void *work_all(void *self) {
  Dev *dev = self;
  Apart *a = dev->own;
  omp_set_num_threads(dev->threads);
  pthread_mutex_lock(&a->lock);
  for (;;) {
    while (!a->first && !a->stop) pthread_cond_wait(&a->more, &a->lock);
    if (!a->first) break;
    protect(a, PROT_READ | PROT_WRITE);
    while (a->first) {
      Work *w = a->first;
      a->first = w->next;
      if (!a->first) a->end = &a->first;
      pthread_mutex_unlock(&a->lock);
      w->run(dev, w);
      free(w);
      pthread_mutex_lock(&a->lock);
      if (!a->first) protect(a, PROT_NONE);
      a->ended++;
      pthread_cond_broadcast(&a->less);
    }
  }
  pthread_mutex_unlock(&a->lock);
  return NULL;
}

static int64_t start(Dev *dev, const Work *work) {
  Apart *a = dev->own;
  Work *w = memcpy(xmalloc(sizeof *w), work, sizeof *w);
  w->next = NULL;
  pthread_mutex_lock(&a->lock);
  *a->end = w;
  a->end = &w->next;
  int64_t turn = ++a->started;
  pthread_cond_signal(&a->more);
  pthread_mutex_unlock(&a->lock);
  return turn;
}

static void wait_for(Dev *dev, int64_t turn) {
  Apart *a = dev->own;
  pthread_mutex_lock(&a->lock);
  while (a->ended < turn) pthread_cond_wait(&a->less, &a->lock);
  pthread_mutex_unlock(&a->lock);
}

static void apart_sync(Dev *dev) { wait_for(dev, ((Apart *)dev->own)->started); }

/* --- opening -------------------------------------------------------------------------------------------------------------- */

static void apart_open(Dev *dev, const DevOptions *options) {
  dev_cpu.open(dev, options);
  Apart *a = xmalloc(sizeof *a);
  *a = (Apart){.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER, .less = PTHREAD_COND_INITIALIZER};
  a->end = &a->first;
  dev->own = a;
  thread_start(&a->thread, work_all, dev);
}

static void apart_close(Dev *dev) {
  Apart *a = dev->own;
  pthread_mutex_lock(&a->lock);
  a->stop = true;
  pthread_cond_signal(&a->more);
  pthread_mutex_unlock(&a->lock);
  CHECK(pthread_join(a->thread, NULL) == 0);
  free(a);
  dev_cpu.close(dev);
}

/* --- memory --------------------------------------------------------------------------------------------------------------- */

static void *apart_alloc(Dev *dev, size_t nbytes, Why *why) {
  Apart *a = dev->own;
  apart_sync(dev);
  void *at = mmap(NULL, nbytes ? nbytes : 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return why_not(why, "mmap: %s", strerror(errno)), NULL;
  int i = 0;
  while (i < BLOCKS_MOST && a->blocks[i].at) i++;
  CHECK(i < BLOCKS_MOST);
  a->blocks[i].at = at;
  a->blocks[i].nbytes = nbytes ? nbytes : 1;
  return at;
}

static void apart_free(Dev *dev, void *at, size_t nbytes) {
  Apart *a = dev->own;
  apart_sync(dev);
  for (int i = 0; i < BLOCKS_MOST; i++)
    if (a->blocks[i].at == at) a->blocks[i].at = NULL;
  CHECK(munmap(at, nbytes ? nbytes : 1) == 0);
}

static void run_copy(Dev *dev, Work *w) {
  (void)dev;
  memcpy(w->a, w->b, w->n);
}

static void apart_copy_start(Dev *dev, void *to, const void *from, size_t nbytes) {
  start(dev, &(Work){.run = run_copy, .a = to, .b = (void *)from, .n = nbytes});
}

static void apart_copy(Dev *dev, void *to, const void *from, size_t nbytes, Copy direction) {
  (void)direction;
  apart_copy_start(dev, to, from, nbytes);
  apart_sync(dev);
}

/* What is on its way is nothing yet, and comes as late as it may. */
static void run_spoil(Dev *dev, Work *w) {
  (void)dev;
  memset(w->a, 0xff, w->n);
}

static void apart_move_start(DevMove *move) { start(move->dev, &(Work){.run = run_spoil, .a = move->to, .n = move->nbytes}); }

static void apart_move_wait(DevMove *move) {
  start(move->dev, &(Work){.run = run_copy, .a = move->to, .b = (void *)move->from, .n = move->nbytes});
}

/* Parts as they were put, and how much must have run until all are there; 0: they were not waited for yet. */
typedef struct Aside {
  Arena *arena;
  VEC(Work) parts;
  int64_t turn;
} Aside;

static void set_turn(const DevAside *aside, int64_t turn) {
  Apart *a = aside->dev->own;
  pthread_mutex_lock(&a->lock);
  ((Aside *)aside->own)->turn = turn;
  pthread_cond_broadcast(&a->less);
  pthread_mutex_unlock(&a->lock);
}

static void apart_aside_open(DevAside *aside) {
  Arena *arena = arena_open();
  Aside *own = aside->own = arena_new(arena, Aside);
  own->arena = arena;
}

static void apart_aside_begin(DevAside *aside, const DevEvent *behind) {
  (void)behind; /* comes before the wait */
  ((Aside *)aside->own)->parts.n = 0;
  set_turn(aside, 0);
}

static void apart_aside_part(DevAside *aside, void *to, const void *from, size_t nbytes) {
  Aside *own = aside->own;
  start(aside->dev, &(Work){.run = run_spoil, .a = to, .n = nbytes});
  vec_push(own->arena, &own->parts, (Work){.run = run_copy, .a = to, .b = (void *)from, .n = nbytes});
}

static void apart_aside_wait(DevAside *aside) {
  const Aside *own = aside->own;
  for (int i = 0; i < own->parts.n; i++) start(aside->dev, &own->parts.at[i]);
  set_turn(aside, ((Apart *)aside->dev->own)->started);
}

static void apart_aside_await(DevAside *aside) {
  Apart *a = aside->dev->own;
  const Aside *own = aside->own;
  pthread_mutex_lock(&a->lock);
  while (!own->turn || a->ended < own->turn) pthread_cond_wait(&a->less, &a->lock);
  pthread_mutex_unlock(&a->lock);
}

static void apart_aside_close(DevAside *aside) { arena_close(((Aside *)aside->own)->arena); }

/* --- running -------------------------------------------------------------------------------------------------------------- */

static void run_launch(Dev *dev, Work *w) { dev_cpu.launch(dev, w->a, w->pointers, (int)w->n, NULL); }

static void apart_launch(Dev *dev, void *function, void *const *pointers, int n, const DevLaunch *launch) {
  (void)launch;
  CHECK(n <= POINTERS_MOST);
  Work work = {.run = run_launch, .a = function, .n = (size_t)n};
  memcpy(work.pointers, pointers, sizeof *pointers * (size_t)n);
  start(dev, &work);
}

static void run_call(Dev *dev, Work *w) {
  (void)dev;
  w->body(w->a);
}

static void apart_call(Dev *dev, void (*body)(void *self), void *self) {
  start(dev, &(Work){.run = run_call, .a = self, .body = body});
}

/* There is none, but there is what one would be for. */
static void *apart_stream(Dev *dev) { return dev->own; }

static void event_keep(DevEvent *event) { (void)event; }

static void run_record(Dev *dev, Work *w) {
  (void)dev;
  ((DevEvent *)w->a)->seconds = clock_seconds();
}

static void apart_event_record(DevEvent *event) { event->turn = start(event->dev, &(Work){.run = run_record, .a = event}); }

static void apart_event_wait(const DevEvent *event) { wait_for(event->dev, event->turn); }

static void apart_event_close(DevEvent *event) { apart_event_wait(event); }

static double apart_event_seconds(const DevEvent *a, const DevEvent *b) {
  apart_event_wait(b);
  return b->seconds - a->seconds;
}

static bool apart_try_build(Dev *dev, const char *const *texts, int n, void **image, size_t *nbytes, bool *hit, Why *why) {
  return dev_cpu.try_build(dev, texts, n, image, nbytes, hit, why);
}

static void apart_load(Dev *dev, DevModule *module, const void *image, size_t nbytes) { dev_cpu.load(dev, module, image, nbytes); }

static void *apart_symbol(DevModule *module, const char *name) { return dev_cpu.symbol(module, name); }

static void apart_unload(DevModule *module) { dev_cpu.unload(module); }

const DevOps dev_apart = {.kind = "apart",
                          .open = apart_open,
                          .close = apart_close,
                          .alloc = apart_alloc,
                          .free = apart_free,
                          .memory = dev_host_memory,
                          .sensors = dev_host_sensors,
                          .try_build = apart_try_build,
                          .load = apart_load,
                          .symbol = apart_symbol,
                          .unload = apart_unload,
                          .copy = apart_copy,
                          .copy_start = apart_copy_start,
                          .move_start = apart_move_start,
                          .move_wait = apart_move_wait,
                          .aside_open = apart_aside_open,
                          .aside_begin = apart_aside_begin,
                          .aside_part = apart_aside_part,
                          .aside_await = apart_aside_await,
                          .aside_wait = apart_aside_wait,
                          .aside_close = apart_aside_close,
                          .launch = apart_launch,
                          .call = apart_call,
                          .stream = apart_stream,
                          .sync = apart_sync,
                          .event_open = event_keep,
                          .event_close = apart_event_close,
                          .event_record = apart_event_record,
                          .event_wait = apart_event_wait,
                          .event_await = apart_event_wait,
                          .event_seconds = apart_event_seconds};
