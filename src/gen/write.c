/* SPDX-License-Identifier: Apache-2.0 */
/* Lines, expressions and addresses, as both targets write them: a row an op. */
#include "src/gen/write.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

void gen_line(Gen *g, const char *format, ...) {
  char buffer[512];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(buffer, sizeof buffer, format, args);
  va_end(args);
  CHECK(n >= 0 && n < (int)sizeof buffer);
  text_printf(g->text, "%*s%s\n", 2 * g->indent, "", buffer);
}

/* A comment that contains the end of one must not end it. */
void gen_comment(Gen *g) {
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

/* --- expressions -------------------------------------------------------------------------------------------------------- */

const char *const gen_register_type[DT_COUNT] = {"float", "int32_t", "int64_t", "int32_t", "float", "float", "int32_t"};
const char *const gen_memory_type[DT_COUNT] = {"float", "int32_t", "int64_t", "uint8_t", "hpt_bf16", "hpt_f16", "int16_t"};

/* Calls of what the preludes have to take a number of 16 bits out of memory, put one there, and round to one. */
typedef struct Half {
  const char *value, *bits, *round;
} Half;

static const Half halves[DT_COUNT] = {[DT_BF16] = {"hpt_bf16_value(", "hpt_bf16_bits(", "hpt_bf16_round("},
                                      [DT_F16] = {"hpt_f16_value(", "hpt_f16_bits(", "hpt_f16_round("}};

const char *gen_load(DType type) { return halves[type].value ? halves[type].value : ""; }
const char *gen_store(DType type) { return halves[type].bits ? halves[type].bits : ""; }
const char *gen_close(DType type) { return halves[type].bits ? ")" : ""; }

/* Operands are @0, @1, @2; where one text cannot serve both, floats have the first and integers the second. */
static const struct {
  const char *real, *integer;
} forms[OP_COUNT] = {
    [OP_COPY] = {"@0", "@0"},
    [OP_STOP] = {"@0", "@0"},
    [OP_KEEP] = {"@0", NULL},
    [OP_NEG] = {"-@0", "-@0"},
    [OP_EXP] = {"hpt_exp(@0)", NULL},
    [OP_EXPM1] = {"hpt_expm1(@0)", NULL},
    [OP_LOG] = {"hpt_log(@0)", NULL},
    [OP_SQRT] = {"hpt_sqrt(@0)", NULL},
    [OP_RSQRT] = {"hpt_rsqrt(@0)", NULL},
    [OP_SIN] = {"hpt_sin(@0)", NULL},
    [OP_COS] = {"hpt_cos(@0)", NULL},
    [OP_TANH] = {"hpt_tanh(@0)", NULL},
    [OP_SIGMOID] = {"hpt_sigmoid(@0)", NULL},
    [OP_FINITE] = {"hpt_finite(@0)", NULL},
    [OP_UPPER] = {"hpt_upper(@0)", NULL},
    [OP_LOWER] = {"hpt_lower(@0)", NULL},
    [OP_BITS] = {"hpt_bits(@0)", NULL},
    [OP_JOIN] = {"hpt_join(@0, @1)", NULL},
    [OP_RANDOM] = {NULL, "hpt_random(@0, @1)"},
    [OP_SHIFT] = {NULL, "@0 >> (@1 & 31)"},
    [OP_DITHER] = {"hpt_dither(@0, @1)", NULL},
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
    [OP_FMA] = {"hpt_fma_once(@0, @1, @2)", NULL},
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
  const Half *half = &halves[v->dtype];
  if (v->dtype == DT_PRED)
    text_printf(g->text, "v%d != 0", v->in[0]);
  else if (half->round && g->kernel->values[v->in[0]].dtype != v->dtype)
    text_printf(g->text, "%s(float)v%d)", half->round, v->in[0]);
  else
    text_printf(g->text, "(%s)v%d", gen_register_type[v->dtype], v->in[0]);
}

static void print_const(Gen *g, const KernelValue *v) {
  if (!dtype_is_float(v->dtype)) {
    CHECK(fabs(v->f) < 0x1p53);
    text_printf(g->text, "INT64_C(%" PRId64 ")", (int64_t)v->f);
  } else if (isnan(v->f)) {
    text_printf(g->text, "HPT_NAN");
  } else if (isinf((float)v->f)) {
    text_printf(g->text, "%sHPT_INF", v->f < 0 ? "-" : "");
  } else {
    text_printf(g->text, "%af", (double)(float)v->f);
  }
}

static void print_iota(Gen *g, const KernelValue *v, const char *column) {
  int axis = g->loops->axis[v->axis];
  if (axis < 0)
    text_printf(g->text, "0");
  else if (axis == g->loops->nouter)
    text_printf(g->text, "(%s)%s", gen_register_type[v->dtype], column);
  else
    text_printf(g->text, "(%s)x%d", gen_register_type[v->dtype], axis);
}

static void print_pointwise(Gen *g, const KernelValue *v) {
  DType type = g->kernel->values[v->in[0]].dtype;
  const char *form = dtype_is_float(type) ? forms[v->op].real : forms[v->op].integer;
  if (v->op == OP_CAST) {
    print_cast(g, v);
  } else if (v->op == OP_SELECT) {
    print_form(g->text, "@0 ? @1 : @2", v);
  } else {
    CHECK(form);
    print_form(g->text, form, v);
  }
}

void gen_row_offset(Gen *g, const int64_t *stride) {
  for (int a = 0; a < g->loops->nouter; a++) {
    if (stride[a] == 1) text_printf(g->text, " + x%d", a);
    if (stride[a] != 1 && stride[a]) text_printf(g->text, " + x%d * %" PRId64, a, stride[a]);
  }
}

void gen_indices(Gen *g, int without) {
  int64_t inner = g->loops->rows;
  for (int a = 0; a < g->loops->nouter - without; a++) {
    inner /= g->loops->dim[a];
    gen_line(g, a ? "const %s x%d = row / %" PRId64 " %% %" PRId64 ";" : "const %s x%d = row / %" PRId64 ";", g->index, a, inner,
             g->loops->dim[a]);
  }
}

static void print_input(Gen *g, const KernelValue *v) {
  text_printf(g->text, "%si%d[0", gen_load(v->dtype), v->input);
  gen_row_offset(g, g->loops->stride[v->input]);
  text_printf(g->text, "]%s", gen_close(v->dtype));
}

void gen_value(Gen *g, int i, const char *column) {
  const KernelValue *v = &g->kernel->values[i];
  text_printf(g->text, "%*sconst %s v%d = ", 2 * g->indent, "", gen_register_type[v->dtype], i);
  if (v->kop == K_INPUT) print_input(g, v);
  if (v->kop == K_CONST) print_const(g, v);
  if (v->kop == K_IOTA) print_iota(g, v, column);
  if (v->kop == K_POINTWISE) print_pointwise(g, v);
  text_printf(g->text, ";\n");
}

/* --- reductions --------------------------------------------------------------------------------------------------------- */

bool gen_is_reduction(const KernelValue *v) { return v->kop == K_SUM || v->kop == K_MAXIMUM; }

bool gen_reduces(const Gen *g, int i, int s) {
  return g->loops->value[i].used && gen_is_reduction(&g->kernel->values[i]) && g->loops->value[i].sweep == s + 1;
}

const char *gen_lowest(DType type) {
  static const char *const of[DT_COUNT] = {"-HPT_INF", "INT32_MIN", "INT64_MIN", "0", "-HPT_INF", "-HPT_INF"};
  return of[type];
}
