/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives on GPUs' memory: mpirun -np N test_nccl, with as many GPUs on the node as ranks.  Sums are of small integers, which
 * every type holds exactly, so that the host's sum is the only right one. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/base/arena.h"
#include "src/base/rng.h"
#include "src/comm/impl.h"
#include "src/dev/back.h"
#include "test/mpi/ranks.h"
#include "test/unit/cuda_kernels.h"

/* This rank's GPU; NULL, after a note, where there is none. */
static Dev *device_try(int gpu) {
  const char *why = !cuda_module_file() ? "built without CUDA" : !cuda_has_gpu() ? "no GPU on this machine" : NULL;
  if (why && me == 0) fprintf(stderr, "note  skipped: %s\n", why);
  if (why) return NULL;
  return dev_open(&(DevOptions){.kind = "cuda", .cache = "", .threads = 1, .gpu = gpu, .module = cuda_module_file()});
}

static Dev *device_open(void) {
  Dev *dev = device_try(comm_local_rank(comm));
  if (dev) EXPECT(comm_device_open(mesh, dev));
  return dev;
}

static void device_close(Dev *dev) {
  comm_device_close(mesh);
  dev_close(dev);
}

/* --- values ------------------------------------------------------------------------------------------------------------- */

/* Element i of rank r in round t: sums of up to 16 ranks are whole numbers below 256. */
static int value(int r, int64_t i, int t) { return (int)((i * 7 + r * 5 + t * 3) % 16); }

static int value_sum(int64_t i, int t) {
  int sum = 0;
  for (int r = 0; r < R; r++) sum += value(r, i, t);
  return sum;
}

static void put(void *at, DType dtype, int64_t i, int v) {
  switch (dtype) {
  case DT_F32:
    ((float *)at)[i] = (float)v;
    break;
  case DT_BF16:
    ((uint16_t *)at)[i] = bf16_of((float)v);
    break;
  case DT_F16:
    ((uint16_t *)at)[i] = f16_of((float)v);
    break;
  case DT_I64:
    ((int64_t *)at)[i] = v;
    break;
  default:
    ((int32_t *)at)[i] = v;
  }
}

static int got(const void *at, DType dtype, int64_t i) {
  switch (dtype) {
  case DT_F32:
    return (int)((const float *)at)[i];
  case DT_BF16:
    return (int)bf16_value(((const uint16_t *)at)[i]);
  case DT_F16:
    return (int)f16_value(((const uint16_t *)at)[i]);
  case DT_I64:
    return (int)((const int64_t *)at)[i];
  default:
    return ((const int32_t *)at)[i];
  }
}

/* --- a collective ------------------------------------------------------------------------------------------------------- */

typedef struct Case {
  CommKind kind;
  int64_t n;
  DType dtype;
  bool in_place;
  Dev *dev;
  char *in, *out, *whole; /* the GPU's; whole: what holds both ends in place */
  char *host;
  size_t in_bytes, out_bytes;
  CommOp *op;
} Case;

static void case_open(Case *c, Dev *dev) {
  size_t part = (size_t)c->n * dtype_size(c->dtype), all = part * (size_t)R;
  c->dev = dev;
  c->in_bytes = c->kind == COMM_REDUCE_SCATTER || c->kind == COMM_ALL_TO_ALL ? all : part;
  c->out_bytes = c->kind == COMM_ALL_GATHER || c->kind == COMM_ALL_TO_ALL ? all : part;
  c->host = xmalloc(all);
  if (c->in_place) {
    c->in = c->out = c->whole = dev_alloc(dev, c->kind == COMM_ALL_REDUCE ? part : all, "test");
    if (c->kind == COMM_ALL_GATHER) c->in += (size_t)me * part;
    if (c->kind == COMM_REDUCE_SCATTER) c->out += (size_t)me * part;
  } else {
    c->in = dev_alloc(dev, c->in_bytes, "test");
    c->out = dev_alloc(dev, c->out_bytes, "test");
  }
  c->op = comm_prepare(mesh, MESH_DP_SHARD, c->kind, c->in, c->out, c->n, c->dtype, NULL, "test");
}

static void case_close(Case *c) {
  size_t part = (size_t)c->n * dtype_size(c->dtype);
  comm_release(c->op);
  if (c->in_place)
    dev_free(c->dev, c->whole, c->kind == COMM_ALL_REDUCE ? part : part * (size_t)R);
  else {
    dev_free(c->dev, c->in, c->in_bytes);
    dev_free(c->dev, c->out, c->out_bytes);
  }
  free(c->host);
}

static void case_fill(Case *c, int t) {
  for (int64_t i = 0; i < (int64_t)(c->in_bytes / dtype_size(c->dtype)); i++) put(c->host, c->dtype, i, value(me, i, t));
  dev_copy_in(c->dev, c->in, c->host, c->in_bytes);
}

static int wanted(const Case *c, int64_t i, int t) {
  if (c->kind == COMM_ALL_GATHER) return value((int)(i / c->n), i % c->n, t);
  if (c->kind == COMM_ALL_TO_ALL) return value((int)(i / c->n), c->n * me + i % c->n, t);
  return value_sum(c->kind == COMM_REDUCE_SCATTER ? c->n * me + i : i, t);
}

static void case_check(Case *c, int t) {
  dev_copy_out(c->dev, c->host, c->out, c->out_bytes);
  for (int64_t i = 0; i < (int64_t)(c->out_bytes / dtype_size(c->dtype)); i++) {
    int want = wanted(c, i, t);
    if (got(c->host, c->dtype, i) != want)
      check_failed(__FILE__, __LINE__, "kind %d n %lld %s in_place %d round %d: element %lld is %d, not %d", (int)c->kind,
                   (long long)c->n, dtype_name(c->dtype), c->in_place, t, (long long)i, got(c->host, c->dtype, i), want);
  }
}

TEST(every_collective_of_every_type_and_size_is_the_sum_on_the_host) {
  static const DType dtypes[] = {DT_F32, DT_BF16, DT_F16, DT_I32, DT_I64};
  static const int64_t sizes[] = {1, 3, 1001, 100003, 16 << 20};
  Dev *dev = device_open();
  if (!dev) return;
  for (int kind = 0; kind < COMM_KINDS; kind++)
    for (int d = 0; d < 5; d++)
      for (int s = 0; s < 5; s++)
        for (int in_place = 0; in_place < 2; in_place++) {
          if (sizes[s] > 1000000 && (in_place || dtypes[d] != DT_F32)) continue; /* 64 MiB: once a kind */
          if (kind == COMM_ALL_TO_ALL && in_place) continue;
          Case c = {.kind = (CommKind)kind, .n = sizes[s], .dtype = dtypes[d], .in_place = in_place};
          case_open(&c, dev);
          for (int t = 0; t < 2; t++) {
            case_fill(&c, t);
            comm_start(c.op);
            comm_wait(c.op);
            case_check(&c, t);
          }
          case_close(&c);
        }
  device_close(dev);
}

TEST(sums_of_any_numbers_have_the_same_bits_every_time) {
  enum { N = 1 << 20, TURNS = 5 };
  Dev *dev = device_open();
  if (!dev) return;
  float *values = xmalloc(sizeof *values * N * (size_t)R), *first = xmalloc(sizeof *first * N), *again = xmalloc(sizeof *again * N);
  Rng rng = rng_make(1, RNG_TEST, "nccl", (uint64_t)me);
  rng_normals(&rng, 0, (int64_t)N * R, 1, values);
  for (int kind = COMM_REDUCE_SCATTER; kind <= COMM_ALL_REDUCE; kind++) {
    Case c = {.kind = (CommKind)kind, .n = N, .dtype = DT_F32};
    case_open(&c, dev);
    for (int t = 0; t < TURNS; t++) {
      dev_copy_in(dev, c.in, values, c.in_bytes);
      comm_start(c.op);
      comm_wait(c.op);
      dev_copy_out(dev, t ? again : first, c.out, c.out_bytes);
      EXPECT(!t || !memcmp(first, again, c.out_bytes));
    }
    case_close(&c);
  }
  free(values), free(first), free(again);
  device_close(dev);
}

/* --- several at once, and graphs ---------------------------------------------------------------------------------------- */

enum { CASES = 6 };

static void cases_open(Case *cases, Dev *dev) {
  for (int i = 0; i < CASES; i++) {
    cases[i] = (Case){.kind = (CommKind)(i % COMM_KINDS), .n = 300007 * (i + 1), .dtype = i % 2 ? DT_BF16 : DT_F32};
    case_open(&cases[i], dev);
  }
}

/* As a program does: all in flight at once, on both communicators, and waited for in another order. */
static void cases_run(Case *cases) {
  for (int i = 0; i < CASES; i++) comm_start(cases[i].op);
  for (int i = 0; i < CASES; i++) comm_wait(cases[(i * 5 + 2) % CASES].op);
}

/* One rank may wait for that alone: the others' threads connect all the same. */
TEST(whoever_times_its_gpu_waits_for_connections_first) {
  Dev *dev = device_open();
  if (!dev) return;
  EXPECT(comm_connected(mesh).took == 0);
  if (me == 0) {
    comm_device_settle(mesh);
    EXPECT((comm_connected(mesh).took > 0) == (R > 1));
    comm_device_settle(mesh);
  }
  comm_barrier(comm);
  device_close(dev);
}

TEST(gathers_and_reductions_are_in_flight_together) {
  Case cases[CASES];
  Dev *dev = device_open();
  if (!dev) return;
  cases_open(cases, dev);
  for (int t = 0; t < 5; t++) {
    for (int i = 0; i < CASES; i++) case_fill(&cases[i], t);
    cases_run(cases);
    for (int i = 0; i < CASES; i++) case_check(&cases[i], t);
  }
  for (int i = 0; i < CASES; i++) case_close(&cases[i]);
  device_close(dev);
}

TEST(a_graph_of_both_communicators_gives_the_same_and_closes) {
  Case cases[CASES];
  Dev *dev = device_open();
  if (!dev) return;
  cases_open(cases, dev);
  cases_run(cases); /* what prepares itself at first use cannot be captured */
  dev_capture_begin(dev);
  cases_run(cases);
  DevGraph *graph = dev_capture_end(dev);
  for (int t = 0; t < 20; t++) {
    for (int i = 0; i < CASES; i++) case_fill(&cases[i], t);
    if (t % 4 == 3)
      cases_run(cases); /* with and without a graph in turn */
    else
      dev_graph_launch(graph);
    for (int i = 0; i < CASES; i++) case_check(&cases[i], t);
  }
  dev_sync(dev);
  dev_graph_close(graph);
  for (int i = 0; i < CASES; i++) case_close(&cases[i]);
  device_close(dev);
}

/* --- gathers by copies --------------------------------------------------------------------------------------------------- */

enum { SHARED = 80 << 20, GATHERED = 2, ROUNDS = 200 };

/* A GPU's memory that other ranks read, and gathers out of it. */
typedef struct Shared {
  Dev *dev;
  char *base;
  bool copies;
} Shared;

static bool shared_open(Shared *s) {
  *s = (Shared){.dev = device_open()};
  if (!s->dev) return false;
  s->base = dev_alloc(s->dev, SHARED, "test");
  s->copies = comm_device_share(mesh, s->base, SHARED);
  EXPECT(s->copies == (R > 1)); /* the GPUs of a node that this is tested on can read each other */
  return true;
}

static void shared_close(Shared *s) {
  comm_device_close(mesh);
  dev_free(s->dev, s->base, SHARED);
  dev_close(s->dev);
}

/* A gather of what lies `at` bytes into the shared memory. */
static void gather_open(Case *c, const Shared *s, size_t at, bool copies, bool first) {
  c->dev = s->dev;
  c->kind = COMM_ALL_GATHER;
  c->in_bytes = (size_t)c->n * dtype_size(c->dtype);
  c->out_bytes = c->in_bytes * (size_t)R;
  c->host = xmalloc(c->out_bytes);
  c->in = s->base + at;
  c->out = dev_alloc(s->dev, c->out_bytes, "test");
  c->op = comm_prepare(mesh, MESH_DP_SHARD, c->kind, c->in, c->out, c->n, c->dtype, NULL, "test");
  if (copies) EXPECT(comm_copies(c->op, first) == s->copies);
}

static void gather_close(Case *c) {
  comm_release(c->op);
  dev_free(c->dev, c->out, c->out_bytes);
  free(c->host);
}

/* What has to be between a gather and the next write of what it reads: a reduction. */
static void sum_open(Case *c, Dev *dev) {
  *c = (Case){.kind = COMM_ALL_REDUCE, .n = 3, .dtype = DT_F32};
  case_open(c, dev);
}

static void run_one(Case *c) {
  comm_start(c->op);
  comm_wait(c->op);
}

TEST(a_gather_by_copies_is_that_of_nccl) {
  static const DType dtypes[] = {DT_F32, DT_BF16, DT_F16, DT_I32, DT_I64};
  static const int64_t sizes[] = {1, 3, 1001, 100003, 16 << 20};
  Shared s;
  Case sum;
  if (!shared_open(&s)) return;
  sum_open(&sum, s.dev);
  for (int d = 0; d < 5; d++)
    for (int i = 0; i < 5; i++) {
      if (sizes[i] > 1000000 && dtypes[d] != DT_F32) continue; /* 64 MiB: once */
      Case ways[2];
      for (int k = 0; k < 2; k++) {
        ways[k] = (Case){.n = sizes[i], .dtype = dtypes[d]};
        gather_open(&ways[k], &s, (size_t)256 * 7, k == 0, true);
      }
      for (int t = 0; t < 2; t++) {
        case_fill(&ways[0], t);
        for (int k = 0; k < 2; k++) run_one(&ways[k]);
        for (int k = 0; k < 2; k++) case_check(&ways[k], t);
        run_one(&sum);
      }
      for (int k = 0; k < 2; k++) gather_close(&ways[k]);
    }
  case_close(&sum);
  shared_close(&s);
}

/* One rank after the other comes late, and each writes the next round's numbers as soon as its all-to-all is over. */
TEST(an_all_to_all_by_copies_reads_what_is_there_and_is_over_when_all_have_read) {
  static const int64_t sizes[] = {1, 1001, 100003, 2 << 20};
  Shared s;
  if (!shared_open(&s)) return;
  for (int i = 0; i < 4; i++)
    for (int way = 0; way < 3; way++) { /* NCCL, copies, copies in a graph */
      Case c = {.kind = COMM_ALL_TO_ALL, .n = sizes[i], .dtype = DT_F32, .dev = s.dev};
      c.in_bytes = c.out_bytes = (size_t)c.n * sizeof(float) * (size_t)R;
      c.host = xmalloc(c.out_bytes);
      c.in = s.base;
      c.out = dev_alloc(s.dev, c.out_bytes, "test");
      c.op = comm_prepare(mesh, MESH_DP_SHARD, c.kind, c.in, c.out, c.n, c.dtype, NULL, "test");
      if (way) EXPECT(comm_copies(c.op, true) == s.copies);
      DevGraph *graph = NULL;
      for (int t = 0; t < 24; t++) {
        if (t % R == me) usleep(2000);
        case_fill(&c, t);
        if (way == 2 && t == 1) {
          dev_capture_begin(s.dev);
          run_one(&c);
          graph = dev_capture_end(s.dev);
        }
        graph ? dev_graph_launch(graph) : run_one(&c);
        if (t % 3) case_check(&c, t);
      }
      dev_sync(s.dev);
      dev_graph_close(graph);
      gather_close(&c);
    }
  shared_close(&s);
}

/* As a step does: two gathers in flight, a reduction behind them. */
static void rounds_run(Case *gathers, Case *sum) {
  for (int k = 0; k < GATHERED; k++) comm_start(gathers[k].op);
  for (int k = 0; k < GATHERED; k++) comm_wait(gathers[k].op);
  run_one(sum);
}

static int64_t count_wrong(Case *c, int t) {
  int64_t wrong = 0;
  dev_copy_out(c->dev, c->host, c->out, c->out_bytes);
  for (int64_t i = 0; i < c->n * R; i++) wrong += got(c->host, c->dtype, i) != value((int)(i / c->n), i % c->n, t);
  return wrong;
}

/* Elements that are not this round's, of rounds in which one rank after the other writes late. */
static int64_t rounds_wrong(const Shared *s, bool meets, bool graph) {
  Case gathers[GATHERED] = {{.n = 100003, .dtype = DT_BF16}, {.n = 300007, .dtype = DT_F32}}, sum;
  int64_t wrong = 0;
  DevGraph *captured = NULL;
  for (int k = 0; k < GATHERED; k++) gather_open(&gathers[k], s, (size_t)(8 << 20) * (size_t)k, true, meets && k == 0);
  sum_open(&sum, s->dev);
  rounds_run(gathers, &sum); /* what prepares itself at first use cannot be captured */
  if (graph) dev_capture_begin(s->dev);
  if (graph) rounds_run(gathers, &sum);
  if (graph) captured = dev_capture_end(s->dev);
  dev_sync(s->dev);
  for (int t = 0; t < ROUNDS; t++) {
    if (t % R == me) nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    for (int k = 0; k < GATHERED; k++) case_fill(&gathers[k], t);
    graph ? dev_graph_launch(captured) : rounds_run(gathers, &sum);
    for (int k = 0; k < GATHERED; k++) wrong += count_wrong(&gathers[k], t);
  }
  dev_sync(s->dev);
  dev_graph_close(captured);
  for (int k = 0; k < GATHERED; k++) gather_close(&gathers[k]);
  case_close(&sum);
  return wrong;
}

TEST(copies_find_what_each_rank_has_written_last) {
  Shared s;
  if (!shared_open(&s)) return;
  EXPECT(rounds_wrong(&s, true, false) == 0);
  EXPECT(rounds_wrong(&s, true, true) == 0);
  shared_close(&s);
}

TEST(copies_that_meet_nobody_find_what_was_written_before) {
  Shared s;
  if (!shared_open(&s)) return;
  if (s.copies) EXPECT(rounds_wrong(&s, false, false) > 0);
  if (s.copies) EXPECT(rounds_wrong(&s, false, true) > 0);
  shared_close(&s);
}

TEST(memory_is_shared_again_after_a_close) {
  for (int i = 0; i < 3; i++) {
    Shared s;
    if (!shared_open(&s)) return;
    Case c = {.n = 1001 * (i + 1), .dtype = DT_F32};
    gather_open(&c, &s, 0, true, true);
    case_fill(&c, i);
    run_one(&c);
    case_check(&c, i);
    gather_close(&c);
    shared_close(&s);
  }
}

/* --- errors ------------------------------------------------------------------------------------------------------------- */

static jmp_buf failed;
static char told[8704];

static void keep(FailKind kind, const char *text) {
  (void)kind;
  snprintf(told, sizeof told, "%s", text);
  longjmp(failed, 1);
}

/* A test that forks is no use with CUDA and MPI: what fails comes back here. */
#define EXPECT_TOLD(substring, ...)                                                                                                \
  do {                                                                                                                             \
    told[0] = 0;                                                                                                                   \
    fail_set_hook(keep);                                                                                                           \
    if (!setjmp(failed)) __VA_ARGS__;                                                                                              \
    abort_prepare(me, R, comm_node(comm), true, false);                                                                            \
    if (!strstr(told, substring)) check_failed(__FILE__, __LINE__, "told \"%s\", not \"%s\"", told, substring);                    \
  } while (0)

TEST(ranks_swap_with_their_partners_of_each_round) {
  enum { N = 300007 };
  Dev *dev = device_open();
  if (!dev) return;
  float *host = xmalloc(sizeof *host * N), *in = dev_alloc(dev, sizeof *host * N, "test"),
        *out = dev_alloc(dev, sizeof *host * N, "test");
  for (int i = 0; i < N; i++) host[i] = (float)value(me, i, 0);
  dev_copy_in(dev, in, host, sizeof *host * N);
  for (int round = 0; round < comm_rounds(comm); round++) {
    int partner = comm_partner(R, me, round);
    CommOp *op = comm_prepare_swap(mesh, partner, in, out, N, DT_F32, "test");
    comm_start(op);
    comm_wait(op);
    dev_copy_out(dev, host, out, sizeof *host * N);
    for (int i = 0; i < N && partner >= 0; i++) EXPECT(host[i] == (float)value(partner, i, 0));
    comm_release(op);
    double rate = comm_pair_rate(mesh, dev, round, 0.05);
    EXPECT(partner < 0 ? rate == 0 : rate > 1e8);
  }
  dev_free(dev, in, sizeof *host * N);
  dev_free(dev, out, sizeof *host * N);
  free(host);
  device_close(dev);
}

/* The last rank comes late, ten times. */
TEST(who_waits_for_another_gpu_is_longer_in_collectives) {
  Dev *dev = device_open();
  if (!dev) return;
  Case c = {.kind = COMM_ALL_REDUCE, .n = 1000, .dtype = DT_F32};
  case_open(&c, dev);
  run_one(&c);
  dev_sync(dev);
  comm_barrier(comm);
  double before = comm_waited(mesh);
  for (int i = 0; i < 10; i++) {
    if (me == R - 1) usleep(50000);
    run_one(&c);
    dev_sync(dev);
  }
  double waited = comm_waited(mesh) - before;
  if (R > 1) EXPECT(me == R - 1 ? waited < 0.2 : waited > 0.3 && waited < 0.7);
  EXPECT(comm_overlaps(mesh));
  case_close(&c);
  device_close(dev);
}

TEST(two_ranks_on_one_gpu_are_refused_by_name) {
  Dev *dev = R > 1 ? device_try(0) : NULL;
  if (!dev) return;
  EXPECT_TOLD("ranks 0 and 1 on", { comm_device_open(mesh, dev); });
  EXPECT(strstr(told, "have one GPU: "));
  dev_close(dev);
}

/* The last rank comes late; the others ask meanwhile what would be told if it did not come at all. */
TEST(a_rank_that_waits_names_the_collective) {
  Dev *dev = R > 1 ? device_open() : NULL;
  if (!dev) return;
  Case c = {.kind = COMM_REDUCE_SCATTER, .n = 1000, .dtype = DT_F32};
  case_open(&c, dev);
  comm_start(c.op); /* the first one connects, on the host */
  comm_wait(c.op);
  case_fill(&c, 0);
  dev_sync(dev);
  comm_barrier(comm);
  bool late = me == R - 1;
  if (late) nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
  comm_start(c.op);
  comm_wait(c.op);
  if (!late) {
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    EXPECT_TOLD("waits since 1000 s in test (#1)", { dev->look(dev->look_self, 1000); });
  }
  case_check(&c, 0);
  if (!late) EXPECT_TOLD("and is in no collective", { dev->look(dev->look_self, 1000); });
  case_close(&c);
  device_close(dev);
}
