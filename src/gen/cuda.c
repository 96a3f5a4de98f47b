/* SPDX-License-Identifier: Apache-2.0 */
/* Loops as CUDA C++.
 *
 * Columns are taken in chunks of V (4 where rows divide into them and something is read or written along them, else 1), so
 * that a thread's accesses are of 16 bytes.  A pointwise kernel is a thread a chunk.  Otherwise T threads share a row: thread t
 * has chunks t, t + T, …, sums them in that order, and the threads' sums meet in a butterfly, first of lanes, then of warps.
 * Where memory runs along the rows instead, as partial sums do, lanes are rows and a row's threads meet in shared memory.
 * A row of few chunks a thread is held: loops are unrolled, what several sweeps read stays in registers, and loads come before
 * the arithmetic that waits for them.  A block of rows with column sums is a block of threads, which keep the sums of their
 * own columns.
 *
 * Names beside those of write.h: t the thread in its row, c a thread's chunk, j its first column, e an element of it; h3 what
 * chunks of input 3 hold, k7 a kept value, y0 a chunk of an output, r7 sums of warps, c0 column sums. */
#include <inttypes.h>
#include <stdio.h>

#include "src/gen/gen.h"
#include "src/gen/write.h"

enum {
  POINTWISE_THREADS = 256,
  ROW_THREADS = 128,  /* of a block whose rows are short */
  MOST_THREADS = 512, /* a thread of so large a block may have 128 registers */
  ACROSS_THREADS = 16,
  WARP = 32,
  CHUNK = 4,
  HELD = 32,           /* elements of a row that a thread may hold */
  KEPT_REGISTERS = 64, /* for what is kept from sweep to sweep; half of it for sums of columns */
  IN_FLIGHT = 8
};

typedef struct Cuda {
  Gen g;
  uint64_t aligned;
  int vector, threads, steps; /* V, T, chunks a thread */
  int rows;                   /* a block's */
  bool across;                /* neighbouring threads have neighbouring rows */
  bool held, sums_held;       /* sums_held: those of columns are in registers */
} Cuda;

/* --- shape of the launch ------------------------------------------------------------------------------------------------ */

static const KernelArg *argument(const Kernel *k, int arg) {
  return arg < k->ninputs ? &k->inputs[arg] : &k->outputs[arg - k->ninputs];
}

static bool has_column_sums(const Kernel *k) {
  for (int v = 0; v < k->nvalues; v++)
    if (k->values[v].kop == K_COLUMN_SUM) return true;
  return false;
}

/* Whether something runs along the columns, and whether inputs run along the rows instead, as partial sums do. */
static void directions(const Kernel *k, bool *along, bool *across) {
  int last = k->domain.rank - 1, row = last - 1;
  while (row > 0 && k->domain.dim[row] == 1) row--;
  *along = *across = false;
  for (int arg = 0; arg < k->ninputs + k->noutputs; arg++) {
    const KernelArg *a = argument(k, arg);
    *along |= a->stride[last] == 1;
    *across |= arg < k->ninputs && row >= 0 && a->stride[row] == 1 && a->stride[last] > 1;
  }
  *across &= !*along;
}

/* Threads a row by its length: about 16 elements each, 4 where sums of columns keep registers too, 8 where neighbouring threads
 * have neighbouring rows. */
static void shape_rows(Cuda *c, const Kernel *k) {
  int64_t columns = k->domain.dim[k->domain.rank - 1];
  bool along, sums = has_column_sums(k);
  directions(k, &along, &c->across);
  c->across &= !sums;
  c->vector = along && columns % CHUNK == 0 ? CHUNK : 1;
  int64_t chunks = columns / c->vector, each = c->vector == 1 ? 8 : sums ? 1 : 4;
  int most = c->across ? ACROSS_THREADS : MOST_THREADS;
  c->threads = 1;
  while (c->threads < most && c->threads * each < chunks) c->threads *= 2;
  if (sums && c->threads < WARP) c->threads = WARP;
  c->rows = sums || (c->threads > WARP && !c->across) ? 1 : ROW_THREADS / c->threads;
  if (c->across && c->rows < WARP) c->rows = WARP;
  int64_t steps = (chunks + c->threads - 1) / c->threads;
  c->held = steps * c->vector <= HELD;
  c->steps = c->held ? (int)steps : 0;
}

/* Whether sums of a row's threads meet in shared memory. */
static bool is_shared(const Cuda *c) { return c->across ? c->threads > 1 : c->threads > WARP; }

/* What may be kept from sweep to sweep: each input wants registers for what is on its way, too. */
static size_t kept_most(const Cuda *c, const Kernel *k) {
  int registers = KEPT_REGISTERS + IN_FLIGHT;
  for (int i = 0; i < k->ninputs; i++) registers -= k->inputs[i].stride[k->domain.rank - 1] ? IN_FLIGHT : 0;
  return c->held && registers > 0 ? sizeof(float) * (size_t)registers * (size_t)c->threads : 0;
}

static bool keeps(const Loops *l, const Kernel *k) {
  for (int v = 0; v < k->nvalues; v++)
    if (l->value[v].read) return true;
  return false;
}

static bool is_full_input(const Cuda *c, int i) {
  return c->g.kernel->values[i].kop == K_INPUT && c->g.loops->value[i].used && c->g.loops->value[i].level == LEVEL_FULL;
}

static int64_t column_stride(const Cuda *c, int arg) { return c->g.loops->stride[arg][c->g.loops->nouter]; }

/* Whether a chunk of the argument is one access. */
static bool is_vector(const Cuda *c, int arg) {
  const Loops *l = c->g.loops;
  if (c->vector == 1 || column_stride(c, arg) != 1 || !(c->aligned >> arg & 1)) return false;
  for (int a = 0; a < l->nouter; a++)
    if (l->stride[arg][a] % CHUNK) return false;
  return true;
}

/* --- chunks ------------------------------------------------------------------------------------------------------------- */

/* "for (int e …) {" around the elements of a chunk. */
static void open_elements(Cuda *c) {
  if (c->vector > 1) text_printf(c->g.text, "#pragma unroll\n");
  gen_line(&c->g, "for (int e = 0; e < %d; e++) {", c->vector);
  c->g.indent++;
}

static void end_block(Cuda *c) {
  c->g.indent--;
  gen_line(&c->g, "}");
}

/* "[(int64_t)(j + e) * 5]" */
static const char *element(const Cuda *c, int arg, char out[64]) {
  int64_t stride = column_stride(c, arg);
  if (stride == 1)
    snprintf(out, 64, "[j + e]");
  else
    snprintf(out, 64, "[(int64_t)(j + e) * %" PRId64 "]", stride);
  return out;
}

/* "" or "[c]": which of a thread's chunks, where they are all held. */
static const char *which(const Cuda *c) { return c->held ? "[c]" : ""; }

static void print_load(Cuda *c, int i) {
  const KernelValue *v = &c->g.kernel->values[i];
  char at[64];
  if (!c->held) gen_line(&c->g, "%s h%d[%d];", gen_register_type[v->dtype], i, c->vector);
  if (is_vector(c, v->input)) {
    gen_line(&c->g, "hpt_load(h%d%s, a%d + j);", i, which(c), v->input);
    return;
  }
  open_elements(c);
  gen_line(&c->g, "h%d%s[e] = a%d%s;", i, which(c), v->input, element(c, v->input, at));
  end_block(c);
}

static void print_loads(Cuda *c, int sweep) {
  for (int i = 0; i < c->g.kernel->nvalues; i++)
    if (is_full_input(c, i) && (c->g.loops->value[i].computed >> sweep & 1)) print_load(c, i);
}

/* --- one sweep ---------------------------------------------------------------------------------------------------------- */

static bool wide_sum(const Cuda *c, const KernelValue *v) { return v->kop == K_SUM && v->dtype == DT_F32 && !c->held; }

static const char *sum_type(const Cuda *c, const KernelValue *v) { return wide_sum(c, v) ? "double" : gen_register_type[v->dtype]; }

/* Sums of a row that is not held add up a chunk in float, chunks in double. */
static void print_accumulate(Cuda *c, int i) {
  const KernelValue *v = &c->g.kernel->values[i];
  if (v->kop == K_SUM)
    gen_line(&c->g, "%s%d += v%d;", wide_sum(c, v) ? "p" : "s", i, v->in[0]);
  else
    gen_line(&c->g, "s%d = hpt_larger(v%d, s%d);", i, v->in[0], i);
}

static void print_element_outputs(Cuda *c) {
  const Kernel *k = c->g.kernel;
  for (int o = 0; o < k->noutputs; o++) {
    Write write = loops_write(c->g.loops, k, o);
    int v = k->outputs[o].value;
    if (write == WRITE_ELEMENTS) gen_line(&c->g, "y%d[e] = v%d;", o, v);
    if (write == ADD_ELEMENTS) gen_line(&c->g, c->sums_held ? "c%d[c][e] += v%d;" : "c%d[j + e] += v%d;", o, k->values[v].in[0]);
  }
}

static void print_chunk_outputs(Cuda *c, bool declare) {
  const Kernel *k = c->g.kernel;
  char at[64];
  for (int o = 0; o < k->noutputs; o++) {
    if (loops_write(c->g.loops, k, o) != WRITE_ELEMENTS) continue;
    if (declare) {
      gen_line(&c->g, "%s y%d[%d];", gen_register_type[k->outputs[o].dtype], o, c->vector);
    } else if (is_vector(c, k->ninputs + o)) {
      gen_line(&c->g, "hpt_store(b%d + j, y%d);", o, o);
    } else {
      open_elements(c);
      gen_line(&c->g, "b%d%s = y%d[e];", o, element(c, k->ninputs + o, at), o);
      end_block(c);
    }
  }
}

static void print_element(Cuda *c, int s) {
  const Kernel *k = c->g.kernel;
  uint64_t bit = (uint64_t)1 << s;
  for (int i = 0; i < k->nvalues; i++) {
    const LoopValue *x = &c->g.loops->value[i];
    if (!((x->read | x->computed) & bit)) continue;
    const char *type = gen_register_type[k->values[i].dtype];
    if (is_full_input(c, i)) {
      gen_line(&c->g, "const %s v%d = h%d%s[e];", type, i, i, which(c));
    } else if (x->read & bit) {
      gen_line(&c->g, "const %s v%d = k%d[c][e];", type, i, i);
    } else {
      gen_value(&c->g, i, "(j + e)");
      if (x->read && !(x->computed & (bit - 1))) gen_line(&c->g, "k%d[c][e] = v%d;", i, i);
    }
  }
  for (int i = 0; i < k->nvalues; i++)
    if (gen_reduces(&c->g, i, s)) print_accumulate(c, i);
  if (s == c->g.loops->nsweeps - 1) print_element_outputs(c);
}

/* What happens to a chunk whose inputs are there. */
static void print_chunk(Cuda *c, int s) {
  bool last = s == c->g.loops->nsweeps - 1;
  for (int i = 0; i < c->g.kernel->nvalues; i++)
    if (gen_reduces(&c->g, i, s) && wide_sum(c, &c->g.kernel->values[i])) gen_line(&c->g, "float p%d = 0;", i);
  if (last) print_chunk_outputs(c, true);
  open_elements(c);
  print_element(c, s);
  end_block(c);
  if (last) print_chunk_outputs(c, false);
  for (int i = 0; i < c->g.kernel->nvalues; i++)
    if (gen_reduces(&c->g, i, s) && wide_sum(c, &c->g.kernel->values[i])) gen_line(&c->g, "s%d += p%d;", i, i);
}

/* Around a thread's chunks; the last of a held row may be past its end.  inputs: how many are read for each. */
static void open_chunks(Cuda *c, int inputs) {
  int64_t columns = c->g.loops->columns, stride = (int64_t)c->threads * c->vector;
  if (!c->held) {
    text_printf(c->g.text, "#pragma unroll %d\n", inputs < 2 ? 4 : inputs < 4 ? 2 : 1);
    gen_line(&c->g, "for (int64_t j = t * %d; j < %" PRId64 "; j += %" PRId64 ") {", c->vector, columns, stride);
    c->g.indent++;
    return;
  }
  text_printf(c->g.text, "#pragma unroll\n");
  gen_line(&c->g, "for (int c = 0; c < %d; c++) {", c->steps);
  c->g.indent++;
  gen_line(&c->g, "const int j = (c * %d + t) * %d;", c->threads, c->vector);
  if (columns != c->steps * stride) gen_line(&c->g, "if (j >= %" PRId64 ") continue;", columns);
}

static int loads_count(const Cuda *c, int s) {
  int n = 0;
  for (int i = 0; i < c->g.kernel->nvalues; i++) n += is_full_input(c, i) && (c->g.loops->value[i].computed >> s & 1);
  return n;
}

/* All that a sweep loads comes first where registers can hold it. */
static void print_chunks(Cuda *c, int s) {
  int loads = loads_count(c, s);
  bool first = c->held && c->steps > 1 && loads * c->steps * c->vector <= KEPT_REGISTERS;
  if (first) {
    open_chunks(c, loads);
    print_loads(c, s);
    end_block(c);
  }
  open_chunks(c, loads);
  if (!first) print_loads(c, s);
  print_chunk(c, s);
  end_block(c);
}

/* --- reductions --------------------------------------------------------------------------------------------------------- */

static const char *combine(const KernelValue *v) { return v->kop == K_SUM ? "hpt_sum" : "hpt_most"; }

static void print_shared(Cuda *c) {
  int n = c->across ? c->threads * c->rows : c->threads / WARP;
  for (int i = 0; i < c->g.kernel->nvalues && is_shared(c); i++) {
    const KernelValue *v = &c->g.kernel->values[i];
    if (gen_is_reduction(v) && c->g.loops->value[i].used) gen_line(&c->g, "__shared__ %s r%d[2][%d];", sum_type(c, v), i, n);
  }
}

/* What of a value's threads becomes one before the barrier. */
static void print_gather(Cuda *c, int i) {
  const char *how = combine(&c->g.kernel->values[i]);
  int lanes = c->threads < WARP ? c->threads : WARP;
  if (c->across) {
    if (is_shared(c)) gen_line(&c->g, "r%d[turn][threadIdx.x] = s%d;", i, i);
    return;
  }
  if (lanes > 1) gen_line(&c->g, "s%d = %s<%d>(s%d);", i, how, lanes, i);
  if (is_shared(c)) gen_line(&c->g, "if (t %% %d == 0) r%d[turn][t / %d] = s%d;", WARP, i, WARP, i);
}

static void print_result(Cuda *c, int i) {
  const KernelValue *v = &c->g.kernel->values[i];
  const char *type = gen_register_type[v->dtype], *how = combine(v);
  int warps = c->threads / WARP;
  if (!is_shared(c))
    gen_line(&c->g, "const %s v%d = (%s)s%d;", type, i, type, i);
  else if (c->across)
    gen_line(&c->g, "const %s v%d = (%s)%s_across<%d, %d>(&r%d[turn][threadIdx.x %% %d]);", type, i, type, how, c->threads, c->rows,
             i, c->rows);
  else
    gen_line(&c->g, "const %s v%d = (%s)%s<%d>(r%d[turn][t %% %d]);", type, i, type, how, warps, i, warps);
}

/* From every thread's s7 to v7, the same in all of them.  Rows that follow one another in a block use r7 in turns: what a row
 * wrote has been read by all when, a barrier later, the row after the next writes. */
static void print_reductions(Cuda *c, int s) {
  int n = 0;
  for (int i = 0; i < c->g.kernel->nvalues; i++) {
    if (!gen_reduces(&c->g, i, s)) continue;
    n++;
    print_gather(c, i);
  }
  if (n && is_shared(c)) gen_line(&c->g, "__syncthreads();");
  for (int i = 0; i < c->g.kernel->nvalues; i++)
    if (gen_reduces(&c->g, i, s)) print_result(c, i);
}

/* --- rows --------------------------------------------------------------------------------------------------------------- */

/* ROW values known once `sweep` sweeps are over (CONST values: level). */
static void print_scalars(Cuda *c, Level level, int sweep) {
  for (int i = 0; i < c->g.kernel->nvalues; i++) {
    const LoopValue *x = &c->g.loops->value[i];
    if (x->used && x->level == level && x->sweep == sweep && !gen_is_reduction(&c->g.kernel->values[i])) gen_value(&c->g, i, "0");
  }
}

static void print_row_pointers(Cuda *c) {
  const Kernel *k = c->g.kernel;
  bool full[STEP_ARGS] = {false};
  for (int i = 0; i < k->nvalues; i++)
    if (is_full_input(c, i)) full[k->values[i].input] = true;
  for (int arg = 0; arg < k->ninputs + k->noutputs; arg++) {
    bool in = arg < k->ninputs;
    int n = in ? arg : arg - k->ninputs;
    if (in ? !full[n] : c->g.loops->value[k->outputs[n].value].level == LEVEL_COLUMN) continue;
    const char *type = gen_memory_type[argument(k, arg)->dtype];
    text_printf(c->g.text, "%*s%s%s *const %c%d = %c%d", 2 * c->g.indent, "", in ? "const " : "", type, in ? 'a' : 'b', n,
                in ? 'i' : 'o', n);
    gen_row_offset(&c->g, c->g.loops->stride[arg]);
    text_printf(c->g.text, ";\n");
  }
}

/* Registers for chunks and kept values of a held row. */
static void print_held(Cuda *c) {
  const Kernel *k = c->g.kernel;
  for (int i = 0; i < k->nvalues && c->held; i++) {
    const char *type = gen_register_type[k->values[i].dtype];
    if (is_full_input(c, i)) gen_line(&c->g, "%s h%d[%d][%d];", type, i, c->steps, c->vector);
    if (!is_full_input(c, i) && c->g.loops->value[i].read) gen_line(&c->g, "%s k%d[%d][%d];", type, i, c->steps, c->vector);
  }
}

/* One thread writes what there is one of; an input that lies there has been read by all. */
static void print_row_stores(Cuda *c) {
  const Kernel *k = c->g.kernel;
  bool some = false;
  for (int o = 0; o < k->noutputs; o++) {
    Write write = loops_write(c->g.loops, k, o);
    int v = k->outputs[o].value;
    if (write == ADD_ROW) gen_line(&c->g, "c%d += v%d;", o, k->values[v].in[0]);
    if (write != WRITE_ROW) continue;
    if (!some && is_shared(c)) gen_line(&c->g, "__syncthreads();");
    some = true;
    gen_line(&c->g, "if (t == 0) b%d[0] = v%d;", o, v);
  }
}

static void print_row(Cuda *c) {
  const Loops *l = c->g.loops;
  print_row_pointers(c);
  print_held(c);
  for (int s = 0; s < l->nsweeps; s++) {
    print_scalars(c, LEVEL_ROW, s);
    for (int i = 0; i < c->g.kernel->nvalues; i++) {
      const KernelValue *v = &c->g.kernel->values[i];
      if (gen_reduces(&c->g, i, s))
        gen_line(&c->g, "%s s%d = %s;", sum_type(c, v), i, v->kop == K_SUM ? "0" : gen_lowest(v->dtype));
    }
    print_chunks(c, s);
    print_reductions(c, s);
  }
  print_scalars(c, LEVEL_ROW, l->nsweeps);
  print_row_stores(c);
}

/* --- kernels ------------------------------------------------------------------------------------------------------------ */

static GenLaunch print_pointwise(Cuda *c) {
  const Loops *l = c->g.loops;
  bool along = false;
  for (int arg = 0; arg < c->g.kernel->ninputs + c->g.kernel->noutputs; arg++) along |= column_stride(c, arg) == 1;
  c->vector = along && l->columns % CHUNK == 0 ? CHUNK : 1;
  int64_t row = l->columns / c->vector, chunks = l->rows * row;
  const char *type = chunks < INT32_MAX ? "uint32_t" : "uint64_t";
  print_scalars(c, LEVEL_CONST, 0);
  gen_line(&c->g, "const %s chunk = (%s)blockIdx.x * %d + threadIdx.x;", type, type, POINTWISE_THREADS);
  gen_line(&c->g, "if (chunk >= %" PRId64 ") return;", chunks);
  gen_line(&c->g, "const %s row = chunk / (%s)%" PRId64 ";", type, type, row);
  gen_line(&c->g, "const int64_t j = (int64_t)(chunk %% (%s)%" PRId64 ") * %d;", type, row, c->vector);
  gen_indices(&c->g, 0);
  print_row_pointers(c);
  print_scalars(c, LEVEL_ROW, 0);
  print_loads(c, 0);
  print_chunk(c, 0);
  return (GenLaunch){(chunks + POINTWISE_THREADS - 1) / POINTWISE_THREADS, POINTWISE_THREADS};
}

/* Rows side by side in a block.  Threads without a row leave: a butterfly asks for the lanes of one row only. */
static GenLaunch print_rows(Cuda *c) {
  const Loops *l = c->g.loops;
  print_scalars(c, LEVEL_CONST, 0);
  const char *row = c->across ? "%" : "/", *t = c->across ? "/" : "%";
  gen_line(&c->g, "const int t = threadIdx.x %s %d;", t, c->across ? c->rows : c->threads);
  gen_line(&c->g, "const int64_t row = (int64_t)blockIdx.x * %d + threadIdx.x %s %d;", c->rows, row,
           c->across ? c->rows : c->threads);
  if (l->rows % c->rows) gen_line(&c->g, "if (row >= %" PRId64 ") return;", l->rows);
  if (is_shared(c)) gen_line(&c->g, "const int turn = 0;");
  gen_indices(&c->g, 0);
  print_row(c);
  return (GenLaunch){(l->rows + c->rows - 1) / c->rows, c->threads * c->rows};
}

/* Sums of columns begin at zero: in registers, or where the partial sums will be. */
static void print_sums_open(Cuda *c) {
  const Kernel *k = c->g.kernel;
  for (int o = 0; o < k->noutputs; o++) {
    Write write = loops_write(c->g.loops, k, o);
    const char *type = gen_register_type[k->outputs[o].dtype];
    if (write == ADD_ROW) gen_line(&c->g, "%s c%d = 0;", type, o);
    if (write != ADD_ELEMENTS) continue;
    if (c->sums_held) {
      gen_line(&c->g, "%s c%d[%d][%d] = {};", type, o, c->steps, c->vector);
      continue;
    }
    gen_line(&c->g, "%s *const c%d = o%d + (int64_t)blockIdx.x * %" PRId64 ";", gen_memory_type[k->outputs[o].dtype], o, o,
             c->g.loops->columns);
    open_chunks(c, 0);
    open_elements(c);
    gen_line(&c->g, "c%d[j + e] = 0;", o);
    end_block(c);
    end_block(c);
  }
}

static void print_sums_close(Cuda *c) {
  const Kernel *k = c->g.kernel;
  for (int o = 0; o < k->noutputs; o++) {
    Write write = loops_write(c->g.loops, k, o);
    if (write == ADD_ROW) gen_line(&c->g, "if (t == 0) o%d[blockIdx.x] = c%d;", o, o);
    if (write != ADD_ELEMENTS || !c->sums_held) continue;
    gen_line(&c->g, "%s *const b%d = o%d + (int64_t)blockIdx.x * %" PRId64 ";", gen_memory_type[k->outputs[o].dtype], o, o,
             c->g.loops->columns);
    open_chunks(c, 0);
    if (c->vector > 1 && (c->aligned >> (k->ninputs + o) & 1)) {
      gen_line(&c->g, "hpt_store(b%d + j, c%d[c]);", o, o);
    } else {
      open_elements(c);
      gen_line(&c->g, "b%d[j + e] = c%d[c][e];", o, o);
      end_block(c);
    }
    end_block(c);
  }
}

/* A block of rows, one after the other. */
static GenLaunch print_blocks(Cuda *c) {
  const Loops *l = c->g.loops;
  int sums = 0;
  for (int o = 0; o < c->g.kernel->noutputs; o++) sums += loops_write(l, c->g.kernel, o) == ADD_ELEMENTS;
  c->sums_held = c->held && sums * c->steps * c->vector <= KEPT_REGISTERS / 2;
  print_scalars(c, LEVEL_CONST, 0);
  gen_line(&c->g, "const int t = threadIdx.x;");
  print_sums_open(c);
  gen_line(&c->g, "const int64_t first = (int64_t)blockIdx.x * %" PRId64 ";", l->unit_rows);
  gen_line(&c->g, "const int64_t next = first + %" PRId64 " < %" PRId64 " ? first + %" PRId64 " : %" PRId64 ";", l->unit_rows,
           l->rows, l->unit_rows, l->rows);
  gen_line(&c->g, "for (int64_t row = first; row < next; row++) {");
  c->g.indent++;
  if (is_shared(c)) gen_line(&c->g, "const int turn = row %% 2;");
  gen_indices(&c->g, 0);
  print_row(c);
  end_block(c);
  print_sums_close(c);
  return (GenLaunch){l->units, c->threads};
}

static void print_head(Cuda *c, int threads) {
  const Kernel *k = c->g.kernel;
  text_printf(c->g.text, "extern \"C\" __global__ void __launch_bounds__(%d, 1) %s(", threads, c->g.symbol);
  for (int i = 0; i < k->ninputs; i++)
    text_printf(c->g.text, "%sconst %s *i%d", i ? ", " : "", gen_memory_type[k->inputs[i].dtype], i);
  for (int o = 0; o < k->noutputs; o++)
    text_printf(c->g.text, "%s%s *o%d", o + k->ninputs ? ", " : "", gen_memory_type[k->outputs[o].dtype], o);
  text_printf(c->g.text, ") {\n");
}

GenLaunch gen_cuda(const Kernel *kernel, const char *symbol, uint64_t aligned, Text *text) {
  Cuda c = {.g = {.kernel = kernel, .symbol = symbol, .text = text}, .aligned = aligned};
  Arena *arena = arena_open();
  shape_rows(&c, kernel);
  const Loops *l = c.g.loops = loops_make(arena, kernel, &(LoopsKeep){kept_most(&c, kernel), true});
  c.held &= !l->pointwise && (c.steps * c.vector <= HELD / 2 || keeps(l, kernel));
  CHECK(kernel->ninputs + kernel->noutputs <= STEP_ARGS);
  gen_comment(&c.g);
  print_head(&c, l->pointwise ? POINTWISE_THREADS : c.threads * c.rows);
  c.g.indent = 1;
  if (!l->pointwise) print_shared(&c);
  GenLaunch launch = l->pointwise ? print_pointwise(&c) : l->column_sums ? print_blocks(&c) : print_rows(&c);
  CHECK(launch.blocks <= INT32_MAX);
  c.g.indent = 0;
  gen_line(&c.g, "}");
  arena_close(arena);
  return launch;
}
