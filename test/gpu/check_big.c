/* SPDX-License-Identifier: Apache-2.0 */
/* Big ops on a GPU: each row against the plain one, the same bits in every run where a row promises that, and the same in a
 * replayed CUDA graph.  Errors are ‖x - y‖ / ‖y‖ (Euclidean, over a whole output; y: the plain row's).  Attention prints a line
 * a case: the errors of each row, after `by` the row that the fixed rule takes, and why others do not apply. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/rows.h"
#include "src/base/text.h"
#include "test/check.h"
#include "test/gpu/attention_case.h"

static const double TOLERANCE = 1e-2;
static Text line, reasons; /* of the attention case that is being checked */

/* Every output of the call holds NaN. */
static void poison(const BigView *whole) {
  for (const BigView *v = whole; v->rank; v++) judge_poison(v);
}

/* The bits of a call's outputs after one more run. */
static uint64_t bits_after(JudgeRun *run, const BigCall *call, const BigView *whole) {
  uint64_t bits = 0;
  poison(whole);
  judge_run(run, call);
  for (int i = 0; i < BIG_OUT && call->out[i].rank; i++) bits = bits * 31 + judge_bits(&call->out[i]);
  return bits;
}

/* The same from a captured graph. */
static uint64_t bits_replayed(JudgeRun *run, const BigCall *call, const BigView *whole) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  uint64_t bits = 0;
  GPU_MUST(cudaStreamBeginCapture(judge_stream, cudaStreamCaptureModeThreadLocal));
  judge_run(run, call);
  GPU_MUST(cudaStreamEndCapture(judge_stream, &graph));
  GPU_MUST(cudaGraphInstantiate(&exec, graph, 0));
  for (int replay = 0; replay < 2; replay++) {
    poison(whole);
    GPU_MUST(cudaGraphLaunch(exec, judge_stream));
  }
  for (int i = 0; i < BIG_OUT && call->out[i].rank; i++) bits = bits * 31 + judge_bits(&call->out[i]);
  GPU_MUST(cudaGraphExecDestroy(exec));
  GPU_MUST(cudaGraphDestroy(graph));
  return bits;
}

/* A deterministic row's runs, plain and replayed, give the same bits. */
static void expect_same_bits(JudgeRun *run, const BigCall *call, const BigView *whole, int runs) {
  uint64_t first = bits_after(run, call, whole);
  if (run->row->row->deterministic) {
    for (int i = 1; i < runs; i++) EXPECT(bits_after(run, call, whole) == first);
    EXPECT(bits_replayed(run, call, whole) == first);
  } else { /* told, not judged */
    int others = 0;
    for (int i = 1; i < runs; i++) others += bits_after(run, call, whole) != first;
    if (others) text_printf(&line, " (other bits in %d of %d runs)", others, runs - 1);
    bits_replayed(run, call, whole);
  }
}

static const char *describe(AttentionCase c) {
  static char text[120];
  snprintf(text, sizeof text, "%-4s D%-3lld group %lld S%-4lld B%lld H%-2lld window %-4lld segment %-4d",
           c.type == BIG_BF16 ? "bf16" : "f16", (long long)c.D, (long long)(c.H / c.G), (long long)c.S, (long long)c.B,
           (long long)c.H, (long long)c.window, c.segment);
  return text;
}

/* Runs the call's row and compares its outputs with the right ones; whether it applies. */
static bool compare(const GpuImpl *impl, const BigCall *call, const BigView *whole, const BigView right[BIG_OUT], int runs) {
  double error[BIG_OUT] = {0};
  JudgeRun run = judge_prepare(impl, call);
  text_printf(&line, "  %s", impl->row->name);
  if (!run.plan) {
    text_printf(&line, " -");
    text_printf(&reasons, "\n      %s %s: %s", impl->row->op, impl->row->name, run.why.text);
    return false;
  }
  poison(whole);
  judge_run(&run, call);
  for (int i = 0; i < BIG_OUT && call->out[i].rank; i++) {
    error[i] = judge_error(&call->out[i], &right[i]);
    text_printf(&line, " %.0e", error[i]);
  }
  for (int i = 0; i < BIG_OUT; i++) EXPECT(error[i] <= TOLERANCE);
  expect_same_bits(&run, call, whole, runs);
  judge_release(&run);
  return true;
}

static void compare_rows(const char *op, const BigCall *call, const BigView *whole, const BigView right[BIG_OUT], int runs) {
  const GpuImpl *impl, *taken = NULL;
  for (int i = 0; (impl = gpu_impl(op, i)); i++) {
    bool applies = impl->row->plain || compare(impl, call, whole, right, runs);
    if (applies && impl->row->deterministic && !taken) taken = impl;
  }
  text_printf(&line, ", by %s", taken->row->name);
}

static void copy_to(const BigView *to, const BigView *from, int64_t n, size_t size) {
  GPU_MUST(cudaMemcpy(to->at, from->at, (size_t)n * size, cudaMemcpyDeviceToDevice));
}

static void check_attention(AttentionCase c, int runs) {
  AttentionCalls calls = attention_calls(c);
  BigView o = calls.o, lse = calls.lse, right[BIG_OUT] = {0}, outs[3] = {calls.o, calls.lse}, douts[2] = {calls.dqkv};
  text_close(&line);
  text_close(&reasons);
  text_printf(&line, "  %s | o lse:", describe(c));
  text_printf(&reasons, "%s", "");
  JudgeRun plain = judge_prepare(judge_row("attention", "plain"), &calls.forward);
  judge_run(&plain, &calls.forward);
  right[0] = judge_tensor(o.type, 4, o.dim), right[1] = judge_tensor(BIG_F32, 3, lse.dim);
  judge_wait();
  copy_to(&right[0], &o, c.B * c.S * c.H * c.D, 2);
  copy_to(&right[1], &lse, c.B * c.S * c.H, 4);
  judge_release(&plain);
  compare_rows("attention", &calls.forward, outs, right, runs);

  /* The gradient from the plain forward's values. */
  text_printf(&line, " | dq dk dv:");
  calls.gradient.in[4] = right[0], calls.gradient.in[5] = right[1];
  AttentionCalls other = attention_calls(c);
  BigCall judged = calls.gradient;
  for (int i = 0; i < BIG_OUT; i++) judged.out[i] = other.gradient.out[i];
  plain = judge_prepare(judge_row("attention_grad", "plain"), &judged);
  judge_run(&plain, &judged);
  judge_release(&plain);
  compare_rows("attention_grad", &calls.gradient, douts, judged.out, runs);
  printf("%s%s\n", line.at, reasons.at);
  fflush(stdout);
  judge_reset();
}

static bool no_gpu(void) {
  if (judge_open()) return false;
  printf("  no GPU here\n");
  return true;
}

TEST(plain_kernels_compile_for_every_architecture) {
  static const char *const archs[] = {"sm_80", "sm_90a", "sm_100a"};
  for (int i = 0; i < 3; i++) {
    size_t n = 0;
    free(judge_compile(gpu_plain_text(), archs[i], &n));
    EXPECT(n > 0);
  }
}

static const int64_t sizes[] = {64, 80, 128}, groups[] = {1, 4, 8}, lengths[] = {1, 128, 1000, 4096};

/* All head sizes, and groups from…to-1, at one length.  The plain row takes a second at 4096; cuDNN takes one to build a plan with
 * a window or segments. */
static void check_sizes(int64_t S, int from, int to, int64_t window, int segment, int type) {
  for (int d = 0; d < 3; d++)
    for (int g = from; g < to; g++)
      check_attention((AttentionCase){S > 1000 ? 1 : 2, S, 8, 8 / groups[g], sizes[d], window, segment, type}, 3);
}

TEST(attention_of_every_head_size_group_and_length_equals_plain) {
  if (no_gpu()) return;
  for (int s = 0; s < 4; s++) check_sizes(lengths[s], 0, 3, 0, 0, BIG_BF16);
}

TEST(attention_of_segments_and_windows_equals_plain) {
  if (no_gpu()) return;
  check_sizes(1000, 0, 3, 150, 400, BIG_BF16);
  for (int s = 0; s < 3; s++) {
    check_sizes(lengths[s], 1, 2, 0, 100, BIG_BF16);
    check_sizes(lengths[s], 1, 2, 50, 0, BIG_BF16);
  }
  check_attention((AttentionCase){1, 4096, 8, 2, 128, 0, 1000, BIG_BF16}, 3);
  check_attention((AttentionCase){1, 4096, 8, 2, 128, 1024, 0, BIG_BF16}, 3);
  check_attention((AttentionCase){2, 1024, 8, 8, 64, 1, 0, BIG_BF16}, 3);
  check_attention((AttentionCase){2, 1000, 8, 2, 80, 0, 3, BIG_BF16}, 3);
}

TEST(attention_in_f16_equals_plain) {
  if (no_gpu()) return;
  for (int s = 0; s < 3; s++) check_sizes(lengths[s], 1, 2, 0, 0, BIG_F16);
  check_attention((AttentionCase){2, 1000, 8, 2, 128, 150, 400, BIG_F16}, 3);
}

TEST(attention_gives_the_same_bits_in_twenty_runs) {
  if (no_gpu()) return;
  check_attention((AttentionCase){2, 4096, 32, 32, 128, 0, 0, BIG_BF16}, 20);
  check_attention((AttentionCase){4, 2048, 32, 4, 64, 0, 0, BIG_BF16}, 20);
}

TEST(attention_split_by_sequences_and_heads_equals_plain) {
  if (no_gpu()) return;
  check_attention((AttentionCase){3, 4096, 32, 8, 64, 0, 0, BIG_BF16}, 2);
  check_attention((AttentionCase){2, 8192, 32, 8, 64, 0, 1000, BIG_BF16}, 2);
  check_attention((AttentionCase){3, 4099, 32, 8, 64, 0, 0, BIG_BF16}, 2);
}

/* A product of the given operand layouts against plain, on the first and last rows of c. */
typedef struct ProductCase {
  int64_t M, N, K;
  bool a_turned, b_turned, adds;
  int type, result;
  bool biased;
  int shift; /* elements by which the bias lies behind what is aligned */
} ProductCase;

static BigView matrix(int type, int64_t rows, int64_t columns, bool turned) {
  BigView v = judge_tensor(type, 2, turned ? (int64_t[]){columns, rows} : (int64_t[]){rows, columns});
  if (turned) v = (BigView){v.at, {rows, columns}, {1, rows}, 2, type};
  return v;
}

static BigView bias_of(ProductCase p) {
  BigView v = judge_tensor(p.result, 1, (int64_t[]){p.N + p.shift});
  judge_fill(&v, 10, 4);
  v.at = (char *)v.at + p.shift * (p.result == BIG_F32 ? 4 : 2);
  v.dim[0] = p.N;
  return v;
}

static void check_product(ProductCase p) {
  BigCall call = {.n = {p.adds}}, judged;
  const GpuImpl *row;
  call.in[0] = matrix(p.type, p.M, p.K, p.a_turned);
  call.in[1] = matrix(p.type, p.K, p.N, p.b_turned);
  call.out[0] = matrix(p.result, p.M, p.N, false);
  if (p.biased) call.in[2] = bias_of(p);
  judged = call;
  judged.out[0] = matrix(p.result, p.M, p.N, false);
  judge_fill(&call.in[0], 1, 1);
  judge_fill(&call.in[1], 1, 2);
  if (p.adds) judge_fill(&judged.out[0], 20, 3);
  JudgeRun plain = judge_prepare(judge_row("matmul", "plain"), &judged);
  judge_run(&plain, &judged);
  for (int i = 0; (row = gpu_impl("matmul", i)); i++) {
    uint64_t first = 0;
    JudgeRun run = judge_prepare(row, &call);
    EXPECT(run.plan);
    for (int again = 0; again < 20; again++) {
      judge_poison(&call.out[0]);
      if (p.adds) judge_fill(&call.out[0], 20, 3);
      judge_run(&run, &call);
      uint64_t bits = judge_bits(&call.out[0]);
      if (again == 0) first = bits;
      EXPECT(bits == first);
    }
    double error = judge_error(&call.out[0], &judged.out[0]);
    printf("  matmul %s, %lldx%lldx%lld %d%d%d%s types %d %d: %.1e, workspace %zu\n", row->row->name, (long long)p.M,
           (long long)p.N, (long long)p.K, p.a_turned, p.b_turned, p.adds, p.biased ? " biased" : "", p.type, p.result, error,
           run.nbytes);
    EXPECT(error <= (p.result == BIG_F32 ? 1e-5 : TOLERANCE));
    judge_release(&run);
  }
  judge_release(&plain);
  judge_reset();
}

TEST(products_of_every_layout_and_type_equal_plain) {
  static const int types[][2] = {
      {BIG_BF16, BIG_BF16}, {BIG_BF16, BIG_F32}, {BIG_F16, BIG_F16}, {BIG_F16, BIG_F32}, {BIG_F32, BIG_F32}};
  if (no_gpu()) return;
  for (int t = 0; t < 5; t++)
    for (int layout = 0; layout < 8; layout++)
      check_product((ProductCase){200, 328, 504, layout & 1, layout & 2, layout & 4, types[t][0], types[t][1]});
}

/* As models have them: (T,K) times (N,K) turned or (K,N), into the operands' type; the bias is somewhere in its unit. */
TEST(products_with_a_bias_equal_plain) {
  static const int types[] = {BIG_BF16, BIG_F16, BIG_F32};
  if (no_gpu()) return;
  for (int t = 0; t < 3; t++)
    for (int turned = 0; turned < 2; turned++)
      for (int shift = 0; shift < 9; shift += 4) {
        check_product((ProductCase){200, 328, 504, false, turned, false, types[t], types[t], true, shift});
        check_product((ProductCase){1024, 2304, 768, false, turned, false, types[t], types[t], true, shift});
      }
  check_product((ProductCase){77, 333, 129, true, false, true, BIG_F32, BIG_F32, true, 1});
  check_product((ProductCase){1, 1, 1, false, false, false, BIG_BF16, BIG_BF16, true, 0});
}

TEST(products_of_odd_and_tiny_shapes_equal_plain) {
  if (no_gpu()) return;
  check_product((ProductCase){1, 1, 1, false, false, false, BIG_BF16, BIG_F32});
  check_product((ProductCase){1, 4096, 300, false, true, false, BIG_BF16, BIG_BF16});
  check_product((ProductCase){77, 333, 129, true, false, true, BIG_BF16, BIG_F32});
  check_product((ProductCase){1000, 1, 513, true, true, false, BIG_F32, BIG_F32});
  check_product((ProductCase){256, 256, 8192, true, false, true, BIG_BF16, BIG_F32});
  check_product((ProductCase){1024, 1024, 4096, false, true, false, BIG_BF16, BIG_BF16});
}

TEST(embedding_and_its_gradient_are_the_rows_and_their_sums) {
  enum { T = 6, V = 5, C = 3 };
  static const int32_t ids[T] = {4, 1, 4, 0, 1, 4}, order[T] = {3, 1, 4, 0, 2, 5};
  float table[V * C], out[T * C], dtable[V * C];
  if (no_gpu()) return;
  BigCall call = {0}, grad = {.n = {1}};
  for (int i = 0; i < V * C; i++) table[i] = (float)i;
  call.in[0] = judge_tensor(BIG_F32, 2, (int64_t[]){V, C});
  call.in[1] = judge_tensor(BIG_I32, 1, (int64_t[]){T});
  call.out[0] = judge_tensor(BIG_F32, 2, (int64_t[]){T, C});
  GPU_MUST(cudaMemcpy(call.in[0].at, table, sizeof table, cudaMemcpyHostToDevice));
  judge_put(&call.in[1], ids);
  JudgeRun run = judge_prepare(judge_row("embedding", "plain"), &call);
  judge_run(&run, &call);
  judge_wait();
  GPU_MUST(cudaMemcpy(out, call.out[0].at, sizeof out, cudaMemcpyDeviceToHost));
  for (int t = 0; t < T; t++)
    for (int c = 0; c < C; c++) EXPECT(out[t * C + c] == table[ids[t] * C + c]);
  judge_release(&run);

  grad.in[0] = call.out[0], grad.in[1] = call.in[1], grad.out[0] = call.in[0];
  grad.in[2] = judge_tensor(BIG_I32, 1, (int64_t[]){T});
  judge_put(&grad.in[2], order);
  run = judge_prepare(judge_row("embedding_grad", "plain"), &grad);
  judge_run(&run, &grad);
  judge_wait();
  GPU_MUST(cudaMemcpy(dtable, grad.out[0].at, sizeof dtable, cudaMemcpyDeviceToHost));
  for (int v = 0; v < V; v++)
    for (int c = 0; c < C; c++) {
      int uses = 0;
      for (int t = 0; t < T; t++) uses += ids[t] == v;
      EXPECT(dtable[v * C + c] == table[v * C + c] * (float)(1 + uses));
    }
  judge_release(&run);
  judge_reset();
}
