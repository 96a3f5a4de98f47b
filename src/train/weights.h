/* SPDX-License-Identifier: Apache-2.0 */
/* The weights of model.from: which tensor of the files is which parameter of the model, by name or as model.rename, model.fresh and
 * model.skip say.  Every tensor and every parameter is accounted for, or it is an input error that names it. */
#ifndef TRAIN_WEIGHTS_H
#define TRAIN_WEIGHTS_H

#include "src/config/config.h"
#include "src/train/engine.h"
#include "src/train/groups.h"

typedef struct Weights Weights;

/* Reads headers alone. */
Weights *weights_open(Arena *arena, const Config *c, const Members *members);
void weights_close(Weights *weights);
/* "models/x: 291 tensors, 2 renamed, 3 skipped; fresh: lm_head.weight" */
const char *weights_told(const Weights *weights);

/* Fills this rank's parameters (all ranks call): only the bytes it holds are read; fresh ones get initial weights by run.seed. */
void weights_load(const Weights *weights, Engine *engine, Dev *dev, Comm *comm);

#endif
