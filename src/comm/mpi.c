/* SPDX-License-Identifier: Apache-2.0 */
/* The mpi transport's calls for the whole job and its groups; mpi_op.c has the collectives over groups. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/base/arena.h"
#include "src/comm/mpi_op.h"

enum { GATHER_MOST = 64 << 20 }; /* bytes of all ranks in one call */

void mpi_check(int code, const char *call, const char *what) {
  if (code == MPI_SUCCESS) return;
  char words[MPI_MAX_ERROR_STRING] = "";
  int n = 0;
  if (MPI_Error_string(code, words, &n) != MPI_SUCCESS) n = 0;
  fail(FAIL_LOST,
       "%.*s for %s failed\n   %.*s\nhelp: see whether a node or the network went away; the run resumes from its last checkpoint",
       (int)strcspn(call, "("), call, what, n, words);
}

static void mpi_close(Comm *comm) {
  MPI("the end of the job", MPI_Comm_free(&comm->local));
  MPI("the end of the job", MPI_Comm_free(&comm->control));
  pmix_close(); /* after MPI_Init and before MPI_Finalize: the other ways round hang */
  MPI("the end of the job", MPI_Finalize());
}

/* Sleeps between looks: barriers stand where one rank may work long (compiling, reading), and needs the cores for it. */
static void mpi_barrier(Comm *comm) {
  MPI_Request request;
  MPI("all ranks", MPI_Ibarrier(comm->world, &request));
  for (int done = 0, looks = 0; !done; looks++) {
    MPI("all ranks", MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    if (!done && looks > 1000) nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
  }
}

/* Who is beside others must not keep a core busy with waiting. */
static void meet(Comm *comm) {
  if (comm->beside) mpi_barrier(comm);
}

static void mpi_beside(Comm *comm) { MPI("a thread's own communicator", MPI_Comm_dup(comm->world, &comm->world)); }

static void mpi_beside_close(Comm *comm) { MPI("a thread's own communicator", MPI_Comm_free(&comm->world)); }

static void mpi_broadcast(Comm *comm, void *bytes, size_t nbytes, int root) {
  const size_t most = 1 << 30;
  meet(comm);
  for (size_t done = 0; done < nbytes; done += most) {
    int n = (int)(nbytes - done < most ? nbytes - done : most);
    MPI("all ranks", MPI_Bcast((char *)bytes + done, n, MPI_BYTE, root, comm->world));
  }
}

static void gather(Comm *comm, const char *mine, size_t nbytes, void *all) {
  MPI("all ranks", MPI_Allgather(mine, (int)nbytes, MPI_BYTE, all, (int)nbytes, MPI_BYTE, comm->world));
}

/* What is large comes in parts: the library's counts and offsets are ints. */
static void mpi_gather(Comm *comm, const void *mine, size_t nbytes, void *all) {
  const size_t ranks = (size_t)comm->size, most = GATHER_MOST / ranks;
  meet(comm);
  if (nbytes <= most) {
    gather(comm, mine, nbytes, all);
    return;
  }
  char *part = xmalloc(most * ranks);
  for (size_t at = 0, n; at < nbytes; at += n) {
    n = nbytes - at < most ? nbytes - at : most;
    gather(comm, (const char *)mine + at, n, part);
    for (size_t r = 0; r < ranks; r++) memcpy((char *)all + r * nbytes + at, part + r * n, n);
  }
  free(part);
}

/* Small by contract; the bound keeps the library's offsets within an int. */
static void mpi_gather_local(Comm *comm, const void *mine, size_t nbytes, void *all) {
  CHECK(nbytes <= (size_t)(INT_MAX / comm->local_size));
  MPI("a node's ranks", MPI_Allgather(mine, (int)nbytes, MPI_BYTE, all, (int)nbytes, MPI_BYTE, comm->local));
}

static void mpi_gather_axis(Mesh *mesh, MeshAxis axis, const void *mine, size_t nbytes, void *all) {
  const CommGroup *group = &mesh->group[axis];
  CHECK(nbytes <= (size_t)(INT_MAX / group->size));
  MPI("the ranks of an axis", MPI_Allgather(mine, (int)nbytes, MPI_BYTE, all, (int)nbytes, MPI_BYTE, group->gather));
}

static void mpi_most(Comm *comm, int64_t *values, int n) {
  meet(comm);
  MPI("all ranks", MPI_Allreduce(MPI_IN_PLACE, values, n, MPI_INT64_T, MPI_MAX, comm->world));
}

static void mpi_control_start(Comm *comm) {
  MPI("the control exchange",
      MPI_Iallreduce(comm->control_mine, comm->control_most, 4, MPI_INT64_T, MPI_MAX, comm->control, &comm->control_request));
}

static void mpi_control_finish(Comm *comm) { MPI("the control exchange", MPI_Wait(&comm->control_request, MPI_STATUS_IGNORE)); }

static void mpi_collect_start(Comm *comm) {
  int n = (int)comm->collect_bytes;
  MPI("a gather to rank 0",
      MPI_Igather(comm->collect_mine, n, MPI_BYTE, comm->collect_all, n, MPI_BYTE, 0, comm->control, &comm->collect_request));
}

static bool mpi_collect_over(Comm *comm, bool wait) {
  int over = 1;
  if (wait)
    MPI("a gather to rank 0", MPI_Wait(&comm->collect_request, MPI_STATUS_IGNORE));
  else
    MPI("a gather to rank 0", MPI_Test(&comm->collect_request, &over, MPI_STATUS_IGNORE));
  return over;
}

/* Ranks that differ in this axis alone have one colour. */
static void mpi_group_open(Mesh *mesh, MeshAxis axis) {
  CommGroup *group = &mesh->group[axis];
  Comm *comm = mesh->comm;
  if (group->size == 1) return;
  if (group->size == comm->size)
    MPI("the mesh", MPI_Comm_dup(comm->world, &group->gather));
  else {
    int colour = 0;
    for (int a = 0; a < MESH_AXES; a++) colour = colour * mesh->extent[a] + (a == (int)axis ? 0 : mesh->index[a]);
    MPI("the mesh", MPI_Comm_split(comm->world, colour, group->rank, &group->gather));
  }
  MPI("the mesh", MPI_Comm_dup(group->gather, &group->reduce));
}

static void mpi_group_close(Mesh *mesh, MeshAxis axis) {
  CommGroup *group = &mesh->group[axis];
  if (group->size == 1) return;
  MPI("the mesh", MPI_Comm_free(&group->gather));
  MPI("the mesh", MPI_Comm_free(&group->reduce));
}

const CommTransport comm_transport_mpi = {
    .close = mpi_close,
    .beside = mpi_beside,
    .beside_close = mpi_beside_close,
    .barrier = mpi_barrier,
    .broadcast = mpi_broadcast,
    .gather = mpi_gather,
    .gather_local = mpi_gather_local,
    .gather_axis = mpi_gather_axis,
    .most = mpi_most,
    .control_start = mpi_control_start,
    .control_finish = mpi_control_finish,
    .collect_start = mpi_collect_start,
    .collect_over = mpi_collect_over,
    .group_open = mpi_group_open,
    .group_close = mpi_group_close,
    .op_prepare = mpi_op_prepare,
    .op_start = mpi_op_start,
    .op_wait = mpi_op_wait,
    .op_release = mpi_op_release,
};
