/* SPDX-License-Identifier: Apache-2.0 */
/* Rows made ahead, by a thread, while the device computes.  What is asked for next is known: passes take rows at a fixed stride.
 * Whoever asks for others (a way back, a search for who was first) gets those, and the thread goes on from there.  So rows and
 * their order are what they are without it, and what is wrong with them is told when they are asked for. */
#ifndef TRAIN_PREFETCH_H
#define TRAIN_PREFETCH_H

#include "src/train/data.h"

typedef struct Prefetch Prefetch;

/* micro·seq_len each; starts NULL without data.packing.  What sorted rows are asked for is here, too: nobody else sorts them. */
typedef struct Rows {
  int32_t *ids, *labels, *starts;
  RowLengths lengths; /* of the pass that they are of, on all ranks: `stride` rows, from a multiple of that on */
  const char *file;   /* in which the first begins */
} Rows;

/* `ahead` times `micro` rows are made ahead, at least one time. */
Prefetch *prefetch_open(Arena *arena, const Data *data, const Config *c, int64_t micro, int64_t stride, int ahead);
void prefetch_close(Prefetch *p);

/* Which file these rows begin in, known before they are read. */
const char *prefetch_file(Prefetch *p, int64_t first);
/* The `micro` rows from stream number `first` on; the caller's to write, until the next call.  Waits, or ends the job with what is
 * wrong with them. */
const Rows *prefetch_take(Prefetch *p, int64_t first);

#endif
