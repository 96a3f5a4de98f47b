/* SPDX-License-Identifier: Apache-2.0 */
/* memory.recompute: auto.  Which values a micro-step computes again is a setting on one line, from none to all blocks' inputs
 * alone, along which recomputed arithmetic grows and memory, but for the planner's gaps, shrinks:
 *
 *   none | cheap in 1 block, in 2, … in all | and the next value of forget.c in 1 block, … | … | block
 *
 * Early blocks come first: their values live longest.  Compilation is pure, so the first setting that fits is found by trying. */
#ifndef TRAIN_FIT_H
#define TRAIN_FIT_H

#include "src/config/config.h"
#include "src/train/engine.h"

typedef struct FitLine {
  int levels, blocks;
} FitLine;
int fit_settings(const FitLine *line); /* 0 … n - 1 */
/* Sets what a program compiled with these choices forgets. */
void fit_choose(const FitLine *line, int setting, Choices *choices);

typedef struct FitFound {
  FitLine line;
  int setting; /* the first that fits in room; where none does, of those that were tried the one that needs least */
  bool fits;
  size_t nbytes;    /* planned with it: vars, constants and the hungriest program's rest */
  double again;     /* arithmetic done a second time, over all other, of a micro-step's products and attention */
  const char *text; /* the setting, for people: "cheap, attention, matmul to 22016 in 7 of 32 blocks" */
  int compiled;     /* programs, to find it */
} FitFound;

/* Pure: no allocation on devices, no word to other ranks, so all ranks find the same.  comm and mesh may be planned ones. */
FitFound fit_find(Arena *arena, Comm *comm, Mesh *mesh, const EngineOptions *options, size_t room);

/* Where a run is, or is thought to be: its device, or the memory of its GPUs; neither: those that are to be seen here. */
typedef struct FitPlace {
  const Dev *dev;
  size_t gpu; /* bytes of a GPU, all of them; 0: as they are */
} FitPlace;

/* Makes memory.recompute: auto a setting in options, which are complete but for that (all ranks call).  What has to suffice is a
 * GPU's memory or, on a CPU, this rank's share of the node's, less what drivers, libraries and the rest of the process take; the
 * least of all ranks'.  An input error, with the bytes that are missing, where nothing fits.  Gives what it came to, for people;
 * NULL: it was not auto. */
const char *fit_settle(Arena *arena, const Config *c, Comm *comm, Mesh *mesh, EngineOptions *options, const FitPlace *place);

#endif
