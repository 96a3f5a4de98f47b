/* SPDX-License-Identifier: Apache-2.0 */
/* What the models of this folder share.  Private to it. */
#ifndef MODEL_BUILD_H
#define MODEL_BUILD_H

#include "src/model/model.h"

/* A row a family: what sets it apart from others that are built by the same function, and that function, which goes from embedded
 * tokens to the normed hidden state, and sets model's hidden and head. */
typedef struct ModelBuild ModelBuild;
typedef struct ModelFamily {
  const char *name;
  void (*forward)(ModelBuild *m, ModelNodes *model);
  bool qkv_bias, qk_norm;
  bool absolute; /* positions are rows of a table, which count from the sequence's start: no segments */
} ModelFamily;

struct ModelBuild {
  Graph *g;
  const ModelConfig *config;
  const ModelBatch *batch;
  const ModelFamily *family;
  VEC(int) params;
  int64_t drops;  /* places passed so far */
  int64_t caches; /* attentions passed so far */
  int padding;    /* (T,1) PRED; -1 without experts or with a cache */
  /* Of experts, by block, none with a cache: how many tokens chose each (1,E), the sum of its probabilities (1,E), both without
   * padding; the router's log sum exp (1,T). */
  VEC(int) chosen, probability, router_lse;
};

/* Declares a parameter and loads it. */
int model_param(ModelBuild *m, const char *unit, const char *name, Shape shape, InitKind init);
int model_param_std(ModelBuild *m, const char *unit, const char *name, Shape shape, double std); /* INIT_NORMAL */

int model_rows(Graph *g, int table, int ids);                           /* of a table (V,C), by ids (T): (T,C) */
int model_rmsnorm(Graph *g, int x, int weight, double eps);             /* over the last axis */
int model_layernorm(Graph *g, int x, int weight, int bias, double eps); /* the same */
int model_linear(Graph *g, int x, int weight, int bias);                /* (T,K)·(N,K)ᵀ + (N); bias -1: none */
int model_conv1d(Graph *g, int x, int weight, int bias);                /* (T,K)·(K,N) + (N) */
int model_silu(Graph *g, int x);
int model_gelu_tanh(Graph *g, int x);
void model_rope_tables(ModelBuild *m, const ModelNodes *model, int *cosines, int *sines); /* (B,S,1,D/2) each */
int model_rope(Graph *g, int x, int cosines, int sines); /* of (B,S,H,D), halves rotated as transformers does */

/* cache.c.  Causal attention of q (B,S,H,D) over k and v (B,S,G,D), or over what the batch's cache holds and these; scaled by
 * 1/sqrt(D).  window: as ModelConfig's, 0: none.  Once a block, in the order of blocks. */
int model_attention(ModelBuild *m, const ModelNodes *model, int q, int k, int v, int64_t window);

/* x, some of whose elements are made zero, and the others larger. */
int model_drop(ModelBuild *m, int x, double share);
int64_t model_whole(const ModelBatch *batch); /* positions of its sequences if none were cut short */
/* x + y, which is kept for the backward pass: what blocks hand on. */
int model_residual(ModelBuild *m, int x, int y);

/* An mlp of experts with the parameters NAME.gate.weight and NAME.experts.E.w1|w3|w2.weight: (T,C) to (T,C). */
int model_experts(ModelBuild *m, const char *unit, const char *name, int x);
void model_router_losses(ModelBuild *m, ModelNodes *model); /* once all blocks are there */

void model_llama(ModelBuild *m, ModelNodes *model);
void model_gpt2(ModelBuild *m, ModelNodes *model);

#endif
