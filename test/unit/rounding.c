/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/rounding.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "src/base/rng.h"

/* Floats around every number of 16 bits and every tie between two of them, then a few at random; NaN among them. */
static void draw_floats(float *x, int64_t count) {
  static float all[ROUNDING_FLOATS];
  Rng rng = rng_make(4, RNG_TEST, "round", 0);
  int n = 0;
  for (uint32_t h = 0; h < 65536; h++) {
    static const uint32_t rest[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    float at = f16_value((uint16_t)h), tie = (at + f16_value((uint16_t)(h + 1))) / 2;
    float near[] = {at, nextafterf(at, INFINITY), nextafterf(at, 0), tie, nextafterf(tie, INFINITY), nextafterf(tie, 0)};
    for (int i = 0; i < 6; i++) memcpy(&all[n++], &(uint32_t){h << 16 | rest[i]}, sizeof *all);
    for (int i = 0; i < 6; i++) all[n++] = near[i];
  }
  for (uint32_t words[4]; n < ROUNDING_FLOATS; n++) {
    rng_words(&rng, (uint64_t)n, words);
    memcpy(&all[n], words, sizeof *all);
  }
  memcpy(x, all, sizeof *x * (size_t)count);
}

static int add(RoundingCase *c, KernelValue v) {
  v.level = LEVEL_FULL;
  c->kernel->values[c->kernel->nvalues] = v;
  return c->kernel->nvalues++;
}

static int add_cast(RoundingCase *c, DType type, int x) {
  return add(c, (KernelValue){.kop = K_POINTWISE, .op = OP_CAST, .dtype = type, .in = {x}, .nin = 1});
}

static int add_binary(RoundingCase *c, Op op, DType type, int a, int b) {
  return add(c, (KernelValue){.kop = K_POINTWISE, .op = op, .dtype = type, .in = {a, b}, .nin = 2});
}

static void add_output(RoundingCase *c, int value, int64_t n) {
  DType type = c->kernel->values[value].dtype;
  int o = c->kernel->noutputs++;
  c->kernel->outputs[o] = (KernelArg){.dtype = type, .stride = {1}, .value = value};
  c->out_bytes[o] = dtype_size(type) * (size_t)n;
}

static const uint64_t draw_key = 0x1234567890abc;

/* The float by both halves of its draw. */
static void add_dithers(RoundingCase *c, int x, int64_t n) {
  int key = add(c, (KernelValue){.kop = K_CONST, .dtype = DT_I64, .f = (double)draw_key});
  int draw = add_binary(c, OP_RANDOM, DT_I32, key, add(c, (KernelValue){.kop = K_IOTA, .dtype = DT_I64}));
  int sixteen = add(c, (KernelValue){.kop = K_CONST, .dtype = DT_I32, .f = 16});
  add_output(c, add_binary(c, OP_DITHER, DT_BF16, x, draw), n);
  add_output(c, add_binary(c, OP_DITHER, DT_BF16, x, add_binary(c, OP_SHIFT, DT_I32, draw, sixteen)), n);
}

/* Outputs: the float as BF16, that as F32 and as F16; the float as F16, that as F32 and as BF16; and by chance. */
RoundingCase rounding_case(Arena *arena, int64_t n) {
  RoundingCase c = {.kernel = arena_new(arena, Kernel), .in_bytes = sizeof(float) * (size_t)n};
  *c.kernel = (Kernel){.domain = SHAPE(n), .blocks = 1, .ninputs = 1};
  c.kernel->values = arena_array(arena, KernelValue, 2 * ROUNDING_OUTPUTS);
  c.kernel->inputs = arena_array(arena, KernelArg, 1);
  c.kernel->outputs = arena_array(arena, KernelArg, ROUNDING_OUTPUTS);
  c.kernel->inputs[0] = (KernelArg){.dtype = DT_F32, .stride = {1}};
  int x = add(&c, (KernelValue){.kop = K_INPUT, .dtype = DT_F32});
  for (int other = 0; other < 2; other++) {
    int half = add_cast(&c, other ? DT_F16 : DT_BF16, x);
    add_output(&c, half, n);
    add_output(&c, add_cast(&c, DT_F32, half), n);
    add_output(&c, add_cast(&c, other ? DT_BF16 : DT_F16, half), n);
  }
  add_dithers(&c, x, n);
  CHECK(c.kernel->noutputs == ROUNDING_OUTPUTS);
  for (int o = 0; o < ROUNDING_OUTPUTS; o++) c.out[o] = arena_alloc(arena, c.out_bytes[o]);
  c.in = arena_alloc(arena, c.in_bytes);
  draw_floats(c.in, n);
  return c;
}

static bool same(float a, float b) { return a != a ? b != b : !memcmp(&a, &b, sizeof a); }

/* What output o of float i is to be. */
static float due_value(const RoundingCase *c, int o, int64_t i) {
  float x = ((const float *)c->in)[i];
  DType first = o < 3 ? DT_BF16 : DT_F16;
  if (o >= 6) return bf16_value(bf16_dither(x, rng_bits(draw_key, i) >> (o == 6 ? 0 : 16)));
  return dtype_round(c->kernel->outputs[o].dtype, dtype_round(first, x));
}

const char *rounding_compare(const RoundingCase *c) {
  static char wrong[128];
  for (int64_t i = 0; i < c->kernel->domain.dim[0]; i++)
    for (int o = 0; o < ROUNDING_OUTPUTS; o++) {
      DType type = c->kernel->outputs[o].dtype;
      float x = ((const float *)c->in)[i], due = due_value(c, o, i), is = 0;
      if (type == DT_F32) is = ((const float *)c->out[o])[i];
      if (type == DT_BF16) is = bf16_value(((const uint16_t *)c->out[o])[i]);
      if (type == DT_F16) is = f16_value(((const uint16_t *)c->out[o])[i]);
      if (same(is, due)) continue;
      snprintf(wrong, sizeof wrong, "output %d of %a: %a, not %a", o, (double)x, (double)is, (double)due);
      return wrong;
    }
  return "";
}
