/* SPDX-License-Identifier: Apache-2.0 */
/* From a run file to what the engine wants; shared by train, verify, generate, plan and ir. */
#ifndef TRAIN_SETUP_H
#define TRAIN_SETUP_H

#include "io/hf_config.h"
#include "src/config/config.h"
#include "src/train/engine.h"
#include "src/train/groups.h"

/* A run file for what only asks a model; the model is for words of the shell. */
extern const char setup_plain_run[];

/* The model that the run file names: preset, config.json, Hugging Face folder or shape; sequences longer than it is made for
 * are an input error.  Fields of a config.json that were not understood are noted in warnings, a line each. */
ModelConfig setup_model(Arena *arena, const Config *c, Text *warnings);

/* Between a config.json and a model. */
ModelConfig setup_model_from_hf(const HfConfig *hf);
HfConfig setup_model_to_hf(const ModelConfig *model);

/* Everything but the programs wanted (train, eval, …), the batch and watch. */
EngineOptions setup_options(const Config *c, const ModelConfig *model, int threads);

/* The same of what trains on the run file's data, its batch included.  Input errors where attention is to drop something, or where
 * the model's positions cannot begin anew as data.packing wants.  Evaluation, traits and watch are the caller's. */
EngineOptions setup_training(const Config *c, const ModelConfig *model, const Batch *batch, int threads);

/* profile.steps that the run does not have are an input error; total_steps: its length. */
void setup_check_profile(const Config *c, int64_t total_steps);

/* Ends the job if memory.offload_folder cannot be had, or has no room for the moments, which so many ranks share. */
void setup_check_folder(const Config *c, const Comm *comm, int owners, const Members *members);

/* A decay that does not fit behind the warm-up is an input error. */
LrSchedule setup_schedule(const Config *c, int64_t epoch_sequences);

/* The most checkpoints that there are at a time when a run goes up to that step, the one in the making and those that stay for good
 * (checkpoint.keep_every) included; 0: it saves none by itself. */
int64_t setup_checkpoints(const Config *c, int64_t last_step);

/* Makes device.kind: auto one of the others (all ranks call): cuda where all ranks see a GPU, cpu where none does; anything
 * between is an error.  Gives what was chosen and why, for people; NULL: it was not auto.  comm NULL: by this process alone. */
const char *setup_kind(Arena *arena, Config *c, Comm *comm);

/* The device of a run (all ranks call): on GPUs, one of its own for each rank of a node, near its cores.  fallback: where the
 * kernel cache goes when HOME is unset; may be NULL. */
Dev *setup_device(const Config *c, Comm *comm, int threads, const char *fallback);

/* Ranks along dp_shard and dp_replicate, as parallel.strategy says.  Groups that do not divide the ranks are an input error. */
Mesh *setup_mesh(const Config *c, Comm *comm);

#endif
