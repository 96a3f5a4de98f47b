/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: CHECKPOINTS/step-00000010/ holds model.h5 and manifest.json.
 *
 * model.h5 holds whole tensors, row-major and contiguous, whatever ranks and strategy wrote them: /model/NAME, /optim/SLOT/NAME,
 * /state/NAME, and the texts /run/NAME (any bytes, and a NUL).  It may be several files, model-00001-of-00004.h5 and so on, to
 * which the tensors are dealt whole: a file system of many servers then has as many places to write to.  manifest.json says what
 * the step is, how long each file is, where each dataset is and its CRC-32C; it is written last.  A step folder gets its name by a
 * rename when all of it is on disk: what has the name is whole or was damaged later, and the manifest tells. */
#ifndef IO_CKPT_H
#define IO_CKPT_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/arena.h"
#include "src/base/dtype.h"
#include "src/base/fail.h"
#include "src/base/text.h"
#include "src/comm/comm.h"

enum { CKPT_MAX_RANK = 8, CKPT_FILES_MOST = 256 };

/* --- writing ------------------------------------------------------------------------------------------------------------ */

/* Takes elements first … first + n - 1 of a piece; `at` is free again when it returns. */
typedef void CkptTake(void *taker, int64_t first, int64_t n, const void *at);

/* Elements first … first+n-1 of the flattened tensor: in this rank's memory, or, where `at` is NULL, as feed hands them to take,
 * part by part in their order. */
typedef struct CkptPiece {
  int64_t first, n;
  const void *at;
  void (*feed)(void *self, CkptTake *take, void *taker);
  void *self;
} CkptPiece;

typedef struct CkptTensor {
  const char *path; /* "/model/model.norm.weight"; not below /run */
  DType dtype;
  int rank; /* 0: a scalar */
  int64_t shape[CKPT_MAX_RANK];
  const CkptPiece *pieces; /* what this rank writes; all ranks' pieces cover the tensor once */
  int n_pieces;
} CkptTensor;

typedef struct CkptText {
  const char *name, *text;
  size_t n; /* bytes, which may be any, and a NUL behind them; 0: up to the NUL */
} CkptText;

typedef struct CkptSave {
  const char *folder; /* RUN/checkpoints; made when it is not there */
  int64_t step;
  const CkptTensor *tensors; /* the same on all ranks but for the pieces */
  int n_tensors;
  const CkptText *texts; /* rank 0's count; into /run */
  int n_texts;
  const CkptText *facts; /* rank 0's count; short ones for the manifest: "tokens", "loss", "strategy" */
  int n_facts;
  /* Pieces are written by so many threads of each rank, without HDF5 and MPI-IO; feeds are called in any of them.  The file is the
   * same.  From a thread beside others it is called with comm_beside. */
  bool direct;
  int threads;
  int files; /* that tensors are dealt to, at most CKPT_FILES_MOST; 0 is 1 */
} CkptSave;

/* All ranks call.  True: the step is on disk under its name (an older one of that name is gone).  False on all ranks, with
 * the first rank's reason: nothing of it is left, and the checkpoints that were there are as they were. */
bool try_ckpt_write(Comm *comm, const CkptSave *save, Why *why);

/* One rank: removes all but the `keep` newest undamaged steps; those divisible by keep_every (0: none) stay too.  keep 0
 * keeps all. */
bool try_ckpt_prune(const char *folder, int keep, int64_t keep_every, Why *why);

/* One process, while nobody saves there: what jobs that died in a save or in a removal have left in RUN/checkpoints goes.  A step
 * that is whole and has lost its name gets it back. */
void ckpt_clear(const char *folder);

/* --- reading ------------------------------------------------------------------------------------------------------------ */

typedef struct Ckpt Ckpt;

typedef struct CkptEntry {
  const char *path;
  bool is_text; /* then dtype and shape say nothing */
  DType dtype;
  int rank;
  int64_t shape[CKPT_MAX_RANK];
  int64_t n;         /* elements, or the text's bytes with its NUL */
  uint32_t crc32c;   /* of its bytes */
  int file;          /* that holds it */
  const char *where; /* its path; where there are several files, with that one's name */
} CkptEntry;

/* A step folder: the manifest is checked, and the files' lengths against it, before HDF5 sees them. */
Ckpt *try_ckpt_open(const char *step_folder, Why *why);
void ckpt_close(Ckpt *c); /* NULL is fine */

/* Of a later version of the format than this program reads: not damaged, but of no use to it. */
bool ckpt_is_newer(const char *step_folder);
/* Ends the job over a step that cannot be used; why: what try_ckpt_open or a look at its checksums has said. */
_Noreturn void ckpt_fail_step(const char *step_folder, const char *why);

/* The newest step of a run folder or its checkpoints folder, or the step folder itself; NULL when there is none.  All ranks call
 * and get the same.  Of the first one only /run and /state are verified, as the rest is when it is loaded (below).  A damaged step
 * is told in warnings, to go out as "warn": in which, what, what is used instead, which is then verified whole, each rank its share
 * of the datasets.  Steps that are all damaged are an input error: nothing starts over by itself. */
Ckpt *ckpt_find_newest(Comm *comm, const char *folder, Text *warnings);
/* The same once c, of that folder, was found to be damaged while it was loaded; closes c. */
Ckpt *ckpt_find_before_take(Comm *comm, const char *folder, Ckpt *c, const Why *damage, Text *warnings);

/* The committed steps in folder (as above), ascending; *n is 0 where there are none.  A folder that cannot be read is an error:
 * taken for an empty one, a run would begin anew. */
const int64_t *ckpt_list(Arena *arena, const char *folder, int *n);
bool try_ckpt_list(Arena *arena, const char *folder, const int64_t **steps, int *n, Why *why);

/* RUN/checkpoints where it is there, else folder itself; and a step's in that: "FOLDER/step-00000010" + end. */
const char *ckpt_steps_folder(Arena *arena, const char *folder);
char *ckpt_path(Arena *arena, const char *folder, int64_t step, const char *end);

const char *ckpt_folder(const Ckpt *c); /* the step's */
int64_t ckpt_step(const Ckpt *c);
int64_t ckpt_nbytes(const Ckpt *c); /* of its files together */
int ckpt_files(const Ckpt *c);
const char *ckpt_file(const Ckpt *c, int i, int64_t *nbytes); /* its name in the step's folder */
const char *ckpt_fact(const Ckpt *c, const char *name);       /* NULL: none of that name */
int ckpt_n(const Ckpt *c);
const CkptEntry *ckpt_at(const Ckpt *c, int i);
const CkptEntry *ckpt_find(const Ckpt *c, const char *path); /* NULL: not there */

/* Elements first … first+n-1 of the flattened tensor, as dtype, which must be the file's.  What is not there, or cannot be
 * read, is an input error that names it. */
void ckpt_read(const Ckpt *c, const char *path, DType dtype, int64_t first, int64_t n, void *out);

/* Loading by all ranks, each byte read once: what they read is hashed on the way.  Ranges may lie in any order; best is that all
 * ranks together read all of a dataset once, or none of it. */
typedef struct CkptLoad CkptLoad;
CkptLoad *ckpt_load_open(Comm *comm, const Ckpt *c);
/* As ckpt_read, of a dataset that is there; what cannot be read leaves out as it is and fails at the close. */
void ckpt_load_read(CkptLoad *load, const char *path, DType dtype, int64_t first, int64_t n, void *out);
/* This range is read soon: the system may begin. */
void ckpt_load_soon(CkptLoad *load, const char *path, int64_t first, int64_t n);
/* All ranks call.  False on all of them, with the same reason: what was loaded, or what nobody has loaded, is damaged. */
bool try_ckpt_load_close(CkptLoad *load, Why *why);

const char *ckpt_text(const Ckpt *c, Arena *arena, const char *name); /* of /run; NULL: not there */
/* The same with its length, without the NUL behind it. */
const char *ckpt_text_bytes(const Ckpt *c, Arena *arena, const char *name, size_t *n);

/* Every k-th dataset from the i-th on against its checksum, by so many threads; (0,1) is all.  try_…: the first that is damaged;
 * the other tells of each, in their order, and gives their number. */
typedef void CkptTell(void *self, const char *damage);
int ckpt_verify(const Ckpt *c, int i, int k, int threads, CkptTell *tell, void *self);
bool try_ckpt_verify(const Ckpt *c, int i, int k, int threads, Why *why);

/* --- tools -------------------------------------------------------------------------------------------------------------- */

/* What one dataset of two checkpoints has become; numbers only where both have it in one shape and type. */
typedef enum CkptChange { CKPT_SAME, CKPT_CHANGED, CKPT_RESHAPED, CKPT_ONLY_FIRST, CKPT_ONLY_SECOND } CkptChange;

typedef struct CkptDiff {
  const CkptEntry *a, *b; /* NULL: not there */
  CkptChange change;
  int64_t n;       /* elements that differ */
  double most;     /* the largest difference; NaN where one of two is NaN and the other is not */
  double relative; /* the root of the sum of squared differences over that of the first one's squares */
} CkptDiff;

/* Calls tell with every dataset of the two, by path.  Equal checksums count as equal; what else is there is read, and a dataset
 * that cannot be read is an input error.  Gives the number of those that are not the same. */
typedef void CkptDiffTell(void *self, const CkptDiff *diff);
int ckpt_diff(const Ckpt *a, const Ckpt *b, CkptDiffTell *tell, void *self);

/* A copy of the step in another folder (RUN or any): written aside, read back against the checksums, renamed.  False: nothing of
 * it is left there.  A step of that name is never replaced. */
bool try_ckpt_copy(const Ckpt *c, const char *folder, int threads, Why *why);

#endif
