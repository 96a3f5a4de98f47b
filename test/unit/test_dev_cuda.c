/* SPDX-License-Identifier: Apache-2.0 */
/* The cuda device without a GPU: what it builds and what it refuses to.  test/gpu/test_cuda.c has the rest. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/check.h"
#include "test/unit/cuda_kernels.h"

static const char good[] = "extern \"C\" __global__ void good(int *x) { x[threadIdx.x] = 1; }\n";
static const char more[] = "extern \"C\" __global__ void more(int *x) { x[threadIdx.x] = 2; }\n";
static const char wrong[] = "extern \"C\" __global__ void wrong(int *x) {\n  x[0] = nothing;\n}\n";

static Dev *device_open(const char *arch) {
  return dev_open(&(DevOptions){.kind = "cuda", .cache = check_folder(), .threads = 2, .arch = arch, .module = cuda_module_file()});
}

static bool built(void) {
  if (!cuda_module_file()) fprintf(stderr, "note  skipped: built without CUDA\n");
  return cuda_module_file() != NULL;
}

TEST(texts_are_built_once_and_found_again) {
  if (!built()) return;
  for (int i = 0; i < 3; i++) { /* the third for another GPU */
    Dev *dev = device_open(i < 2 ? "sm_90a" : "sm_80");
    void *image;
    size_t nbytes;
    bool hit;
    Why why = {""};
    bool ok = dev_try_build(dev, (const char *[]){good, more}, 2, &image, &nbytes, &hit, &why);
    EXPECT_TEXT(why.text, "");
    EXPECT(ok && hit == (i == 1) && dev_cache_note(dev) == NULL);
    EXPECT(!strstr(dev_build_log(dev), "registers") == hit);
    free(image);
    dev_close(dev);
  }
}

TEST(an_error_of_nvrtc_is_told_with_its_line) {
  if (!built()) return;
  Dev *dev = device_open("sm_80");
  void *image;
  size_t nbytes;
  Why why;
  EXPECT(!dev_try_build(dev, (const char *[]){good, wrong, more}, 3, &image, &nbytes, NULL, &why));
  EXPECT(strstr(why.text, "k1.cu(2): error: identifier \"nothing\" is undefined"));
  EXPECT(strstr(why.text, "\n   line:   x[0] = nothing;\n"));
  dev_close(dev);
}

TEST(a_gpu_that_nvrtc_does_not_know_is_named) {
  if (!built()) return;
  Dev *dev = device_open("sm_7");
  void *image;
  size_t nbytes;
  Why why;
  EXPECT(!dev_try_build(dev, (const char *[]){good}, 1, &image, &nbytes, NULL, &why));
  EXPECT(strstr(why.text, "NVRTC cannot build the kernels for sm_7") && strstr(why.text, "a newer CUDA toolkit"));
  dev_close(dev);
}

TEST(without_a_gpu_the_device_does_not_open) {
  if (!built() || cuda_has_gpu()) return;
  EXPECT_FAIL(FAIL_MACHINE, "error: CUDA: ", { device_open(NULL); });
  EXPECT_FAIL(FAIL_MACHINE, "help: the driver is missing, or older than the CUDA toolkit", { device_open(NULL); });
}
