/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/saver.h"

#include <pthread.h>

#include "src/base/clock.h"
#include "src/base/thread.h"

/* Writing threads of a rank where the device runs by itself and leaves the cores to them. */
enum { THREADS_MOST = 4 };

/* What is asked of the thread; a save under way goes from COPY to the others. */
typedef enum Word { WORD_NONE, WORD_COPY, WORD_WRITE, WORD_LEAVE, WORD_END } Word;

struct Saver {
  Comm *beside;
  StatesCopy *copy;
  SaverKeep keep;
  Staging *staging;
  int threads; /* that write */
  pthread_t thread;
  bool alone;           /* there is no thread */
  int64_t asked;        /* the job's, as what is before */
  pthread_mutex_t lock; /* of all that follows */
  pthread_cond_t change;
  Word word;
  const StatesSave *save;
  bool tried, ready; /* to get memory; it is there */
  int64_t over;
  SaverResult result; /* of the last that is over; of memory, until there is one */
};

/* --- the thread ----------------------------------------------------------------------------------------------------------- */

static void get_memory(Saver *s) {
  Why why;
  bool ready = try_staging_alloc(s->staging, &why);
  pthread_mutex_lock(&s->lock);
  s->tried = true;
  s->ready = ready;
  if (!ready) s->result.why = why;
  pthread_cond_broadcast(&s->change);
  pthread_mutex_unlock(&s->lock);
}

static Word wait_word(Saver *s, Word before) {
  pthread_mutex_lock(&s->lock);
  while (s->word == before) pthread_cond_wait(&s->change, &s->lock);
  Word word = s->word;
  pthread_mutex_unlock(&s->lock);
  return word;
}

static void one_save(Saver *s) {
  SaverResult r = {.ok = false};
  Why why;
  staging_copy(s->staging);
  if (wait_word(s, WORD_COPY) == WORD_WRITE) r.ok = try_states_copy_write(s->beside, s->copy, s->save, s->threads, &r.why);
  r.ended = clock_seconds();
  comm_doing(s->beside, true, "removing older checkpoints");
  if (r.ok && comm_rank(s->beside) == 0 && !try_ckpt_prune(s->save->folder, s->keep.newest, s->keep.every, &why)) r.kept = why;
  pthread_mutex_lock(&s->lock);
  s->result = r;
  s->word = WORD_NONE;
  s->over++;
  pthread_cond_broadcast(&s->change);
  pthread_mutex_unlock(&s->lock);
}

static void *work(void *self) {
  Saver *s = self;
  get_memory(s);
  while (wait_word(s, WORD_NONE) != WORD_END) one_save(s);
  return NULL;
}

/* --- the job's ------------------------------------------------------------------------------------------------------------ */

static void say(Saver *s, Word word) {
  pthread_mutex_lock(&s->lock);
  s->word = word;
  pthread_cond_broadcast(&s->change);
  pthread_mutex_unlock(&s->lock);
}

Saver *saver_open(Arena *arena, Comm *comm, Dev *dev, StatesCopy *copy, SaverKeep keep) {
  Saver *s = arena_new(arena, Saver);
  int threads = dev_is_host(dev) ? 1 : dev_threads(dev);
  *s = (Saver){.beside = comm_beside(comm),
               .copy = copy,
               .keep = keep,
               .staging = states_copy_staging(copy),
               .threads = threads < THREADS_MOST ? threads : THREADS_MOST,
               .lock = PTHREAD_MUTEX_INITIALIZER,
               .change = PTHREAD_COND_INITIALIZER};
  if (!try_thread_start(&s->thread, work, s, &s->result.why)) s->alone = s->tried = true;
  return s;
}

void saver_close(Saver *s) {
  if (!s) return;
  say(s, WORD_END);
  if (!s->alone) CHECK(!pthread_join(s->thread, NULL));
  staging_close(s->staging);
  comm_beside_close(s->beside);
}

bool try_saver_ready(Saver *s, Comm *comm, Why *why) {
  pthread_mutex_lock(&s->lock);
  while (!s->tried) pthread_cond_wait(&s->change, &s->lock);
  bool ready = s->ready;
  if (!ready) *why = s->result.why;
  pthread_mutex_unlock(&s->lock);
  return !comm_any_reason(comm, !ready, why->text, sizeof why->text);
}

void saver_start(Saver *s) {
  comm_doing(s->beside, true, "copying states for a save");
  staging_start(s->staging);
  s->asked++;
  say(s, WORD_COPY);
}

void saver_write(Saver *s, const StatesSave *save) {
  s->save = save;
  comm_doing(s->beside, true, "writing checkpoint");
  say(s, save ? WORD_WRITE : WORD_LEAVE);
}

void saver_release(Saver *s) {
  comm_await_beside(s->beside, true);
  staging_wait(s->staging);
  comm_await_beside(s->beside, false);
}

int64_t saver_over(Saver *s) {
  pthread_mutex_lock(&s->lock);
  int64_t over = s->over;
  pthread_mutex_unlock(&s->lock);
  return over;
}

int64_t saver_asked(const Saver *s) { return s->asked; }

void saver_wait(Saver *s) {
  comm_await_beside(s->beside, true);
  pthread_mutex_lock(&s->lock);
  while (s->over < s->asked) pthread_cond_wait(&s->change, &s->lock);
  pthread_mutex_unlock(&s->lock);
  comm_await_beside(s->beside, false);
}

void saver_end(Saver *s, SaverResult *result) {
  saver_wait(s);
  pthread_mutex_lock(&s->lock);
  *result = s->result;
  pthread_mutex_unlock(&s->lock);
  result->waited = staging_end(s->staging);
}
