/* SPDX-License-Identifier: Apache-2.0 */
/* A small model trained for some steps, on one rank: what memory it takes, what must not change a bit of it, what stays
 * zero; and how it begins. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/rng.h"
#include "src/train/fit.h"
#include "test/check.h"
#include "test/unit/small_model.h"

enum { STEPS = 3, SEQUENCES = 2, POSITIONS = 21, PASSES = 2, TOKENS = SEQUENCES * POSITIONS };

BEFORE_ALL { small_folder_open(); }
AFTER_ALL { small_folder_close(); }

typedef struct Trained {
  Arena *arena;
  StepResult step[STEPS];
  double eval[2];
  int nparams;
  int64_t *n; /* by parameter */
  float **param, **grad;
  JobMemory memory;
  size_t allocated;
  int stray; /* elements of padding that are not zero, in any slot */
} Trained;

static EngineOptions options(void) {
  EngineOptions o = small_options(&(SmallModel){3, 101, 4, 6}, SEQUENCES, POSITIONS, PASSES, 1);
  o.eval = true;
  return o;
}

/* Tokens of which some do not count. */
static void batch(Engine *engine, int step, int pass) {
  int32_t ids[TOKENS], labels[TOKENS];
  Rng rng = rng_make((uint64_t)step, RNG_TEST, "tokens", (uint64_t)pass);
  for (int i = 0; i < TOKENS; i++) {
    ids[i] = (int32_t)(rng_uniform(&rng, (uint64_t)i) * 101);
    labels[i] = i % 7 == step ? -100 : (ids[i] * 5 + 3) % 101;
  }
  engine_batch(engine, ids, labels);
}

static int count_stray(Engine *engine) {
  const StateTable *states = engine_states(engine);
  int stray = 0;
  for (StateSlot slot = SLOT_PARAM; slot <= SLOT_V; slot++)
    for (int u = 0; u < states->nunits; u++) { /* one rank: it holds all of the unit */
      int64_t first = states->units[u].n, n = states->units[u].padded - first;
      float *at = xmalloc(sizeof *at * (size_t)n);
      engine_read(engine, slot, u, first, n, at);
      for (int64_t i = 0; i < n; i++) stray += at[i] != 0;
      free(at);
    }
  return stray;
}

/* distinct: of the micro-batches of a step. */
static Trained train_on(const EngineOptions *o, int distinct) {
  Trained t = {.arena = arena_open()};
  Dev *dev = small_device("cpu", o->interpreted, o->choices.threads);
  Comm *comm = comm_self();
  Mesh *mesh = mesh_open(comm, (int[MESH_AXES]){1, 1, 1, 1, 1});
  size_t before = dev_allocated(dev);
  Engine *engine = engine_open(t.arena, dev, comm, mesh, o);
  t.memory = job_memory(engine_job(engine));
  JobStart start = engine_start(engine);
  if (getenv("HPCTRAIN_TEST_TIMES"))
    fprintf(stderr, "%d kernels (%d kept) in %.1f s\n", start.kernels, start.cached, start.seconds);
  t.allocated = dev_allocated(dev) - before;
  engine_init(engine, 3);
  for (int s = 0; s < STEPS; s++) {
    for (int p = 0; p < o->passes; p++) {
      batch(engine, s, p % distinct);
      engine_micro(engine, p);
    }
    t.step[s] = engine_update(engine, s + 1, 1e-2);
    t.step[s].seconds = 0; /* never the same */
  }
  engine_eval_start(engine);
  engine_eval_result(engine, t.eval);
  const StateTable *states = engine_states(engine);
  t.nparams = states->nparams;
  t.n = arena_array(t.arena, int64_t, t.nparams);
  t.param = arena_array(t.arena, float *, t.nparams);
  t.grad = arena_array(t.arena, float *, t.nparams);
  for (int p = 0; p < t.nparams; p++) {
    t.n[p] = shape_size(&states->params[p].shape);
    engine_param(engine, p, t.param[p] = arena_array(t.arena, float, t.n[p]));
    engine_gradient(engine, p, t.grad[p] = arena_array(t.arena, float, t.n[p]));
  }
  t.stray = count_stray(engine);
  engine_close(engine);
  mesh_close(mesh);
  comm_close(comm);
  dev_close(dev);
  return t;
}

static Trained train(const EngineOptions *o) { return train_on(o, PASSES); }

static void expect_trained(const Trained *t) {
  for (int s = 0; s < STEPS; s++) EXPECT(t->step[s].applied && t->step[s].loss > 0 && t->step[s].grad_norm > 0);
  EXPECT(t->step[STEPS - 1].loss != t->step[0].loss);
}

static bool same_floats(float *const *a, float *const *b, const Trained *t) {
  for (int p = 0; p < t->nparams; p++)
    if (memcmp(a[p], b[p], sizeof(float) * (size_t)t->n[p])) return false;
  return true;
}

static void expect_same_bits(const Trained *a, const Trained *b) {
  EXPECT(!memcmp(a->step, b->step, sizeof a->step));
  EXPECT(!memcmp(a->eval, b->eval, sizeof a->eval));
  EXPECT(a->nparams == b->nparams && same_floats(a->grad, b->grad, a) && same_floats(a->param, b->param, a));
}

/* The same training with one choice changed. */
static void expect_no_change(const EngineOptions *base, const EngineOptions *changed) {
  Trained a = train(base), b = train(changed);
  expect_trained(&a);
  expect_same_bits(&a, &b);
  arena_close(a.arena);
  arena_close(b.arena);
}

TEST(training_twice_gives_the_same_bits) {
  EngineOptions o = options();
  expect_no_change(&o, &o);
}

TEST(recomputation_changes_no_bit) {
  EngineOptions o = options(), other = o;
  other.choices.forget = FORGET_BLOCKS;
  expect_no_change(&o, &other);
}

TEST(no_amount_of_recomputation_changes_a_bit) {
  EngineOptions o = options(), other = o;
  o.model.layers = other.model.layers = 2;
  Arena *arena = arena_open();
  Comm *comm = comm_self();
  Mesh *mesh = mesh_open(comm, (int[MESH_AXES]){1, 1, 1, 1, 1});
  FitLine line = fit_find(arena, comm, mesh, &o, 1).line;
  mesh_close(mesh);
  comm_close(comm);
  arena_close(arena);
  Trained none = train(&o);
  expect_trained(&none);
  for (int setting = 1; setting < fit_settings(&line); setting += line.blocks) { /* each level, in one of the two blocks */
    fit_choose(&line, setting, &other.choices);
    Trained t = train(&other);
    expect_same_bits(&none, &t);
    arena_close(t.arena);
  }
  arena_close(none.arena);
}

TEST(recomputation_changes_no_bit_in_16_bits_either) {
  for (int i = 0; i < 4; i++) {
    EngineOptions o = options();
    o.choices.compute = i % 2 ? DT_BF16 : DT_F16;
    EngineOptions other = o;
    other.choices.forget = i / 2 ? FORGET_BLOCKS : FORGET_CHEAP;
    expect_no_change(&o, &other);
  }
}

/* The scale is a power of 2, which bf16 and float32 would not notice: so one that is far too large in the beginning is halved, at
 * the cost of a step each time, until gradients are finite; then it stays and ages. */
TEST(a_loss_scale_finds_itself) {
  EngineOptions o = options();
  o.choices.compute = DT_F16;
  SmallRun run = small_run_open("cpu", &o);
  Engine *engine = run.engine;
  EXPECT(engine_scalar(engine, "loss_scale") == SCALE_FIRST);
  double scale = 0x1p40;
  int applied = 0, skipped = 0;
  engine_set_scalar(engine, "loss_scale", (float)scale);
  for (int s = 0; applied < 3 && s < 60; s++) {
    for (int p = 0; p < o.passes; p++) {
      batch(engine, s % STEPS, p);
      engine_micro(engine, p);
    }
    StepResult step = engine_update(engine, s + 1, 1e-2);
    EXPECT(step.scale == scale && isfinite(step.loss));
    applied += step.applied;
    skipped += !step.applied;
    if (!step.applied) scale /= 2;
    EXPECT(engine_scalar(engine, "loss_scale") == scale && engine_scalar(engine, "scale_age") == applied);
    EXPECT(engine_scalar(engine, "updates") == applied); /* a skipped step keeps the count, and the parameters */
  }
  EXPECT(applied == 3 && skipped > 5);
  engine_set_scalar(engine, "scale_age", SCALE_AGE - 1);
  for (int p = 0; p < o.passes; p++) {
    batch(engine, 0, p);
    engine_micro(engine, p);
  }
  EXPECT(engine_update(engine, 99, 1e-2).applied && engine_scalar(engine, "loss_scale") == 2 * scale);
  EXPECT(engine_scalar(engine, "scale_age") == 0);
  small_run_close(&run);
}

TEST(recomputation_changes_no_bit_of_the_interpreter) {
  EngineOptions o = options();
  o.interpreted = true;
  EngineOptions other = o;
  other.choices.forget = FORGET_BLOCKS;
  expect_no_change(&o, &other);
}

/* --- compiled, unfused and interpreted ------------------------------------------------------------------------------------ */

static void expect_near(const Trained *a, const Trained *b, double tolerance) {
  for (int s = 0; s < STEPS; s++) {
    EXPECT_NEAR(a->step[s].loss, b->step[s].loss, tolerance);
    EXPECT_NEAR(a->step[s].grad_norm, b->step[s].grad_norm, tolerance);
    EXPECT(a->step[s].tokens == b->step[s].tokens);
  }
  EXPECT_NEAR(a->eval[0], b->eval[0], tolerance);
}

TEST(fused_is_unfused_is_interpreted) {
  EngineOptions o = options(), unfused = o, interpreted = o;
  unfused.choices.unfused = true;
  interpreted.interpreted = true;
  Trained a = train(&o), b = train(&unfused), c = train(&interpreted);
  expect_near(&a, &c, 1e-4);
  expect_near(&b, &c, 1e-4);
  arena_close(a.arena);
  arena_close(b.arena);
  arena_close(c.arena);
}

/* First, middle and last micro-step on the same tokens are as one: thrice the sums, the same means. */
TEST(a_batch_three_times_has_the_same_mean_and_gradient) {
  EngineOptions one = options(), three = one;
  one.passes = 1;
  one.nominal_tokens = TOKENS;
  three.passes = 3;
  three.nominal_tokens = 3 * TOKENS;
  Trained a = train_on(&one, 1), b = train_on(&three, 1);
  for (int s = 0; s < STEPS; s++) {
    EXPECT_NEAR(a.step[s].loss, b.step[s].loss, 1e-5);
    EXPECT_NEAR(a.step[s].grad_norm, b.step[s].grad_norm, 1e-4);
    EXPECT(3 * a.step[s].tokens == b.step[s].tokens);
  }
  arena_close(a.arena);
  arena_close(b.arena);
}

/* --- memory and padding ----------------------------------------------------------------------------------------------------- */

TEST(what_is_planned_is_allocated) {
  EngineOptions o = options();
  Trained t = train(&o);
  EXPECT(t.allocated == t.memory.vars + t.memory.tables + t.memory.transient);
  EXPECT(t.memory.vars >= t.memory.states + t.memory.carried + t.memory.inputs);
  arena_close(t.arena);
}

/* Where the next bytes of an arena come from; there is room behind it in the same block. */
static char *next_of(Arena *arena) {
  for (int i = 0; i < 2; i++) arena_alloc(arena, (size_t)40 << 10); /* the second in a block of its own */
  return arena_alloc(arena, 1);
}

static void ignore(void *self, int64_t first, int64_t n, const void *from) { (void)self, (void)first, (void)n, (void)from; }

/* All that a job does again and again: steps, and every way to read and write states. */
static void work(Engine *engine, int step) {
  const StateTable *states = engine_states(engine);
  for (int p = 0; p < PASSES; p++) {
    batch(engine, step, p);
    engine_micro(engine, p);
  }
  engine_update(engine, step + 1, 1e-2);
  double eval[2];
  engine_eval_start(engine);
  engine_eval_result(engine, eval);
  for (int p = 0; p < states->nparams; p++) {
    float *whole = xmalloc(sizeof *whole * (size_t)shape_size(&states->params[p].shape));
    engine_param(engine, p, whole);
    engine_gradient(engine, p, whole);
    engine_init_param(engine, p, 3);
    free(whole);
    engine_grad_crc(engine, p);
    engine_get_grad(engine, states->params[p].unit, 0, 1, ignore, NULL);
    for (StateSlot slot = SLOT_PARAM; slot <= SLOT_V; slot++) {
      float one;
      engine_crc(engine, slot, p);
      engine_read(engine, slot, states->params[p].unit, 0, 1, &one);
    }
  }
}

/* An arena gives nothing back before it is closed: what a step kept of it a run of a million steps would keep a million times. */
TEST(what_a_job_does_again_and_again_keeps_nothing) {
  EngineOptions o = options();
  for (int i = 0; i < 2; i++) {
    o.choices.compute = i ? DT_BF16 : DT_F32; /* in 16 bits F32s are in halves */
    Arena *arena = arena_open();
    Dev *dev = small_device("cpu", o.interpreted, o.choices.threads);
    Comm *comm = comm_self();
    Mesh *mesh = mesh_open(comm, (int[MESH_AXES]){1, 1, 1, 1, 1});
    Engine *engine = engine_open(arena, dev, comm, mesh, &o);
    engine_start(engine);
    engine_init(engine, 3);
    work(engine, 0); /* what is made at the first use may stay */
    char *next = next_of(arena);
    work(engine, 1);
    EXPECT((char *)arena_alloc(arena, 1) == next + 16); /* what the arena aligns to */
    engine_close(engine);
    mesh_close(mesh);
    comm_close(comm);
    dev_close(dev);
    arena_close(arena);
  }
}

TEST(padding_stays_zero) {
  EngineOptions o = options();
  Trained t = train(&o);
  expect_trained(&t);
  EXPECT(t.stray == 0);
  arena_close(t.arena);
}

TEST(moments_in_16_bits_take_half_as_much_and_keep_padding_zero) {
  enum { ALIGN = 256 }; /* of a Var */
  EngineOptions o = options(), brief;
  o.interpreted = true;
  brief = o;
  brief.moments = DT_BF16;
  Trained a = train(&o), b = train(&brief);
  expect_trained(&b);
  EXPECT(b.stray == 0);
  int64_t n = 0;
  for (int p = 0; p < a.nparams; p++) n += a.n[p];
  EXPECT_NEAR((double)(a.memory.states - b.memory.states), 4.0 * (double)n, 4.0 * ALIGN * a.nparams);
  for (int s = 0; s < STEPS; s++) EXPECT_NEAR(a.step[s].loss, b.step[s].loss, 2e-3);
  EXPECT(a.step[STEPS - 1].loss != b.step[STEPS - 1].loss);
  arena_close(a.arena);
  arena_close(b.arena);
}

static void make_thirds(void *self, int64_t first, int64_t n, void *to) {
  (void)self;
  for (int64_t i = 0; i < n; i++) ((float *)to)[i] = (float)(first + i) / 3;
}

/* More of them than go by in one part. */
TEST(moments_in_16_bits_take_float32_to_nearest_and_give_it_back) {
  enum { N = 3 << 20, FIRST = 5 };
  EngineOptions o = options();
  o.moments = DT_BF16;
  o.model.vocab = N / 24 + 1;
  o.passes = 1;
  o.choices.compute = DT_BF16;
  for (int apart = 0; apart < 2; apart++) {
    SmallRun run = small_run_open(apart ? "apart" : "cpu", &o);
    Engine *engine = run.engine;
    int unit = 0;
    while (engine_states(engine)->units[unit].n < N) unit++;
    float *back = arena_array(run.arena, float, N);
    engine_put(engine, SLOT_V, unit, FIRST, N - FIRST, make_thirds, NULL);
    engine_read(engine, SLOT_V, unit, 0, N, back);
    int64_t wrong = 0;
    for (int64_t i = 0; i < N; i++) wrong += back[i] != (i < FIRST ? 0 : dtype_round(DT_BF16, (float)(i - FIRST) / 3));
    EXPECT(wrong == 0);
    small_run_close(&run);
  }
}

/* --- initial weights -------------------------------------------------------------------------------------------------------- */

/* Mean and variance of matrices are those that the model asks for, to four standard errors; norms begin as one. */
TEST(initial_weights_have_the_models_deviation) {
  EngineOptions o = options();
  o.model.hidden = 64;
  o.model.init_std = 0.03;
  o.interpreted = true;
  SmallRun run = small_run_open("cpu", &o);
  Engine *engine = run.engine;
  const StateTable *states = engine_states(engine);
  for (int p = 0; p < states->nparams; p++) {
    int64_t n = shape_size(&states->params[p].shape);
    double sum = 0, squares = 0, size = (double)n;
    float *w = arena_array(run.arena, float, n);
    engine_param(engine, p, w);
    for (int64_t i = 0; i < n; i++) sum += w[i], squares += (double)w[i] * w[i];
    if (states->params[p].shape.rank == 1) {
      EXPECT(sum == size && squares == size);
      continue;
    }
    double variance = 0.03 * 0.03;
    EXPECT(fabs(sum / size) < 4 * 0.03 / sqrt(size));
    EXPECT(fabs(squares / size - variance) < 4 * variance * sqrt(2 / size));
  }
  small_run_close(&run);
}

/* --- packing -------------------------------------------------------------------------------------------------------------- */

enum { FIRST_DOCUMENT = 13 }; /* positions of the first of two documents that fill a sequence */

typedef struct Packed {
  double loss;
  int64_t n;   /* labels that count */
  float *grad; /* of all parameters, summed over these */
} Packed;

/* A sequence of documents 0 and 1, or of one alone, from its own start on: those from `from` up to `to`, then padding.  Ids and
 * labels are a function of row and place in the whole; no label crosses a border. */
static void fill_documents(int row, int from, int to, int32_t *ids, int32_t *labels, int32_t *starts) {
  const int begin[] = {0, FIRST_DOCUMENT, POSITIONS};
  for (int i = 0; i < POSITIONS; i++) {
    int at = begin[from] + i, end = at < FIRST_DOCUMENT ? FIRST_DOCUMENT : POSITIONS;
    bool there = at < begin[to], counts = there && at + 1 < end && (at + row) % 5;
    ids[i] = there ? (at * 17 + row * 29) % 101 : 0;
    labels[i] = counts ? (ids[i] * 5 + 3) % 101 : -100;
    starts[i] = there && at >= FIRST_DOCUMENT ? FIRST_DOCUMENT - begin[from] : 0;
  }
}

/* A step on two such rows, in one pass or two. */
static Packed packed_step(Arena *arena, bool segments, int passes, int from, int to) {
  EngineOptions o = small_options(&(SmallModel){3, 101, 4, 6}, SEQUENCES / passes, POSITIONS, passes, 1);
  o.segments = segments;
  o.clip = 0;
  SmallRun run = small_run_open("cpu", &o);
  Engine *engine = run.engine;
  int32_t ids[TOKENS], labels[TOKENS], starts[TOKENS];
  for (int r = 0; r < SEQUENCES; r++)
    fill_documents(r, from, to, ids + r * POSITIONS, labels + r * POSITIONS, starts + r * POSITIONS);
  int64_t counted = 0;
  for (int i = 0; i < TOKENS; i++) counted += labels[i] >= 0;
  for (int p = 0; p < passes; p++) {
    int at = p * TOKENS / passes;
    engine_batch(engine, ids + at, labels + at);
    engine_segments(engine, starts + at);
    engine_micro(engine, p);
  }
  Packed packed = {.loss = engine_update(engine, 1, 1e-2).loss, .n = counted};
  const StateTable *states = engine_states(engine);
  int64_t n = 0;
  for (int p = 0; p < states->nparams; p++) n += shape_size(&states->params[p].shape);
  packed.grad = arena_array(arena, float, n);
  n = 0;
  for (int p = 0; p < states->nparams; p++) {
    engine_gradient(engine, p, packed.grad + n);
    n += shape_size(&states->params[p].shape);
  }
  for (int64_t i = 0; i < n; i++) packed.grad[i] *= (float)counted; /* it was the mean's */
  small_run_close(&run);
  return packed;
}

static int64_t gradient_elements(void) {
  EngineOptions o = small_options(&(SmallModel){3, 101, 4, 6}, 1, POSITIONS, 1, 1);
  int64_t table;
  return model_parameters(&o.model, &table);
}

static double furthest(const float *a, const float *b, const float *c, int64_t n) {
  double far = 0, largest = 0;
  for (int64_t i = 0; i < n; i++) {
    double off = fabs((double)a[i] - (b[i] + (c ? (double)c[i] : 0)));
    if (!(off <= far)) far = off;
    if (fabsf(a[i]) > largest) largest = fabsf(a[i]);
  }
  return far / largest;
}

TEST(two_documents_packed_are_the_mean_of_each_alone) {
  Arena *arena = arena_open();
  int64_t n = gradient_elements();
  Packed both = packed_step(arena, true, 1, 0, 2), first = packed_step(arena, false, 1, 0, 1),
         second = packed_step(arena, false, 1, 1, 2);
  EXPECT(both.n == first.n + second.n && first.n > 0 && second.n > 0);
  double mean = (first.loss * (double)first.n + second.loss * (double)second.n) / (double)both.n;
  EXPECT_NEAR(both.loss, mean, 1e-6);
  EXPECT(furthest(both.grad, first.grad, second.grad, n) < 1e-6);
  Packed across = packed_step(arena, false, 1, 0, 2); /* and is not what it is when the second sees the first */
  EXPECT(fabs(across.loss - mean) > 1e-4);
  arena_close(arena);
}

TEST(packed_passes_with_unequal_masks_are_one_large_batch) {
  Arena *arena = arena_open();
  Packed one = packed_step(arena, true, 1, 0, 2), two = packed_step(arena, true, 2, 0, 2);
  EXPECT_NEAR(one.loss, two.loss, 1e-6);
  EXPECT(furthest(one.grad, two.grad, NULL, gradient_elements()) < 1e-6);
  arena_close(arena);
}
