/* SPDX-License-Identifier: Apache-2.0 */
/* Agreement, mesh and collectives on any number of ranks.  Values are small integers, whose sums are exact in any order. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/base/arena.h"
#include "src/base/hash.h"
#include "test/mpi/ranks.h"

/* Element i of rank r. */
static int value(int r, int64_t i) { return (int)((i * 7 + r * 1013 + 5) % 1999) - 1000; }

static int value_sum(int64_t i) {
  int sum = 0;
  for (int r = 0; r < R; r++) sum += value(r, i);
  return sum;
}

static void put(void *at, DType dtype, int64_t i, int v) {
  if (dtype == DT_F32)
    ((float *)at)[i] = (float)v;
  else if (dtype == DT_I32)
    ((int32_t *)at)[i] = v;
  else
    ((int64_t *)at)[i] = v;
}

static int got(const void *at, DType dtype, int64_t i) {
  if (dtype == DT_F32) return (int)((const float *)at)[i];
  return dtype == DT_I32 ? ((const int32_t *)at)[i] : (int)((const int64_t *)at)[i];
}

typedef struct Case {
  CommKind kind;
  int64_t n;
  DType dtype;
  bool in_place;
  char *in, *out;
  void *workspace;
  CommOp *op;
} Case;

static int64_t in_n(const Case *c) { return c->kind == COMM_REDUCE_SCATTER || c->kind == COMM_ALL_TO_ALL ? c->n * R : c->n; }
static int64_t out_n(const Case *c) { return c->kind == COMM_ALL_GATHER || c->kind == COMM_ALL_TO_ALL ? c->n * R : c->n; }

static int wanted(const Case *c, int64_t i) {
  if (c->kind == COMM_ALL_GATHER) return value((int)(i / c->n), i % c->n);
  if (c->kind == COMM_ALL_TO_ALL) return value((int)(i / c->n), c->n * me + i % c->n);
  return value_sum(c->kind == COMM_REDUCE_SCATTER ? c->n * me + i : i);
}

static void case_open(Case *c) {
  size_t size = dtype_size(c->dtype);
  c->in = xmalloc((size_t)in_n(c) * size);
  c->out = xmalloc((size_t)out_n(c) * size);
  if (c->in_place) {
    char *whole = c->kind == COMM_REDUCE_SCATTER ? c->in : c->out;
    size_t at = c->kind == COMM_ALL_REDUCE ? 0 : (size_t)(c->n * me) * size;
    free(c->kind == COMM_REDUCE_SCATTER ? c->out : c->in);
    c->in = c->kind == COMM_REDUCE_SCATTER ? whole : whole + at;
    c->out = c->kind == COMM_REDUCE_SCATTER ? whole + at : whole;
  }
  size_t workspace = comm_workspace(c->kind, c->n, c->dtype, R);
  c->workspace = workspace ? xmalloc(workspace) : NULL;
  c->op = comm_prepare(mesh, MESH_DP_SHARD, c->kind, c->in, c->out, c->n, c->dtype, c->workspace, "a test");
}

static void case_fill(Case *c) {
  if (!c->in_place) memset(c->out, 0xff, (size_t)out_n(c) * dtype_size(c->dtype));
  for (int64_t i = 0; i < in_n(c); i++) put(c->in, c->dtype, i, value(me, i));
}

static void case_check(const Case *c) {
  for (int64_t i = 0; i < out_n(c); i++) {
    int want = wanted(c, i);
    if (got(c->out, c->dtype, i) != want)
      check_failed(__FILE__, __LINE__, "kind %d n %lld %s in_place %d: element %lld is %d, not %d", (int)c->kind, (long long)c->n,
                   dtype_name(c->dtype), c->in_place, (long long)i, got(c->out, c->dtype, i), want);
  }
}

static void case_close(Case *c) {
  comm_release(c->op);
  free(c->workspace);
  free(c->in_place && c->kind != COMM_REDUCE_SCATTER ? c->out : c->in);
  if (!c->in_place) free(c->out);
}

/* Odd sizes, less than a rank each, a chunk and more than two of 1 MiB. */
static const int64_t sizes[] = {1, 2, 3, 7, 1000, 16411, 262144, 600001};

TEST(every_collective_of_every_size_twice) {
  static const DType dtypes[] = {DT_F32, DT_I32, DT_I64};
  for (int kind = 0; kind < COMM_KINDS; kind++)
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
      for (int d = 0; d < 3; d++)
        for (int in_place = 0; in_place < (kind == COMM_ALL_TO_ALL ? 1 : 2); in_place++) {
          Case c = {.kind = (CommKind)kind, .n = sizes[s], .dtype = dtypes[d], .in_place = in_place};
          case_open(&c);
          for (int turn = 0; turn < 2; turn++) {
            case_fill(&c);
            comm_start(c.op);
            comm_wait(c.op);
            case_check(&c);
          }
          case_close(&c);
        }
}

TEST(several_in_flight) {
  Case cases[9];
  for (int i = 0; i < 9; i++) {
    cases[i] = (Case){.kind = (CommKind)(i % COMM_KINDS), .n = 300007 + i, .dtype = DT_F32};
    case_open(&cases[i]);
  }
  for (int turn = 0; turn < 3; turn++) {
    for (int i = 0; i < 9; i++) {
      case_fill(&cases[i]);
      comm_start(cases[i].op);
    }
    for (int i = 0; i < 9; i++) {
      comm_wait(cases[i].op);
      case_check(&cases[i]);
    }
  }
  for (int i = 0; i < 9; i++) case_close(&cases[i]);
}

TEST(nothing_is_fine) {
  for (int kind = 0; kind < COMM_KINDS; kind++) {
    Case c = {.kind = (CommKind)kind, .n = 0, .dtype = DT_F32};
    case_open(&c);
    comm_start(c.op);
    comm_wait(c.op);
    case_close(&c);
  }
}

/* Sums whose value depends on their order. */
TEST(inexact_sums_have_the_same_bits_on_all_ranks_and_every_time) {
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    Case c = {.kind = COMM_ALL_REDUCE, .n = sizes[s], .dtype = DT_F32};
    uint32_t crc[3], *all = xmalloc(sizeof *all * (size_t)R);
    case_open(&c);
    for (int turn = 0; turn < 3; turn++) {
      for (int64_t i = 0; i < c.n; i++) ((float *)c.in)[i] = 1.0f / (float)(1 + value(me, i) * value(me, i));
      comm_start(c.op);
      comm_wait(c.op);
      crc[turn] = crc32c(0, c.out, (size_t)c.n * 4);
      EXPECT(crc[turn] == crc[0]);
    }
    comm_gather(comm, &crc[0], sizeof crc[0], all);
    for (int r = 0; r < R; r++) EXPECT(all[r] == all[0]);
    free(all);
    case_close(&c);
  }
}

static unsigned char byte_of(int rank, size_t i) { return (unsigned char)((size_t)rank * 31 + i * 7 + (i >> 13)); }

/* Around what comes in one call of the library, and in several. */
TEST(a_gather_may_be_of_any_size) {
  const size_t call = ((size_t)64 << 20) / (size_t)R, of[] = {0, 1, call - 1, call, call + 1, 2 * call + 5};
  for (size_t s = 0; s < sizeof of / sizeof *of; s++) {
    size_t n = of[s], wrong = 0;
    unsigned char *mine = xmalloc(n), *all = xmalloc(n * (size_t)R);
    for (size_t i = 0; i < n; i++) mine[i] = byte_of(me, i);
    comm_gather(comm, mine, n, all);
    for (int r = 0; r < R; r++)
      for (size_t i = 0; i < n; i++) wrong += all[(size_t)r * n + i] != byte_of(r, i);
    EXPECT(!wrong);
    free(mine);
    free(all);
  }
}

TEST(staging_is_small) {
  for (int kind = 0; kind < COMM_KINDS; kind++) EXPECT(comm_workspace((CommKind)kind, 1 << 28, DT_F32, 64) <= 2 << 20);
  EXPECT(comm_workspace(COMM_ALL_REDUCE, 1, DT_F32, 64) == 256);
}

TEST(any_rank_suffices) {
  for (int r = 0; r < R; r++) EXPECT(comm_any(comm, r == me));
  EXPECT(!comm_any(comm, false));
}

TEST(the_lowest_reason_is_everyones) {
  char text[64];
  for (int r = 0; r < R; r++) {
    snprintf(text, sizeof text, "rank %d", me);
    EXPECT(comm_any_reason(comm, me >= r, text, sizeof text));
    char want[64];
    snprintf(want, sizeof want, "rank %d", r);
    EXPECT_TEXT(text, want);
  }
  EXPECT(!comm_any_reason(comm, false, text, sizeof text));
}

TEST(ranks_that_agree_go_on) {
  comm_agree(comm, 0, "nothing");
  comm_agree(comm, UINT64_MAX, "everything");
  comm_agree(comm, 1ull << 63, "the sign");
}

TEST(broadcast_of_any_size) {
  static const size_t nbytes[] = {0, 1, 1000, 5 << 20};
  for (int root = 0; root < R; root++)
    for (int s = 0; s < 4; s++) {
      unsigned char *bytes = xmalloc(nbytes[s] + 1);
      for (size_t i = 0; i < nbytes[s]; i++) bytes[i] = me == root ? (unsigned char)(i * 31 + (size_t)root) : 0;
      comm_broadcast(comm, bytes, nbytes[s], root);
      for (size_t i = 0; i < nbytes[s]; i++) EXPECT(bytes[i] == (unsigned char)(i * 31 + (size_t)root));
      free(bytes);
    }
}

TEST(control_gives_the_greatest_words) {
  int64_t most[4];
  comm_control_start(comm, (const int64_t[4]){me, -me, 5, me == R - 1});
  comm_barrier(comm);
  comm_control_finish(comm, most);
  EXPECT(most[0] == R - 1 && most[1] == 0 && most[2] == 5 && most[3] == 1);
}

/* Beside the exchange of words, in another order than it, and again. */
TEST(a_gather_to_rank_0_is_asked_for_and_waited_for) {
  for (int round = 0; round < 3; round++) {
    int64_t words[4] = {0}, mine[2] = {me, round};
    const int64_t *all = NULL;
    comm_collect_start(comm, mine, sizeof mine);
    comm_control_start(comm, words);
    comm_barrier(comm);
    comm_control_finish(comm, words);
    for (int looks = 0; looks < 5 && !all; looks++) all = comm_collect_over(comm, looks == 4);
    EXPECT((all != NULL) == (me == 0));
    for (int r = 0; r < R && me == 0; r++) EXPECT(all[2 * r] == r && all[2 * r + 1] == round);
    EXPECT(!comm_collect_over(comm, true)); /* there is none any more */
  }
}

/* The last rank comes late; a rank alone waits for nobody. */
TEST(waits_in_collectives_are_counted) {
  Mesh *line = mesh_data_parallel(comm, R);
  float a = 1, b;
  CommOp *op = comm_prepare(line, MESH_DP_SHARD, COMM_ALL_REDUCE, &a, &b, 1, DT_F32, xmalloc(64 * (size_t)R), "x");
  comm_barrier(comm);
  double before = comm_waited(line);
  if (me == R - 1) nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
  comm_start(op);
  comm_wait(op);
  double waited = comm_waited(line) - before;
  EXPECT(me == R - 1 ? waited < 0.29 : waited > 0.2);
  EXPECT(!comm_overlaps(line));
  comm_release(op);
  mesh_close(line);
}

TEST(ranks_swap_with_their_partners_of_each_round) {
  Mesh *line = mesh_data_parallel(comm, R);
  for (int round = 0; round < comm_rounds(comm); round++) {
    enum { N = 300007 };
    int partner = comm_partner(R, me, round);
    float *in = xmalloc(sizeof *in * N), *out = xmalloc(sizeof *out * N);
    for (int i = 0; i < N; i++) in[i] = (float)(me * 1000000 + i), out[i] = -1;
    CommOp *op = comm_prepare_swap(line, partner, in, out, N, DT_F32, "x");
    for (int again = 0; again < 2; again++) {
      comm_start(op);
      comm_wait(op);
    }
    for (int i = 0; i < N; i++) EXPECT(out[i] == (partner < 0 ? -1 : (float)(partner * 1000000 + i)));
    EXPECT(partner < 0 || comm_partner(R, partner, round) == me);
    comm_release(op);
    free(in);
    free(out);
  }
  mesh_close(line);
}

TEST(who_has_a_partner_has_a_rate) {
  Mesh *line = mesh_data_parallel(comm, R);
  Dev *dev = dev_open(&(DevOptions){.kind = "cpu", .compiler = "none", .threads = 1});
  for (int round = 0; round < comm_rounds(comm); round++) {
    double rate = comm_pair_rate(line, dev, round, 0.01);
    EXPECT(comm_partner(R, me, round) < 0 ? rate == 0 : rate > 1e6);
  }
  dev_close(dev);
  mesh_close(line);
}

TEST(local_ranks_count_up) {
  EXPECT(comm_local_rank(comm) >= 0 && comm_local_rank(comm) < comm_local_size(comm));
  EXPECT(comm_local_size(comm) <= R && comm_nodes(comm) >= 1 && *comm_node(comm));
  EXPECT(strstr(comm_describe(comm), comm_node(comm)) && strstr(comm_describe(comm), R == 1 ? "1 rank, " : " ranks, "));
  EXPECT(comm_mpi(comm));
}

TEST(every_rank_has_a_core_and_as_many_as_the_others) {
  int cores = comm_core_share(comm), *all = xmalloc(sizeof *all * (size_t)R);
  EXPECT(cores >= 1);
  comm_gather(comm, &cores, sizeof cores, all);
  for (int r = 0; r < R; r++) EXPECT(all[r] == cores);
  free(all);
}

/* The sum along an axis is that of the ranks which differ from me in it alone. */
TEST(axes_of_the_mesh) {
  if (R != 4) return;
  Mesh *grid = mesh_open(comm, (const int[MESH_AXES]){1, 2, 2, 1, 1});
  EXPECT(mesh_extent(grid, MESH_DP_SHARD) == 2 && mesh_index(grid, MESH_DP_SHARD) == me % 2);
  EXPECT(mesh_index(grid, MESH_DP_REPLICATE) == me / 2 && mesh_index(grid, MESH_TP) == 0);
  EXPECT(mesh_dp_size(grid) == 4 && mesh_dp_index(grid) == me);
  static const int want[2][4] = {{2, 4, 2, 4}, {1, 1, 5, 5}}; /* replicate: 0+2, 1+3; shard: 0+1, 2+3 */
  for (int a = 0; a < 2; a++) {
    int32_t in = me, out, workspace[16];
    CommOp *op =
        comm_prepare(grid, a ? MESH_DP_SHARD : MESH_DP_REPLICATE, COMM_ALL_REDUCE, &in, &out, 1, DT_I32, workspace, "a test");
    comm_start(op);
    comm_wait(op);
    EXPECT(out == want[a][me]);
    comm_release(op);
  }
  mesh_close(grid);
}
