/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of a CUDA launch, by the kernel alone: how many columns are a chunk, how many threads share a row, what a thread
 * holds in registers. */
#include "src/gen/cuda.h"

enum {
  ROW_THREADS = 128,  /* of a block whose rows are short */
  MOST_THREADS = 512, /* a thread of so large a block may have 128 registers */
  ACROSS_THREADS = 16,
  HALVES = 8,         /* columns in a chunk, of numbers of 16 bits; of others half as many */
  EACH_BYTES = 64,    /* of an input's row that a thread takes, if there are threads enough */
  HELD = 32,          /* registers of an input's row that a thread may hold */
  HELD_LENGTH = 1536, /* columns a thread times values: so much code is unrolled */
  IN_FLIGHT = 8,
  DRAW_REGISTERS = 16, /* of its 64-bit products, where sums of columns are kept beside them */
  FEW_REGISTERS = 36,  /* of data: with those of the arithmetic, few enough for RESIDENT threads of a multiprocessor */
  FEW_COLUMNS = 16,
  RESIDENT = 1024
};

const KernelArg *cuda_argument(const Kernel *k, int arg) {
  return arg < k->ninputs ? &k->inputs[arg] : &k->outputs[arg - k->ninputs];
}

static bool is_column_sum(const Kernel *k, int arg) {
  return arg >= k->ninputs && k->values[k->outputs[arg - k->ninputs].value].kop == K_COLUMN_SUM;
}

/* All of them; of those, how many have a sum a column. */
static int count_column_sums(const Kernel *k, int *wide) {
  int n = 0;
  *wide = 0;
  for (int v = 0; v < k->nvalues; v++) {
    if (k->values[v].kop != K_COLUMN_SUM) continue;
    n++;
    *wide += k->values[k->values[v].in[0]].level == LEVEL_FULL;
  }
  return n;
}

/* --- chunks ------------------------------------------------------------------------------------------------------------- */

/* Columns in a chunk; stride: of each argument along them.  A thread's 16 bytes are 4 floats or 8 numbers of 16 bits.  Where
 * both are read, a float's chunk is two accesses, the second of which finds the cache line there; but what is written in
 * pieces of 16 bytes is to be without gaps. */
static int chunk_columns(const Kernel *k, const int64_t *stride, int64_t columns) {
  bool along = false, halves = false, wide = false;
  for (int arg = 0; arg < k->ninputs + k->noutputs; arg++) {
    if (stride[arg] != 1 || is_column_sum(k, arg)) continue;
    size_t size = dtype_size(cuda_argument(k, arg)->dtype);
    along = true;
    halves |= size == 2;
    wide |= size > 2 && arg >= k->ninputs;
  }
  if (!along) return 1;
  for (int n = halves && !wide ? HALVES : HALVES / 2; n >= 4; n /= 2)
    if (columns % n == 0) return n;
  return 1;
}

/* A block may count to as many rows beyond the last as it has. */
const char *cuda_index_type(const Cuda *c) {
  const Loops *l = c->g.loops;
  int64_t most = l->rows + c->rows + l->unit_rows;
  for (int arg = 0; arg < c->g.kernel->ninputs + c->g.kernel->noutputs; arg++) {
    int64_t offset = 0;
    for (int a = 0; a < l->nouter; a++) offset += l->dim[a] * l->stride[arg][a];
    if (offset > most) most = offset;
  }
  return most < INT32_MAX ? "int32_t" : "int64_t";
}

int64_t cuda_column_stride(const Cuda *c, int arg) { return c->g.loops->stride[arg][c->g.loops->nouter]; }

bool cuda_is_full_input(const Cuda *c, int v) {
  return c->g.kernel->values[v].kop == K_INPUT && c->g.loops->value[v].used && c->g.loops->value[v].level == LEVEL_FULL;
}

bool cuda_is_constant(const Cuda *c, int v) {
  if (!cuda_is_full_input(c, v)) return false;
  for (int a = 0; a < c->g.loops->nouter; a++)
    if (c->g.loops->stride[c->g.kernel->values[v].input][a]) return false;
  return true;
}

bool cuda_is_packed(const Cuda *c, DType type) { return c->vector > 1 && dtype_size(type) == 2 && dtype_is_float(type); }

bool cuda_is_vector(const Cuda *c, int arg) {
  const Loops *l = c->g.loops;
  if (c->vector == 1 || cuda_column_stride(c, arg) != 1 || !(c->aligned >> arg & 1)) return false;
  int64_t size = (int64_t)dtype_size(cuda_argument(c->g.kernel, arg)->dtype), nbytes = c->vector * size;
  for (int a = 0; a < l->nouter; a++)
    if (l->stride[arg][a] * size % (nbytes < 16 ? nbytes : 16)) return false;
  return true;
}

void cuda_shape_pointwise(Cuda *c) {
  int64_t stride[STEP_ARGS];
  for (int arg = 0; arg < c->g.kernel->ninputs + c->g.kernel->noutputs; arg++) stride[arg] = cuda_column_stride(c, arg);
  c->vector = chunk_columns(c->g.kernel, stride, c->g.loops->columns);
}

/* --- registers ---------------------------------------------------------------------------------------------------------- */

int cuda_register_bytes(const Cuda *c, DType type) { return cuda_is_packed(c, type) ? 2 : dtype_size(type) == 8 ? 8 : 4; }

/* The most of any input along the columns. */
static int widest_input(const Cuda *c, const Kernel *k) {
  int most = c->vector == HALVES ? 2 : 4;
  for (int i = 0; i < k->ninputs; i++) {
    int nbytes = cuda_register_bytes(c, k->inputs[i].dtype);
    if (k->inputs[i].stride[k->domain.rank - 1] && nbytes > most) most = nbytes;
  }
  return most;
}

size_t cuda_kept_most(const Cuda *c, const Kernel *k) {
  int registers = KEPT_REGISTERS - c->sums + IN_FLIGHT; /* each input wants some for what is on its way, too */
  for (int i = 0; i < k->ninputs; i++) registers -= k->inputs[i].stride[k->domain.rank - 1] ? IN_FLIGHT : 0;
  return c->held && registers > 0 ? sizeof(float) * (size_t)registers * (size_t)c->threads : 0;
}

/* --- rows --------------------------------------------------------------------------------------------------------------- */

/* Whether something runs along the columns, and whether inputs run along the rows instead, as partial sums do. */
static void directions(const Kernel *k, bool *along, bool *across) {
  int last = k->domain.rank - 1, row = last - 1;
  while (row > 0 && k->domain.dim[row] == 1) row--;
  *along = *across = false;
  for (int arg = 0; arg < k->ninputs + k->noutputs; arg++) {
    const KernelArg *a = cuda_argument(k, arg);
    *along |= a->stride[last] == 1;
    *across |= arg < k->ninputs && row >= 0 && a->stride[row] == 1 && a->stride[last] > 1;
  }
  *across &= !*along;
}

/* Threads a row by its length: EACH_BYTES each, one chunk where sums of columns keep registers too, 8 columns where neighbouring
 * threads have neighbouring rows. */
void cuda_shape_rows(Cuda *c, const Kernel *k) {
  int last = k->domain.rank - 1;
  int64_t columns = k->domain.dim[last], stride[STEP_ARGS];
  int wide;
  bool along, sums = count_column_sums(k, &wide) > 0;
  directions(k, &along, &c->across);
  c->across &= !sums;
  for (int arg = 0; arg < k->ninputs + k->noutputs; arg++) stride[arg] = cuda_argument(k, arg)->stride[last];
  c->vector = chunk_columns(k, stride, columns);
  int widest = widest_input(c, k);
  int64_t chunks = columns / c->vector, each = c->vector == 1 ? 8 : sums ? 1 : EACH_BYTES / (widest * c->vector);
  int most = c->across ? ACROSS_THREADS : MOST_THREADS;
  c->threads = 1;
  while (c->threads < most && c->threads * each < chunks) c->threads *= 2;
  if (sums && c->threads < WARP) c->threads = WARP;
  c->rows = sums || (c->threads > WARP && !c->across) ? 1 : ROW_THREADS / c->threads;
  if (c->across && c->rows < WARP) c->rows = WARP;
  int64_t steps = (chunks + c->threads - 1) / c->threads, each_columns = steps * c->vector;
  c->held = each_columns * widest <= HELD * 4 && (each_columns <= HELD || each_columns * k->nvalues <= HELD_LENGTH);
  c->steps = c->held ? (int)steps : 0;
  wide *= c->steps * c->vector;
  c->sums = wide <= KEPT_REGISTERS / 2 ? wide : 0;
}

static bool keeps(const Loops *l, const Kernel *k) {
  for (int v = 0; v < k->nvalues; v++)
    if (l->value[v].read) return true;
  return false;
}

static bool draws(const Kernel *k) {
  for (int v = 0; v < k->nvalues; v++)
    if (k->values[v].kop == K_POINTWISE && k->values[v].op == OP_RANDOM) return true;
  return false;
}

/* A long row is worth holding only if something of it is needed again. */
void cuda_shape_held(Cuda *c) {
  const Kernel *k = c->g.kernel;
  const Loops *l = c->g.loops;
  c->held &= !l->pointwise && (c->steps * c->vector * widest_input(c, k) <= HELD * 2 || keeps(l, k));
  if (!c->held) c->steps = 0;
  int columns = c->steps * c->vector, rows = 0, constants = 0;
  if (!c->held) c->sums = 0;
  for (int v = 0; v < k->nvalues; v++) {
    if (!cuda_is_full_input(c, v)) continue;
    int registers = columns * cuda_register_bytes(c, k->values[v].dtype) / 4;
    if (k->values[v].dtype == DT_F16) registers += registers / 4; /* what conversions take */
    *(cuda_is_constant(c, v) ? &constants : &rows) += registers;
  }
  int data = rows + constants + c->sums;
  c->early = c->held && rows + constants > 0 && data <= KEPT_REGISTERS;
  c->ahead = c->early && l->column_sums && rows > 0 && rows + data <= FEW_REGISTERS;
  if (c->sums && draws(k)) data += DRAW_REGISTERS;
  c->resident = data <= FEW_REGISTERS && columns <= FEW_COLUMNS && !l->pointwise && c->threads * c->rows < RESIDENT
                    ? RESIDENT / (c->threads * c->rows)
                    : 1;
}
