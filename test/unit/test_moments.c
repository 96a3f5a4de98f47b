/* SPDX-License-Identifier: Apache-2.0 */
/* Updates whose moments are bf16, evaluated by the interpreter on gradients that are given: whoever holds an element, and among how
 * many ranks, its moments have the same bits; a step that is skipped leaves them; other steps round otherwise. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/rng.h"
#include "src/train/graphs.h"
#include "test/check.h"

enum { MOST = 64, UNITS = 8 };

static StateTable *table_of(Arena *arena, int ranks, DType moments) {
  ModelConfig model;
  CHECK(model_preset("llama-5m", &model));
  model.layers = 2;
  model.vocab = 37;
  model.hidden = 12;
  model.intermediate = 20;
  model.heads = 2;
  model.kv_heads = 1;
  model.head_dim = 6;
  Graph *g = graph_open(arena);
  model_build(g, &model, &(ModelBatch){.sequences = 1, .positions = 1});
  return state_table(arena, g, &(StateOptions){.shards = ranks, .replicas = 1, .moments = moments});
}

/* Of step `step`, gradients and earlier states as the element of its unit alone says; tokens: what each rank has counted. */
typedef struct Case {
  int ranks, rank;
  uint64_t step;
  double tokens;
} Case;

static double value_of(const Case *c, const StateTable *t, const Var *var, int64_t i) {
  const char *slash = strchr(var->name, '/');
  if (!strcmp(var->name, "token_count")) return c->tokens;
  if (!strcmp(var->name, "lr")) return 1e-2;
  if (!strcmp(var->name, "shard")) return c->rank;
  if (!strcmp(var->name, "updates")) return 3;
  if (!strcmp(var->name, "dither_keys")) {
    Rng rng = rng_make(1, RNG_ROUND, t->units[i].name, c->step);
    return (double)rng_key53(&rng);
  }
  if (!strcmp(var->name, "loss_limit") || !strcmp(var->name, "norm_limit")) return INFINITY;
  if (!slash) return 1;
  Rng rng = rng_make(c->step, RNG_TEST, var->name, 0);
  double x = (float)rng_normal(&rng, (uint64_t)(c->rank * shape_size(&var->shape) + i));
  x = var->name[0] == 'v' ? x * x * 1e-3 : x * 0.1;
  return dtype_round(var->dtype, (float)x);
}

/* All ranks have the same scalars here. */
static void sum_alike(void *self, const Node *node, const double *in, double *out) {
  (void)self;
  for (int64_t i = 0; i < shape_size(&node->shape); i++) out[i] = in[i] * (double)node->n[1];
}

/* What a slot of a unit holds behind the update, whole. */
typedef struct Moments {
  int nunits;
  double *before[UNITS][2], *after[UNITS][2]; /* m, v */
  int64_t n[UNITS];                           /* of parameters */
} Moments;

static Moments update(Arena *arena, int ranks, DType moments, uint64_t step, bool skipped) {
  StateTable *t = table_of(arena, ranks, moments);
  Graph *g = graph_update(arena, t, &(UpdateOptions){.adam = {0.9, 0.95, 1e-8, 0.1}, .nominal_tokens = 64});
  Moments all = {.nunits = t->nunits};
  CHECK(t->nunits <= UNITS && g->vars.n <= MOST);
  for (int u = 0; u < t->nunits; u++) all.n[u] = t->units[u].n;
  for (int rank = 0; rank < ranks; rank++) {
    Case c = {ranks, rank, step, skipped ? 0 : 64.0 / ranks};
    double *var[MOST];
    for (int v = 0; v < g->vars.n; v++) {
      int64_t n = shape_size(&g->vars.at[v].shape);
      var[v] = arena_array(arena, double, n);
      for (int64_t i = 0; i < n; i++) var[v][i] = value_of(&c, t, &g->vars.at[v], i);
    }
    for (int pass = 0; pass < 2; pass++) {
      if (pass) graph_interpret(g, var, sum_alike, NULL);
      for (int u = 0; u < t->nunits; u++)
        for (int s = 0; s < 2; s++) {
          double **to = pass ? &all.after[u][s] : &all.before[u][s];
          int at = graph_find_var(g, arena_printf(arena, "%s/%s", s ? "v" : "m", t->units[u].name));
          CHECK(at >= 0 && g->vars.at[at].dtype == moments);
          if (!*to) *to = arena_array(arena, double, t->units[u].padded);
          memcpy(*to + rank * t->units[u].local, var[at], sizeof(double) * (size_t)t->units[u].local);
        }
    }
  }
  return all;
}

static int64_t count_other(const Moments *a, double *const x[UNITS][2], const Moments *b, double *const y[UNITS][2]) {
  int64_t other = 0;
  EXPECT(a->nunits == b->nunits);
  for (int u = 0; u < a->nunits; u++)
    for (int s = 0; s < 2; s++)
      for (int64_t i = 0; i < a->n[u]; i++) other += x[u][s][i] != y[u][s][i];
  return other;
}

TEST(one_two_three_and_four_ranks_round_alike) {
  Arena *arena = arena_open();
  Moments one = update(arena, 1, DT_BF16, 7, false);
  EXPECT(count_other(&one, one.before, &one, one.after) > 100);
  for (int ranks = 2; ranks <= 4; ranks++) {
    Moments more = update(arena, ranks, DT_BF16, 7, false);
    EXPECT(count_other(&one, one.after, &more, more.after) == 0);
  }
  arena_close(arena);
}

TEST(a_skipped_step_leaves_all_bits) {
  Arena *arena = arena_open();
  for (int ranks = 1; ranks <= 2; ranks++) {
    Moments skipped = update(arena, ranks, DT_BF16, 7, true);
    EXPECT(count_other(&skipped, skipped.before, &skipped, skipped.after) == 0);
  }
  arena_close(arena);
}

/* Against moments in F32 from the same start: no farther than the next bf16, and none of them by a rule. */
TEST(moments_are_next_to_what_float32_gives_on_both_sides) {
  Arena *arena = arena_open();
  Moments brief = update(arena, 1, DT_BF16, 5, false), whole = update(arena, 1, DT_BF16, 6, false);
  EXPECT(count_other(&brief, brief.after, &whole, whole.after) > 100);
  StateTable *t = table_of(arena, 1, DT_F32);
  for (int s = 0; s < 2; s++) {
    int64_t up = 0, n = 0;
    for (int u = 0; u < brief.nunits; u++)
      for (int64_t i = 0; i < brief.n[u]; i++) {
        Case c = {1, 0, 5, 64};
        Var grad = {.name = state_grad(arena, &t->units[u]), .shape = SHAPE(t->units[u].local)};
        double g = value_of(&c, t, &grad, i), before = brief.before[u][s][i], is = brief.after[u][s][i];
        double due = s ? 0.95 * before + (1 - 0.95) * g * g : 0.9 * before + (1 - 0.9) * g;
        EXPECT(fabs(is - due) <= 0x1p-7 * fabs(due));
        up += fabs(is) > fabs(due);
        n++;
      }
    EXPECT(fabs((double)up - (double)n / 2) < 5 * sqrt((double)n) / 2);
  }
  arena_close(arena);
}
