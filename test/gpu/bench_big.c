/* SPDX-License-Identifier: Apache-2.0 */
/* Speed of the big ops on one GPU, a JSON line a measurement:
 *   bench_big [SECONDS [attention,7b,1.1b]]
 * Each product and each attention is held for SECONDS (3), all products of a model in turn for ten times that.  Products are
 * those of Llama-2-7B on 8192 tokens and of a 1.1B Llama on 16384; beside what the fixed rule takes stands what cuBLASLt would
 * propose next, each held for SECONDS / 10.  Attention counts the causal half: 2·B·H·S²·D operations forward, 5·B·H·S²·D back.
 * Clock and power are nvidia-smi's to watch; held for seconds, products run at the card's power limit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/cuda/rows.h"
#include "test/gpu/attention_case.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct Work {
  JudgeRun run;
  BigCall call;
  double operations;
} Work;

/* Seconds for all of works once, when they are repeated for so long. */
static double time_held(Work *works, int n, double seconds) {
  double start, spent;
  int rounds = 0, batch = 1;
  for (int i = 0; i < n; i++) judge_run(&works[i].run, &works[i].call);
  judge_wait();
  start = now();
  do {
    for (int r = 0; r < batch; r++)
      for (int i = 0; i < n; i++) judge_run(&works[i].run, &works[i].call);
    rounds += batch;
    judge_wait();
    spent = now() - start;
    batch = spent < 0.2 ? 2 * batch : batch;
  } while (spent < seconds);
  return spent / rounds;
}

static Work prepared(const char *op, const char *name, const BigCall *call, double operations) {
  double start = now();
  Work work = {judge_prepare(judge_row(op, name), call), *call, operations};
  printf("{\"row\": \"%s %s\", \"prepare_s\": %.3f, \"workspace\": %zu%s}\n", op, name, now() - start, work.run.nbytes,
         work.run.plan ? "" : ", \"applies\": false");
  return work;
}

static void report(const char *what, const char *shape, double seconds, double operations) {
  printf("{\"bench\": \"%s\", \"shape\": \"%s\", \"us\": %.1f, \"tflops\": %.1f}\n", what, shape, 1e6 * seconds,
         operations / seconds * 1e-12);
  fflush(stdout);
}

enum { KINDS = 4, LAYERS = 5, MOST_USES = 32 };
typedef struct Model {
  const char *name;
  int64_t tokens;
  struct {
    const char *name;
    int64_t in, out;
    int uses;
  } layers[LAYERS];
} Model;

static const Model models[] = {{"7b",
                                8192,
                                {{"qkv", 4096, 12288, 32},
                                 {"o", 4096, 4096, 32},
                                 {"gate+up", 4096, 22016, 32},
                                 {"down", 11008, 4096, 32},
                                 {"head", 4096, 32000, 1}}},
                               {"1.1b",
                                16384,
                                {{"qkv", 2048, 2560, 22},
                                 {"o", 2048, 2048, 22},
                                 {"gate+up", 2048, 11264, 22},
                                 {"down", 5632, 2048, 22},
                                 {"head", 2048, 32000, 1}}}};
static const char *const kinds[KINDS] = {"forward", "dgrad", "wgrad bf16", "wgrad += f32"};

/* y = x·wᵀ;  dx = dy·w;  dw = dyᵀ·x: w is (out,in), as checkpoints hold it. */
static BigCall product(int kind, const BigView *x, const BigView *y, const BigView *w) {
  BigCall call = {0};
  BigView turned_w = {w->at, {w->dim[1], w->dim[0]}, {1, w->dim[1]}, 2, w->type},
          turned_y = {y->at, {y->dim[1], y->dim[0]}, {1, y->dim[1]}, 2, y->type};
  call.in[0] = kind == 0 ? *x : kind == 1 ? *y : turned_y;
  call.in[1] = kind == 0 ? turned_w : kind == 1 ? *w : *x;
  call.n[0] = kind == 3;
  return call;
}

/* Every algorithm that is proposed, the fixed rule's first. */
static void bench_choices(const BigCall *call, double operations, double seconds) {
  printf("{\"choices\": [");
  for (judge_tools.choice = 0; judge_tools.choice < 8; judge_tools.choice++) {
    char told[GPU_TOLD];
    Work work = {judge_prepare(judge_row("matmul", "cublaslt"), call), *call, operations};
    if (!work.run.plan) break;
    work.run.row->tell(work.run.plan, told);
    printf("%s{\"tflops\": %.0f, \"plan\": \"%s\"}", judge_tools.choice ? ", " : "",
           operations / time_held(&work, 1, seconds) * 1e-12, told);
    judge_release(&work.run);
  }
  judge_tools.choice = 0;
  printf("]}\n");
}

static void bench_products(const Model *model, double seconds) {
  static Work all[LAYERS * KINDS * MOST_USES];
  int n = 0;
  double operations = 0;
  for (int l = 0; l < LAYERS; l++) {
    int64_t in = model->layers[l].in, out = model->layers[l].out;
    char shape[40];
    snprintf(shape, sizeof shape, "%s %s", model->name, model->layers[l].name);
    BigView x = judge_tensor(BIG_BF16, 2, (int64_t[]){model->tokens, in}),
            y = judge_tensor(BIG_BF16, 2, (int64_t[]){model->tokens, out});
    BigView w = judge_tensor(BIG_BF16, 2, (int64_t[]){out, in}), sum = judge_tensor(BIG_F32, 2, w.dim);
    judge_fill(&x, 1, 1), judge_fill(&y, 1, 2), judge_fill(&w, 0.02, 3), judge_fill(&sum, 1, 4);
    BigView out_x = judge_tensor(BIG_BF16, 2, x.dim), out_y = judge_tensor(BIG_BF16, 2, y.dim),
            out_w = judge_tensor(BIG_BF16, 2, w.dim);
    for (int k = 0; k < KINDS; k++) {
      BigCall call = product(k, &x, &y, &w);
      call.out[0] = k == 0 ? out_y : k == 1 ? out_x : k == 2 ? out_w : sum;
      Work work = prepared("matmul", "cublaslt", &call, 2. * (double)model->tokens * (double)in * (double)out);
      report(kinds[k], shape, time_held(&work, 1, seconds), work.operations);
      bench_choices(&call, work.operations, seconds / 10);
      for (int use = 0; k != 2 && use < model->layers[l].uses; use++) operations += work.operations, all[n++] = work;
    }
  }
  report("forward, dgrad, wgrad += f32", model->name, time_held(all, n, 10 * seconds), operations);
  judge_reset();
}

static const AttentionCase cases[] = {{2, 4096, 32, 32, 128, 0, 0, BIG_BF16},    {1, 8192, 32, 8, 128, 0, 0, BIG_BF16},
                                      {4, 2048, 32, 4, 64, 0, 0, BIG_BF16},      {8, 2048, 32, 4, 64, 0, 0, BIG_BF16},
                                      {2, 4096, 32, 32, 128, 1024, 0, BIG_BF16}, {2, 4096, 32, 32, 128, 0, 1000, BIG_BF16}};
enum { CASES = sizeof cases / sizeof *cases };

static void bench_attention(AttentionCase c, double seconds) {
  char shape[80];
  double one = (double)c.B * (double)c.H * (double)c.S * (double)c.S * (double)c.D;
  AttentionCalls calls = attention_calls(c);
  snprintf(shape, sizeof shape, "B%lld S%lld H%lld kv%lld D%lld window %lld segment %d", (long long)c.B, (long long)c.S,
           (long long)c.H, (long long)c.G, (long long)c.D, (long long)c.window, c.segment);
  Work forward = prepared("attention", "cudnn", &calls.forward, 2 * one);
  report("attention cudnn", shape, time_held(&forward, 1, seconds), forward.operations);
  static const char *const names[] = {"cudnn", "cudnn-fast"};
  for (int i = 0; i < 2; i++) {
    Work back = prepared("attention_grad", names[i], &calls.gradient, 5 * one);
    if (!back.run.plan) continue;
    report(i ? "attention_grad cudnn-fast" : "attention_grad cudnn", shape, time_held(&back, 1, seconds), back.operations);
  }
  judge_reset();
}

int main(int argc, char **argv) {
  double seconds = argc > 1 ? atof(argv[1]) : 3;
  const char *what = argc > 2 ? argv[2] : "attention,7b,1.1b";
  if (!judge_open()) return printf("no GPU here\n"), 0;
  struct cudaDeviceProp device;
  GPU_MUST(cudaGetDeviceProperties(&device, 0));
  printf("{\"device\": \"%s\", \"libraries\": \"%s\", \"seconds\": %g}\n", device.name, gpu_libraries(), seconds);
  for (int i = 0; strstr(what, "attention") && i < CASES; i++) bench_attention(cases[i], seconds);
  for (size_t m = 0; m < sizeof models / sizeof *models; m++)
    if (strstr(what, models[m].name)) bench_products(&models[m], seconds);
  return 0;
}
