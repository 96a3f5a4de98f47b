/* SPDX-License-Identifier: Apache-2.0 */
/* Loops as C with OpenMP.  A kernel is two functions: SYMBOL_part runs a range of units, SYMBOL shares the units out.
 *
 * Inner loops carry "omp simd", which promises that columns are independent, so no pointer needs to be restrict.  Indices
 * along outer axes are x0, x1, …, the column is j; value 7 is v7 everywhere, its row buffer k7, its accumulator s7; input
 * and output addresses are i0, o0 and, at the row, a0, b0; partial column sums are c0.  Strides are literals, and nothing is
 * printed that tells two kernels of one structure apart. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "src/gen/gen.h"
#include "src/gen/loops.h"

enum {
  SPAN = 4096,            /* columns summed in float before the sum is added to the rest in double */
  WORK_PARALLEL = 1 << 17 /* elements below which threads cost more than they give */
};

typedef struct Gen {
  const Kernel *kernel;
  const Loops *loops;
  const char *symbol;
  Text *text;
  int indent;
} Gen;

__attribute__((format(printf, 2, 3))) static void line(Gen *g, const char *format, ...) {
  char buffer[512];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(buffer, sizeof buffer, format, args);
  va_end(args);
  CHECK(n >= 0 && n < (int)sizeof buffer);
  text_printf(g->text, "%*s%s\n", 2 * g->indent, "", buffer);
}

/* --- expressions -------------------------------------------------------------------------------------------------------- */

static const char *const register_type[DT_COUNT] = {"float", "int32_t", "int64_t", "int32_t"};
static const char *const memory_type[DT_COUNT] = {"float", "int32_t", "int64_t", "uint8_t"};

/* Operands are @0, @1, @2; where one text cannot serve both, floats have the first and integers the second. */
static const struct {
  const char *real, *integer;
} forms[OP_COUNT] = {
    [OP_COPY] = {"@0", "@0"},
    [OP_STOP] = {"@0", "@0"},
    [OP_NEG] = {"-@0", "-@0"},
    [OP_EXP] = {"hpt_exp(@0)", NULL},
    [OP_EXPM1] = {"expm1f(@0)", NULL},
    [OP_LOG] = {"hpt_log(@0)", NULL},
    [OP_SQRT] = {"__builtin_sqrtf(@0)", NULL},
    [OP_RSQRT] = {"hpt_rsqrt(@0)", NULL},
    [OP_SIN] = {"sinf(@0)", NULL},
    [OP_COS] = {"cosf(@0)", NULL},
    [OP_TANH] = {"hpt_tanh(@0)", NULL},
    [OP_SIGMOID] = {"hpt_sigmoid(@0)", NULL},
    [OP_FINITE] = {"__builtin_fabsf(@0) < __builtin_inff()", NULL},
    [OP_ADD] = {"@0 + @1", "@0 + @1"},
    [OP_SUB] = {"@0 - @1", "@0 - @1"},
    [OP_MUL] = {"@0 * @1", "@0 * @1"},
    [OP_DIV] = {"@0 / @1", NULL},
    [OP_MAX] = {"(@0 > @1) | (@0 != @0) ? @0 : @1", "@0 > @1 ? @0 : @1"},
    [OP_MIN] = {"(@0 < @1) | (@0 != @0) ? @0 : @1", "@0 < @1 ? @0 : @1"},
    [OP_LT] = {"@0 < @1", "@0 < @1"},
    [OP_LE] = {"@0 <= @1", "@0 <= @1"},
    [OP_EQ] = {"@0 == @1", "@0 == @1"},
    [OP_AND] = {NULL, "@0 & @1"},
    [OP_SELECT] = {"@1", "@1"}, /* by hand: its type is that of in[1] */
    [OP_FMA] = {"__builtin_fmaf(@0, @1, @2)", NULL},
};

static void print_form(Text *text, const char *form, const KernelValue *v) {
  for (const char *p = form; *p; p++) {
    if (*p == '@')
      text_printf(text, "v%d", v->in[*++p - '0']);
    else
      text_add(text, p, 1);
  }
}

static void print_cast(Gen *g, const KernelValue *v) {
  if (v->dtype == DT_PRED)
    text_printf(g->text, "v%d != 0", v->in[0]);
  else
    text_printf(g->text, "(%s)v%d", register_type[v->dtype], v->in[0]);
}

static void print_const(Gen *g, const KernelValue *v) {
  if (v->dtype != DT_F32) {
    CHECK(fabs(v->f) < 0x1p53);
    text_printf(g->text, "INT64_C(%" PRId64 ")", (int64_t)v->f);
  } else if (isnan(v->f)) {
    text_printf(g->text, "__builtin_nanf(\"\")");
  } else if (isinf((float)v->f)) {
    text_printf(g->text, "%s__builtin_inff()", v->f < 0 ? "-" : "");
  } else {
    text_printf(g->text, "%af", (double)(float)v->f);
  }
}

static void print_iota(Gen *g, const KernelValue *v) {
  int axis = g->loops->axis[v->axis];
  if (axis < 0)
    text_printf(g->text, "0");
  else if (axis == g->loops->nouter)
    text_printf(g->text, "(%s)j", register_type[v->dtype]);
  else
    text_printf(g->text, "(%s)x%d", register_type[v->dtype], axis);
}

static void print_pointwise(Gen *g, const KernelValue *v) {
  DType type = g->kernel->values[v->in[0]].dtype;
  const char *form = type == DT_F32 ? forms[v->op].real : forms[v->op].integer;
  if (v->op == OP_CAST) {
    print_cast(g, v);
  } else if (v->op == OP_SELECT) {
    print_form(g->text, "@0 ? @1 : @2", v);
  } else {
    CHECK(form);
    print_form(g->text, form, v);
  }
}

/* --- accesses ----------------------------------------------------------------------------------------------------------- */

/* " + x0 * 4096 + x1 * 16": where the row starts. */
static void print_row_offset(Gen *g, const int64_t *stride) {
  for (int a = 0; a < g->loops->nouter; a++) {
    if (stride[a] == 1) text_printf(g->text, " + x%d", a);
    if (stride[a] != 1 && stride[a]) text_printf(g->text, " + x%d * %" PRId64, a, stride[a]);
  }
}

/* "a3[j * 2]": an element of argument `name`, whose row starts at `name`. */
static void print_element(Gen *g, const char *name, int i, int64_t stride) {
  if (stride == 1)
    text_printf(g->text, "%s%d[j]", name, i);
  else if (stride)
    text_printf(g->text, "%s%d[j * %" PRId64 "]", name, i, stride);
  else
    text_printf(g->text, "%s%d[0]", name, i);
}

static int64_t column_stride(const Gen *g, int arg) { return g->loops->stride[arg][g->loops->nouter]; }

static void print_input(Gen *g, const KernelValue *v, Level level) {
  if (level == LEVEL_FULL) {
    print_element(g, "a", v->input, column_stride(g, v->input));
  } else {
    text_printf(g->text, "i%d[0", v->input);
    print_row_offset(g, g->loops->stride[v->input]);
    text_printf(g->text, "]");
  }
}

/* "const float v7 = …;" for all but reductions. */
static void print_value(Gen *g, int i) {
  const KernelValue *v = &g->kernel->values[i];
  text_printf(g->text, "%*sconst %s v%d = ", 2 * g->indent, "", register_type[v->dtype], i);
  if (v->kop == K_INPUT) print_input(g, v, g->loops->value[i].level);
  if (v->kop == K_CONST) print_const(g, v);
  if (v->kop == K_IOTA) print_iota(g, v);
  if (v->kop == K_POINTWISE) print_pointwise(g, v);
  text_printf(g->text, ";\n");
}

static bool is_reduction(const KernelValue *v) { return v->kop == K_SUM || v->kop == K_MAXIMUM; }

/* ROW values known once `sweep` sweeps are over (CONST values: level). */
static void print_scalars(Gen *g, Level level, int sweep) {
  for (int i = 0; i < g->kernel->nvalues; i++) {
    const LoopValue *x = &g->loops->value[i];
    if (x->used && x->level == level && x->sweep == sweep && !is_reduction(&g->kernel->values[i])) print_value(g, i);
  }
}

/* --- sweeps ------------------------------------------------------------------------------------------------------------- */

/* The reductions that sweep s completes. */
static bool reduces(const Gen *g, int i, int s) {
  return g->loops->value[i].used && is_reduction(&g->kernel->values[i]) && g->loops->value[i].sweep == s + 1;
}

static const char *lowest(DType type) {
  static const char *const of[DT_COUNT] = {"-__builtin_inff()", "INT32_MIN", "INT64_MIN", "0"};
  return of[type];
}

/* Vectors find a maximum without looking at NaN, and n7 remembers whether there was one. */
static void print_accumulators(Gen *g, int s, bool spans) {
  for (int i = 0; i < g->kernel->nvalues; i++) {
    if (!reduces(g, i, s)) continue;
    const KernelValue *v = &g->kernel->values[i];
    bool sum = v->kop == K_SUM;
    bool wide = sum && spans && v->dtype == DT_F32;
    line(g, "%s s%d = %s;", wide ? "double" : register_type[v->dtype], i, sum ? "0" : lowest(v->dtype));
    if (!sum && v->dtype == DT_F32) line(g, "int32_t n%d = 0;", i);
  }
}

static void print_simd(Gen *g, int s, bool spans) {
  text_printf(g->text, "#pragma omp simd");
  for (int i = 0; i < g->kernel->nvalues; i++) {
    if (!reduces(g, i, s)) continue;
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
    line(g, "%s%d += v%d;", spans ? "t" : "s", i, x);
    return;
  }
  line(g, "s%d = v%d > s%d ? v%d : s%d;", i, x, i, x, i);
  if (v->dtype == DT_F32) line(g, "n%d |= v%d != v%d;", i, x, x);
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
      text_printf(g->text, " = v%d;\n", value);
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
    if (write == WRITE_ROW) line(g, "b%d[0] = v%d;", o, value);
    if (write == ADD_ROW) line(g, "c%d[0] += v%d;", o, k->values[value].in[0]);
  }
}

/* What happens at one column. */
static void print_body(Gen *g, int s, bool spans) {
  const Loops *l = g->loops;
  uint64_t bit = (uint64_t)1 << s;
  for (int i = 0; i < g->kernel->nvalues; i++) {
    const LoopValue *x = &l->value[i];
    if (x->read & bit) line(g, "const %s v%d = k%d[j];", register_type[g->kernel->values[i].dtype], i, i);
    if (!(x->computed & bit)) continue;
    print_value(g, i);
    bool first = !(x->computed & (bit - 1));
    if (x->read && first) line(g, "k%d[j] = v%d;", i, i);
  }
  for (int i = 0; i < g->kernel->nvalues; i++)
    if (reduces(g, i, s)) print_accumulate(g, i, spans);
  if (s == l->nsweeps - 1) print_stores(g);
}

static void print_loop(Gen *g, int s, bool spans, const char *lo, const char *hi) {
  if (!g->loops->across) print_simd(g, s, spans);
  line(g, "for (int64_t j = %s; j < %s; j++) {", lo, hi);
  g->indent++;
  print_body(g, s, spans);
  g->indent--;
  line(g, "}");
}

static void print_spans(Gen *g, int s) {
  line(g, "for (int64_t j0 = 0; j0 < %" PRId64 "; j0 += %d) {", g->loops->columns, SPAN);
  g->indent++;
  line(g, "const int64_t j1 = j0 + %d < %" PRId64 " ? j0 + %d : %" PRId64 ";", SPAN, g->loops->columns, SPAN, g->loops->columns);
  for (int i = 0; i < g->kernel->nvalues; i++)
    if (reduces(g, i, s) && g->kernel->values[i].kop == K_SUM) line(g, "%s t%d = 0;", register_type[g->kernel->values[i].dtype], i);
  print_loop(g, s, true, "j0", "j1");
  for (int i = 0; i < g->kernel->nvalues; i++)
    if (reduces(g, i, s) && g->kernel->values[i].kop == K_SUM) line(g, "s%d += t%d;", i, i);
  g->indent--;
  line(g, "}");
}

static void print_sweep(Gen *g, int s) {
  const Loops *l = g->loops;
  bool sums = false;
  for (int i = 0; i < g->kernel->nvalues; i++) sums |= reduces(g, i, s) && g->kernel->values[i].kop == K_SUM;
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
    if (!reduces(g, i, s)) continue;
    const KernelValue *v = &g->kernel->values[i];
    bool nan = v->kop == K_MAXIMUM && v->dtype == DT_F32;
    if (nan) line(g, "const float v%d = n%d ? __builtin_nanf(\"\") : s%d;", i, i, i);
    if (!nan) line(g, "const %s v%d = %ss%d;", register_type[v->dtype], i, spans && v->dtype == DT_F32 ? "(float)" : "", i);
  }
}

/* --- rows --------------------------------------------------------------------------------------------------------------- */

static void print_row_pointer(Gen *g, const char *name, const char *base, int i, int arg, const char *type, const char *constant) {
  text_printf(g->text, "%*s%s%s *const %s%d = %s%d", 2 * g->indent, "", constant, type, name, i, base, i);
  print_row_offset(g, g->loops->stride[arg]);
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
    if (full[i]) print_row_pointer(g, "a", "i", i, i, memory_type[k->inputs[i].dtype], "const ");
  for (int o = 0; o < k->noutputs; o++)
    if (g->loops->value[k->outputs[o].value].level != LEVEL_COLUMN)
      print_row_pointer(g, "b", "o", o, k->ninputs + o, memory_type[k->outputs[o].dtype], "");
}

/* A row, its outer indices and, when it is cut, its columns j0 to j1 being known. */
static void print_row(Gen *g) {
  const Kernel *k = g->kernel;
  const Loops *l = g->loops;
  print_row_pointers(g);
  for (int i = 0; i < k->nvalues; i++)
    if (l->value[i].read) line(g, "%s k%d[%" PRId64 "];", register_type[k->values[i].dtype], i, l->columns);
  for (int s = 0; s < l->nsweeps; s++) {
    print_scalars(g, LEVEL_ROW, s);
    print_sweep(g, s);
  }
  print_scalars(g, LEVEL_ROW, l->nsweeps);
  print_row_stores(g);
}

/* x0, x1, … of `row`, but for the last `without` of them. */
static void print_indices(Gen *g, int without) {
  int64_t inner = g->loops->rows;
  for (int a = 0; a < g->loops->nouter - without; a++) {
    inner /= g->loops->dim[a];
    line(g, a ? "const int64_t x%d = row / %" PRId64 " %% %" PRId64 ";" : "const int64_t x%d = row / %" PRId64 ";", a, inner,
         g->loops->dim[a]);
  }
}

/* Rows from `row` (declared here) up to the one called hi.  Along the innermost outer axis runs a loop, so that the other
 * indices are worked out once a run. */
static void print_rows(Gen *g, const char *lo, const char *hi) {
  const Loops *l = g->loops;
  int last = l->nouter - 1;
  if (l->nouter <= 1) {
    if (l->across) text_printf(g->text, "#pragma omp simd\n");
    line(g, "for (int64_t x0 = %s; x0 < %s; x0++) {", lo, hi);
    g->indent++;
    print_row(g);
  } else {
    line(g, "for (int64_t row = %s; row < %s;) {", lo, hi);
    g->indent++;
    print_indices(g, 1);
    line(g, "int64_t x%d = row %% %" PRId64 ";", last, l->dim[last]);
    line(g, "const int64_t end = row + %" PRId64 " - x%d < %s ? row + %" PRId64 " - x%d : %s;", l->dim[last], last, hi,
         l->dim[last], last, hi);
    line(g, "for (; row < end; row++, x%d++) {", last);
    g->indent++;
    print_row(g);
    g->indent--;
    line(g, "}");
  }
  g->indent--;
  line(g, "}");
}

/* --- units -------------------------------------------------------------------------------------------------------------- */

static void print_pieces(Gen *g) {
  const Loops *l = g->loops;
  line(g, "for (int64_t unit = lo; unit < hi; unit++) {");
  g->indent++;
  line(g, "const int64_t row = unit / %" PRId64 ", j0 = unit %% %" PRId64 " * %" PRId64 ";", l->pieces, l->pieces, l->piece);
  line(g, "const int64_t j1 = j0 + %" PRId64 " < %" PRId64 " ? j0 + %" PRId64 " : %" PRId64 ";", l->piece, l->columns, l->piece,
       l->columns);
  print_indices(g, 0);
  print_row(g);
  g->indent--;
  line(g, "}");
}

static void print_blocks(Gen *g) {
  const Kernel *k = g->kernel;
  const Loops *l = g->loops;
  line(g, "for (int64_t unit = lo; unit < hi; unit++) {");
  g->indent++;
  for (int o = 0; o < k->noutputs; o++) {
    Write write = loops_write(l, k, o);
    if (write != ADD_ELEMENTS && write != ADD_ROW) continue;
    int64_t width = write == ADD_ROW ? 1 : l->columns;
    line(g, "%s *const c%d = o%d + unit * %" PRId64 ";", memory_type[k->outputs[o].dtype], o, o, width);
    line(g, "memset(c%d, 0, sizeof *c%d * %" PRId64 ");", o, o, width);
  }
  line(g, "const int64_t first = unit * %" PRId64 ", next = first + %" PRId64 " < %" PRId64 " ? first + %" PRId64 " : %" PRId64 ";",
       l->unit_rows, l->unit_rows, l->rows, l->unit_rows, l->rows);
  print_rows(g, "first", "next");
  g->indent--;
  line(g, "}");
}

static void print_part(Gen *g) {
  const Kernel *k = g->kernel;
  line(g, "static __attribute__((noinline)) void %s_part(void *const *p, int64_t lo, int64_t hi) {", g->symbol);
  g->indent++;
  for (int i = 0; i < k->ninputs; i++) line(g, "const %s *const i%d = p[%d];", memory_type[k->inputs[i].dtype], i, i);
  for (int o = 0; o < k->noutputs; o++) line(g, "%s *const o%d = p[%d];", memory_type[k->outputs[o].dtype], o, k->ninputs + o);
  print_scalars(g, LEVEL_CONST, 0);
  if (g->loops->column_sums)
    print_blocks(g);
  else if (g->loops->pieces > 1)
    print_pieces(g);
  else
    print_rows(g, "lo", "hi");
  g->indent--;
  line(g, "}");
}

static void print_entry(Gen *g) {
  int64_t n = g->loops->units;
  bool parallel = n > 1 && g->loops->work >= WORK_PARALLEL;
  line(g, "void %s(void *const *p, int threads) {", g->symbol);
  g->indent++;
  if (parallel) {
    line(g, "if (threads > 1) {");
    text_printf(g->text, "#pragma omp parallel num_threads(threads)\n");
    line(g, "  {");
    line(g, "    const int64_t part = omp_get_thread_num(), parts = omp_get_num_threads();");
    line(g, "    %s_part(p, %" PRId64 " * part / parts, %" PRId64 " * (part + 1) / parts);", g->symbol, n, n);
    line(g, "  }");
    line(g, "  return;");
    line(g, "}");
  } else {
    line(g, "(void)threads;");
  }
  line(g, "%s_part(p, 0, %" PRId64 ");", g->symbol, n);
  g->indent--;
  line(g, "}");
}

/* A comment that contains the end of one must not end it. */
static void print_comment(Gen *g) {
  const char *comment = g->kernel->comment ? g->kernel->comment : "";
  if (!*comment) return;
  text_printf(g->text, "/* ");
  for (const char *p = comment; *p; p++) {
    if (*p == '\n')
      text_printf(g->text, p[1] ? "\n * " : "");
    else
      text_printf(g->text, p[0] == '/' && p > comment && p[-1] == '*' ? " %c" : "%c", *p);
  }
  text_printf(g->text, " */\n");
}

void gen_c(const Kernel *kernel, const char *symbol, Text *text) {
  Arena *arena = arena_open();
  Gen g = {kernel, loops_make(arena, kernel), symbol, text, 0};
  print_comment(&g);
  print_part(&g);
  print_entry(&g);
  arena_close(arena);
}
