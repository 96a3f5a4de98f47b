/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA kernels of presets, and what is expected of any: NVRTC takes them, and no kernel's registers overflow into memory. */
#ifndef TEST_UNIT_CUDA_PRESETS_H
#define TEST_UNIT_CUDA_PRESETS_H

#include "src/base/dtype.h"
#include "test/unit/cuda_kernels.h"

/* Of all programs that there are, of a step of three micro-steps.  more: with what no preset asks for of itself. */
void cuda_kernels_add_preset(CudaKernels *kernels, const char *preset, int64_t positions, DType compute, DType moments, bool more);
void cuda_kernels_add_presets(CudaKernels *kernels); /* each in bf16, one in float32 */

void cuda_kernels_expect_compiled(const CudaKernels *kernels, Dev *dev);
/* For that architecture, or for every one that a run may meet when it is NULL; a note where hpctrain was built without CUDA. */
void cuda_kernels_compile_take(CudaKernels *kernels, const char *arch);

#endif
