/* SPDX-License-Identifier: Apache-2.0 */
/* Speed of NCCL between the GPUs of this node, a JSON line a measurement:
 *   mpirun -np GPUS bench_nccl [MAX_CTAS…]     at most so many blocks a collective (0: NCCL's choice); all of it for each
 * Bus GB/s as nccl-tests counts them: bytes of the whole · (R-1)/R, twice that for all-reduce.  registered: buffers known to the
 * communicator before (ncclCommRegister; NCCL_LEGACY_CUDA_REGISTER=1 makes NCCL use it on memory of cudaMalloc).  overlap: a
 * collective repeated beside a matrix product repeated, and how much longer each takes than alone.  told: with the two copies of
 * 4 bytes around it that tell the host where it is.  by copies: the GPUs' copy engines fetch the parts, without NCCL; the own part,
 * which may be a kernel's work after all, is left out in a second measurement. */
#include <cublasLt.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/arena.h"
#include "src/base/clock.h"
#include "src/comm/comm.h"

static Comm *comm;
static int R, me;

static void must(bool ok, const char *what, const char *words) {
  if (!ok) fail(FAIL_MACHINE, "%s: %s", what, words);
}
#define CUDA(e) must_cuda((e), #e)
static void must_cuda(cudaError_t e, const char *what) { must(e == cudaSuccess, what, cudaGetErrorString(e)); }
#define NCCL(e) must_nccl((e), #e)
static void must_nccl(ncclResult_t e, const char *what) { must(e == ncclSuccess, what, ncclGetErrorString(e)); }
#define LT(e) must((e) == CUBLAS_STATUS_SUCCESS, #e, "no success")

typedef enum Kind { GATHER, COPIES, OTHERS, SCATTER, REDUCE, KINDS } Kind;
static const char *const names[] = {"all_gather", "all_gather by copies", "all_gather by copies but for the own part",
                                    "reduce_scatter", "all_reduce"};

enum { MIB = 1 << 20, MOST = 1 << 30, BURST = 20 };
static char *whole, *part;
static char **parts;            /* by rank, as this one sees them */
static uint32_t *word, *number; /* the host's, the GPU's */

/* The copy engines read the parts of others where they lie, the next rank's first. */
static void start_copies(size_t share, int n, cudaStream_t stream) {
  for (int i = 1; i <= n; i++) {
    int rank = (me + i) % R;
    CUDA(cudaMemcpyAsync(whole + (size_t)rank * share, parts[rank], share, cudaMemcpyDeviceToDevice, stream));
  }
}

/* nbytes: of the whole.  Gathers in place in bf16, as parameters are; sums in float32, as gradients are. */
static void start(Kind kind, size_t nbytes, bool tells, ncclComm_t lane, cudaStream_t stream) {
  size_t share = nbytes / (size_t)R;
  if (tells) CUDA(cudaMemcpyAsync(word, number, 4, cudaMemcpyDeviceToHost, stream));
  if (kind == GATHER) NCCL(ncclAllGather(whole + (size_t)me * share, whole, share / 2, ncclBfloat16, lane, stream));
  if (kind == COPIES || kind == OTHERS) start_copies(share, kind == COPIES ? R : R - 1, stream);
  if (kind == SCATTER) NCCL(ncclReduceScatter(whole, part, share / 4, ncclFloat32, ncclSum, lane, stream));
  if (kind == REDUCE) NCCL(ncclAllReduce(whole, whole, nbytes / 4, ncclFloat32, ncclSum, lane, stream));
  if (tells) CUDA(cudaMemcpyAsync(word, number, 4, cudaMemcpyDeviceToHost, stream));
}

/* Seconds a collective in a burst. */
static double time_burst(Kind kind, size_t nbytes, bool tells, ncclComm_t lane, cudaStream_t stream) {
  cudaEvent_t a, b;
  float ms;
  CUDA(cudaEventCreate(&a));
  CUDA(cudaEventCreate(&b));
  for (int i = 0; i < 3; i++) start(kind, nbytes, tells, lane, stream);
  CUDA(cudaStreamSynchronize(stream));
  comm_barrier(comm);
  CUDA(cudaEventRecord(a, stream));
  for (int i = 0; i < BURST; i++) start(kind, nbytes, tells, lane, stream);
  CUDA(cudaEventRecord(b, stream));
  CUDA(cudaEventSynchronize(b));
  CUDA(cudaEventElapsedTime(&ms, a, b));
  return (double)ms * 1e-3 / BURST;
}

static double bus(Kind kind, size_t nbytes, double seconds) {
  return (double)nbytes * (R - 1) / R * (kind == REDUCE ? 2 : 1) / seconds * 1e-9;
}

static void bench_sizes(ncclComm_t lane, cudaStream_t stream, int ctas, bool registered) {
  static const size_t sizes[] = {4096, (size_t)16 * MIB, (size_t)64 * MIB, (size_t)256 * MIB, (size_t)1024 * MIB};
  for (int kind = 0; kind < KINDS; kind++)
    for (size_t s = (kind == COPIES || kind == OTHERS) && registered ? sizeof sizes / sizeof *sizes : 0;
         s < sizeof sizes / sizeof *sizes; s++)
      for (int tells = 0; tells <= (sizes[s] <= (size_t)16 * MIB); tells++) {
        double seconds = time_burst((Kind)kind, sizes[s], tells, lane, stream);
        if (me == 0)
          printf(
              "{\"bench\": \"%s\", \"ranks\": %d, \"max_ctas\": %d, \"mib\": %g, \"registered\": %d, \"told\": %d, \"us\": %.1f, "
              "\"bus_gbs\": %.1f}\n",
              names[kind], R, ctas, (double)sizes[s] / MIB, registered, tells, seconds * 1e6, bus((Kind)kind, sizes[s], seconds));
      }
}

/* --- beside a matrix product -------------------------------------------------------------------------------------------- */

enum { M = 8192, N = 4096, K = 11008 };
static const size_t workspace = 64 * MIB;

typedef struct Product {
  cublasLtHandle_t lt;
  cublasLtMatmulDesc_t description;
  cublasLtMatrixLayout_t a, b, c;
  cublasLtMatmulHeuristicResult_t found;
  char *at; /* a, b, c, workspace */
} Product;

static void product_open(Product *p) {
  cublasOperation_t t = CUBLAS_OP_T;
  cublasLtMatmulPreference_t wish;
  int n = 0;
  LT(cublasLtCreate(&p->lt));
  LT(cublasLtMatmulDescCreate(&p->description, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  LT(cublasLtMatmulDescSetAttribute(p->description, CUBLASLT_MATMUL_DESC_TRANSA, &t, sizeof t));
  LT(cublasLtMatrixLayoutCreate(&p->a, CUDA_R_16BF, K, N, K));
  LT(cublasLtMatrixLayoutCreate(&p->b, CUDA_R_16BF, K, M, K));
  LT(cublasLtMatrixLayoutCreate(&p->c, CUDA_R_16BF, N, M, N));
  LT(cublasLtMatmulPreferenceCreate(&wish));
  LT(cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace));
  LT(cublasLtMatmulAlgoGetHeuristic(p->lt, p->description, p->a, p->b, p->c, p->c, wish, 1, &p->found, &n));
  must(n == 1, "a product's algorithm", "none");
  size_t nbytes = (size_t)2 * ((size_t)N * K + (size_t)M * K + (size_t)N * M) + workspace;
  CUDA(cudaMalloc((void **)&p->at, nbytes));
  CUDA(cudaMemset(p->at, 0x3c, nbytes)); /* 0.0115 in bf16 */
}

static void product_start(const Product *p, cudaStream_t stream) {
  float one = 1, zero = 0;
  char *b = p->at + (size_t)2 * N * K, *c = b + (size_t)2 * M * K, *w = c + (size_t)2 * N * M;
  LT(cublasLtMatmul(p->lt, p->description, &one, p->at, p->a, b, p->b, &zero, c, p->c, c, p->c, &p->found.algo, w, workspace,
                    stream));
}

typedef struct Beside {
  Product product;
  Kind kind;
  size_t nbytes;
  ncclComm_t lane;
  cudaStream_t compute, stream;
} Beside;

static void times(const Beside *b, int products, int collectives, double *product_s, double *collective_s) {
  cudaEvent_t at[4];
  float ms;
  for (int i = 0; i < 4; i++) CUDA(cudaEventCreate(&at[i]));
  comm_barrier(comm);
  CUDA(cudaEventRecord(at[0], b->compute));
  CUDA(cudaEventRecord(at[2], b->stream));
  for (int i = 0; i < products || i < collectives; i++) {
    if (i < collectives) start(b->kind, b->nbytes, false, b->lane, b->stream);
    if (i < products) product_start(&b->product, b->compute);
  }
  CUDA(cudaEventRecord(at[1], b->compute));
  CUDA(cudaEventRecord(at[3], b->stream));
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaEventElapsedTime(&ms, at[0], at[1]));
  *product_s = products ? (double)ms * 1e-3 / products : 0;
  CUDA(cudaEventElapsedTime(&ms, at[2], at[3]));
  *collective_s = collectives ? (double)ms * 1e-3 / collectives : 0;
}

/* Each is measured while the other goes on for twice as long. */
static void bench_beside(ncclComm_t lane, cudaStream_t stream, int ctas) {
  static const double held = 0.3; /* seconds */
  Beside b = {.nbytes = (size_t)256 * MIB, .lane = lane, .stream = stream};
  product_open(&b.product);
  CUDA(cudaStreamCreateWithFlags(&b.compute, cudaStreamNonBlocking));
  for (int kind = 0; kind < KINDS; kind++) {
    double product, collective, slow_product, slow_collective, other;
    b.kind = (Kind)kind;
    times(&b, 10, 0, &product, &other);
    times(&b, 0, 10, &other, &collective);
    int counts[2] = {(int)(held / product) + 1, (int)(held / collective) + 1}; /* the same on all ranks, or they would hang */
    comm_broadcast(comm, counts, sizeof counts, 0);
    times(&b, counts[0], 0, &product, &other);
    times(&b, 0, counts[1], &other, &collective);
    times(&b, counts[0], 2 * counts[1], &slow_product, &other);
    times(&b, 2 * counts[0], counts[1], &other, &slow_collective);
    if (me == 0)
      printf("{\"bench\": \"%s beside products\", \"ranks\": %d, \"max_ctas\": %d, \"mib\": 256, \"product_tflops\": %.0f, "
             "\"beside_tflops\": %.0f, \"product_slower\": %.3f, \"bus_gbs\": %.1f, \"beside_gbs\": %.1f, "
             "\"collective_slower\": %.3f}\n",
             names[kind], R, ctas, 2. * M * N * K / product * 1e-12, 2. * M * N * K / slow_product * 1e-12, slow_product / product,
             bus(b.kind, b.nbytes, collective), bus(b.kind, b.nbytes, slow_collective), slow_collective / collective);
    fflush(stdout);
  }
  CUDA(cudaFree(b.product.at));
  CUDA(cudaStreamDestroy(b.compute));
}

/* --- all of it ---------------------------------------------------------------------------------------------------------- */

static ncclComm_t lane_open(int ctas) {
  ncclComm_t lane;
  ncclUniqueId id;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  if (ctas) config.maxCTAs = ctas;
  if (me == 0) NCCL(ncclGetUniqueId(&id));
  comm_broadcast(comm, &id, sizeof id, 0);
  double begin = clock_seconds();
  NCCL(ncclCommInitRankConfig(&lane, R, id, me, &config));
  if (me == 0) printf("{\"bench\": \"communicator\", \"ranks\": %d, \"s\": %.3f}\n", R, clock_seconds() - begin);
  return lane;
}

static void parts_open(void) {
  cudaIpcMemHandle_t mine, *all = xmalloc(sizeof *all * (size_t)R);
  parts = xmalloc(sizeof *parts * (size_t)R);
  CUDA(cudaIpcGetMemHandle(&mine, part));
  comm_gather(comm, &mine, sizeof mine, all);
  for (int r = 0; r < R; r++)
    if (r != me) CUDA(cudaIpcOpenMemHandle((void **)&parts[r], all[r], cudaIpcMemLazyEnablePeerAccess));
  parts[me] = part;
  free(all);
}

static void parts_close(void) {
  CUDA(cudaDeviceSynchronize());
  for (int r = 0; r < R; r++)
    if (r != me) CUDA(cudaIpcCloseMemHandle(parts[r]));
  comm_barrier(comm);
  free(parts);
}

static void bench(int ctas) {
  cudaStream_t stream;
  int least, greatest;
  void *handles[2] = {NULL, NULL};
  ncclComm_t lane = lane_open(ctas);
  CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
  bench_sizes(lane, stream, ctas, false);
  NCCL(ncclCommRegister(lane, whole, MOST, &handles[0]));
  NCCL(ncclCommRegister(lane, part, MOST, &handles[1]));
  bench_sizes(lane, stream, ctas, true);
  for (int i = 0; i < 2; i++) NCCL(ncclCommDeregister(lane, handles[i]));
  bench_beside(lane, stream, ctas);
  NCCL(ncclCommDestroy(lane));
  CUDA(cudaStreamDestroy(stream));
}

int main(int argc, char **argv) {
  comm = comm_boot(&argc, &argv);
  R = comm_size(comm);
  me = comm_rank(comm);
  int gpus = 0, version = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus < R || R < 2) {
    if (me == 0) printf("note  skipped: %d GPUs for %d ranks (2 and more are wanted)\n", gpus, R);
    comm_close(comm);
    return 0;
  }
  CUDA(cudaSetDevice(comm_local_rank(comm)));
  CUDA(cudaMalloc((void **)&whole, MOST));
  CUDA(cudaMalloc((void **)&part, MOST));
  CUDA(cudaMemset(whole, 0, MOST));
  CUDA(cudaMalloc((void **)&number, 4));
  CUDA(cudaHostAlloc((void **)&word, 4, cudaHostAllocMapped));
  parts_open();
  NCCL(ncclGetVersion(&version));
  if (me == 0) printf("{\"nccl\": %d, \"ranks\": %d}\n", version, R);
  for (int i = 1; i < argc; i++) bench(atoi(argv[i]));
  if (argc < 2) bench(0);
  parts_close();
  comm_close(comm);
  return 0;
}
