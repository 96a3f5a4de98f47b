/* SPDX-License-Identifier: Apache-2.0 */
/* A word in the host's memory that a stream writes when it gets there.  The stream's own queue does it, not a copy engine: a copy
 * of four bytes would come behind all else that is on its way to the host, a checkpoint for one, and hold up what follows it. */
#include <cuda.h>

#include "src/base/fail.h"
#include "src/dev/cuda.h"

typedef CUresult WriteWord(CUstream stream, CUdeviceptr at, cuuint32_t word, unsigned flags);

enum { SINCE = 12000 }; /* the version of CUDA whose meaning of the call is wanted */

/* The runtime has no such call; the driver's is asked for by name, so that nothing links libcuda. */
static WriteWord *write_word_find(void) {
  enum cudaDriverEntryPointQueryResult found;
  void *at = NULL;
  CUDA(cudaGetDriverEntryPointByVersion("cuStreamWriteValue32", &at, SINCE, cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess)
    fail(FAIL_MACHINE, "the driver of this node's GPUs has no cuStreamWriteValue32\nhelp: a newer driver: CUDA 12's or later");
  return (WriteWord *)(uintptr_t)at;
}

void cuda_write_word(cudaStream_t stream, volatile uint32_t *at, uint32_t word) {
  static WriteWord *write_word;
  void *of_device;
  if (!write_word) write_word = write_word_find();
  CUDA(cudaHostGetDevicePointer(&of_device, (void *)at, 0));
  CUDA((cudaError_t)write_word(stream, (CUdeviceptr)of_device, word, CU_STREAM_WRITE_VALUE_DEFAULT)); /* the same numbers */
}
