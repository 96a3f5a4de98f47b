/* SPDX-License-Identifier: Apache-2.0 */
/* Hands each call to the back end and counts the bytes. */
#include "src/dev/dev.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/arena.h"
#include "src/dev/back.h"

static const DevOps *const backs[] = {&dev_apart, &dev_cpu, &dev_null};

static const DevOps *back_find(const DevOptions *options) {
  const char *kind = options->kind;
  if (!strcmp(kind, "cuda")) return cuda_module_find(options->module)->dev;
  for (size_t i = 0; i < sizeof backs / sizeof *backs; i++)
    if (!strcmp(backs[i]->kind, kind)) return backs[i];
  fail(FAIL_INPUT, "no device of kind '%s' in this program\nhelp: cpu or cuda", kind);
}

Dev *dev_open(const DevOptions *options) {
  CHECK(options->threads >= 1);
  Dev *dev = xmalloc(sizeof *dev);
  *dev = (Dev){.ops = back_find(options), .threads = options->threads, .cache.fd = -1};
  snprintf(dev->advice, sizeof dev->advice, "%s", options->advice ? options->advice : "");
  dev->ops->open(dev, options);
  dev_memory_opened(dev);
  return dev;
}

void dev_close(Dev *dev) {
  if (!dev) return;
  CHECK(dev->allocated == 0);
  dev_memory_closed(dev);
  dev->ops->close(dev);
  text_close(&dev->log);
  free(dev);
}

const char *dev_describe(const Dev *dev) { return dev->describe; }

bool dev_card(const Dev *dev, DevCard *card) {
  *card = (DevCard){{0}};
  if (dev->ops->card) dev->ops->card(dev, card);
  return dev->ops->card != NULL;
}

int dev_threads(const Dev *dev) { return dev->threads; }

void dev_parallel(const Dev *dev, int64_t n, void (*body)(void *self, int64_t i), void *self) {
#pragma omp parallel for schedule(dynamic) num_threads(dev->threads)
  for (int64_t i = 0; i < n; i++) body(self, i);
}

const char *dev_cache_folder(const Dev *dev) { return dev->cache.fd >= 0 ? dev->cache.path : NULL; }

const char *dev_cache_note(const Dev *dev) { return dev->cache.note[0] ? dev->cache.note : NULL; }

void *dev_alloc(Dev *dev, size_t nbytes, const char *what) {
  Why why = {""};
  void *at = dev->ops->alloc(dev, nbytes, &why);
  if (!at) dev_memory_short(dev, nbytes, what, why.text);
  dev->allocated += nbytes;
  if (dev->allocated > dev->peak) dev->peak = dev->allocated;
  return at;
}

void dev_free(Dev *dev, void *at, size_t nbytes) {
  if (!at) return;
  CHECK(nbytes <= dev->allocated);
  dev->allocated -= nbytes;
  dev->ops->free(dev, at, nbytes);
}

void dev_copy_in(Dev *dev, void *to, const void *from, size_t nbytes) { dev->ops->copy(dev, to, from, nbytes, COPY_IN); }

void dev_copy_out(Dev *dev, void *to, const void *from, size_t nbytes) { dev->ops->copy(dev, to, from, nbytes, COPY_OUT); }

void *dev_host_alloc(Dev *dev, size_t nbytes) { return dev->ops->host_alloc ? dev->ops->host_alloc(dev, nbytes) : xmalloc(nbytes); }

void dev_host_free(Dev *dev, void *at) {
  if (at && dev->ops->host_free)
    dev->ops->host_free(dev, at);
  else
    free(at);
}

void dev_copy_start(Dev *dev, void *to, const void *from, size_t nbytes) {
  if (dev->ops->copy_start)
    dev->ops->copy_start(dev, to, from, nbytes);
  else
    memcpy(to, from, nbytes);
}

/* --- memory that stays, and copies beside the computing -------------------------------------------------------------------- */

enum { ZERO_BYTES = 64 << 20 };

typedef struct Zero {
  char *at;
  size_t nbytes;
} Zero;

static void zero_some(void *self, int64_t i) {
  const Zero *z = self;
  size_t first = (size_t)i * ZERO_BYTES, left = z->nbytes - first;
  memset(z->at + first, 0, left < ZERO_BYTES ? left : ZERO_BYTES);
}

/* Pages are touched by all threads before they are pinned, which is quick then. */
void *dev_try_pinned_alloc(Dev *dev, size_t nbytes, Why *why) {
  why_not(why, "more than there is");
  void *at = dev_cpu.alloc(dev, nbytes, why);
  if (!at || !dev->ops->pin) return at;
  dev_parallel(dev, (int64_t)((nbytes + ZERO_BYTES - 1) / ZERO_BYTES), zero_some, &(Zero){at, nbytes});
  if (dev->ops->pin(dev, at, nbytes, why)) return at;
  dev_cpu.free(dev, at, nbytes);
  return NULL;
}

void *dev_pinned_alloc(Dev *dev, size_t nbytes, const char *what) {
  Why why;
  void *at = dev_try_pinned_alloc(dev, nbytes, &why);
  if (!at) dev_host_memory_failed(nbytes, what, why.text);
  return at;
}

void dev_pinned_free(Dev *dev, void *at, size_t nbytes) {
  if (dev->ops->unpin) dev->ops->unpin(dev, at);
  dev_cpu.free(dev, at, nbytes);
}

DevMove *dev_move_open(Dev *dev, DevLane lane, void *to, const void *from, size_t nbytes) {
  DevMove *move = xmalloc(sizeof *move);
  *move = (DevMove){.dev = dev, .lane = lane, .to = to, .from = from, .nbytes = nbytes};
  if (dev->ops->move_open) dev->ops->move_open(move);
  return move;
}

void dev_move_start(DevMove *move) {
  if (move->dev->ops->move_start)
    move->dev->ops->move_start(move);
  else
    memcpy(move->to, move->from, move->nbytes);
}

void dev_move_wait(DevMove *move) {
  if (move->dev->ops->move_wait) move->dev->ops->move_wait(move);
}

void dev_move_close(DevMove *move) {
  if (!move) return;
  if (move->dev->ops->move_close) move->dev->ops->move_close(move);
  free(move);
}

DevAside *dev_aside_open(Dev *dev) {
  DevAside *aside = xmalloc(sizeof *aside);
  *aside = (DevAside){.dev = dev};
  if (dev->ops->aside_open) dev->ops->aside_open(aside);
  return aside;
}

void dev_aside_begin(DevAside *aside, const DevEvent *behind) {
  if (aside->dev->ops->aside_begin) aside->dev->ops->aside_begin(aside, behind);
}

void dev_aside_put(DevAside *aside, void *to, const void *from, size_t nbytes) {
  if (!aside->dev->ops->aside_part) memcpy(to, from, nbytes);
  for (size_t at = 0; aside->dev->ops->aside_part && at < nbytes; at += ASIDE_BYTES)
    aside->dev->ops->aside_part(aside, (char *)to + at, (const char *)from + at,
                                nbytes - at < ASIDE_BYTES ? nbytes - at : ASIDE_BYTES);
}

void dev_aside_await(DevAside *aside) {
  if (aside->dev->ops->aside_await) aside->dev->ops->aside_await(aside);
}

void dev_aside_wait(DevAside *aside) {
  if (aside->dev->ops->aside_wait) aside->dev->ops->aside_wait(aside);
}

void dev_aside_close(DevAside *aside) {
  if (!aside) return;
  if (aside->dev->ops->aside_close) aside->dev->ops->aside_close(aside);
  free(aside);
}

size_t dev_allocated(const Dev *dev) { return dev->allocated; }

size_t dev_allocated_peak(const Dev *dev) { return dev->peak; }

bool dev_try_build(Dev *dev, const char *const *texts, int n, void **image, size_t *nbytes, bool *hit, Why *why) {
  bool found = false, built = dev->ops->try_build(dev, texts, n, image, nbytes, &found, why);
  if (hit) *hit = found;
  return built;
}

const char *dev_build_log(const Dev *dev) { return dev->log.at ? dev->log.at : ""; }

DevModule *dev_load(Dev *dev, const void *image, size_t nbytes) {
  DevModule *module = xmalloc(sizeof *module);
  *module = (DevModule){.ops = dev->ops, .fd = -1};
  dev->ops->load(dev, module, image, nbytes);
  return module;
}

void *dev_symbol(DevModule *module, const char *name) {
  void *at = module->ops->symbol(module, name);
  if (!at)
    fail(FAIL_BUG, "compiled code has no '%s'\nhelp: this is a fault of hpctrain; please report it with run.yaml and log.txt",
         name);
  return at;
}

void dev_unload(DevModule *module) {
  if (!module) return;
  module->ops->unload(module);
  free(module);
}

void dev_launch(Dev *dev, void *function, void *const *pointers, int n, const DevLaunch *launch) {
  dev->ops->launch(dev, function, pointers, n, launch);
}

void dev_call(Dev *dev, void (*body)(void *self), void *self) {
  if (dev->ops->call)
    dev->ops->call(dev, body, self);
  else
    body(self);
}

void *dev_stream(Dev *dev) { return dev->ops->stream ? dev->ops->stream(dev) : NULL; }

bool dev_is_host(const Dev *dev) { return !dev->ops->stream; }

void dev_sync(Dev *dev) { dev->ops->sync(dev); }

bool dev_try_sync(Dev *dev, Why *why) { return !dev->ops->try_sync || dev->ops->try_sync(dev, why); }

void dev_watch(Dev *dev, void (*look)(void *self, double waited), void *self) {
  dev->look = look;
  dev->look_self = self;
}

DevEvent *dev_event_open(Dev *dev) {
  DevEvent *event = xmalloc(sizeof *event);
  *event = (DevEvent){.dev = dev};
  dev->ops->event_open(event);
  return event;
}

void dev_event_close(DevEvent *event) {
  if (!event) return;
  event->dev->ops->event_close(event);
  free(event);
}

void dev_event_record(DevEvent *event) { event->dev->ops->event_record(event); }

void dev_event_wait(const DevEvent *event) {
  if (event->dev->ops->event_wait) event->dev->ops->event_wait(event);
}

void dev_event_await(const DevEvent *event) {
  if (event->dev->ops->event_await) event->dev->ops->event_await(event);
}

double dev_event_seconds(const DevEvent *a, const DevEvent *b) { return b->dev->ops->event_seconds(a, b); }

bool dev_has_graphs(const Dev *dev) { return dev->ops->capture_begin != NULL; }

void dev_capture_begin(Dev *dev) { dev->ops->capture_begin(dev); }

DevGraph *dev_capture_end(Dev *dev) {
  DevGraph *graph = xmalloc(sizeof *graph);
  *graph = (DevGraph){dev, dev->ops->capture_end(dev)};
  return graph;
}

void dev_graph_launch(DevGraph *graph) { graph->dev->ops->graph_launch(graph); }

void dev_graph_close(DevGraph *graph) {
  if (!graph) return;
  graph->dev->ops->graph_close(graph);
  free(graph);
}
