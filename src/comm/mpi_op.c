/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives over host buffers.  All-gather and all-to-all are the library's.  Reductions are ours, because the library chooses
 * their order:
 *
 *   reduce-scatter   every rank sends each other its part at start, in chunks, and sums what it receives for its own part in
 *                    the order me, me+1, …, me-1 (mod R), so that no rank is everybody's first; two chunks are staged.
 *   all-reduce       small: gathered whole and summed by everyone in rank order.  Else a reduce-scatter over R almost equal
 *                    pieces, each then sent by its owner to all. */
#include "src/comm/mpi_op.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/arena.h"

enum { TAGS = 16384 };
static const int64_t message_most = 1 << 28; /* elements; a count is an int */

/* --- pieces ------------------------------------------------------------------------------------------------------------- */

static MPI_Datatype type_of(DType dtype) {
  const MPI_Datatype types[DT_COUNT] = {[DT_F32] = MPI_FLOAT, [DT_I32] = MPI_INT32_T,   [DT_I64] = MPI_INT64_T,
                                        [DT_PRED] = MPI_BYTE, [DT_BF16] = MPI_UINT16_T, [DT_F16] = MPI_UINT16_T};
  return types[dtype];
}

/* One unit of n elements, whatever n: contiguous pieces of message_most and a rest. */
static MPI_Datatype block_make(const CommOp *op) {
  MPI_Datatype element = type_of(op->dtype), whole, most, parts[2];
  if (op->n <= message_most)
    MPI(op->what, MPI_Type_contiguous((int)op->n, element, &whole));
  else {
    int64_t count = op->n / message_most, rest = op->n % message_most;
    MPI_Aint at[2] = {0, (MPI_Aint)(count * message_most * (int64_t)dtype_size(op->dtype))};
    MPI(op->what, MPI_Type_contiguous((int)message_most, element, &most));
    MPI(op->what, MPI_Type_contiguous((int)count, most, &parts[0]));
    MPI(op->what, MPI_Type_contiguous((int)rest, element, &parts[1]));
    MPI(op->what, MPI_Type_create_struct(2, (int[]){1, 1}, at, parts, &whole));
    MPI(op->what, MPI_Type_free(&most));
    MPI(op->what, MPI_Type_free(&parts[0]));
    MPI(op->what, MPI_Type_free(&parts[1]));
  }
  MPI(op->what, MPI_Type_commit(&whole));
  return whole;
}

/* Where rank p's piece of a reduction begins. */
static int64_t piece_at(const CommOp *op, int p) {
  return op->kind == COMM_REDUCE_SCATTER ? op->n * p : op->n / op->group->size * p + op->n % op->group->size * p / op->group->size;
}

static int64_t piece_n(const CommOp *op, int p) { return piece_at(op, p + 1) - piece_at(op, p); }

static int64_t op_chunk(const CommOp *op) {
  int R = op->group->size;
  return comm_chunk(op->kind == COMM_REDUCE_SCATTER ? op->n : (op->n + R - 1) / R, op->dtype);
}

static char *element(const CommOp *op, const void *base, int64_t i) { return (char *)base + i * (int64_t)dtype_size(op->dtype); }

/* --- sums --------------------------------------------------------------------------------------------------------------- */

#define SUM(name, T)                                                                                                               \
  static void name(void *out, const void *a, const void *b, int64_t n) {                                                           \
    T *o = out;                                                                                                                    \
    const T *x = a, *y = b;                                                                                                        \
    _Pragma("omp simd") for (int64_t i = 0; i < n; i++) o[i] = (T)(x[i] + y[i]);                                                   \
  }
SUM(sum_f32, float)
SUM(sum_i32, int32_t)
SUM(sum_i64, int64_t)

/* Added in float and rounded again. */
#define SUM16(name, value, bits)                                                                                                   \
  static void name(void *out, const void *a, const void *b, int64_t n) {                                                           \
    uint16_t *o = out;                                                                                                             \
    const uint16_t *x = a, *y = b;                                                                                                 \
    for (int64_t i = 0; i < n; i++) o[i] = bits(value(x[i]) + value(y[i]));                                                        \
  }
SUM16(sum_bf16, bf16_value, bf16_of)
SUM16(sum_f16, f16_value, f16_of)

typedef void Sum(void *out, const void *a, const void *b, int64_t n);
static Sum *const sums[DT_COUNT] = {
    [DT_F32] = sum_f32, [DT_I32] = sum_i32, [DT_I64] = sum_i64, [DT_BF16] = sum_bf16, [DT_F16] = sum_f16};

/* --- reduce-scatter ----------------------------------------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static void send(CommOp *op, const void *at, int64_t n, int to, int phase) {
  MPI(op->what,
      MPI_Isend(at, (int)n, type_of(op->dtype), to, 2 * op->tag + phase, op->group->reduce, &op->requests[op->nrequests++]));
}

static void receive(CommOp *op, void *at, int64_t n, int from, int phase, MPI_Request *request) {
  MPI(op->what, MPI_Irecv(at, (int)n, type_of(op->dtype), from, 2 * op->tag + phase, op->group->reduce, request));
}

/* The i-th message into this rank's piece: chunks in order, and for each chunk the other ranks in order. */
typedef struct Incoming {
  int64_t at, n; /* in the piece */
  int from;
  bool first; /* of its chunk */
  char *slot;
} Incoming;

static int64_t incoming_count(const CommOp *op) {
  int64_t chunk = op_chunk(op), n = piece_n(op, op->group->rank);
  return n ? (n + chunk - 1) / chunk * (op->group->size - 1) : 0;
}

static Incoming incoming(const CommOp *op, int64_t i) {
  int others = op->group->size - 1;
  int64_t chunk = op_chunk(op), at = i / others * chunk;
  return (Incoming){.at = at,
                    .n = least(chunk, piece_n(op, op->group->rank) - at),
                    .from = (op->group->rank + 1 + (int)(i % others)) % op->group->size,
                    .first = i % others == 0,
                    .slot = element(op, op->workspace, i % 2 * chunk)};
}

static void incoming_post(CommOp *op, int64_t i) {
  if (i >= incoming_count(op)) return;
  Incoming m = incoming(op, i);
  receive(op, m.slot, m.n, m.from, 0, &op->receive[i % 2]);
}

static void reduce_start(CommOp *op) {
  int R = op->group->size, me = op->group->rank;
  int64_t chunk = op_chunk(op), longest = 0;
  for (int p = 0; p < R; p++) longest = longest > piece_n(op, p) ? longest : piece_n(op, p);
  incoming_post(op, 0);
  incoming_post(op, 1);
  for (int64_t at = 0; at < longest; at += chunk)
    for (int k = 1; k < R; k++) {
      int to = (me + R - k) % R; /* of which this rank is the k-th source */
      int64_t n = least(chunk, piece_n(op, to) - at);
      if (n > 0) send(op, element(op, op->in, piece_at(op, to) + at), n, to, 0);
    }
}

static void sends_wait(CommOp *op) {
  MPI(op->what, MPI_Waitall(op->nrequests, op->requests, MPI_STATUSES_IGNORE));
  op->nrequests = 0;
}

static void reduce_wait(CommOp *op) {
  int64_t count = incoming_count(op), mine = piece_at(op, op->group->rank);
  const char *own = element(op, op->in, mine);
  char *out = op->kind == COMM_REDUCE_SCATTER ? op->out : element(op, op->out, mine);
  for (int64_t i = 0; i < count; i++) {
    Incoming m = incoming(op, i);
    MPI(op->what, MPI_Wait(&op->receive[i % 2], MPI_STATUS_IGNORE));
    char *to = element(op, out, m.at);
    sums[op->dtype](to, m.first ? element(op, own, m.at) : to, m.slot, m.n);
    incoming_post(op, i + 2);
  }
  sends_wait(op);
}

/* --- all-reduce --------------------------------------------------------------------------------------------------------- */

static void pieces_exchange(CommOp *op) {
  int R = op->group->size, me = op->group->rank;
  for (int k = 1; k < R; k++) {
    int from = (me + k) % R, to = (me + R - k) % R;
    for (int64_t at = 0; at < piece_n(op, from); at += message_most) {
      int64_t n = least(message_most, piece_n(op, from) - at);
      receive(op, element(op, op->out, piece_at(op, from) + at), n, from, 1, &op->requests[op->nrequests++]);
    }
    for (int64_t at = 0; at < piece_n(op, me); at += message_most)
      send(op, element(op, op->out, piece_at(op, me) + at), least(message_most, piece_n(op, me) - at), to, 1);
  }
  sends_wait(op);
}

static void small_start(CommOp *op) {
  MPI_Datatype type = type_of(op->dtype);
  MPI(op->what,
      MPI_Iallgather(op->in, (int)op->n, type, op->workspace, (int)op->n, type, op->group->reduce, &op->requests[op->nrequests++]));
}

static void small_wait(CommOp *op) {
  sends_wait(op);
  sums[op->dtype](op->out, op->workspace, element(op, op->workspace, op->n), op->n);
  for (int r = 2; r < op->group->size; r++) sums[op->dtype](op->out, op->out, element(op, op->workspace, r * op->n), op->n);
}

static bool is_small(const CommOp *op) { return comm_reduce_is_small(op->n, op->dtype, op->group->size); }

static void all_reduce_start(CommOp *op) { is_small(op) ? small_start(op) : reduce_start(op); }

static void all_reduce_wait(CommOp *op) {
  if (is_small(op))
    small_wait(op);
  else {
    reduce_wait(op); /* its sends are done: what they read may be overwritten */
    pieces_exchange(op);
  }
}

/* --- all-gather --------------------------------------------------------------------------------------------------------- */

static void gather_start(CommOp *op) {
  const char *place = element(op, op->out, op->group->rank * op->n);
  const void *in = op->in == place ? MPI_IN_PLACE : op->in;
  MPI(op->what, MPI_Iallgather(in, 1, op->block, op->out, 1, op->block, op->group->gather, &op->requests[op->nrequests++]));
}

/* --- all-to-all --------------------------------------------------------------------------------------------------------- */

static void exchange_start(CommOp *op) {
  MPI(op->what, MPI_Ialltoall(op->in, 1, op->block, op->out, 1, op->block, op->group->reduce, &op->requests[op->nrequests++]));
}

/* --- a pair ------------------------------------------------------------------------------------------------------------- */

static void swap_start(CommOp *op) {
  receive(op, op->out, op->n, op->partner, 0, &op->requests[op->nrequests++]);
  send(op, op->in, op->n, op->partner, 0);
}

/* --- the table ---------------------------------------------------------------------------------------------------------- */

static const struct {
  void (*start)(CommOp *op);
  void (*wait)(CommOp *op);
} kinds[COMM_ALL_KINDS] = {[COMM_ALL_GATHER] = {gather_start, sends_wait},
                           [COMM_REDUCE_SCATTER] = {reduce_start, reduce_wait},
                           [COMM_ALL_REDUCE] = {all_reduce_start, all_reduce_wait},
                           [COMM_ALL_TO_ALL] = {exchange_start, sends_wait},
                           [COMM_SWAP] = {swap_start, sends_wait}};

/* Whose messages are whole parts, by the library. */
static bool moves_blocks(const CommOp *op) { return op->kind == COMM_ALL_GATHER || op->kind == COMM_ALL_TO_ALL; }

/* The most requests in flight at once. */
static int64_t requests_most(const CommOp *op) {
  int64_t R = op->group->size, piece = op->kind == COMM_REDUCE_SCATTER ? op->n : (op->n + R - 1) / R;
  if (moves_blocks(op)) return 1;
  if (op->kind == COMM_SWAP) return 2;
  return 2 * (R - 1) * ((piece + op_chunk(op) - 1) / op_chunk(op)) + 1;
}

void mpi_op_prepare(CommOp *op) {
  CHECK(moves_blocks(op) || (op->kind == COMM_SWAP ? op->n <= message_most : sums[op->dtype] != NULL));
  op->tag = op->group->nops++ % TAGS;
  op->block = MPI_DATATYPE_NULL;
  if (moves_blocks(op)) op->block = block_make(op);
  int64_t most = requests_most(op);
  CHECK(most <= INT_MAX);
  op->requests = xmalloc(sizeof *op->requests * (size_t)most);
}

void mpi_op_start(CommOp *op) { kinds[op->kind].start(op); }

void mpi_op_wait(CommOp *op) { kinds[op->kind].wait(op); }

void mpi_op_release(CommOp *op) {
  if (op->block != MPI_DATATYPE_NULL) MPI(op->what, MPI_Type_free(&op->block));
  free(op->requests);
}
