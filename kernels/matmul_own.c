/* SPDX-License-Identifier: Apache-2.0 */
/* matmul as text: the constants that matmul.inc.c is compiled with.  The blocking is decided here, on the machine that plans,
 * where the width of vectors is not known: MC is a multiple of both 12 and 6, NC and NB of 32, 16 and 8. */
#include "kernels/rows.h"
#include "kernels/texts.h"

enum {
  ROWS = 12,       /* of the largest tile */
  COLS = 32,       /* of the largest tile */
  DEPTH = 256,     /* so that a panel of b (32 KiB) stays near while the rows pass by */
  MC_MOST = 20,    /* tiles: a's block (240 KiB) stays in the second-level cache */
  PACKED = 8 << 20 /* bytes of b packed at a time */
};

typedef struct Blocking {
  int64_t NC, KC, MC, NB;
} Blocking;

static int64_t divide_up(int64_t x, int64_t y) { return (x + y - 1) / y; }
static int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }

/* Tasks of m × n tiles: how long the busiest thread works, in tiles, packing of a included (a tile row costs about as much as
 * a third of a tile to pack). */
static double task_cost(int64_t m, int64_t n, int64_t mtiles, int64_t ntiles, int threads) {
  int64_t tasks = divide_up(mtiles, m) * divide_up(ntiles, n), rounds = divide_up(tasks, threads);
  return (double)rounds * ((double)(m * n) + 0.33 * (double)m + 0.5);
}

static Blocking blocking_of(const BigCall *call) {
  int64_t M = call->out[0].dim[0], N = call->out[0].dim[1], K = call->in[0].dim[1];
  int64_t columns = PACKED / (int64_t)sizeof(float) / K / COLS * COLS, blocks = divide_up(N, columns < COLS ? COLS : columns);
  int64_t ntiles = divide_up(divide_up(N, blocks), COLS), mtiles = divide_up(M, ROWS), depths = divide_up(K, DEPTH);
  Blocking best = {.NC = ntiles * COLS, .KC = divide_up(divide_up(K, depths), 4) * 4};
  double least = 0;
  for (int64_t m = smaller(mtiles, MC_MOST); m > 0; m--)
    for (int64_t parts = 1; parts <= ntiles; parts++) {
      int64_t n = divide_up(ntiles, parts);
      double cost = task_cost(m, n, mtiles, ntiles, call->threads);
      if (best.MC && cost >= least) continue;
      least = cost;
      best.MC = m * ROWS;
      best.NB = n * COLS;
    }
  return best;
}

size_t own_matmul_workspace(const BigCall *call) {
  Blocking b = blocking_of(call);
  int64_t K = call->in[0].dim[1];
  return sizeof(float) * (size_t)(K * b.NC + call->threads * (b.MC / 6 * 8) * b.KC);
}

void own_matmul_text(const BigCall *call, const char *symbol, Text *source) {
  const BigView *a = &call->in[0], *b = &call->in[1], *c = &call->out[0];
  Blocking s = blocking_of(call);
  text_printf(source, "#define SYMBOL %s\n", symbol);
  struct {
    const char *name;
    int64_t value;
  } constants[] = {{"M", c->dim[0]},     {"N", c->dim[1]},     {"K", a->dim[1]},     {"A0", a->stride[0]},
                   {"A1", a->stride[1]}, {"B0", b->stride[0]}, {"B1", b->stride[1]}, {"C0", c->stride[0]},
                   {"NC", s.NC},         {"KC", s.KC},         {"MC", s.MC},         {"NB", s.NB}};
  for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
    text_printf(source, "#define %s ((int64_t)%lld)\n", constants[i].name, (long long)constants[i].value);
  text_printf(source, "%s", text_matmul);
}
