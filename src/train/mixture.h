/* SPDX-License-Identifier: Apache-2.0 */
/* Which source of a mixture each number of an endless stream is taken from, so that after any N numbers each source has been taken
 * N times its share, to less than one; in any window then to less than two.  Shares are fractions of a period: exactly what the
 * weights say where a period up to MIXTURE_PERIOD makes them whole (0.7 and 0.3: ten), else rounded to that longest one.
 * A stream of one source is a mixture with a period of one. */
#ifndef TRAIN_MIXTURE_H
#define TRAIN_MIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/arena.h"

enum { MIXTURE_PERIOD = 1 << 20 };

typedef struct MixtureTurn {
  int32_t source, before; /* how many of this source's turns of the period come before */
} MixtureTurn;

typedef struct Mixture {
  int n; /* sources */
  int32_t period;
  const int32_t *share;    /* turns of a period, by source */
  const MixtureTurn *turn; /* by number in the period */
} Mixture;

/* Weights above 0.  False: *small is a source whose share is less than half a turn of the longest period. */
bool try_mixture_make(Arena *arena, const double *weights, int n, Mixture *m, int *small);

/* The source of a number of the stream, and the number of it in the source's own stream; and back. */
int mixture_source(const Mixture *m, int64_t number, int64_t *own);
int64_t mixture_number(const Mixture *m, int source, int64_t own);

#endif
