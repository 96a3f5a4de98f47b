/* SPDX-License-Identifier: Apache-2.0 */
/* A model on disk that is asked, not trained: a Hugging Face folder, a step folder, or a run, whose newest good step is meant. */
#ifndef TRAIN_LOADED_H
#define TRAIN_LOADED_H

#include "io/model_folder.h"
#include "io/tokenizer.h"
#include "src/train/engine.h"
#include "src/train/setup.h"

typedef struct Loaded {
  Arena *arena;
  Comm *comm;
  Mesh *mesh;
  Dev *dev;
  const Config *config; /* the run's own, or defaults; but for the words given and device.kind, which is auto unless asked for */
  ModelConfig model;
  ModelFolder *from;
  Tokenizer
      *tokenizer; /* data.tokenizer, or the one that the folder holds; NULL: there is none.  It may have more ids than the model */
  Engine *engine; /* after loaded_start */
  int threads;
} Loaded;

/* All ranks of comm.  words: section.key=value, from words[1] on; there is room for two more.  Warnings go to rank 0's stderr.
 * Input errors: a folder that is neither, is not whole, or is of a model that is not built. */
void loaded_open(Loaded *l, Arena *arena, Comm *comm, const char *path, int n, char **words);
/* Ends the job where there is none: who wants text, for the message. */
const Tokenizer *loaded_tokenizer(const Loaded *l, const char *who);
/* -1: the tokenizer has none, or one that the model has not. */
int32_t loaded_special(const Loaded *l, TokenizerRole role);
/* An id that is none of the model's is an input error that names the token; place: where the text was given. */
void loaded_check_ids(const Loaded *l, const char *place, const int32_t *ids, int64_t n);

/* What an engine of it is opened with: to be completed with its programs and their sizes. */
EngineOptions loaded_options(const Loaded *l);
/* All ranks, each of which holds a share of the parameters.  Weights that are damaged are an input error. */
void loaded_start(Loaded *l, const EngineOptions *options);
void loaded_close(Loaded *l);

#endif
