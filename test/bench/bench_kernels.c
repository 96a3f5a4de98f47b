/* SPDX-License-Identifier: Apache-2.0 */
/* GFLOP/s of every implementation of the big ops at the demo model's shapes: bench_kernels [OP] [THREADS]
 * Best of several runs after one to warm up; what was asked for through OPENBLAS_* or BLIS_* would count, so unset it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "src/base/arena.h"
#include "src/base/clock.h"
#include "src/dev/dev.h"

enum { RUNS = 15 };

static Dev *dev;
static int threads;

static BigView matrix(int64_t rows, int64_t cols, bool transposed) {
  BigView v = {.rank = 2, .dim = {rows, cols}, .stride = {transposed ? 1 : cols, transposed ? rows : 1}};
  return v;
}

static BigView packed(int64_t B, int64_t S, int64_t heads, int64_t D, int64_t width) {
  return (BigView){.rank = 4, .dim = {B, S, heads, D}, .stride = {S * width, width, D, 1}};
}

static void view_alloc(BigView *v) {
  size_t n = 1;
  for (int r = 0; r < v->rank; r++) n += (size_t)((v->dim[r] - 1) * v->stride[r]);
  float *at = dev_alloc(dev, n * sizeof(float), "operand");
  for (size_t i = 0; i < n; i++) at[i] = (float)((i * 2654435761u) % 1024) / 512 - 1;
  v->at = at;
}

static void view_free(BigView *v) {
  size_t n = 1;
  for (int r = 0; r < v->rank; r++) n += (size_t)((v->dim[r] - 1) * v->stride[r]);
  dev_free(dev, v->at, n * sizeof(float));
}

/* A row's function; text is compiled, and its module stays loaded. */
static BigRun *row_load(const BigImpl *row, const BigCall *call, Why *why) {
  if (row->native) return row->native(why);
  Text source = {0};
  text_printf(&source, "%s", kernels_prelude());
  row->text(call, "bench", &source);
  void *image;
  size_t nbytes;
  bool built = dev_try_build(dev, (const char *const *)&source.at, 1, &image, &nbytes, NULL, why);
  text_close(&source);
  if (!built) return NULL;
  BigRun *run = (BigRun *)dev_symbol(dev_load(dev, image, nbytes), "bench");
  free(image);
  return run;
}

static void row_time(const BigImpl *row, BigCall *call, double flops) {
  Why why = {""};
  if (strcmp(row->name, "reference") == 0) return;
  BigRun *run = kernels_try_row(row, call, &why) ? row_load(row, call, &why) : NULL;
  if (!run) {
    printf("  %s: %s", row->name, why.text);
    return;
  }
  size_t nbytes = row->workspace ? row->workspace(call) : 0;
  call->workspace = nbytes ? dev_alloc(dev, nbytes, "workspace") : NULL;
  double best = 1e30;
  if (strcmp(row->op, "matmul") == 0 && !kernels_try_check(call, run, &why)) printf("  (%s)", why.text);
  for (int i = 0; i < RUNS; i++) {
    double t = clock_seconds();
    run(call);
    t = clock_seconds() - t;
    if (i && t < best) best = t;
  }
  if (nbytes) dev_free(dev, call->workspace, nbytes);
  printf("  %s %.1f", row->name, flops / best / 1e9);
  fflush(stdout);
}

static void call_time(const char *op, BigCall *call, const char *what, double flops) {
  const BigImpl *row;
  call->threads = threads;
  printf("%-34s", what);
  for (int i = 0; i < BIG_IN; i++)
    if (call->in[i].rank && !call->in[i].at) view_alloc(&call->in[i]);
  for (int i = 0; i < BIG_OUT; i++)
    if (call->out[i].rank) view_alloc(&call->out[i]);
  for (int i = 0; (row = kernels_row(op, i)); i++) row_time(row, call, flops);
  for (int i = 0; i < BIG_IN; i++)
    if (call->in[i].rank) view_free(&call->in[i]);
  for (int i = 0; i < BIG_OUT; i++)
    if (call->out[i].rank) view_free(&call->out[i]);
  printf("\n");
}

/* The three products of a linear layer of T tokens, from K to N. */
static void linear_time(int64_t T, int64_t K, int64_t N) {
  char what[64];
  double flops = 2.0 * (double)T * (double)K * (double)N;
  BigCall forward = {.in = {matrix(T, K, false), matrix(K, N, true)}, .out = {matrix(T, N, false)}};
  BigCall dgrad = {.in = {matrix(T, N, false), matrix(N, K, false)}, .out = {matrix(T, K, false)}};
  BigCall wgrad = {.in = {matrix(N, T, true), matrix(T, K, false)}, .out = {matrix(N, K, false)}, .n = {1}};
  snprintf(what, sizeof what, "T %lld, %lld to %lld: forward", (long long)T, (long long)K, (long long)N);
  call_time("matmul", &forward, what, flops);
  call_time("matmul", &dgrad, "  gradient of the input", flops);
  call_time("matmul", &wgrad, "  gradient of the weight", flops);
}

static void bench_matmul(void) {
  static const int64_t shapes[][2] = {{256, 256}, {256, 512}, {256, 768}, {256, 1376}, {688, 256}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) linear_time(2048, shapes[i][0], shapes[i][1]);
  for (int64_t N = 64; N <= 320; N += 128) linear_time(192, 64, N);
}

static void attention_time(int64_t B, int64_t S, int64_t H, int64_t G, int64_t D) {
  char what[64];
  int64_t width = (H + 2 * G) * D;
  BigView q = packed(B, S, H, D, width), kv = packed(B, S, G, D, width), o = packed(B, S, H, D, H * D);
  BigView lse = {.rank = 3, .dim = {B, H, S}, .stride = {H * S, S, 1}}, start = {.rank = 2, .dim = {B, S}, .stride = {S, 1}};
  double flops = 4.0 * (double)(B * H * D) * (double)S * (double)(S + 1) / 2;
  BigCall forward = {.in = {q, kv, kv, start}, .out = {o, lse}, .f = 0.2};
  BigCall grad = {.in = {o, q, kv, kv, o, lse, start}, .out = {q, kv, kv}, .f = 0.2};
  start.at = forward.in[3].at = grad.in[6].at = NULL;
  snprintf(what, sizeof what, "B%lld S%lld H%lld G%lld D%lld: forward", (long long)B, (long long)S, (long long)H, (long long)G,
           (long long)D);
  forward.in[3].at = dev_alloc(dev, (size_t)(B * S) * sizeof(int32_t), "start");
  grad.in[6].at = dev_alloc(dev, (size_t)(B * S) * sizeof(int32_t), "start");
  call_time("attention", &forward, what, flops);
  call_time("attention_grad", &grad, "  backward", 2.5 * flops);
}

static void bench_attention(void) {
  attention_time(8, 256, 8, 8, 32);
  attention_time(8, 256, 8, 2, 32);
  attention_time(8, 256, 4, 4, 64);
  attention_time(2, 2048, 8, 8, 64);
  attention_time(1, 2048, 8, 2, 128);
  attention_time(1, 2048, 1, 1, 128);
}

int main(int argc, char **argv) {
  const char *op = argc > 1 ? argv[1] : "all";
  threads = argc > 2 ? atoi(argv[2]) : 1;
  DevOptions options = {.kind = "cpu", .compiler = "cc", .threads = threads};
  dev = dev_open(&options);
  printf("%s; %d threads; GFLOP/s (causal attention: only what is seen counts; its backward as 2.5 forwards)\n", dev_describe(dev),
         threads);
  if (strcmp(op, "attention") != 0) bench_matmul();
  if (strcmp(op, "matmul") != 0) bench_attention();
  dev_close(dev);
  return 0;
}
