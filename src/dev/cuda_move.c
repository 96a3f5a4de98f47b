/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between the GPU's memory and the host's beside what the GPU computes: a stream for each direction, which a copy engine
 * works off, tied to the stream of launches by events.  All of it can be captured: a start forks from that stream, its wait joins
 * it again. */
#include "src/dev/cuda.h"

/* A copy of much is cut into such pieces, between which small ones of other streams take their turn. */
enum { ASIDE_BYTES = 32 << 20 };

bool cuda_pin(Dev *dev, void *at, size_t nbytes, Why *why) {
  CUDA(cudaSetDevice(((Cuda *)dev->own)->gpu)); /* this thread's, which may be new */
  cudaError_t error = cudaHostRegister(at, nbytes ? nbytes : 1, cudaHostRegisterPortable | cudaHostRegisterMapped);
  if (error == cudaSuccess) return true;
  (void)cudaGetLastError();
  return why_not(why, "%s", cudaGetErrorString(error));
}

void cuda_unpin(Dev *dev, void *at) {
  cuda_sync(dev);
  CUDA(cudaHostUnregister(at));
}

static cudaEvent_t event_new(void) {
  cudaEvent_t event;
  CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

void cuda_move_open(DevMove *move) {
  Cuda *cuda = move->dev->own;
  CHECK(cuda->card);
  cudaStream_t *lane = &cuda->lanes[move->lane];
  if (!*lane) CUDA(cudaStreamCreateWithFlags(lane, cudaStreamNonBlocking));
  move->ready = event_new();
  move->over = event_new();
}

void cuda_move_start(DevMove *move) {
  Cuda *cuda = move->dev->own;
  cudaStream_t lane = cuda->lanes[move->lane];
  CUDA(cudaEventRecord(move->ready, cuda->stream));
  CUDA(cudaStreamWaitEvent(lane, move->ready, 0));
  size_t most = move->lane == DEV_ASIDE ? ASIDE_BYTES : move->nbytes;
  for (size_t done = 0; done < move->nbytes; done += most)
    CUDA(cudaMemcpyAsync((char *)move->to + done, (const char *)move->from + done,
                         move->nbytes - done < most ? move->nbytes - done : most,
                         move->lane == DEV_IN ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, lane));
  CUDA(cudaEventRecord(move->over, lane));
}

void cuda_move_await(DevMove *move) { cuda_await(move->dev, move->over); }

void cuda_move_wait(DevMove *move) { CUDA(cudaStreamWaitEvent(((Cuda *)move->dev->own)->stream, move->over, 0)); }

void cuda_move_close(DevMove *move) {
  CUDA(cudaEventDestroy(move->ready));
  CUDA(cudaEventDestroy(move->over));
}

void cuda_lanes_close(Cuda *cuda) {
  for (DevLane lane = 0; lane < DEV_LANES; lane++)
    if (cuda->lanes[lane]) CUDA(cudaStreamDestroy(cuda->lanes[lane]));
}
