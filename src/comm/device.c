/* SPDX-License-Identifier: Apache-2.0 */
/* From collectives on the host's memory to those on GPUs: who has which GPU, and whether that can work. */
#include <stdlib.h>
#include <string.h>

#include "src/base/arena.h"
#include "src/comm/impl.h"

typedef struct Seat {
  char node[NODE_NAME];
  DevCard card;
} Seat;

/* All ranks see the same seats, and end alike. */
static void seats_check(const Seat *seats, int n) {
  for (int r = 1; r < n; r++) {
    for (int q = 0; q < r; q++)
      if (!memcmp(seats[q].card.uuid, seats[r].card.uuid, sizeof seats[r].card.uuid))
        fail(FAIL_MACHINE,
             "ranks %d and %d on %s have one GPU: %s, %s\nhelp: one rank a GPU: as many ranks a node as it has GPUs, and "
             "CUDA_VISIBLE_DEVICES unset, or another for each rank; in Slurm --ntasks-per-node and --gpus-per-node of one number",
             q, r, seats[r].node, seats[r].card.name, seats[r].card.bus);
    if (strcmp(seats[0].card.name, seats[r].card.name))
      fail(FAIL_MACHINE,
           "ranks have GPUs of different kinds: rank 0 (%s) %s, rank %d (%s) %s\nhelp: nodes with GPUs of one kind (in Slurm "
           "--gres=gpu:KIND:N or --constraint), or CUDA_VISIBLE_DEVICES that names those of one kind",
           seats[0].node, seats[0].card.name, r, seats[r].node, seats[r].card.name);
  }
}

bool comm_device_open(Mesh *mesh, Dev *dev) {
  Comm *comm = mesh->comm;
  Seat mine = {0};
  if (!dev_card(dev, &mine.card)) return false;
  CHECK(!mesh->device || mesh->dev == dev);
  if (mesh->device) return true;
  Seat *seats = xmalloc(sizeof *seats * (size_t)comm->size);
  memcpy(mine.node, comm->node, sizeof mine.node);
  comm_gather(comm, &mine, sizeof mine, seats);
  seats_check(seats, comm->size);
  free(seats);
  mesh->device = dev_cuda_symbol("comm_device_nccl");
  mesh->dev = dev;
  mesh->device->open(mesh);
  watch_mesh(comm, mesh);
  return true;
}

void comm_device_settle(Mesh *mesh) {
  if (mesh->device) mesh->device->settle(mesh);
}

CommConnected comm_connected(const Mesh *mesh) { return mesh->device ? mesh->device->connected(mesh) : (CommConnected){0, 0}; }

bool comm_device_share(Mesh *mesh, void *base, size_t nbytes) {
  CHECK(mesh->device);
  return mesh->device->share(mesh, base, nbytes);
}

bool comm_copies(CommOp *op, bool first) {
  CHECK((op->kind == COMM_ALL_GATHER || op->kind == COMM_ALL_TO_ALL) && !op->started);
  return op->mesh->device && op->mesh->device->copies(op, first);
}

void comm_device_close(Mesh *mesh) {
  if (!mesh->device) return;
  watch_mesh(mesh->comm, NULL);
  meter_close(mesh->meter);
  mesh->meter = NULL;
  mesh->device->close(mesh);
  mesh->device = NULL;
}
