/* SPDX-License-Identifier: Apache-2.0 */
/* What generation keeps of earlier positions: the logits of each position are those of the whole sequence, whatever the family, and
 * whatever the other slots do. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/rng.h"
#include "test/check.h"
#include "test/unit/small_model.h"

enum { VOCAB = 61, SLOTS = 3, PROMPT = 13, KEPT = 19, FIRST = 5 };

BEFORE_ALL { small_folder_open(); }
AFTER_ALL { small_folder_close(); }

typedef struct Asked {
  Arena *arena;
  Dev *dev;
  Comm *comm;
  Mesh *mesh;
  Engine *engine;
} Asked;

static EngineOptions options(const char *family) {
  EngineOptions o = small_options(&(SmallModel){2, VOCAB, 4, 6}, 1, PROMPT, 1, 1);
  o.train = false;
  o.generate = true;
  o.slots = SLOTS;
  o.kept = KEPT;
  o.model.family = family;
  o.model.init_std = 0.3; /* logits that differ */
  o.model.max_positions = 64;
  if (!strcmp(family, "gpt2")) o.model.kv_heads = o.model.heads;
  if (!strcmp(family, "mixtral")) o.model.experts = 4, o.model.experts_per_token = 2;
  return o;
}

static Asked asked_open(const char *kind, const EngineOptions *o) {
  Asked a = {arena_open(), small_device(kind, o->interpreted, 1), comm_self()};
  a.mesh = mesh_open(a.comm, (int[MESH_AXES]){1, 1, 1, 1, 1});
  a.engine = engine_open(a.arena, a.dev, a.comm, a.mesh, o);
  engine_start(a.engine);
  engine_init(a.engine, 7);
  return a;
}

static void asked_close(Asked *a) {
  engine_close(a->engine);
  mesh_close(a->mesh);
  comm_close(a->comm);
  dev_close(a->dev);
  arena_close(a->arena);
}

static void make_ids(int which, int32_t *ids) {
  Rng rng = rng_make((uint64_t)which, RNG_TEST, "ids", 0);
  for (int i = 0; i < KEPT; i++) ids[i] = (int32_t)(rng_uniform(&rng, (uint64_t)i) * VOCAB);
}

/* Relative to the second; NaN stays. */
static double distance(const float *a, const float *b, int64_t n) {
  double d = 0, norm = 0;
  for (int64_t i = 0; i < n; i++) {
    d += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    norm += (double)b[i] * b[i];
  }
  return sqrt(d / norm);
}

/* Positions FIRST … PROMPT - 1 of a sequence one after the other, each beside the whole sequence up to there, which goes into
 * another slot; the rest of the cache has never been written. */
static double worst_of(const EngineOptions *o, const char *kind) {
  Asked a = asked_open(kind, o);
  int32_t ids[KEPT], next[SLOTS] = {0}, at[SLOTS] = {0};
  double worst = 0;
  make_ids(1, ids);
  engine_fill(a.engine, 1, ids, FIRST);
  for (int i = FIRST; i < PROMPT; i++) {
    float kept[VOCAB];
    next[1] = ids[i], at[1] = i;
    memcpy(kept, engine_extend(a.engine, next, at) + VOCAB, sizeof kept);
    double d = distance(kept, engine_fill(a.engine, 0, ids, i + 1), VOCAB);
    worst = d <= worst ? worst : d;
  }
  asked_close(&a);
  return worst;
}

TEST(each_position_has_the_logits_of_the_whole_sequence) {
  static const char *const families[] = {"llama", "mistral", "qwen2", "qwen3", "gpt2", "mixtral"};
  for (int i = 0; i < 6; i++) {
    EngineOptions o = options(families[i]);
    if (i == 1) o.model.window = 4;
    if (i == 2) o.model.window = 6, o.model.window_from = 1; /* not in the first block */
    o.model.attention_bias = o.model.mlp_bias = i == 0;
    EXPECT(worst_of(&o, "cpu") <= 2e-5);
    if (i == 1) EXPECT(worst_of(&o, "apart") <= 2e-5);
    o.interpreted = true;
    EXPECT(worst_of(&o, "cpu") <= 2e-5);
  }
}

static int32_t largest(const float *logits) {
  int32_t best = 0;
  for (int32_t i = 1; i < VOCAB; i++)
    if (logits[i] > logits[best]) best = i;
  return best;
}

TEST(greedy_ids_are_those_without_a_cache) {
  EngineOptions o = options("qwen3");
  Asked a = asked_open("cpu", &o);
  int32_t kept[KEPT], whole[KEPT], next[SLOTS] = {0}, at[SLOTS] = {0};
  make_ids(2, kept);
  memcpy(whole, kept, sizeof whole);
  for (int i = FIRST; i < PROMPT; i++) whole[i] = largest(engine_fill(a.engine, 0, whole, i));
  kept[FIRST] = largest(engine_fill(a.engine, 2, kept, FIRST));
  for (int i = FIRST; i < PROMPT - 1; i++) {
    next[2] = kept[i], at[2] = i;
    kept[i + 1] = largest(engine_extend(a.engine, next, at) + 2 * VOCAB);
  }
  EXPECT(!memcmp(kept, whole, sizeof(int32_t[PROMPT])));
  asked_close(&a);
}

/* In 16 bits the cache holds what attention would have read. */
TEST(sixteen_bits_are_those_of_the_whole_sequence) {
  EngineOptions o = options("llama");
  o.choices.compute = DT_BF16;
  EXPECT(worst_of(&o, "cpu") <= 2e-2);
}

/* Prompts of several lengths, each in its slot, for some steps; only >= 0: that one alone, the other slots idle. */
static void speak(const EngineOptions *o, int only, float logits[SLOTS][VOCAB]) {
  Asked a = asked_open("cpu", o);
  int32_t ids[SLOTS][KEPT], next[SLOTS] = {0}, at[SLOTS] = {0};
  for (int s = 0; s < SLOTS; s++) {
    make_ids(s, ids[s]);
    if (only < 0 || s == only) engine_fill(a.engine, s, ids[s], 3 + 4 * s);
  }
  for (int step = 0; step < 4; step++) {
    for (int s = 0; s < SLOTS; s++)
      if (only < 0 || s == only) at[s] = 3 + 4 * s + step, next[s] = ids[s][at[s]];
    memcpy(logits, engine_extend(a.engine, next, at), sizeof(float[SLOTS][VOCAB]));
  }
  asked_close(&a);
}

TEST(slots_do_not_disturb_one_another) {
  float all[SLOTS][VOCAB], alone[SLOTS][VOCAB];
  EngineOptions o = options("mistral");
  o.model.window = 6;
  speak(&o, -1, all);
  for (int s = 0; s < SLOTS; s++) {
    speak(&o, s, alone);
    EXPECT(!memcmp(all[s], alone[s], sizeof all[s]));
  }
}

/* Where nobody says how long a text will be, it is as long as all that is kept. */
TEST(keys_are_turned_once) {
  EngineOptions o = options("llama");
  o.model.max_positions = 8;
  o.model.rope.kind = MODEL_ROPE_DYNAMIC;
  o.model.rope.factor = 4;
  EXPECT(worst_of(&o, "cpu") <= 2e-5);
}
