/* SPDX-License-Identifier: Apache-2.0 */
/* N ranks that are only thought of: sizes, a mesh and a share of the cores as rank 0 of them would see, for what
 * is compiled and never run.  Whatever would need the others is a mistake of ours. */
#include <stdio.h>
#include <string.h>

#include "src/comm/impl.h"

static void plan_nothing(Comm *comm) { (void)comm; }

static void plan_group(Mesh *mesh, MeshAxis axis) { (void)mesh, (void)axis; }

/* For comm_core_share: all ranks bound alike, each with a share like ours. */
static void plan_gather_local(Comm *comm, const void *mine, size_t nbytes, void *all) {
  for (int r = 0; r < comm->local_size; r++) memcpy((char *)all + (size_t)r * nbytes, mine, nbytes);
}

static void plan_most(Comm *comm, int64_t *values, int n) { (void)comm, (void)values, (void)n; }

static _Noreturn void never(void) { fail_check("a planned rank exchanges nothing", __FILE__, __LINE__); }

static void never_barrier(Comm *comm) { (void)comm, never(); }

static void never_broadcast(Comm *comm, void *bytes, size_t nbytes, int root) {
  (void)comm, (void)bytes, (void)nbytes, (void)root, never();
}

static void never_gather(Comm *comm, const void *mine, size_t nbytes, void *all) {
  (void)comm, (void)mine, (void)nbytes, (void)all, never();
}

static void never_op(CommOp *op) { (void)op, never(); }

static const CommTransport transport_plan = {
    .close = plan_nothing,
    .barrier = never_barrier,
    .broadcast = never_broadcast,
    .gather = never_gather,
    .gather_local = plan_gather_local,
    .most = plan_most,
    .control_start = never_barrier,
    .control_finish = never_barrier,
    .group_open = plan_group,
    .group_close = plan_group,
    .op_prepare = never_op,
    .op_start = never_op,
    .op_wait = never_op,
    .op_release = never_op,
};

Comm *comm_plan(int ranks) { return comm_plan_nodes(ranks, ranks); }

Comm *comm_plan_nodes(int ranks, int per_node) {
  CHECK(ranks >= 1 && per_node >= 1 && ranks % per_node == 0);
  Comm *comm = comm_self();
  comm->transport = &transport_plan;
  comm->size = ranks;
  comm->local_size = comm->least_local = comm->most_local = per_node;
  comm->nodes = ranks / per_node;
  comm->planned = true;
  snprintf(comm->describe, sizeof comm->describe, "%d rank%s planned; no MPI", ranks, ranks == 1 ? "" : "s");
  return comm;
}
