/* SPDX-License-Identifier: Apache-2.0 */
/* The graphs of a job's programs: micro-step, update, evaluation, generation.
 *
 * Vars that programs share (carried ones hold sums of this rank over a step's micro-steps), beside the model's inputs
 * (model.h), units and their gradients (pass.h):
 *   loss_sum, token_count    carried
 *   z_sum                    carried, with a z-loss: of the squares it is made of (model_loss)
 *   router_sum               carried, with losses on routers: those with their factors, times the micro-step's counted tokens, so
 *                            that the mean over micro-steps and ranks is by tokens, as the loss's is
 *   lr                       step scalar: the learning rate
 *   shard                    step scalar: which of a unit's shares this rank holds (state_share)
 *   loss_limit, norm_limit   step scalars: a step whose loss or gradient norm is above is skipped; with a norm_limit below 0
 *                            nothing that persists changes: the step is only looked at
 *   dither_keys              step scalars, where moments are bf16: the key of each unit's draws
 *   shared                   of an update that is cut in two: output of its head and step scalars of its units, SHARED_… below
 *   updates                  state: updates applied so far
 *   loss_scale, scale_age    states, where the loss is scaled: what it is multiplied by, and the updates since that changed
 *   metrics                  output of the update: METRIC_… below; the same on all ranks
 *   eval                     output of an evaluation: its loss sum and token count, summed over ranks
 *   logits                   output: (T,V) of verify's program; (1,V) of what fills a cache, of the position that "row" names
 *   next_logits              output: (B,V) of what extends a cache
 *   nll                      output: (T) of what scores
 *   replicas                 output: a hash of each row that several ranks hold */
#ifndef TRAIN_GRAPHS_H
#define TRAIN_GRAPHS_H

#include "src/model/model.h"
#include "src/optim/optim.h"
#include "src/pass/pass.h"

/* loss: the mean over the global batch's counted tokens; grad_norm: of its gradient before clipping; applied: 0 when the step
 * was skipped; scale: of the loss in this step, 1 where it is not scaled. */
enum { METRIC_LOSS, METRIC_GRAD_NORM, METRIC_TOKENS, METRIC_APPLIED, METRIC_SCALE, METRIC_Z_LOSS, METRIC_ROUTER_LOSS, METRICS };

/* Dynamic loss scaling (Micikevicius et al., "Mixed Precision Training", 2018): halved after a step whose gradient is not finite,
 * doubled after SCALE_AGE applied ones in a row. */
enum { SCALE_FIRST = 65536, SCALE_MOST = 1 << 24, SCALE_AGE = 2000 };

/* What the update of every unit reads: what its gradient is multiplied by, the learning rate, Adam's corrections, whether there is
 * one (1) or all stays (0). */
enum { SHARED_FACTOR, SHARED_LR, SHARED_CORRECTION1, SHARED_CORRECTION2, SHARED_APPLY, SHARED };

typedef struct UpdateOptions {
  AdamW adam;
  double clip;           /* 0: none */
  double nominal_tokens; /* what the micro-steps were seeded with: of the global batch */
  double z_loss;         /* its factor; 0: none */
  ModelRouterLosses router;
  int shard, replicate; /* axes of the mesh */
} UpdateOptions;

/* first: the carried sums start here.  logits: verify wants them.  nominal_tokens 0: no gradients.  states: which parameters are
 * frozen, and whether the loss is scaled. */
typedef struct MicroOptions {
  double nominal_tokens, z_loss; /* z_loss: its factor, 0: none */
  ModelRouterLosses router;
  bool first, logits;
  const StateTable *states;
} MicroOptions;
Graph *graph_micro(Arena *arena, const ModelConfig *model, const ModelBatch *batch, const MicroOptions *options);
Graph *graph_update(Arena *arena, const StateTable *table, const UpdateOptions *options);
/* The same in two, for two devices: the head computes all that needs more than a unit, collectives and functions included; a unit's
 * part (of one that is not frozen) only adds, multiplies, divides and takes roots, which every device rounds alike, and works on
 * the copy of the parameters' upper halves (state_upper). */
Graph *graph_update_head(Arena *arena, const StateTable *table, const UpdateOptions *options);
Graph *graph_update_unit(Arena *arena, const StateTable *table, const UpdateOptions *options, int unit);
/* What several ranks hold alike: rows of the state table (parameters in two halves are one), in its order. */
typedef struct ReplicaRow {
  const StateRow *row;
  StateHolders by; /* all ranks, or the replicas of this rank's shard */
} ReplicaRow;
/* How many; 0 where all but the scalars is in shares. */
int graph_replicated(const StateTable *table, Arena *arena, ReplicaRow **rows);
/* A number for each such row, by which ranks that hold the same can be told from others. */
Graph *graph_replicas(Arena *arena, const StateTable *table);
/* Sums of all ranks.  shard, replicate: as in UpdateOptions. */
Graph *graph_eval(Arena *arena, const ModelConfig *model, const ModelBatch *batch, const StateTable *states, int shard,
                  int replicate);
/* By the batch's cache (ModelCache): a prompt fills it, and gives the logits of the position that "row" names; or it is extended,
 * and gives all slots'. */
Graph *graph_generate(Arena *arena, const ModelConfig *model, const ModelBatch *batch);
/* What each label costs, in nats; 0 where it is ignored. */
Graph *graph_score(Arena *arena, const ModelConfig *model, const ModelBatch *batch);

#endif
