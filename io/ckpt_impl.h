/* SPDX-License-Identifier: Apache-2.0 */
/* What writer and reader of checkpoints share: names on disk and the manifest. */
#ifndef IO_CKPT_IMPL_H
#define IO_CKPT_IMPL_H

#include <jansson.h>

#include "io/ckpt.h"

enum { CKPT_VERSION = 1, CKPT_VERSION_FILES = 2 }; /* the second: in several files */

#define CKPT_FORMAT "hpctrain checkpoint"
#define CKPT_FILE "model.h5" /* where there is one */
#define CKPT_MANIFEST "manifest.json"

/* The step of a name like "step-00000010", -1 for any other; *end is what follows the digits. */
int64_t ckpt_parse_name(const char *name, const char **end);

/* The name of file i of n. */
const char *ckpt_file_name(Arena *arena, int i, int n);

/* The hash of elements first … first + n - 1 of a tensor, that one rank has seen. */
typedef struct CkptHash {
  int32_t tensor;
  uint32_t crc32c;
  int64_t first, n;
} CkptHash;

/* All ranks call: what each of them has, by tensor and place; *n of them.  Every rank holds them for a moment: 24 bytes a piece. */
const CkptHash *ckpt_gather_hashes(Arena *arena, Comm *comm, const CkptHash *mine, int64_t n_mine, int64_t *n);

/* All ranks call: whether it is good for all; else why is the lowest rank's for which it is not, and over several nodes says which
 * that is: perhaps its own file system is ill. */
bool ckpt_agree(Comm *comm, bool good, Why *why);

size_t ckpt_text_n(const CkptText *text); /* bytes, without the NUL */

typedef struct CkptFile {
  const char *name;
  int64_t nbytes;
} CkptFile;

typedef struct CkptManifest {
  int64_t step;
  const CkptFile *files;
  int n_files;
  const CkptText *facts;
  int n_facts;
  const CkptEntry *entries; /* sorted by path */
  int n_entries;
} CkptManifest;

/* Whether try_ckpt_open finds nothing wrong with a step. */
bool ckpt_opens(const char *step_folder);

/* Where a dataset's bytes lie in its file, in one piece, once type and shape are found to be the manifest's.  One thread at a
 * time. */
bool try_ckpt_locate(const Ckpt *c, const CkptEntry *e, int64_t *offset, Why *why);
int64_t ckpt_entry_nbytes(const CkptEntry *e);
/* Bytes of that file from offset on, for that dataset; from any thread. */
void ckpt_bytes_soon(const Ckpt *c, const CkptEntry *e, int64_t offset, int64_t nbytes); /* are read soon: the system may begin */
bool try_ckpt_bytes(const Ckpt *c, const CkptEntry *e, int64_t offset, void *out, size_t nbytes, Why *why);

bool try_manifest_write(const char *step_folder, const CkptManifest *m, Why *why);
/* Checks all that is written in it; step against the folder's name where that is a step's. */
bool try_manifest_read(Arena *arena, const char *step_folder, CkptManifest *m, Why *why);

#endif
