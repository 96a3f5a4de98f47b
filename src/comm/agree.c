/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks decide together, on top of a transport's few calls. */
#include <stdlib.h>
#include <string.h>

#include "src/base/arena.h"
#include "src/base/clock.h"
#include "src/comm/impl.h"

/* A call that all ranks come to, and that is over when it returns. */
#define TOGETHER(comm, what, call)                                                                                                 \
  do {                                                                                                                             \
    double begin = clock_seconds();                                                                                                \
    watch_wait((comm), watch_enter(comm), (what));                                                                                 \
    (comm)->transport->call;                                                                                                       \
    watch_leave(comm);                                                                                                             \
    (comm)->waited += clock_seconds() - begin;                                                                                     \
  } while (0)

void comm_most(Comm *comm, int64_t *values, int n) { TOGETHER(comm, "an agreement of all ranks", most(comm, values, n)); }

bool comm_any(Comm *comm, bool mine) {
  int64_t any = mine;
  comm_most(comm, &any, 1);
  return any != 0;
}

size_t comm_least(Comm *comm, size_t mine) {
  int64_t least = -(int64_t)mine;
  comm_most(comm, &least, 1);
  return (size_t)-least;
}

/* ~x falls as x rises, so that the two maxima are the greatest and, inverted, the least. */
void comm_agree(Comm *comm, uint64_t mine, const char *what) {
  int64_t bounds[2] = {(int64_t)mine, (int64_t)~mine};
  comm_most(comm, bounds, 2);
  if (bounds[0] == ~bounds[1]) return;
  uint64_t *all = xmalloc(sizeof *all * (size_t)comm->size);
  comm_gather(comm, &mine, sizeof mine, all);
  int other = 1;
  while (other < comm->size - 1 && all[other] == all[0]) other++;
  free(all);
  char node[NODE_NAME];
  memcpy(node, comm->node, sizeof node);
  comm_broadcast(comm, node, sizeof node, other);
  fail(FAIL_INPUT, "ranks differ in %s: rank %d (%s) has another than rank 0\nhelp: give all ranks the same files and arguments",
       what, other, node);
}

void comm_broadcast(Comm *comm, void *bytes, size_t nbytes, int root) {
  CHECK(root >= 0 && root < comm->size);
  TOGETHER(comm, "a broadcast to all ranks", broadcast(comm, bytes, nbytes, root));
}

void comm_barrier(Comm *comm) { TOGETHER(comm, "a barrier of all ranks", barrier(comm)); }

void comm_gather(Comm *comm, const void *mine, size_t nbytes, void *all) {
  TOGETHER(comm, "a gather from all ranks", gather(comm, mine, nbytes, all));
}

void comm_gather_local(Comm *comm, const void *mine, size_t nbytes, void *all) {
  TOGETHER(comm, "a gather from a node's ranks", gather_local(comm, mine, nbytes, all));
}

void comm_gather_axis(Mesh *mesh, MeshAxis axis, const void *mine, size_t nbytes, void *all) {
  if (mesh->group[axis].size == 1)
    memcpy(all, mine, nbytes);
  else
    mesh->comm->transport->gather_axis(mesh, axis, mine, nbytes, all);
}

bool comm_any_reason(Comm *comm, bool mine, char *text, size_t nbytes) {
  int64_t first = mine ? comm->size - comm->rank : 0; /* greatest on the lowest rank */
  comm_most(comm, &first, 1);
  if (first) comm_broadcast(comm, text, nbytes, comm->size - (int)first);
  return first != 0;
}

void comm_control_start(Comm *comm, const int64_t mine[4]) {
  CHECK(!comm->control_started);
  comm->control_started = true;
  comm->control_entered = watch_enter(comm);
  memcpy(comm->control_mine, mine, sizeof comm->control_mine);
  comm->transport->control_start(comm);
}

void comm_control_finish(Comm *comm, int64_t most[4]) {
  CHECK(comm->control_started);
  comm->control_started = false;
  watch_wait(comm, comm->control_entered, "the control exchange");
  comm->transport->control_finish(comm);
  watch_leave(comm);
  memcpy(most, comm->control_most, sizeof comm->control_most);
}

void comm_collect_start(Comm *comm, const void *mine, size_t nbytes) {
  CHECK(!comm->collect_started && nbytes <= sizeof comm->collect_mine);
  if (comm->rank == 0 && nbytes != comm->collect_bytes) {
    free(comm->collect_all);
    comm->collect_all = xmalloc(nbytes * (size_t)comm->size);
  }
  comm->collect_started = true;
  comm->collect_bytes = nbytes;
  comm->collect_entered = watch_enter(comm);
  memcpy(comm->collect_mine, mine, nbytes);
  comm->transport->collect_start(comm);
}

const void *comm_collect_over(Comm *comm, bool wait) {
  if (!comm->collect_started) return NULL;
  if (wait) watch_wait(comm, comm->collect_entered, "the gather of paces");
  comm->collect_started = !comm->transport->collect_over(comm, wait);
  if (wait) watch_leave(comm);
  return comm->collect_started ? NULL : comm->collect_all;
}
