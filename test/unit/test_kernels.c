/* SPDX-License-Identifier: Apache-2.0 */
/* Every row of the table of big ops against the plain reference, on random shapes, strides, segments and windows; driven
 * from the table, so a new row is tested by being there. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "src/base/arena.h"
#include "src/base/rng.h"
#include "src/dev/dev.h"
#include "test/check.h"

/* --- random calls ------------------------------------------------------------------------------------------------------- */

static uint64_t drawn; /* numbers drawn so far: a test starts from 0, so it is the same alone or after others */

static uint32_t draw(uint32_t n) {
  Rng rng = rng_make(7, RNG_TEST, "kernels", 0);
  uint32_t words[4];
  rng_words(&rng, drawn++, words);
  return words[0] % n;
}

static float draw_float(void) { return (float)draw(1 << 20) / (1 << 19) - 1; }

#define DRAW(...) ((const int64_t[]){__VA_ARGS__}[draw(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))])

enum { GUARD = 37 }; /* floats before and after a view that nobody may touch; odd, so that no row is aligned */
static const float untouched = -12345.678f;

static size_t view_extent(const BigView *v) {
  size_t n = 1;
  for (int r = 0; r < v->rank; r++) n += (size_t)((v->dim[r] - 1) * v->stride[r]);
  return n;
}

/* Offset of the view's element number i, in row-major order; false past the last. */
static bool view_offset(const BigView *v, size_t i, size_t *offset) {
  *offset = 0;
  for (int r = v->rank - 1; r >= 0; r--) {
    *offset += (i % (size_t)v->dim[r]) * (size_t)v->stride[r];
    i /= (size_t)v->dim[r];
  }
  return i == 0;
}

static float *view_float(const BigView *v, size_t offset) { return (float *)v->at + offset; }

static void view_alloc(BigView *v, bool fill) {
  size_t n = view_extent(v) + 2 * GUARD, at;
  float *base = xmalloc(n * sizeof(float));
  for (size_t i = 0; i < n; i++) base[i] = untouched;
  v->at = base + GUARD;
  for (size_t i = 0; fill && view_offset(v, i, &at); i++) *view_float(v, at) = draw_float();
}

static void view_free(BigView *v) {
  if (v->at) free((float *)v->at - GUARD);
  v->at = NULL;
}

/* Another buffer of the same layout and contents. */
static BigView view_copy(const BigView *v) {
  BigView copy = *v;
  size_t n = view_extent(v) + 2 * GUARD;
  float *base = xmalloc(n * sizeof(float));
  memcpy(base, (float *)v->at - GUARD, n * sizeof(float));
  copy.at = base + GUARD;
  return copy;
}

static BigView vector(int64_t n) { return (BigView){.rank = 1, .dim = {n}, .stride = {1}}; }

static BigView matrix(int64_t rows, int64_t cols, bool transposed) {
  int64_t ld = (transposed ? rows : cols) + draw(3) * draw(20);
  return (BigView){.rank = 2, .dim = {rows, cols}, .stride = {transposed ? 1 : ld, transposed ? ld : 1}};
}

static BigCall draw_matmul(void) {
  int64_t M = DRAW(1, 2, 5, 12, 13, 31, 64, 97, 250), N = DRAW(1, 3, 16, 31, 32, 33, 48, 97, 300),
          K = DRAW(1, 2, 7, 64, 255, 256, 600);
  BigCall call = {.in = {matrix(M, K, draw(2)), matrix(K, N, draw(2))}, .out = {matrix(M, N, false)}, .n = {draw(2)}};
  view_alloc(&call.in[0], true);
  view_alloc(&call.in[1], true);
  view_alloc(&call.out[0], call.n[0]);
  return call;
}

/* (B,S,heads,D) inside rows of width numbers. */
static BigView heads_view(int64_t B, int64_t S, int64_t heads, int64_t D, int64_t width) {
  BigView v = {.rank = 4, .dim = {B, S, heads, D}, .stride = {S * width, width, D, 1}};
  view_alloc(&v, true);
  return v;
}

/* Where each position's segment starts: one segment, or new ones at random. */
static BigView draw_start(int64_t B, int64_t S) {
  BigView v = {.rank = 2, .dim = {B, S}, .stride = {S, 1}};
  uint32_t mean = (uint32_t)DRAW(1, 4, 60, 1 << 30);
  view_alloc(&v, false);
  for (int64_t i = 0, from = 0; i < B * S; i++) {
    if (i % S == 0 || draw(mean) == 0) from = i % S;
    ((int32_t *)v.at)[i] = (int32_t)from;
  }
  return v;
}

static BigCall draw_attention(void) {
  int64_t B = DRAW(1, 2), S = DRAW(1, 2, 7, 12, 40, 95, 96, 97, 200, 300), D = DRAW(1, 5, 16, 20, 32, 40, 64), G = DRAW(1, 2, 3);
  int64_t H = G * DRAW(1, 2, 5), width = (H + 2 * G) * D + draw(2) * 3;
  BigCall call = {
      .in = {heads_view(B, S, H, D, width), heads_view(B, S, G, D, width), heads_view(B, S, G, D, width), draw_start(B, S)},
      .out = {heads_view(B, S, H, D, H * D), {.rank = 3, .dim = {B, H, S}, .stride = {H * S, S, 1}}},
      .n = {DRAW(0, 0, 1, 5, 50, 100)},
      .f = (double)DRAW(1, 4, 12) / 4};
  view_alloc(&call.out[1], false);
  return call;
}

static void run_reference(const char *op, const BigCall *call) {
  const BigImpl *row, *last = NULL;
  for (int i = 0; (row = kernels_row(op, i)); i++) last = row;
  EXPECT(strcmp(last->name, "reference") == 0);
  last->native(NULL)(call);
}

static BigCall draw_attention_grad(void) {
  BigCall f = draw_attention();
  const BigView *q = &f.in[0], *k = &f.in[1];
  int64_t width = q->stride[1];
  run_reference("attention", &f);
  return (BigCall){.in = {heads_view(q->dim[0], q->dim[1], q->dim[2], q->dim[3], q->dim[2] * q->dim[3]), f.in[0], f.in[1], f.in[2],
                          f.out[0], f.out[1], f.in[3]},
                   .out = {heads_view(q->dim[0], q->dim[1], q->dim[2], q->dim[3], width),
                           heads_view(q->dim[0], q->dim[1], k->dim[2], q->dim[3], width),
                           heads_view(q->dim[0], q->dim[1], k->dim[2], q->dim[3], width)},
                   .n = {f.n[0]},
                   .f = f.f};
}

static BigView draw_ids(int64_t T, int64_t V) {
  BigView v = vector(T);
  view_alloc(&v, false);
  for (int64_t t = 0; t < T; t++) ((int32_t *)v.at)[t] = (int32_t)draw((uint32_t)V);
  return v;
}

static BigView sort_ids(const BigView *ids, int64_t V) {
  BigView v = vector(ids->dim[0]);
  view_alloc(&v, false);
  int32_t *order = v.at;
  for (int64_t row = 0; row < V; row++)
    for (int64_t t = 0; t < ids->dim[0]; t++)
      if (((int32_t *)ids->at)[t] == row) *order++ = (int32_t)t;
  return v;
}

static BigCall draw_embedding(void) {
  int64_t T = DRAW(1, 3, 50), V = DRAW(1, 2, 33, 200), C = DRAW(1, 5, 64);
  BigCall call = {.in = {matrix(V, C, false), draw_ids(T, V)}, .out = {matrix(T, C, false)}};
  view_alloc(&call.in[0], true);
  view_alloc(&call.out[0], false);
  return call;
}

static BigCall draw_embedding_grad(void) {
  int64_t T = DRAW(1, 3, 50), V = DRAW(1, 2, 33, 200), C = DRAW(1, 5, 64);
  BigCall call = {.in = {matrix(T, C, false), draw_ids(T, V)}, .out = {matrix(V, C, false)}, .n = {draw(2)}};
  call.in[2] = sort_ids(&call.in[1], V);
  view_alloc(&call.in[0], true);
  view_alloc(&call.out[0], call.n[0]);
  return call;
}

static BigCall draw_route(void) {
  int64_t T = DRAW(1, 3, 50, 200), E = DRAW(1, 2, 4, 8, 60), k = 1 + draw((uint32_t)(E < 20 ? E : 20));
  BigCall call = {.in = {matrix(T, E, draw(2))}, .out = {vector(3 * T * k + E + 1)}, .n = {0, k}};
  view_alloc(&call.in[0], true);
  for (int64_t t = 0; t < T; t++) /* some equal, some infinite or not a number */
    for (int64_t e = 0; e < E; e++) {
      float *at = view_float(&call.in[0], (size_t)(t * call.in[0].stride[0] + e * call.in[0].stride[1]));
      if (draw(3) == 0) *at = ((const float[]){0, -0.0f, 1, -INFINITY, INFINITY, NAN})[draw(6)];
    }
  view_alloc(&call.out[0], false);
  return call;
}

static BigCall draw_take(void) {
  int64_t T = DRAW(1, 3, 50), times = DRAW(1, 2, 3), C = DRAW(1, 5, 64);
  BigCall call = {.in = {matrix(T, C, false), draw_ids(T * times, T * times), draw_ids(T * times, T * times)},
                  .out = {matrix(T * times, C, false)},
                  .n = {0, times}};
  view_alloc(&call.in[0], true);
  view_alloc(&call.out[0], false);
  return call;
}

/* R rows in E groups, some of them empty. */
static BigView draw_offsets(int64_t E, int64_t R) {
  BigView v = vector(E + 1);
  view_alloc(&v, false);
  int32_t *at = v.at;
  at[0] = 0;
  for (int64_t e = 1; e <= E; e++)
    at[e] = e == E ? (int32_t)R : draw(3) ? at[e - 1] + (int32_t)draw((uint32_t)(R - at[e - 1]) + 1) : at[e - 1];
  return v;
}

static BigView contiguous(int64_t rows, int64_t cols) { return (BigView){.rank = 2, .dim = {rows, cols}, .stride = {cols, 1}}; }

static BigCall draw_grouped(void) {
  int64_t R = DRAW(1, 2, 13, 97, 300), K = DRAW(1, 7, 64, 300), N = DRAW(1, 3, 32, 33, 300), E = DRAW(1, 3, 8), plain = draw(2);
  BigCall call = {.in = {matrix(R, K, false), plain ? contiguous(E * K, N) : contiguous(E * N, K), draw_offsets(E, R)},
                  .out = {matrix(R, N, false)},
                  .n = {0, plain}};
  view_alloc(&call.in[0], true);
  view_alloc(&call.in[1], true);
  view_alloc(&call.out[0], false);
  return call;
}

static BigCall draw_grouped_grad(void) {
  int64_t R = DRAW(1, 2, 13, 97, 600), M = DRAW(1, 7, 64, 300), N = DRAW(1, 3, 32, 33, 300), E = DRAW(1, 3, 8);
  BigCall call = {
      .in = {matrix(R, M, false), matrix(R, N, false), draw_offsets(E, R)}, .out = {matrix(E * M, N, false)}, .n = {draw(2)}};
  view_alloc(&call.in[0], true);
  view_alloc(&call.in[1], true);
  view_alloc(&call.out[0], call.n[0]);
  return call;
}

static void call_free(BigCall *call) {
  for (int i = 0; i < BIG_IN; i++) view_free(&call->in[i]);
  for (int i = 0; i < BIG_OUT; i++) view_free(&call->out[i]);
}

/* --- rows --------------------------------------------------------------------------------------------------------------- */

/* Tolerances are of the largest number of the result, or of 1: float32 sums of up to 600 products of numbers below 1 against
 * double ones; attention's weights come from scores of up to some tens, whose rounding the exponential magnifies. */
static const struct Op {
  const char *name;
  BigCall (*draw)(void);
  int cases;
  double tolerance;
} ops[] = {
    {"matmul", draw_matmul, 24, 3e-6},
    {"attention", draw_attention, 16, 1e-5},
    {"attention_grad", draw_attention_grad, 16, 2e-5},
    {"embedding", draw_embedding, 20, 0},
    {"embedding_grad", draw_embedding_grad, 20, 2e-6},
    {"route", draw_route, 24, 0},
    {"take", draw_take, 20, 0},
    {"grouped", draw_grouped, 24, 3e-6},
    {"grouped_grad", draw_grouped_grad, 24, 3e-6},
};
enum { OPS = sizeof ops / sizeof *ops, CASES = 24 };

static Dev *dev;
static DevModule *module; /* of the texts built last */

static Dev *dev_of_test(void) {
  DevOptions options = {.kind = "cpu", .compiler = "cc", .cache = check_folder(), .threads = 2};
  return dev_open(&options);
}

/* The row's functions for n calls: compiled together when the row is text, half of them to a translation unit. */
static bool rows_load(const BigImpl *row, const BigCall *calls, int n, BigRun **runs) {
  Text halves[2] = {{0}, {0}};
  bool any = false;
  for (int i = 0; i < n; i++) {
    char symbol[32];
    snprintf(symbol, sizeof symbol, "call_%d", i);
    runs[i] = NULL;
    if (row->applies && !row->applies(&calls[i])) continue;
    if (row->native && !(runs[i] = row->native(NULL))) return false;
    if (row->native) continue;
    Text *half = &halves[i % 2];
    if (!half->n) text_printf(half, "%s", kernels_prelude());
    row->text(&calls[i], symbol, half);
    any = true;
  }
  if (!any) return true;
  Why why = {""};
  void *image;
  size_t nbytes;
  if (!dev_try_build(dev, (const char *const[]){halves[0].at, halves[1].at}, halves[1].n ? 2 : 1, &image, &nbytes, NULL, &why))
    check_failed(__FILE__, __LINE__, "%s %s: %s", row->op, row->name, why.text);
  module = dev_load(dev, image, nbytes);
  free(image);
  for (int i = 0; i < n; i++) {
    char symbol[32];
    snprintf(symbol, sizeof symbol, "call_%d", i);
    if (!row->applies || row->applies(&calls[i])) runs[i] = (BigRun *)dev_symbol(module, symbol);
  }
  text_close(&halves[0]);
  text_close(&halves[1]);
  return true;
}

static void rows_unload(void) {
  if (module) dev_unload(module);
  module = NULL;
}

/* Runs the call with fresh copies of its outputs, and the workspace that the row asks for, full of NaN. */
static BigCall run_copy(const BigImpl *row, BigRun *run, const BigCall *call) {
  BigCall copy = *call;
  for (int i = 0; i < BIG_OUT; i++)
    if (call->out[i].rank) copy.out[i] = view_copy(&call->out[i]);
  size_t nbytes = row->workspace ? row->workspace(call) : 0, guarded = nbytes + 64;
  copy.workspace = aligned_alloc(64, (guarded + 63) / 64 * 64);
  memset(copy.workspace, 0xff, guarded);
  run(&copy);
  for (size_t i = nbytes; i < guarded; i++)
    if (((unsigned char *)copy.workspace)[i] != 0xff)
      check_failed(__FILE__, __LINE__, "%s %s writes past its workspace", row->op, row->name);
  free(copy.workspace);
  return copy;
}

static void outputs_free(BigCall *call) {
  for (int i = 0; i < BIG_OUT; i++) view_free(&call->out[i]);
}

static void expect_same_bits(const BigImpl *row, const BigCall *a, const BigCall *b) {
  for (int i = 0; i < BIG_OUT && a->out[i].rank; i++)
    if (memcmp((float *)a->out[i].at - GUARD, (float *)b->out[i].at - GUARD,
               sizeof(float) * (view_extent(&a->out[i]) + 2 * GUARD)) != 0)
      check_failed(__FILE__, __LINE__, "%s %s: output %d has other bits", row->op, row->name, i);
}

static void expect_untouched(const BigImpl *row, const BigView *v, const BigView *before) {
  size_t n = view_extent(v), at;
  bool *inside = xmalloc(n);
  memset(inside, 0, n);
  for (size_t i = 0; view_offset(v, i, &at); i++) inside[at] = true;
  for (size_t i = 0; i < n + 2 * GUARD; i++) {
    bool ours = i >= GUARD && i < GUARD + n && inside[i - GUARD];
    const float *now = (float *)v->at - GUARD + i, *was = (float *)before->at - GUARD + i;
    if (!ours && memcmp(now, was, sizeof(float)) != 0)
      check_failed(__FILE__, __LINE__, "%s %s writes beside its output", row->op, row->name);
  }
  free(inside);
}

static void expect_near(const BigImpl *row, int number, const BigView *got, const BigView *want, double tolerance) {
  double worst = 0, most = 1;
  size_t at, where = 0;
  for (size_t i = 0; view_offset(got, i, &at); i++) {
    double error = fabs((double)*view_float(got, at) - *view_float(want, at));
    most = fmax(most, fabs((double)*view_float(want, at)));
    if (!(error <= worst)) worst = error, where = i;
    if (isnan(worst)) break;
  }
  if (!(worst <= tolerance * most))
    check_failed(__FILE__, __LINE__, "%s %s, case %d (%lld %lld %lld %lld): element %zu is off by %g, %g may be", row->op,
                 row->name, number, (long long)got->dim[0], (long long)got->dim[1], (long long)got->dim[2], (long long)got->dim[3],
                 where, worst, tolerance * most);
}

/* All of an op's rows but the reference, each on the same calls. */
static void op_test(const struct Op *op) {
  BigCall calls[CASES], want[CASES];
  BigRun *runs[CASES];
  const BigImpl *row;
  dev = dev_of_test();
  drawn = 0;
  for (int i = 0; i < op->cases; i++) {
    calls[i] = op->draw();
    calls[i].threads = 1 + i % 3;
    want[i] = calls[i];
    for (int o = 0; o < BIG_OUT; o++)
      if (calls[i].out[o].rank) want[i].out[o] = view_copy(&calls[i].out[o]);
    run_reference(op->name, &want[i]);
  }
  for (int r = 0; (row = kernels_row(op->name, r)); r++) {
    if (!rows_load(row, calls, op->cases, runs)) continue;
    for (int i = 0; i < op->cases; i++) {
      if (!runs[i]) continue;
      BigCall got = run_copy(row, runs[i], &calls[i]), again = run_copy(row, runs[i], &calls[i]);
      for (int o = 0; o < BIG_OUT && got.out[o].rank; o++) {
        expect_near(row, i, &got.out[o], &want[i].out[o], op->tolerance);
        expect_untouched(row, &got.out[o], &calls[i].out[o]);
      }
      if (row->deterministic) expect_same_bits(row, &got, &again);
      outputs_free(&got);
      outputs_free(&again);
    }
    rows_unload();
  }
  for (int i = 0; i < op->cases; i++) {
    outputs_free(&want[i]);
    call_free(&calls[i]);
  }
  dev_close(dev);
}

TEST(every_matmul_equals_the_reference) { op_test(&ops[0]); }
TEST(every_attention_equals_the_reference) { op_test(&ops[1]); }
TEST(every_attention_grad_equals_the_reference) { op_test(&ops[2]); }
TEST(every_embedding_equals_the_reference) { op_test(&ops[3]); }
TEST(every_embedding_grad_equals_the_reference) { op_test(&ops[4]); }
TEST(every_route_equals_the_reference) { op_test(&ops[5]); }
TEST(every_take_equals_the_reference) { op_test(&ops[6]); }
TEST(every_grouped_product_equals_the_reference) { op_test(&ops[7]); }
TEST(every_grouped_grad_equals_the_reference) { op_test(&ops[8]); }

/* Threads that share no sum: our own rows give the same bits with any number of them. */
TEST(own_bits_do_not_depend_on_the_number_of_threads) {
  const struct {
    const char *op, *row;
    BigCall (*draw)(void);
  } own[] = {{"matmul", "own", draw_matmul},
             {"attention", "flash", draw_attention},
             {"grouped", "own", draw_grouped},
             {"grouped_grad", "own", draw_grouped_grad}};
  dev = dev_of_test();
  drawn = 0;
  for (int o = 0; o < 4; o++)
    for (int i = 0; i < 3; i++) {
      const BigImpl *row = kernels_row(own[o].op, 0);
      for (int r = 0; strcmp(row->name, own[o].row) != 0; r++) row = kernels_row(own[o].op, r);
      BigCall call = own[o].draw(), calls[3], got[3];
      BigRun *runs[3];
      for (int t = 0; t < 3; t++) calls[t] = call, calls[t].threads = 1 + 2 * t;
      EXPECT(rows_load(row, calls, 3, runs));
      for (int t = 0; t < 3; t++) got[t] = run_copy(row, runs[t], &calls[t]);
      expect_same_bits(row, &got[0], &got[1]);
      expect_same_bits(row, &got[0], &got[2]);
      for (int t = 0; t < 3; t++) outputs_free(&got[t]);
      call_free(&call);
      rows_unload();
    }
  dev_close(dev);
}

/* --- the reference itself ----------------------------------------------------------------------------------------------- */

/* Σ o·weight of the reference's forward. */
static double attention_sum(const BigCall *forward, const BigView *weight) {
  double sum = 0;
  size_t at;
  run_reference("attention", forward);
  for (size_t i = 0; view_offset(weight, i, &at); i++) {
    size_t o;
    view_offset(&forward->out[0], i, &o);
    sum += (double)*view_float(weight, at) * *view_float(&forward->out[0], o);
  }
  return sum;
}

/* Central differences of o, which is rounded to float: with steps of 1/64 they are good to about 1e-4. */
TEST(reference_attention_grad_equals_finite_differences) {
  drawn = 0;
  for (int n = 0; n < 4; n++) {
    BigCall grad = draw_attention_grad();
    while (grad.in[1].dim[1] > 40 || grad.in[1].dim[3] > 20 || grad.in[1].dim[1] < 2)
      call_free(&grad), grad = draw_attention_grad();
    BigCall forward = {.in = {grad.in[1], grad.in[2], grad.in[3], grad.in[6]}, .n = {grad.n[0]}, .f = grad.f};
    forward.out[0] = view_copy(&grad.in[4]);
    forward.out[1] = view_copy(&grad.in[5]);
    run_reference("attention_grad", &grad);
    for (int input = 0; input < 3; input++)
      for (int i = 0; i < 10; i++) {
        const BigView *x = &forward.in[input];
        size_t at, of, elements = (size_t)(x->dim[0] * x->dim[1] * x->dim[2] * x->dim[3]), i_of = draw((uint32_t)elements);
        view_offset(x, i_of, &at);
        view_offset(&grad.out[input], i_of, &of);
        float was = *view_float(x, at), step = 1.0f / 64;
        float above = was + step, below = was - step;
        *view_float(x, at) = above;
        double high = attention_sum(&forward, &grad.in[0]);
        *view_float(x, at) = below;
        double low = attention_sum(&forward, &grad.in[0]);
        *view_float(x, at) = was;
        double want = (high - low) / ((double)above - below), got = *view_float(&grad.out[input], of);
        if (!(fabs(want - got) <= 5e-4 * fmax(1, fabs(want))))
          check_failed(__FILE__, __LINE__, "input %d, element %zu: differences say %g, the gradient %g", input, i_of, want, got);
      }
    outputs_free(&forward);
    call_free(&grad);
  }
}

/* --- libraries that compute wrong --------------------------------------------------------------------------------------- */

static int wrong_runs, wrong_way;

/* Right but for one thing. */
static void run_wrong(const BigCall *call) {
  BigCall own = *call;
  const BigView *c = &call->out[0];
  wrong_runs++;
  if (wrong_way == 1) own.n[0] = !own.n[0]; /* adds when it should not, and the other way round */
  run_reference("matmul", &own);
  float *middle = (float *)c->at + c->dim[0] / 2 * c->stride[0] + c->dim[1] / 2;
  if (wrong_way == 2) *middle = -*middle - 1; /* one element */
  if (wrong_way == 3) *middle = NAN;
  for (int64_t i = 0; wrong_way == 4 && i < c->dim[0]; i++) /* what bfloat16 would keep */
    for (int64_t j = 0; j < c->dim[1]; j++) {
      uint32_t *bits = (uint32_t *)c->at + i * c->stride[0] + j;
      *bits &= 0xffff0000u;
    }
}

static BigRun *wrong_find(Why *why) { return (void)why, run_wrong; }
static const char *wrong_library(void) { return "/proc/self/exe"; }

static const BigImpl wrong = {
    .op = "matmul", .name = "wrong", .deterministic = true, .native = wrong_find, .library = wrong_library};

static BigCall plain_matmul(int64_t M, int64_t N, int64_t K, int64_t add) {
  return (BigCall){.in = {{.rank = 2, .dim = {M, K}, .stride = {K, 1}}, {.rank = 2, .dim = {K, N}, .stride = {N, 1}}},
                   .out = {{.rank = 2, .dim = {M, N}, .stride = {N, 1}}},
                   .n = {add},
                   .threads = 1};
}

TEST(a_library_that_computes_wrong_is_found_out) {
  for (wrong_way = 0; wrong_way <= 4; wrong_way++)
    for (int add = 0; add < 2; add++) {
      Why why = {""};
      BigCall call = plain_matmul(33, 50 + wrong_way, 70, add); /* a call of its own: verdicts are remembered */
      EXPECT(kernels_try_row(&wrong, &call, &why) == (wrong_way == 0));
      EXPECT(wrong_way == 0 || strstr(why.text, "computes wrong"));
    }
}

TEST(a_verdict_is_given_once) {
  Why why = {""};
  BigCall call = plain_matmul(20, 21, 22, 0);
  wrong_way = 2;
  wrong_runs = 0;
  kernels_set_verdicts(check_folder());
  EXPECT(!kernels_try_row(&wrong, &call, NULL));
  EXPECT(!kernels_try_row(&wrong, &call, &why) && strstr(why.text, "computes wrong"));
  EXPECT(wrong_runs == 1);
  call.threads = 2; /* another call */
  EXPECT(!kernels_try_row(&wrong, &call, NULL));
  EXPECT(wrong_runs == 2);
  kernels_set_verdicts(NULL);
}

/* Asks in a process of its own, whose runs of the wrong function are expected to be as many. */
static void expect_runs(const BigCall *call, int way, const char *runs) {
  EXPECT_FAIL(FAIL_INPUT, runs, {
    wrong_way = way;
    wrong_runs = 0;
    bool right = kernels_try_row(&wrong, call, NULL);
    fail(right ? FAIL_BUG : FAIL_INPUT, "%d runs", wrong_runs);
  });
}

/* A file answers for the process that wrote it, even if the function would pass now; a torn one does not answer. */
TEST(a_verdict_outlives_the_process) {
  BigCall call = plain_matmul(20, 21, 23, 0);
  kernels_set_verdicts(check_folder());
  expect_runs(&call, 2, "1 runs");
  expect_runs(&call, 0, "0 runs");
  char command[4200];
  snprintf(command, sizeof command, "for f in %s/verdict-*; do printf computes > $f; done", check_folder());
  EXPECT(system(command) == 0);
  expect_runs(&call, 2, "1 runs");
  kernels_set_verdicts(NULL);
}

TEST(no_such_implementation_names_the_key) {
  BigCall call = plain_matmul(4, 4, 4, 0);
  EXPECT_FAIL(FAIL_INPUT, "cpu.matmul", kernels_choose("matmul", &call, "nonsense"));
  EXPECT(strcmp(kernels_choose("matmul", &call, "reference")->name, "reference") == 0);
}

/* --- the prelude's functions -------------------------------------------------------------------------------------------- */

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double rsqrt(double x) { return 1 / sqrt(x); }

/* |got - want| in units of the last place of want as a float; NaN must be NaN, infinity infinity. */
static double ulps(float got, double want) {
  if (isnan(want)) return isnan(got) ? 0 : HUGE_VAL;
  if ((float)want == got) return 0;
  if (!isfinite(got)) return HUGE_VAL;
  int exponent;
  frexp(want, &exponent);
  return fabs((double)got - want) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

TEST(prelude_functions_are_within_two_ulps) {
  enum { BLOCK = 4096, STEP = 4099 }; /* every 4099th of all floats, infinities and NaNs included, and the next ones */
  static const struct {
    const char *name;
    double (*exact)(double);
  } functions[] = {{"hpt_exp", exp}, {"hpt_log", log}, {"hpt_sigmoid", sigmoid}, {"hpt_tanh", tanh}, {"hpt_rsqrt", rsqrt}};
  Text source = {0};
  Why why = {""};
  void *image;
  size_t nbytes;
  text_printf(&source, "%s", kernels_prelude());
  for (int f = 0; f < 5; f++)
    text_printf(&source, "void test_%s(float *x, long n) {\n#pragma omp simd\n  for (long i = 0; i < n; i++) x[i] = %s(x[i]);\n}\n",
                functions[f].name, functions[f].name);
  dev = dev_of_test();
  if (!dev_try_build(dev, (const char *const *)&source.at, 1, &image, &nbytes, NULL, &why))
    check_failed(__FILE__, __LINE__, "%s", why.text);
  module = dev_load(dev, image, nbytes);
  for (int f = 0; f < 5; f++) {
    char symbol[32];
    snprintf(symbol, sizeof symbol, "test_%s", functions[f].name);
    void (*run)(float *, long) = (void (*)(float *, long))dev_symbol(module, symbol);
    for (uint64_t from = 0; from < 1ull << 32; from += (uint64_t)STEP * BLOCK) {
      float x[BLOCK], y[BLOCK];
      for (uint64_t i = 0; i < BLOCK; i++) {
        uint32_t bits = (uint32_t)(from + i * STEP);
        memcpy(&x[i], &bits, sizeof bits);
      }
      static const float special[] = {0,         -0.0f,      INFINITY,  -INFINITY, NAN,     1, -1,
                                      0x1p-149f, -0x1p-149f, 88.72284f, -103.972f, -104.5f, 89};
      memcpy(x, special, from ? 0 : sizeof special);
      memcpy(y, x, sizeof x);
      run(y, BLOCK);
      for (int i = 0; i < BLOCK; i++)
        if (!(ulps(y[i], functions[f].exact(x[i])) <= 2))
          check_failed(__FILE__, __LINE__, "%s(%a) is %a, not %a", functions[f].name, (double)x[i], (double)y[i],
                       functions[f].exact(x[i]));
    }
  }
  rows_unload();
  text_close(&source);
  free(image);
  dev_close(dev);
}
