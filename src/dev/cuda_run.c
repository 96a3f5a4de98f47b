/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for the GPU, and graphs.  The host never blocks in the runtime: it looks, sleeps a little and looks again, so that
 * whoever watches may end the job when what it waits for cannot come. */
#include <time.h>

#include "src/base/clock.h"
#include "src/dev/cuda.h"

static const double SPIN = 200e-6, LOOK_EVERY = 0.1; /* seconds */
/* ns: with what a sleep takes longer than that, less than a part of dev_aside_put is on its way, so that the next one follows it.
 */
enum { AWAIT_NAP = 50000 };

void cuda_wait(const Dev *dev, cudaEvent_t event) {
  double begin = clock_seconds(), looked = begin;
  cudaError_t state = cudaEventQuery(event);
  if (state != cudaErrorNotReady) {
    CUDA(state);
    return;
  }
  for (; state == cudaErrorNotReady; state = cudaEventQuery(event)) {
    double now = clock_seconds();
    if (now - begin > SPIN) nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    if (!dev->look || now - looked < LOOK_EVERY) continue;
    dev->look(dev->look_self, now - begin);
    looked = now;
  }
  (void)cudaGetLastError(); /* that it was not ready is no error */
  CUDA(state);
}

void cuda_await(const Dev *dev, cudaEvent_t event) {
  cudaError_t state;
  CUDA(cudaSetDevice(((Cuda *)dev->own)->gpu)); /* this thread's, which may be new */
  while ((state = cudaEventQuery(event)) == cudaErrorNotReady) nanosleep(&(struct timespec){.tv_nsec = AWAIT_NAP}, NULL);
  (void)cudaGetLastError();
  CUDA(state);
}

void cuda_sync(Dev *dev) {
  Cuda *cuda = dev->own;
  CHECK(cuda->card);
  CUDA(cudaEventRecord(cuda->idle, cuda->stream));
  cuda_wait(dev, cuda->idle);
}

/* --- graphs ------------------------------------------------------------------------------------------------------------- */

void cuda_capture_begin(Dev *dev) { CUDA(cudaStreamBeginCapture(((Cuda *)dev->own)->stream, cudaStreamCaptureModeThreadLocal)); }

void *cuda_capture_end(Dev *dev) {
  cudaStream_t stream = ((Cuda *)dev->own)->stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CUDA(cudaStreamEndCapture(stream, &graph));
  CUDA(cudaGraphInstantiate(&executable, graph, cudaGraphInstantiateFlagUseNodePriority)); /* streams have theirs */
  CUDA(cudaGraphDestroy(graph));
  return executable;
}

void cuda_graph_launch(DevGraph *graph) { CUDA(cudaGraphLaunch(graph->handle, ((Cuda *)graph->dev->own)->stream)); }

void cuda_graph_close(DevGraph *graph) { CUDA(cudaGraphExecDestroy(graph->handle)); }
