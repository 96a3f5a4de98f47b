/* SPDX-License-Identifier: Apache-2.0 */
/* What test_gen_cuda does for one architecture, for all of them. */
#include "test/check.h"
#include "test/unit/cuda_presets.h"

TEST(kernels_of_presets_compile_for_all_architectures_without_spills) {
  CudaKernels *kernels = cuda_kernels_open();
  cuda_kernels_add_presets(kernels);
  cuda_kernels_compile_take(kernels, NULL);
}
