/* SPDX-License-Identifier: Apache-2.0 */
/* A model on disk, however it lies there: a Hugging Face folder (config.json, tensor files, tokenizer), or a checkpoint of a run or
 * of `hpctrain import`, which holds the same under /model and, of the small files, in /run/hf.
 *
 * Those are its papers: config.json, generation_config.json, the tokenizer's and the chat template's files.  Nothing in them is
 * looked at here. */
#ifndef IO_MODEL_FOLDER_H
#define IO_MODEL_FOLDER_H

#include "io/ckpt.h"
#include "io/safetensors.h"
#include "io/tokenizer.h"

#define MODEL_PAPERS "hf/"   /* names of papers as texts of a checkpoint begin with it */
#define MODEL_FILES "files/" /* of an import: the headers of the tensor files by their names, and the index, begin with it */
#define MODEL_CONFIG "config.json"
#define MODEL_GENERATION "generation_config.json"
#define MODEL_INDEX "model.safetensors.index.json"

typedef struct ModelFolder ModelFolder;

/* path: a Hugging Face folder, a step folder, or the folder of a run, whose newest step is meant.  Names, shapes and papers are
 * read, no tensor.  What is not whole is an input error. */
ModelFolder *model_folder_open(const char *path);
bool model_folder_is_ckpt(const char *path); /* of a run or a step; else it is taken for a Hugging Face folder */
void model_folder_close(ModelFolder *m);     /* NULL is fine */

const char *model_folder_path(const ModelFolder *m);         /* of the Hugging Face or the step folder */
const Ckpt *model_folder_ckpt(const ModelFolder *m);         /* NULL: it is none */
const Safetensors *model_folder_files(const ModelFolder *m); /* NULL: it is a checkpoint */
uint64_t model_folder_hash(const ModelFolder *m);            /* of the path, names, types and shapes: equal on all ranks */

/* Tensors.  file and offset of a checkpoint's say nothing. */
int model_folder_n(const ModelFolder *m);
const SafeTensor *model_folder_at(const ModelFolder *m, int i);
const SafeTensor *model_folder_find(const ModelFolder *m, const char *name);
const char *model_folder_file(const ModelFolder *m, const SafeTensor *t); /* in which it lies, for messages */

/* Papers, by name, with their MODEL_PAPERS. */
const CkptText *model_folder_papers(const ModelFolder *m, int *n);
const char *model_folder_paper(const ModelFolder *m, const char *name); /* name without it; NULL: there is none */
const CkptText *model_papers_of(Arena *arena, const Ckpt *c, int *n);   /* the same of a checkpoint, in the arena */
bool model_paper_is_tokenizers(const CkptText *paper);
/* The files of a tokenizer as papers: of a folder all that belong to one; of a file itself, under the name by which loaders look
 * for it, and with a tokenizer.json what its reader looks at beside it.  from: the folder or file that it was opened as. */
const CkptText *model_tokenizer_papers(Arena *arena, const char *from, const Tokenizer *t, int *n);
/* config.json as a text: the paper, or what a run that started without one says of its model. */
const char *model_folder_config(const ModelFolder *m);

/* Elements first … first+n-1 of t as that type, rounded to nearest even.  A weight that is no finite number, or becomes none as an
 * fp16, is an input error that names tensor and element; so is a type that no DType is like.  Threads may read at once.  */
void model_folder_read(const ModelFolder *m, const SafeTensor *t, int64_t first, int64_t n, DType as, void *out);
bool try_model_folder_read(const ModelFolder *m, const SafeTensor *t, int64_t first, int64_t n, DType as, void *out, Why *why);
void model_folder_soon(const ModelFolder *m, const SafeTensor *t, int64_t first, int64_t n); /* will be read next */

/* Around the reading, all ranks: a checkpoint is checked against its checksums on the way.  False: it is damaged, on all ranks. */
void model_folder_begin(ModelFolder *m, Comm *comm);
bool try_model_folder_end(ModelFolder *m, Why *why);

#endif
