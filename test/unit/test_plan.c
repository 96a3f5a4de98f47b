/* SPDX-License-Identifier: Apache-2.0 */
/* The memory plan: sound on any lifetimes, near the least that is possible, quick, and the same each time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/rng.h"
#include "src/fuse/fuse.h"
#include "test/check.h"

/* --- programs that are nothing but lifetimes ------------------------------------------------------------------------------ */

typedef struct Lives {
  Arena *arena;
  VEC(Buffer) buffers;
  int nsteps;
  Rng rng;
  uint64_t drawn;
} Lives;

static int64_t draw(Lives *v, int64_t n) {
  uint32_t words[4];
  rng_words(&v->rng, v->drawn++, words);
  return (int64_t)(words[0] % (uint64_t)n);
}

static void alive(Lives *v, int first, int last, int64_t nbytes) {
  CHECK(first >= 0 && first <= last);
  if (last >= v->nsteps) v->nsteps = last + 1;
  vec_push(v->arena, &v->buffers, (Buffer){BUFFER_TRANSIENT, 0, (size_t)(nbytes + 63) / 64 * 64, first, last, "x", -1});
}

static Lives lives_open(uint64_t seed) { return (Lives){.arena = arena_open(), .rng = rng_make(seed, RNG_TEST, "plan", 0)}; }

static Program *lives_program(Lives *v) {
  Program *p = arena_new(v->arena, Program);
  *p = (Program){.arena = v->arena, .nsteps = v->nsteps, .nbuffers = v->buffers.n, .buffers = v->buffers.at};
  return p;
}

/* Lives of any length, short ones, or mostly short ones; sizes of all magnitudes. */
static void lives_random(Lives *v, int n, int kind) {
  int nsteps = n / 2 + 1;
  for (int i = 0; i < n; i++) {
    int first = (int)draw(v, nsteps);
    int64_t length = kind == 0 || (kind == 2 && !draw(v, 8)) ? 1 + draw(v, nsteps) : 1 + draw(v, 8);
    int last = first + length > nsteps ? nsteps - 1 : first + (int)length - 1;
    alive(v, first, last, 1 + draw(v, (int64_t)64 << draw(v, 16)));
  }
}

/* Forward and backward of L blocks; sizes in tokens times width.  What a block saves lives until its backward reads it; with
 * `recompute` only its input does. */
static void lives_transformer(Lives *v, int L, bool recompute) {
  enum { FORWARD = 10, BACKWARD = 24 };
  const int64_t C = 1 << 20, F = C * 8 / 3, R = C / 256;
  int turn = L * FORWARD + 4, back = BACKWARD + (recompute ? FORWARD : 0);
  const struct {
    int first, last, read;
    int64_t nbytes;
  } saved[] = {{0, 3, 22, R}, {1, 2, 21, C}, {2, 4, 18, C}, {2, 4, 19, C}, {2, 5, 20, C},    {4, 5, 16, C},
               {4, 4, 16, R}, {5, 9, 12, C}, {6, 6, 11, R}, {6, 7, 10, C}, {7, 8, 6, 2 * F}, {8, 9, 4, F}};
  const struct {
    int first, last;
    int64_t nbytes;
  } grads[] = {{0, 2, F}, {1, 4, 2 * F}, {3, 6, C}, {6, 18, C}, {7, 9, C}, {8, 12, C}, {9, 13, C}, {12, 14, 3 * C}, {14, 17, C}};
  for (int b = 0; b < L; b++) {
    int from = b * FORWARD, to = turn + (L - 1 - b) * back, again = to + back - BACKWARD;
    alive(v, from, to + back - 1, C);
    for (size_t i = 0; i < sizeof saved / sizeof *saved; i++) {
      alive(v, from + saved[i].first, recompute ? from + saved[i].last : again + saved[i].read, saved[i].nbytes);
      if (recompute) alive(v, to + saved[i].first, again + saved[i].read, saved[i].nbytes);
    }
    for (size_t i = 0; i < sizeof grads / sizeof *grads; i++)
      alive(v, again + grads[i].first, again + grads[i].last, grads[i].nbytes);
    alive(v, again - 1, again + 10, C);
  }
  alive(v, turn - 4, turn - 1, C);
  alive(v, turn - 3, turn - 2, 8 * C);
}

/* --- what must hold ----------------------------------------------------------------------------------------------------- */

static double ratio(const Program *p) { return (double)p->transient / (double)p->live; }

static void expect_sound(const Program *p) {
  size_t most = 0;
  for (int i = 0; i < p->nbuffers; i++) {
    const Buffer *a = &p->buffers[i];
    EXPECT(a->offset >= 0 && a->offset % 64 == 0 && (size_t)a->offset + a->nbytes <= p->transient);
    if ((size_t)a->offset + a->nbytes > most) most = (size_t)a->offset + a->nbytes;
    for (int j = 0; j < i; j++) {
      const Buffer *b = &p->buffers[j];
      bool together = a->first <= b->last && b->first <= a->last;
      bool overlap = a->offset < b->offset + (int64_t)b->nbytes && b->offset < a->offset + (int64_t)a->nbytes;
      EXPECT(!together || !overlap);
    }
  }
  EXPECT(most == p->transient);
  size_t live = 0;
  for (int s = 0; s < p->nsteps; s++) {
    size_t now = 0;
    for (int i = 0; i < p->nbuffers; i++) now += p->buffers[i].first <= s && s <= p->buffers[i].last ? p->buffers[i].nbytes : 0;
    if (now > live) live = now;
    if (s == p->peak_step) EXPECT(now == p->live);
  }
  EXPECT(live == p->live && p->live <= p->transient);
}

TEST(no_two_live_buffers_overlap) {
  for (uint64_t seed = 0; seed < 300; seed++) {
    Lives v = lives_open(seed);
    lives_random(&v, 1 + (int)draw(&v, 200), (int)(seed % 3));
    Program *p = lives_program(&v);
    plan_memory(p);
    expect_sound(p);
    EXPECT(ratio(p) <= 1.25);
    arena_close(v.arena);
  }
}

TEST(random_lifetimes_waste_less_than_a_quarter) {
  double worst = 0;
  for (uint64_t seed = 1000; seed < 5000; seed++) {
    Lives v = lives_open(seed);
    lives_random(&v, 1 + (int)draw(&v, 200), (int)(seed % 3));
    Program *p = lives_program(&v);
    plan_memory(p);
    if (!(ratio(p) <= worst)) worst = ratio(p);
    arena_close(v.arena);
  }
  printf("4000 random plans: at most %.3f of what is alive\n", worst);
  EXPECT(worst <= 1.25);
}

/* Gathers of layers, of which two are alive at a time, between those of a large embedding and a large head. */
TEST(chains_between_large_buffers_waste_less_than_a_tenth) {
  for (int layers = 1; layers <= 90; layers++) {
    Lives v = lives_open(0);
    const int64_t layer = 50 << 20, table = 61 << 20;
    alive(&v, 0, 3, table);
    for (int l = 0; l < layers; l++) {
      alive(&v, 11 * l + 1, 11 * l + 20, layer);
      alive(&v, 11 * l + 14, 11 * l + 16, layer / 16);
    }
    alive(&v, 11 * layers + 8, 11 * layers + 18, table);
    Program *p = lives_program(&v);
    plan_memory(p);
    expect_sound(p);
    EXPECT(ratio(p) <= 1.1);
    arena_close(v.arena);
  }
}

TEST(transformers_waste_less_than_a_tenth) {
  for (int L = 1; L <= 80; L += L < 4 ? 1 : 19)
    for (int recompute = 0; recompute < 2; recompute++) {
      Lives v = lives_open(0);
      lives_transformer(&v, L, recompute);
      Program *p = lives_program(&v);
      plan_memory(p);
      if (L <= 4) expect_sound(p);
      EXPECT(ratio(p) <= 1.1);
      arena_close(v.arena);
    }
}

TEST(the_same_program_gets_the_same_plan) {
  Lives v = lives_open(7), w = lives_open(7);
  lives_random(&v, 3000, 2);
  lives_random(&w, 3000, 2);
  plan_memory(lives_program(&v));
  for (int i = 0; i < 100; i++) arena_alloc(w.arena, 4096); /* other addresses */
  plan_memory(lives_program(&w));
  for (int i = 0; i < v.buffers.n; i++) EXPECT(v.buffers.at[i].offset == w.buffers.at[i].offset);
  arena_close(v.arena);
  arena_close(w.arena);
}

TEST(only_transient_buffers_are_planned) {
  Lives v = lives_open(0);
  alive(&v, 0, 3, 640);
  alive(&v, 1, 2, 64000);
  alive(&v, 2, 4, 0);
  v.buffers.at[1].class = BUFFER_VAR;
  Program *p = lives_program(&v);
  plan_memory(p);
  EXPECT(p->transient == 640 && p->live == 640 && p->buffers[0].offset == 0);
  arena_close(v.arena);
}

TEST(a_program_without_buffers_needs_no_memory) {
  Lives v = lives_open(0);
  Program *p = lives_program(&v);
  plan_memory(p);
  EXPECT(p->transient == 0 && p->live == 0);
  arena_close(v.arena);
}

/* The best of several runs; generous, for slow machines and checked builds. */
TEST(ten_thousand_buffers_are_planned_at_once) {
  double best = 1e9;
  for (int run = 0; run < 3; run++) {
    Lives v = lives_open(0);
    lives_random(&v, 10000, 2);
    double start = check_cpu_seconds();
    plan_memory(lives_program(&v));
    double seconds = check_cpu_seconds() - start;
    if (seconds < best) best = seconds;
    arena_close(v.arena);
  }
  printf("10000 buffers: %.1f ms\n", best * 1e3);
  EXPECT(best < 1);
}

/* --- real programs ------------------------------------------------------------------------------------------------------ */

/* Some layers of norm, product and nonlinearity over (T,C), forward and backward. */
static Program *fused(Arena *arena, int layers, int64_t T, int64_t C) {
  Graph *g = graph_open(arena);
  int w[16], grads[16], n = 0;
  CHECK(layers <= 16);
  graph_var(g, (Var){.name = "x", .class = VAR_INPUT, .shape = SHAPE(T, C)});
  int x = ir_load(g, "x");
  for (; n < layers; n++) {
    graph_var(g, (Var){.name = arena_printf(arena, "w%d", n), .class = VAR_STATE, .shape = SHAPE(C, C)});
    w[n] = ir_load(g, arena_printf(arena, "w%d", n));
    int square = ir_scale(g, ir_reduce(g, OP_SUM, ir_mul(g, x, x), 1), 1.0 / (double)C);
    int norm = ir_mul(g, x, ir_unary(g, OP_RSQRT, ir_add(g, square, ir_const(g, DT_F32, 1e-5))));
    x = ir_add(g, x, ir_unary(g, OP_TANH, ir_matmul(g, norm, false, w[n], false)));
  }
  graph_differentiate(g, ir_sum_all(g, x), ir_const(g, DT_F32, 1), w, n, -1, grads);
  for (int i = 0; i < n; i++) {
    graph_var(g, (Var){.name = arena_printf(arena, "g%d", i), .class = VAR_CARRY, .shape = SHAPE(C, C)});
    ir_store(g, arena_printf(arena, "g%d", i), grads[i]);
  }
  return fuse_program(arena, g, &(FuseOptions){0});
}

TEST(no_two_live_buffers_of_a_fused_program_overlap) {
  for (int layers = 1; layers <= 16; layers++) {
    Arena *arena = arena_open();
    Program *p = fused(arena, layers, 64, 32), planned = *p;
    VEC(Buffer) alive = {0};
    for (int i = 0; i < p->nbuffers; i++)
      if (p->buffers[i].class == BUFFER_TRANSIENT && p->buffers[i].first >= 0) vec_push(arena, &alive, p->buffers[i]);
    planned.buffers = alive.at;
    planned.nbuffers = alive.n;
    EXPECT(alive.n > layers && ratio(&planned) <= 1.1);
    expect_sound(&planned);
    arena_close(arena);
  }
}

TEST(a_printed_program_tells_every_step_and_buffer) {
  Arena *arena = arena_open();
  Program *p = fused(arena, 3, 64, 32);
  Text text = {0};
  program_print(p, &text);
  char expected[64];
  for (int i = 0; i < p->nsteps; i++) {
    snprintf(expected, sizeof expected, "\nstep %d of node %d (", i, p->steps[i].node);
    EXPECT(strstr(text.at, expected));
  }
  for (int i = 0; i < p->nbuffers; i++) {
    const Buffer *b = &p->buffers[i];
    snprintf(expected, sizeof expected, " at %lld, steps %d to %d\n", (long long)b->offset, b->first, b->last);
    EXPECT(b->class != BUFFER_TRANSIENT || b->first < 0 || strstr(text.at, expected));
  }
  text_close(&text);
  arena_close(arena);
}

/* A sum over the rows of (T,C), printed. */
static void print_column_sum(int64_t T, int64_t C, const FuseOptions *options, Text *text) {
  Arena *arena = arena_open();
  Graph *g = graph_open(arena);
  graph_var(g, (Var){.name = "x", .class = VAR_INPUT, .shape = SHAPE(T, C)});
  graph_var(g, (Var){.name = "y", .class = VAR_OUTPUT, .shape = SHAPE(1, C)});
  ir_store(g, "y", ir_reduce(g, OP_SUM, ir_load(g, "x"), 0));
  program_print(fuse_program(arena, g, options), text);
  arena_close(arena);
}

TEST(sums_over_rows_are_cut_into_blocks_by_shape_and_options) {
  static const FuseOptions cpu = {0}, five = {.column_blocks = 5},
                           gpu = {.column_blocks = GPU_COLUMN_BLOCKS,
                                  .column_block_rows = GPU_COLUMN_BLOCK_ROWS,
                                  .column_block_width = GPU_COLUMN_BLOCK_WIDTH};
  static const struct {
    const FuseOptions *options;
    int rows, columns, blocks;
  } cases[] = {{&cpu, 1000, 48, 32},    {&cpu, 40, 48, 3},      {&cpu, 16, 48, 1},
               {&five, 100, 48, 5},     {&gpu, 1000, 48, 250},  {&gpu, 8192, 4096, 264},
               {&gpu, 8192, 2048, 528}, {&gpu, 8192, 48, 1056}, {&gpu, 8192, 8192, 264}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Text text = {0};
    char sum[64], finish[64];
    int rows = cases[i].rows, columns = cases[i].columns, blocks = cases[i].blocks;
    print_column_sum(rows, columns, cases[i].options, &text);
    snprintf(sum, sizeof sum, "(%d x %d), %d block%s\n", rows, columns, blocks, blocks == 1 ? "" : "s");
    snprintf(finish, sizeof finish, "(%d x %d), ", columns, blocks);
    EXPECT(strstr(text.at, sum) && !strstr(text.at, finish) == (blocks == 1));
    text_close(&text);
  }
}
