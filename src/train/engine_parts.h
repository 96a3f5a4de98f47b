/* SPDX-License-Identifier: Apache-2.0 */
/* An engine from the inside: shared by engine.c (states, batches, steps), engine_programs.c (which programs there are) and
 * engine_text.c (scores and generation).  Private to them. */
#ifndef TRAIN_ENGINE_PARTS_H
#define TRAIN_ENGINE_PARTS_H

#include "src/config/config.h"
#include "src/train/engine.h"
#include "src/train/host_update.h"

enum { ONLY, FIRST, MIDDLE, LAST, MICROS };

/* A step by the device's clock. */
typedef struct Lap {
  DevEvent *begin, *end;
  bool begun; /* here, not at the end of the one before */
} Lap;

enum { LAPS = 4 }; /* under way, and the one before them */

/* The programs of passes over so many positions of each sequence; -1: none. */
typedef struct Passes {
  int64_t positions;
  int micro[MICROS], eval;
  int64_t runs[MICROS];
} Passes;

/* Of Vars of a unit, made once: states are read and written for as long as the arena is there. */
typedef struct UnitNames {
  const char *lower, *grad;
} UnitNames;

struct Engine {
  Arena *arena;
  Dev *dev;
  Comm *comm;
  Mesh *mesh;
  EngineOptions options;
  StateTable *states;
  UnitNames *names; /* by unit */
  Job *job;
  Lengths lengths;                           /* that passes may have */
  Passes passes[LENGTHS_MOST];               /* of these, the longest first */
  int length;                                /* which of the passes runs next */
  int update, replicas, score, fill, extend; /* programs; -1: none */
  HostUpdate *host;                          /* the part of the update that is the host's cores'; NULL: none is */
  uint64_t *sort;                            /* scratch of engine_batch */
  Lap laps[LAPS];
  int64_t started, told; /* updates, and results that were given */
};

void engine_add_programs(Engine *engine); /* engine_programs.c */

#endif
