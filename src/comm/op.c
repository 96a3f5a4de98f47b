/* SPDX-License-Identifier: Apache-2.0 */
/* The mesh and the life of a prepared collective, whatever the transport. */
#include <stdio.h>
#include <stdlib.h>

#include "src/base/arena.h"
#include "src/base/clock.h"
#include "src/base/hash.h"
#include "src/comm/impl.h"

/* --- mesh --------------------------------------------------------------------------------------------------------------- */

/* By rank, a number that ranks of one node have in common. */
static uint64_t *find_nodes(Comm *comm) {
  uint64_t *all = xmalloc(sizeof *all * (size_t)comm->size);
  Sha256 hash;
  sha256_init(&hash);
  sha256_add_text(&hash, comm->node);
  uint64_t mine = sha256_u64(&hash);
  for (int r = 0; r < comm->size; r++) all[r] = (uint64_t)(r / comm->local_size);
  if (!comm->planned) comm_gather(comm, &mine, sizeof mine, all);
  return all;
}

static void find_near(Mesh *mesh) {
  uint64_t *node = find_nodes(mesh->comm);
  for (int axis = MESH_AXES - 1, stride = 1; axis >= 0; stride *= mesh->extent[axis--]) {
    mesh->near[axis] = true;
    for (int r = 0; r < mesh->comm->size; r++) {
      int first = r - r / stride % mesh->extent[axis] * stride; /* of r's group */
      mesh->near[axis] &= node[r] == node[first];
    }
  }
  free(node);
}

Mesh *mesh_open(Comm *comm, const int extent[MESH_AXES]) {
  Mesh *mesh = xmalloc(sizeof *mesh);
  *mesh = (Mesh){.comm = comm};
  int rest = comm->rank, product = 1;
  for (int axis = MESH_AXES - 1; axis >= 0; axis--) { /* the last axis is the fastest */
    CHECK(extent[axis] >= 1 && extent[axis] <= comm->size / product);
    product *= extent[axis];
    mesh->extent[axis] = extent[axis];
    mesh->index[axis] = rest % extent[axis];
    rest /= extent[axis];
    mesh->group[axis] = (CommGroup){.size = extent[axis], .rank = mesh->index[axis]};
  }
  CHECK(product == comm->size);
  find_near(mesh);
  for (int axis = 0; axis < MESH_AXES; axis++) comm->transport->group_open(mesh, (MeshAxis)axis);
  return mesh;
}

Mesh *mesh_data_parallel(Comm *comm, int shards) {
  int extent[MESH_AXES] = {1, 1, 1, 1, 1};
  extent[MESH_DP_SHARD] = shards;
  extent[MESH_DP_REPLICATE] = comm->size / shards;
  return mesh_open(comm, extent);
}

void mesh_close(Mesh *mesh) {
  if (!mesh) return;
  comm_device_close(mesh);
  for (int axis = 0; axis < MESH_AXES; axis++) mesh->comm->transport->group_close(mesh, (MeshAxis)axis);
  free(mesh);
}

int mesh_extent(const Mesh *mesh, MeshAxis axis) { return mesh->extent[axis]; }

bool mesh_is_near(const Mesh *mesh, MeshAxis axis) { return mesh->near[axis]; }

int mesh_index(const Mesh *mesh, MeshAxis axis) { return mesh->index[axis]; }

int mesh_dp_size(const Mesh *mesh) { return mesh->extent[MESH_DP_REPLICATE] * mesh->extent[MESH_DP_SHARD]; }

int mesh_dp_index(const Mesh *mesh) {
  return mesh->index[MESH_DP_REPLICATE] * mesh->extent[MESH_DP_SHARD] + mesh->index[MESH_DP_SHARD];
}

/* --- collectives -------------------------------------------------------------------------------------------------------- */

bool comm_reduce_is_small(int64_t n, DType dtype, int ranks) { return n <= SMALL_REDUCE / (int64_t)dtype_size(dtype) / ranks; }

int64_t comm_chunk(int64_t n, DType dtype) {
  int64_t most = CHUNK_BYTES / (int64_t)dtype_size(dtype);
  return n < 1 ? 1 : n < most ? n : most;
}

size_t comm_workspace(CommKind kind, int64_t n, DType dtype, int ranks) {
  CHECK(n >= 0 && ranks >= 1);
  size_t size = dtype_size(dtype);
  if (ranks == 1 || kind == COMM_ALL_GATHER || kind == COMM_ALL_TO_ALL) return 0;
  if (kind == COMM_ALL_REDUCE && comm_reduce_is_small(n, dtype, ranks)) return (size_t)(n * ranks) * size;
  return 2 * size * (size_t)comm_chunk(kind == COMM_ALL_REDUCE ? (n + ranks - 1) / ranks : n, dtype);
}

static CommOp *prepare(Mesh *mesh, MeshAxis axis, CommKind kind, int partner, const void *in, void *out, int64_t n, DType dtype,
                       void *workspace, const char *what) {
  CommGroup *group = &mesh->group[axis];
  CommOp *op = xmalloc(sizeof *op);
  *op = (CommOp){.transport = mesh->device       ? &mesh->device->ops
                              : group->size == 1 ? &comm_transport_self
                                                 : mesh->comm->transport,
                 .mesh = mesh,
                 .group = group,
                 .kind = kind,
                 .partner = partner,
                 .in = in,
                 .out = out,
                 .workspace = workspace,
                 .n = n,
                 .dtype = dtype};
  snprintf(op->what, sizeof op->what, "%s", what);
  op->transport->op_prepare(op);
  return op;
}

CommOp *comm_prepare(Mesh *mesh, MeshAxis axis, CommKind kind, const void *in, void *out, int64_t n, DType dtype, void *workspace,
                     const char *what) {
  CHECK(n >= 0 && (workspace || mesh->device || !comm_workspace(kind, n, dtype, mesh->group[axis].size)));
  return prepare(mesh, axis, kind, -1, in, out, n, dtype, workspace, what);
}

/* Whoever has no partner has nothing to move. */
CommOp *comm_prepare_swap(Mesh *mesh, int partner, const void *in, void *out, int64_t n, DType dtype, const char *what) {
  CHECK(mesh->group[MESH_DP_SHARD].size == mesh->comm->size && partner != mesh->comm->rank && partner < mesh->comm->size);
  return prepare(mesh, MESH_DP_SHARD, COMM_SWAP, partner, in, out, partner < 0 ? 0 : n, dtype, NULL, what);
}

void comm_start(CommOp *op) {
  CHECK(!op->started);
  op->started = true;
  if (!op->mesh->device) op->entered = watch_enter(op->mesh->comm);
  if (op->n) op->transport->op_start(op);
}

void comm_wait(CommOp *op) {
  CHECK(op->started);
  op->started = false;
  if (!op->n) return;
  Comm *comm = op->mesh->comm;
  if (op->mesh->device) { /* the device's wait, not ours */
    op->transport->op_wait(op);
    return;
  }
  double begin = clock_seconds();
  watch_wait(comm, op->entered, op->what);
  op->transport->op_wait(op);
  watch_leave(comm);
  comm->waited += clock_seconds() - begin;
}

void comm_release(CommOp *op) {
  if (!op) return;
  CHECK(!op->started);
  Comm *comm = op->mesh->comm;
  watch_lock(comm);
  op->transport->op_release(op);
  free(op);
  watch_unlock(comm);
}
