/* SPDX-License-Identifier: Apache-2.0 */
/* run.debug: determinism.  The passes of a step twice from the same states: the same bits of loss, norm and gradients, or a device,
 * a library or an exchange is not to be trusted with them. */
#ifndef TRAIN_TWICE_H
#define TRAIN_TWICE_H

#include "src/train/engine.h"

typedef struct Twice Twice;

Twice *twice_open(Arena *arena, Engine *engine, Comm *comm);
/* All ranks, with no update under way: passes(self) starts a step's passes, and does so twice; those of the second time are what is
 * there behind it.  False, on all ranks: told says what differs, and on which rank in which gradient first. */
bool twice_step(Twice *t, int64_t step, void (*passes)(void *self), void *self, Text *told);
void twice_count(const Twice *t, int64_t *equal, int64_t *steps);

#endif
