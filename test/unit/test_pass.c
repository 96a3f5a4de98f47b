/* SPDX-License-Identifier: Apache-2.0 */
/* Passes, text in and text out (test/ir), and what holds of them on random graphs; the state table's arithmetic. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/file.h"
#include "src/base/rng.h"
#include "src/pass/pass.h"
#include "test/check.h"
#include "test/unit/random_graph.h"

/* --- text in, text out -------------------------------------------------------------------------------------------------- */

static const char *path_of(Arena *arena, const char *file) {
  const char *srcdir = getenv("srcdir");
  return arena_printf(arena, "%s/test/ir/%s.txt", srcdir ? srcdir : ".", file);
}

static int number_after(const char *options, const char *name, int otherwise) {
  const char *at = strstr(options, name);
  return at ? atoi(at + strlen(name)) : otherwise;
}

/* "ignore=NAME", "freeze=NAME": of one parameter. */
static const ParamTraits *traits_of(Arena *arena, const Graph *g, const char *options) {
  ParamTraits *traits = arena_array(arena, ParamTraits, g->vars.n + 1);
  const char *ignore = strstr(options, "ignore="), *freeze = strstr(options, "freeze=");
  for (int i = 0, p = 0; i < g->vars.n; i++) {
    const char *name = g->vars.at[i].name;
    size_t n = strlen(name);
    if (g->vars.at[i].class != VAR_PARAM) continue;
    traits[p++] = (ParamTraits){.whole = ignore && !strncmp(ignore + 7, name, n) && strchr(" ,", ignore[7 + n]),
                                .frozen = freeze && !strncmp(freeze + 7, name, n) && strchr(" ,", freeze[7 + n]),
                                .lr_factor = 1,
                                .weight_decay = -1};
  }
  return traits;
}

static OffloadOptions offload_options(const char *options) {
  static const struct {
    const char *name;
    int what;
  } bits[] = {
      {" moments", OFFLOAD_MOMENTS}, {" masters", OFFLOAD_MASTERS}, {" gradients", OFFLOAD_GRADIENTS}, {" inputs", OFFLOAD_INPUTS}};
  OffloadOptions o = {.moments = strstr(options, " files") ? HOME_FILE : HOME_HOST};
  for (size_t i = 0; i < sizeof bits / sizeof *bits; i++)
    if (strstr(options, bits[i].name)) o.what |= bits[i].what;
  return o;
}

static const Graph *run_pass(Arena *arena, const Graph *g, const char *options) {
  if (!strncmp(options, "recompute", 9)) {
    int level = strstr(options, "cheap") ? FORGET_CHEAP : number_after(options, "level=", FORGET_BLOCKS);
    return pass_recompute(g, arena, (Forget)level, number_after(options, "spared=", 0));
  }
  if (!strncmp(options, "accumulate", 10)) return pass_accumulate(g, arena);
  if (!strncmp(options, "schedule", 8)) return pass_schedule(g, arena, number_after(options, "units_alive=", 1));
  if (!strncmp(options, "precision", 9)) {
    DType compute = strstr(options, "f16") ? strstr(options, "bf16") ? DT_BF16 : DT_F16 : DT_F32;
    return pass_precision(g, arena, &(PrecisionOptions){compute, strstr(options, " emulated") ? DT_F32 : compute});
  }
  if (!strncmp(options, "prefetch", 8)) return pass_prefetch(g, arena);
  if (!strncmp(options, "offload", 7)) {
    OffloadOptions o = offload_options(options);
    return pass_offload(g, arena, state_table(arena, g, &(StateOptions){.shards = 1, .replicas = 1}), &o);
  }
  CHECK(!strncmp(options, "shard", 5));
  StateTable *table = state_table(arena, g,
                                  &(StateOptions){.shards = number_after(options, "shards=", 1),
                                                  .replicas = number_after(options, "replicas=", 1),
                                                  .across = strstr(options, " across"),
                                                  .split = strstr(options, " split"),
                                                  .traits = traits_of(arena, g, options)});
  ShardOptions o = {.compute = strstr(options, " bf16") ? DT_BF16 : DT_F32,
                    .reduce = strstr(options, " reduce16") ? DT_BF16 : DT_F32,
                    .shard = 2,
                    .replicate = 1,
                    .units_alive = number_after(options, "units_alive=", 1),
                    .exchange = {strstr(options, " exchange"), strstr(options, " exchange")},
                    .whole = strstr(options, " whole"),
                    .first = strstr(options, " first"),
                    .last = strstr(options, " last")};
  return pass_shard(g, arena, table, &o);
}

/* What the pass named in a case's first line makes of its graph. */
static const char *case_result(Arena *arena, const char *options, const char *graph) {
  Graph *g = graph_open(arena);
  Why why = {""};
  if (!graph_try_parse(g, graph, &why)) check_failed(__FILE__, __LINE__, "%s: %s", options, why.text);
  graph_check(g, "parse");
  g = (Graph *)run_pass(arena, g, options);
  graph_check(g, options);
  g = graph_simplify(g, arena); /* without what nobody reads */
  Text text = {0};
  graph_print(g, &text);
  const char *result = arena_strdup(arena, text.at);
  text_close(&text);
  return result;
}

/* Goes over the cases of a file; `now` collects the file as it should be. */
static void run_cases(Arena *arena, char *at, Text *now, bool compare) {
  while (at) {
    char *next = strstr(at + 1, "\n== "), *graph = strchr(at, '\n') + 1, *split = strstr(graph, "\n--\n");
    if (next) *next = 0;
    CHECK(split && !strncmp(at, "== ", 3));
    *split = 0;
    graph[-1] = 0;
    const char *expected = split + 4;
    const char *options = arena_printf(arena, "%.*s", (int)strcspn(at + 3, ":"), at + 3);
    const char *result = case_result(arena, options, arena_printf(arena, "%s\n", graph));
    size_t n = strlen(expected);
    while (n && expected[n - 1] == '\n') n--; /* blank lines between cases */
    expected = arena_printf(arena, "%.*s\n", (int)n, expected);
    if (compare && strcmp(result, expected)) fprintf(stderr, "%s\n", at);
    if (compare) EXPECT_TEXT(result, expected);
    text_printf(now, "%s\n%s\n--\n%s%s", at, graph, result, next ? "\n" : "");
    at = next ? next + 1 : NULL;
  }
}

static void expect_file(const char *file) {
  Arena *arena = arena_open();
  const char *path = path_of(arena, file);
  size_t n;
  char *text = file_read(path, &n), *first = text ? strstr(text, "\n== ") : NULL;
  if (!first) check_failed(__FILE__, __LINE__, "%s: no cases", path);
  bool write = getenv("HPCTRAIN_TEST_WRITE");
  *first = 0;
  Text now = {0};
  text_printf(&now, "%s\n", text);
  run_cases(arena, first + 1, &now, !write);
  if (write) {
    FILE *f = fopen(path, "w");
    CHECK(f && fwrite(now.at, 1, now.n, f) == now.n && !fclose(f));
  }
  text_close(&now);
  free(text);
  arena_close(arena);
}

TEST(recompute_does_as_written) { expect_file("recompute"); }
TEST(precision_does_as_written) { expect_file("precision"); }
TEST(shard_does_as_written) { expect_file("shard"); }
TEST(accumulate_does_as_written) { expect_file("accumulate"); }
TEST(schedule_does_as_written) { expect_file("schedule"); }
TEST(offload_does_as_written) { expect_file("offload"); }

/* --- on random graphs ----------------------------------------------------------------------------------------------------- */

static const char *const passes[] = {"recompute",
                                     "accumulate",
                                     "recompute cheap",
                                     "recompute level=2 spared=1",
                                     "precision",
                                     "schedule units_alive=1",
                                     "schedule units_alive=3",
                                     "offload inputs",
                                     "prefetch"};

/* The largest difference between what two graphs with the same Vars leave in them, relative to their sizes. */
static double difference(Arena *arena, const Graph *a, const Graph *b, uint64_t seed) {
  double **x = random_values(arena, a, seed), **y = random_values(arena, a, seed), most = 0;
  graph_interpret(a, x, NULL, NULL);
  graph_interpret(b, y, NULL, NULL);
  for (int v = 0; v < a->vars.n; v++)
    for (int64_t i = 0; i < shape_size(&a->vars.at[v].shape); i++) {
      double error = fabs(x[v][i] - y[v][i]) / (1 + fabs(x[v][i]));
      if (!(error <= most)) most = error; /* keeps a NaN */
    }
  return most;
}

/* Bit for bit, but for accumulation, which adds in another order. */
TEST(passes_keep_values) {
  for (int seed = 0; seed < 60; seed++)
    for (size_t p = 0; p < sizeof passes / sizeof *passes; p++) {
      Arena *arena = arena_open();
      RandomSpec spec = {.seed = (uint64_t)seed, .nodes = 70, .big = true, .phases = true, .collectives = true, .elements = 512};
      const Graph *g = random_graph(arena, spec), *after = run_pass(arena, g, passes[p]);
      graph_check(after, passes[p]);
      double worst = difference(arena, g, after, spec.seed);
      if (worst > 0) fprintf(stderr, "seed %d, %s: %g\n", seed, passes[p], worst);
      EXPECT(p == 1 ? worst <= 1e-12 : worst == 0);
      arena_close(arena);
    }
}

/* Operands in 16 bits, and operands in F32 that are rounded to 16 bits all the same, are one arithmetic. */
TEST(rounding_does_not_depend_on_what_big_ops_take) {
  static const char *const ways[][2] = {{"precision bf16", "precision bf16 emulated"}, {"precision f16", "precision f16 emulated"}};
  for (int seed = 0; seed < 60; seed++) {
    Arena *arena = arena_open();
    RandomSpec spec = {.seed = (uint64_t)seed, .nodes = 70, .big = true, .phases = true, .elements = 512};
    const Graph *g = graph_simplify(random_graph(arena, spec), arena), *after[2];
    for (int i = 0; i < 2; i++) {
      after[i] = run_pass(arena, g, ways[seed % 2][i]);
      graph_check(after[i], ways[seed % 2][i]);
      for (int k = 0; k < after[i]->nodes.n; k++) EXPECT(graph_node(after[i], k)->op != OP_KEEP);
    }
    EXPECT(difference(arena, after[0], after[1], spec.seed) == 0);
    arena_close(arena);
  }
}

/* --- the state table ------------------------------------------------------------------------------------------------------ */

static int64_t draw(const Rng *rng, uint64_t i, int64_t n) { return (int64_t)(rng_uniform(rng, i) * (double)n); }

/* Parameters of some units, matrices and vectors in any order, some of one element. */
static Graph *random_model(Arena *arena, uint64_t seed) {
  Graph *g = graph_open(arena);
  Rng rng = rng_make(seed, RNG_TEST, "model", 0);
  int n = 1 + (int)draw(&rng, 0, 12);
  for (int i = 0; i < n; i++) {
    uint64_t at = 10 * (uint64_t)i + 1;
    int64_t rows = 1 + draw(&rng, at, 20), columns = 1 + draw(&rng, at + 1, 30);
    graph_var(g, (Var){.name = arena_printf(arena, "p%d", i),
                       .class = VAR_PARAM,
                       .dtype = DT_F32,
                       .shape = draw(&rng, at + 2, 3) ? SHAPE(rows, columns) : SHAPE(columns),
                       .unit = arena_printf(arena, "unit%d", (int)draw(&rng, at + 3, 4))});
  }
  return g;
}

typedef bool Piece(const StateTable *t, int param, StateRank rank, int64_t *first, int64_t *count, int64_t *at);

/* How many ranks hold each element of a parameter (or take it for a checkpoint), and that none lies where another does. */
static void expect_covered(Arena *arena, const StateTable *t, Piece *piece, const int *copies) {
  int ranks = t->shards * t->replicas;
  int **taken = arena_array(arena, int *, ranks * t->nunits);
  for (int i = 0; i < ranks * t->nunits; i++) taken[i] = arena_ints(arena, (int)t->units[i % t->nunits].local, 0);
  for (int p = 0; p < t->nparams; p++) {
    const StateParam *param = &t->params[p];
    int *covered = arena_ints(arena, (int)shape_size(&param->shape), 0);
    for (int r = 0; r < ranks; r++) {
      int64_t first, count, at;
      if (!piece(t, p, (StateRank){r % t->shards, r / t->shards}, &first, &count, &at)) continue;
      EXPECT(count > 0 && first >= 0 && at >= 0 && at + count <= t->units[param->unit].local);
      EXPECT(first + count <= shape_size(&param->shape));
      for (int64_t i = 0; i < count; i++) {
        covered[first + i]++;
        EXPECT(!taken[r * t->nunits + param->unit][at + i]++);
      }
    }
    for (int64_t i = 0; i < shape_size(&param->shape); i++) EXPECT(covered[i] == copies[p]);
  }
}

/* Some parameters whole, some frozen, some with a rate or a decay of their own. */
static const ParamTraits *random_traits(Arena *arena, const Graph *model, uint64_t seed) {
  static const double factors[] = {1, 0.5, 0.12345678, 0.12345679};
  ParamTraits *traits = arena_array(arena, ParamTraits, model->vars.n + 1);
  Rng rng = rng_make(seed, RNG_TEST, "traits", 0);
  for (int i = 0; i < model->vars.n; i++) {
    uint64_t at = 4 * (uint64_t)i;
    traits[i] = (ParamTraits){draw(&rng, at, 4) == 0, draw(&rng, at + 1, 4) == 0, factors[draw(&rng, at + 2, 4)],
                              draw(&rng, at + 3, 4) ? -1 : 0};
  }
  return traits;
}

TEST(every_element_of_every_parameter_is_held_as_often_as_the_strategy_says_and_saved_once) {
  for (uint64_t seed = 0; seed < 60; seed++)
    for (int i = 0; i < 18; i++) {
      Arena *arena = arena_open();
      int shards = 1 + i % 3, replicas = 1 + i / 3 % 3;
      bool across = i >= 9;
      const Graph *model = random_model(arena, seed);
      const ParamTraits *traits = seed % 3 ? random_traits(arena, model, seed) : NULL;
      StateOptions o = {.shards = shards, .replicas = replicas, .across = across, .traits = traits};
      const StateTable *t = state_table(arena, model, &o);
      int *held = arena_array(arena, int, t->nparams + 1), *once = arena_ints(arena, t->nparams + 1, 1);
      for (int p = 0; p < t->nparams; p++)
        held[p] = t->units[t->params[p].unit].traits.whole ? shards * replicas : across ? 1 : replicas;
      expect_covered(arena, t, state_piece, held);
      expect_covered(arena, t, state_piece_once, once);
      arena_close(arena);
    }
}

TEST(parameters_of_one_unit_have_the_same_traits) {
  for (uint64_t seed = 0; seed < 60; seed++) {
    Arena *arena = arena_open();
    const Graph *model = random_model(arena, seed);
    const ParamTraits *traits = random_traits(arena, model, seed);
    const StateTable *t =
        state_table(arena, model, &(StateOptions){.shards = 2, .replicas = 1, .split = seed & 1, .traits = traits});
    for (int p = 0; p < t->nparams; p++) {
      const ParamTraits *unit = &t->units[t->params[p].unit].traits;
      EXPECT(unit->frozen == traits[p].frozen && unit->whole == traits[p].whole);
      EXPECT(unit->frozen || (unit->lr_factor == traits[p].lr_factor && unit->weight_decay == traits[p].weight_decay));
    }
    for (int i = 0; i < t->nrows; i++) /* what is frozen has no moments and no lower halves */
      EXPECT(t->rows[i].unit < 0 || t->rows[i].slot == SLOT_PARAM || !t->units[t->rows[i].unit].traits.frozen);
    arena_close(arena);
  }
}

TEST(units_hold_matrices_first_and_are_padded_as_little_as_equal_shards_allow) {
  for (uint64_t seed = 0; seed < 60; seed++)
    for (int ranks = 1; ranks <= 7; ranks++) {
      Arena *arena = arena_open();
      const StateTable *t = state_table(arena, random_model(arena, seed), &(StateOptions){.shards = ranks, .replicas = 1});
      int64_t *n = arena_array(arena, int64_t, t->nunits);
      for (int p = 0; p < t->nparams; p++) {
        const StateParam *param = &t->params[p];
        int64_t size = shape_size(&param->shape), decayed = t->units[param->unit].decayed;
        EXPECT(param->shape.rank >= 2 ? param->offset + size <= decayed : param->offset >= decayed);
        n[param->unit] += size;
        EXPECT(state_find_param(t, param->name) == p);
      }
      EXPECT(state_find_param(t, "") == -1 && state_find_param(t, "no such") == -1);
      for (int u = 0; u < t->nunits; u++) {
        const StateUnit *unit = &t->units[u];
        EXPECT(unit->n == n[u] && unit->padded >= n[u] && unit->padded - n[u] < (int64_t)STATE_PAD * ranks);
        EXPECT(unit->local * ranks == unit->padded && unit->local % STATE_PAD == 0);
      }
      int rows = 0; /* of each slot, one a unit, and one that counts updates */
      for (int i = 0; i < t->nrows; i++) rows += t->rows[i].unit < 0 ? 1 : t->rows[i].n == t->units[t->rows[i].unit].local;
      EXPECT(rows == t->nrows && t->nrows == 3 * t->nunits + 1);
      arena_close(arena);
    }
}
