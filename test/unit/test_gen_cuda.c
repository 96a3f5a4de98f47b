/* SPDX-License-Identifier: Apache-2.0 */
/* Generated CUDA code, as far as it goes without a GPU: NVRTC takes it for every architecture that a run may meet, and no
 * kernel's registers overflow into memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/exec/rates.h"
#include "src/train/setup.h"
#include "test/check.h"
#include "test/unit/cuda_kernels.h"
#include "test/unit/kernel_graphs.h"
#include "test/unit/random_kernel.h"

static const char *const archs[] = {"sm_80", "sm_90a", "sm_100a"};
enum { ARCHS = sizeof archs / sizeof *archs, RANDOM_KERNELS = 60 };

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

static void expect_compiled(const CudaKernels *kernels, Dev *dev) {
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

/* All programs that there are, of a step of three micro-steps.  more: with what no preset asks for of itself. */
static void add_preset(CudaKernels *kernels, const char *preset, int64_t positions, DType compute, DType moments, bool more) {
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

static void expect_compiled_for_all_take(CudaKernels *kernels) {
  for (int a = 0; a < ARCHS; a++) {
    Dev *dev = cuda_device_try(archs[a], 1);
    if (!dev) break;
    expect_compiled(kernels, dev);
    dev_close(dev);
  }
  cuda_kernels_close(kernels);
}

TEST(kernels_of_small_models_in_all_formats_compile_for_all_architectures_without_spills) {
  CudaKernels *kernels = cuda_kernels_open();
  add_preset(kernels, "llama-5m", 256, DT_F32, DT_BF16, false);
  add_preset(kernels, "llama-5m", 256, DT_F16, DT_F32, true);
  add_preset(kernels, "gpt2-124m", 256, DT_BF16, DT_F32, true);
  add_preset(kernels, "llama-5m", 256, DT_BF16, DT_F32, true);
  expect_compiled_for_all_take(kernels);
}

TEST(kernels_of_presets_compile_for_all_architectures_without_spills) {
  CudaKernels *kernels = cuda_kernels_open();
  add_preset(kernels, "llama2-7b", 4096, DT_F32, DT_F32, false);
  for (int i = 0; model_presets()[i]; i++) {
    add_preset(kernels, model_presets()[i], 2048, DT_BF16, i % 2 ? DT_BF16 : DT_F32, false);
  }
  expect_compiled_for_all_take(kernels);
}

/* Kernels of a graph as in a run; the text of the last. */
static const char *add_graph(CudaKernels *kernels, KernelGraph *build, int64_t n, int64_t m, DType type) {
  Arena *arena = arena_open();
  Graph *g = graph_open(arena);
  FuseOptions fuse = {
      .column_blocks = GPU_COLUMN_BLOCKS, .column_block_rows = GPU_COLUMN_BLOCK_ROWS, .column_block_width = GPU_COLUMN_BLOCK_WIDTH};
  int last = 0;
  build(g, n, m, type);
  const Program *p = fuse_program(arena, g, &fuse);
  for (int i = 0; i < p->nsteps; i++) last = cuda_kernels_add(kernels, p->steps[i].kernel, cuda_aligned(&p->steps[i]));
  arena_close(arena);
  return kernels->texts.at[last];
}

TEST(kernels_of_other_widths_compile_without_spills) {
  static KernelGraph *const graphs[] = {graph_norm, graph_norm_grad, graph_swiglu, graph_swiglu_grad, graph_loss, graph_transpose};
  static const int64_t widths[] = {48, 100, 768, 1001, 2048, 3072, 5120, 8192, 16384};
  static const DType types[] = {DT_BF16, DT_F16, DT_F32};
  CudaKernels *kernels = cuda_kernels_open();
  for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++)
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) add_graph(kernels, graphs[i], 512, widths[w], types[(i + w) % 3]);
  for (int i = 0; i < 3; i++) add_graph(kernels, graph_rope_qkv, 512, 128, types[i]);
  for (int i = 0; i < 3; i++) add_graph(kernels, graph_adamw, 1 << 20, 1, types[i]);
  add_graph(kernels, graph_adamw_brief, 1 << 20, 1, DT_BF16);
  add_graph(kernels, graph_hash_of, 1 << 20, 64, DT_F32);
  Dev *dev = cuda_device_try("sm_90a", 1);
  if (dev) expect_compiled(kernels, dev);
  if (dev) dev_close(dev);
  cuda_kernels_close(kernels);
}

TEST(accesses_are_of_16_bytes_where_they_can_be) {
  CudaKernels *kernels = cuda_kernels_open();
  const char *halves = add_graph(kernels, graph_copy_of, 4096, 1, DT_BF16),
             *odd = add_graph(kernels, graph_copy_of, 4097, 1, DT_BF16);
  EXPECT(strstr(halves, "HptHalves<hpt_bf16, 8>") && strstr(halves, "hpt_load(") && strstr(halves, "hpt_store("));
  EXPECT(!strstr(odd, "hpt_load(") && !strstr(odd, "hpt_store("));
  EXPECT(strstr(add_graph(kernels, graph_copy_of, 4100, 1, DT_BF16), "HptHalves<hpt_bf16, 4>"));
  EXPECT(strstr(add_graph(kernels, graph_cast, 4096, 1, DT_F16), "float h0[8];"));
  EXPECT(strstr(add_graph(kernels, graph_copy_of, 4096, 1, DT_F32), "float h0[4];"));
  EXPECT(strstr(add_graph(kernels, graph_adamw, 4096, 1, DT_BF16), "float y0[4];")); /* what is written leaves no gaps */
  cuda_kernels_close(kernels);
}

TEST(transposes_go_through_shared_memory) {
  CudaKernels *kernels = cuda_kernels_open();
  EXPECT(strstr(add_graph(kernels, graph_transpose, 64, 96, DT_BF16), "__shared__ float q0[32][33];"));
  EXPECT(!strstr(add_graph(kernels, graph_transpose, 64, 8, DT_BF16), "__shared__"));
  cuda_kernels_close(kernels);
}

TEST(programs_that_measure_a_gpu_compile_without_spills) {
  CudaKernels *kernels = cuda_kernels_open();
  Arena *arena = arena_open();
  const Program *programs[RATE_PROGRAMS];
  device_rate_programs(arena, &(Choices){.units_alive = 1, .matmul = "auto", .threads = 1, .cuda = true}, programs);
  for (int i = 0; i < RATE_PROGRAMS; i++)
    for (int s = 0; s < programs[i]->nsteps; s++) {
      const Step *step = &programs[i]->steps[s];
      EXPECT(step->kind == (i == RATE_PRODUCT ? STEP_BIG : STEP_KERNEL));
      if (step->kind == STEP_KERNEL) cuda_kernels_add(kernels, step->kernel, cuda_aligned(step));
    }
  Dev *dev = cuda_device_try("sm_90a", 1);
  if (dev) expect_compiled(kernels, dev);
  if (dev) dev_close(dev);
  arena_close(arena);
  cuda_kernels_close(kernels);
}

TEST(random_kernels_compile_without_spills) {
  Dev *dev = cuda_device_try("sm_90a", 1);
  if (!dev) return;
  CudaKernels *kernels = cuda_kernels_open();
  Arena *arena = arena_open();
  for (uint64_t i = 0; i < RANDOM_KERNELS; i++) cuda_kernels_add(kernels, kernel_random(arena, i)->kernel, i * 0x9e3779b97f4a7c15);
  expect_compiled(kernels, dev);
  arena_close(arena);
  cuda_kernels_close(kernels);
  dev_close(dev);
}
