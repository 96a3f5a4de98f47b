/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of other processes' GPUs on this node, by CUDA's handles for it.  Part of the CUDA module.
 *
 * That a handle opens does not say that reads through it find what is there (other containers, address translation between PCIe
 * and memory): every rank lays down a mark of its own, reads its peers', and a group in which anything was amiss goes without. */
#include "src/comm/peers.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/arena.h"
#include "src/base/clock.h"

typedef struct Mark {
  uint64_t words[8];
} Mark;

/* What a rank tells all others. */
typedef struct Offer {
  char node[NODE_NAME];
  cudaIpcMemHandle_t handle;
  uint64_t able, nbytes;
  Mark mark;
} Offer;

struct Peers {
  Mesh *mesh;
  cudaStream_t stream;
  char *base;
  size_t nbytes;
  char **at[MESH_AXES]; /* by rank of the group, NULL its own; NULL: the group does not share */
};

int peers_member(const Mesh *mesh, int axis, int rank) {
  int of_job = 0;
  for (int a = 0; a < MESH_AXES; a++) of_job = of_job * mesh->extent[a] + (a == axis ? rank : mesh->index[a]);
  return of_job;
}

/* Not to be: CUDA forgets the error. */
static bool works(cudaError_t error) {
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error == cudaSuccess;
}

static Mark mark_make(const Comm *comm) {
  Mark mark;
  uint64_t word = (uint64_t)(clock_seconds() * 1e9) ^ (uint64_t)getpid() << 40 ^ (uint64_t)comm->rank << 20;
  for (int i = 0; i < 8; i++) mark.words[i] = word = word * 6364136223846793005u + 1442695040888963407u;
  return mark;
}

/* On the stream, and over when it returns. */
static cudaError_t move(const Peers *p, void *to, const void *from, size_t nbytes, enum cudaMemcpyKind kind) {
  cudaError_t error = cudaMemcpyAsync(to, from, nbytes, kind, p->stream);
  return error == cudaSuccess ? cudaStreamSynchronize(p->stream) : error;
}

static bool near(const Peers *p, int axis, const Offer *offers) {
  const Offer *mine = &offers[p->mesh->comm->rank];
  for (int r = 0; r < p->mesh->group[axis].size; r++) {
    const Offer *theirs = &offers[peers_member(p->mesh, axis, r)];
    if (!theirs->able || theirs->nbytes != mine->nbytes || strcmp(theirs->node, mine->node)) return false;
  }
  return p->mesh->group[axis].size > 1;
}

static void unmap(Peers *p, int axis) {
  for (int r = 0; p->at[axis] && r < p->mesh->group[axis].size; r++)
    if (p->at[axis][r]) CUDA(cudaIpcCloseMemHandle(p->at[axis][r]));
  free(p->at[axis]);
  p->at[axis] = NULL;
}

/* False: a peer's memory cannot be had. */
static bool try_map(Peers *p, int axis, const Offer *offers) {
  const CommGroup *group = &p->mesh->group[axis];
  p->at[axis] = xmalloc(sizeof *p->at[axis] * (size_t)group->size);
  memset(p->at[axis], 0, sizeof *p->at[axis] * (size_t)group->size);
  for (int r = 0; r < group->size; r++) {
    void *at = NULL;
    if (r == group->rank) continue;
    if (!works(cudaIpcOpenMemHandle(&at, offers[peers_member(p->mesh, axis, r)].handle, cudaIpcMemLazyEnablePeerAccess)))
      return false;
    p->at[axis][r] = at;
  }
  return true;
}

/* Between GPUs, as gathers go, to behind the own mark. */
static bool try_read(const Peers *p, int axis, const Offer *offers) {
  char *to = p->base + sizeof(Mark);
  for (int r = 0; r < p->mesh->group[axis].size; r++) {
    Mark got;
    if (!p->at[axis][r]) continue;
    if (!works(move(p, to, p->at[axis][r], sizeof got, cudaMemcpyDeviceToDevice))) return false;
    CUDA(move(p, &got, to, sizeof got, cudaMemcpyDeviceToHost));
    if (memcmp(&got, &offers[peers_member(p->mesh, axis, r)].mark, sizeof got)) return false;
  }
  return true;
}

static bool all_can(const Peers *p, int axis, const uint32_t *can) {
  for (int r = 0; r < p->mesh->group[axis].size; r++)
    if (!(can[peers_member(p->mesh, axis, r)] >> axis & 1)) return false;
  return true;
}

Peers *peers_open(Mesh *mesh, cudaStream_t stream, void *base, size_t nbytes) {
  Comm *comm = mesh->comm;
  Peers *p = xmalloc(sizeof *p);
  *p = (Peers){.mesh = mesh, .stream = stream, .base = base, .nbytes = nbytes};
  Offer mine = {.nbytes = nbytes, .mark = mark_make(comm)}, *offers = xmalloc(sizeof *offers * (size_t)comm->size);
  uint32_t can = 0, *all = xmalloc(sizeof *all * (size_t)comm->size);
  Mark before[2];
  memcpy(mine.node, comm->node, sizeof mine.node);
  mine.able = nbytes >= sizeof before && works(cudaIpcGetMemHandle(&mine.handle, base));
  if (mine.able) {
    CUDA(move(p, before, base, sizeof before, cudaMemcpyDeviceToHost));
    CUDA(move(p, base, &mine.mark, sizeof mine.mark, cudaMemcpyHostToDevice));
  }
  comm->transport->gather(comm, &mine, sizeof mine, offers); /* all marks are laid down */
  for (int axis = 0; axis < MESH_AXES; axis++)
    if (near(p, axis, offers) && try_map(p, axis, offers) && try_read(p, axis, offers)) can |= (uint32_t)1 << axis;
  comm->transport->gather(comm, &can, sizeof can, all); /* and read */
  for (int axis = 0; axis < MESH_AXES; axis++)
    if (p->at[axis] && !all_can(p, axis, all)) unmap(p, axis);
  if (mine.able) CUDA(move(p, base, before, sizeof before, cudaMemcpyHostToDevice));
  free(all);
  free(offers);
  return p;
}

/* A rank that has left here may free its memory: nobody maps it any more. */
void peers_close(Peers *p) {
  if (!p) return;
  for (int axis = 0; axis < MESH_AXES; axis++) unmap(p, axis);
  p->mesh->comm->transport->barrier(p->mesh->comm);
  free(p);
}

bool peers_share(const Peers *p, int axis) { return p && p->at[axis]; }

const void *peers_find(const Peers *p, int axis, int rank, const void *at, size_t nbytes) {
  const char *own = at;
  CHECK(own >= p->base && nbytes <= p->nbytes && (size_t)(own - p->base) <= p->nbytes - nbytes);
  return rank == p->mesh->group[axis].rank ? own : p->at[axis][rank] + (own - p->base);
}
