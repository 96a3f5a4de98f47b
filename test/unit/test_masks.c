/* SPDX-License-Identifier: Apache-2.0 */
/* Labels that do not count: a step is that of the mean over those that do, however they are spread over its passes; and where
 * none counts nothing happens. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/rng.h"
#include "test/check.h"
#include "test/unit/small_model.h"

enum { ROWS = 4, POSITIONS = 12, TOKENS = ROWS * POSITIONS, LAYERS = 1, MODEL_VOCAB = 31 };

BEFORE_ALL { small_folder_open(); }
AFTER_ALL { small_folder_close(); }

typedef struct Lot {
  int32_t ids[TOKENS], labels[TOKENS];
} Lot;

/* Of each row so many labels count. */
static Lot lot_of(const int counts[ROWS]) {
  Lot lot;
  Rng rng = rng_make(1, RNG_TEST, "lot", 0);
  for (int i = 0; i < TOKENS; i++) {
    lot.ids[i] = (int32_t)(rng_uniform(&rng, (uint64_t)i) * MODEL_VOCAB);
    lot.labels[i] = POSITIONS - 1 - i % POSITIONS < counts[i / POSITIONS] ? (lot.ids[i] * 3 + 1) % MODEL_VOCAB : -100;
  }
  return lot;
}

typedef struct Stepped {
  StepResult result;
  double eval;
  int64_t n;
  float *before, *params; /* all of them */
} Stepped;

static float *all_params(Arena *arena, Engine *e, int64_t *n) {
  const StateTable *states = engine_states(e);
  *n = 0;
  for (int p = 0; p < states->nparams; p++) *n += shape_size(&states->params[p].shape);
  float *all = arena_array(arena, float, *n), *at = all;
  for (int p = 0; p < states->nparams; at += shape_size(&states->params[p].shape), p++) engine_param(e, p, at);
  return all;
}

/* One step over the lot, in so many passes. */
static Stepped step(Arena *arena, const Lot *lot, int passes, DType compute) {
  int rows = ROWS / passes;
  EngineOptions o = small_options(&(SmallModel){LAYERS, MODEL_VOCAB, 2, 4}, rows, POSITIONS, passes, 1);
  o.eval = true;
  o.z_loss = 1e-3;
  o.choices.compute = compute;
  o.interpreted = true;
  SmallRun run = small_run_open("cpu", &o);
  Engine *e = run.engine;
  Stepped s;
  s.before = all_params(arena, e, &s.n);
  for (int p = 0; p < passes; p++) {
    engine_batch(e, lot->ids + p * rows * POSITIONS, lot->labels + p * rows * POSITIONS);
    engine_micro(e, p);
  }
  s.result = engine_update(e, 1, 1e-2);
  s.params = all_params(arena, e, &s.n);
  double sums[2] = {0, 0};
  engine_eval_start(e);
  engine_eval_result(e, sums);
  s.eval = sums[1];
  small_run_close(&run);
  return s;
}

static void expect_alike(const Stepped *a, const Stepped *b) {
  EXPECT(a->result.tokens == b->result.tokens && a->result.applied && b->result.applied);
  EXPECT_NEAR(a->result.loss, b->result.loss, 1e-6);
  EXPECT_NEAR(a->result.grad_norm, b->result.grad_norm, 1e-6);
  EXPECT_NEAR(a->result.z_loss, b->result.z_loss, 1e-6);
  for (int64_t i = 0; i < a->n; i++) EXPECT(fabsf(a->params[i] - b->params[i]) <= 1e-6f);
}

TEST(passes_with_unequal_masks_are_one_big_batch) {
  Arena *arena = arena_open();
  const int spread[][ROWS] = {{12, 1, 7, 3}, {1, 12, 12, 12}, {0, 0, 5, 2}, {12, 12, 0, 0}};
  for (size_t k = 0; k < sizeof spread / sizeof *spread; k++) {
    Lot lot = lot_of(spread[k]);
    Stepped one = step(arena, &lot, 1, DT_F32), two = step(arena, &lot, 2, DT_F32), four = step(arena, &lot, 4, DT_F32);
    expect_alike(&one, &two);
    expect_alike(&one, &four);
    EXPECT(one.result.tokens == spread[k][0] + spread[k][1] + spread[k][2] + spread[k][3]);
  }
  arena_close(arena);
}

/* The mean over few is not the mean over all: what divides by positions, or a mean of means, would show. */
TEST(the_mean_is_over_the_labels_that_count) {
  Arena *arena = arena_open();
  Lot all = lot_of((int[]){12, 2, 0, 0}), first = lot_of((int[]){12, 0, 0, 0}), second = lot_of((int[]){0, 2, 0, 0});
  Stepped a = step(arena, &all, 4, DT_F32), b = step(arena, &first, 4, DT_F32), c = step(arena, &second, 4, DT_F32);
  EXPECT_NEAR(a.result.loss, (12 * b.result.loss + 2 * c.result.loss) / 14, 1e-6);
  arena_close(arena);
}

TEST(a_step_whose_labels_are_all_ignored_changes_nothing) {
  Arena *arena = arena_open();
  Lot none = lot_of((int[]){0, 0, 0, 0}), some = lot_of((int[]){3, 0, 0, 0});
  const DType types[] = {DT_F32, DT_BF16, DT_F16};
  for (int k = 0; k < 3; k++) {
    Stepped stays = step(arena, &none, 2, types[k]), moves = step(arena, &some, 2, types[k]);
    size_t nbytes = sizeof(float) * (size_t)stays.n;
    EXPECT(!stays.result.applied && stays.result.tokens == 0 && isfinite(stays.result.loss) && isfinite(stays.result.grad_norm));
    EXPECT(stays.eval == 0 && moves.result.applied && moves.result.tokens == 3);
    EXPECT(!memcmp(stays.before, stays.params, nbytes) && memcmp(moves.before, moves.params, nbytes));
    for (int64_t i = 0; i < moves.n; i++) EXPECT(isfinite(moves.params[i]));
  }
  arena_close(arena);
}

enum { DOCUMENTS = 2, LENGTH = 9 };

static EngineOptions with_experts(int rows, int positions, int passes) {
  EngineOptions o = small_options(&(SmallModel){2, MODEL_VOCAB, 2, 4}, rows, positions, passes, 1);
  o.model.family = "mixtral";
  o.model.experts = 5, o.model.experts_per_token = 2;
  o.router = (ModelRouterLosses){0.5, 0.25};
  o.interpreted = true;
  return o;
}

/* One step of a mixture of experts over two documents, the first of which is half prompt, in a pass of so many rows and positions;
 * what is left of it is padding. */
static Stepped route(Arena *arena, int rows, int positions, bool interpreted) {
  EngineOptions o = with_experts(rows, positions, 1);
  o.interpreted = interpreted;
  SmallRun run = small_run_open("cpu", &o);
  Rng rng = rng_make(2, RNG_TEST, "documents", 0);
  int n = rows * positions, *ids = arena_array(arena, int, n), *labels = arena_array(arena, int, n);
  for (int i = 0; i < n; i++) {
    int document = i / positions, at = i % positions;
    bool padding = document >= DOCUMENTS || at >= LENGTH;
    ids[i] = padding ? i % 3 : (int)(rng_uniform(&rng, (uint64_t)(document * LENGTH + at)) * MODEL_VOCAB);
    labels[i] = padding ? MODEL_PADDING : document + at < LENGTH / 2 ? -100 : (ids[i] * 3 + 1) % MODEL_VOCAB;
  }
  Stepped s;
  engine_batch(run.engine, ids, labels);
  engine_micro(run.engine, 0);
  s.result = engine_update(run.engine, 1, 1e-2);
  s.params = all_params(arena, run.engine, &s.n);
  small_run_close(&run);
  return s;
}

TEST(padding_is_no_token_of_routers_losses) {
  Arena *arena = arena_open();
  Stepped none = route(arena, DOCUMENTS, LENGTH, true);
  const int padded[][2] = {{DOCUMENTS, LENGTH + 7}, {DOCUMENTS + 3, LENGTH}, {DOCUMENTS + 1, LENGTH + 1}};
  EXPECT(none.result.router_loss > 0.5);
  for (size_t k = 0; k < sizeof padded / sizeof *padded; k++) {
    Stepped some = route(arena, padded[k][0], padded[k][1], k > 0);
    expect_alike(&none, &some);
    EXPECT_NEAR(some.result.router_loss, none.result.router_loss, 1e-6);
  }
  arena_close(arena);
}

TEST(a_pass_of_padding_alone_has_no_routers_losses) {
  EngineOptions o = with_experts(1, LENGTH, 2);
  SmallRun run = small_run_open("cpu", &o);
  int ids[LENGTH] = {1, 2, 3}, labels[LENGTH];
  for (int i = 0; i < LENGTH; i++) labels[i] = MODEL_PADDING;
  for (int pass = 0; pass < 2; pass++) {
    engine_batch(run.engine, ids, labels);
    engine_micro(run.engine, pass);
  }
  StepResult r = engine_update(run.engine, 1, 1e-2);
  EXPECT(r.router_loss == 0 && r.grad_norm == 0 && !r.applied);
  small_run_close(&run);
}
