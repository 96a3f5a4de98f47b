/* SPDX-License-Identifier: Apache-2.0 */
/* Generated C against a plain evaluation of the same kernels in double: random kernels over all ops, levels and strides, and
 * the corners by hand. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "src/base/rng.h"
#include "src/dev/dev.h"
#include "src/gen/gen.h"
#include "test/check.h"
#include "test/unit/random_kernel.h"
#include "test/unit/rounding.h"

typedef void KernelRun(void *const *p, int threads);

typedef struct Built {
  Dev *dev;
  DevModule *module;
} Built;

static Dev *device_open(void) {
  return dev_open(&(DevOptions){.kind = "cpu", .compiler = "cc", .cache = check_folder(), .threads = 2});
}

/* The kernels as k0, k1, …, in `parts` translation units. */
static Built kernels_build(const Kernel *const *kernels, int n, int parts) {
  Built built = {device_open(), NULL};
  Text *texts = xmalloc(sizeof *texts * (size_t)parts);
  const char **at = xmalloc(sizeof *at * (size_t)parts);
  for (int p = 0; p < parts; p++) {
    texts[p] = (Text){0};
    text_printf(&texts[p], "%s", kernels_prelude());
    for (int i = p; i < n; i += parts) {
      char symbol[16];
      snprintf(symbol, sizeof symbol, "k%d", i);
      gen_c(kernels[i], symbol, &texts[p]);
    }
    at[p] = texts[p].at;
  }
  void *image;
  size_t nbytes;
  Why why = {""};
  if (!dev_try_build(built.dev, at, parts, &image, &nbytes, NULL, &why)) check_failed(__FILE__, __LINE__, "%s", why.text);
  built.module = dev_load(built.dev, image, nbytes);
  free(image);
  for (int p = 0; p < parts; p++) text_close(&texts[p]);
  free(texts);
  free(at);
  return built;
}

static KernelRun *built_kernel(const Built *built, int i) {
  char symbol[16];
  snprintf(symbol, sizeof symbol, "k%d", i);
  KernelRun *run;
  *(void **)&run = dev_symbol(built->module, symbol);
  return run;
}

static void built_close(Built *built) {
  dev_unload(built->module);
  dev_close(built->dev);
}

/* --- random kernels ----------------------------------------------------------------------------------------------------- */

enum { KERNELS = 160 };

static void print_case(const Kernel *k, int seed) {
  Text text = {0};
  gen_c(k, "k", &text);
  fprintf(stderr, "kernel of seed %d:\n%s", seed, text.at);
  text_close(&text);
}

/* The kernel on its data with so many threads: the memory after it. */
static void *case_run(const KernelCase *c, KernelRun *run, int threads) {
  char *memory = aligned_alloc(64, c->nbytes);
  CHECK(memory);
  memcpy(memory, c->memory, c->nbytes);
  void *p[STEP_ARGS];
  int nargs = c->kernel->ninputs + c->kernel->noutputs;
  for (int i = 0; i < nargs; i++) p[i] = memory + c->at[i];
  run(p, threads);
  return memory;
}

TEST(random_kernels_compute_what_their_values_say_on_any_number_of_threads) {
  Arena *arena = arena_open();
  KernelCase *cases[KERNELS];
  const Kernel *kernels[KERNELS];
  for (int i = 0; i < KERNELS; i++) {
    cases[i] = kernel_random(arena, (uint64_t)i);
    kernels[i] = cases[i]->kernel;
  }
  Built built = kernels_build(kernels, KERNELS, 2);
  for (int i = 0; i < KERNELS; i++) {
    KernelRun *run = built_kernel(&built, i);
    char *one = case_run(cases[i], run, 1);
    const char *wrong = kernel_compare(cases[i], one);
    if (*wrong) print_case(kernels[i], i);
    EXPECT_TEXT(wrong, "");
    for (int threads = 2; threads <= 3; threads++) {
      char *more = case_run(cases[i], run, threads);
      EXPECT(!memcmp(one, more, cases[i]->nbytes));
      free(more);
    }
    free(one);
  }
  built_close(&built);
  arena_close(arena);
}

/* --- by hand ------------------------------------------------------------------------------------------------------------ */

enum { MOST = 8 };

/* A kernel over (rows, columns) that is put together value by value. */
typedef struct Small {
  Kernel kernel;
  KernelValue values[MOST];
  KernelArg inputs[MOST], outputs[MOST];
} Small;

static void small_open(Small *s, int64_t rows, int64_t columns) {
  memset(s, 0, sizeof *s);
  s->kernel =
      (Kernel){.domain = SHAPE(rows, columns), .blocks = 1, .values = s->values, .inputs = s->inputs, .outputs = s->outputs};
}

static int small_value(Small *s, KernelValue v) {
  s->values[s->kernel.nvalues] = v;
  return s->kernel.nvalues++;
}

static int small_input(Small *s, DType dtype, int64_t row_stride, int64_t column_stride) {
  int i = s->kernel.ninputs++;
  s->inputs[i] = (KernelArg){.dtype = dtype, .stride = {row_stride, column_stride}};
  return small_value(s, (KernelValue){.kop = K_INPUT, .dtype = dtype, .level = LEVEL_FULL, .input = i});
}

static int small_op(Small *s, Op op, DType dtype, int a, int b, int c) {
  KernelValue v = {.kop = K_POINTWISE, .op = op, .dtype = dtype, .level = LEVEL_FULL, .in = {a, b, c}};
  v.nin = c >= 0 ? 3 : b >= 0 ? 2 : 1;
  return small_value(s, v);
}

static int small_reduce(Small *s, KernelOp kop, int a) {
  return small_value(s, (KernelValue){.kop = kop, .dtype = DT_F32, .level = LEVEL_ROW, .in = {a}, .nin = 1});
}

static void small_output(Small *s, int value) {
  const KernelValue *v = &s->values[value];
  int64_t columns = s->kernel.domain.dim[1];
  KernelArg arg = {.dtype = v->dtype, .stride = {columns, 1}, .value = value};
  if (v->level == LEVEL_ROW) arg.stride[0] = 1, arg.stride[1] = 0;
  s->outputs[s->kernel.noutputs++] = arg;
}

static Built small_build(const Small *s, KernelRun **run) {
  Built built = kernels_build((const Kernel *const[]){&s->kernel}, 1, 1);
  *run = built_kernel(&built, 0);
  return built;
}

TEST(nan_passes_through_maxima_and_minima) {
  enum { N = 37 };
  Small s;
  small_open(&s, N, N);
  int a = small_input(&s, DT_F32, N, 1), b = small_input(&s, DT_F32, 0, 1);
  small_output(&s, small_reduce(&s, K_MAXIMUM, a));
  small_output(&s, small_op(&s, OP_MAX, DT_F32, a, b, -1));
  small_output(&s, small_op(&s, OP_MIN, DT_F32, b, a, -1));
  static float x[N][N], one[N], top[N], most[N][N], least[N][N];
  for (int i = 0; i < N; i++) {
    one[i] = 1;
    for (int j = 0; j < N; j++) x[i][j] = i == j ? NAN : (float)-j;
  }
  x[3][3] = -3; /* a row without */
  KernelRun *run;
  Built built = small_build(&s, &run);
  run((void *[]){x, one, top, most, least}, 1);
  for (int i = 0; i < N; i++) {
    EXPECT(i == 3 ? top[i] == 0 : isnan(top[i]));
    for (int j = 0; j < N; j++) {
      EXPECT(isnan(most[i][j]) == isnan(x[i][j]) && isnan(least[i][j]) == isnan(x[i][j]));
      if (!isnan(x[i][j])) EXPECT(most[i][j] == 1 && least[i][j] == (float)-j);
    }
  }
  built_close(&built);
}

TEST(finite_tells_numbers_from_the_rest_and_select_takes_nothing_from_the_other_side) {
  enum { N = 5 };
  Small s;
  small_open(&s, 1, N);
  int x = small_input(&s, DT_F32, N, 1), y = small_input(&s, DT_F32, N, 1), finite = small_op(&s, OP_FINITE, DT_PRED, x, -1, -1);
  small_output(&s, finite);
  small_output(&s, small_op(&s, OP_SELECT, DT_F32, finite, x, y));
  small_output(&s, small_op(&s, OP_CAST, DT_I32, y, -1, -1));
  float in[N] = {1, INFINITY, -INFINITY, NAN, 3e38f}, other[N] = {-1.9f, 1.9f, 0.5f, -7, 2}, chosen[N];
  uint8_t is[N];
  int32_t cut[N];
  KernelRun *run;
  Built built = small_build(&s, &run);
  run((void *[]){in, other, is, chosen, cut}, 1);
  for (int i = 0; i < N; i++) EXPECT(is[i] == (i == 0 || i == 4) && chosen[i] == (is[i] ? in[i] : other[i]));
  EXPECT(cut[0] == -1 && cut[1] == 1 && cut[2] == 0 && cut[3] == -7);
  built_close(&built);
}

TEST(kernels_round_to_16_bits_as_the_host_does) {
  Arena *arena = arena_open();
  RoundingCase c = rounding_case(arena, ROUNDING_FLOATS);
  Built built = kernels_build((const Kernel *const[]){c.kernel}, 1, 1);
  void *p[1 + ROUNDING_OUTPUTS] = {c.in};
  memcpy(p + 1, c.out, sizeof c.out);
  built_kernel(&built, 0)(p, 2);
  EXPECT_TEXT(rounding_compare(&c), "");
  built_close(&built);
  arena_close(arena);
}

static bool same_float(float a, float b) { return a != a ? b != b : !memcmp(&a, &b, sizeof a); }

TEST(all_numbers_of_16_bits_are_read_and_written_as_they_are) {
  enum { N = 65536 };
  Small s;
  small_open(&s, 1, N);
  for (DType type = DT_BF16; type <= DT_F16; type++) {
    int x = small_input(&s, type, N, 1);
    small_output(&s, small_op(&s, OP_CAST, DT_F32, x, -1, -1));
    small_output(&s, small_op(&s, OP_COPY, type, x, -1, -1));
  }
  static uint16_t in[N], copy[2][N];
  static float value[2][N];
  for (int i = 0; i < N; i++) in[i] = (uint16_t)i;
  KernelRun *run;
  Built built = small_build(&s, &run);
  run((void *[]){in, in, value[0], copy[0], value[1], copy[1]}, 1);
  for (int i = 0; i < N; i++) {
    EXPECT(same_float(value[0][i], bf16_value(in[i])) && same_float(value[1][i], f16_value(in[i])));
    for (int k = 0; k < 2; k++) EXPECT(value[k][i] != value[k][i] || copy[k][i] == in[i]);
  }
  built_close(&built);
}

TEST(a_fused_product_and_sum_is_rounded_once) {
  Small s;
  small_open(&s, 1, 64);
  int a = small_input(&s, DT_F32, 64, 1), b = small_input(&s, DT_F32, 64, 1), c = small_input(&s, DT_F32, 64, 1);
  small_output(&s, small_op(&s, OP_FMA, DT_F32, a, b, c));
  small_output(&s, small_op(&s, OP_ADD, DT_F32, small_op(&s, OP_MUL, DT_F32, a, b, -1), c, -1));
  float x[64], y[64], z[64], once[64], twice[64];
  for (int i = 0; i < 64; i++) {
    x[i] = 1 + (float)i * 0x1p-23f;
    y[i] = 1 - (float)i * 0x1p-24f;
    z[i] = -x[i] * y[i];
  }
  KernelRun *run;
  Built built = small_build(&s, &run);
  run((void *[]){x, y, z, once, twice}, 1);
  for (int i = 0; i < 64; i++) EXPECT(once[i] == fmaf(x[i], y[i], z[i]) && twice[i] == 0);
  built_close(&built);
}

/* Short rows that lie side by side, as partial sums do, are gone over by vectors of rows. */
TEST(partial_sums_are_added_in_the_order_of_their_blocks) {
  enum { N = 1003, BLOCKS = 32 };
  Small s;
  small_open(&s, N, BLOCKS);
  small_output(&s, small_reduce(&s, K_SUM, small_input(&s, DT_F32, 1, N)));
  static float partials[BLOCKS][N], sum[N];
  Rng rng = rng_make(1, RNG_TEST, "partials", 0);
  for (int b = 0; b < BLOCKS; b++)
    for (int i = 0; i < N; i++) partials[b][i] = (float)rng_normal(&rng, (uint64_t)(b * N + i)) * (b % 3 ? 1 : 1e6f);
  KernelRun *run;
  Built built = small_build(&s, &run);
  run((void *[]){partials, sum}, 2);
  for (int i = 0; i < N; i++) {
    float due = 0;
    for (int b = 0; b < BLOCKS; b++) due += partials[b][i];
    EXPECT(sum[i] == due);
  }
  built_close(&built);
}

TEST(the_sum_of_a_row_does_not_depend_on_where_it_lies) {
  enum { N = 1000 };
  Small s;
  small_open(&s, 1, N);
  small_output(&s, small_reduce(&s, K_SUM, small_input(&s, DT_F32, N, 1)));
  static float memory[N + 32];
  float first = 0;
  KernelRun *run;
  Built built = small_build(&s, &run);
  Rng rng = rng_make(2, RNG_TEST, "row", 0);
  for (int at = 0; at < 32; at++) {
    float sum;
    for (int i = 0; i < N; i++) memory[at + i] = (float)rng_normal(&rng, (uint64_t)i);
    run((void *[]){memory + at, &sum}, 1);
    if (at == 0) first = sum;
    EXPECT(sum == first);
  }
  built_close(&built);
}

/* Multiples of 1/1024, of which a part of the row has an exact sum in float, and the row one in double. */
TEST(a_long_row_loses_nothing_from_part_to_part) {
  enum { N = 4000000 };
  Small s;
  small_open(&s, 1, N);
  small_output(&s, small_reduce(&s, K_SUM, small_input(&s, DT_F32, N, 1)));
  float *x = xmalloc(sizeof *x * N), sum;
  double due = 0;
  for (int64_t i = 0; i < N; i++) due += x[i] = (float)(i * 2654435761 % 1024) / 1024;
  KernelRun *run;
  Built built = small_build(&s, &run);
  run((void *[]){x, &sum}, 1);
  EXPECT(sum == (float)due);
  free(x);
  built_close(&built);
}

TEST(kernels_of_one_structure_have_one_text) {
  Small s[2];
  Text text[2] = {{0}};
  for (int i = 0; i < 2; i++) {
    small_open(&s[i], 40, 50);
    int a = small_input(&s[i], DT_F32, 50, 1), r = small_reduce(&s[i], K_SUM, a);
    small_output(&s[i], small_op(&s[i], OP_MUL, DT_F32, a, r, -1));
    gen_c(&s[i].kernel, "same", &text[i]);
  }
  EXPECT_TEXT(text[0].at, text[1].at);
  s[1].inputs[0].stride[0] = 60;
  text_close(&text[1]);
  gen_c(&s[1].kernel, "same", &text[1]);
  EXPECT(strcmp(text[0].at, text[1].at));
  text_close(&text[0]);
  text_close(&text[1]);
}

/* A short row's exponentials are kept from the sweep that sums them, a long row's are computed again. */
TEST(softmax_is_right_whether_exponentials_are_kept_or_computed_again) {
  enum { SHORT = 301, LONG = 70001, ROWS = 3 };
  static float x[ROWS * LONG], p[ROWS * LONG];
  for (int columns = SHORT; columns <= LONG; columns += LONG - SHORT) {
    Small s;
    small_open(&s, ROWS, columns);
    int in = small_input(&s, DT_F32, columns, 1);
    int e = small_op(&s, OP_EXP, DT_F32, small_op(&s, OP_SUB, DT_F32, in, small_reduce(&s, K_MAXIMUM, in), -1), -1, -1);
    small_output(&s, small_op(&s, OP_DIV, DT_F32, e, small_reduce(&s, K_SUM, e), -1));
    Text text = {0};
    gen_c(&s.kernel, "k", &text);
    EXPECT(!!strstr(text.at, "k3[j]") == (columns == SHORT));
    text_close(&text);
    Rng rng = rng_make(3, RNG_TEST, "softmax", 0);
    for (int i = 0; i < ROWS * columns; i++) x[i] = (float)(5 * rng_normal(&rng, (uint64_t)i));
    KernelRun *run;
    Built built = small_build(&s, &run);
    run((void *[]){x, p}, 2);
    for (int i = 0; i < ROWS; i++) {
      double sum = 0;
      for (int j = 0; j < columns; j++) sum += exp((double)x[i * columns + j]);
      for (int j = 0; j < columns; j++) EXPECT_NEAR((double)p[i * columns + j], exp((double)x[i * columns + j]) / sum, 1e-5);
    }
    built_close(&built);
  }
}
