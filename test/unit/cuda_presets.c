/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/cuda_presets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/train/setup.h"
#include "test/check.h"

static const char *const archs[] = {"sm_80", "sm_90a", "sm_100a"};
enum { ARCHS = sizeof archs / sizeof *archs };

/* The first kernel of ptxas' log with "N bytes spill stores", N not 0; "" when there is none. */
static const char *spilling(const char *log) {
  static char line[1024];
  for (const char *at = log; (at = strstr(at, " bytes spill stores")); at++) {
    const char *number = at;
    while (number > log && number[-1] >= '0' && number[-1] <= '9') number--;
    if (strtol(number, NULL, 10) == 0) continue;
    const char *from = number;
    for (int lines = 0; from > log && lines < 2; lines += *--from == '\n') continue;
    snprintf(line, sizeof line, "%.*s", (int)(number - from) + 100, from);
    return line;
  }
  return "";
}

void cuda_kernels_expect_compiled(const CudaKernels *kernels, Dev *dev) {
  void *image;
  size_t nbytes;
  Why why = {""};
  if (!cuda_kernels_try_build(kernels, dev, 1, &image, &nbytes, &why)) check_failed(__FILE__, __LINE__, "%s", why.text);
  free(image);
  int told = 0;
  for (const char *at = dev_build_log(dev); (at = strstr(at, "Compiling entry function")); at++) told++;
  EXPECT(told == kernels->texts.n);
  const char *words = spilling(dev_build_log(dev)), *name = strstr(words, " for k");
  if (name) fprintf(stderr, "%s", kernels->texts.at[atoi(name + 6)]);
  EXPECT_TEXT(words, "");
}

static void add_programs(CudaKernels *kernels, const EngineOptions *o, int programs) {
  Arena *arena = arena_open();
  Comm *comm = comm_self();
  Dev *dev = dev_open(&(DevOptions){.kind = "null", .threads = 1});
  Engine *engine = engine_open(arena, dev, comm, mesh_data_parallel(comm, 1), o);
  for (int i = 0; i < programs; i++) {
    const Program *p = job_program(engine_job(engine), i);
    for (int s = 0; s < p->nsteps; s++)
      if (p->steps[s].kind == STEP_KERNEL) cuda_kernels_add(kernels, p->steps[s].kernel, cuda_aligned(&p->steps[s]));
  }
  engine_close(engine);
  dev_close(dev);
  arena_close(arena);
}

void cuda_kernels_add_preset(CudaKernels *kernels, const char *preset, int64_t positions, DType compute, DType moments, bool more) {
  EngineOptions o = {.sequences = 2, .positions = positions, .passes = 3, .nominal_tokens = 1000};
  EXPECT(model_preset(preset, &o.model));
  if (o.positions > o.model.max_positions) o.positions = o.model.max_positions;
  if (more) o.dropout = (ModelDropout){0.1, 0.1}, o.z_loss = 1e-4;
  if (o.model.experts) o.router = (ModelRouterLosses){0.02, 1e-3};
  o.adam = (AdamW){0.9, 0.95, 1e-8, 0.1};
  o.clip = 1;
  o.moments = moments;
  o.choices = (Choices){.units_alive = 2, .threads = 1, .matmul = "auto", .compute = compute, .cuda = true};
  o.train = o.eval = true;
  add_programs(kernels, &o, 5);
  o.train = o.eval = false;
  o.generate = o.score = true;
  o.sequences = 1;
  o.slots = 3;
  o.kept = o.model.max_positions;
  add_programs(kernels, &o, 3);
}

void cuda_kernels_compile_take(CudaKernels *kernels, const char *only) {
  for (int a = 0; a < ARCHS; a++) {
    if (only && strcmp(only, archs[a])) continue;
    Dev *dev = cuda_device_try(archs[a], 1);
    if (!dev) break;
    cuda_kernels_expect_compiled(kernels, dev);
    dev_close(dev);
  }
  cuda_kernels_close(kernels);
}

void cuda_kernels_add_presets(CudaKernels *kernels) {
  cuda_kernels_add_preset(kernels, "llama2-7b", 4096, DT_F32, DT_F32, false);
  for (int i = 0; model_presets()[i]; i++)
    cuda_kernels_add_preset(kernels, model_presets()[i], 2048, DT_BF16, i % 2 ? DT_BF16 : DT_F32, false);
}
