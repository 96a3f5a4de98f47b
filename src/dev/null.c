/* SPDX-License-Identifier: Apache-2.0 */
/* The device that does nothing: memory is address space without pages, code is a function that returns. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "src/base/arena.h"
#include "src/dev/back.h"

static void null_open(Dev *dev, const DevOptions *options) {
  (void)options;
  snprintf(dev->describe, sizeof dev->describe, "null");
}

static void null_close(Dev *dev) { (void)dev; }

static void *null_alloc(Dev *dev, size_t nbytes, Why *why) {
  (void)dev;
  void *at = mmap(NULL, nbytes ? nbytes : 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? (why_not(why, "no address space: %s", strerror(errno)), NULL) : at;
}

static void null_free(Dev *dev, void *at, size_t nbytes) {
  (void)dev;
  CHECK(munmap(at, nbytes ? nbytes : 1) == 0);
}

static bool null_try_build(Dev *dev, const char *const *texts, int n, void **image, size_t *nbytes, bool *hit, Why *why) {
  (void)dev, (void)texts, (void)n, (void)hit, (void)why;
  *image = xmalloc(1);
  *nbytes = 0;
  return true;
}

static void null_load(Dev *dev, DevModule *module, const void *image, size_t nbytes) {
  (void)dev, (void)module, (void)image, (void)nbytes;
}

static void nothing(void) {}

static void *null_symbol(DevModule *module, const char *name) {
  (void)module, (void)name;
  union {
    void (*code)(void);
    void *at;
  } symbol = {.code = nothing};
  return symbol.at;
}

static void null_unload(DevModule *module) { (void)module; }

static void null_copy(Dev *dev, void *to, const void *from, size_t nbytes, Copy direction) {
  (void)dev, (void)to, (void)from, (void)nbytes, (void)direction;
}

static void null_launch(Dev *dev, void *function, void *const *pointers, int n, const DevLaunch *launch) {
  (void)dev, (void)function, (void)pointers, (void)n, (void)launch;
}

static void null_event(DevEvent *event) { (void)event; }

static double null_event_seconds(const DevEvent *a, const DevEvent *b) {
  (void)a, (void)b;
  return 0;
}

const DevOps dev_null = {.kind = "null",
                         .open = null_open,
                         .close = null_close,
                         .alloc = null_alloc,
                         .free = null_free,
                         .try_build = null_try_build,
                         .load = null_load,
                         .symbol = null_symbol,
                         .unload = null_unload,
                         .copy = null_copy,
                         .launch = null_launch,
                         .sync = null_close,
                         .event_open = null_event,
                         .event_close = null_event,
                         .event_record = null_event,
                         .event_seconds = null_event_seconds};
