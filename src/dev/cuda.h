/* SPDX-License-Identifier: Apache-2.0 */
/* What the cuda back end is made of.  Private to the module hpctrain_cuda.so. */
#ifndef DEV_CUDA_H
#define DEV_CUDA_H

#include <cuda_runtime_api.h>

#include "src/dev/back.h"

enum { STAGES = 2, STAGE_BYTES = 8 << 20, ARCH_MOST = 16 };

/* Pinned host memory through which pageable memory is copied, a piece while the other is on its way. */
typedef struct Stage {
  void *at;
  cudaEvent_t free; /* the copy that used it last is over */
} Stage;

typedef struct Cuda {
  bool card; /* false: no GPU, builds only */
  int gpu;
  char name[256], arch[ARCH_MOST];
  cudaStream_t stream;
  cudaStream_t lanes[DEV_LANES]; /* of dev_move; NULL until one is opened */
  cudaEvent_t idle;              /* cuda_sync's */
  Stage stages[STAGES];
  size_t stage; /* whose turn it is in copies to the GPU */
} Cuda;

/* Every call of the runtime goes through this. */
#define CUDA(e) cuda_check((e), #e)
_Static_assert(sizeof(cudaUUID_t) == sizeof((DevCard *)NULL)->uuid, "a GPU's own number");
/* … or through this, where there is a plan B. */
#define CUDA_TRY(e, why) cuda_try((e), #e, why)

/* cuda_errors.c */
void cuda_check(cudaError_t error, const char *call);
bool cuda_try(cudaError_t error, const char *call, Why *why);

/* cuda_memory.c */
void cuda_memory(const Dev *dev, DevMemory *memory);
void cuda_holders(const Dev *dev, Text *out);

/* cuda_nvml.c: who computes on the GPU, none where the driver does not tell; what its sensors say. */
typedef struct NvmlProcess {
  unsigned pid;
  unsigned long long nbytes; /* all ones: not known */
  unsigned instances[2];
} NvmlProcess;
enum { NVML_PROCESSES = 64 };
typedef struct NvmlProcesses {
  unsigned n;
  NvmlProcess at[NVML_PROCESSES];
} NvmlProcesses;
void cuda_processes(int gpu, NvmlProcesses *all);
void cuda_sensors(const Dev *dev, bool errors, DevSensors *sensors);

/* cuda_cards.c */
bool cuda_try_card(int gpu, DevCard *card, Why *why);
int cuda_try_cards(DevCard *cards, int most, Why *why);

/* cuda_run.c: waiting for the GPU, and graphs. */
void cuda_wait(const Dev *dev, cudaEvent_t event);  /* on the host */
void cuda_await(const Dev *dev, cudaEvent_t event); /* in another thread than the device's: nobody looks meanwhile */
void cuda_sync(Dev *dev);
void cuda_capture_begin(Dev *dev);
void *cuda_capture_end(Dev *dev);
void cuda_graph_launch(DevGraph *graph);
void cuda_graph_close(DevGraph *graph);

/* cuda_word.c: *at, in mapped memory of the host, becomes word behind all that the stream was given before. */
void cuda_write_word(cudaStream_t stream, volatile uint32_t *at, uint32_t word);

/* cuda_move.c: the host's memory pinned, copies beside the computing. */
bool cuda_pin(Dev *dev, void *at, size_t nbytes, Why *why);
void cuda_unpin(Dev *dev, void *at);
void cuda_move_open(DevMove *move);
void cuda_move_start(DevMove *move);
void cuda_move_wait(DevMove *move);
void cuda_move_close(DevMove *move);
void cuda_aside_open(DevAside *aside);
void cuda_aside_begin(DevAside *aside, const DevEvent *behind);
void cuda_aside_part(DevAside *aside, void *to, const void *from, size_t nbytes);
void cuda_aside_await(DevAside *aside);
void cuda_aside_wait(DevAside *aside);
void cuda_aside_close(DevAside *aside);
void cuda_lanes_close(Cuda *cuda);

/* cuda_build.c: images.  After the head come the cubins. */
typedef struct CubinHead {
  char magic[8], arch[ARCH_MOST];
  uint64_t n, sizes[64];
} CubinHead;
bool cuda_try_build(Dev *dev, const char *const *texts, int n, void **image, size_t *nbytes, bool *hit, Why *why);
extern const char cubin_magic[8];

#endif
