/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the CUDA module.  The program itself links nothing of CUDA, so that one installation serves login, CPU and GPU
 * nodes; what it needs of it is loaded here, when a cuda device is opened. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/base/text.h"
#include "src/dev/back.h"

static const char module_name[] = "hpctrain_cuda.so";

/* The folder of this program, with a "/" at its end. */
static void program_folder(char out[PATH_MAX]) {
  ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);
  out[n < 0 ? 0 : n] = 0;
  char *slash = strrchr(out, '/');
  out[slash ? slash - out + 1 : 0] = 0;
}

static bool try_open(const char *path, void **handle, Text *tried) {
  *handle = NULL;
  if (access(path, F_OK)) {
    text_printf(tried, "   %s: not there\n", path);
    return false;
  }
  *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!*handle) text_printf(tried, "   %s\n", dlerror());
  return *handle != NULL;
}

static void *module_open(const char *file, Text *tried) {
  char folder[PATH_MAX], path[PATH_MAX + 64];
  void *handle;
  if (file) {
    try_open(file, &handle, tried);
    return handle;
  }
  program_folder(folder);
  const char *places[][2] = {{folder, ""}, {folder, "../lib/hpctrain/"}, {PKGLIBDIR, "/"}};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    snprintf(path, sizeof path, "%s%s%s", places[i][0], places[i][1], module_name);
    if (try_open(path, &handle, tried)) return handle;
  }
  return NULL;
}

static void *handle;

const DevOps *cuda_module_find(const char *file) {
  static const CudaModule *module;
  static const size_t sizes[] = CUDA_MODULE_SIZES;
  if (module) return module->dev;
  Text tried = {0};
  text_printf(&tried, "%s", "");
  handle = module_open(file, &tried);
  if (!handle)
    fail(FAIL_MACHINE,
         "CUDA cannot be used: its part of the program, %s, does not load\n%shelp: where it is not there, build it: configure "
         "--with-cuda=DIR; where a library is missing, load CUDA's environment module or add its folder to LD_LIBRARY_PATH",
         module_name, tried.at);
  text_close(&tried);
  module = dlsym(handle, "hpctrain_cuda");
  if (!module || memcmp(module->sizes, sizes, sizeof sizes))
    fail(FAIL_MACHINE, "%s is of another build than this program\nhelp: install both from one build", module_name);
  return module->dev;
}

void *dev_cuda_symbol(const char *name) {
  cuda_module_find(NULL);
  void *at = dlsym(handle, name);
  if (!at)
    fail(FAIL_MACHINE, "%s has no '%s': it is of another build than this program\nhelp: install both from one build", module_name,
         name);
  return at;
}
