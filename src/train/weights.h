/* SPDX-License-Identifier: Apache-2.0 */
/* The weights of model.from: which tensor of the files is which parameter of the model, by name or as model.rename, model.fresh and
 * model.skip say.  Every tensor and every parameter is accounted for, or it is an input error that names it. */
#ifndef TRAIN_WEIGHTS_H
#define TRAIN_WEIGHTS_H

#include "io/model_folder.h"
#include "src/config/config.h"
#include "src/train/engine.h"
#include "src/train/groups.h"

typedef struct Weights Weights;

/* From a folder that is open for as long as the Weights are.  c NULL: all tensors have the model's names, and none is fresh.  Reads
 * no tensor. */
Weights *weights_open(Arena *arena, ModelFolder *from, const Config *c, const Members *members);
/* All ranks: a head that is stored beside the table to which it is tied must be the same, or it is an input error. */
void weights_check_head(const Weights *weights, const Comm *comm);
/* "models/x: 291 tensors, 2 renamed, 3 skipped; fresh: lm_head.weight" */
const char *weights_told(const Weights *weights);

/* Fills this rank's parameters (all ranks call): only the bytes it holds are read, and where several hold the same, by one of them;
 * fresh ones get initial weights by run.seed.  A checkpoint that turns out to be damaged is an input error. */
void weights_load(const Weights *weights, Engine *engine, Dev *dev, Comm *comm);

#endif
