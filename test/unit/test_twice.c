/* SPDX-License-Identifier: Apache-2.0 */
/* A step that is computed twice: the same bits where nothing else is computed, and what differs is named where it is. */
#include <string.h>

#include "src/train/twice.h"
#include "test/check.h"
#include "test/unit/small_model.h"

enum { POSITIONS = 7, VOCAB = 31 };

/* A device that computes something else at the n-th pass. */
typedef struct Device {
  Engine *engine;
  int pass, wrong;
} Device;

static void passes(void *self) {
  Device *d = self;
  int32_t ids[POSITIONS], labels[POSITIONS];
  bool wrong = ++d->pass == d->wrong;
  for (int i = 0; i < POSITIONS; i++) {
    ids[i] = (i * 5 + 2) % VOCAB;
    labels[i] = (i * 3 + (wrong && i == 4)) % VOCAB;
  }
  engine_batch(d->engine, ids, labels);
  engine_micro(d->engine, 0);
}

TEST(a_step_has_the_same_bits_twice_unless_the_device_is_at_fault) {
  Arena *arena = arena_open();
  EngineOptions o = small_options(&(SmallModel){1, VOCAB, 2, 6}, 1, POSITIONS, 1, 1);
  o.interpreted = true;
  Dev *dev = dev_open(&(DevOptions){.kind = "cpu", .compiler = "none", .cache = check_folder(), .threads = 1});
  Comm *comm = comm_self();
  Mesh *mesh = mesh_data_parallel(comm, 1);
  Engine *engine = engine_open(arena, dev, comm, mesh, &o);
  engine_start(engine);
  engine_init(engine, 3);
  Twice *twice = twice_open(arena, engine, comm);
  Device sound = {.engine = engine}, faulty = {.engine = engine, .wrong = 2};
  int64_t equal, steps;
  Text told = {0};
  EXPECT(twice_step(twice, 1, passes, &sound, &told) && !told.n && sound.pass == 2);
  EXPECT(engine_scalar(engine, "updates") == 0); /* it was only looked at */
  EXPECT(engine_update(engine, 1, 1e-2).applied && engine_scalar(engine, "updates") == 1);
  EXPECT(!twice_step(twice, 2, passes, &faulty, &told));
  EXPECT(told.n && strstr(told.at, "loss ") && strstr(told.at, "gradient norm ") &&
         strstr(told.at, "first in lm_head.weight, rank 0 ("));
  twice_count(twice, &equal, &steps);
  EXPECT(equal == 1 && steps == 2);
  text_close(&told);
  engine_close(engine);
  mesh_close(mesh);
  comm_close(comm);
  dev_close(dev);
  arena_close(arena);
}
