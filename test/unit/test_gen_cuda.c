/* SPDX-License-Identifier: Apache-2.0 */
/* Generated CUDA code, as far as it goes without a GPU: NVRTC takes it for every architecture that a run may meet, and no
 * kernel's registers overflow into memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/exec/rates.h"
#include "test/check.h"
#include "test/unit/cuda_presets.h"
#include "test/unit/kernel_graphs.h"
#include "test/unit/random_kernel.h"

enum { RANDOM_KERNELS = 60 };

TEST(kernels_of_small_models_in_all_formats_compile_for_all_architectures_without_spills) {
  CudaKernels *kernels = cuda_kernels_open();
  cuda_kernels_add_preset(kernels, "llama-5m", 256, DT_F32, DT_BF16, false);
  cuda_kernels_add_preset(kernels, "llama-5m", 256, DT_F16, DT_F32, true);
  cuda_kernels_add_preset(kernels, "gpt2-124m", 256, DT_BF16, DT_F32, true);
  cuda_kernels_add_preset(kernels, "llama-5m", 256, DT_BF16, DT_F32, true);
  cuda_kernels_compile_take(kernels, NULL);
}

/* For the other architectures: test_gen_cuda_all. */
TEST(kernels_of_presets_compile_without_spills) {
  CudaKernels *kernels = cuda_kernels_open();
  cuda_kernels_add_presets(kernels);
  cuda_kernels_compile_take(kernels, "sm_90a");
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
  if (dev) cuda_kernels_expect_compiled(kernels, dev);
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
  if (dev) cuda_kernels_expect_compiled(kernels, dev);
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
  cuda_kernels_expect_compiled(kernels, dev);
  arena_close(arena);
  cuda_kernels_close(kernels);
  dev_close(dev);
}
