/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of the GPUs of one node, as this rank reads it.  Private to the CUDA module. */
#ifndef COMM_PEERS_H
#define COMM_PEERS_H

#include "src/comm/impl.h"
#include "src/dev/cuda.h"

typedef struct Peers Peers;

/* The job's rank of a rank of this rank's group. */
int peers_member(const Mesh *mesh, int axis, int rank);

/* Shows `nbytes` at base, one allocation, to this rank's groups and maps theirs.  A group whose ranks are not on one node, or
 * one of which cannot read another, is left out; its ranks agree on that.  All ranks call, and close before any of them frees. */
Peers *peers_open(Mesh *mesh, cudaStream_t stream, void *base, size_t nbytes);
void peers_close(Peers *peers); /* NULL is fine; nothing that was started reads any more */

bool peers_share(const Peers *peers, int axis);
/* Where rank `rank` of that group has what this rank has at `at`, nbytes of it. */
const void *peers_find(const Peers *peers, int axis, int rank, const void *at, size_t nbytes);

#endif
