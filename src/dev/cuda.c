/* SPDX-License-Identifier: Apache-2.0 */
/* The cuda back end, on the runtime API alone: nothing here links the driver's library.  One stream, which orders all that is
 * started. */
#include "src/dev/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/arena.h"

/* --- opening ------------------------------------------------------------------------------------------------------------ */

/* Features of one architecture alone are to be had from 9.0 on. */
static void card_find(Cuda *cuda) {
  int n;
  CUDA(cudaGetDeviceCount(&n));
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  if (cuda->gpu < 0 || cuda->gpu >= n)
    fail(FAIL_MACHINE,
         "GPU %d is wanted, %d %s visible (CUDA_VISIBLE_DEVICES%s%s)\nhelp: fewer ranks a node, or nodes with more GPUs", cuda->gpu,
         n, n == 1 ? "is" : "are", visible ? "=" : " is not set", visible ? visible : "");
  struct cudaDeviceProp prop;
  CUDA(cudaSetDevice(cuda->gpu));
  CUDA(cudaGetDeviceProperties(&prop, cuda->gpu));
  snprintf(cuda->name, sizeof cuda->name, "%s", prop.name);
  snprintf(cuda->arch, sizeof cuda->arch, "sm_%d%d%s", prop.major, prop.minor, prop.major >= 9 ? "a" : "");
}

static void cuda_open(Dev *dev, const DevOptions *options) {
  Cuda *cuda = xmalloc(sizeof *cuda);
  *cuda = (Cuda){.card = !options->arch, .gpu = options->gpu};
  dev->own = cuda;
  cache_open(&dev->cache, options->cache, options->fallback);
  if (!cuda->card) {
    snprintf(cuda->arch, sizeof cuda->arch, "%s", options->arch);
    snprintf(dev->describe, sizeof dev->describe, "no GPU, code for %s", cuda->arch);
    return;
  }
  card_find(cuda);
  size_t available, total;
  CUDA(cudaMemGetInfo(&available, &total));
  snprintf(dev->describe, sizeof dev->describe, "%.200s, %.0f GiB, %s", cuda->name, (double)total / 0x1p30, cuda->arch);
  CUDA(cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking));
  CUDA(cudaEventCreateWithFlags(&cuda->idle, cudaEventDisableTiming));
  for (int i = 0; i < STAGES; i++) {
    CUDA(cudaMallocHost(&cuda->stages[i].at, STAGE_BYTES));
    CUDA(cudaEventCreateWithFlags(&cuda->stages[i].free, cudaEventDisableTiming));
  }
}

static void cuda_close(Dev *dev) {
  Cuda *cuda = dev->own;
  cache_close(&dev->cache);
  for (int i = 0; i < STAGES && cuda->card; i++) {
    CUDA(cudaFreeHost(cuda->stages[i].at));
    CUDA(cudaEventDestroy(cuda->stages[i].free));
  }
  cuda_lanes_close(cuda);
  if (cuda->card) CUDA(cudaEventDestroy(cuda->idle));
  if (cuda->card) CUDA(cudaStreamDestroy(cuda->stream));
  free(cuda);
}

static Cuda *card_of(const Dev *dev) {
  Cuda *cuda = dev->own;
  CHECK(cuda->card);
  return cuda;
}

/* --- memory ------------------------------------------------------------------------------------------------------------- */

static void *cuda_alloc(Dev *dev, size_t nbytes, Why *why) {
  const Cuda *cuda = card_of(dev);
  void *at = NULL;
  cudaError_t error = cudaMalloc(&at, nbytes ? nbytes : 1);
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError(); /* which forgets it */
    return why_not(why, "CUDA: %s (%s)", cudaGetErrorString(error), cudaGetErrorName(error)), NULL;
  }
  CUDA(error);
  CUDA(cudaMemsetAsync(at, 0, nbytes ? nbytes : 1, cuda->stream));
  return at;
}

static void cuda_free(Dev *dev, void *at, size_t nbytes) {
  (void)nbytes;
  cuda_sync(dev);
  CUDA(cudaFree(at));
}

static void copy_in(Dev *dev, char *to, const char *from, size_t nbytes) {
  Cuda *cuda = card_of(dev);
  for (size_t done = 0; done < nbytes;) {
    Stage *stage = &cuda->stages[cuda->stage++ % STAGES];
    size_t n = nbytes - done < STAGE_BYTES ? nbytes - done : STAGE_BYTES;
    cuda_wait(dev, stage->free);
    memcpy(stage->at, from + done, n);
    CUDA(cudaMemcpyAsync(to + done, stage->at, n, cudaMemcpyHostToDevice, cuda->stream));
    CUDA(cudaEventRecord(stage->free, cuda->stream));
    done += n;
  }
}

/* Piece i is on its way while piece i - 1 is taken off its stage. */
static void copy_out(Dev *dev, char *to, const char *from, size_t nbytes) {
  Cuda *cuda = card_of(dev);
  size_t pieces = (nbytes + STAGE_BYTES - 1) / STAGE_BYTES;
  for (size_t i = 0; i <= pieces && pieces; i++) {
    if (i < pieces) {
      Stage *stage = &cuda->stages[i % STAGES];
      size_t at = i * STAGE_BYTES, n = nbytes - at < STAGE_BYTES ? nbytes - at : STAGE_BYTES;
      cuda_wait(dev, stage->free);
      CUDA(cudaMemcpyAsync(stage->at, from + at, n, cudaMemcpyDeviceToHost, cuda->stream));
      CUDA(cudaEventRecord(stage->free, cuda->stream));
    }
    if (i) {
      const Stage *stage = &cuda->stages[(i - 1) % STAGES];
      size_t at = (i - 1) * STAGE_BYTES, n = nbytes - at < STAGE_BYTES ? nbytes - at : STAGE_BYTES;
      cuda_wait(dev, stage->free);
      memcpy(to + at, stage->at, n);
    }
  }
}

static void cuda_copy(Dev *dev, void *to, const void *from, size_t nbytes, Copy direction) {
  (direction == COPY_IN ? copy_in : copy_out)(dev, to, from, nbytes);
}

static void *cuda_host_alloc(Dev *dev, size_t nbytes) {
  void *at;
  card_of(dev);
  cudaError_t error = cudaMallocHost(&at, nbytes);
  if (error == cudaErrorMemoryAllocation) dev_host_memory_failed(nbytes, "copies to and from the GPU", cudaGetErrorString(error));
  CUDA(error);
  return at;
}

static void cuda_host_free(Dev *dev, void *at) {
  card_of(dev);
  CUDA(cudaFreeHost(at));
}

static void cuda_copy_start(Dev *dev, void *to, const void *from, size_t nbytes) {
  CUDA(cudaMemcpyAsync(to, from, nbytes, cudaMemcpyDefault, card_of(dev)->stream));
}

/* --- code --------------------------------------------------------------------------------------------------------------- */

typedef struct Cubin {
  cudaLibrary_t library;
  const char *bytes;
  size_t nbytes;
} Cubin;

typedef struct Cubins {
  void *bytes;
  int n;
  Cubin at[];
} Cubins;

static _Noreturn void image_refused(const char *reason) {
  fail(FAIL_MACHINE,
       "compiled code for a GPU cannot be used: %s\nhelp: remove the kernel cache (hpctrain in $XDG_CACHE_HOME, else in ~/.cache) "
       "and start again",
       reason);
}

/* The head, once all that it says fits the image. */
static const CubinHead *image_head(const void *image, size_t nbytes) {
  const CubinHead *head = image;
  if (!seal_holds(image, nbytes)) image_refused("it is damaged, its checksum does not hold");
  size_t left = nbytes - SEAL_SIZE;
  bool ok = left >= sizeof *head && !memcmp(head->magic, cubin_magic, sizeof head->magic) && !head->arch[ARCH_MOST - 1] &&
            head->n <= sizeof head->sizes / sizeof *head->sizes;
  if (!ok) image_refused("it is not of this program's making");
  left -= sizeof *head;
  for (uint64_t i = 0; i < head->n; i++) {
    if (head->sizes[i] > left) image_refused("it is shorter than it says");
    left -= head->sizes[i];
  }
  return head;
}

static void cuda_load(Dev *dev, DevModule *module, const void *image, size_t nbytes) {
  const Cuda *cuda = card_of(dev);
  const CubinHead *head = image_head(image, nbytes);
  char reason[512];
  snprintf(reason, sizeof reason, "it is for %s, GPU %d (%s) is %s; all ranks need GPUs of one kind", head->arch, cuda->gpu,
           cuda->name, cuda->arch);
  if (strcmp(head->arch, cuda->arch)) image_refused(reason);
  Cubins *cubins = xmalloc(sizeof *cubins + head->n * sizeof *cubins->at);
  cubins->n = (int)head->n;
  cubins->bytes = memcpy(xmalloc(nbytes), image, nbytes);
  const char *at = (const char *)cubins->bytes + sizeof *head;
  for (int i = 0; i < cubins->n; i++) {
    Cubin *cubin = &cubins->at[i];
    *cubin = (Cubin){.bytes = at, .nbytes = head->sizes[i]};
    cudaError_t error = cudaLibraryLoadData(&cubin->library, at, NULL, NULL, 0, NULL, NULL, 0);
    snprintf(reason, sizeof reason, "%s (%s)", cudaGetErrorString(error), cudaGetErrorName(error));
    if (error == cudaErrorMemoryAllocation) dev_memory_failed("compiled code", reason);
    if (error != cudaSuccess) image_refused(reason);
    at += head->sizes[i];
  }
  module->handle = cubins;
}

/* A cubin without the name in its bytes need not be asked: refusals are errors to tools that watch the API. */
static void *cuda_symbol(DevModule *module, const char *name) {
  const Cubins *cubins = module->handle;
  for (int i = 0; i < cubins->n; i++) {
    const Cubin *cubin = &cubins->at[i];
    if (!memmem(cubin->bytes, cubin->nbytes, name, strlen(name) + 1)) continue;
    cudaKernel_t kernel;
    cudaError_t error = cudaLibraryGetKernel(&kernel, cubin->library, name);
    if (error == cudaSuccess) return (void *)kernel;
    if (error != cudaErrorSymbolNotFound) CUDA(error);
    (void)cudaGetLastError(); /* the end of a longer name */
  }
  return NULL;
}

static void cuda_unload(DevModule *module) {
  Cubins *cubins = module->handle;
  for (int i = 0; i < cubins->n; i++) CUDA(cudaLibraryUnload(cubins->at[i].library));
  free(cubins->bytes);
  free(cubins);
}

/* --- running ------------------------------------------------------------------------------------------------------------ */

static void cuda_launch(Dev *dev, void *function, void *const *pointers, int n, const DevLaunch *launch) {
  enum { ARGS_MOST = 64 };
  void *args[ARGS_MOST];
  CHECK(n <= ARGS_MOST);
  for (int i = 0; i < n; i++) args[i] = (void *)&pointers[i];
  dim3 grid = {launch->grid[0], launch->grid[1], launch->grid[2]}, block = {launch->block[0], launch->block[1], launch->block[2]};
  CUDA(cudaLaunchKernel(function, grid, block, args, launch->shared, card_of(dev)->stream));
}

static void cuda_call(Dev *dev, void (*body)(void *self), void *self) {
  CUDA(cudaLaunchHostFunc(card_of(dev)->stream, body, self));
}

static void cuda_event_open(DevEvent *event) {
  card_of(event->dev);
  cudaEvent_t handle;
  CUDA(cudaEventCreate(&handle));
  event->handle = handle;
}

static void cuda_event_close(DevEvent *event) { CUDA(cudaEventDestroy(event->handle)); }

static void cuda_event_record(DevEvent *event) { CUDA(cudaEventRecord(event->handle, card_of(event->dev)->stream)); }

static void cuda_event_wait(const DevEvent *event) { cuda_wait(event->dev, event->handle); }

static void cuda_event_await(const DevEvent *event) { cuda_await(event->dev, event->handle); }

static double cuda_event_seconds(const DevEvent *a, const DevEvent *b) {
  float ms;
  cuda_event_wait(b);
  CUDA(cudaEventElapsedTime(&ms, a->handle, b->handle));
  return (double)ms * 1e-3;
}

static void cuda_card(const Dev *dev, DevCard *card) {
  Why why;
  if (!cuda_try_card(card_of(dev)->gpu, card, &why)) fail(FAIL_MACHINE, "%s", why.text);
}

static bool cuda_try_sync(Dev *dev, Why *why) { return CUDA_TRY(cudaStreamSynchronize(card_of(dev)->stream), why); }

static void *cuda_stream(Dev *dev) { return ((Cuda *)dev->own)->stream; }

static const DevOps dev_cuda = {.kind = "cuda",
                                .open = cuda_open,
                                .close = cuda_close,
                                .alloc = cuda_alloc,
                                .free = cuda_free,
                                .try_build = cuda_try_build,
                                .load = cuda_load,
                                .symbol = cuda_symbol,
                                .unload = cuda_unload,
                                .copy = cuda_copy,
                                .host_alloc = cuda_host_alloc,
                                .host_free = cuda_host_free,
                                .copy_start = cuda_copy_start,
                                .pin = cuda_pin,
                                .unpin = cuda_unpin,
                                .move_open = cuda_move_open,
                                .move_start = cuda_move_start,
                                .move_wait = cuda_move_wait,
                                .move_close = cuda_move_close,
                                .aside_open = cuda_aside_open,
                                .aside_begin = cuda_aside_begin,
                                .aside_part = cuda_aside_part,
                                .aside_await = cuda_aside_await,
                                .aside_wait = cuda_aside_wait,
                                .aside_close = cuda_aside_close,
                                .launch = cuda_launch,
                                .call = cuda_call,
                                .stream = cuda_stream,
                                .sync = cuda_sync,
                                .try_sync = cuda_try_sync,
                                .event_open = cuda_event_open,
                                .event_close = cuda_event_close,
                                .event_record = cuda_event_record,
                                .event_wait = cuda_event_wait,
                                .event_await = cuda_event_await,
                                .event_seconds = cuda_event_seconds,
                                .card = cuda_card,
                                .memory = cuda_memory,
                                .holders = cuda_holders,
                                .sensors = cuda_sensors,
                                .capture_begin = cuda_capture_begin,
                                .capture_end = cuda_capture_end,
                                .graph_launch = cuda_graph_launch,
                                .graph_close = cuda_graph_close};

const CudaModule hpctrain_cuda = {CUDA_MODULE_SIZES, &dev_cuda, cuda_try_cards};
