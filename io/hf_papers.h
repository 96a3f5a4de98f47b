/* SPDX-License-Identifier: Apache-2.0 */
/* The small files of an exported model.  Private to hf_export.c, but for the names of types. */
#ifndef IO_HF_PAPERS_H
#define IO_HF_PAPERS_H

#include "io/model_folder.h"

/* As files' names and bytes.  dtype: a DType that all weights have; negative: config.json's own word stays. */
const CkptText *hf_papers(Arena *arena, const ModelFolder *from, int dtype, int *n);
/* Those of a model that came without: config.json and generation_config.json, with the ids of t (NULL: no tokenizer is there), and
 * the tokenizer_config.json of a tokenizer.json that stands alone.  An import gets none. */
const CkptText *hf_own_papers(Arena *arena, const ModelFolder *from, int dtype, const Tokenizer *t, int *n);

/* The type in which a checkpoint's weights belong into a folder: what its config.json says, else in which its run computed;
 * negative: each its own, as of an import. */
int hf_own_type(Arena *arena, const ModelFolder *from);

const char *hf_type_name(int dtype); /* "bf16" */
int hf_type_parse(const char *name); /* of that; negative: none */

#endif
