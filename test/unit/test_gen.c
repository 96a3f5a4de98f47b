/* SPDX-License-Identifier: Apache-2.0 */
/* Generated C against a plain evaluation of the same kernels in double: random kernels over all ops, levels and strides, and
 * the corners by hand. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "src/base/rng.h"
#include "src/dev/dev.h"
#include "src/gen/gen.h"
#include "test/check.h"
#include "test/unit/random_kernel.h"

typedef void KernelRun(void *const *p, int threads);

typedef struct Built {
  Dev *dev;
  DevModule *module;
} Built;

static Dev *device_open(void) {
  return dev_open(&(DevOptions){.kind = "cpu", .compiler = "cc", .cache = check_folder(), .threads = 2});
}

/* The kernels as k0, k1, …, in `parts` translation units. */
static Built kernels_build(const Kernel *const *kernels, int n, int parts) {
  Built built = {device_open(), NULL};
  Text *texts = xmalloc(sizeof *texts * (size_t)parts);
  const char **at = xmalloc(sizeof *at * (size_t)parts);
  for (int p = 0; p < parts; p++) {
    texts[p] = (Text){0};
    text_printf(&texts[p], "%s", kernels_prelude());
    for (int i = p; i < n; i += parts) {
      char symbol[16];
      snprintf(symbol, sizeof symbol, "k%d", i);
      gen_c(kernels[i], symbol, &texts[p]);
    }
    at[p] = texts[p].at;
  }
  void *image;
  size_t nbytes;
  Why why = {""};
  if (!dev_try_build(built.dev, at, parts, &image, &nbytes, NULL, &why)) check_failed(__FILE__, __LINE__, "%s", why.text);
  built.module = dev_load(built.dev, image, nbytes);
  free(image);
  for (int p = 0; p < parts; p++) text_close(&texts[p]);
  free(texts);
  free(at);
  return built;
}

static KernelRun *built_kernel(const Built *built, int i) {
  char symbol[16];
  snprintf(symbol, sizeof symbol, "k%d", i);
  KernelRun *run;
  *(void **)&run = dev_symbol(built->module, symbol);
  return run;
}

static void built_close(Built *built) {
  dev_unload(built->module);
  dev_close(built->dev);
}

/* --- random kernels ----------------------------------------------------------------------------------------------------- */

enum { KERNELS = 160 };

static void print_case(const Kernel *k, int seed) {
  Text text = {0};
  gen_c(k, "k", &text);
  fprintf(stderr, "kernel of seed %d:\n%s", seed, text.at);
  text_close(&text);
}

/* The kernel on its data with so many threads: the memory after it. */
static void *case_run(const KernelCase *c, KernelRun *run, int threads) {
  char *memory = aligned_alloc(64, c->nbytes);
  CHECK(memory);
  memcpy(memory, c->memory, c->nbytes);
  void *p[STEP_ARGS];
  int nargs = c->kernel->ninputs + c->kernel->noutputs;
  for (int i = 0; i < nargs; i++) p[i] = memory + c->at[i];
  run(p, threads);
  return memory;
}

TEST(random_kernels_compute_what_their_values_say_on_any_number_of_threads) {
  Arena *arena = arena_open();
  KernelCase *cases[KERNELS];
  const Kernel *kernels[KERNELS];
  for (int i = 0; i < KERNELS; i++) {
    cases[i] = kernel_random(arena, (uint64_t)i);
    kernels[i] = cases[i]->kernel;
  }
  Built built = kernels_build(kernels, KERNELS, 2);
  for (int i = 0; i < KERNELS; i++) {
    KernelRun *run = built_kernel(&built, i);
    char *one = case_run(cases[i], run, 1);
    const char *wrong = kernel_compare(cases[i], one);
    if (*wrong) print_case(kernels[i], i);
    EXPECT_TEXT(wrong, "");
    for (int threads = 2; threads <= 3; threads++) {
      char *more = case_run(cases[i], run, threads);
      EXPECT(!memcmp(one, more, cases[i]->nbytes));
      free(more);
    }
    free(one);
  }
  built_close(&built);
  arena_close(arena);
}
