/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the CUDA module.  The program itself links nothing of CUDA, so that one installation serves login, CPU and GPU
 * nodes; what it needs of it is loaded here, when a cuda device is opened. */
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "src/base/module.h"
#include "src/dev/back.h"

static const char module_name[] = "hpctrain_cuda.so";

static void *handle;

const CudaModule *cuda_module_try(const char *file, Why *why) {
  static const CudaModule *module;
  static const size_t sizes[] = CUDA_MODULE_SIZES;
  if (module) return module;
  Text tried = {0};
  text_printf(&tried, "%s", "");
  handle = module_open(module_name, file, &tried);
  if (!handle)
    why_not(why,
            "CUDA cannot be used: its part of the program, %s, does not load\n%shelp: where it is not there, build it: configure "
            "--with-cuda=DIR; where a library is missing, load CUDA's environment module or add its folder to LD_LIBRARY_PATH",
            module_name, tried.at);
  text_close(&tried);
  if (!handle) return NULL;
  const CudaModule *found = dlsym(handle, "hpctrain_cuda");
  if (!found || memcmp(found->sizes, sizes, sizeof sizes))
    return why_not(why, "%s is of another build than this program\nhelp: install both from one build", module_name), NULL;
  return module = found;
}

const CudaModule *cuda_module_find(const char *file) {
  Why why;
  const CudaModule *module = cuda_module_try(file, &why);
  if (!module) fail(FAIL_MACHINE, "%s", why.text);
  return module;
}

int dev_try_cards(DevCard *cards, int most, bool quick, Why *why) {
  if (quick && access("/dev/nvidiactl", F_OK) && access("/dev/dxg", F_OK)) /* the latter under Windows */
    return why_not(why, "no NVIDIA GPU here (there is no /dev/nvidiactl)"), -1;
  const CudaModule *module = cuda_module_try(NULL, why);
  return module ? module->try_cards(cards, most, why) : -1;
}

void *dev_cuda_symbol(const char *name) {
  cuda_module_find(NULL);
  void *at = dlsym(handle, name);
  if (!at)
    fail(FAIL_MACHINE, "%s has no '%s': it is of another build than this program\nhelp: install both from one build", module_name,
         name);
  return at;
}
