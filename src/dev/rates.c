/* SPDX-License-Identifier: Apache-2.0 */
/* How fast the host's memory is, and the way between it and the device's, measured. */
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/dev/dev.h"

enum { PART_BYTES = 32 << 20, LINK_BYTES = 64 << 20 };

typedef struct Parts {
  char *from, *to;
} Parts;

/* Pages come to be by being written: until then all of them are one page of zeros, which no memory is asked for. */
static void touch_part(void *self, int64_t i) {
  const Parts *p = self;
  memset(p->from + i * PART_BYTES, 1, PART_BYTES);
  memset(p->to + i * PART_BYTES, 1, PART_BYTES);
}

static void copy_part(void *self, int64_t i) {
  const Parts *p = self;
  memcpy(p->to + i * PART_BYTES, p->from + i * PART_BYTES, PART_BYTES);
}

double dev_host_rate(Dev *dev, double seconds) {
  int n = dev_threads(dev);
  size_t nbytes = (size_t)n * PART_BYTES;
  Parts p = {dev_pinned_alloc(dev, nbytes, "a measurement"), dev_pinned_alloc(dev, nbytes, "a measurement")};
  int64_t runs = 0;
  double took = 0;
  dev_parallel(dev, n, touch_part, &p);
  for (double begin = clock_seconds(); took < seconds; took = clock_seconds() - begin, runs++) dev_parallel(dev, n, copy_part, &p);
  dev_pinned_free(dev, p.from, nbytes);
  dev_pinned_free(dev, p.to, nbytes);
  return 2 * (double)nbytes * (double)runs / took;
}

double dev_link_rate(Dev *dev, DevLane lane, double seconds) {
  if (dev_is_host(dev)) return 0;
  void *near = dev_alloc(dev, LINK_BYTES, "a measurement"), *far = dev_pinned_alloc(dev, LINK_BYTES, "a measurement");
  DevMove *move =
      lane == DEV_IN ? dev_move_open(dev, lane, near, far, LINK_BYTES) : dev_move_open(dev, lane, far, near, LINK_BYTES);
  int64_t runs = -1; /* the first is not counted */
  double begin = 0, took = 0;
  while (took < seconds) {
    dev_move_start(move);
    dev_move_wait(move);
    dev_sync(dev);
    if (!++runs) begin = clock_seconds();
    took = clock_seconds() - begin;
  }
  dev_move_close(move);
  dev_pinned_free(dev, far, LINK_BYTES);
  dev_free(dev, near, LINK_BYTES);
  return (double)runs * LINK_BYTES / took;
}
