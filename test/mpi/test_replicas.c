/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that hold the same states compare them: alike while training goes well, and the rank and tensor are named where one element
 * of one rank has another bit. */
#include <stdio.h>
#include <string.h>

#include "src/base/rng.h"
#include "src/train/replicas.h"
#include "test/mpi/ranks.h"
#include "test/unit/small_model.h"

enum { POSITIONS = 9, VOCAB = 37, PARAMS = 64 };

typedef struct Case {
  Arena *arena;
  Dev *dev;
  Mesh *mesh;
  Engine *engine;
} Case;

/* compute: bf16 has parameters in halves, and moments of 16 bits with it. */
static Case begin(int shards, bool across, const ParamTraits *traits, DType compute) {
  Case c = {.arena = arena_open(), .mesh = mesh_data_parallel(comm, shards)};
  EngineOptions o = small_options(&(SmallModel){2, VOCAB, 2, 6}, 1, POSITIONS, 1, R);
  o.choices.threads = 1;
  o.choices.compute = compute;
  o.moments = compute == DT_BF16 ? DT_BF16 : DT_F32;
  o.interpreted = true;
  o.compare = true;
  o.across = across;
  o.traits = traits;
  c.dev = dev_open(&(DevOptions){.kind = "cpu", .compiler = "none", .cache = check_folder(), .threads = 1});
  c.engine = engine_open(c.arena, c.dev, comm, c.mesh, &o);
  engine_start(c.engine);
  engine_init(c.engine, 3);
  return c;
}

static void end(Case *c) {
  engine_close(c->engine);
  mesh_close(c->mesh);
  dev_close(c->dev);
  arena_close(c->arena);
}

static void train(Case *c, int step) {
  int32_t ids[POSITIONS], labels[POSITIONS];
  Rng rng = rng_make((uint64_t)step, RNG_TEST, "tokens", (uint64_t)me);
  for (int i = 0; i < POSITIONS; i++) {
    ids[i] = (int32_t)(rng_uniform(&rng, (uint64_t)i) * VOCAB);
    labels[i] = (ids[i] * 5 + 3) % VOCAB;
  }
  engine_batch(c->engine, ids, labels);
  engine_micro(c->engine, 0);
  EXPECT(engine_update(c->engine, step, 1e-2).applied);
}

static void give_back(void *self, int64_t first, int64_t n, void *to) {
  memcpy(to, (float *)self + first, sizeof(float) * (size_t)n);
}

/* One bit of one element of a parameter's slot on one rank, the lowest that its format has. */
static void spoil(Case *c, int rank, int param, StateSlot slot, int64_t element) {
  const StateTable *t = engine_states(c->engine);
  int64_t first, n, at;
  if (me != rank || !state_piece(t, param, engine_rank(c->engine), &first, &n, &at) || element >= n) return;
  float x;
  uint32_t bits;
  engine_read(c->engine, slot, t->params[param].unit, at + element, 1, &x);
  memcpy(&bits, &x, sizeof bits);
  bits ^= slot != SLOT_PARAM && t->moments == DT_BF16 ? 1u << 16 : 1;
  memcpy(&x, &bits, sizeof x);
  engine_put(c->engine, slot, t->params[param].unit, at + element, 1, give_back, &x);
}

static void expect_alike(Case *c) {
  Text told = {0};
  EXPECT(replicas_agree(c->engine, comm, &told) && !told.n);
  text_close(&told);
}

/* The ranks' own words, on all ranks. */
static void expect_told(Case *c, const char *rank, const char *tensor) {
  Text told = {0};
  EXPECT(!replicas_agree(c->engine, comm, &told));
  EXPECT(told.n && strstr(told.at, rank) && strstr(told.at, tensor));
  text_close(&told);
}

static int find(const Case *c, const char *name) {
  int p = 0;
  while (strcmp(engine_states(c->engine)->params[p].name, name)) p++;
  return p;
}

#define DOWN "model.layers.1.mlp.down_proj.weight"

TEST(replicas_are_alike_until_one_bit_of_one_is_not) {
  if (R == 1) return;
  for (int bf16 = 0; bf16 < 2; bf16++) {
    Case c = begin(1, false, NULL, bf16 ? DT_BF16 : DT_F32);
    expect_alike(&c);
    for (int s = 1; s <= 2; s++) train(&c, s);
    expect_alike(&c);
    for (StateSlot slot = SLOT_PARAM; slot <= SLOT_V; slot++) {
      static const char *const of[] = {": " DOWN, ": the first moment of " DOWN, ": the second moment of " DOWN};
      spoil(&c, R - 1, find(&c, DOWN), slot, 17);
      char name[24];
      snprintf(name, sizeof name, "rank %d (", R - 1);
      expect_told(&c, name, of[slot]);
      spoil(&c, R - 1, find(&c, DOWN), slot, 17);
      expect_alike(&c);
    }
    end(&c);
  }
}

/* Groups of two shards: the replicas of a shard hold the same, not its other ranks. */
TEST(groups_are_compared_shard_by_shard) {
  if (R != 4) return;
  Case c = begin(2, false, NULL, DT_F32);
  train(&c, 1);
  expect_alike(&c);
  for (int p = 0; p < engine_states(c.engine)->nparams; p++) spoil(&c, 3, p, SLOT_PARAM, 0);
  expect_told(&c, "rank 3 (", " and its replica do not hold the same: model.");
  end(&c);
}

/* What is shared out has no replicas; whole parameters have, and so have scalars. */
TEST(whole_parameters_and_scalars_are_compared) {
  static ParamTraits traits[PARAMS];
  if (R == 1) return;
  for (int i = 0; i < PARAMS; i++) traits[i] = (ParamTraits){.whole = i % 3 == 0, .lr_factor = 1, .weight_decay = -1};
  for (int across = 0; across < 2; across++) {
    Case c = begin(across ? 1 : R, across, traits, DT_F32);
    train(&c, 1);
    expect_alike(&c);
    spoil(&c, 1, 1, SLOT_PARAM, 0);
    expect_alike(&c);
    spoil(&c, 1, 3, SLOT_PARAM, 0);
    expect_told(&c, "rank 1 (", engine_states(c.engine)->params[3].name);
    spoil(&c, 1, 3, SLOT_PARAM, 0);
    if (me == R - 1) engine_set_scalar(c.engine, "updates", 7);
    expect_told(&c, "", "updates");
    end(&c);
  }
}
