/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of states in the host's memory for another thread, which looks at them while the job goes on.
 *
 *   the thread that runs the job   staging_start behind an update, staging_wait before the next, staging_end once the other is done
 *   another thread, in between     staging_copy, then what it likes of staging_at and staging_get */
#ifndef EXEC_STAGING_H
#define EXEC_STAGING_H

#include "src/exec/exec.h"

typedef struct Staging Staging;

/* The plan: once the job has all its programs.  add: elements first … first + n - 1 of a Var; gives the part's number. */
Staging *staging_open(Arena *arena, Job *job);
int staging_add(Staging *staging, const char *name, int64_t first, int64_t n);
size_t staging_nbytes(const Staging *staging);

/* Pinned for GPUs, which takes its time; once, from any thread.  Everything below is for where it was successful. */
bool try_staging_alloc(Staging *staging, Why *why);
void staging_close(Staging *staging); /* nothing is under way; before the job's close */

/* Copies come behind what was started before, and the other thread may begin. */
void staging_start(Staging *staging);
/* What is started behind that may write the states: this thread waits until the other has started all copies, and the device for
 * the last ones.  Once it was called, again does nothing. */
void staging_wait(Staging *staging);
/* The other thread is done.  For how many seconds the device has waited; on a host's, that thread. */
double staging_end(Staging *staging);

/* Copies all: what the device has by parts that it starts. */
void staging_copy(Staging *staging);
const void *staging_at(const Staging *staging, int part); /* as the Var has it */
/* A part as F32s, as job_get would give them: of an F32 or BF16 Var, or with its lower half (lower >= 0; OP_UPPER).  What is handed
 * to use at a time ends at a multiple of 4 MiB from `phase` elements before the part. */
void staging_get(const Staging *staging, int part, int lower, int64_t phase, JobUse *use, void *self);

#endif
