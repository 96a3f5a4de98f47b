/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives on a GPU's memory, by NCCL.  Part of the CUDA module.
 *
 * A group of the mesh has two lanes, each a communicator and a stream: gathers do not queue behind reductions.  A start makes the
 * lane wait for what the compute stream was given so far, a wait makes the compute stream wait for the lane; the host waits for
 * neither, and all of it can be captured in a CUDA graph.
 *
 * Sums of two ranks know one order only; those of more are added in an order that NCCL takes from topology, size and settings,
 * never from timing: the same ranks in the same places give the same bits.
 *
 * Each lane tells how far it is in a word of the host's memory: `number` after a collective of that number, `number` + OPS_MOST
 * while it is in it.  The stream writes it itself (src/dev/cuda_word.c), also inside graphs, where no kernel of ours could count.
 *
 * A gather of what ranks of one node have shared may go by the GPUs' copy engines instead (comm_copies): NCCL's kernels hold
 * multiprocessors, which products then miss.  It has its place in the lane of gathers all the same.
 *
 * NCCL's own end of a job that has failed is not asked for: the end of the process is quicker, and waits for nobody. */
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/arena.h"
#include "src/base/clock.h"
#include "src/base/thread.h"
#include "src/comm/peers.h"

enum { OPS_MOST = 1 << 16, VERSION_LEAST = 22600 };
static const double PATIENCE = 600; /* seconds that the host waits for a GPU */

typedef enum LaneKind { GATHERS, REDUCTIONS, LANES } LaneKind;

typedef struct Lane {
  ncclUniqueId id;
  ncclComm_t comm;
  cudaStream_t stream;
  volatile uint32_t *word;
} Lane;

typedef struct Nccl {
  Mesh *mesh;
  int gpu;
  pthread_t thread; /* that connects the lanes */
  bool connecting;
  double took, waited; /* seconds, once it has */
  cudaStream_t compute;
  Lane lanes[MESH_AXES * LANES]; /* by axis, then kind; of groups with more than one rank */
  uint32_t *words;               /* of the lanes; the host's memory */
  uint32_t *zero;                /* what meetings sum; the GPU's */
  Peers *peers;                  /* NULL: nothing is shared */
  int nops;
  const CommOp *ops[OPS_MOST]; /* by number, from 1 on; NULL: released */
} Nccl;

/* What a prepared collective has of a lane. */
typedef struct NcclOp {
  Lane *lane;
  cudaEvent_t ready, done;
  uint32_t number;
  bool copies, meets; /* by copy engines; first of all, behind a meeting of all ranks */
} NcclOp;

/* --- errors ------------------------------------------------------------------------------------------------------------- */

#define NCCL(what, e) nccl_must((e), #e, (what))

static const char lost_help[] = "see whether a node, a GPU or the network went away (NCCL_DEBUG=INFO tells more, "
                                "NCCL_SOCKET_IFNAME chooses the network); the run resumes from its last checkpoint";
static const char cuda_help[] = "NCCL_DEBUG=INFO tells more";
static const char shared_help[] = "more room in /dev/shm (containers: --shm-size), or NCCL_SHM_DISABLE=1";

/* NCCL's buffers are some 100 MiB to 3 GiB of the GPU's memory, and segments of the host's that ranks of a node share. */
static void nccl_must(ncclResult_t result, const char *call, const char *object) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  const char *words = ncclGetLastError(NULL);
  bool ours = result == ncclUnhandledCudaError, shared = strcasestr(words, "shared memory") != NULL;
  if (ours && strcasestr(words, "out of memory")) dev_memory_failed(object, words);
  fail(ours || shared ? FAIL_MACHINE : FAIL_LOST, "%.*s for %s failed\n   NCCL: %s: %s\nhelp: %s", (int)strcspn(call, "("), call,
       object, ncclGetErrorString(result), words,
       ours     ? cuda_help
       : shared ? shared_help
                : lost_help);
}

/* "reduce_scatter 'layers.3' (#37)" of each lane that is in a collective; "" when none is.  The watch asks from its thread. */
static void pending(const Nccl *nccl, char *text, size_t nbytes) {
  size_t n = 0;
  *text = 0;
  for (int i = 0; i < MESH_AXES * LANES; i++) {
    const Lane *lane = &nccl->lanes[i];
    uint32_t word = lane->comm ? *lane->word : 0;
    const CommOp *op = word > OPS_MOST && word < 2 * OPS_MOST ? nccl->ops[word - OPS_MOST] : NULL;
    if (op && n < nbytes) n += (size_t)snprintf(text + n, nbytes - n, "%s%s (#%u)", n ? " and in " : "", op->what, word - OPS_MOST);
  }
}

static bool pending_nccl(const Mesh *mesh, char *text, size_t nbytes) {
  const Nccl *nccl = mesh->device_own;
  *text = 0;
  if (nccl->words) pending(nccl, text, nbytes);
  return *text;
}

static bool is_in_nccl(const Mesh *mesh) {
  const Nccl *nccl = mesh->device_own;
  bool any = false;
  for (int i = 0; i < MESH_AXES * LANES; i++) any |= nccl->lanes[i].word && *nccl->lanes[i].word > OPS_MOST;
  return any;
}

/* Called while the host waits for the GPU: a communicator that is broken would let it wait for ever. */
static void look(void *self, double waited) {
  const Nccl *nccl = self;
  char where[512];
  if (nccl->connecting) return; /* no lane has been used yet */
  pending(nccl, where, sizeof where);
  for (int i = 0; i < MESH_AXES * LANES; i++) {
    ncclResult_t state = ncclSuccess;
    if (!nccl->lanes[i].comm) continue;
    NCCL("the watch of collectives", ncclCommGetAsyncError(nccl->lanes[i].comm, &state));
    nccl_must(state, "communication", *where ? where : "collectives");
  }
  double watched = 2 * nccl->mesh->comm->watched; /* the watch knows more, and comes first */
  if (waited < (watched > PATIENCE ? watched : PATIENCE)) return;
  if (*where)
    fail(FAIL_LOST,
         "waits since %.0f s in %s\nhelp: see which rank has not come there, and why (py-spy, gdb, nvidia-smi on its node); the "
         "run resumes from its last checkpoint",
         waited, where);
  fail(FAIL_MACHINE,
       "the GPU has not finished its work for %.0f s, and is in no collective\nhelp: see nvidia-smi and the kernel's log (dmesg) "
       "on this node; the run resumes from its last checkpoint",
       waited);
}

/* --- lanes -------------------------------------------------------------------------------------------------------------- */

static const char *const what[] = {[GATHERS] = "the communicator of gathers", [REDUCTIONS] = "the communicator of reductions"};
static const char connecting[] = "the communicators of gathers and reductions";

/* All but the communicator. */
static void lane_open(Nccl *nccl, int axis, LaneKind kind, int priority) {
  const CommGroup *group = &nccl->mesh->group[axis];
  Comm *comm = nccl->mesh->comm;
  Lane *lane = &nccl->lanes[axis * LANES + (int)kind];
  ncclUniqueId mine = {{0}}, *all = xmalloc(sizeof *all * (size_t)comm->size);
  if (group->rank == 0) NCCL(what[kind], ncclGetUniqueId(&mine));
  comm->transport->gather(comm, &mine, sizeof mine, all);
  lane->id = all[peers_member(nccl->mesh, axis, 0)];
  free(all);
  CUDA(cudaStreamCreateWithPriority(&lane->stream, cudaStreamNonBlocking, priority));
  lane->word = &nccl->words[axis * LANES + (int)kind];
}

/* A sum of one element: over once all ranks of the lane have come to it, each behind what its stream was given before. */
static void meet(const Nccl *nccl, const Lane *lane, const char *object) {
  NCCL(object, ncclAllReduce(nccl->zero, nccl->zero, 1, ncclUint32, ncclSum, lane->comm, lane->stream));
}

/* Communicators take a second to connect, in which the job has other things to do: a thread of its own, and all of them at a time.
 * Then NCCL still lacks what its first sum connects, loads and allocates: that is done here, too, as a group, which launches
 * nothing until all lanes are connected. */
static void *lanes_connect(void *self) {
  Nccl *nccl = self;
  double begin = clock_seconds();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  CUDA(cudaSetDevice(nccl->gpu));
  NCCL(connecting, ncclGroupStart());
  for (int i = 0; i < MESH_AXES * LANES; i++) {
    const CommGroup *group = &nccl->mesh->group[i / LANES];
    Lane *lane = &nccl->lanes[i];
    if (group->size > 1) NCCL(what[i % LANES], ncclCommInitRankConfig(&lane->comm, group->size, lane->id, group->rank, &config));
  }
  NCCL(connecting, ncclGroupEnd());
  NCCL(connecting, ncclGroupStart());
  for (int i = 0; i < MESH_AXES * LANES; i++)
    if (nccl->lanes[i].comm) meet(nccl, &nccl->lanes[i], what[i % LANES]);
  NCCL(connecting, ncclGroupEnd());
  nccl->took = clock_seconds() - begin;
  return NULL;
}

static void lanes_need(Nccl *nccl) {
  if (!nccl->connecting) return;
  double begin = clock_seconds();
  CHECK(pthread_join(nccl->thread, NULL) == 0);
  nccl->waited = clock_seconds() - begin;
  nccl->connecting = false;
}

static void settle_nccl(Mesh *mesh) {
  Nccl *nccl = mesh->device_own;
  cudaEvent_t met;
  lanes_need(nccl);
  CUDA(cudaEventCreateWithFlags(&met, cudaEventDisableTiming));
  for (int i = 0; i < MESH_AXES * LANES; i++) {
    if (!nccl->lanes[i].comm) continue;
    CUDA(cudaEventRecord(met, nccl->lanes[i].stream));
    CUDA(cudaStreamWaitEvent(nccl->compute, met, 0));
  }
  dev_sync(mesh->dev);
  CUDA(cudaEventDestroy(met));
}

static CommConnected connected_nccl(const Mesh *mesh) {
  const Nccl *nccl = mesh->device_own;
  return nccl->connecting ? (CommConnected){0, 0} : (CommConnected){nccl->took, nccl->waited};
}

static bool is_alone(const Mesh *mesh) {
  for (int axis = 0; axis < MESH_AXES; axis++)
    if (mesh->group[axis].size > 1) return false;
  return true;
}

static void version_check(void) {
  int version = 0;
  NCCL("the version", ncclGetVersion(&version));
  if (version < VERSION_LEAST)
    fail(FAIL_MACHINE, "NCCL %d.%d is too old\nhelp: 2.26 or newer: load its module, or name its folder in LD_LIBRARY_PATH",
         version / 10000, version / 100 % 100);
}

static void words_open(Nccl *nccl) {
  size_t nbytes = MESH_AXES * LANES * sizeof *nccl->words;
  CUDA(cudaMalloc((void **)&nccl->zero, sizeof *nccl->zero));
  CUDA(cudaMemset(nccl->zero, 0, sizeof *nccl->zero));
  CUDA(cudaHostAlloc((void **)&nccl->words, nbytes, cudaHostAllocMapped));
  memset(nccl->words, 0, nbytes);
}

/* NCCL_GRAPH_REGISTER would have graphs use buffers another way than runs without a graph do. */
static void nccl_open(Mesh *mesh) {
  Nccl *nccl = xmalloc(sizeof *nccl);
  memset(nccl, 0, sizeof *nccl);
  nccl->mesh = mesh;
  nccl->compute = dev_stream(mesh->dev);
  CUDA(cudaGetDevice(&nccl->gpu));
  mesh->device_own = nccl;
  if (is_alone(mesh)) return;
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  setenv("NCCL_GRAPH_REGISTER", "0", 0);
  version_check();
  words_open(nccl);
  int least, greatest;
  CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  for (int axis = 0; axis < MESH_AXES; axis++)
    for (int kind = 0; kind < LANES && mesh->group[axis].size > 1; kind++) lane_open(nccl, axis, (LaneKind)kind, greatest);
  nccl->connecting = true;
  thread_start(&nccl->thread, lanes_connect, nccl);
  dev_watch(mesh->dev, look, nccl);
}

static void nccl_close(Mesh *mesh) {
  Nccl *nccl = mesh->device_own;
  lanes_need(nccl);
  dev_sync(mesh->dev);
  dev_watch(mesh->dev, NULL, NULL);
  peers_close(nccl->peers);
  for (int i = 0; i < MESH_AXES * LANES; i++) {
    Lane *lane = &nccl->lanes[i];
    if (!lane->comm) continue;
    NCCL("the end of the job", ncclCommDestroy(lane->comm));
    CUDA(cudaStreamDestroy(lane->stream));
  }
  if (nccl->words) CUDA(cudaFreeHost(nccl->words));
  if (nccl->zero) CUDA(cudaFree(nccl->zero));
  free(nccl);
  mesh->device_own = NULL;
}

/* --- collectives -------------------------------------------------------------------------------------------------------- */

static const ncclDataType_t types[DT_COUNT] = {[DT_F32] = ncclFloat32, [DT_BF16] = ncclBfloat16, [DT_F16] = ncclFloat16,
                                               [DT_I32] = ncclInt32,   [DT_I64] = ncclInt64,     [DT_PRED] = ncclUint8};

static ncclResult_t all_gather_nccl(const CommOp *op, const Lane *lane) {
  return ncclAllGather(op->in, op->out, (size_t)op->n, types[op->dtype], lane->comm, lane->stream);
}

static ncclResult_t reduce_scatter_nccl(const CommOp *op, const Lane *lane) {
  return ncclReduceScatter(op->in, op->out, (size_t)op->n, types[op->dtype], ncclSum, lane->comm, lane->stream);
}

static ncclResult_t all_reduce_nccl(const CommOp *op, const Lane *lane) {
  return ncclAllReduce(op->in, op->out, (size_t)op->n, types[op->dtype], ncclSum, lane->comm, lane->stream);
}

static ncclResult_t all_to_all_nccl(const CommOp *op, const Lane *lane) {
  size_t nbytes = (size_t)op->n * dtype_size(op->dtype);
  ncclResult_t result = ncclGroupStart();
  for (int r = 0; r < op->group->size && result == ncclSuccess; r++) {
    const char *from = (const char *)op->in + (size_t)r * nbytes;
    char *to = (char *)op->out + (size_t)r * nbytes;
    result = ncclSend(from, (size_t)op->n, types[op->dtype], r, lane->comm, lane->stream);
    if (result == ncclSuccess) result = ncclRecv(to, (size_t)op->n, types[op->dtype], r, lane->comm, lane->stream);
  }
  return result == ncclSuccess ? ncclGroupEnd() : result;
}

static ncclResult_t swap_nccl(const CommOp *op, const Lane *lane) {
  ncclResult_t result = ncclGroupStart();
  if (result == ncclSuccess) result = ncclSend(op->in, (size_t)op->n, types[op->dtype], op->partner, lane->comm, lane->stream);
  if (result == ncclSuccess) result = ncclRecv(op->out, (size_t)op->n, types[op->dtype], op->partner, lane->comm, lane->stream);
  return result == ncclSuccess ? ncclGroupEnd() : result;
}

static const struct {
  LaneKind lane;
  ncclResult_t (*start)(const CommOp *op, const Lane *lane);
} kinds[COMM_ALL_KINDS] = {[COMM_ALL_GATHER] = {GATHERS, all_gather_nccl},
                           [COMM_REDUCE_SCATTER] = {REDUCTIONS, reduce_scatter_nccl},
                           [COMM_ALL_REDUCE] = {REDUCTIONS, all_reduce_nccl},
                           [COMM_ALL_TO_ALL] = {REDUCTIONS, all_to_all_nccl},
                           [COMM_SWAP] = {REDUCTIONS, swap_nccl}};

static bool adds(const CommOp *op) { return op->kind == COMM_REDUCE_SCATTER || op->kind == COMM_ALL_REDUCE; }

static int axis_of(const CommOp *op) { return (int)(op->group - op->mesh->group); }

static void op_prepare_nccl(CommOp *op) {
  Nccl *nccl = op->mesh->device_own;
  if (op->group->size == 1) return;
  CHECK(nccl->nops + 1 < OPS_MOST && !(adds(op) && op->dtype == DT_PRED));
  NcclOp *own = op->own = xmalloc(sizeof *own);
  *own = (NcclOp){.lane = &nccl->lanes[axis_of(op) * LANES + (int)kinds[op->kind].lane], .number = (uint32_t)++nccl->nops};
  nccl->ops[own->number] = op;
  CUDA(cudaEventCreateWithFlags(&own->ready, cudaEventDisableTiming));
  CUDA(cudaEventCreateWithFlags(&own->done, cudaEventDisableTiming));
}

static bool share_nccl(Mesh *mesh, void *base, size_t nbytes) {
  Nccl *nccl = mesh->device_own;
  bool any = false;
  CHECK(!nccl->peers);
  if (is_alone(mesh)) return false;
  nccl->peers = peers_open(mesh, nccl->compute, base, nbytes);
  for (int axis = 0; axis < MESH_AXES; axis++) any |= peers_share(nccl->peers, axis);
  return any;
}

static bool copies_nccl(CommOp *op, bool first) {
  const Nccl *nccl = op->mesh->device_own;
  NcclOp *own = op->own;
  if (!own || !peers_share(nccl->peers, axis_of(op))) return false;
  own->copies = true;
  own->meets = first || op->kind == COMM_ALL_TO_ALL;
  return true;
}

/* Takes its place in the lane. */
static void tell(const CommOp *op, uint32_t word) {
  const Lane *lane = ((NcclOp *)op->own)->lane;
  cuda_write_word(lane->stream, lane->word, word);
}

static void copy_must(cudaError_t error, const CommOp *op, int rank) {
  Why why;
  if (!cuda_try(error, "cudaMemcpyAsync", &why))
    fail(FAIL_MACHINE, "%s: the copy of rank %d's part from its GPU: %s\n   or gpu.gathers: nccl, which does without such copies",
         op->what, rank, why.text);
}

/* No rank tells another that it reads.  Two orders make that right:
 *  - A peer has written before this rank reads: the meeting in the lane of gathers.  One is enough until somebody writes.
 *  - This rank has read before a peer writes again.  The peer writes behind a reduction, which is over when this rank has started
 *    it too; and this rank's compute stream comes to that start once it has waited for all gathers that were started before.
 * Whoever calls comm_copies sees to the second (src/exec/gathers.c).
 *
 * An all-to-all of what programs write all the time has meetings of its own: before it reads, and before it is over.
 *
 * Each rank begins with the next one's part: no GPU is everybody's first. */
static void copy_parts(const CommOp *op) {
  const Nccl *nccl = op->mesh->device_own;
  const NcclOp *own = op->own;
  const CommGroup *group = op->group;
  bool gather = op->kind == COMM_ALL_GATHER;
  size_t nbytes = (size_t)op->n * dtype_size(op->dtype), before = (size_t)group->rank * nbytes;
  const char *part = (const char *)op->in + (gather ? 0 : before);  /* in every rank's memory, what this one reads */
  bool in_place = gather && part == (const char *)op->out + before; /* each rank's part is where it belongs */
  if (own->meets) meet(nccl, own->lane, op->what);
  for (int i = 1; i <= group->size; i++) {
    int rank = (group->rank + i) % group->size;
    char *to = (char *)op->out + (size_t)rank * nbytes;
    const void *from = peers_find(nccl->peers, axis_of(op), rank, in_place ? to : part, nbytes);
    if (from != to) copy_must(cudaMemcpyAsync(to, from, nbytes, cudaMemcpyDeviceToDevice, own->lane->stream), op, rank);
  }
  if (!gather) meet(nccl, own->lane, op->what);
}

static void op_start_nccl(CommOp *op) {
  Nccl *nccl = op->mesh->device_own;
  const NcclOp *own = op->own;
  if (!own) { /* one rank */
    size_t nbytes = (size_t)op->n * dtype_size(op->dtype);
    if (op->in != op->out) CUDA(cudaMemcpyAsync(op->out, op->in, nbytes, cudaMemcpyDeviceToDevice, nccl->compute));
    return;
  }
  lanes_need(nccl);
  CUDA(cudaEventRecord(own->ready, nccl->compute));
  CUDA(cudaStreamWaitEvent(own->lane->stream, own->ready, 0));
  tell(op, own->number + OPS_MOST);
  if (own->copies)
    copy_parts(op);
  else
    NCCL(op->what, kinds[op->kind].start(op, own->lane));
  tell(op, own->number);
  CUDA(cudaEventRecord(own->done, own->lane->stream));
}

static void op_wait_nccl(CommOp *op) {
  const Nccl *nccl = op->mesh->device_own;
  const NcclOp *own = op->own;
  if (own) CUDA(cudaStreamWaitEvent(nccl->compute, own->done, 0));
}

static void op_release_nccl(CommOp *op) {
  Nccl *nccl = op->mesh->device_own;
  NcclOp *own = op->own;
  if (!own) return;
  CUDA(cudaEventDestroy(own->ready));
  CUDA(cudaEventDestroy(own->done));
  nccl->ops[own->number] = NULL;
  free(own);
}

extern const CommDevice comm_device_nccl;
const CommDevice comm_device_nccl = {
    .open = nccl_open,
    .close = nccl_close,
    .settle = settle_nccl,
    .connected = connected_nccl,
    .ops = {.op_prepare = op_prepare_nccl, .op_start = op_start_nccl, .op_wait = op_wait_nccl, .op_release = op_release_nccl},
    .share = share_nccl,
    .copies = copies_nccl,
    .pending = pending_nccl,
    .is_in = is_in_nccl};
