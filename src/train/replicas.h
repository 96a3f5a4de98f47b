/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that hold the same states hold the same bits, or one of them has gone wrong silently: a faulty card or a faulty exchange
 * (BLOOM trained for weeks with norms that had drifted apart: Scao et al., 2022).  They compare hashes, which each makes where the
 * states are. */
#ifndef TRAIN_REPLICAS_H
#define TRAIN_REPLICAS_H

#include "src/train/engine.h"

/* All ranks, between steps.  False, on all of them: told says which ranks differ from most of those that hold the same, and in
 * which tensor first. */
bool replicas_agree(Engine *engine, Comm *comm, Text *told);

#endif
