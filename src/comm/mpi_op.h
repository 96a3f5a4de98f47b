/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMM_MPI_OP_H
#define COMM_MPI_OP_H

#include "src/comm/impl.h"

void mpi_op_prepare(CommOp *op);
void mpi_op_start(CommOp *op);
void mpi_op_wait(CommOp *op);
void mpi_op_release(CommOp *op);

#endif
