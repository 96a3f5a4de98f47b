/* SPDX-License-Identifier: Apache-2.0 */
/* What the models of this folder share.  Private to it. */
#ifndef MODEL_BUILD_H
#define MODEL_BUILD_H

#include "src/model/model.h"

typedef struct ModelBuild {
  Graph *g;
  const ModelConfig *config;
  const ModelBatch *batch;
  VEC(int) params;
} ModelBuild;

/* Declares a parameter and loads it. */
int model_param(ModelBuild *m, const char *unit, const char *name, Shape shape, InitKind init);

int model_rmsnorm(Graph *g, int x, int weight, double eps);                 /* over the last axis of (T,C) */
int model_linear(Graph *g, int x, int weight);                              /* (T,K)·(N,K)ᵀ */
void model_rope_tables(ModelBuild *m, int start, int *cosines, int *sines); /* (B,S,1,D/2) each */
int model_rope(Graph *g, int x, int cosines, int sines);                    /* of (B,S,H,D), halves rotated as transformers does */

/* x + y, which is kept for the backward pass: what blocks hand on. */
int model_residual(Graph *g, int x, int y);

/* One row a family: from embedded tokens to the normed hidden state; sets model's hidden and head. */
typedef void ModelForward(ModelBuild *m, ModelNodes *model);
ModelForward model_llama;

#endif
