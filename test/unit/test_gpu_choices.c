/* SPDX-License-Identifier: Apache-2.0 */
/* How big ops of GPUs are chosen, by the fixed rule, by measurement, by record and by key, on a GPU that is not there. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/dev/back.h"
#include "src/exec/gpu.h"
#include "test/check.h"
#include "test/unit/fake_cuda.h"

enum { M = 4, N = 6, K = 8 };

static Fake *fake;

static void record(DevEvent *event) { event->seconds = fake->now; }

static Fake *fake_open(void) {
  char path[PATH_MAX + 32];
  if (!fake) {
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
    CHECK(n > 0);
    path[n] = 0;
    strcpy(strrchr(path, '/'), "/fake_cuda.so");
    cuda_module_find(path);
    fake = dev_cuda_symbol("fake");
  }
  *fake = (Fake){.plans = 3, .seconds = {4e-4, 2e-4, 3e-4}};
  return fake;
}

/* Three products, the first two alike but for addresses, and their memory. */
typedef struct Case {
  Job job;
  Choices choices;
  Bound bounds[3];
  DevOps ops; /* the cpu's, but for time */
  float memory[1024];
} Case;

static BigView view(float *at, int64_t rows, int64_t columns) {
  return (BigView){.at = at, .dim = {rows, columns}, .stride = {columns, 1}, .rank = 2, .type = BIG_F32};
}

static Case *case_open(Choices choices) {
  Arena *arena = arena_open();
  Case *c = arena_new(arena, Case);
  float *at = (float *)(((uintptr_t)c->memory + 255) / 256 * 256);
  c->choices = choices;
  c->job = (Job){.arena = arena, .choices = &c->choices, .comm = comm_self()};
  c->job.dev = dev_open(&(DevOptions){.kind = "cpu", .compiler = "cc", .cache = "", .threads = 1});
  c->ops = *c->job.dev->ops;
  c->ops.event_record = record;
  c->job.dev->ops = &c->ops;
  for (int i = 0; i < 3; i++) {
    Step step = {.kind = STEP_BIG, .op = OP_MATMUL, .nin = 2, .nout = 1};
    int64_t rows = i < 2 ? M : 2 * M;
    BigCall *call = &c->bounds[i].call;
    call->in[0] = view(at, rows, K), call->in[1] = view(at + 64, K, N), call->out[0] = view(at + 128, rows, N);
    at += i == 0 ? 256 : 0;
    gpu_add(&c->job, &step, &c->bounds[i], 1 << 10);
  }
  return c;
}

static void case_choose(Case *c) {
  gpu_prepare(&c->job);
  c->job.module = (DevModule *)&c->job; /* as when the code is there */
  gpu_settle(&c->job);
  for (int i = 0; i < 3; i++) gpu_bind(&c->bounds[i]);
}

static void case_close(Case *c) {
  gpu_release(&c->job);
  text_close(&c->job.notes);
  dev_close(c->job.dev);
  comm_close(c->job.comm);
  arena_close(c->job.arena);
}

TEST(calls_that_differ_in_addresses_alone_share_a_plan) {
  fake_open();
  Case *c = case_open((Choices){.attention = "auto"});
  case_choose(c);
  EXPECT(c->job.uses.n == 2 && fake->prepared == 2);
  EXPECT(c->bounds[0].plan == c->bounds[1].plan && c->bounds[0].plan != c->bounds[2].plan);
  case_close(c);
  EXPECT(fake->released == fake->prepared);
}

TEST(the_fixed_rule_takes_the_first_plan_and_measures_nothing) {
  fake_open();
  Case *c = case_open((Choices){.attention = "auto"});
  case_choose(c);
  EXPECT_TEXT(gpu_told(&c->bounds[0]), "cublaslt:algo0");
  EXPECT(fake->ran == 0 && !c->job.tuned);
  case_close(c);
}

TEST(plain_is_left_where_no_library_applies) {
  fake_open();
  fake->plans = 0;
  Case *c = case_open((Choices){.attention = "auto"});
  case_choose(c);
  EXPECT_TEXT(gpu_told(&c->bounds[2]), "plain");
  case_close(c);
}

static const char key[] = "gpu FAKE_1 matmul f32:8x8/8,1@256 f32:8x6/6,1@256 to f32:8x6/6,1@256 n0 f0 workspace 1024 ";

TEST(measuring_takes_the_fastest_records_it_and_leaves_memory_zero) {
  fake_open();
  Case *c = case_open((Choices){.tune = true});
  case_choose(c);
  EXPECT_TEXT(gpu_told(&c->bounds[0]), "cublaslt:algo1");
  EXPECT(strstr(c->job.tuned, key) && strstr(strstr(c->job.tuned, key), "cublaslt:algo1\n"));
  for (size_t i = 0; i < sizeof c->memory / sizeof *c->memory; i++) EXPECT(c->memory[i] == 0);
  case_close(c);
  EXPECT(fake->released == fake->prepared);
}

TEST(a_gain_within_noise_is_none) {
  fake_open();
  fake->seconds[1] = fake->seconds[2] = 3.99e-4;
  Case *c = case_open((Choices){.tune = true});
  case_choose(c);
  EXPECT_TEXT(gpu_told(&c->bounds[2]), "cublaslt:algo0");
  case_close(c);
}

/* A record of the third product alone. */
static Choices recorded(bool tune, const char *plan) {
  static char text[512];
  snprintf(text, sizeof text, "matmul 1x1x1 a1,1 b1,1 c1 threads 1 own\n%s%s\n", key, plan);
  return (Choices){.tune = tune, .tuned = text};
}

TEST(a_recorded_plan_is_taken_and_stays_recorded) {
  for (int tune = 0; tune < 2; tune++) {
    fake_open();
    Case *c = case_open(recorded(tune, "cublaslt:algo2"));
    case_choose(c);
    EXPECT_TEXT(gpu_told(&c->bounds[2]), "cublaslt:algo2");
    EXPECT_TEXT(gpu_told(&c->bounds[0]), tune ? "cublaslt:algo1" : "cublaslt:algo0");
    EXPECT(strstr(c->job.tuned, "cublaslt:algo2\n") && !c->job.notes.n);
    case_close(c);
  }
}

TEST(plain_is_recorded_too) {
  fake_open();
  Case *c = case_open(recorded(false, "plain"));
  case_choose(c);
  EXPECT_TEXT(gpu_told(&c->bounds[2]), "plain");
  case_close(c);
}

TEST(a_plan_that_the_library_no_longer_has_is_an_error_or_measured_anew) {
  fake_open()->first = 10;
  EXPECT_FAIL(FAIL_MACHINE, "wants cublaslt:algo2 for", {
    Case *c = case_open(recorded(false, "cublaslt:algo2"));
    case_choose(c);
  });
  Case *c = case_open(recorded(true, "cublaslt:algo2"));
  case_choose(c);
  EXPECT_TEXT(gpu_told(&c->bounds[2]), "cublaslt:algo11");
  EXPECT(strstr(c->job.notes.at, "cublaslt:algo2 of matmul is not to be had here"));
  case_close(c);
}

TEST(records_of_other_gpus_do_not_count) {
  fake_open();
  Choices choices = recorded(false, "cublaslt:algo2");
  ((char *)strstr(choices.tuned, "FAKE_1"))[5] = '2';
  Case *c = case_open(choices);
  case_choose(c);
  EXPECT_TEXT(gpu_told(&c->bounds[2]), "cublaslt:algo0");
  case_close(c);
}

/* --- gpu.attention -------------------------------------------------------------------------------------------------------- */

static bool allows(const char *attention, int row) { return gpu_allowed(&gpu_rows[row], &(Choices){.attention = attention}); }

TEST(attention_is_what_the_key_allows) {
  EXPECT(allows("auto", GPU_ATTENTION_CUDNN) && allows("auto", GPU_ATTENTION_PLAIN) && allows("auto", GPU_ATTENTION_GRAD_CUDNN));
  EXPECT(!allows("auto", GPU_ATTENTION_GRAD_CUDNN_FAST));
  EXPECT(allows("cudnn-fast", GPU_ATTENTION_GRAD_CUDNN_FAST) && allows("cudnn-fast", GPU_ATTENTION_CUDNN));
  EXPECT(!allows("cudnn-fast", GPU_ATTENTION_GRAD_CUDNN) && !allows("cudnn-fast", GPU_ATTENTION_PLAIN));
  EXPECT(allows("plain", GPU_ATTENTION_PLAIN) && !allows("plain", GPU_ATTENTION_CUDNN) && !allows("cudnn", GPU_ATTENTION_PLAIN));
  EXPECT(allows("plain", GPU_MATMUL_CUBLASLT) && allows("cudnn", GPU_MATMUL_PLAIN));
}

static size_t planned(const char *attention, int type, int64_t S) {
  Step step = {.op = OP_ATTENTION_GRAD};
  BigView heads = {.dim = {2, S, 8, 64}, .stride = {S * 512, 512, 64, 1}, .rank = 4, .type = type};
  BigCall call = {.in = {heads, heads, heads, heads, heads}, .out = {heads, heads, heads}};
  call.in[5] = (BigView){.dim = {2, 8, S}, .stride = {8 * S, S, 1}, .rank = 3, .type = BIG_F32};
  return gpu_workspace(&step, &call, &(Choices){.attention = attention});
}

TEST(workspace_is_planned_for_rows_that_may_be_chosen) {
  EXPECT(planned("plain", BIG_BF16, 1024) == 0 && planned("auto", BIG_F32, 1024) == 0);
  EXPECT(planned("auto", BIG_BF16, 1024) >= 2 * 8 * 1024 * 1024 * 2);
  EXPECT(planned("cudnn-fast", BIG_BF16, 4096) < planned("auto", BIG_BF16, 4096));
  EXPECT(planned("auto", BIG_BF16, 1000) > planned("auto", BIG_BF16, 1024)); /* padded copies */
}
