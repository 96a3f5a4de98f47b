/* SPDX-License-Identifier: Apache-2.0 */
/* How fast pairs of ranks are, all at a time.  Round k pairs each rank with the one whose number differs in bit k, so that all
 * ranks have met neighbours and strangers after as many rounds as that number has bits: 10 for 1,024 ranks. */
#include <string.h>

#include "src/base/clock.h"
#include "src/comm/impl.h"

enum { SWAP_BYTES = 16 << 20, SWAPS_MOST = 50 };

int comm_rounds(const Comm *comm) {
  int rounds = 0;
  while (1 << rounds < comm->size) rounds++;
  return rounds;
}

int comm_partner(int ranks, int rank, int round) {
  int partner = rank ^ 1 << round;
  return partner < ranks ? partner : -1;
}

static double swap(CommOp *op, Dev *dev, int n) {
  double begin = clock_seconds();
  for (int i = 0; i < n; i++) {
    comm_start(op);
    comm_wait(op);
  }
  dev_sync(dev);
  return clock_seconds() - begin;
}

double comm_pair_rate(Mesh *mesh, Dev *dev, int round, double seconds) {
  Comm *comm = mesh->comm;
  int partner = comm_partner(comm->size, comm->rank, round);
  bool host = !mesh->device;
  char *in = host ? dev_host_alloc(dev, 2 * SWAP_BYTES) : dev_alloc(dev, 2 * SWAP_BYTES, "a measurement"), *out = in + SWAP_BYTES;
  if (host) memset(in, 1, 2 * SWAP_BYTES);
  CommOp *op = comm_prepare_swap(mesh, partner, in, out, SWAP_BYTES / 4, DT_F32, "swap of a pair");
  swap(op, dev, 1); /* connects */
  comm_barrier(comm);
  double one = swap(op, dev, 1);
  double wanted = partner < 0 ? SWAPS_MOST : seconds / one;
  int n = (int)comm_least(comm, wanted < 1 ? 1 : wanted < SWAPS_MOST ? (size_t)wanted : SWAPS_MOST);
  double took = swap(op, dev, n);
  comm_release(op);
  if (host)
    dev_host_free(dev, in);
  else
    dev_free(dev, in, 2 * SWAP_BYTES);
  return partner < 0 ? 0 : (double)n * SWAP_BYTES / took;
}
