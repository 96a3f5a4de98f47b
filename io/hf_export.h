/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint as a Hugging Face folder: config.json, generation_config.json, the tokenizer's files, and tensors in one file or in
 * shards with an index, as transformers' save_pretrained leaves them and as vLLM and llama.cpp read them.
 *
 * What was imported and is exported as it is comes out as the files were, byte by byte; else tensors are laid out anew, by name.  A
 * run that began without a config.json gets one that says its rope in the older and in the newer form. */
#ifndef IO_HF_EXPORT_H
#define IO_HF_EXPORT_H

#include "io/model_folder.h"

enum { HF_AS_IS = -1 };
#define HF_SHARD_NBYTES 5000000000 /* save_pretrained's way to say 5GB */

typedef struct HfExport {
  const char *from; /* a run folder (its newest step is meant) or a step folder */
  const char *to;   /* must not be there */
  bool force;       /* or be a model's folder, which then goes */
  int dtype;        /* DType of all weights; HF_AS_IS: as imported, else as the model's config.json says, else as it was computed */
  int64_t shard_nbytes; /* at most, in a file of more than one tensor; 0: as imported, else HF_SHARD_NBYTES */
} HfExport;

typedef struct HfExported {
  int tensors, files;
  int64_t nbytes;   /* of tensors */
  const char *type; /* "bf16"; in the caller's arena */
} HfExported;

/* All ranks call; files are dealt to them.  The folder has its name when all of it is on disk.  Input errors: as ModelFolder's, and
 * those of a folder that is there. */
HfExported hf_export(Arena *arena, Comm *comm, const HfExport *e);

/* An input error if that folder is there; of a run that will export only when it is over. */
void hf_export_check(const char *to);

#endif
