/* SPDX-License-Identifier: Apache-2.0 */
/* The cuda device, and generated kernels on it against a plain evaluation in double. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/rng.h"
#include "test/check.h"
#include "test/unit/cuda_kernels.h"
#include "test/unit/kernel_graphs.h"
#include "test/unit/random_kernel.h"
#include "test/unit/rounding.h"

enum { KERNELS = 200, THREADS = 8 };

/* --- refusals: first, and each in a child that alone opens the GPU, since CUDA does not outlive a fork ------------------- */

static Dev *device_open(int gpu) {
  return dev_open(&(DevOptions){.kind = "cuda", .cache = "", .threads = 1, .gpu = gpu, .module = cuda_module_file()});
}

TEST(a_gpu_that_is_not_there_is_told) {
  if (!cuda_has_gpu()) return;
  EXPECT_FAIL(FAIL_MACHINE, "GPU 99 is wanted", { device_open(99); });
}

TEST(memory_that_is_not_there_names_sizes_and_remedy) {
  if (!cuda_has_gpu()) return;
  EXPECT_FAIL(FAIL_MACHINE, "no memory for all: 4096.000 GiB wanted, ", { dev_alloc(device_open(0), (size_t)1 << 42, "all"); });
}

/* What a GPU without the features of this one would run. */
static void *foreign_image(size_t *nbytes) {
  Dev *other = cuda_device_try("sm_120", 1);
  CudaKernels *kernels = cuda_kernels_open();
  Arena *arena = arena_open();
  cuda_kernels_add(kernels, kernel_random(arena, 1)->kernel, 0);
  void *image;
  CHECK(cuda_kernels_try_build(kernels, other, 1, &image, nbytes, NULL));
  dev_close(other);
  arena_close(arena);
  cuda_kernels_close(kernels);
  return image;
}

TEST(code_for_another_gpu_or_damaged_code_is_refused) {
  if (!cuda_has_gpu()) return;
  EXPECT_FAIL(FAIL_MACHINE, "it is for sm_120, GPU 0 (", {
    size_t nbytes;
    void *image = foreign_image(&nbytes);
    dev_load(device_open(0), image, nbytes);
  });
  EXPECT_FAIL(FAIL_MACHINE, "its checksum does not hold", {
    size_t nbytes;
    char *image = foreign_image(&nbytes);
    image[nbytes / 2] ^= 1;
    dev_load(device_open(0), image, nbytes);
  });
}

/* --- memory ------------------------------------------------------------------------------------------------------------- */

TEST(memory_is_zeroed_and_copies_arrive) {
  Dev *dev = cuda_device_try(NULL, 1);
  if (!dev) return;
  static const size_t sizes[] = {0, 1, 4097, (8 << 20) - 1, 8 << 20, (16 << 20) + 3, (40 << 20) + 5};
  Rng rng = rng_make(1, RNG_TEST, "copies", 0);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    size_t n = sizes[i];
    char *in = xmalloc(n + 1), *out = xmalloc(n + 1), *at = dev_alloc(dev, n, "test");
    memset(out, 1, n);
    dev_copy_out(dev, out, at, n);
    for (size_t k = 0; k < n; k++) EXPECT(out[k] == 0);
    for (size_t k = 0; k < n; k += 4) {
      uint32_t words[4];
      rng_words(&rng, k, words);
      memcpy(in + k, words, n - k < 4 ? n - k : 4);
    }
    char *copy = memcpy(xmalloc(n + 1), in, n);
    dev_copy_in(dev, at, copy, n);
    memset(copy, 0, n); /* as its owner may */
    dev_copy_out(dev, out, at, n);
    EXPECT(!memcmp(in, out, n));
    dev_free(dev, at, n);
    free(in), free(out), free(copy);
  }
  EXPECT(dev_allocated(dev) == 0 && dev_allocated_peak(dev) == sizes[6]);
  dev_close(dev);
}

/* --- random kernels ----------------------------------------------------------------------------------------------------- */

/* The memory after a run of the case, which lies `shift` bytes behind a multiple of 256. */
static char *case_run(const KernelCase *c, Dev *dev, const CudaKernels *kernels, DevModule *module, int kernel, size_t shift) {
  char *base = dev_alloc(dev, c->nbytes + shift, "case"), *left = xmalloc(c->nbytes);
  dev_copy_in(dev, base + shift, c->memory, c->nbytes);
  void *p[STEP_ARGS];
  int nargs = c->kernel->ninputs + c->kernel->noutputs;
  for (int i = 0; i < nargs; i++) p[i] = base + shift + c->at[i];
  cuda_kernels_launch(kernels, dev, module, kernel, p, nargs);
  dev_copy_out(dev, left, base + shift, c->nbytes);
  dev_free(dev, base, c->nbytes + shift);
  return left;
}

static uint64_t case_aligned(const KernelCase *c) {
  uint64_t aligned = 0;
  for (int i = 0; i < c->kernel->ninputs + c->kernel->noutputs; i++) aligned |= (uint64_t)(c->at[i] % 16 == 0) << i;
  return aligned;
}

/* The kernel as it is, and as it would be were nothing aligned: on memory that is not. */
TEST(random_kernels_compute_what_their_values_say_with_the_same_bits_wherever_they_lie) {
  Dev *dev = cuda_device_try(NULL, THREADS);
  if (!dev) return;
  Arena *arena = arena_open();
  CudaKernels *kernels = cuda_kernels_open();
  KernelCase *cases[KERNELS];
  int plain[KERNELS], shifted[KERNELS];
  for (int i = 0; i < KERNELS; i++) {
    cases[i] = kernel_random(arena, (uint64_t)i);
    plain[i] = cuda_kernels_add(kernels, cases[i]->kernel, case_aligned(cases[i]));
    shifted[i] = cuda_kernels_add(kernels, cases[i]->kernel, 0);
  }
  DevModule *module = cuda_kernels_load(kernels, dev, 2 * THREADS);
  for (int i = 0; i < KERNELS; i++) {
    char *left = case_run(cases[i], dev, kernels, module, plain[i], 0);
    const char *wrong = kernel_compare(cases[i], left);
    if (*wrong) fprintf(stderr, "kernel of seed %d:\n%s", i, kernels->texts.at[plain[i]]);
    EXPECT_TEXT(wrong, "");
    for (int again = 0; again < 2; again++) {
      char *more = case_run(cases[i], dev, kernels, module, again ? shifted[i] : plain[i], again ? 8 : 0);
      if (memcmp(left, more, cases[i]->nbytes)) fprintf(stderr, "kernel of seed %d, run %d\n", i, again);
      EXPECT(!memcmp(left, more, cases[i]->nbytes));
      free(more);
    }
    free(left);
  }
  dev_unload(module);
  dev_close(dev);
  cuda_kernels_close(kernels);
  arena_close(arena);
}

/* --- by hand ------------------------------------------------------------------------------------------------------------ */

/* As vectors, and as single accesses: no chunk divides the second row. */
TEST(kernels_round_to_16_bits_as_the_host_does) {
  Dev *dev = cuda_device_try(NULL, THREADS);
  if (!dev) return;
  Arena *arena = arena_open();
  for (int less = 0; less < 2; less++) {
    RoundingCase c = rounding_case(arena, ROUNDING_FLOATS - less);
    CudaKernels *kernels = cuda_kernels_open();
    cuda_kernels_add(kernels, c.kernel, UINT64_MAX);
    DevModule *module = cuda_kernels_load(kernels, dev, 1);
    void *p[1 + ROUNDING_OUTPUTS] = {dev_alloc(dev, c.in_bytes, "floats")};
    for (int o = 0; o < ROUNDING_OUTPUTS; o++) p[1 + o] = dev_alloc(dev, c.out_bytes[o], "rounded");
    dev_copy_in(dev, p[0], c.in, c.in_bytes);
    cuda_kernels_launch(kernels, dev, module, 0, p, 1 + ROUNDING_OUTPUTS);
    for (int o = 0; o < ROUNDING_OUTPUTS; o++) {
      dev_copy_out(dev, c.out[o], p[1 + o], c.out_bytes[o]);
      dev_free(dev, p[1 + o], c.out_bytes[o]);
    }
    EXPECT_TEXT(rounding_compare(&c), "");
    dev_free(dev, p[0], c.in_bytes);
    dev_unload(module);
    cuda_kernels_close(kernels);
  }
  arena_close(arena);
  dev_close(dev);
}

/* Elements are their own numbers: 16 bits hold them all apart. */
static void expect_transposed(Dev *dev, DType type, int64_t n, int64_t m) {
  Arena *arena = arena_open();
  Graph *g = graph_open(arena);
  graph_transpose(g, n, m, type);
  const Program *program = fuse_program(arena, g, &(FuseOptions){0});
  EXPECT(program->nsteps == 1);
  CudaKernels *kernels = cuda_kernels_open();
  cuda_kernels_add(kernels, program->steps[0].kernel, cuda_aligned(&program->steps[0]));
  DevModule *module = cuda_kernels_load(kernels, dev, 1);
  size_t size = dtype_size(type), nbytes = size * (size_t)(n * m);
  char *x = arena_alloc(arena, nbytes), *y = arena_alloc(arena, nbytes);
  for (size_t i = 0; i < nbytes / 2; i++) ((uint16_t *)x)[i] = (uint16_t)(i % 0x7c00); /* no NaN */
  void *p[] = {dev_alloc(dev, nbytes, "x"), dev_alloc(dev, nbytes, "y")};
  dev_copy_in(dev, p[0], x, nbytes);
  cuda_kernels_launch(kernels, dev, module, 0, p, 2);
  dev_copy_out(dev, y, p[1], nbytes);
  int wrong = 0;
  for (int64_t i = 0; i < n * m; i++) wrong += memcmp(x + (size_t)i * size, y + (size_t)(i % m * n + i / m) * size, size) != 0;
  EXPECT(wrong == 0);
  for (int i = 0; i < 2; i++) dev_free(dev, p[i], nbytes);
  dev_unload(module);
  cuda_kernels_close(kernels);
  arena_close(arena);
}

TEST(transposes_put_every_element_where_it_belongs) {
  Dev *dev = cuda_device_try(NULL, THREADS);
  if (!dev) return;
  static const int64_t shapes[][2] = {{64, 96}, {16, 16}, {33, 1000}, {1000, 31}, {5, 7}, {4096, 257}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    expect_transposed(dev, DT_F32, shapes[i][0], shapes[i][1]);
    expect_transposed(dev, DT_BF16, shapes[i][0], shapes[i][1]);
    expect_transposed(dev, DT_F16, shapes[i][0], shapes[i][1]);
  }
  dev_close(dev);
}
