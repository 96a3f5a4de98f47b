/* SPDX-License-Identifier: Apache-2.0 */
/* A test program on any number of ranks: the job, and a mesh with all of them along one axis. */
#ifndef TEST_MPI_RANKS_H
#define TEST_MPI_RANKS_H

#include "src/comm/comm.h"
#include "test/check.h"

static Comm *comm;
static Mesh *mesh;
static int R, me;

BEFORE_ALL {
  comm = comm_boot(NULL, NULL);
  R = comm_size(comm);
  me = comm_rank(comm);
  mesh = mesh_open(comm, (const int[MESH_AXES]){1, 1, R, 1, 1});
}

AFTER_ALL {
  mesh_close(mesh);
  comm_close(comm);
}

#endif
