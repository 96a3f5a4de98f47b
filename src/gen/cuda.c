/* SPDX-License-Identifier: Apache-2.0 */
/* Loops as CUDA C++.
 *
 * Columns are taken in chunks of V (8 or 4 where rows divide into them and something is read or written along them, else 1), so
 * that a thread's accesses are of 16 bytes.  A pointwise kernel is a thread a chunk, or tiles.  Otherwise T threads share a row:
 * thread t has chunks t, t + T, …, sums them in that order, and the threads' sums meet in a butterfly, first of lanes, then of
 * warps.  Where memory runs along the rows instead, as partial sums do, lanes are rows and a row's threads meet in shared memory.
 * A row of few chunks a thread is held: loops are unrolled, what several sweeps read stays in registers, and loads come before
 * the arithmetic that waits for them.  A block of rows with column sums is a block of threads, which keep the sums of their
 * own columns.  Numbers of 16 bits stay two in a register until they are wanted.
 *
 * Names beside those of write.h: t the thread in its row, c a thread's chunk, j its first column, e an element of it; h3 what
 * chunks of input value 3 hold, n3 those of the row to come, k7 a kept value, y0 a chunk of an output, r7 sums of warps, c0
 * column sums. */
#include <inttypes.h>
#include <stdio.h>

#include "src/gen/cuda.h"

/* Whether sums of a row's threads meet in shared memory. */
static bool is_shared(const Cuda *c) { return c->across ? c->threads > 1 : c->threads > WARP; }

/* --- chunks ------------------------------------------------------------------------------------------------------------- */

void cuda_end(Cuda *c) {
  c->g.indent--;
  gen_line(&c->g, "}");
}

/* "for (int e …) {" around the elements of a chunk. */
static void open_elements(Cuda *c) {
  if (c->vector > 1) text_printf(c->g.text, "#pragma unroll\n");
  gen_line(&c->g, "for (int e = 0; e < %d; e++) {", c->vector);
  c->g.indent++;
}

/* "[(int64_t)(j + e) * 5]" */
static const char *element(const Cuda *c, int arg, char out[64]) {
  int64_t stride = cuda_column_stride(c, arg);
  if (stride == 1)
    snprintf(out, 64, "[j + e]");
  else
    snprintf(out, 64, "[(int64_t)(j + e) * %" PRId64 "]", stride);
  return out;
}

/* "" or "[c]": which of a thread's chunks, where they are all held. */
static const char *which(const Cuda *c) { return c->held ? "[c]" : ""; }

/* What chunks of input value i hold: "float h7[4]", all of a thread's where they are held. */
static void declare_chunks(Cuda *c, char name, int i) {
  DType type = c->g.kernel->values[i].dtype;
  char steps[16] = "";
  if (c->held) snprintf(steps, sizeof steps, "[%d]", c->steps);
  if (cuda_is_packed(c, type))
    gen_line(&c->g, "HptHalves<%s, %d> %c%d%s;", gen_memory_type[type], c->vector, name, i, steps);
  else
    gen_line(&c->g, "%s %c%d%s[%d];", gen_register_type[type], name, i, steps, c->vector);
}

static void print_load(Cuda *c, char name, int i) {
  const KernelValue *v = &c->g.kernel->values[i];
  char at[64];
  if (cuda_is_vector(c, v->input)) {
    gen_line(&c->g, "hpt_load(%c%d%s, a%d + j);", name, i, which(c), v->input);
    return;
  }
  element(c, v->input, at);
  open_elements(c);
  if (cuda_is_packed(c, v->dtype))
    gen_line(&c->g, "hpt_fill(%c%d%s, e, a%d%s);", name, i, which(c), v->input, at);
  else
    gen_line(&c->g, "%c%d%s[e] = %sa%d%s%s;", name, i, which(c), gen_load(v->dtype), v->input, at, gen_close(v->dtype));
  cuda_end(c);
}

static void print_loads(Cuda *c, int sweep) {
  for (int i = 0; i < c->g.kernel->nvalues; i++) {
    if (!cuda_is_full_input(c, i) || !(c->g.loops->value[i].computed >> sweep & 1)) continue;
    if (!c->held) declare_chunks(c, 'h', i);
    print_load(c, 'h', i);
  }
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

const char *cuda_stored(const Cuda *c, int o, char out[32]) {
  const Kernel *k = c->g.kernel;
  const KernelValue *v = &k->values[k->outputs[o].value];
  bool rounded = v->kop == K_POINTWISE && v->op == OP_CAST && dtype_size(v->dtype) == 2; /* a store of 16 bits rounds anyway */
  snprintf(out, 32, rounded ? "(float)v%d" : "v%d", rounded ? v->in[0] : k->outputs[o].value);
  return out;
}

static void print_element_outputs(Cuda *c) {
  const Kernel *k = c->g.kernel;
  char value[32];
  for (int o = 0; o < k->noutputs; o++) {
    Write write = loops_write(c->g.loops, k, o);
    int v = k->outputs[o].value;
    if (write == WRITE_ELEMENTS) gen_line(&c->g, "y%d[e] = %s;", o, cuda_stored(c, o, value));
    if (write == ADD_ELEMENTS) gen_line(&c->g, c->sums ? "c%d[c][e] += v%d;" : "c%d[j + e] += v%d;", o, k->values[v].in[0]);
  }
}

static void print_chunk_outputs(Cuda *c, bool declare) {
  const Kernel *k = c->g.kernel;
  char at[64];
  for (int o = 0; o < k->noutputs; o++) {
    DType type = k->outputs[o].dtype;
    if (loops_write(c->g.loops, k, o) != WRITE_ELEMENTS) continue;
    if (declare) {
      gen_line(&c->g, "%s y%d[%d];", gen_register_type[type], o, c->vector);
    } else if (cuda_is_vector(c, k->ninputs + o)) {
      gen_line(&c->g, "hpt_store(b%d + j, y%d);", o, o);
    } else {
      open_elements(c);
      gen_line(&c->g, "b%d%s = %sy%d[e]%s;", o, element(c, k->ninputs + o, at), gen_store(type), o, gen_close(type));
      cuda_end(c);
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
    if (cuda_is_full_input(c, i)) {
      bool packed = cuda_is_packed(c, k->values[i].dtype);
      gen_line(&c->g, packed ? "const %s v%d = hpt_value(h%d%s, e);" : "const %s v%d = h%d%s[e];", type, i, i, which(c));
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
  cuda_end(c);
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

/* All that a sweep loads, if it has not been loaded, comes first where registers can hold it. */
static void print_chunks(Cuda *c, int s) {
  int loads = 0, registers = 0;
  for (int i = 0; i < c->g.kernel->nvalues && !c->early; i++) {
    if (!cuda_is_full_input(c, i) || !(c->g.loops->value[i].computed >> s & 1)) continue;
    loads++;
    registers += c->steps * c->vector * cuda_register_bytes(c, c->g.kernel->values[i].dtype) / 4;
  }
  bool first = c->held && c->steps > 1 && loads && registers + c->sums <= KEPT_REGISTERS;
  if (first) {
    open_chunks(c, loads);
    print_loads(c, s);
    cuda_end(c);
  }
  open_chunks(c, loads);
  if (!first && !c->early) print_loads(c, s);
  print_chunk(c, s);
  cuda_end(c);
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

void cuda_scalars(Cuda *c, Level level, int sweep) {
  for (int i = 0; i < c->g.kernel->nvalues; i++) {
    const LoopValue *x = &c->g.loops->value[i];
    if (x->used && x->level == level && x->sweep == sweep && !gen_is_reduction(&c->g.kernel->values[i])) gen_value(&c->g, i, "0");
  }
}

void cuda_row_pointer(Cuda *c, int arg) {
  bool in = arg < c->g.kernel->ninputs;
  int n = in ? arg : arg - c->g.kernel->ninputs;
  text_printf(c->g.text, "%*s%s%s *const %c%d = %c%d", 2 * c->g.indent, "", in ? "const " : "",
              gen_memory_type[cuda_argument(c->g.kernel, arg)->dtype], in ? 'a' : 'b', n, in ? 'i' : 'o', n);
  gen_row_offset(&c->g, c->g.loops->stride[arg]);
  text_printf(c->g.text, ";\n");
}

/* Full inputs: all of them, those that are the same in all rows, or the others. */
typedef enum Pick { PICK_ALL, PICK_CONSTANT, PICK_ROW } Pick;

static bool picked(const Cuda *c, int i, Pick pick) {
  return cuda_is_full_input(c, i) && (pick == PICK_ALL || cuda_is_constant(c, i) == (pick == PICK_CONSTANT));
}

static void print_input_pointers(Cuda *c, Pick pick) {
  bool some[STEP_ARGS] = {false};
  for (int i = 0; i < c->g.kernel->nvalues; i++)
    if (picked(c, i, pick)) some[c->g.kernel->values[i].input] = true;
  for (int i = 0; i < c->g.kernel->ninputs; i++)
    if (some[i]) cuda_row_pointer(c, i);
}

static void print_output_pointers(Cuda *c) {
  const Kernel *k = c->g.kernel;
  for (int o = 0; o < k->noutputs; o++)
    if (c->g.loops->value[k->outputs[o].value].level != LEVEL_COLUMN) cuda_row_pointer(c, k->ninputs + o);
}

static bool picks(const Cuda *c, Pick pick) {
  for (int i = 0; i < c->g.kernel->nvalues; i++)
    if (picked(c, i, pick)) return true;
  return false;
}

/* Registers for chunks of a held row. */
static void declare_held(Cuda *c, char name, Pick pick) {
  for (int i = 0; i < c->g.kernel->nvalues && c->held; i++)
    if (picked(c, i, pick)) declare_chunks(c, name, i);
}

/* All chunks of a row whose indices are known, into registers that are declared. */
static void load_held(Cuda *c, char name, Pick pick) {
  print_input_pointers(c, pick);
  open_chunks(c, 1);
  for (int i = 0; i < c->g.kernel->nvalues; i++)
    if (picked(c, i, pick)) print_load(c, name, i);
  cuda_end(c);
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
    if (!some && c->threads > 1) gen_line(&c->g, is_shared(c) ? "__syncthreads();" : "__syncwarp();");
    some = true;
    gen_line(&c->g, "if (t == 0) b%d[0] = %sv%d%s;", o, gen_store(k->outputs[o].dtype), v, gen_close(k->outputs[o].dtype));
  }
}

/* A row whose indices are known, and its inputs loaded if that is done early. */
static void print_row(Cuda *c) {
  const Loops *l = c->g.loops;
  if (!c->early) print_input_pointers(c, PICK_ALL);
  print_output_pointers(c);
  if (!c->early) declare_held(c, 'h', PICK_ALL);
  for (int i = 0; i < c->g.kernel->nvalues; i++)
    if (!cuda_is_full_input(c, i) && l->value[i].read)
      gen_line(&c->g, "%s k%d[%d][%d];", gen_register_type[c->g.kernel->values[i].dtype], i, c->steps, c->vector);
  for (int s = 0; s < l->nsweeps; s++) {
    cuda_scalars(c, LEVEL_ROW, s);
    for (int i = 0; i < c->g.kernel->nvalues; i++) {
      const KernelValue *v = &c->g.kernel->values[i];
      if (gen_reduces(&c->g, i, s))
        gen_line(&c->g, "%s s%d = %s;", sum_type(c, v), i, v->kop == K_SUM ? "0" : gen_lowest(v->dtype));
    }
    print_chunks(c, s);
    print_reductions(c, s);
  }
  cuda_scalars(c, LEVEL_ROW, l->nsweeps);
  print_row_stores(c);
}

/* --- kernels ------------------------------------------------------------------------------------------------------------ */

static GenLaunch print_pointwise(Cuda *c) {
  const Loops *l = c->g.loops;
  int64_t row = l->columns / c->vector, chunks = l->rows * row;
  const char *type = chunks < INT32_MAX ? "uint32_t" : "uint64_t";
  cuda_scalars(c, LEVEL_CONST, 0);
  gen_line(&c->g, "const %s chunk = (%s)blockIdx.x * %d + threadIdx.x;", type, type, POINTWISE_THREADS);
  gen_line(&c->g, "if (chunk >= %" PRId64 ") return;", chunks);
  gen_line(&c->g, "const %s row = chunk / (%s)%" PRId64 ";", type, type, row);
  gen_line(&c->g, "const int64_t j = (int64_t)(chunk %% (%s)%" PRId64 ") * %d;", type, row, c->vector);
  gen_indices(&c->g, 0);
  print_input_pointers(c, PICK_ALL);
  print_output_pointers(c);
  cuda_scalars(c, LEVEL_ROW, 0);
  print_loads(c, 0);
  print_chunk(c, 0);
  return (GenLaunch){(chunks + POINTWISE_THREADS - 1) / POINTWISE_THREADS, POINTWISE_THREADS};
}

/* Rows side by side in a block.  Threads without a row leave: a butterfly asks for the lanes of one row only. */
static GenLaunch print_rows(Cuda *c) {
  const Loops *l = c->g.loops;
  cuda_scalars(c, LEVEL_CONST, 0);
  const char *row = c->across ? "%" : "/", *t = c->across ? "/" : "%";
  gen_line(&c->g, "const int t = threadIdx.x %s %d;", t, c->across ? c->rows : c->threads);
  gen_line(&c->g, "const %s row = (%s)blockIdx.x * %d + threadIdx.x %s %d;", c->g.index, c->g.index, c->rows, row,
           c->across ? c->rows : c->threads);
  if (l->rows % c->rows) gen_line(&c->g, "if (row >= %" PRId64 ") return;", l->rows);
  if (is_shared(c)) gen_line(&c->g, "const int turn = 0;");
  gen_indices(&c->g, 0);
  if (c->early) declare_held(c, 'h', PICK_ALL), load_held(c, 'h', PICK_ALL);
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
    if (c->sums) {
      gen_line(&c->g, "%s c%d[%d][%d] = {};", type, o, c->steps, c->vector);
      continue;
    }
    gen_line(&c->g, "%s *const c%d = o%d + (int64_t)blockIdx.x * %" PRId64 ";", gen_memory_type[k->outputs[o].dtype], o, o,
             c->g.loops->columns);
    open_chunks(c, 0);
    open_elements(c);
    gen_line(&c->g, "c%d[j + e] = 0;", o);
    cuda_end(c);
    cuda_end(c);
  }
}

static void print_sums_close(Cuda *c) {
  const Kernel *k = c->g.kernel;
  for (int o = 0; o < k->noutputs; o++) {
    Write write = loops_write(c->g.loops, k, o);
    if (write == ADD_ROW) gen_line(&c->g, "if (t == 0) o%d[blockIdx.x] = c%d;", o, o);
    if (write != ADD_ELEMENTS || !c->sums) continue;
    gen_line(&c->g, "%s *const b%d = o%d + (int64_t)blockIdx.x * %" PRId64 ";", gen_memory_type[k->outputs[o].dtype], o, o,
             c->g.loops->columns);
    open_chunks(c, 0);
    if (c->vector > 1 && (c->aligned >> (k->ninputs + o) & 1)) {
      gen_line(&c->g, "hpt_store(b%d + j, c%d[c]);", o, o);
    } else {
      open_elements(c);
      gen_line(&c->g, "b%d[j + e] = c%d[c][e];", o, o);
      cuda_end(c);
    }
    cuda_end(c);
  }
}

/* "{" and the indices of a row: what is loaded for it follows. */
static void open_row(Cuda *c, const char *condition, const char *row) {
  gen_line(&c->g, "if (%s) {", condition);
  c->g.indent++;
  gen_line(&c->g, "const %s row = %s;", c->g.index, row);
  gen_indices(&c->g, 0);
}

/* The row that was loaded ahead becomes this one, and the next is asked for. */
static void print_advance(Cuda *c) {
  declare_held(c, 'h', PICK_ROW);
  open_chunks(c, 1);
  for (int i = 0; i < c->g.kernel->nvalues; i++) {
    if (!picked(c, i, PICK_ROW)) continue;
    bool packed = cuda_is_packed(c, c->g.kernel->values[i].dtype);
    if (!packed) open_elements(c);
    gen_line(&c->g, packed ? "h%d[c] = n%d[c];" : "h%d[c][e] = n%d[c][e];", i, i);
    if (!packed) cuda_end(c);
  }
  cuda_end(c);
  open_row(c, "at + 1 < next", "at + 1");
  load_held(c, 'n', PICK_ROW);
  cuda_end(c);
  gen_line(&c->g, "const %s row = at;", c->g.index);
}

/* What is loaded before the first row of a block. */
static void print_blocks_early(Cuda *c) {
  if (picks(c, PICK_CONSTANT)) {
    declare_held(c, 'h', PICK_CONSTANT);
    gen_line(&c->g, "{");
    c->g.indent++;
    load_held(c, 'h', PICK_CONSTANT);
    cuda_end(c);
  }
  if (!c->ahead) return;
  declare_held(c, 'n', PICK_ROW);
  open_row(c, "first < next", "first");
  load_held(c, 'n', PICK_ROW);
  cuda_end(c);
}

/* A block of rows, one after the other. */
static GenLaunch print_blocks(Cuda *c) {
  const Loops *l = c->g.loops;
  cuda_scalars(c, LEVEL_CONST, 0);
  gen_line(&c->g, "const int t = threadIdx.x;");
  print_sums_open(c);
  const char *type = c->g.index;
  gen_line(&c->g, "const %s first = (%s)blockIdx.x * %" PRId64 ";", type, type, l->unit_rows);
  gen_line(&c->g, "const %s next = first + %" PRId64 " < %" PRId64 " ? first + %" PRId64 " : %" PRId64 ";", type, l->unit_rows,
           l->rows, l->unit_rows, l->rows);
  if (c->early) print_blocks_early(c);
  const char *row = c->ahead ? "at" : "row";
  gen_line(&c->g, "for (%s %s = first; %s < next; %s++) {", type, row, row, row);
  c->g.indent++;
  if (c->ahead) print_advance(c);
  if (is_shared(c)) gen_line(&c->g, "const int turn = row %% 2;");
  gen_indices(&c->g, 0);
  if (c->early && !c->ahead && picks(c, PICK_ROW)) declare_held(c, 'h', PICK_ROW), load_held(c, 'h', PICK_ROW);
  print_row(c);
  cuda_end(c);
  print_sums_close(c);
  return (GenLaunch){l->units, c->threads};
}

static void print_head(Cuda *c, int threads) {
  const Kernel *k = c->g.kernel;
  text_printf(c->g.text, "extern \"C\" __global__ void __launch_bounds__(%d, %d) %s(", threads, c->resident, c->g.symbol);
  for (int i = 0; i < k->ninputs; i++)
    text_printf(c->g.text, "%sconst %s *i%d", i ? ", " : "", gen_memory_type[k->inputs[i].dtype], i);
  for (int o = 0; o < k->noutputs; o++)
    text_printf(c->g.text, "%s%s *o%d", o + k->ninputs ? ", " : "", gen_memory_type[k->outputs[o].dtype], o);
  text_printf(c->g.text, ") {\n");
}

GenLaunch gen_cuda(const Kernel *kernel, const char *symbol, uint64_t aligned, Text *text) {
  Cuda c = {.g = {.kernel = kernel, .symbol = symbol, .text = text}, .aligned = aligned};
  Arena *arena = arena_open();
  CHECK(kernel->ninputs + kernel->noutputs <= STEP_ARGS);
  cuda_shape_rows(&c, kernel);
  const Loops *l = c.g.loops = loops_make(arena, kernel, &(LoopsKeep){cuda_kept_most(&c, kernel), true});
  c.g.index = cuda_index_type(&c);
  cuda_shape_held(&c);
  if (l->pointwise) cuda_shape_pointwise(&c);
  bool tiled = l->pointwise && cuda_is_tiled(&c);
  gen_comment(&c.g);
  print_head(&c, l->pointwise ? POINTWISE_THREADS : c.threads * c.rows);
  c.g.indent = 1;
  if (!l->pointwise) print_shared(&c);
  GenLaunch launch = tiled            ? cuda_tile(&c)
                     : l->pointwise   ? print_pointwise(&c)
                     : l->column_sums ? print_blocks(&c)
                                      : print_rows(&c);
  CHECK(launch.blocks <= INT32_MAX);
  c.g.indent = 0;
  gen_line(&c.g, "}");
  arena_close(arena);
  return launch;
}
