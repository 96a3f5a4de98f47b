/* SPDX-License-Identifier: Apache-2.0 */
/* What a transport is, and what the job, a mesh and a prepared collective are made of.  Private to src/comm. */
#ifndef COMM_IMPL_H
#define COMM_IMPL_H

#include <mpi.h>
#include <pthread.h>
#include <sched.h>

#include "src/base/fail.h"
#include "src/comm/comm.h"

typedef struct CommTransport {
  void (*close)(Comm *comm);
  void (*beside)(Comm *comm); /* makes a copy of the job's Comm one of its own */
  void (*beside_close)(Comm *comm);
  void (*barrier)(Comm *comm);
  void (*broadcast)(Comm *comm, void *bytes, size_t nbytes, int root);
  void (*gather)(Comm *comm, const void *mine, size_t nbytes, void *all);
  void (*gather_local)(Comm *comm, const void *mine, size_t nbytes, void *all);               /* among this node's ranks */
  void (*gather_axis)(Mesh *mesh, MeshAxis axis, const void *mine, size_t nbytes, void *all); /* of more than one rank */
  void (*most)(Comm *comm, int64_t *values, int n); /* element-wise maximum over ranks, in place */
  void (*control_start)(Comm *comm);                /* from control_mine */
  void (*control_finish)(Comm *comm);               /* to control_most */
  void (*collect_start)(Comm *comm);                /* collect_bytes from collect_mine to rank 0's collect_all */
  bool (*collect_over)(Comm *comm, bool wait);
  void (*group_open)(Mesh *mesh, MeshAxis axis);
  void (*group_close)(Mesh *mesh, MeshAxis axis);
  void (*op_prepare)(CommOp *op);
  void (*op_start)(CommOp *op);
  void (*op_wait)(CommOp *op);
  void (*op_release)(CommOp *op);
} CommTransport;

extern const CommTransport comm_transport_self, comm_transport_mpi;

/* The transport of collectives on a device's memory: the program's CUDA part brings it. */
typedef struct CommDevice {
  void (*open)(Mesh *mesh); /* sets device_own; all ranks */
  void (*close)(Mesh *mesh);
  void (*settle)(Mesh *mesh); /* as comm_device_settle */
  CommConnected (*connected)(const Mesh *mesh);
  CommTransport ops;                                    /* op_… alone */
  bool (*share)(Mesh *mesh, void *base, size_t nbytes); /* as comm_device_share and comm_copies */
  bool (*copies)(CommOp *op, bool first);
  /* The collectives that this rank's GPU is in: false, none.  From any thread, while no collective is released. */
  bool (*pending)(const Mesh *mesh, char *text, size_t nbytes);
  bool (*is_in)(const Mesh *mesh); /* any; from any thread, at any time */
} CommDevice;

enum { NODE_NAME = 64 };

struct Comm {
  const CommTransport *transport;
  int rank, size, local_rank, local_size, nodes;
  int least_local, most_local; /* ranks of the node that has fewest, and most */
  char node[NODE_NAME];
  char describe[512];
  MPI_Comm world, local, control; /* with comm_transport_mpi only, as all that is MPI's */
  int64_t control_mine[4], control_most[4];
  MPI_Request control_request;
  bool control_started;
  uint64_t control_entered, collect_entered;
  char collect_mine[COLLECT_BYTES], *collect_all; /* collect_all: rank 0's */
  size_t collect_bytes;
  MPI_Request collect_request;
  bool collect_started;
  double waited;       /* seconds in collectives of the host */
  struct Watch *watch; /* NULL: nobody watches; of comm_beside's the job's */
  double watched;      /* its timeout */
  bool beside;         /* comm_beside's */
  bool planned;        /* there are no other ranks: their nodes would hold local_size each, in order */
};

/* The ranks along one axis of the mesh.  Gathers and reductions do not wait for one another. */
typedef struct CommGroup {
  int size, rank;
  MPI_Comm gather, reduce;
  int nops; /* prepared so far, the same on all ranks: gives each its tag */
} CommGroup;

struct Mesh {
  Comm *comm;
  int extent[MESH_AXES], index[MESH_AXES];
  bool near[MESH_AXES];
  CommGroup group[MESH_AXES];
  /* While collectives are on a device's memory (device.c) */
  const CommDevice *device; /* NULL: on the host's */
  Dev *dev;
  void *device_own;
  struct Meter *meter; /* NULL: nobody has asked comm_waited of the device */
};

/* One more kind, which programs do not have: comm_prepare_swap's. */
#define COMM_SWAP ((CommKind)COMM_KINDS)
enum { COMM_ALL_KINDS = COMM_KINDS + 1 };

struct CommOp {
  const CommTransport *transport;
  Mesh *mesh;
  CommGroup *group;
  CommKind kind;
  int partner; /* of a swap */
  const void *in;
  void *out, *workspace;
  int64_t n;
  DType dtype;
  char what[96];
  bool started;
  uint64_t entered; /* watch.c's number of the start */
  /* MPI's */
  int tag;
  MPI_Datatype block; /* n elements */
  MPI_Request *requests, receive[2];
  int nrequests;
  void *own; /* a device's */
};

/* All-reductions up to this many bytes over all ranks are gathered whole and summed by everyone. */
enum { SMALL_REDUCE = 64 << 10, CHUNK_BYTES = 1 << 20 };
bool comm_reduce_is_small(int64_t n, DType dtype, int ranks);
/* Elements of one staged message for parts of up to n elements. */
int64_t comm_chunk(int64_t n, DType dtype);

/* The one wrapper of MPI calls: ends the job with what was attempted on which object and the library's own words. */
#define MPI(what, call) mpi_check((call), #call, (what))
void mpi_check(int code, const char *call, const char *what);

/* --- abort.c ------------------------------------------------------------------------------------------------------------ */

/* Makes this process's failures the job's.  Called first with the rank that the environment tells, then with what MPI says. */
void abort_prepare(int rank, int size, const char *node, bool mpi_is_up, bool pmix_is_up);
void abort_set_error_file(const char *path);

/* --- turns.c ------------------------------------------------------------------------------------------------------------ */

void turns_prepare(void);  /* before anything can fail: it takes memory */
void turn_enter(int rank); /* this rank fails, too */
bool turn_try(int rank);   /* whether it is this rank that tells; when it is, no other of the node will */

/* --- watch.c ------------------------------------------------------------------------------------------------------------ */

typedef struct Watch Watch;

/* The job's thread comes to a collective, waits in it, leaves it.  All ranks come to the same ones in the same order.  what is
 * kept, not copied, until watch_leave.  Without a watch all of these do nothing. */
uint64_t watch_enter(Comm *comm);
void watch_wait(Comm *comm, uint64_t number, const char *what);
void watch_leave(Comm *comm);
/* From here on this mesh's device tells which collectives it is in; NULL: none does. */
void watch_mesh(Comm *comm, const Mesh *mesh);
/* Between the two no device is asked. */
void watch_lock(Comm *comm);
void watch_unlock(Comm *comm);
void watch_close(Comm *comm); /* all ranks */

/* --- meter.c ------------------------------------------------------------------------------------------------------------ */

typedef struct Meter Meter;
void meter_close(Meter *meter); /* NULL is fine; before the device's collectives */

/* --- launch.c ----------------------------------------------------------------------------------------------------------- */

int launch_rank(void); /* as the launcher's environment tells before MPI_Init; 0 when it does not */
/* Whether an srun without PMIx has started this process as one of several jobs of one rank each. */
bool launch_is_split(void);
/* "Open MPI 4.1.4" of MPI_Get_library_version's text. */
void launch_library(const char *text, char *out, size_t nbytes);
/* Whether the library is an Open MPI that loses data. */
bool launch_library_is_refused(const char *text);
/* "n[001-003,007]" of n names of equal shape, sorted in place; names that do not fold are listed. Returns how many differ. */
int launch_fold(char (*names)[NODE_NAME], int n, char *out, size_t nbytes);

/* --- job_end.c ---------------------------------------------------------------------------------------------------------- */

/* squeue's "2026-11-30T09:00:00", in local time, as seconds since 1970; infinite for its words for none; false: neither. */
bool launch_parse_end(const char *text, double *end);

/* --- pmix.c ------------------------------------------------------------------------------------------------------------- */

/* After MPI_Init and where a server answers: this node's name for it, if it has one, and the library's version. */
bool pmix_open(char node[NODE_NAME], char *version, size_t nbytes);
void pmix_close(void);
void pmix_abort(int status);

/* --- cores.c ------------------------------------------------------------------------------------------------------------ */

typedef struct CoreMap {
  cpu_set_t usable;        /* by this node's ranks together */
  int leader[CPU_SETSIZE]; /* the first CPU of each CPU's core */
} CoreMap;

/* How many cores rank `me` of `ranks` on this node gets, and which; bound: as the launcher bound each of them.  *mine is
 * bound[me] where that is a fair share. */
int cores_share(const CoreMap *map, const cpu_set_t *bound, int ranks, int me, cpu_set_t *mine);

#endif
