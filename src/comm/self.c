/* SPDX-License-Identifier: Apache-2.0 */
/* One rank alone: everything is a copy at most.  Also serves every mesh axis of extent 1. */
#include <string.h>

#include "src/comm/impl.h"

static void self_nothing(Comm *comm) { (void)comm; }

static void self_broadcast(Comm *comm, void *bytes, size_t nbytes, int root) { (void)comm, (void)bytes, (void)nbytes, (void)root; }

static void self_gather(Comm *comm, const void *mine, size_t nbytes, void *all) {
  (void)comm;
  memmove(all, mine, nbytes);
}

static void self_most(Comm *comm, int64_t *values, int n) { (void)comm, (void)values, (void)n; }

static void self_control_finish(Comm *comm) { memcpy(comm->control_most, comm->control_mine, sizeof comm->control_most); }

static void self_collect_start(Comm *comm) { memcpy(comm->collect_all, comm->collect_mine, comm->collect_bytes); }

static bool self_collect_over(Comm *comm, bool wait) { return (void)comm, (void)wait, true; }

static void self_group(Mesh *mesh, MeshAxis axis) { (void)mesh, (void)axis; }

static void self_op_nothing(CommOp *op) { (void)op; }

static void self_op_wait(CommOp *op) {
  if (op->in != op->out) memmove(op->out, op->in, (size_t)op->n * dtype_size(op->dtype));
}

const CommTransport comm_transport_self = {
    .close = self_nothing,
    .beside = self_nothing,
    .beside_close = self_nothing,
    .barrier = self_nothing,
    .broadcast = self_broadcast,
    .gather = self_gather,
    .gather_local = self_gather,
    .most = self_most,
    .control_start = self_nothing,
    .control_finish = self_control_finish,
    .collect_start = self_collect_start,
    .collect_over = self_collect_over,
    .group_open = self_group,
    .group_close = self_group,
    .op_prepare = self_op_nothing,
    .op_start = self_op_nothing,
    .op_wait = self_op_wait,
    .op_release = self_op_nothing,
};
