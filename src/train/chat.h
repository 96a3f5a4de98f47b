/* SPDX-License-Identifier: Apache-2.0 */
/* Conversations that a run trains on: what of data.train and data.val is JSON lines becomes token files before data_open. */
#ifndef TRAIN_CHAT_H
#define TRAIN_CHAT_H

#include "src/comm/comm.h"
#include "src/config/config.h"

typedef struct ChatFiles {
  const char **train, **val; /* token files a set, in the run file's order: a pattern each */
} ChatFiles;

/* All ranks call, and share out the work where all see the texts; else rank 0 does it.  The files go into run.folder/data, which
 * all see; rank 0 tells of it on standard error where that takes long; those of the same conversations and settings stay.  NULL:
 * nothing is JSON lines.  Input errors name key or file. */
ChatFiles *chat_files(Arena *arena, const Config *c, Comm *comm, int64_t vocab);

/* The same without touching a run: what it has made, if that is what it would make; else a rank of each node makes files for the
 * others there, in a folder for temporary files, with which the second does away once all have opened what they want. */
ChatFiles *chat_files_aside(Arena *arena, const Config *c, Comm *comm, int64_t vocab);
void chat_files_drop(Comm *comm); /* nothing being there is fine */

#endif
