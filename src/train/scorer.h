/* SPDX-License-Identifier: Apache-2.0 */
/* What a model thinks of texts: the cost of tokens behind others, many rows at a time and by all ranks.
 *
 * Rows are put into batches in their order, and batches are dealt to ranks in turn; each row's cost is added up in double, alone.
 * So no bit of it depends on the number of ranks. */
#ifndef TRAIN_SCORER_H
#define TRAIN_SCORER_H

#include "src/train/loaded.h"

/* n of some ids, from number `at` on.  The row's numbers from … n - 1 are scored, each by those before it; 1 <= from < n. */
typedef struct ScoreRow {
  int64_t at, n, from;
  double nats; /* the answer: the sum of -log of their probabilities, on every rank */
} ScoreRow;

/* The engine for rows of at most so many ids; starts loaded.  All ranks. */
void scorer_start(Loaded *loaded, int64_t longest);

/* All ranks, with the same rows.  progress: called on rank 0 now and then.  A cost that is not finite is an input error. */
typedef void ScoreProgress(void *self, int64_t done, int64_t all);
void scorer_run(Loaded *loaded, const int32_t *ids, ScoreRow *rows, int64_t n, ScoreProgress *progress, void *self);

#endif
