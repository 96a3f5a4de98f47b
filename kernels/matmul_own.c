/* SPDX-License-Identifier: Apache-2.0 */
/* matmul as text: the constants that matmul.inc.c is compiled with.  They are decided here, on the machine that plans, where
 * the width of vectors is not known: MC is a multiple of both 12 and 6, NC of 32, 16 and 8. */
#include "kernels/rows.h"
#include "kernels/texts.h"

enum {
  ROWS = 12,      /* of the largest tile */
  COLS = 32,      /* of the largest tile */
  DEPTH = 256,    /* a panel of b has 32 KiB */
  MC_PACKED = 20, /* tiles: a packed block of a, 240 KiB, stays in the second-level cache */
  CROWD = 4096    /* bytes: strides that are a multiple of this fall into few sets of a cache */
};

typedef struct Blocking {
  int64_t MC, NC, KC;
  bool packed;
} Blocking;

static int64_t divide_up(int64_t x, int64_t y) { return (x + y - 1) / y; }
static int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }

/* How long the busiest thread works on tasks of m × n tiles, in tiles.  To pack a tile's width of b costs about half a tile,
 * its height of a a third. */
static double task_cost(int64_t m, int64_t n, int64_t mtiles, int64_t ntiles, bool packed, int threads) {
  int64_t tasks = divide_up(mtiles, m) * divide_up(ntiles, n), rounds = divide_up(tasks, threads);
  return (double)rounds * ((double)(m * n) + 0.5 * (double)n + (packed ? 0.33 : 0.02) * (double)m + 0.1);
}

/* The least size that cuts tiles into no more parts than `most` does: the only one worth a look among those.  0 of 0. */
static int64_t part_size(int64_t tiles, int64_t most) { return most ? divide_up(tiles, divide_up(tiles, most)) : 0; }

static Blocking blocking_of(const BigCall *call) {
  const BigView *a = &call->in[0];
  int64_t M = call->out[0].dim[0], N = call->out[0].dim[1], K = a->dim[1];
  int64_t ntiles = divide_up(N, COLS), mtiles = divide_up(M, ROWS), lead = a->stride[1] == 1 ? a->stride[0] : a->stride[1];
  Blocking best = {.KC = divide_up(divide_up(K, divide_up(K, DEPTH)), 4) * 4, .packed = lead * 4 % CROWD == 0};
  double least = 0;
  for (int64_t m = part_size(mtiles, best.packed ? smaller(mtiles, MC_PACKED) : mtiles); m > 0; m = part_size(mtiles, m - 1))
    for (int64_t n = ntiles; n > 0; n = part_size(ntiles, n - 1)) {
      double cost = task_cost(m, n, mtiles, ntiles, best.packed, call->threads);
      if (best.MC && cost >= least) continue;
      least = cost;
      best.MC = m * ROWS;
      best.NC = n * COLS;
    }
  return best;
}

/* Bytes of the text's struct Room at most, whatever the vectors: in a multiple of 64. */
static int64_t room_of(const Blocking *s) { return divide_up(4 * s->KC * (COLS + s->packed * s->MC / 6 * 8) + 64, 64) * 64; }

size_t own_matmul_workspace(const BigCall *call) {
  Blocking s = blocking_of(call);
  return (size_t)(room_of(&s) * call->threads);
}

void own_matmul_text(const BigCall *call, const char *symbol, Text *source) {
  const BigView *a = &call->in[0], *b = &call->in[1], *c = &call->out[0];
  Blocking s = blocking_of(call);
  struct {
    const char *name;
    int64_t value;
  } constants[] = {{"M", c->dim[0]},     {"N", c->dim[1]},     {"K", a->dim[1]},     {"A0", a->stride[0]}, {"A1", a->stride[1]},
                   {"B0", b->stride[0]}, {"B1", b->stride[1]}, {"C0", c->stride[0]}, {"MC", s.MC},         {"NC", s.NC},
                   {"KC", s.KC},         {"PACKED", s.packed}, {"ROOM", room_of(&s)}};
  text_printf(source, "#define SYMBOL %s\n", symbol);
  for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
    text_printf(source, "#define %s ((int64_t)%lld)\n", constants[i].name, (long long)constants[i].value);
  text_printf(source, "%s", text_matmul);
}
