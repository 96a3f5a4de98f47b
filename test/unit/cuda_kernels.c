/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/cuda_kernels.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/kernels.h"

/* Beside this program, or where the build left it: two folders above. */
const char *cuda_module_file(void) {
  static char path[PATH_MAX + 64];
  char folder[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1);
  CHECK(n > 0);
  folder[n] = 0;
  *strrchr(folder, '/') = 0;
  static const char *const places[] = {"", "/../.."};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    snprintf(path, sizeof path, "%s%s/hpctrain_cuda.so", folder, places[i]);
    if (access(path, F_OK) == 0) return path;
  }
  return NULL;
}

bool cuda_has_gpu(void) { return cuda_module_file() && access("/dev/nvidiactl", F_OK) == 0; }

Dev *cuda_device_try(const char *arch, int threads) {
  const char *module = cuda_module_file();
  const char *why = !module ? "built without CUDA" : !arch && !cuda_has_gpu() ? "no GPU on this machine" : NULL;
  if (why) fprintf(stderr, "note  skipped: %s\n", why);
  if (why) return NULL;
  return dev_open(&(DevOptions){.kind = "cuda", .cache = "", .threads = threads, .arch = arch, .module = module});
}

uint64_t cuda_aligned(const Step *step) {
  uint64_t aligned = 0;
  for (int i = 0; i < step->nin + step->nout; i++) {
    const StepArg *arg = i < step->nin ? &step->in[i] : &step->out[i - step->nin];
    if (arg->place.offset * (int64_t)dtype_size(arg->dtype) % 16 == 0) aligned |= (uint64_t)1 << i;
  }
  return aligned;
}

CudaKernels *cuda_kernels_open(void) {
  Arena *arena = arena_open();
  CudaKernels *kernels = arena_new(arena, CudaKernels);
  kernels->arena = arena;
  return kernels;
}

void cuda_kernels_close(CudaKernels *kernels) { arena_close(kernels->arena); }

int cuda_kernels_add(CudaKernels *kernels, const Kernel *kernel, uint64_t aligned) {
  Kernel plain = *kernel;
  plain.comment = NULL; /* kernels that differ in it alone are one */
  Text text = {0};
  GenLaunch launch = gen_cuda(&plain, "@", aligned, &text);
  int i = 0;
  while (i < kernels->texts.n && strcmp(kernels->texts.at[i], text.at)) i++;
  if (i == kernels->texts.n) {
    vec_push(kernels->arena, &kernels->texts, arena_strdup(kernels->arena, text.at));
    vec_push(kernels->arena, &kernels->launches, (DevLaunch){{(unsigned)launch.blocks, 1, 1}, {(unsigned)launch.threads, 1, 1}, 0});
  }
  text_close(&text);
  return i;
}

bool cuda_kernels_try_build(const CudaKernels *kernels, Dev *dev, int parts, void **image, size_t *nbytes, Why *why) {
  Text *texts = xmalloc(sizeof *texts * (size_t)parts);
  const char **at = xmalloc(sizeof *at * (size_t)parts);
  for (int p = 0; p < parts; p++) {
    texts[p] = (Text){0};
    text_printf(&texts[p], "%s", kernels_prelude_cuda());
    for (int i = p; i < kernels->texts.n; i += parts) {
      const char *text = kernels->texts.at[i], *name = strchr(text, '@');
      text_printf(&texts[p], "%.*sk%d%s\n", (int)(name - text), text, i, name + 1);
    }
    at[p] = texts[p].at;
  }
  bool built = dev_try_build(dev, at, parts, image, nbytes, NULL, why);
  for (int p = 0; p < parts; p++) text_close(&texts[p]);
  free(texts);
  free(at);
  return built;
}

DevModule *cuda_kernels_load(const CudaKernels *kernels, Dev *dev, int parts) {
  void *image;
  size_t nbytes;
  Why why = {""};
  if (!cuda_kernels_try_build(kernels, dev, parts, &image, &nbytes, &why)) fail(FAIL_MACHINE, "%s", why.text);
  DevModule *module = dev_load(dev, image, nbytes);
  free(image);
  return module;
}

void cuda_kernels_launch(const CudaKernels *kernels, Dev *dev, DevModule *module, int kernel, void *const *pointers, int n) {
  char symbol[16];
  snprintf(symbol, sizeof symbol, "k%d", kernel);
  dev_launch(dev, dev_symbol(module, symbol), pointers, n, &kernels->launches.at[kernel]);
}
