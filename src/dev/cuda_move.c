/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between the GPU's memory and the host's beside what the GPU computes: a stream for each direction, which a copy engine
 * works off, tied to the stream of launches by events.  All of it can be captured: a start forks from that stream, its wait joins
 * it again. */
#include <stdlib.h>

#include "src/base/arena.h"
#include "src/dev/cuda.h"

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
  CUDA(cudaMemcpyAsync(move->to, move->from, move->nbytes, move->lane == DEV_IN ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
                       lane));
  CUDA(cudaEventRecord(move->over, lane));
}

void cuda_move_wait(DevMove *move) { CUDA(cudaStreamWaitEvent(((Cuda *)move->dev->own)->stream, move->over, 0)); }

void cuda_move_close(DevMove *move) {
  CUDA(cudaEventDestroy(move->ready));
  CUDA(cudaEventDestroy(move->over));
}

/* --- from another thread ------------------------------------------------------------------------------------------------- */

/* The parts' stream is none that the device's thread captures or launches into: the event that they come behind was recorded
 * before, and its wait follows the last of them. */
typedef struct Aside {
  cudaStream_t lane;
  cudaEvent_t over[ASIDE_PARTS]; /* part i's: i % ASIDE_PARTS */
  int64_t n;                     /* parts that were started */
} Aside;

void cuda_aside_open(DevAside *aside) {
  Aside *a = aside->own = xmalloc(sizeof *a);
  *a = (Aside){.lane = NULL};
  CUDA(cudaStreamCreateWithFlags(&a->lane, cudaStreamNonBlocking));
  for (int i = 0; i < ASIDE_PARTS; i++) a->over[i] = event_new();
}

void cuda_aside_begin(DevAside *aside, const DevEvent *behind) {
  Aside *a = aside->own;
  a->n = 0;
  CUDA(cudaSetDevice(((Cuda *)aside->dev->own)->gpu)); /* this thread's, which may be new */
  CUDA(cudaStreamWaitEvent(a->lane, behind->handle, 0));
}

void cuda_aside_part(DevAside *aside, void *to, const void *from, size_t nbytes) {
  Aside *a = aside->own;
  cudaEvent_t over = a->over[a->n % ASIDE_PARTS];
  if (a->n >= ASIDE_PARTS) cuda_await(aside->dev, over);
  CUDA(cudaMemcpyAsync(to, from, nbytes, cudaMemcpyDeviceToHost, a->lane));
  CUDA(cudaEventRecord(over, a->lane));
  a->n++;
}

void cuda_aside_await(DevAside *aside) {
  const Aside *a = aside->own;
  if (a->n) cuda_await(aside->dev, a->over[(a->n - 1) % ASIDE_PARTS]);
}

void cuda_aside_wait(DevAside *aside) {
  const Aside *a = aside->own;
  if (a->n) CUDA(cudaStreamWaitEvent(((Cuda *)aside->dev->own)->stream, a->over[(a->n - 1) % ASIDE_PARTS], 0));
}

void cuda_aside_close(DevAside *aside) {
  Aside *a = aside->own;
  for (int i = 0; i < ASIDE_PARTS; i++) CUDA(cudaEventDestroy(a->over[i]));
  CUDA(cudaStreamDestroy(a->lane));
  free(a);
}

void cuda_lanes_close(Cuda *cuda) {
  for (DevLane lane = 0; lane < DEV_LANES; lane++)
    if (cuda->lanes[lane]) CUDA(cudaStreamDestroy(cuda->lanes[lane]));
}
