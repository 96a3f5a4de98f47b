/* SPDX-License-Identifier: Apache-2.0 */
/* Loops as C with OpenMP.  A kernel is two functions: SYMBOL_part runs a range of units, SYMBOL shares the units out.
 *
 * Inner loops carry "omp simd", which promises that columns are independent, so no pointer needs to be restrict.  Indices
 * along outer axes are x0, x1, …, the column is j; value 7 is v7 everywhere, its row buffer k7, its accumulator s7; input
 * and output addresses are i0, o0 and, at the row, a0, b0; partial column sums are c0.  Strides are literals, and nothing is
 * printed that tells two kernels of one structure apart. */
#include <inttypes.h>
#include <stdio.h>

#include "src/gen/gen.h"
#include "src/gen/write.h"

enum {
  SPAN = 4096,            /* columns summed in float before the sum is added to the rest in double */
  KEPT_BYTES = 1 << 18,   /* of a thread's row buffers: a good part of a core's own cache */
  WORK_PARALLEL = 1 << 17 /* elements below which threads cost more than they give */
};

/* --- accesses ----------------------------------------------------------------------------------------------------------- */

/* "a3[j * 2]": an element of the argument whose row starts at `name`. */
static void print_element(Gen *g, const char *name, int i, int64_t stride) {
  if (stride == 1)
    text_printf(g->text, "%s%d[j]", name, i);
  else if (stride)
    text_printf(g->text, "%s%d[j * %" PRId64 "]", name, i, stride);
  else
    text_printf(g->text, "%s%d[0]", name, i);
}

static int64_t column_stride(const Gen *g, int arg) { return g->loops->stride[arg][g->loops->nouter]; }

/* "const float v7 = …;" for all but reductions. */
static void print_value(Gen *g, int i) {
  const KernelValue *v = &g->kernel->values[i];
  if (v->kop != K_INPUT || g->loops->value[i].level != LEVEL_FULL) {
    gen_value(g, i, "j");
    return;
  }
  text_printf(g->text, "%*sconst %s v%d = %s", 2 * g->indent, "", gen_register_type[v->dtype], i, gen_load(v->dtype));
  print_element(g, "a", v->input, column_stride(g, v->input));
  text_printf(g->text, "%s;\n", gen_close(v->dtype));
}

/* ROW values known once `sweep` sweeps are over (CONST values: level). */
static void print_scalars(Gen *g, Level level, int sweep) {
  for (int i = 0; i < g->kernel->nvalues; i++) {
    const LoopValue *x = &g->loops->value[i];
    if (x->used && x->level == level && x->sweep == sweep && !gen_is_reduction(&g->kernel->values[i])) print_value(g, i);
  }
}

/* --- sweeps ------------------------------------------------------------------------------------------------------------- */

/* Vectors find a maximum without looking at NaN, and n7 remembers whether there was one. */
static void print_accumulators(Gen *g, int s, bool spans) {
  for (int i = 0; i < g->kernel->nvalues; i++) {
    if (!gen_reduces(g, i, s)) continue;
    const KernelValue *v = &g->kernel->values[i];
    bool sum = v->kop == K_SUM;
    bool wide = sum && spans && v->dtype == DT_F32;
    gen_line(g, "%s s%d = %s;", wide ? "double" : gen_register_type[v->dtype], i, sum ? "0" : gen_lowest(v->dtype));
    if (!sum && v->dtype == DT_F32) gen_line(g, "int32_t n%d = 0;", i);
  }
}

/* Loops that add up take 16 columns at a time whatever else they hold: a sum has the same order in every kernel. */
static void print_simd(Gen *g, int s, bool spans) {
  bool reduces = false;
  for (int i = 0; i < g->kernel->nvalues; i++) reduces |= gen_reduces(g, i, s);
  text_printf(g->text, reduces ? "#pragma omp simd simdlen(16)" : "#pragma omp simd");
  for (int i = 0; i < g->kernel->nvalues; i++) {
    if (!gen_reduces(g, i, s)) continue;
    const KernelValue *v = &g->kernel->values[i];
    bool sum = v->kop == K_SUM;
    text_printf(g->text, " reduction(%s : %s%d)", sum ? "+" : "max", sum && spans ? "t" : "s", i);
    if (!sum && v->dtype == DT_F32) text_printf(g->text, " reduction(| : n%d)", i);
  }
  text_printf(g->text, "\n");
}

static void print_accumulate(Gen *g, int i, bool spans) {
  const KernelValue *v = &g->kernel->values[i];
  int x = v->in[0];
  if (v->kop == K_SUM) {
    gen_line(g, "%s%d += v%d;", spans ? "t" : "s", i, x);
    return;
  }
  gen_line(g, "s%d = v%d > s%d ? v%d : s%d;", i, x, i, x, i);
  if (v->dtype == DT_F32) gen_line(g, "n%d |= v%d != v%d;", i, x, x);
}

static void print_stores(Gen *g) {
  const Kernel *k = g->kernel;
  for (int o = 0; o < k->noutputs; o++) {
    int value = k->outputs[o].value;
    Write write = loops_write(g->loops, k, o);
    if (write != WRITE_ELEMENTS && write != ADD_ELEMENTS) continue;
    text_printf(g->text, "%*s", 2 * g->indent, "");
    if (write == WRITE_ELEMENTS) {
      print_element(g, "b", o, column_stride(g, k->ninputs + o));
      text_printf(g->text, " = %sv%d%s;\n", gen_store(k->outputs[o].dtype), value, gen_close(k->outputs[o].dtype));
    } else {
      text_printf(g->text, "c%d[j] += v%d;\n", o, k->values[value].in[0]);
    }
  }
}

static void print_row_stores(Gen *g) {
  const Kernel *k = g->kernel;
  for (int o = 0; o < k->noutputs; o++) {
    int value = k->outputs[o].value;
    Write write = loops_write(g->loops, k, o);
    if (write == WRITE_ROW)
      gen_line(g, "b%d[0] = %sv%d%s;", o, gen_store(k->outputs[o].dtype), value, gen_close(k->outputs[o].dtype));
    if (write == ADD_ROW) gen_line(g, "c%d[0] += v%d;", o, k->values[value].in[0]);
  }
}

/* What happens at one column. */
static void print_body(Gen *g, int s, bool spans) {
  const Loops *l = g->loops;
  uint64_t bit = (uint64_t)1 << s;
  for (int i = 0; i < g->kernel->nvalues; i++) {
    const LoopValue *x = &l->value[i];
    if (x->read & bit) gen_line(g, "const %s v%d = k%d[j];", gen_register_type[g->kernel->values[i].dtype], i, i);
    if (!(x->computed & bit)) continue;
    print_value(g, i);
    bool first = !(x->computed & (bit - 1));
    if (x->read && first) gen_line(g, "k%d[j] = v%d;", i, i);
  }
  for (int i = 0; i < g->kernel->nvalues; i++)
    if (gen_reduces(g, i, s)) print_accumulate(g, i, spans);
  if (s == l->nsweeps - 1) print_stores(g);
}

static void print_loop(Gen *g, int s, bool spans, const char *lo, const char *hi) {
  if (!g->loops->across) print_simd(g, s, spans);
  gen_line(g, "for (int64_t j = %s; j < %s; j++) {", lo, hi);
  g->indent++;
  print_body(g, s, spans);
  g->indent--;
  gen_line(g, "}");
}

static void print_spans(Gen *g, int s) {
  gen_line(g, "for (int64_t j0 = 0; j0 < %" PRId64 "; j0 += %d) {", g->loops->columns, SPAN);
  g->indent++;
  gen_line(g, "const int64_t j1 = j0 + %d < %" PRId64 " ? j0 + %d : %" PRId64 ";", SPAN, g->loops->columns, SPAN,
           g->loops->columns);
  for (int i = 0; i < g->kernel->nvalues; i++)
    if (gen_reduces(g, i, s) && g->kernel->values[i].kop == K_SUM)
      gen_line(g, "%s t%d = 0;", gen_register_type[g->kernel->values[i].dtype], i);
  print_loop(g, s, true, "j0", "j1");
  for (int i = 0; i < g->kernel->nvalues; i++)
    if (gen_reduces(g, i, s) && g->kernel->values[i].kop == K_SUM) gen_line(g, "s%d += t%d;", i, i);
  g->indent--;
  gen_line(g, "}");
}

static void print_sweep(Gen *g, int s) {
  const Loops *l = g->loops;
  bool sums = false;
  for (int i = 0; i < g->kernel->nvalues; i++) sums |= gen_reduces(g, i, s) && g->kernel->values[i].kop == K_SUM;
  bool spans = sums && l->columns > SPAN;
  print_accumulators(g, s, spans);
  char columns[32];
  snprintf(columns, sizeof columns, "%" PRId64, l->columns);
  if (l->pieces > 1)
    print_loop(g, s, false, "j0", "j1");
  else if (spans)
    print_spans(g, s);
  else
    print_loop(g, s, false, "0", columns);
  for (int i = 0; i < g->kernel->nvalues; i++) {
    if (!gen_reduces(g, i, s)) continue;
    const KernelValue *v = &g->kernel->values[i];
    bool nan = v->kop == K_MAXIMUM && v->dtype == DT_F32;
    if (nan) gen_line(g, "const float v%d = n%d ? HPT_NAN : s%d;", i, i, i);
    if (!nan) gen_line(g, "const %s v%d = %ss%d;", gen_register_type[v->dtype], i, spans && v->dtype == DT_F32 ? "(float)" : "", i);
  }
}

/* --- rows --------------------------------------------------------------------------------------------------------------- */

static void print_row_pointer(Gen *g, const char *name, const char *base, int i, int arg, const char *type, const char *constant) {
  text_printf(g->text, "%*s%s%s *const %s%d = %s%d", 2 * g->indent, "", constant, type, name, i, base, i);
  gen_row_offset(g, g->loops->stride[arg]);
  text_printf(g->text, ";\n");
}

static void print_row_pointers(Gen *g) {
  const Kernel *k = g->kernel;
  bool full[STEP_ARGS] = {false};
  CHECK(k->ninputs <= STEP_ARGS);
  for (int i = 0; i < k->nvalues; i++) {
    const LoopValue *x = &g->loops->value[i];
    if (k->values[i].kop == K_INPUT && x->used && x->level == LEVEL_FULL) full[k->values[i].input] = true;
  }
  for (int i = 0; i < k->ninputs; i++)
    if (full[i]) print_row_pointer(g, "a", "i", i, i, gen_memory_type[k->inputs[i].dtype], "const ");
  for (int o = 0; o < k->noutputs; o++)
    if (g->loops->value[k->outputs[o].value].level != LEVEL_COLUMN)
      print_row_pointer(g, "b", "o", o, k->ninputs + o, gen_memory_type[k->outputs[o].dtype], "");
}

/* A row, its outer indices and, when it is cut, its columns j0 to j1 being known. */
static void print_row(Gen *g) {
  const Kernel *k = g->kernel;
  const Loops *l = g->loops;
  print_row_pointers(g);
  for (int i = 0; i < k->nvalues; i++)
    if (l->value[i].read) gen_line(g, "%s k%d[%" PRId64 "];", gen_register_type[k->values[i].dtype], i, l->columns);
  for (int s = 0; s < l->nsweeps; s++) {
    print_scalars(g, LEVEL_ROW, s);
    print_sweep(g, s);
  }
  print_scalars(g, LEVEL_ROW, l->nsweeps);
  print_row_stores(g);
}

/* Rows from `row` (declared here) up to the one called hi.  Along the innermost outer axis runs a loop, so that the other
 * indices are worked out once a run. */
static void print_rows(Gen *g, const char *lo, const char *hi) {
  const Loops *l = g->loops;
  int last = l->nouter - 1;
  if (l->nouter <= 1) {
    if (l->across) text_printf(g->text, "#pragma omp simd\n");
    gen_line(g, "for (int64_t x0 = %s; x0 < %s; x0++) {", lo, hi);
    g->indent++;
    print_row(g);
  } else {
    gen_line(g, "for (int64_t row = %s; row < %s;) {", lo, hi);
    g->indent++;
    gen_indices(g, 1);
    gen_line(g, "int64_t x%d = row %% %" PRId64 ";", last, l->dim[last]);
    gen_line(g, "const int64_t end = row + %" PRId64 " - x%d < %s ? row + %" PRId64 " - x%d : %s;", l->dim[last], last, hi,
             l->dim[last], last, hi);
    gen_line(g, "for (; row < end; row++, x%d++) {", last);
    g->indent++;
    print_row(g);
    g->indent--;
    gen_line(g, "}");
  }
  g->indent--;
  gen_line(g, "}");
}

/* --- units -------------------------------------------------------------------------------------------------------------- */

static void print_pieces(Gen *g) {
  const Loops *l = g->loops;
  gen_line(g, "for (int64_t unit = lo; unit < hi; unit++) {");
  g->indent++;
  gen_line(g, "const int64_t row = unit / %" PRId64 ", j0 = unit %% %" PRId64 " * %" PRId64 ";", l->pieces, l->pieces, l->piece);
  gen_line(g, "const int64_t j1 = j0 + %" PRId64 " < %" PRId64 " ? j0 + %" PRId64 " : %" PRId64 ";", l->piece, l->columns, l->piece,
           l->columns);
  gen_indices(g, 0);
  print_row(g);
  g->indent--;
  gen_line(g, "}");
}

static void print_blocks(Gen *g) {
  const Kernel *k = g->kernel;
  const Loops *l = g->loops;
  gen_line(g, "for (int64_t unit = lo; unit < hi; unit++) {");
  g->indent++;
  for (int o = 0; o < k->noutputs; o++) {
    Write write = loops_write(l, k, o);
    if (write != ADD_ELEMENTS && write != ADD_ROW) continue;
    int64_t width = write == ADD_ROW ? 1 : l->columns;
    gen_line(g, "%s *const c%d = o%d + unit * %" PRId64 ";", gen_memory_type[k->outputs[o].dtype], o, o, width);
    gen_line(g, "memset(c%d, 0, sizeof *c%d * %" PRId64 ");", o, o, width);
  }
  gen_line(
      g, "const int64_t first = unit * %" PRId64 ", next = first + %" PRId64 " < %" PRId64 " ? first + %" PRId64 " : %" PRId64 ";",
      l->unit_rows, l->unit_rows, l->rows, l->unit_rows, l->rows);
  print_rows(g, "first", "next");
  g->indent--;
  gen_line(g, "}");
}

static void print_part(Gen *g) {
  const Kernel *k = g->kernel;
  gen_line(g, "static __attribute__((noinline)) void %s_part(void *const *p, int64_t lo, int64_t hi) {", g->symbol);
  g->indent++;
  for (int i = 0; i < k->ninputs; i++) gen_line(g, "const %s *const i%d = p[%d];", gen_memory_type[k->inputs[i].dtype], i, i);
  for (int o = 0; o < k->noutputs; o++)
    gen_line(g, "%s *const o%d = p[%d];", gen_memory_type[k->outputs[o].dtype], o, k->ninputs + o);
  print_scalars(g, LEVEL_CONST, 0);
  if (g->loops->column_sums)
    print_blocks(g);
  else if (g->loops->pieces > 1)
    print_pieces(g);
  else
    print_rows(g, "lo", "hi");
  g->indent--;
  gen_line(g, "}");
}

static void print_entry(Gen *g) {
  int64_t n = g->loops->units;
  bool parallel = n > 1 && g->loops->work >= WORK_PARALLEL;
  gen_line(g, "void %s(void *const *p, int threads) {", g->symbol);
  g->indent++;
  if (parallel) {
    gen_line(g, "if (threads > 1) {");
    text_printf(g->text, "#pragma omp parallel num_threads(threads)\n");
    gen_line(g, "  {");
    gen_line(g, "    const int64_t part = omp_get_thread_num(), parts = omp_get_num_threads();");
    gen_line(g, "    %s_part(p, %" PRId64 " * part / parts, %" PRId64 " * (part + 1) / parts);", g->symbol, n, n);
    gen_line(g, "  }");
    gen_line(g, "  return;");
    gen_line(g, "}");
  } else {
    gen_line(g, "(void)threads;");
  }
  gen_line(g, "%s_part(p, 0, %" PRId64 ");", g->symbol, n);
  g->indent--;
  gen_line(g, "}");
}

void gen_c(const Kernel *kernel, const char *symbol, Text *text) {
  static const LoopsKeep keep = {KEPT_BYTES, false};
  Arena *arena = arena_open();
  Gen g = {kernel, loops_make(arena, kernel, &keep), symbol, text, 0, "int64_t"};
  gen_comment(&g);
  print_part(&g);
  print_entry(&g);
  arena_close(arena);
}
