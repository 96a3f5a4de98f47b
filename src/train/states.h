/* SPDX-License-Identifier: Apache-2.0 */
/* What a checkpoint holds of a run, and the way between it and an engine's vectors, on any number of ranks:
 *
 *   /model/NAME, /optim/m/NAME, /optim/v/NAME   f32, whole tensors under their Hugging Face names; so
 *                                               too of an engine with moments in bf16, which loads them rounded to nearest
 *   /state/updates                              f32: applied updates
 *   /state/step                                 i64: steps done, skipped ones included
 *   /run/config                                 the resolved run file; config_parse reads it
 *   /run/model                                  the model's config.json, so that a step folder needs nothing beside it
 *   /run/history                                history.h
 *   /run/choices                                kernels that were chosen by measurement; "" when by the fixed rule
 *   /run/hf/NAME                                the files of the folder that the run began from (io/model_folder.h) */
#ifndef TRAIN_STATES_H
#define TRAIN_STATES_H

#include "io/ckpt.h"
#include "src/train/engine.h"

typedef struct StatesSave {
  const char *folder; /* RUN/checkpoints */
  int64_t step;
  const CkptText *texts, *facts; /* rank 0's count */
  int n_texts, n_facts;
  int files; /* CkptSave's */
} StatesSave;

/* All ranks; as try_ckpt_write. */
bool try_states_save(Comm *comm, const Engine *engine, const StatesSave *save, Why *why);

/* The same of a copy of the states (staging.h), by another thread.  open: for a plan, too; write: between staging_copy and
 * staging_end, with comm_beside, by so many threads of each rank. */
typedef struct StatesCopy StatesCopy;
StatesCopy *states_copy_open(Arena *arena, const Engine *engine, bool first); /* first: this is rank 0 */
Staging *states_copy_staging(const StatesCopy *copy);
bool try_states_copy_write(Comm *beside, StatesCopy *copy, const StatesSave *save, int threads, Why *why);

/* After engine_start; all ranks.  Fills this rank's parameters and, where the engine trains, its moments and the count of updates;
 * a tensor that is not there or has another shape is an input error that names it.  Moments that the checkpoint lacks become zero.
 * All ranks together read each byte once, and what they read is checked: false on all of them, with the same reason, when something
 * is damaged; then another checkpoint may be loaded. */
bool try_states_load(Comm *comm, Engine *engine, const Ckpt *ckpt, Why *why);
/* Fills this rank's part of a slot of a parameter from something that is read by ranges of the whole tensor; all ranks call.  Where
 * several hold the same part, each of them reads a share of it, and they exchange. */
typedef void StatesRead(void *self, int64_t first, int64_t n, float *to);
void states_put(Engine *engine, StateSlot slot, int param, StatesRead *read, void *self);
/* Whether it has the moments of a parameter: those of a frozen one do not exist. */
bool states_has_moments(const Ckpt *ckpt, const char *param);

/* /run/model both ways. */
const char *states_model_text(Arena *arena, const ModelConfig *model);
ModelConfig states_model(Arena *arena, const Ckpt *ckpt);

#endif
