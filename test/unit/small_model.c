/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/small_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "src/base/fail.h"
#include "src/base/file.h"

static char folder[64], compiler[96];

EngineOptions small_options(const SmallModel *model, int sequences, int positions, int passes, int ranks) {
  EngineOptions o = {.sequences = sequences,
                     .positions = positions,
                     .passes = passes,
                     .nominal_tokens = (double)sequences * positions * passes * ranks,
                     .adam = {0.9, 0.95, 1e-8, 0.1},
                     .clip = 0.5,
                     .choices = {.units_alive = 2, .matmul = "auto", .threads = 2},
                     .train = true,
                     .compiler = *compiler ? compiler : NULL};
  CHECK(model_preset("llama-5m", &o.model));
  o.model.layers = model->layers;
  o.model.vocab = model->vocab;
  o.model.heads = model->heads;
  o.model.kv_heads = model->heads > 1 ? model->heads / 2 : 1;
  o.model.head_dim = model->head_dim;
  o.model.hidden = model->heads * model->head_dim;
  o.model.intermediate = o.model.hidden * 5 / 3;
  o.model.init_std = 0.1;
  return o;
}

const char *small_folder(void) { return folder; }

void small_folder_open(void) {
  const char *place = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%.40s/small.XXXXXX", place ? place : "/tmp");
  CHECK(mkdtemp(folder));
  snprintf(compiler, sizeof compiler, "%s/cc", folder);
  FILE *f = fopen(compiler, "w");
  CHECK(f && fputs("#!/bin/sh\nexec cc \"$@\" -O1\n", f) >= 0 && fclose(f) == 0 && chmod(compiler, 0700) == 0);
}

void small_folder_close(void) { CHECK(try_tree_remove(folder, NULL)); }

Dev *small_device(const char *kind, bool interpreted, int threads) {
  return dev_open(&(DevOptions){.kind = kind, .compiler = interpreted ? "none" : compiler, .cache = folder, .threads = threads});
}

SmallRun small_run_open(const char *kind, const EngineOptions *o) {
  SmallRun r = {.arena = arena_open(), .dev = small_device(kind, o->interpreted, o->choices.threads), .comm = comm_self()};
  r.mesh = mesh_open(r.comm, (int[MESH_AXES]){1, 1, 1, 1, 1});
  r.engine = engine_open(r.arena, r.dev, r.comm, r.mesh, o);
  engine_start(r.engine);
  engine_init(r.engine, 3);
  return r;
}

void small_run_close(SmallRun *r) {
  engine_close(r->engine);
  mesh_close(r->mesh);
  comm_close(r->comm);
  dev_close(r->dev);
  arena_close(r->arena);
}
