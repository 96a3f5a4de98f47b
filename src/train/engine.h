/* SPDX-License-Identifier: Apache-2.0 */
/* A model that can be trained, evaluated and asked for text: its programs over one job, its states, its batches. */
#ifndef TRAIN_ENGINE_H
#define TRAIN_ENGINE_H

#include "src/exec/staging.h"
#include "src/train/graphs.h"

typedef struct Engine Engine;

enum { ENGINE_SHORTER = 3 };

typedef struct EngineOptions {
  ModelConfig model;
  int64_t sequences, positions; /* of one pass on this rank */
  /* In training and evaluation a pass may be over the first so many positions of each sequence alone (engine_shorten), with
   * programs of its own: such lengths, ascending, less than `positions`; 0: none. */
  int64_t shorter[ENGINE_SHORTER];
  bool segments;             /* a sequence may hold several (engine_segments), in training and evaluation */
  int64_t passes;            /* micro-steps of a step */
  bool across;               /* replicas share out the update; how many there are, and shards, the mesh says */
  const ParamTraits *traits; /* as StateOptions' */
  double nominal_tokens;     /* of the global batch */
  AdamW adam;
  double clip;
  double z_loss; /* its factor; 0: none */
  ModelRouterLosses router;
  ModelDropout dropout; /* of micro-steps alone */
  DType moments;        /* F32 or BF16 */
  uint64_t seed;        /* of the draws by which moments are rounded */
  Choices choices;
  bool compare;                              /* whether replicas can be compared */
  bool train, eval, logits, score, generate; /* which programs there are; logits: of the micro-step, for verify */
  int64_t slots, kept;       /* to generate: prompts at a time, of `positions` at most, and positions that are kept of each */
  bool interpreted;          /* cpu.compiler: none */
  bool on_host;              /* memory.optimizer: host: units are updated there; moments, masters and gradients are there */
  const char *compiler;      /* for that; NULL: cc */
  const char *only;          /* a program's name: no other is compiled; NULL: all */
  const CompileWatch *watch; /* may be NULL */
} EngineOptions;

/* Compiles the programs; nothing is allocated yet.  dev may be a null device and comm and mesh those of one rank, for plans. */
Engine *engine_open(Arena *arena, Dev *dev, Comm *comm, Mesh *mesh, const EngineOptions *options);
void engine_close(Engine *engine);
const StateTable *engine_states(const Engine *engine);
StateRank engine_rank(const Engine *engine); /* this rank's place among those that hold states */
const Job *engine_job(const Engine *engine);
void engine_shape(const Engine *engine, int64_t *sequences, int64_t *positions); /* of a batch */
int64_t engine_vocab(const Engine *engine);                                      /* of a row of logits */
/* The programs of a step over whole sequences in the order in which they run, those between the first and the last micro-step once;
 * their number. */
enum { ENGINE_STEP = 4 };
int engine_order(const Engine *engine, int programs[ENGINE_STEP]);
void engine_profile(Engine *engine, Prof *prof); /* after engine_start: as job_profile */
/* Of the compiled programs and their memory plan: equal on all ranks, or they must not start. */
uint64_t engine_hash(const Engine *engine);
/* Allocates, builds the kernels (all ranks). */
JobStart engine_start(Engine *engine);
/* All ranks.  What was started is over, everywhere: parameters and states may be put again, as before the first run.  All ranks
 * meet once more before the next one. */
void engine_rest(Engine *engine);

/* --- parameters and states ------------------------------------------------------------------------------------------------ */

/* Of this rank's vector of a slot of a unit, n elements from element `at` on; part by part as job_put and job_get, or at once. */
bool engine_holds(const Engine *engine, StateSlot slot, int unit); /* moments and the scalar (unit -1): not without training */
void engine_put(Engine *engine, StateSlot slot, int unit, int64_t at, int64_t n, JobMake *make, void *self);
void engine_get(const Engine *engine, StateSlot slot, int unit, int64_t at, int64_t n, JobUse *use, void *self);
/* What engine_get would give, of a staging of the engine's job; then as staging_get(…, part, lower, …). */
typedef struct EngineStaged {
  int part, lower;
} EngineStaged;
Staging *engine_staging_open(const Engine *engine, Arena *arena);
EngineStaged engine_stage(const Engine *engine, Staging *staging, StateSlot slot, int unit, int64_t at, int64_t n);
/* On the host: nbytes of each rank that holds the same part of a parameter (state_holders), in their order, on all of them. */
void engine_gather_holders(Engine *engine, int param, const void *mine, size_t nbytes, void *all);
/* CRC-32C of this rank's part of a parameter's slot, or of its gradient of the last step; 0: it has none. */
uint32_t engine_crc(const Engine *engine, StateSlot slot, int param);
uint32_t engine_grad_crc(const Engine *engine, int param);
void engine_read(const Engine *engine, StateSlot slot, int unit, int64_t at, int64_t n, float *to);
void engine_get_grad(const Engine *engine, int unit, int64_t at, int64_t n, JobUse *use, void *self); /* of the last step */
/* A scalar state, by its row's name ("updates"); setting one that the engine does not have does nothing. */
float engine_scalar(const Engine *engine, const char *name);
void engine_set_scalar(Engine *engine, const char *name, float value);
void engine_init(Engine *engine, uint64_t seed);                  /* initial weights, by name and element alone */
void engine_init_param(Engine *engine, int param, uint64_t seed); /* of one parameter */

/* --- batches -------------------------------------------------------------------------------------------------------------- */

/* From here on only the first positions of each sequence are computed, at least `needed`: as few as there are programs for.  The
 * same on all ranks.  What is behind them must be padding that nothing before it sees.  Gives how many they are; at first all. */
int64_t engine_shorten(Engine *engine, int64_t needed);
/* For the next micro-step or evaluation.  Takes sequences·positions ids and labels (negative: ignored), copies what is computed to
 * where the programs read it, and sorts. */
void engine_batch(Engine *engine, const int32_t *ids, const int32_t *labels);
/* With segments, after each engine_batch: for each position the first of its segment, counted in its sequence; as many as ids. Else
 * nothing. */
void engine_segments(Engine *engine, const int32_t *starts);

/* Of the next micro-step, for its dropout, if it has any: its step's number in the run, and its first sequence's in that step. */
void engine_place(Engine *engine, int64_t step, int64_t first_sequence);
/* pass: 0 … passes - 1.  Gives how often its program had been run before: the first times are slow, and take memory beside. */
int64_t engine_micro(Engine *engine, int64_t pass);

typedef struct StepResult {
  double loss, grad_norm, tokens; /* tokens that counted */
  double seconds;                 /* to the end of its update, from engine_step_begin or the end of the update before */
  double scale;                   /* of the loss, in this step */
  double z_loss, router_loss;     /* a token, with their factors; no part of loss */
  bool applied;
} StepResult;
/* The device's time of the step counts from here, not from the update before: something else was done in between. */
void engine_step_begin(Engine *engine);
StepResult engine_update(Engine *engine, int64_t step, double lr); /* step: its number in the run, which draws depend on */
/* The same in two: the first does not wait (with on_host, for the norm of gradients, and for the host's cores); the second gives
 * the results of updates in their order. */
void engine_update_start(Engine *engine, int64_t step, double lr);
StepResult engine_update_result(Engine *engine);

/* Updates from here on are skipped where the loss or the norm of the gradient is above its limit (infinite at the start). */
void engine_limit(Engine *engine, double loss, double norm);
/* What engine_update would give now, but for `applied`: nothing that persists changes.  Limits are infinite again behind it. */
StepResult engine_look(Engine *engine, int64_t step);

bool engine_has_replicas(const Engine *engine); /* that engine_hashes compares */
/* Of what has been started: a hash for each of graph_replicated's rows, on this rank; NULL: there are none, or none was asked for
 * (compare).  Waits.  Valid until the next call. */
const float *engine_hashes(Engine *engine);

/* Of the batch; then, in their order, what batches add to sums: the loss sum and the token count, of all ranks. */
void engine_eval_start(Engine *engine);
void engine_eval_result(Engine *engine, double sums[2]);

/* Of the batch: what each label costs in nats (sequences·positions), 0 where it is ignored.  All ranks.  Waits. */
const float *engine_score(Engine *engine);

/* Dynamic rope turns what comes next in that row of the batch to be scored, or in that slot, as a text of so many positions (at
 * first of all that there is room for): before a slot is filled, which is then extended so.  Other models do not care. */
void engine_length(Engine *engine, int64_t row, int64_t length);
/* The logits (V) behind a prompt of n ids, n <= positions, which takes the slot.  Valid until the next call. */
const float *engine_fill(Engine *engine, int64_t slot, const int32_t *ids, int64_t n);
/* The logits (slots,V) behind each slot's next id, which is at that position, less than `kept`.  A slot that nobody needs gets any
 * id at position 0. */
const float *engine_extend(Engine *engine, const int32_t *ids, const int32_t *positions);
const float *engine_logits(const Engine *engine); /* (T,V) of the last micro-step */

/* A parameter's gradient of the last step on every rank, times the nominal over the actual tokens (collective; whole: of
 * parameter param, in its shape).  For verify: it holds a whole tensor. */
void engine_gradient(Engine *engine, int param, float *whole);
/* The same of its value. */
void engine_param(Engine *engine, int param, float *whole);

#endif
