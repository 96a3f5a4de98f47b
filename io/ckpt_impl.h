/* SPDX-License-Identifier: Apache-2.0 */
/* What writer and reader of checkpoints share: names on disk and the manifest. */
#ifndef IO_CKPT_IMPL_H
#define IO_CKPT_IMPL_H

#include <jansson.h>

#include "io/ckpt.h"

enum { CKPT_VERSION = 1 };

#define CKPT_FORMAT "hpctrain checkpoint"
#define CKPT_FILE "model.h5"
#define CKPT_MANIFEST "manifest.json"

/* "FOLDER/step-00000010" + end. */
char *ckpt_path(Arena *arena, const char *folder, int64_t step, const char *end);

/* The step of a name like "step-00000010", -1 for any other; *end is what follows the digits. */
int64_t ckpt_parse_name(const char *name, const char **end);

/* RUN/checkpoints where it is there, else folder itself. */
const char *ckpt_steps_folder(Arena *arena, const char *folder);

typedef struct CkptManifest {
  int64_t step, nbytes; /* of CKPT_FILE */
  const CkptText *facts;
  int n_facts;
  const CkptEntry *entries; /* sorted by path */
  int n_entries;
} CkptManifest;

bool try_manifest_write(const char *step_folder, const CkptManifest *m, Why *why);
/* Checks all that is written in it; step against the folder's name where that is a step's. */
bool try_manifest_read(Arena *arena, const char *step_folder, CkptManifest *m, Why *why);

#endif
