/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks: who they are, what they agree on, and the collectives between them.
 *
 * A transport is a table of functions: mpi (host buffers), self (one rank without MPI) and nccl (a GPU's memory).  Collectives
 * are prepared once at fixed addresses and then started and waited for any number of times; between start and wait neither
 * buffer may be touched.  Every rank of a group prepares, starts and waits in the same order. */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/dtype.h"
#include "src/dev/dev.h"

/* --- boot ------------------------------------------------------------------------------------------------------------- */

typedef struct Comm Comm; /* the job */

/* Before anything that may fail: what all ranks of a launcher would say alike is then told once, before MPI's start too. */
void comm_launch(void);
bool comm_is_launched(void);   /* by one for ranks, as mpirun and srun are */
int comm_launched_ranks(void); /* how many mpirun says that it has started; 1 where it says nothing, as srun */
/* MPI_Init_thread(MULTIPLE), then PMIx where there is one; sets the fail hook (all ranks end, an error that all ranks share
 * is printed once).  Refuses Open MPI older than 4.0.3, and an srun or another MPI's mpirun that started N programs
 * of one rank each, with the remedy.  error_file: appended to by the hook once known. */
Comm *comm_boot(int *argc, char ***argv);
/* One rank that never touches MPI; for commands that need no ranks, and tests. */
Comm *comm_self(void);
/* Rank 0 of so many on this node, for plans: what is compiled with it is what they would run, and none of it can be run. */
Comm *comm_plan(int ranks);
/* The same on nodes of per_node ranks each, which divides ranks. */
Comm *comm_plan_nodes(int ranks, int per_node);
/* The same ranks for another thread of each, whose agreements have nothing to do with the others' and wait asleep (all ranks call
 * both, from the thread that called comm_boot).  It knows of no nodes, controls and meshes. */
Comm *comm_beside(const Comm *comm);
void comm_beside_close(Comm *beside); /* NULL is fine */
void comm_set_error_file(Comm *comm, const char *path);
void comm_close(Comm *comm); /* finalises in the right order; all ranks */

int comm_rank(const Comm *comm);
int comm_size(const Comm *comm);
int comm_local_rank(const Comm *comm); /* on this node */
int comm_local_size(const Comm *comm);
int comm_nodes(const Comm *comm);
void comm_local_sizes(const Comm *comm, int *least, int *most); /* of all nodes */
const char *comm_node(const Comm *comm);                        /* this node's name */
const char *comm_describe(const Comm *comm); /* "2 ranks, 1 node n001; Open MPI 4.1.4 (built 4.1.4), PMIx 4.2.2" */
/* The cores this rank may use: its share of the node's (of the job's cgroup), whatever binding the launcher chose; the least
 * over ranks, so that all run the same program.  All ranks call.  Also sets this process's affinity to its share where the
 * launcher bound too tightly or not at all. */
int comm_core_share(Comm *comm);
/* The MPI communicator (an MPI_Comm *) for HDF5; NULL on comm_self. */
const void *comm_mpi(const Comm *comm);

/* When the scheduler will end this job, in seconds since 1970; infinite where it will not, or where there is no scheduler.  False:
 * a job of Slurm's whose end cannot be learned, and why.  May take a moment; one rank asks. */
bool try_comm_job_end(double *end, Why *why);

/* --- agreement (all ranks call; blocking, small) ------------------------------------------------------------------------ */

bool comm_any(Comm *comm, bool mine);
/* Ends the job, naming the first rank that differs, unless all ranks have the same 64 bits: "run file", "plan", … */
void comm_agree(Comm *comm, uint64_t mine, const char *what);
size_t comm_least(Comm *comm, size_t mine);
void comm_most(Comm *comm, int64_t *values, int n);                    /* in place, of each the greatest */
void comm_broadcast(Comm *comm, void *bytes, size_t nbytes, int root); /* of any size */
void comm_barrier(Comm *comm);
/* Rank r's bytes at all + r*nbytes, on every rank; of any size. */
void comm_gather(Comm *comm, const void *mine, size_t nbytes, void *all);
void comm_gather_local(Comm *comm, const void *mine, size_t nbytes, void *all); /* the same among this node's ranks */
/* The first (lowest) rank's text of all that have a reason; true when any had.  text is overwritten. */
bool comm_any_reason(Comm *comm, bool mine, char *text, size_t nbytes);

/* One non-blocking exchange in flight: start takes this rank's four words, finish gives the element-wise maximum over
 * ranks of those of the exchange before. */
void comm_control_start(Comm *comm, const int64_t mine[4]);
void comm_control_finish(Comm *comm, int64_t most[4]);

/* One small gather to rank 0 in flight, beside the other: start takes this rank's bytes (their number is the same everywhere), over
 * asks whether it is done (wait: until it is), and gives on rank 0, in the order of ranks, those of all, until the next start; NULL
 * on other ranks and before. */
enum { COLLECT_BYTES = 256 };
void comm_collect_start(Comm *comm, const void *mine, size_t nbytes);
const void *comm_collect_over(Comm *comm, bool wait);

/* --- the watch ---------------------------------------------------------------------------------------------------------- */

/* From here to comm_close a thread a rank watches (all ranks call).  Where a collective is waited for longer than `timeout`
 * seconds it ends the job, with the ranks that have not come there and what they do instead; so it does where a rank gives no
 * sign of life for as long.  Does nothing on a single rank.  Again: with another timeout from here on, 0: no more. */
void comm_watch(Comm *comm, double timeout);
/* What this rank's thread does besides collectives, until the next call; "": nothing in particular.  patient: the others wait
 * for that 15 times as long.  Of comm_beside's: the thread that has it, by which its rank is judged while the job's thread waits
 * for that (comm_await_beside); each call is a sign that it goes on, from any thread. */
void comm_doing(Comm *comm, bool patient, const char *format, ...) __attribute__((format(printf, 3, 4)));
void comm_await_beside(Comm *beside, bool waits); /* the job's thread: from here on, and until here */
void comm_step(Comm *comm, int64_t step);         /* begins */

/* --- mesh --------------------------------------------------------------------------------------------------------------- */

/* Rank = ((((pp · dp_replicate) + r) · dp_shard + s) · cp + c) · tp + t, slowest first.  Today only the dp axes may exceed 1. */
typedef enum MeshAxis { MESH_PP, MESH_DP_REPLICATE, MESH_DP_SHARD, MESH_CP, MESH_TP, MESH_AXES } MeshAxis;

typedef struct Mesh Mesh;
Mesh *mesh_open(Comm *comm, const int extent[MESH_AXES]); /* extents multiply to comm_size */
/* The batch alone is split: groups of `shards` ranks, which divide all, that hold a copy of the parameters together. */
Mesh *mesh_data_parallel(Comm *comm, int shards);
void mesh_close(Mesh *mesh);
int mesh_extent(const Mesh *mesh, MeshAxis axis);
bool mesh_is_near(const Mesh *mesh, MeshAxis axis); /* whether all groups along it are each on one node; the same on all ranks */
int mesh_index(const Mesh *mesh, MeshAxis axis);
int mesh_dp_size(const Mesh *mesh);  /* dp_replicate · dp_shard: how many ways the batch is split */
int mesh_dp_index(const Mesh *mesh); /* which of them this rank takes */

/* On the host, whatever the collectives below run on: nbytes of each rank along the axis, in their order, on all of them. */
void comm_gather_axis(Mesh *mesh, MeshAxis axis, const void *mine, size_t nbytes, void *all);

/* --- collectives over one axis ------------------------------------------------------------------------------------------ */

typedef enum CommKind {
  COMM_ALL_GATHER,     /* in: n elements, out: n·R; out may hold in at its own place (then nothing is copied) */
  COMM_REDUCE_SCATTER, /* in: n·R elements, out: n, the sums of this rank's part */
  COMM_ALL_REDUCE,     /* in and out: n elements, may be the same; the same bits on all ranks */
  COMM_ALL_TO_ALL,     /* in: n elements for each rank, out: n from each; not the same memory */
  COMM_KINDS
} CommKind;

typedef struct CommOp CommOp;

/* From here to the close, collectives that are prepared have both ends in the memory of this rank's GPU (all ranks call; no
 * other kind of device changes anything: false).  Start and wait then take their places behind what was started on the device
 * and return at once: a wait is the device's.  Ends the job, naming ranks and GPUs, where two ranks have one GPU or GPUs
 * differ in kind.  Again: nothing more.  Communicators connect in a thread meanwhile. */
bool comm_device_open(Mesh *mesh, Dev *dev);
/* Comes back when all ranks of this one's groups have connected and this rank's GPU has nothing of it to do any more: what is
 * timed there is alone.  Any rank may call, or none. */
void comm_device_settle(Mesh *mesh);
/* Seconds that this took, and for how many of them the job had to wait, at the first collective or in comm_device_settle; 0 before
 * that, and where there are none. */
typedef struct CommConnected {
  double took, waited;
} CommConnected;
CommConnected comm_connected(const Mesh *mesh);
/* Once its collectives are released, and graphs that captured them closed. */
void comm_device_close(Mesh *mesh);
/* Shows one allocation of the device's memory, of one size on all ranks, to the ranks of this node until comm_device_close,
 * before which nobody may free it (all ranks call).  False: none of this rank's groups can use it, which is no error. */
bool comm_device_share(Mesh *mesh, void *base, size_t nbytes);

/* Bytes of workspace that a prepared collective on the host's memory wants, for the memory plan; on a GPU's none. */
size_t comm_workspace(CommKind kind, int64_t n, DType dtype, int ranks);

/* Sums run in an order fixed by R and n alone, so that results have the same bits every time. */
CommOp *comm_prepare(Mesh *mesh, MeshAxis axis, CommKind kind, const void *in, void *out, int64_t n, DType dtype, void *workspace,
                     const char *what);
/* Gives a gather, or an all-to-all, just prepared, another way where its group has shared memory: its parts are read out of the
 * peers' memory by the GPUs' copy engines, which leave the multiprocessors alone.  Its input lies there, at the same offset on all
 * ranks or, with its output there, at its own place in that.  first: no other such gather was started since the device was last
 * given writes of that memory; it waits for all ranks' writes. And whoever writes there again does so behind a reduction of this
 * group that every rank starts once it has waited for its gathers.  An all-to-all asks for none of this: it meets all ranks before
 * it reads and before it is over.  True: it does go that way, on all ranks of the group. */
bool comm_copies(CommOp *op, bool first);
/* Seconds for which this rank has been in collectives: its thread waited in them, so that it computed nothing; or on a GPU, which
 * computes beside them, from the first such question on and within some percent of many seconds.  Of a GPU's ranks who is in them
 * for the shortest time comes to them last. */
double comm_waited(Mesh *mesh);
bool comm_overlaps(const Mesh *mesh); /* whether it computes meanwhile */
void comm_start(CommOp *op);
void comm_wait(CommOp *op);
void comm_release(CommOp *op);

/* n elements to one rank of a mesh whose shards are all ranks, and as many from it, which does the same; -1: to none and from none.
 * Prepared by all ranks in the same order. */
CommOp *comm_prepare_swap(Mesh *mesh, int partner, const void *in, void *out, int64_t n, DType dtype, const char *what);

/* How fast pairs of ranks are, in so many rounds, each with another partner (-1: none), all pairs at a time.  Bytes a second each
 * way, 0 without a partner; measured for about so many seconds, between the memory of GPUs where the mesh has them.  All ranks
 * call. */
int comm_rounds(const Comm *comm);
int comm_partner(int ranks, int rank, int round);
double comm_pair_rate(Mesh *mesh, Dev *dev, int round, double seconds);

#endif
