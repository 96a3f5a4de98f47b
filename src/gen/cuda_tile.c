/* SPDX-License-Identifier: Apache-2.0 */
/* Transposes: a pointwise kernel of which some arguments run along the columns and others along another axis, "down".  A block
 * has a square of both axes.  What runs down goes through shared memory: neighbouring threads read it, or write it, down; all
 * else they do along the columns.  A line of the square has one element more than is used, so that neither way meets one bank
 * of the memory twice.
 *
 * Names: p along a line of the square and q across it, q3 the square of input 3, z0 that of output 0. */
#include <inttypes.h>
#include <stdio.h>

#include "src/gen/cuda.h"

enum { TILE = 32, SHORTEST = TILE / 2, LINES = POINTWISE_THREADS / TILE, SHARED_BYTES = 48 << 10 };

/* The axis of the rows along which arguments run that do not run along the columns; -1: none. */
static int down_axis(const Cuda *c) {
  const Loops *l = c->g.loops;
  int n = c->g.kernel->ninputs + c->g.kernel->noutputs;
  bool along = false;
  for (int arg = 0; arg < n; arg++) along |= l->stride[arg][l->nouter] == 1;
  if (!along || l->columns < SHORTEST) return -1;
  for (int a = l->nouter - 1; a >= 0; a--)
    for (int arg = 0; arg < n && l->dim[a] >= SHORTEST; arg++)
      if (l->stride[arg][a] == 1 && l->stride[arg][l->nouter] > 1) return a;
  return -1;
}

bool cuda_is_tiled(const Cuda *c) { return down_axis(c) >= 0; }

static size_t square_bytes(DType type) { return (dtype_size(type) == 8 ? 8 : 4) * (size_t)(TILE * (TILE + 1)); }

/* By argument: whether it goes through shared memory, as far as there is some. */
static void find_down(const Cuda *c, int axis, bool down[STEP_ARGS]) {
  const Kernel *k = c->g.kernel;
  const Loops *l = c->g.loops;
  size_t nbytes = 0;
  for (int arg = 0; arg < k->ninputs + k->noutputs; arg++) {
    size_t size = square_bytes(cuda_argument(k, arg)->dtype);
    down[arg] = l->stride[arg][axis] == 1 && l->stride[arg][l->nouter] > 1 && nbytes + size <= SHARED_BYTES;
    if (down[arg]) nbytes += size;
  }
}

/* "{" around what a thread does to each of its elements of the square; down: neighbouring threads are neighbours down. */
static void open_square(Cuda *c, int axis, bool down) {
  const Loops *l = c->g.loops;
  text_printf(c->g.text, "#pragma unroll\n");
  gen_line(&c->g, "for (int q = threadIdx.x / %d; q < %d; q += %d) {", TILE, TILE, LINES);
  c->g.indent++;
  gen_line(&c->g, "const %s x%d = down + %c;", c->g.index, axis, down ? 'p' : 'q');
  gen_line(&c->g, "const int64_t j = along + %c;", down ? 'q' : 'p');
  gen_line(&c->g, "if (x%d >= %" PRId64 " || j >= %" PRId64 ") continue;", axis, l->dim[axis], l->columns);
}

/* Which square of which other indices this block has. */
static int64_t print_indices(Cuda *c, int axis) {
  const Loops *l = c->g.loops;
  int64_t wide = (l->columns + TILE - 1) / TILE, high = (l->dim[axis] + TILE - 1) / TILE, inner = l->rows / l->dim[axis];
  gen_line(&c->g, "const int p = threadIdx.x %% %d;", TILE);
  gen_line(&c->g, "const int64_t along = (int64_t)(blockIdx.x %% %" PRId64 ") * %d;", wide, TILE);
  gen_line(&c->g, "const int64_t down = (int64_t)(blockIdx.x / %" PRId64 " %% %" PRId64 ") * %d;", wide, high, TILE);
  gen_line(&c->g, "const int64_t others = blockIdx.x / %" PRId64 ";", wide * high);
  int64_t blocks = wide * high * inner;
  for (int a = 0; a < l->nouter; a++) {
    if (a == axis) continue;
    inner /= l->dim[a];
    gen_line(&c->g, "const %s x%d = others / %" PRId64 " %% %" PRId64 ";", c->g.index, a, inner, l->dim[a]);
  }
  return blocks;
}

static void print_squares(Cuda *c, const bool *down) {
  const Kernel *k = c->g.kernel;
  for (int arg = 0; arg < k->ninputs + k->noutputs; arg++)
    if (down[arg])
      gen_line(&c->g, "__shared__ %s %c%d[%d][%d];", gen_register_type[cuda_argument(k, arg)->dtype], arg < k->ninputs ? 'q' : 'z',
               arg < k->ninputs ? arg : arg - k->ninputs, TILE, TILE + 1);
}

static void print_read_down(Cuda *c, int axis, const bool *down) {
  const Kernel *k = c->g.kernel;
  open_square(c, axis, true);
  for (int i = 0; i < k->ninputs; i++) {
    DType type = k->inputs[i].dtype;
    if (!down[i]) continue;
    cuda_row_pointer(c, i);
    gen_line(&c->g, "q%d[q][p] = %sa%d[j * %" PRId64 "]%s;", i, gen_load(type), i, cuda_column_stride(c, i), gen_close(type));
  }
  cuda_end(c);
}

static void print_write_down(Cuda *c, int axis, const bool *down) {
  const Kernel *k = c->g.kernel;
  open_square(c, axis, true);
  for (int o = 0; o < k->noutputs; o++) {
    DType type = k->outputs[o].dtype;
    if (!down[k->ninputs + o]) continue;
    cuda_row_pointer(c, k->ninputs + o);
    gen_line(&c->g, "b%d[j * %" PRId64 "] = %sz%d[q][p]%s;", o, cuda_column_stride(c, k->ninputs + o), gen_store(type), o,
             gen_close(type));
  }
  cuda_end(c);
}

static void print_input(Cuda *c, int i, const bool *down) {
  const KernelValue *v = &c->g.kernel->values[i];
  const char *type = gen_register_type[v->dtype];
  if (down[v->input]) {
    gen_line(&c->g, "const %s v%d = q%d[p][q];", type, i, v->input);
    return;
  }
  cuda_row_pointer(c, v->input);
  gen_line(&c->g, "const %s v%d = %sa%d[j * %" PRId64 "]%s;", type, i, gen_load(v->dtype), v->input,
           cuda_column_stride(c, v->input), gen_close(v->dtype));
}

static void print_output(Cuda *c, int o, const bool *down) {
  const Kernel *k = c->g.kernel;
  DType type = k->outputs[o].dtype;
  char value[32];
  cuda_stored(c, o, value);
  if (down[k->ninputs + o]) {
    gen_line(&c->g, "z%d[p][q] = %s;", o, value);
    return;
  }
  cuda_row_pointer(c, k->ninputs + o);
  gen_line(&c->g, "b%d[j * %" PRId64 "] = %s%s%s;", o, cuda_column_stride(c, k->ninputs + o), gen_store(type), value,
           gen_close(type));
}

static void print_along(Cuda *c, int axis, const bool *down) {
  const Kernel *k = c->g.kernel;
  open_square(c, axis, false);
  for (int i = 0; i < k->nvalues; i++) {
    const LoopValue *x = &c->g.loops->value[i];
    if (!x->used || x->level == LEVEL_CONST) continue;
    if (cuda_is_full_input(c, i))
      print_input(c, i, down);
    else
      gen_value(&c->g, i, "j");
  }
  for (int o = 0; o < k->noutputs; o++) print_output(c, o, down);
  cuda_end(c);
}

GenLaunch cuda_tile(Cuda *c) {
  const Kernel *k = c->g.kernel;
  int axis = down_axis(c);
  bool down[STEP_ARGS] = {false}, in = false, out = false;
  find_down(c, axis, down);
  for (int i = 0; i < k->ninputs; i++) in |= down[i];
  for (int o = 0; o < k->noutputs; o++) out |= down[k->ninputs + o];
  print_squares(c, down);
  cuda_scalars(c, LEVEL_CONST, 0);
  int64_t blocks = print_indices(c, axis);
  if (in) {
    print_read_down(c, axis, down);
    gen_line(&c->g, "__syncthreads();");
  }
  print_along(c, axis, down);
  if (out) {
    gen_line(&c->g, "__syncthreads();");
    print_write_down(c, axis, down);
  }
  return (GenLaunch){blocks, POINTWISE_THREADS};
}
