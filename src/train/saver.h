/* SPDX-License-Identifier: Apache-2.0 */
/* Saves beside the training: the states are copied aside between two updates, and a thread of each rank writes the checkpoint from
 * the copy while training goes on.  The threads speak over a communicator of their own, and while a save is under way rank 0's
 * alone uses HDF5.  All ranks call, in the same order; what is not said to be the thread's is the job's. */
#ifndef TRAIN_SAVER_H
#define TRAIN_SAVER_H

#include "src/train/states.h"

typedef struct Saver Saver;

/* Which steps stay when another is there (try_ckpt_prune); removing what is large takes its time, too. */
typedef struct SaverKeep {
  int newest;
  int64_t every;
} SaverKeep;

/* Memory for the copy is got by the thread, which takes its time. */
Saver *saver_open(Arena *arena, Comm *comm, Dev *dev, StatesCopy *copy, SaverKeep keep);
void saver_close(Saver *saver); /* NULL is fine; nothing is under way */
/* Waits for that memory.  False on all ranks, with the first one's reason: there is none, or no thread. */
bool try_saver_ready(Saver *saver, Comm *comm, Why *why);

/* Copying begins behind the update that was started last. */
void saver_start(Saver *saver);
/* What that update gave is known: save, which stays as it is until saver_end, is written.  NULL: nothing is. */
void saver_write(Saver *saver, const StatesSave *save);
/* Before the states are written again: waits for the copies that the host makes, and lets the device wait for its own. */
void saver_release(Saver *saver);

int64_t saver_asked(const Saver *saver); /* saves that were started */
int64_t saver_over(Saver *saver);        /* of them, those whose thread is done here */
void saver_wait(Saver *saver);           /* until all are; after saver_write and saver_release */

typedef struct SaverResult {
  bool ok;       /* the same on all ranks, as why; false too where nothing was to be written */
  Why why, kept; /* kept: rank 0's, why older steps could not be removed, or "" */
  double ended;  /* by clock_seconds */
  double waited; /* seconds for which the states' next write waited for the copies (staging_end) */
} SaverResult;
/* Waits for it, too. */
void saver_end(Saver *saver, SaverResult *result);

#endif
