/* SPDX-License-Identifier: Apache-2.0 */
/* A small Llama, what its training starts from in tests, and a device with a cache of kernels for all tests of a program. */
#ifndef TEST_SMALL_MODEL_H
#define TEST_SMALL_MODEL_H

#include "src/train/engine.h"

/* heads / 2 key/value heads, at least one; hidden is heads times head_dim, intermediate 5/3 of it. */
typedef struct SmallModel {
  int layers, vocab, heads, head_dim;
} SmallModel;

/* Of one pass: sequences of positions; passes of a step, whose tokens all count, of as many ranks; trained, not evaluated. */
EngineOptions small_options(const SmallModel *model, int sequences, int positions, int passes, int ranks);

/* For BEFORE_ALL and AFTER_ALL: a folder for compiled kernels and files. */
void small_folder_open(void);
void small_folder_close(void);
const char *small_folder(void);

/* With that folder for its cache.  What is compared is the order of things, not a compiler's loops: it optimises little, in a
 * quarter of the time. */
Dev *small_device(const char *kind, bool interpreted, int threads);

/* An engine alone, started, with initial weights, on such a device; what lives as long as it is in the arena. */
typedef struct SmallRun {
  Arena *arena;
  Dev *dev;
  Comm *comm;
  Mesh *mesh;
  Engine *engine;
} SmallRun;
SmallRun small_run_open(const char *kind, const EngineOptions *o);
void small_run_close(SmallRun *run);

#endif
