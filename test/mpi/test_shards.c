/* SPDX-License-Identifier: Apache-2.0 */
/* A small model trained on as many ranks as there are, by the interpreter: sharded or not it is the same training, on all
 * ranks, and what pads the shards stays zero. */
#include <stdlib.h>
#include <string.h>

#include "src/base/rng.h"
#include "src/exec/job.h"
#include "src/train/engine.h"
#include "test/mpi/ranks.h"
#include "test/unit/small_model.h"

enum { STEPS = 3, POSITIONS = 9, PASSES = 3, VOCAB = 37, PARAMS = 64, SHORT = 6 /* positions of rows that are not long */ };

static EngineOptions options(void) {
  EngineOptions o = small_options(&(SmallModel){2, VOCAB, 2, 6}, 1, POSITIONS, PASSES, R);
  o.choices.threads = 1;
  o.interpreted = true;
  return o;
}

typedef struct Trained {
  StepResult step[STEPS];
  int nparams;
  float *param[PARAMS];
  int64_t n[PARAMS];
} Trained;

/* Whether a pass has a long row; in the first step the first pass alone, in the second the second. */
static bool is_long(int step, int pass) { return pass == step; }

/* This rank's tokens; a few do not count, more on some ranks than on others.  What is behind a row is padding. */
static void batch(Engine *engine, int step, int pass) {
  int32_t ids[POSITIONS], labels[POSITIONS];
  Rng rng = rng_make((uint64_t)(step * PASSES + pass), RNG_TEST, "tokens", (uint64_t)me);
  for (int i = 0; i < POSITIONS; i++) {
    ids[i] = (int32_t)(rng_uniform(&rng, (uint64_t)i) * VOCAB);
    labels[i] = i <= me || (i >= SHORT && !is_long(step, pass)) ? -100 : (ids[i] * 5 + 3) % VOCAB;
  }
  engine_batch(engine, ids, labels);
}

/* Of padding in this rank's shards, in parameters and moments: elements that are not zero. */
static int count_stray(Engine *engine) {
  const StateTable *t = engine_states(engine);
  int stray = 0;
  for (StateSlot slot = SLOT_PARAM; slot <= SLOT_V; slot++)
    for (int u = 0; u < t->nunits; u++) {
      if (!engine_holds(engine, slot, u)) continue;
      int64_t n = t->units[u].local, first = t->units[u].traits.whole ? 0 : state_share(t, engine_rank(engine)) * n;
      float *at = xmalloc(sizeof *at * (size_t)n);
      engine_read(engine, slot, u, 0, n, at);
      for (int64_t i = 0; i < n; i++) stray += first + i >= t->units[u].n && at[i] != 0;
      free(at);
    }
  return stray;
}

static Trained train(Arena *arena, const EngineOptions *o, int shards) {
  Trained t = {.nparams = 0};
  Dev *dev = dev_open(&(DevOptions){.kind = "cpu", .compiler = "none", .cache = check_folder(), .threads = 1});
  Mesh *split = mesh_data_parallel(comm, shards);
  Engine *engine = engine_open(arena, dev, comm, split, o);
  engine_start(engine);
  engine_init(engine, 3);
  for (int s = 0; s < STEPS; s++) {
    for (int p = 0; p < PASSES; p++) {
      int64_t taken = engine_shorten(engine, is_long(s, p) ? POSITIONS : SHORT);
      EXPECT(taken == (o->shorter[0] && !is_long(s, p) ? SHORT : POSITIONS));
      batch(engine, s, p);
      engine_micro(engine, p);
    }
    t.step[s] = engine_update(engine, s + 1, 1e-2);
    t.step[s].seconds = 0; /* never the same */
  }
  const StateTable *states = engine_states(engine);
  t.nparams = states->nparams;
  EXPECT(t.nparams <= PARAMS);
  for (int p = 0; p < t.nparams; p++) {
    t.n[p] = shape_size(&states->params[p].shape);
    engine_param(engine, p, t.param[p] = arena_array(arena, float, t.n[p]));
  }
  EXPECT(count_stray(engine) == 0);
  engine_close(engine);
  mesh_close(split);
  dev_close(dev);
  return t;
}

static void expect_same_on_all_ranks(Arena *arena, const Trained *t) {
  StepResult *all = arena_array(arena, StepResult, STEPS * R);
  comm_gather(comm, t->step, sizeof t->step, all);
  for (int r = 0; r < R; r++)
    for (int s = 0; s < STEPS; s++) {
      EXPECT(all[r * STEPS + s].loss == t->step[s].loss && all[r * STEPS + s].grad_norm == t->step[s].grad_norm);
      EXPECT(all[r * STEPS + s].tokens == t->step[s].tokens && all[r * STEPS + s].applied);
    }
}

static void expect_near(const Trained *a, const Trained *b) {
  for (int s = 0; s < STEPS; s++) {
    EXPECT_NEAR(a->step[s].loss, b->step[s].loss, 1e-5);
    EXPECT_NEAR(a->step[s].grad_norm, b->step[s].grad_norm, 1e-5);
    EXPECT(a->step[s].tokens == b->step[s].tokens);
  }
  for (int p = 0; p < a->nparams; p++) {
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < a->n[p]; i++) {
      double x = a->param[p][i], y = b->param[p][i];
      difference += (x - y) * (x - y);
      norm += x * x;
    }
    EXPECT(difference <= 1e-8 * norm);
  }
}

/* Every third parameter stays whole. */
static const ParamTraits *some_whole(void) {
  static ParamTraits traits[PARAMS];
  for (int i = 0; i < PARAMS; i++) traits[i] = (ParamTraits){.whole = i % 3 == 0, .lr_factor = 1, .weight_decay = -1};
  return traits;
}

TEST(however_it_is_split_the_training_is_the_same_and_padding_stays_zero) {
  enum { ONE, GROUP, ALL };
  enum { UNTIED, TIED, BRIEF, BASES };
  int group = R == 4 ? 2 : 1, degree[] = {[ONE] = 1, [GROUP] = group, [ALL] = R};
  static const struct {
    int shards;
    bool across, whole, recompute;
    int base; /* what it is the same as: untied, tied, with bf16 moments */
    bool ignore;
  } ways[] = {
      {ONE, false, true, false, UNTIED, false}, {ALL, false, false, false, UNTIED, false},
      {ALL, false, true, true, UNTIED, true},   {ONE, true, true, false, UNTIED, false},
      {ONE, true, false, true, UNTIED, true},   {GROUP, false, false, false, UNTIED, false},
      {GROUP, true, true, true, UNTIED, false}, {GROUP, true, false, false, UNTIED, true},
      {ONE, false, true, true, TIED, false},    {ALL, false, false, true, TIED, false},
      {ALL, false, true, false, TIED, false},   {ONE, true, true, true, TIED, true},
      {ONE, true, false, false, TIED, false},   {GROUP, false, true, false, TIED, true},
      {GROUP, true, false, true, TIED, false},  {ONE, false, true, false, BRIEF, false},
      {ALL, false, false, false, BRIEF, false}, {GROUP, true, true, true, BRIEF, false},
  };
  Arena *arena = arena_open();
  Trained base[BASES]; /* the first of each */
  bool have[BASES] = {false};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    EngineOptions o = options();
    o.across = ways[i].across;
    o.traits = ways[i].ignore ? some_whole() : NULL;
    o.choices.whole = ways[i].whole;
    o.choices.forget = ways[i].recompute ? FORGET_BLOCKS : FORGET_NOTHING;
    o.model.tied = ways[i].base == TIED;
    o.moments = ways[i].base == BRIEF ? DT_BF16 : DT_F32;
    Trained t = train(arena, &o, degree[ways[i].shards]);
    expect_same_on_all_ranks(arena, &t);
    if (have[ways[i].base]) expect_near(&base[ways[i].base], &t);
    if (!have[ways[i].base]) base[ways[i].base] = t;
    have[ways[i].base] = true;
  }
  arena_close(arena);
}

/* Whichever programs its passes take, a step is the same however it is split: all ranks take the same. */
TEST(passes_of_several_lengths_are_the_same_training_however_it_is_split) {
  static const struct {
    bool whole_group, across, recompute;
  } ways[] = {{false, false, false}, {true, false, true}, {false, true, false}};
  Arena *arena = arena_open();
  EngineOptions o = options();
  Trained base = train(arena, &o, 1);
  o.shorter[0] = SHORT;
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    o.across = ways[i].across;
    o.choices.forget = ways[i].recompute ? FORGET_BLOCKS : FORGET_NOTHING;
    Trained t = train(arena, &o, ways[i].whole_group ? R : 1);
    expect_same_on_all_ranks(arena, &t);
    expect_near(&base, &t);
  }
  arena_close(arena);
}

/* Fifty at a time are gathered where there are four units: none has to wait, and none comes twice. */
TEST(units_alive_change_no_bit) {
  Arena *arena = arena_open();
  EngineOptions o = options();
  Trained base = train(arena, &o, R);
  for (int alive = 1; alive <= 50; alive = alive < 4 ? alive + 1 : alive + 46) {
    o.choices.units_alive = alive;
    Trained t = train(arena, &o, R);
    for (int s = 0; s < STEPS; s++) EXPECT(!memcmp(&base.step[s], &t.step[s], sizeof t.step[s]));
    for (int p = 0; p < t.nparams; p++) EXPECT(!memcmp(base.param[p], t.param[p], sizeof(float) * (size_t)t.n[p]));
  }
  arena_close(arena);
}

TEST(exchanged_parts_add_up_to_what_is_scattered) {
  Arena *arena = arena_open();
  EngineOptions o = options();
  for (int across = 0; across < 2; across++) {
    o.across = across;
    o.choices.exchange[MESH_DP_SHARD] = o.choices.exchange[MESH_DP_REPLICATE] = false;
    Trained base = train(arena, &o, across ? 1 : R);
    o.choices.exchange[MESH_DP_SHARD] = o.choices.exchange[MESH_DP_REPLICATE] = true;
    Trained t = train(arena, &o, across ? 1 : R);
    expect_near(&base, &t);
  }
  arena_close(arena);
}

/* All that other ranks may read: what gathers of states and exchanges start from. */
static void expect_open(const Job *job, const JobProgram *p) {
  for (int s = 0; s < p->program->nsteps; s++) {
    const Step *step = &p->program->steps[s];
    if (!step_exchanges(step) && !gather_reads_state(p->program, step)) continue;
    const Buffer *in = &p->program->buffers[step->in[0].place.buffer];
    EXPECT(in->class == BUFFER_TRANSIENT || job->vars.at[p->var[in->var]].offset >= job->split);
  }
}

/* What ranks map of each other is parameters, or what these lie within, and what programs exchange; not moments. */
TEST(states_that_nobody_else_reads_lie_apart) {
  Arena *arena = arena_open();
  EngineOptions o = options();
  Dev *dev = dev_open(&(DevOptions){.kind = "cpu", .compiler = "none", .cache = check_folder(), .threads = 1});
  o.choices.copies = o.choices.exchange[MESH_DP_SHARD] = o.choices.exchange[MESH_DP_REPLICATE] = true;
  for (int i = 0; i < 4; i++) {
    Mesh *split = mesh_data_parallel(comm, i % 2 ? 1 : R);
    o.across = i % 2;
    o.choices.whole = i / 2;
    Engine *engine = engine_open(arena, dev, comm, split, &o);
    engine_start(engine);
    const Job *job = engine_job(engine);
    const StateTable *t = engine_states(engine);
    EXPECT((job->split < job->nbytes) == (R > 1) && (job->open != NULL) == (R > 1));
    for (int row = 0; row < t->nrows; row++)
      EXPECT((job->vars.at[job_find_var(job, t->rows[row].name)].offset >= job->split) ==
             (R > 1 && t->rows[row].slot == SLOT_PARAM));
    for (int p = 0; p < job->programs.n; p++) expect_open(job, &job->programs.at[p]);
    engine_close(engine);
    mesh_close(split);
  }
  dev_close(dev);
  arena_close(arena);
}

/* What is frozen stays as it was; the rest moves, as it does alone where gradients do not depend on it. */
TEST(frozen_parameters_stay_and_a_factor_is_a_rate) {
  static ParamTraits traits[PARAMS];
  Arena *arena = arena_open();
  for (int i = 0; i < PARAMS; i++) traits[i] = (ParamTraits){.frozen = i % 2 == 1, .lr_factor = 1, .weight_decay = -1};
  EngineOptions o = options(), still = o;
  o.traits = traits;
  still.traits = arena_array(arena, ParamTraits, PARAMS); /* a factor of zero: nothing moves, though nothing is frozen */
  Trained t = train(arena, &o, R), begin = train(arena, &still, R);
  for (int p = 0; p < t.nparams; p++) EXPECT((p % 2 == 1) == !memcmp(t.param[p], begin.param[p], sizeof(float) * (size_t)t.n[p]));
  arena_close(arena);
}
