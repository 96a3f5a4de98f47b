/* SPDX-License-Identifier: Apache-2.0 */
/* The big ops of mixtures of experts on a GPU: routing and rows against the CPU's reference, element by element; grouped products
 * against the plain row, whose own results are the CPU's, and the same bits in every run. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/rows.h"
#include "kernels/kernels.h"
#include "src/base/arena.h"
#include "src/base/rng.h"
#include "test/check.h"
#include "test/gpu/judge.h"

static bool no_gpu(void) {
  if (judge_open()) return false;
  printf("  no GPU here\n");
  return true;
}

static uint32_t draw(uint32_t n) {
  static uint64_t drawn;
  Rng rng = rng_make(9, RNG_TEST, "experts", 0);
  uint32_t words[4];
  rng_words(&rng, drawn++, words);
  return words[0] % n;
}

static BigView host_view(int type, int rank, const int64_t *dim) {
  BigView v = judge_shape(type, rank, dim);
  v.at = xmalloc((size_t)(v.dim[0] * v.stride[0]) * 4);
  return v;
}

static void copy_in(const BigView *to, const BigView *from, int64_t n) {
  judge_wait();
  GPU_MUST(cudaMemcpy(to->at, from->at, (size_t)n * 4, cudaMemcpyHostToDevice));
}

static void copy_out(const BigView *to, const BigView *from, int64_t n) {
  judge_wait();
  GPU_MUST(cudaMemcpy(to->at, from->at, (size_t)n * 4, cudaMemcpyDeviceToHost));
}

static void run_row(const char *op, const char *name, const BigCall *call) {
  JudgeRun run = judge_prepare(judge_row(op, name), call);
  if (!run.plan) check_failed(__FILE__, __LINE__, "%s %s: %s", op, name, run.why.text);
  judge_run(&run, call);
  judge_wait();
  judge_release(&run);
}

static void run_reference(const char *op, const BigCall *call) {
  const BigImpl *row, *last = NULL;
  for (int i = 0; (row = kernels_row(op, i)); i++) last = row;
  last->native(NULL)(call);
}

static void check_route(int64_t T, int64_t E, int64_t k) {
  int64_t n = 3 * T * k + E + 1;
  BigCall host = {.in = {host_view(BIG_F32, 2, (int64_t[]){T, E})}, .out = {host_view(BIG_I32, 1, &n)}, .n = {0, k}}, call = host;
  call.in[0] = judge_tensor(BIG_F32, 2, (int64_t[]){T, E}), call.out[0] = judge_tensor(BIG_I32, 1, &n);
  for (int64_t i = 0; i < T * E; i++) ((float *)host.in[0].at)[i] = draw(50) ? (float)draw(20) / 7 : NAN; /* many are equal */
  copy_in(&call.in[0], &host.in[0], T * E);
  run_row("route", "plain", &call);
  run_reference("route", &host);
  int32_t *got = xmalloc((size_t)n * 4);
  copy_out(&(BigView){.at = got}, &call.out[0], n);
  EXPECT(!memcmp(got, host.out[0].at, (size_t)n * 4));
  free(got), free(host.in[0].at), free(host.out[0].at);
  judge_reset();
}

TEST(routes_are_the_references) {
  if (no_gpu()) return;
  check_route(1, 1, 1);
  check_route(1, 8, 2);
  check_route(129, 8, 2);
  check_route(1000, 60, 6);
  check_route(8192, 8, 2);
}

/* A permutation of n by a shuffle. */
static void shuffle(int32_t *at, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    int64_t j = draw((uint32_t)i + 1);
    at[i] = at[j];
    at[j] = (int32_t)i;
  }
}

static void check_take(int64_t T, int64_t times, int64_t C) {
  int64_t n = T * times;
  BigCall host = {.in = {host_view(BIG_F32, 2, (int64_t[]){T, C}), host_view(BIG_I32, 1, &n)},
                  .out = {host_view(BIG_F32, 2, (int64_t[]){n, C})},
                  .n = {0, times}},
          call = host;
  for (int64_t i = 0; i < T * C; i++) ((float *)host.in[0].at)[i] = (float)i;
  shuffle(host.in[1].at, n);
  call.in[0] = judge_tensor(BIG_F32, 2, (int64_t[]){T, C}), call.in[1] = judge_tensor(BIG_I32, 1, &n);
  call.in[2] = call.in[1], call.out[0] = judge_tensor(BIG_F32, 2, (int64_t[]){n, C});
  copy_in(&call.in[0], &host.in[0], T * C);
  copy_in(&call.in[1], &host.in[1], n);
  run_row("take", "plain", &call);
  run_reference("take", &host);
  float *got = xmalloc((size_t)(n * C) * 4);
  copy_out(&(BigView){.at = got}, &call.out[0], n * C);
  EXPECT(!memcmp(got, host.out[0].at, (size_t)(n * C) * 4));
  free(got), free(host.in[0].at), free(host.in[1].at), free(host.out[0].at);
  judge_reset();
}

TEST(rows_taken_are_the_references) {
  if (no_gpu()) return;
  check_take(1, 1, 1);
  check_take(7, 3, 5);
  check_take(100, 2, 64);
  check_take(333, 1, 1000);
}

/* E groups of R rows, some of them empty. */
static void draw_offsets(const BigView *v, int64_t E, int64_t R) {
  int32_t *at = xmalloc(sizeof *at * (size_t)(E + 1));
  at[0] = 0;
  for (int64_t e = 1; e < E; e++) at[e] = at[e - 1] + (draw(3) ? (int32_t)draw((uint32_t)(2 * R / E + 1)) : 0);
  for (int64_t e = 1; e < E; e++) at[e] = at[e] < R ? at[e] : (int32_t)R;
  at[E] = (int32_t)R;
  judge_put(v, at);
  free(at);
}

/* kind 0: x·wᵀ; 1: x·w; 2: the weights' gradient, 3: which adds. */
static void check_product(int kind, int64_t R, int64_t K, int64_t N, int64_t E, int type, int result) {
  const char *op = kind < 2 ? "grouped" : "grouped_grad";
  int64_t w[] = {kind == 0 ? E * N : kind == 1 ? E * K : R, kind == 0 ? K : N}, out[] = {kind < 2 ? R : E * K, N};
  BigCall call = {.n = {kind == 3, kind == 1}}, judged;
  int64_t edges = E + 1;
  call.in[0] = judge_tensor(type, 2, (int64_t[]){R, K});
  call.in[1] = judge_tensor(type, 2, w);
  call.in[2] = judge_tensor(BIG_I32, 1, &edges);
  call.out[0] = judge_tensor(result, 2, out);
  judge_fill(&call.in[0], 1, 1);
  judge_fill(&call.in[1], 1, 2);
  draw_offsets(&call.in[2], E, R);
  judged = call;
  judged.out[0] = judge_tensor(result, 2, out);
  if (kind == 3) judge_fill(&judged.out[0], 20, 3);
  run_row(op, "plain", &judged);
  const GpuImpl *row;
  for (int i = 0; (row = gpu_impl(op, i)); i++) {
    uint64_t first = 0;
    JudgeRun run = judge_prepare(row, &call);
    if (!run.plan) printf("  %s %s: %s\n", op, row->row->name, run.why.text);
    if (!run.plan) continue;
    for (int again = 0; again < 5; again++) {
      judge_poison(&call.out[0]);
      if (kind == 3) judge_fill(&call.out[0], 20, 3);
      judge_run(&run, &call);
      uint64_t bits = judge_bits(&call.out[0]);
      if (again == 0) first = bits;
      EXPECT(bits == first);
    }
    double error = judge_error(&call.out[0], &judged.out[0]);
    printf("  %s %s, kind %d, %lldx%lldx%lld of %lld, types %d %d: %.1e\n", op, row->row->name, kind, (long long)R, (long long)K,
           (long long)N, (long long)E, type, result, error);
    EXPECT(error <= (result == BIG_F32 ? 1e-5 : 1e-2));
    judge_release(&run);
  }
  judge_reset();
}

TEST(grouped_products_equal_plain) {
  if (no_gpu()) return;
  for (int kind = 0; kind < 4; kind++) {
    for (int type = BIG_BF16; type <= BIG_F16; type++) {
      check_product(kind, 300, 104, 200, 5, type, kind < 2 ? type : BIG_F32);
      check_product(kind, 1000, 512, 264, 8, type, type);
    }
    check_product(kind, 1, 8, 8, 1, BIG_BF16, BIG_BF16);
    check_product(kind, 77, 33, 13, 3, BIG_BF16, BIG_BF16); /* plain alone */
    check_product(kind, 300, 104, 200, 5, BIG_F32, BIG_F32);
  }
}

/* As Mixtral has them; printed, not judged. */
TEST(speed_of_grouped_products_is_told) {
  if (no_gpu()) return;
  enum { R = 16384, C = 4096, F = 14336, E = 8, RUNS = 5 };
  const int64_t edges = E + 1;
  for (int kind = 0; kind < 3; kind++) {
    BigCall call = {.n = {0, kind == 1}};
    call.in[0] = judge_tensor(BIG_BF16, 2, (int64_t[]){R, C});
    call.in[1] = judge_tensor(BIG_BF16, 2,
                              kind == 0   ? (int64_t[]){E * F, C}
                              : kind == 1 ? (int64_t[]){E * C, F}
                                          : (int64_t[]){R, F});
    call.in[2] = judge_tensor(BIG_I32, 1, &edges);
    call.out[0] = judge_tensor(kind < 2 ? BIG_BF16 : BIG_F32, 2, kind < 2 ? (int64_t[]){R, F} : (int64_t[]){E * C, F});
    judge_fill(&call.in[0], 1, 1);
    judge_fill(&call.in[1], 1, 2);
    draw_offsets(&call.in[2], E, R);
    JudgeRun run = judge_prepare(judge_row(kind < 2 ? "grouped" : "grouped_grad", "mma"), &call);
    EXPECT(run.plan);
    cudaEvent_t from, to;
    float ms;
    GPU_MUST(cudaEventCreate(&from));
    GPU_MUST(cudaEventCreate(&to));
    judge_run(&run, &call);
    GPU_MUST(cudaEventRecord(from, judge_stream));
    for (int i = 0; i < RUNS; i++) judge_run(&run, &call);
    GPU_MUST(cudaEventRecord(to, judge_stream));
    judge_wait();
    GPU_MUST(cudaEventElapsedTime(&ms, from, to));
    printf("  %s: %.0f TFLOP/s\n", kind == 0 ? "x·wᵀ" : kind == 1 ? "x·w" : "aᵀ·b", 2.0 * R * C * F * RUNS / ms / 1e9);
    GPU_MUST(cudaEventDestroy(from));
    GPU_MUST(cudaEventDestroy(to));
    judge_release(&run);
    judge_reset();
  }
}
