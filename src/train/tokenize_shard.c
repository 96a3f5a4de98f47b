/* SPDX-License-Identifier: Apache-2.0 */
/* One shard: its parts are cut into chunks of about a megabyte, threads take them in order, and what they made is written in order;
 * a thread that is far ahead waits, so that a bounded number of chunks is held.  A file is mapped for a chunk alone: a shard may
 * have more files than a process may have maps. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/json.h"
#include "io/json_lines.h"
#include "io/mapped.h"
#include "io/tokens.h"
#include "src/base/thread.h"
#include "src/train/tokenize_shard.h"

enum { CHUNK = 1 << 20, AHEAD = 4 }; /* bytes; chunks a thread that are made and not written */

typedef struct Chunk {
  const Source *source;
  int64_t begin, end;
} Chunk;

typedef struct Slot {
  bool made;
  Ids ids;
  Text marks; /* of conversations */
  int64_t documents;
} Slot;

typedef struct Pool {
  Arena *arena;
  const TokenizeOptions *o;
  VEC(Chunk) chunks;
  Slot *slots;
  int n_slots, next, written; /* chunks */
  pthread_mutex_t lock;
  pthread_cond_t moved;
} Pool;

typedef struct Worker {
  Pool *pool;
  TokenizerWork *work;
  pthread_t thread;
} Worker;

/* --- texts ----------------------------------------------------------------------------------------------------------------- */

static const char *map_source(const Source *s) {
  struct stat info;
  Why why;
  int fd = open(s->path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &info)) fail(FAIL_INPUT, "%s: %s", s->path, strerror(errno));
  if (info.st_size != s->size) fail(FAIL_INPUT, "%s has changed meanwhile\nhelp: start again once nobody writes it", s->path);
  const void *at = mapped_open(s->path, fd, (size_t)s->size, &why);
  if (!at) fail(FAIL_MACHINE, "%s", why.text);
  madvise((void *)at, (size_t)s->size, MADV_SEQUENTIAL);
  close(fd);
  return at;
}

static void cut_chunks(Pool *pool, const Shard *shard) {
  for (int i = 0; i < shard->parts.n; i++) {
    const Part *p = &shard->parts.at[i];
    int64_t step = p->source->lines ? CHUNK : p->end - p->begin;
    for (int64_t at = p->begin; at < p->end; at += step)
      vec_push(pool->arena, &pool->chunks, (Chunk){p->source, at, at + step < p->end ? at + step : p->end});
  }
}

static void add_document(Worker *w, const Chunk *c, const char *text, size_t n, Slot *slot) {
  const TokenizeOptions *o = w->pool->o;
  Why why;
  if (!n) return;
  if (o->bos >= 0) ids_add(&slot->ids, &o->bos, 1);
  if (!try_tokenizer_encode(w->work, text, n, &slot->ids, &why)) fail(FAIL_INPUT, "%s: %s", c->source->path, why.text);
  if (o->eos >= 0) ids_add(&slot->ids, &o->eos, 1);
  slot->documents++;
}

/* What is wrong with the line that begins at text[at]. */
_Noreturn static void refuse_line(const Chunk *c, const char *text, int64_t at, const char *what) {
  int64_t line = 1;
  for (int64_t i = 0; i < at; i++) line += text[i] == '\n';
  fail(FAIL_INPUT, "%s:%" PRId64 ": %s", c->source->path, line, what);
}

static void add_chat(Worker *w, const Chunk *c, const char *text, int64_t at, size_t n, Slot *slot) {
  Why why, what;
  if (!try_chat_encode(w->pool->o->chat, w->work, text + at, n, &slot->ids, &slot->marks, &why)) {
    why_not(&what, "%s\nhelp: hpctrain help tokenize tells which conversations are read", why.text);
    refuse_line(c, text, at, what.text);
  }
  slot->documents++;
}

static void add_json(Worker *w, const Chunk *c, const char *text, int64_t at, size_t n, Slot *slot) {
  const char *field = w->pool->o->field;
  Why why;
  json_t *json = json_parse(text + at, n, "no JSON", &why);
  if (!json) refuse_line(c, text, at, why.text);
  const json_t *found = json_object_get(json, field);
  if (!json_is_string(found)) {
    why_not(&why, "the line has no text '%s'\nhelp: --field names the field of the text", field);
    refuse_line(c, text, at, why.text);
  }
  add_document(w, c, json_string_value(found), json_string_length(found), slot);
  json_decref(json);
}

static bool is_blank(const char *at, const char *end) {
  while (at < end && strchr(" \t\r", *at) && *at) at++;
  return at == end;
}

/* Lines that begin in the chunk, without their ends. */
static void add_lines(Worker *w, const Chunk *c, const char *text, Slot *slot) {
  const Source *s = c->source;
  const char *end = text + s->size, *at = text + c->begin;
  if (c->begin && at[-1] != '\n') {
    at = memchr(at, '\n', (size_t)(c->end - c->begin));
    if (!at) return;
    at++;
  }
  if (!c->begin && s->json) at += json_mark(text, (size_t)s->size);
  while (at < text + c->end) {
    const char *stop = memchr(at, '\n', (size_t)(end - at)), *next = stop ? stop + 1 : end;
    if (!stop) stop = end;
    if (stop > at && stop[-1] == '\r') stop--;
    if (!s->json)
      add_document(w, c, at, (size_t)(stop - at), slot);
    else if (!is_blank(at, stop))
      (w->pool->o->chat ? add_chat : add_json)(w, c, text, at - text, (size_t)(stop - at), slot);
    at = next;
  }
}

static void make_chunk(Worker *w, const Chunk *c, Slot *slot) {
  const char *text = map_source(c->source);
  slot->ids.n = 0;
  slot->marks.n = 0;
  slot->documents = 0;
  if (c->source->lines)
    add_lines(w, c, text, slot);
  else
    add_document(w, c, text + c->begin, (size_t)(c->end - c->begin), slot);
  mapped_close(text, (size_t)c->source->size);
}

/* --- threads --------------------------------------------------------------------------------------------------------------- */

/* The next chunk's number, once its slot is free; -1: none is left. */
static int take_chunk(Pool *p) {
  pthread_mutex_lock(&p->lock);
  int i = p->next < p->chunks.n ? p->next++ : -1;
  while (i >= p->written + p->n_slots) pthread_cond_wait(&p->moved, &p->lock);
  pthread_mutex_unlock(&p->lock);
  return i;
}

static void *run_worker(void *self) {
  Worker *w = self;
  Pool *p = w->pool;
  for (int i; (i = take_chunk(p)) >= 0;) {
    Slot *slot = &p->slots[i % p->n_slots];
    make_chunk(w, &p->chunks.at[i], slot);
    pthread_mutex_lock(&p->lock);
    slot->made = true;
    pthread_cond_broadcast(&p->moved);
    pthread_mutex_unlock(&p->lock);
  }
  return NULL;
}

static void write_chunks(Pool *p, TokensWriter *out, ShardMade *made, ShardProgress *progress, void *self) {
  for (int i = 0; i < p->chunks.n; i++) {
    Slot *slot = &p->slots[i % p->n_slots];
    pthread_mutex_lock(&p->lock);
    while (!slot->made) pthread_cond_wait(&p->moved, &p->lock);
    pthread_mutex_unlock(&p->lock);
    if (p->o->chat)
      tokens_writer_add_marked(out, slot->ids.at, (const uint8_t *)slot->marks.at, slot->ids.n);
    else
      tokens_writer_add(out, slot->ids.at, slot->ids.n);
    made->tokens += slot->ids.n;
    made->documents += slot->documents;
    progress(self, p->chunks.at[i].end - p->chunks.at[i].begin, slot->ids.n);
    pthread_mutex_lock(&p->lock);
    slot->made = false;
    p->written++;
    pthread_cond_broadcast(&p->moved);
    pthread_mutex_unlock(&p->lock);
  }
}

ShardMade shard_make(const Shard *shard, const TokenizeOptions *o, TokenizerWork **works, TokensWriter *out,
                     ShardProgress *progress, void *self) {
  Pool p = {.arena = arena_open(), .o = o, .n_slots = AHEAD * o->threads};
  ShardMade made = {0};
  Worker *workers = arena_array(p.arena, Worker, o->threads);
  p.slots = arena_array(p.arena, Slot, p.n_slots);
  cut_chunks(&p, shard);
  CHECK(!pthread_mutex_init(&p.lock, NULL) && !pthread_cond_init(&p.moved, NULL));
  for (int i = 0; i < o->threads; i++) {
    workers[i] = (Worker){.pool = &p, .work = works[i]};
    thread_start(&workers[i].thread, run_worker, &workers[i]);
  }
  write_chunks(&p, out, &made, progress, self);
  for (int i = 0; i < o->threads; i++) CHECK(!pthread_join(workers[i].thread, NULL));
  for (int i = 0; i < p.n_slots; i++) {
    ids_close(&p.slots[i].ids);
    text_close(&p.slots[i].marks);
  }
  pthread_cond_destroy(&p.moved);
  pthread_mutex_destroy(&p.lock);
  arena_close(p.arena);
  return made;
}
