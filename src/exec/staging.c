/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of states in the host's memory, made while the device goes on.  What the device keeps goes there by copy engines
 * (dev_aside), part by part; what is in the host's memory or in files the thread copies that starts the parts.  Nothing but an
 * update writes states, so that both have the time of forward and backward passes. */
#include "src/exec/staging.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/vec.h"
#include "src/exec/job.h"

enum { PART = 1 << 20, PIECE_BYTES = 16 << 20 }; /* elements that are handed over at a time; bytes that a thread copies */

/* Elements of a Var that lie in a row there, and so do in the memory. */
typedef struct Row {
  int var; /* the job's number */
  int64_t first, n;
  size_t at; /* in the memory */
} Row;

typedef struct Part {
  int row;
  int64_t first, n; /* of its row */
} Part;

struct Staging {
  Arena *arena;
  Job *job;
  VEC(Row) rows;
  VEC(Part) parts;
  size_t nbytes;
  char *memory;
  DevAside *aside;
  DevEvent *begin, *held, *freed; /* all that was started before the copies; the device waits for them, and has them */
  bool started, waited;           /* of the thread that runs the job */
  pthread_mutex_t lock;           /* of what follows */
  pthread_cond_t change;
  bool copied; /* but for the last parts, which the device has yet to wait for */
};

/* --- the plan ------------------------------------------------------------------------------------------------------------- */

Staging *staging_open(Arena *arena, Job *job) {
  Staging *s = arena_new(arena, Staging);
  *s = (Staging){.arena = arena, .job = job, .lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};
  return s;
}

static const JobVar *var_of(const Staging *s, const Row *row) { return &s->job->vars.at[row->var]; }

static size_t element_size(const Staging *s, const Row *row) { return dtype_size(var_of(s, row)->var->dtype); }

static size_t row_span(const Staging *s, const Row *row) {
  size_t nbytes = (size_t)row->n * element_size(s, row);
  return (nbytes + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN;
}

/* The row that elements from first on continue, if it is one of the last: two halves of a unit are added by turns. */
static int row_before(const Staging *s, int var, int64_t first) {
  for (int i = s->rows.n - 1; i >= 0 && i >= s->rows.n - 2; i--)
    if (s->rows.at[i].var == var && s->rows.at[i].first + s->rows.at[i].n == first) return i;
  return -1;
}

int staging_add(Staging *s, const char *name, int64_t first, int64_t n) {
  int var = job_find_var(s->job, name), at = row_before(s, var, first);
  CHECK(!s->memory && first >= 0 && n <= job_size(s->job, name) - first);
  if (at < 0) {
    vec_push(s->arena, &s->rows, (Row){.var = var, .first = first});
    at = s->rows.n - 1;
  }
  Row *row = &s->rows.at[at];
  vec_push(s->arena, &s->parts, (Part){at, row->n, n});
  s->nbytes -= row_span(s, row);
  row->n += n;
  s->nbytes += row_span(s, row);
  return s->parts.n - 1;
}

size_t staging_nbytes(const Staging *s) { return s->nbytes; }

bool try_staging_alloc(Staging *s, Why *why) {
  size_t at = 0;
  for (int i = 0; i < s->rows.n; i++) {
    s->rows.at[i].at = at;
    at += row_span(s, &s->rows.at[i]);
  }
  s->memory = dev_try_pinned_alloc(s->job->dev, s->nbytes, why);
  return s->memory;
}

void staging_close(Staging *s) {
  if (!s->memory) return;
  dev_aside_close(s->aside);
  dev_event_close(s->begin);
  dev_event_close(s->held);
  dev_event_close(s->freed);
  dev_pinned_free(s->job->dev, s->memory, s->nbytes);
}

/* --- the thread that runs the job ----------------------------------------------------------------------------------------- */

static bool is_far(const Staging *s, const Row *row) {
  return var_of(s, row)->var->home != HOME_DEVICE || dev_is_host(s->job->dev);
}

static void open_device(Staging *s) {
  Dev *dev = s->job->dev;
  s->aside = dev_aside_open(dev);
  s->begin = dev_event_open(dev);
  s->held = dev_event_open(dev);
  s->freed = dev_event_open(dev);
}

void staging_start(Staging *s) {
  CHECK(s->memory && !s->started);
  if (!s->begin) open_device(s);
  s->started = true;
  s->waited = s->copied = false;
  dev_event_record(s->begin);
}

void staging_wait(Staging *s) {
  if (!s->started || s->waited) return;
  s->waited = true;
  dev_event_record(s->held);
  pthread_mutex_lock(&s->lock);
  while (!s->copied) pthread_cond_wait(&s->change, &s->lock);
  pthread_mutex_unlock(&s->lock);
  dev_aside_wait(s->aside);
  dev_event_record(s->freed);
}

double staging_end(Staging *s) {
  CHECK(s->started && s->waited);
  s->started = false;
  return dev_event_seconds(s->held, s->freed);
}

/* --- another thread ------------------------------------------------------------------------------------------------------- */

typedef struct Copy {
  char *to;
  const char *from;
  size_t nbytes;
} Copy;

static void copy_piece(void *self, int64_t i) {
  const Copy *c = self;
  size_t at = (size_t)i * PIECE_BYTES, left = c->nbytes - at;
  memcpy(c->to + at, c->from + at, left < PIECE_BYTES ? left : PIECE_BYTES);
}

/* Cores that a GPU leaves idle copy together; on a CPU they have their work. */
static void copy_row(const Staging *s, const Row *row) {
  Job *job = s->job;
  size_t first = (size_t)row->first * element_size(s, row), nbytes = (size_t)row->n * element_size(s, row);
  if (var_of(s, row)->var->home == HOME_FILE) {
    files_read(job->files, var_of(s, row)->offset + first, s->memory + row->at, nbytes);
    return;
  }
  Copy copy = {s->memory + row->at, job_address(job, var_of(s, row)) + first, nbytes};
  if (!is_far(s, row)) {
    dev_aside_put(s->aside, copy.to, copy.from, nbytes);
    return;
  }
  int64_t pieces = (int64_t)((nbytes + PIECE_BYTES - 1) / PIECE_BYTES);
  if (!dev_is_host(job->dev)) dev_parallel(job->dev, pieces, copy_piece, &copy);
  for (int64_t i = 0; i < pieces && dev_is_host(job->dev); i++) copy_piece(&copy, i);
}

void staging_copy(Staging *s) {
  dev_event_await(s->begin);
  dev_aside_begin(s->aside, s->begin);
  for (int i = 0; i < s->rows.n; i++) copy_row(s, &s->rows.at[i]);
  pthread_mutex_lock(&s->lock);
  s->copied = true;
  pthread_cond_broadcast(&s->change);
  pthread_mutex_unlock(&s->lock);
  dev_aside_await(s->aside);
}

static const char *part_at(const Staging *s, int part) {
  const Part *p = &s->parts.at[part];
  const Row *row = &s->rows.at[p->row];
  return s->memory + row->at + (size_t)p->first * element_size(s, row);
}

const void *staging_at(const Staging *s, int part) { return part_at(s, part); }

void staging_get(const Staging *s, int part, int lower, int64_t phase, JobUse *use, void *self) {
  const void *upper_at = part_at(s, part), *lower_at = lower >= 0 ? part_at(s, lower) : NULL;
  int64_t n = s->parts.at[part].n;
  if (var_of(s, &s->rows.at[s->parts.at[part].row])->var->dtype == DT_F32) {
    use(self, 0, n, upper_at);
    return;
  }
  float *whole = xmalloc(sizeof *whole * (size_t)(n < PART ? n : PART));
  for (int64_t done = 0, count; done < n; done += count) {
    count = PART - (phase + done) % PART;
    if (count > n - done) count = n - done;
    f32_join_all((const uint16_t *)upper_at + done, lower_at ? (const int16_t *)lower_at + done : NULL, count, whole);
    use(self, done, count, whole);
  }
  free(whole);
}
