/* SPDX-License-Identifier: Apache-2.0 */
/* All ranks end their steps together, so the slow one is who waits least.  What a rank computed for is the time of its steps
 * without what it waited.  On a GPU waits hide behind computing: there each rank is taken to compute for all but what it is longer
 * in collectives than the rank that comes to them last, which says too little of a slow rank rather than too much. */
#include "src/train/straggler.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/arena.h"

static int compare(const void *a, const void *b) {
  const double *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* The lower one of two in the middle: of two ranks the faster. */
static double median_of(const double *values, int n) {
  double *sorted = xmalloc(sizeof *sorted * (size_t)n);
  memcpy(sorted, values, sizeof *sorted * (size_t)n);
  qsort(sorted, (size_t)n, sizeof *sorted, compare);
  double median = sorted[(n - 1) / 2];
  free(sorted);
  return median;
}

static void find_computed(const Pace *paces, int n, bool overlapped, double *computed) {
  double least = overlapped ? paces[0].waited : 0;
  for (int r = 0; r < n && overlapped; r++) least = paces[r].waited < least ? paces[r].waited : least;
  for (int r = 0; r < n; r++) computed[r] = paces[r].seconds - (paces[r].waited - least);
}

/* Whether the episode begins or ends now. */
static bool follow(Episode *e, double slower, double most) {
  e->slow = slower > most ? e->slow + 1 : 0;
  e->even = slower <= most / 2 ? e->even + 1 : 0;
  bool lasts = e->lasts ? e->even < LASTING : e->slow >= LASTING, turns = lasts != e->lasts;
  e->lasts = lasts;
  return turns;
}

int stragglers_find(const Pace *paces, int n, bool overlapped, double percent, Episode *episodes, Straggler *found) {
  double *computed = xmalloc(sizeof *computed * (size_t)n);
  int count = 0;
  find_computed(paces, n, overlapped, computed);
  double median = median_of(computed, n);
  for (int r = 0; r < n && median > 0; r++) {
    double slower = computed[r] / median - 1;
    if (follow(&episodes[r], slower, percent / 100)) found[count++] = (Straggler){r, !episodes[r].lasts, slower};
  }
  free(computed);
  return count;
}
