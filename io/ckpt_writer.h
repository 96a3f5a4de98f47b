/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint being written, as its stages see it.  Private to ckpt_write.c, ckpt_make.c and ckpt_pieces.c. */
#ifndef IO_CKPT_WRITER_H
#define IO_CKPT_WRITER_H

#include "io/ckpt_impl.h"

/* Datasets this large begin at multiples of it: the stripe of a parallel file system, and whole pages everywhere. */
enum { CKPT_ALIGNMENT = 1 << 20 };

typedef struct CkptWriter {
  Comm *comm;
  const CkptSave *save;
  Arena *arena;
  const char *aside, *name; /* step-N.tmp, step-N */
  int n_files;
  const char **files; /* step-N.tmp/model.h5, or of several the paths */
  int *file;          /* of each of the save's tensors */
  int64_t *offsets;   /* of their datasets in it; rank 0's until it tells */
  CkptHash *hashes;   /* this rank's, of all its pieces that are not empty */
  int n_hashes;
  Why *why;
} CkptWriter;

/* For who watches over hangs: what this rank does with a file of the step, or with its folder.  From any thread; a sign of life. */
void ckpt_tell_doing(const CkptWriter *w, const char *what, const char *path);

/* True when all ranks were successful; else why is the same on all. */
bool ckpt_all_agree(CkptWriter *w, bool ok);

int64_t ckpt_tensor_nbytes(const CkptTensor *t);

/* ckpt_make.c, rank 0: the files, with everything in its place but the tensors' elements. */
bool ckpt_make_files(CkptWriter *w);
/* Of several files ranks take others as their first: the k-th that this rank turns to. */
int ckpt_file_turn(const CkptWriter *w, int k);

/* ckpt_pieces.c, all ranks: the elements, hashed on their way and on disk when it returns; by MPI-IO, or by plain writes. */
bool ckpt_write_pieces(CkptWriter *w);
bool ckpt_write_direct(CkptWriter *w);

#endif
