/* SPDX-License-Identifier: Apache-2.0 */
/* Passes over the beginnings of sequences that end in padding: what they give is what whole sequences give. */
#include <math.h>
#include <string.h>

#include "src/base/rng.h"
#include "test/check.h"
#include "test/unit/small_model.h"

enum { STEPS = 2, ROWS = 2, POSITIONS = 24, VOCAB = 61, PASSES_MOST = 4 };

BEFORE_ALL { small_folder_open(); }
AFTER_ALL { small_folder_close(); }

/* Of the longest row of each pass, by step. */
static const int longest[STEPS][PASSES_MOST] = {{3, 7, 24, 8}, {24, 5, 12, 1}};

static EngineOptions options(int passes, bool buckets) {
  EngineOptions o = small_options(&(SmallModel){1, VOCAB, 2, 6}, ROWS, POSITIONS, passes, 1);
  o.eval = o.interpreted = true;
  if (buckets) o.shorter[0] = 7, o.shorter[2] = 12;
  return o;
}

/* The second row is shorter, and padding is ids that would be seen if anything saw them. */
static void batch(Engine *engine, int step, int pass) {
  int32_t ids[ROWS * POSITIONS], labels[ROWS * POSITIONS], starts[ROWS * POSITIONS];
  Rng rng = rng_make((uint64_t)step, RNG_TEST, "rows", (uint64_t)pass);
  for (int i = 0; i < ROWS * POSITIONS; i++) {
    int t = i % POSITIONS, n = (longest[step][pass] + i / POSITIONS) / (1 + i / POSITIONS);
    ids[i] = (int32_t)(rng_uniform(&rng, (uint64_t)i) * VOCAB);
    labels[i] = t >= n ? MODEL_PADDING : t % 5 == 3 ? -100 : (ids[i] * 5 + 3) % VOCAB;
    starts[i] = t >= n ? n : t > n / 2 ? n / 2 + 1 : 0;
  }
  engine_batch(engine, ids, labels);
  engine_segments(engine, starts);
}

typedef struct Trained {
  StepResult step[STEPS];
  double eval[2];
  int64_t n, computed;
  float *params; /* all of them */
  JobMemory memory;
} Trained;

static Trained train(Arena *arena, const char *kind, const EngineOptions *o) {
  SmallRun run = small_run_open(kind, o);
  Trained t = {.memory = job_memory(engine_job(run.engine))};
  for (int s = 0; s < STEPS; s++) {
    for (int p = 0; p < o->passes; p++) {
      t.computed += engine_shorten(run.engine, longest[s][p]);
      batch(run.engine, s, p);
      engine_place(run.engine, s, p * ROWS);
      engine_micro(run.engine, p);
    }
    t.step[s] = engine_update(run.engine, s + 1, 1e-2);
    t.step[s].seconds = 0; /* never the same */
  }
  engine_shorten(run.engine, longest[0][1]);
  batch(run.engine, 0, 1);
  engine_eval_start(run.engine);
  engine_eval_result(run.engine, t.eval);
  const StateTable *states = engine_states(run.engine);
  for (int p = 0; p < states->nparams; p++) t.n += shape_size(&states->params[p].shape);
  float *at = t.params = arena_array(arena, float, t.n);
  for (int p = 0; p < states->nparams; at += shape_size(&states->params[p].shape), p++) engine_param(run.engine, p, at);
  small_run_close(&run);
  return t;
}

static void expect_near(const Trained *a, const Trained *b) {
  for (int s = 0; s < STEPS; s++) {
    EXPECT_NEAR(a->step[s].loss, b->step[s].loss, 1e-5);
    EXPECT_NEAR(a->step[s].grad_norm, b->step[s].grad_norm, 1e-5);
    EXPECT_NEAR(a->step[s].router_loss, b->step[s].router_loss, 1e-5);
    EXPECT(a->step[s].tokens == b->step[s].tokens && a->step[s].applied && b->step[s].applied);
  }
  EXPECT_NEAR(a->eval[0], b->eval[0], 1e-4);
  EXPECT(a->eval[1] == b->eval[1] && a->eval[1] > 0);
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < a->n; i++) {
    difference += pow((double)a->params[i] - b->params[i], 2);
    norm += pow(a->params[i], 2);
  }
  EXPECT(difference <= 1e-8 * norm);
}

static void expect_same_training(EngineOptions whole, EngineOptions shortened) {
  Arena *arena = arena_open();
  Trained a = train(arena, "cpu", &whole), b = train(arena, "cpu", &shortened);
  expect_near(&a, &b);
  EXPECT(a.computed == STEPS * whole.passes * POSITIONS && b.computed < a.computed);
  arena_close(arena);
}

TEST(a_pass_takes_the_shortest_program_that_holds_its_rows) {
  EngineOptions o = options(1, true);
  SmallRun run = small_run_open("cpu", &o);
  const int needed[] = {1, 7, 8, 12, 13, 24}, taken[] = {7, 7, 12, 12, 24, 24};
  for (int i = 0; i < 6; i++) EXPECT(engine_shorten(run.engine, needed[i]) == taken[i]);
  small_run_close(&run);
}

TEST(steps_of_shortened_passes_are_those_of_whole_rows) {
  for (int passes = 1; passes <= PASSES_MOST; passes += passes == 1 ? 1 : 2)
    expect_same_training(options(passes, false), options(passes, true));
}

TEST(documents_within_shortened_rows_stay_apart) {
  EngineOptions whole = options(2, false), shortened = options(2, true);
  whole.segments = shortened.segments = true;
  expect_same_training(whole, shortened);
}

/* Draws are by a position's place in the step's whole rows. */
TEST(dropout_of_shortened_rows_draws_what_whole_rows_draw) {
  EngineOptions whole = options(4, false), shortened = options(4, true);
  whole.dropout = shortened.dropout = (ModelDropout){0.1, 0.2};
  expect_same_training(whole, shortened);
}

/* As long as the batch means as long as its whole rows. */
TEST(dynamic_rope_turns_shortened_rows_as_whole_ones) {
  EngineOptions whole = options(2, false), shortened = options(2, true);
  whole.model.rope.kind = shortened.model.rope.kind = MODEL_ROPE_DYNAMIC;
  whole.model.rope.factor = shortened.model.rope.factor = 4;
  whole.model.max_positions = shortened.model.max_positions = 8;
  expect_same_training(whole, shortened);
}

TEST(losses_of_routers_know_no_padding_in_shortened_rows_either) {
  EngineOptions whole = options(4, false), shortened = options(4, true);
  whole.model.experts = shortened.model.experts = 4;
  whole.model.experts_per_token = shortened.model.experts_per_token = 2;
  whole.router = shortened.router = (ModelRouterLosses){0.5, 0.1};
  expect_same_training(whole, shortened);
}

/* Those behind a shortened row have no gradient from it. */
TEST(learned_positions_go_with_shortened_rows) {
  EngineOptions whole = options(4, false), shortened = options(4, true);
  whole.model.family = shortened.model.family = "gpt2";
  whole.model.kv_heads = shortened.model.kv_heads = whole.model.heads;
  whole.model.max_positions = shortened.model.max_positions = POSITIONS + 1;
  expect_same_training(whole, shortened);
}

TEST(a_window_and_recomputation_go_with_shortened_rows) {
  EngineOptions whole = options(2, false), shortened = options(2, true);
  whole.model.window = shortened.model.window = 9;
  shortened.choices.forget = FORGET_BLOCKS;
  expect_same_training(whole, shortened);
}

/* One compiled program a length over the same arena, with memory that the host can touch and without. */
TEST(compiled_programs_give_the_same_and_a_device_with_memory_of_its_own_the_same_bits) {
  Arena *arena = arena_open();
  EngineOptions whole = options(4, false), o = options(4, true);
  o.shorter[0] = o.interpreted = false;
  Trained interpreted = train(arena, "cpu", &whole), a = train(arena, "cpu", &o), b = train(arena, "apart", &o);
  expect_near(&interpreted, &a);
  EXPECT(!memcmp(a.step, b.step, sizeof a.step) && !memcmp(a.eval, b.eval, sizeof a.eval));
  EXPECT(!memcmp(a.params, b.params, sizeof(float) * (size_t)a.n));
  arena_close(arena);
}

/* Of blocks enough that some are sent away. */
TEST(what_is_offloaded_and_the_hosts_update_go_with_shortened_rows) {
  Arena *arena = arena_open();
  EngineOptions here = options(2, true), away;
  here.shorter[0] = here.interpreted = false;
  here.model.layers = 4;
  away = here;
  away.choices.offload = (OffloadOptions){OFFLOAD_MOMENTS | OFFLOAD_MASTERS | OFFLOAD_GRADIENTS | OFFLOAD_INPUTS, HOME_HOST};
  away.choices.forget = here.choices.forget = FORGET_BLOCKS;
  away.on_host = true;
  here.choices.compute = away.choices.compute = DT_BF16;
  Trained a = train(arena, "cpu", &here), b = train(arena, "cpu", &away), c = train(arena, "apart", &away);
  EXPECT(!memcmp(a.step, b.step, sizeof a.step) && !memcmp(a.params, b.params, sizeof(float) * (size_t)a.n));
  EXPECT(!memcmp(a.step, c.step, sizeof a.step) && !memcmp(a.params, c.params, sizeof(float) * (size_t)a.n));
  EXPECT(b.memory.host > 0 && isfinite(a.step[STEPS - 1].loss));
  arena_close(arena);
}

/* All lengths have one arena, which the longest fills. */
TEST(shorter_programs_want_no_memory_of_their_own) {
  EngineOptions whole = options(4, false), shortened = options(4, true);
  whole.interpreted = shortened.interpreted = false;
  Arena *arena = arena_open();
  Comm *comm = comm_self();
  Mesh *mesh = mesh_open(comm, (int[MESH_AXES]){1, 1, 1, 1, 1});
  JobMemory a = job_memory(engine_job(engine_open(arena, NULL, comm, mesh, &whole))),
            b = job_memory(engine_job(engine_open(arena, NULL, comm, mesh, &shortened)));
  EXPECT(a.vars == b.vars && a.transient == b.transient && a.inputs == b.inputs);
  EXPECT(engine_hash(engine_open(arena, NULL, comm, mesh, &whole)) !=
         engine_hash(engine_open(arena, NULL, comm, mesh, &shortened)));
  mesh_close(mesh);
  comm_close(comm);
  arena_close(arena);
}
