/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank tells those that watch, and what they make of it.  Private to src/comm. */
#ifndef COMM_WATCH_H
#define COMM_WATCH_H

#include "src/base/text.h"
#include "src/comm/impl.h"

/* Times are in seconds on the clock of the rank's watch, which stands still while its process does. */
typedef struct Beat {
  uint64_t entered;      /* collectives that this rank has come to; the same order on all ranks */
  uint64_t waiting;      /* the one that it waits in, 0: none, WAITS_ON_DEVICE: its GPU does */
  double waited, busy;   /* how long; for how long nothing has changed */
  int64_t step;          /* 0: none yet */
  int32_t patient, last; /* what it does may take long; it tells nothing more */
  int32_t idle;          /* what it does is to wait for others' threads, beside the job */
  char collective[96];   /* that it waits in */
  char doing[160];       /* what else it does; "": nothing in particular */
} Beat;

#define WAITS_ON_DEVICE UINT64_MAX

/* What may take long takes at most so many times the timeout. */
enum { PATIENT = 15 };

typedef struct Hearing {
  Beat beat;
  double silent; /* seconds since it came */
} Hearing;

/* Whether this is a hang; then says so: who waits in what, who has not come there, since when and why.  nodes: a name a rank. */
bool watch_judge(const Hearing *ranks, int n, const char (*nodes)[NODE_NAME], double timeout, Text *out);

#endif
