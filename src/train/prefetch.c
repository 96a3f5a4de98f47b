/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of slots.  made and taken count them: the thread fills slot made, the job has the one before taken, and what lies from
 * taken up to made is ready.  To go on elsewhere is to drop what is ready; what the thread is at is then of an old turn, and is
 * dropped by it. */
#include "src/train/prefetch.h"

#include "src/base/thread.h"

typedef struct Slot {
  Rows rows;
  bool good;
  Why why;
} Slot;

struct Prefetch {
  const Data *data;
  int64_t micro, stride;
  DataRoom room; /* the thread's */
  Slot *slots;
  int n;
  pthread_t thread;
  pthread_mutex_t lock; /* of all that follows */
  pthread_cond_t change;
  int64_t made, taken, turn;
  int64_t found;       /* slots whose rows' file and lengths are known: made, or one more */
  int64_t ready, next; /* stream numbers: of slot taken; of slot made */
  bool begun, end;
};

/* --- the thread ------------------------------------------------------------------------------------------------------------- */

/* One slot is the job's. */
static bool has_room(const Prefetch *p) { return p->begun && p->made - p->taken < p->n - 1; }

static void make_one(Prefetch *p) {
  int64_t turn = p->turn, first = p->next;
  Slot *slot = &p->slots[p->made % p->n];
  Rows *rows = &slot->rows;
  pthread_mutex_unlock(&p->lock);
  rows->lengths = data_lengths(p->data, &p->room, first - first % p->stride, p->stride);
  rows->file = data_train_file(p->data, &p->room, first);
  pthread_mutex_lock(&p->lock);
  if (turn != p->turn) return;
  p->found++;
  pthread_cond_broadcast(&p->change);
  pthread_mutex_unlock(&p->lock);
  slot->good = try_data_train(p->data, &p->room, first, p->micro, rows->ids, rows->labels, rows->starts, &slot->why);
  pthread_mutex_lock(&p->lock);
  if (turn != p->turn) return;
  p->made++;
  p->next += p->stride;
  pthread_cond_broadcast(&p->change);
}

static void *work(void *self) {
  Prefetch *p = self;
  pthread_mutex_lock(&p->lock);
  while (!p->end) {
    if (has_room(p))
      make_one(p);
    else
      pthread_cond_wait(&p->change, &p->lock);
  }
  pthread_mutex_unlock(&p->lock);
  return NULL;
}

/* --- the job's -------------------------------------------------------------------------------------------------------------- */

Prefetch *prefetch_open(Arena *arena, const Data *data, const Config *c, int64_t micro, int64_t stride, int ahead) {
  Prefetch *p = arena_new(arena, Prefetch);
  CHECK(ahead > 0 && micro > 0);
  int64_t n = micro * c->train.seq_len;
  *p = (Prefetch){.data = data, .micro = micro, .stride = stride, .n = ahead + 1};
  p->room = data_room(data, arena);
  p->slots = arena_array(arena, Slot, p->n);
  for (int i = 0; i < p->n; i++) {
    Rows *rows = &p->slots[i].rows;
    rows->ids = arena_array(arena, int32_t, n);
    rows->labels = arena_array(arena, int32_t, n);
    if (c->data.packing) rows->starts = arena_array(arena, int32_t, n);
  }
  CHECK(!pthread_mutex_init(&p->lock, NULL) && !pthread_cond_init(&p->change, NULL));
  thread_start(&p->thread, work, p);
  return p;
}

void prefetch_close(Prefetch *p) {
  pthread_mutex_lock(&p->lock);
  p->end = true;
  pthread_cond_broadcast(&p->change);
  pthread_mutex_unlock(&p->lock);
  CHECK(!pthread_join(p->thread, NULL));
  CHECK(!pthread_cond_destroy(&p->change) && !pthread_mutex_destroy(&p->lock));
}

/* The thread goes on from there. */
static void turn_to(Prefetch *p, int64_t first) {
  p->turn++;
  p->begun = true;
  p->taken = p->found = p->made;
  p->ready = p->next = first;
}

static void ask(Prefetch *p, int64_t first) {
  if (!p->begun || p->ready != first) turn_to(p, first);
  pthread_cond_broadcast(&p->change);
}

const char *prefetch_file(Prefetch *p, int64_t first) {
  pthread_mutex_lock(&p->lock);
  ask(p, first);
  while (p->found == p->taken) pthread_cond_wait(&p->change, &p->lock);
  const char *file = p->slots[p->taken % p->n].rows.file;
  pthread_mutex_unlock(&p->lock);
  return file;
}

const Rows *prefetch_take(Prefetch *p, int64_t first) {
  pthread_mutex_lock(&p->lock);
  ask(p, first);
  while (p->made == p->taken) pthread_cond_wait(&p->change, &p->lock);
  Slot *slot = &p->slots[p->taken++ % p->n];
  p->ready += p->stride;
  pthread_cond_broadcast(&p->change);
  pthread_mutex_unlock(&p->lock);
  if (!slot->good) fail(FAIL_INPUT, "%s", slot->why.text);
  return &slot->rows;
}
