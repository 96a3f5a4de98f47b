/* SPDX-License-Identifier: Apache-2.0 */
/* A Hugging Face folder as a checkpoint (step 0): every tensor in the type it has there, its papers, and how its files were laid
 * out, so that an export gives the same files again.  It has no moments and no run file: a run starts from it (model.from), none
 * goes on. */
#ifndef TRAIN_IMPORT_H
#define TRAIN_IMPORT_H

#include "src/base/arena.h"
#include "src/base/text.h"
#include "src/comm/comm.h"

typedef struct Imported {
  const char *step; /* the step's folder, in the caller's arena */
  int tensors;
  int64_t nbytes; /* of them */
} Imported;

/* All ranks call; each reads and writes an equal share.  Input errors: a folder that is not whole or of a model that is not built,
 * tensors that are missing, too many or of another shape, a weight that is no number; a checkpoint folder that has steps. */
Imported import_folder(Arena *arena, Comm *comm, const char *from, const char *to, Text *warnings);

#endif
