/* SPDX-License-Identifier: Apache-2.0 */
/* LOCK in a run folder: one job writes there at a time, readers always work.  The file says who holds it, its time of change
 * when that job was last heard of; a job that is gone does not keep the next one waiting where that can be known. */
#ifndef IO_LOCK_H
#define IO_LOCK_H

#include <stdbool.h>

#include "src/base/fail.h"

enum { LOCK_EXPIRES = 120, LOCK_BEAT = 10 }; /* seconds */

typedef struct Lock Lock;

/* One process of the job (rank 0) takes the lock of folder, which exists, and a thread of its own keeps it fresh every
 * LOCK_BEAT seconds.  An older lock is free at once when its process is known to be dead (same host, same boot) or was of this job
 * before Slurm queued it again (SLURM_JOB_ID, SLURM_RESTART_COUNT), and otherwise when it was last heard of LOCK_EXPIRES ago.  One
 * that is held is an input error that says by whom; a folder that cannot be written is an error of the machine. */
Lock *lock_acquire(const char *folder);
/* NULL: why, and in kind what fail() would be told. */
Lock *try_lock_acquire(const char *folder, FailKind *kind, Why *why);

/* True once somebody else has taken the lock, or may have: no job does before it has expired.  Stop writing.  One that is gone
 * before that, with its folder or without, is made again as soon as it can be. */
bool lock_lost(Lock *lock);

/* What the thread does: looks, and is heard of.  now: seconds of CLOCK_BOOTTIME; tests are ahead of their time. */
void lock_beat(Lock *lock, double now);

void lock_release(Lock *lock); /* removes the file if it is still ours; NULL is fine */

#endif
