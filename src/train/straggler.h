/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks compute more slowly than the others, and for how long: from what each tells of its steps. */
#ifndef TRAIN_STRAGGLER_H
#define TRAIN_STRAGGLER_H

#include <stdbool.h>
#include <stdint.h>

/* Of some steps, the same on all ranks. */
typedef struct Pace {
  double seconds, waited; /* that they took; of these in collectives (comm_waited) */
  double mhz, mhz_most;   /* the device's clock; 0: unknown */
  int32_t gpu;            /* its number on the node; -1: none, or unknown */
  char slowed[64];        /* what holds its clock down */
  char node[64];
} Pace;

/* A rank is slow when it takes `percent` longer than the median, and an episode begins when it was so LASTING times in a row.  It
 * ends when the rank has taken no more than half of that for as many. */
enum { LASTING = 2 };
typedef struct Episode {
  int slow, even; /* times in a row */
  bool lasts;
} Episode;

/* An episode that begins, or is over. */
typedef struct Straggler {
  int rank;
  bool over;
  double slower; /* than the median, as a share of it */
} Straggler;

/* overlapped: ranks compute while they are in collectives, so that only how much longer others are in them tells.  episodes: a rank
 * each, zero at first.  Fills found (n of them at most), returns how many. */
int stragglers_find(const Pace *paces, int n, bool overlapped, double percent, Episode *episodes, Straggler *found);

#endif
