/* SPDX-License-Identifier: Apache-2.0 */
/* A model that can be trained, evaluated and asked for text: its programs over one job, its states, its batches. */
#ifndef TRAIN_ENGINE_H
#define TRAIN_ENGINE_H

#include "src/exec/exec.h"
#include "src/train/graphs.h"

typedef struct Engine Engine;

typedef struct EngineOptions {
  ModelConfig model;
  int64_t sequences, positions; /* of one pass on this rank */
  int64_t passes;               /* micro-steps of a step */
  bool sharded;                 /* full_shard */
  double nominal_tokens;        /* of the global batch */
  AdamW adam;
  double clip;
  Choices choices;
  bool train, eval, logits, generate; /* which programs there are; logits: of the micro-step, for verify */
  bool interpreted;                   /* cpu.compiler: none */
  const CompileWatch *watch;          /* may be NULL */
} EngineOptions;

/* Compiles the programs; nothing is allocated yet.  dev may be a null device and comm and mesh those of one rank, for plans. */
Engine *engine_open(Arena *arena, Dev *dev, Comm *comm, Mesh *mesh, const EngineOptions *options);
void engine_close(Engine *engine);
const StateTable *engine_states(const Engine *engine);
const Job *engine_job(const Engine *engine);
void engine_profile(Engine *engine, Prof *prof); /* after engine_start: as job_profile */
/* Of the compiled programs and their memory plan: equal on all ranks, or they must not start. */
uint64_t engine_hash(const Engine *engine);
/* Allocates, builds the kernels (all ranks). */
JobStart engine_start(Engine *engine);

/* --- parameters and states ------------------------------------------------------------------------------------------------ */

/* This rank's vector of a slot of a unit; NULL where there is none (moments without training). */
float *engine_state(const Engine *engine, StateSlot slot, int unit);
const float *engine_grad(const Engine *engine, int unit); /* of the last step; NULL without training */
/* Right after the host has changed what engine_state gave (SLOT_SCALAR, -1: engine_updates). */
void engine_written(Engine *engine, StateSlot slot, int unit);
float *engine_updates(const Engine *engine);     /* the count of applied updates, a state; NULL without training */
void engine_init(Engine *engine, uint64_t seed); /* initial weights, by name and element alone */

/* --- batches -------------------------------------------------------------------------------------------------------------- */

/* Copies sequences·positions ids and labels (negative: ignored) to where the programs read them, and sorts. */
void engine_batch(Engine *engine, const int32_t *ids, const int32_t *labels);

void engine_micro(Engine *engine, int64_t pass); /* 0 … passes - 1 */

typedef struct StepResult {
  double loss, grad_norm, tokens; /* tokens that counted */
  bool applied;
} StepResult;
StepResult engine_update(Engine *engine, double lr);

/* Adds this batch's loss sum and token count, of all ranks, to sums. */
void engine_eval(Engine *engine, double sums[2]);

/* The logits (V) behind the first n of ids; n <= positions.  Valid until the next call. */
const float *engine_next(Engine *engine, const int32_t *ids, int64_t n);
const float *engine_logits(const Engine *engine); /* (T,V) of the last micro-step */

/* A parameter's gradient of the last step on every rank, times the nominal over the actual tokens (collective; whole: of
 * parameter param, in its shape).  For verify: it holds a whole tensor. */
void engine_gradient(Engine *engine, int param, float *whole);
/* The same of its value. */
void engine_param(Engine *engine, int param, float *whole);

#endif
