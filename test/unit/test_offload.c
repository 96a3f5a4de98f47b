/* SPDX-License-Identifier: Apache-2.0 */
/* What lies off the device trains as what lies on it, bit for bit, whatever is offloaded and however; and takes none of its memory.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/rng.h"
#include "src/exec/files.h"
#include "src/train/engine.h"
#include "test/check.h"
#include "test/unit/small_model.h"

enum { STEPS = 2, SEQUENCES = 2, POSITIONS = 12, TOKENS = SEQUENCES * POSITIONS, PASSES_MOST = 4, VOCAB = 61 };

BEFORE_ALL { small_folder_open(); }
AFTER_ALL { small_folder_close(); }

typedef struct Trained {
  StepResult step[STEPS];
  JobMemory memory;
  uint64_t states, grads; /* hashes of all bits */
  bool keeps;             /* a step that is skipped leaves all as it was */
} Trained;

static EngineOptions options(int passes) {
  EngineOptions o = small_options(&(SmallModel){2, VOCAB, 4, 6}, SEQUENCES, POSITIONS, passes, 1);
  o.choices.offload.moments = HOME_HOST;
  return o;
}

static void batch(Engine *engine, int step, int pass) {
  int32_t ids[TOKENS], labels[TOKENS];
  Rng rng = rng_make((uint64_t)step, RNG_TEST, "tokens", (uint64_t)pass);
  for (int i = 0; i < TOKENS; i++) {
    ids[i] = (int32_t)(rng_uniform(&rng, (uint64_t)i) * VOCAB);
    labels[i] = i % 7 == step ? -100 : (ids[i] * 5 + 3) % VOCAB;
  }
  engine_batch(engine, ids, labels);
}

static void put_float(void *self, int64_t first, int64_t n, void *to) {
  memcpy(to, (float *)self + first, sizeof(float) * (size_t)n);
}

/* FNV-1a over the parts of a vector. */
static void hash_some(void *self, int64_t first, int64_t n, const void *from) {
  uint64_t *h = self;
  const unsigned char *at = from;
  (void)first;
  for (size_t i = 0; i < sizeof(float) * (size_t)n; i++) *h = (*h ^ at[i]) * 1099511628211u;
}

#define HASH 14695981039346656037u

static uint64_t hash_states(const Engine *engine) {
  const StateTable *states = engine_states(engine);
  uint64_t hash = HASH;
  for (int u = 0; u < states->nunits; u++)
    for (StateSlot slot = SLOT_PARAM; slot <= SLOT_V; slot++)
      if (engine_holds(engine, slot, u)) engine_get(engine, slot, u, 0, states->units[u].local, hash_some, &hash);
  return hash;
}

static void step(Engine *engine, const EngineOptions *o, int s, StepResult *result) {
  for (int p = 0; p < o->passes; p++) {
    batch(engine, s, p);
    engine_micro(engine, p);
  }
  *result = engine_update(engine, s + 1, 1e-2);
}

/* A number that is none makes a step whose gradients are none either; from then on parameters and moments are what they were. */
static bool spoilt_step_changes_nothing(Engine *engine, const EngineOptions *o) {
  StepResult result;
  float inf = INFINITY;
  int head = engine_states(engine)->nunits - 1;
  engine_put(engine, SLOT_PARAM, head, 0, 1, put_float, &inf);
  uint64_t before = hash_states(engine);
  step(engine, o, STEPS, &result);
  return !result.applied && hash_states(engine) == before;
}

static Trained train(const EngineOptions *o, const char *kind) {
  Trained t = {.grads = HASH};
  SmallRun run = small_run_open(kind, o);
  Engine *engine = run.engine;
  t.memory = job_memory(engine_job(engine));
  for (int s = 0; s < STEPS; s++) step(engine, o, s, &t.step[s]);
  const StateTable *states = engine_states(engine);
  t.states = hash_states(engine);
  for (int u = 0; u < states->nunits; u++)
    if (!states->units[u].traits.frozen) engine_get_grad(engine, u, 0, states->units[u].local, hash_some, &t.grads);
  t.keeps = spoilt_step_changes_nothing(engine, o);
  small_run_close(&run);
  return t;
}

static void expect_same(const Trained *a, const Trained *b) {
  for (int s = 0; s < STEPS; s++) {
    const StepResult *x = &a->step[s], *y = &b->step[s];
    EXPECT(x->applied && y->applied && x->loss > 0 && x->loss == y->loss && x->grad_norm == y->grad_norm && x->tokens == y->tokens);
  }
  EXPECT(a->states == b->states && a->grads == b->grads && a->keeps && b->keeps);
}

enum { MOMENTS = OFFLOAD_MOMENTS, MASTERS = OFFLOAD_MASTERS, GRADIENTS = OFFLOAD_GRADIENTS, INPUTS = OFFLOAD_INPUTS };

/* Each kind with others, on a CPU and where memory is apart, added up over passes and not. */
TEST(offloading_changes_no_bit) {
  static const struct {
    DType compute;
    Forget forget;
    int passes, what;
    bool tied;
    const char *kind;
  } ways[] = {{DT_BF16, FORGET_BLOCKS, 4, MOMENTS | MASTERS | GRADIENTS | INPUTS, true, "apart"},
              {DT_F32, FORGET_NOTHING, 1, MOMENTS | GRADIENTS | INPUTS, false, "cpu"}};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    EngineOptions o = options(ways[i].passes);
    o.choices.compute = ways[i].compute;
    o.choices.forget = ways[i].forget;
    o.model.tied = ways[i].tied;
    EngineOptions other = o;
    other.choices.offload.what = ways[i].what;
    Trained a = train(&o, "cpu"), b = train(&other, ways[i].kind);
    expect_same(&a, &b);
  }
}

TEST(offloading_changes_no_bit_of_the_interpreter) {
  EngineOptions o = options(2);
  o.interpreted = true;
  EngineOptions other = o;
  other.choices.offload.what = MOMENTS | GRADIENTS | INPUTS;
  Trained a = train(&o, "cpu"), b = train(&other, "cpu");
  expect_same(&a, &b);
}

/* --- sums ----------------------------------------------------------------------------------------------------------------- */

/* Big ops of all programs that add to what is there. */
static int adding(const EngineOptions *o, int ranks, int degree) {
  Arena *arena = arena_open();
  Comm *comm = comm_plan(ranks);
  Mesh *mesh = mesh_data_parallel(comm, degree);
  Engine *engine = engine_open(arena, NULL, comm, mesh, o);
  int order[ENGINE_STEP], programs = engine_order(engine, order), n = 0;
  for (int i = 0; i < programs; i++) {
    const Program *p = job_program(engine_job(engine), order[i]);
    for (int s = 0; s < p->nsteps; s++) {
      Op op = p->steps[s].op;
      n +=
          p->steps[s].kind == STEP_BIG && (op == OP_MATMUL || op == OP_EMBEDDING_GRAD || op == OP_GROUPED_GRAD) && p->steps[s].n[0];
    }
  }
  mesh_close(mesh);
  comm_close(comm);
  arena_close(arena);
  return n;
}

/* A product that adds and one that is added may round differently: which it is must not depend on where gradients are. */
TEST(products_add_to_offloaded_gradients_as_to_those_at_home) {
  const ParamTraits whole = {.lr_factor = 1, .weight_decay = -1, .whole = true};
  ParamTraits traits[64];
  int all = 0;
  for (int i = 0; i < 64; i++) traits[i] = whole;
  for (int way = 0; way < 64; way++) { /* a bit a choice */
    EngineOptions o = options(3);
    int ranks = way & 1 ? 4 : 1, degree = way & 2 ? ranks : 1;
    o.model.tied = way & 4;
    o.choices.compute = way & 8 ? DT_BF16 : DT_F32;
    o.across = way & 16;
    o.traits = way & 32 ? traits : NULL;
    int home = adding(&o, ranks, degree);
    o.choices.offload.what = GRADIENTS;
    EXPECT(adding(&o, ranks, degree) == home);
    all += home;
  }
  EXPECT(all > 0);
}

/* --- the host's cores -------------------------------------------------------------------------------------------------------- */

enum { ALL = MOMENTS | MASTERS | GRADIENTS | INPUTS };

/* With moments of either kind, in one pass and in several, with parameters that are frozen or have a rate and a decay of their own.
 */
TEST(the_host_updates_to_the_bits_of_the_device) {
  static const struct {
    DType moments;
    int passes;
    bool groups;
    const char *kind;
  } ways[] = {{DT_F32, 1, false, "cpu"}, {DT_BF16, 4, true, "apart"}};
  ParamTraits traits[64];
  for (size_t i = 0; i < sizeof traits / sizeof *traits; i++)
    traits[i] = (ParamTraits){.frozen = i % 5 == 1, .lr_factor = i % 3 ? 1 : 0.3, .weight_decay = i % 4 ? -1 : 0.2};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    EngineOptions o = options(ways[i].passes);
    o.choices.compute = DT_BF16;
    o.moments = ways[i].moments;
    o.traits = ways[i].groups ? traits : NULL;
    EngineOptions host = o;
    host.choices.offload.what = i % 2 ? ALL : ALL & ~INPUTS;
    host.on_host = true;
    Trained a = train(&o, "cpu"), b = train(&host, ways[i].kind);
    expect_same(&a, &b);
  }
}

/* --- files ---------------------------------------------------------------------------------------------------------------- */

TEST(moments_in_files_change_no_bit) {
  static const char *const kinds[] = {"cpu", "apart"};
  for (int i = 0; i < 2; i++) {
    EngineOptions o = options(1);
    EngineOptions other = o;
    other.choices.offload = (OffloadOptions){MOMENTS, HOME_FILE};
    other.choices.offload_folder = small_folder();
    Trained a = train(&o, "cpu"), b = train(&other, kinds[i]);
    expect_same(&a, &b);
    EXPECT(b.memory.files >= a.memory.vars - b.memory.vars && a.memory.vars > b.memory.vars && b.memory.host_vars == 0);
  }
}

/* What a thread has written another reads, in pieces and not, aligned and not. */
TEST(files_give_back_what_was_put_there) {
  enum { BYTES = (40 << 20) + 4096 };
  Files *files = files_open(small_folder(), BYTES);
  char *from = aligned_alloc(FILE_ALIGN, BYTES), *to = aligned_alloc(FILE_ALIGN, BYTES);
  for (int i = 0; i < BYTES; i++) from[i] = (char)(i * 7 + i / 4096);
  const struct {
    size_t offset, skip, nbytes;
  } parts[] = {{0, 0, BYTES}, {4096, 4096, 20 << 20}, {5, 3, 17 << 20}, {BYTES - 1, 0, 1}, {0, 0, 0}};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    FileMove *out = file_move_open(files, true, parts[i].offset, from + parts[i].skip, parts[i].nbytes);
    FileMove *in = file_move_open(files, false, parts[i].offset, to + parts[i].skip, parts[i].nbytes);
    for (int turn = 0; turn < 2; turn++) {
      memset(to, 0, BYTES);
      file_move_start(out);
      file_move_wait(out);
      file_move_start(in);
      file_move_wait(in);
      EXPECT(!memcmp(from + parts[i].skip, to + parts[i].skip, parts[i].nbytes));
    }
    files_read(files, parts[i].offset, to, parts[i].nbytes);
    EXPECT(!memcmp(from + parts[i].skip, to, parts[i].nbytes));
    file_move_close(out);
    file_move_close(in);
  }
  free(from);
  free(to);
  files_close(files);
}

TEST(a_folder_that_cannot_hold_the_file_ends_the_job) {
  EXPECT_FAIL(FAIL_INPUT, "memory.offload_folder: /no/such: no file can be made there", files_open("/no/such", 4096));
  EXPECT_FAIL(FAIL_MACHINE, "there is no room", files_open(small_folder(), (size_t)1 << 50));
}

/* --- memory --------------------------------------------------------------------------------------------------------------- */

static JobMemory plan(const EngineOptions *o, size_t *micro, size_t *update) {
  Arena *arena = arena_open();
  Comm *comm = comm_plan(1);
  Mesh *mesh = mesh_open(comm, (int[MESH_AXES]){1, 1, 1, 1, 1});
  Engine *engine = engine_open(arena, NULL, comm, mesh, o);
  JobMemory m = job_memory(engine_job(engine));
  const Job *job = engine_job(engine);
  *micro = job_program(job, 1)->transient; /* of first, middle, last, update */
  *update = job_program(job, 3)->transient;
  mesh_close(mesh);
  comm_close(comm);
  arena_close(arena);
  return m;
}

/* What is elsewhere is not on the device; what is on its way there and back takes no more than three units of it. */
TEST(what_is_offloaded_takes_no_more_than_three_units_of_the_device) {
  EngineOptions o = options(4);
  CHECK(model_preset("llama2-7b", &o.model));
  o.positions = 4096;
  o.choices.compute = DT_BF16;
  o.choices.cuda = true;
  o.choices.forget = FORGET_BLOCKS;
  const size_t unit = 202383360, all = 6738415616; /* parameters of a block, and of the model */
  size_t micro, less, update;
  JobMemory without = plan(&o, &micro, &update);
  o.choices.offload.what = MOMENTS;
  JobMemory moments = plan(&o, &less, &update);
  EXPECT(without.vars - moments.vars == moments.host && moments.host >= 8 * all && moments.host < 8 * all + (1 << 20));
  EXPECT(less == micro && update < 3 * 8 * unit + (64 << 20));
  o.choices.offload.what = MOMENTS | MASTERS | GRADIENTS;
  JobMemory most = plan(&o, &less, &update);
  EXPECT(without.vars - most.vars == most.host && most.host >= 14 * all && most.host < 14 * all + (1 << 20));
  EXPECT(less < micro + 3 * 4 * unit && update < (3 * 10 + 2 * 4) * unit + (64 << 20));
  o.on_host = true;
  size_t head;
  JobMemory host = plan(&o, &less, &head);
  EXPECT(host.vars <= most.vars && host.host >= 16 * all && host.host < 16 * all + (1 << 20) && head < 3 * 4 * unit + (64 << 20));
  o.on_host = false;
  o.choices.offload.what = INPUTS;
  JobMemory inputs = plan(&o, &less, &update);
  size_t input = 2 * (size_t)(o.sequences * o.positions * o.model.hidden);
  EXPECT(inputs.vars == without.vars && inputs.host >= (size_t)(o.model.layers - 1) * input);
  EXPECT(less + (size_t)(o.model.layers - 6) * input < micro);
}
