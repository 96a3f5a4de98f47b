/* SPDX-License-Identifier: Apache-2.0 */
/* What a run remembers beside its states, saved with them as /run/history, so that a run that was stopped decides what one that was
 * not decides: the last losses and gradient norms, against which a spike shows, and which batches of the data were left out.
 *
 * A spike is a loss or a norm so many deviations above what is usual, over a window of steps, as OLMo's SkipStepOptimizer has it
 * (allenai/OLMo-core); but with the median and the median distance from it (times 1.4826, a normal distribution's deviation), which
 * a spike within the window does not move.  Steps that were skipped count, too: a level that has changed for good is usual
 * half a window later. */
#ifndef TRAIN_HISTORY_H
#define TRAIN_HISTORY_H

#include "src/base/arena.h"
#include "src/base/fail.h"
#include "src/base/text.h"

enum {
  HISTORY_WINDOW = 128, /* steps */
  HISTORY_LEAST = 64,   /* before there is something usual */
  HISTORY_JUMPS = 4096
};

typedef enum Measure { MEASURE_LOSS, MEASURE_NORM, MEASURES } Measure;

/* Behind `step` so many batches are left out: the next step's is that many later. */
typedef struct Jump {
  int64_t step, batches;
} Jump;

typedef struct History {
  int n, jumps;
  double seen[MEASURES][HISTORY_WINDOW]; /* n of each, the oldest first */
  Jump *jump;                            /* in the order of steps; room for HISTORY_JUMPS */
} History;

typedef struct Usual {
  double middle, deviation; /* deviation: infinite while too little was seen */
} Usual;

History *history_open(Arena *arena);
/* Of a step; what is not finite is left out. */
void history_add(History *h, double loss, double norm);
Usual history_usual(const History *h, Measure measure);
/* False: there have been as many as there is room for. */
bool history_jump(History *h, int64_t step, int64_t batches);
int64_t history_ahead(const History *h); /* batches that were left out: by so much the data is ahead of the steps */

/* As text and back; the History is replaced.  False: it is no such text, and why. */
void history_print(const History *h, Text *out);
bool try_history_parse(History *h, const char *text, Why *why);

#endif
