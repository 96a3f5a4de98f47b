/* SPDX-License-Identifier: Apache-2.0 */
/* What goes between a job's Vars and the host: on a cpu, on one that is taken for a GPU, and on a GPU where there is one. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/exec/exec.h"
#include "src/exec/staging.h"
#include "test/check.h"
#include "test/unit/cuda_kernels.h"

/* w: more than one part of a transfer (32 MiB), and no round number. */
enum { N = (9 << 20) + 5, WIDTH = 5, RUNS = 20, AHEAD = 3 };

typedef struct Case {
  const char *kind;
  bool exact; /* the host's own logarithm, sine and cosine */
  Arena *arena;
  Dev *dev;
  Comm *comm;
  Mesh *mesh;
  Choices choices;
  Job *job;
} Case;

static void var(Graph *g, const char *name, VarClass class, int64_t n) {
  graph_var(g, (Var){.name = name, .class = class, .dtype = DT_F32, .shape = SHAPE(n)});
}

/* sum += x; y = sum; and w, which only the host writes. */
static const Graph *program(Arena *arena) {
  Graph *g = graph_open(arena);
  var(g, "x", VAR_INPUT, WIDTH);
  var(g, "sum", VAR_STATE, WIDTH);
  var(g, "y", VAR_OUTPUT, WIDTH);
  var(g, "w", VAR_STATE, N);
  int sum = ir_add(g, ir_load(g, "sum"), ir_load(g, "x"));
  ir_store(g, "sum", sum);
  ir_store(g, "y", sum);
  return g;
}

/* y = sum + x: writes no state. */
static const Graph *look(Arena *arena) {
  Graph *g = graph_open(arena);
  var(g, "x", VAR_INPUT, WIDTH);
  var(g, "sum", VAR_STATE, WIDTH);
  var(g, "y", VAR_OUTPUT, WIDTH);
  ir_store(g, "y", ir_add(g, ir_load(g, "sum"), ir_load(g, "x")));
  return g;
}

/* False: no such device here. */
static bool case_open(Case *c, const char *kind) {
  int ones[MESH_AXES] = {1, 1, 1, 1, 1};
  bool cuda = !strcmp(kind, "cuda");
  *c = (Case){.kind = kind, .exact = !cuda};
  c->dev = cuda ? cuda_device_try(NULL, 1)
                : dev_open(&(DevOptions){.kind = kind, .compiler = "cc", .cache = check_folder(), .threads = 2});
  if (!c->dev) return false;
  c->arena = arena_open();
  c->comm = comm_self();
  c->mesh = mesh_open(c->comm, ones);
  c->choices = (Choices){.units_alive = 1, .threads = 2, .matmul = "auto", .cuda = cuda};
  c->job = job_open(c->arena, c->dev, c->comm, c->mesh, &c->choices, false);
  job_add(c->job, compile(c->arena, program(c->arena), NULL, &c->choices, "program", true, true, NULL), "program");
  job_add(c->job, compile(c->arena, look(c->arena), NULL, &c->choices, "look", true, true, NULL), "look");
  job_start(c->job);
  return true;
}

static void case_close(Case *c) {
  job_close(c->job);
  mesh_close(c->mesh);
  comm_close(c->comm);
  dev_close(c->dev);
  arena_close(c->arena);
}

#define EACH_DEVICE(c)                                                                                                             \
  static const char *const kinds[] = {"cpu", "apart", "cuda"};                                                                     \
  Case c;                                                                                                                          \
  for (int k = 0; k < 3; k++)                                                                                                      \
    if (case_open(&c, kinds[k]))

/* --- parts ---------------------------------------------------------------------------------------------------------------- */

static float value_at(int64_t i) { return (float)(i % 8191); }

typedef struct Parts {
  int64_t next;
  int n, wrong;
} Parts;

static void make_part(void *self, int64_t first, int64_t n, void *to) {
  Parts *p = self;
  float *at = to;
  p->wrong += first != p->next;
  for (int64_t i = 0; i < n; i++) at[i] = value_at(first + i);
  p->next = first + n;
  p->n++;
}

static void use_part(void *self, int64_t first, int64_t n, const void *from) {
  Parts *p = self;
  const float *at = from;
  p->wrong += first != p->next;
  for (int64_t i = 0; i < n; i++) p->wrong += at[i] != value_at(first + i);
  p->next = first + n;
  p->n++;
}

TEST(what_is_put_in_parts_comes_back_in_parts) {
  EACH_DEVICE(c) {
    enum { SKIP = 3, COUNT = N - 7 };
    Parts put = {0}, got = {0};
    float ends[2], edge[4], seven = 7;
    job_put(c.job, "w", SKIP, COUNT, make_part, &put);
    job_get(c.job, "w", SKIP, COUNT, use_part, &got);
    EXPECT(put.wrong == 0 && put.next == COUNT && got.wrong == 0 && got.next == COUNT);
    EXPECT(put.n == got.n && put.n == (dev_is_host(c.dev) ? 1 : 2));
    job_read(c.job, "w", SKIP - 1, 1, &ends[0]);
    job_read(c.job, "w", SKIP + COUNT, 1, &ends[1]);
    EXPECT(ends[0] == 0 && ends[1] == 0);
    job_write(c.job, "w", SKIP + 1, 1, &seven);
    job_read(c.job, "w", SKIP, 4, edge);
    EXPECT(edge[0] == value_at(0) && edge[1] == 7 && edge[2] == value_at(2) && edge[3] == value_at(3));
    job_get(c.job, "w", 0, 0, use_part, &got);
    EXPECT(got.n == put.n); /* nothing has no parts */
    EXPECT(job_size(c.job, "w") == N && job_size(c.job, "v") == -1);
    case_close(&c);
  }
}

/* --- values by rule ------------------------------------------------------------------------------------------------------- */

/* How far two floats are apart, in floats between them; of other signs: very far. */
static int64_t floats_apart(float a, float b) {
  int32_t x, y;
  memcpy(&x, &a, sizeof x);
  memcpy(&y, &b, sizeof y);
  return llabs((int64_t)x - y);
}

TEST(values_by_rule_are_the_hosts_wherever_they_are_made) {
  static const struct {
    int64_t skip, n;
    uint64_t element; /* the last are beyond 32 bits, as words and as elements of a block */
    double std;
  } cases[] = {{0, N, 0, 0.02}, {3, 1, 2, 1}, {1, 6, 7, 1}, {2, 1001, ((uint64_t)1 << 36) - 6, 3}, {5, 4096, (uint64_t)1 << 33, 1}};
  float *is = xmalloc(sizeof *is * N), *want = xmalloc(sizeof *want * N);
  EACH_DEVICE(c) {
    Rng rng = rng_make(3, RNG_INIT, "model.embed_tokens.weight", 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
      int64_t skip = cases[i].skip, n = cases[i].n, other = 0;
      job_fill(c.job, "w", NULL, 0, N, &(JobFill){.constant = 5});
      job_fill(c.job, "w", NULL, skip, n, &(JobFill){.normal = &rng, .element = cases[i].element, .std = cases[i].std});
      job_read(c.job, "w", 0, N, is);
      rng_normals(&rng, cases[i].element, n, cases[i].std, want);
      for (int64_t e = 0; e < N; e++) {
        if (e < skip || e >= skip + n) {
          EXPECT(is[e] == 5);
          continue;
        }
        EXPECT(floats_apart(is[e], want[e - skip]) <= (c.exact ? 0 : 1));
        other += is[e] != want[e - skip];
      }
      EXPECT(other <= n >> 20);
    }
    double begin = clock_seconds();
    int times = c.exact ? 1 : 100;
    for (int i = 0; i < times; i++) job_fill(c.job, "w", NULL, 0, N, &(JobFill){.normal = &rng, .std = 1});
    dev_sync(c.dev);
    fprintf(stderr, "note  %s: %.3g initial weights a second\n", c.kind, N * (double)times / (clock_seconds() - begin));
    case_close(&c);
  }
  free(is);
  free(want);
}

TEST(the_kernel_of_values_by_rule_compiles_for_all_architectures_without_spills) {
  static const char *const archs[] = {"sm_80", "sm_90a", "sm_100a"};
  for (size_t a = 0; a < sizeof archs / sizeof *archs; a++) {
    Dev *dev = cuda_device_try(archs[a], 1);
    if (!dev) return;
    const char *(*text)(void);
    void *symbol = dev_cuda_symbol("gpu_fill_text"), *image;
    memcpy(&text, &symbol, sizeof symbol);
    size_t nbytes;
    Why why = {""};
    double begin = clock_seconds();
    if (!dev_try_build(dev, (const char *[]){text()}, 1, &image, &nbytes, NULL, &why))
      check_failed(__FILE__, __LINE__, "%s", why.text);
    if (getenv("HPCTRAIN_TEST_TIMES")) fprintf(stderr, "%s in %.2f s\n", archs[a], clock_seconds() - begin);
    EXPECT(strstr(dev_build_log(dev), " 0 bytes spill stores, 0 bytes spill loads"));
    free(image);
    dev_close(dev);
  }
}

/* --- copies beside the runs ------------------------------------------------------------------------------------------------- */

static void *copy_beside(void *self) {
  staging_copy(self);
  return NULL;
}

/* By a thread that starts it part by part, while programs run that write no state (from their second run on as a graph, which is
 * captured meanwhile); then all of it is written. */
TEST(a_copy_beside_the_runs_is_what_the_states_were) {
  EACH_DEVICE(c) {
    Why why;
    float *x = job_var(c.job, "x", NULL), none[9] = {0};
    for (int i = 0; i < WIDTH; i++) x[i] = value_at(i + 1);
    Staging *staging = staging_open(c.arena, c.job);
    int w = staging_add(staging, "w", 0, N), sum = staging_add(staging, "sum", 0, WIDTH);
    EXPECT(try_staging_alloc(staging, &why));
    for (int save = 0; save < 4; save++) {
      Parts put = {0}, got = {0};
      pthread_t thread;
      job_put(c.job, "w", 0, N, make_part, &put);
      job_run(c.job, 0);
      staging_start(staging);
      CHECK(!pthread_create(&thread, NULL, copy_beside, staging));
      for (int i = 0; i < save; i++) job_run(c.job, 1);
      staging_wait(staging);
      job_run(c.job, 0);
      job_write(c.job, "w", N - 9, 9, none);
      CHECK(!pthread_join(thread, NULL));
      staging_get(staging, w, -1, 0, use_part, &got);
      EXPECT(got.wrong == 0 && got.next == N);
      for (int i = 0; i < WIDTH; i++)
        EXPECT(((const float *)staging_at(staging, sum))[i] == (float)(2 * save + 1) * value_at(i + 1));
      EXPECT(staging_end(staging) >= 0);
    }
    staging_close(staging);
    case_close(&c);
  }
}

/* --- ahead of the device -------------------------------------------------------------------------------------------------- */

/* Each run must see the inputs of its own time, though the host has long written the next. */
TEST(a_host_that_is_ahead_changes_no_input_under_way) {
  EACH_DEVICE(c) {
    int looked = 0;
    for (int run = 0; run < RUNS + AHEAD; run++) {
      if (run < RUNS) {
        float *x = job_var(c.job, "x", NULL);
        for (int i = 0; i < WIDTH; i++) x[i] = (float)(run + i);
        job_run(c.job, 0);
        job_note(c.job, "y");
      }
      if (run < AHEAD) continue;
      const float *y = job_noted(c.job);
      for (int i = 0; i < WIDTH; i++) EXPECT(y[i] == (float)(looked * (looked + 1) / 2 + (looked + 1) * i));
      looked++;
    }
    EXPECT(looked == RUNS);
    const float *y = job_var(c.job, "y", NULL);
    EXPECT(y[0] == RUNS * (RUNS - 1) / 2);
    job_run(c.job, 0); /* with inputs as they were */
    y = job_var(c.job, "y", NULL);
    EXPECT(y[0] == RUNS * (RUNS - 1) / 2 + RUNS - 1);
    case_close(&c);
  }
}
