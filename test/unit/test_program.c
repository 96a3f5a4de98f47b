/* SPDX-License-Identifier: Apache-2.0 */
/* What holds of every compiled program: each read finds what was written for it, plans waste little, gathers do not pile up,
 * and compilation is quick enough to be called for each of many choices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/exec/job.h"
#include "src/train/engine.h"
#include "test/check.h"
#include "test/unit/random_graph.h"
#include "test/unit/shadow.h"

/* --- random graphs ---------------------------------------------------------------------------------------------------------- */

static void expect_sound(const Program *p, const char *what, int seed, double waste) {
  const char *wrong = shadow_run(p);
  bool lean = (double)p->transient <= waste * (double)p->live;
  if (*wrong || !lean) {
    Text text = {0};
    program_print(p, &text);
    fprintf(stderr, "%s, seed %d:\n%s", what, seed, text.at);
    text_close(&text);
  }
  EXPECT_TEXT(wrong, "");
  EXPECT(lean);
  EXPECT(p->live <= p->transient);
}

/* Others: HPCTRAIN_TEST_SEED=1000 test/unit/test_program. */
static void expect_random_sound(int first, int n, RandomSpec spec) {
  const char *seed = getenv("HPCTRAIN_TEST_SEED");
  if (seed) first = atoi(seed);
  for (int i = first; i < first + n; i++)
    for (int unfused = 0; unfused < 2; unfused++) {
      Arena *arena = arena_open();
      spec.seed = (uint64_t)i;
      Choices choices = {.units_alive = 1 + i % 3, .unfused = unfused, .matmul = "auto", .threads = 1 + i % 2};
      const Graph *g = random_graph(arena, spec);
      const Program *p = compile(arena, g, NULL, &choices, "random", true, true, NULL);
      expect_sound(p, unfused ? "unfused" : "fused", i, 1.35);
      arena_close(arena);
    }
}

TEST(every_read_finds_what_was_written_for_it) {
  expect_random_sound(0, 60, (RandomSpec){.nodes = 60, .elements = 1024, .big = true, .rough = true, .collectives = true});
}

TEST(in_a_backward_phase_too) {
  expect_random_sound(0, 60, (RandomSpec){.nodes = 80, .elements = 1024, .big = true, .phases = true, .collectives = true});
}

/* In which kernels may come to need each other by way of third ones. */
TEST(in_long_programs_too) {
  expect_random_sound(700, 40, (RandomSpec){.nodes = 400, .elements = 1024, .big = true, .phases = true, .collectives = true});
}

TEST(through_nothing_but_views_too) { expect_random_sound(0, 60, (RandomSpec){.nodes = 40, .elements = 1024, .views = true}); }

/* --- many arguments ----------------------------------------------------------------------------------------------------------- */

enum { MANY = 60, ROWS = 4, COLS = 8 };

static int load_new(Graph *g, const char *name, Shape shape) {
  graph_var(g, (Var){.name = name, .class = VAR_STATE, .dtype = DT_F32, .shape = shape});
  return ir_load(g, name);
}

static void store_new(Graph *g, const char *name, int value) {
  graph_var(g, (Var){.name = name, .class = VAR_CARRY, .dtype = DT_F32, .shape = graph_node(g, value)->shape});
  ir_store(g, name, value);
}

/* One value of so many that other kernels make, of their rows of other lengths. */
static void add_many_sums(Graph *g) {
  int sum = -1;
  for (int i = 0; i < MANY; i++) {
    int x = load_new(g, arena_printf(g->arena, "x%d", i), SHAPE(ROWS, COLS + i)), y = ir_reduce(g, OP_SUM, x, 1);
    sum = i ? ir_add(g, sum, y) : y;
  }
  store_new(g, "sum", sum);
}

/* The same, of what the forward pass makes. */
static void add_many_of_forward(Graph *g) {
  int values[MANY], sum = -1;
  for (int i = 0; i < MANY; i++)
    values[i] = ir_reduce(g, OP_MAXIMUM, load_new(g, arena_printf(g->arena, "x%d", i), SHAPE(ROWS, COLS)), 1);
  g->phase = PHASE_BACKWARD;
  for (int i = 0; i < MANY; i++) sum = i ? ir_add(g, sum, values[i]) : values[i];
  store_new(g, "sum", sum);
}

/* So many values of one. */
static void add_many_stores(Graph *g) {
  int x = ir_unary(g, OP_EXP, load_new(g, "x", SHAPE(ROWS, COLS)));
  for (int i = 0; i < MANY; i++) store_new(g, arena_printf(g->arena, "y%d", i), ir_scale(g, x, 2 + i));
}

TEST(kernels_have_no_more_arguments_than_a_step_has_room_for) {
  static void (*const build[])(Graph * g) = {add_many_sums, add_many_of_forward, add_many_stores};
  for (size_t i = 0; i < sizeof build / sizeof *build; i++) {
    Arena *arena = arena_open();
    Graph *g = graph_open(arena);
    build[i](g);
    const Program *p =
        compile(arena, g, NULL, &(Choices){.units_alive = 1, .matmul = "auto", .threads = 1}, "many", true, true, NULL);
    EXPECT_TEXT(shadow_run(p), "");
    int most = 0;
    for (int s = 0; s < p->nsteps; s++)
      if (p->steps[s].nin + p->steps[s].nout > most) most = p->steps[s].nin + p->steps[s].nout;
    EXPECT(most <= STEP_ARGS);
    EXPECT(most > STEP_ARGS / 2); /* and are not cut into small ones */
    arena_close(arena);
  }
}

TEST(a_write_to_what_is_still_being_sent_is_found) {
  Buffer buffers[3];
  StepArg args[3];
  for (int b = 0; b < 3; b++) {
    buffers[b] = (Buffer){.class = BUFFER_VAR, .var = b, .nbytes = BUFFER_ALIGN, .first = 0, .last = 3};
    args[b] = (StepArg){.place = {.buffer = b, .stride = {1}}, .shape = SHAPE(4), .dtype = DT_F32};
  }
  Step sends = {
      .kind = STEP_COLLECTIVE_START, .op = OP_ALL_REDUCE, .workspace = -1, .nin = 1, .nout = 1, .in = args, .out = args + 1};
  Step writes = sends, sent = sends, written = sends;
  writes.in = written.in = args + 2;
  writes.out = written.out = args;
  sent.kind = written.kind = STEP_COLLECTIVE_WAIT;
  Program p = {.nsteps = 4, .nbuffers = 3, .buffers = buffers, .steps = (Step[]){sends, sent, writes, written}};
  EXPECT_TEXT(shadow_run(&p), "");
  p.steps = (Step[]){sends, writes, sent, written};
  EXPECT_TEXT(shadow_run(&p), "step 1: byte 0 of b0 is written while it is sent");
}

/* --- models ----------------------------------------------------------------------------------------------------------------- */

typedef struct Compiled {
  const char *name[8];
  const Program *program[8];
  int n;
} Compiled;

static void keep_name(void *self, const char *name, const char *stage, const Program *program) {
  Compiled *c = self;
  (void)stage, (void)program;
  CHECK(c->n < 8);
  c->name[c->n++] = name;
}

typedef struct Plan {
  Arena *arena;
  Comm *comm;
  Mesh *mesh;
  Engine *engine;
  Compiled compiled;
} Plan;

static EngineOptions options_of(const char *preset) {
  EngineOptions o = {.sequences = 1, .positions = 4096, .passes = 1, .nominal_tokens = 4096, .clip = 1, .train = true};
  o.adam = (AdamW){0.9, 0.95, 1e-8, 0.1};
  o.choices = (Choices){.units_alive = 2, .matmul = "auto", .threads = 2};
  CHECK(model_preset(preset, &o.model));
  return o;
}

static EngineOptions small_options(void) {
  EngineOptions o = options_of("llama-5m");
  o.model.layers = 4;
  o.model.vocab = 300;
  o.model.hidden = 32;
  o.model.intermediate = 48;
  o.model.heads = 4;
  o.model.kv_heads = 2;
  o.model.head_dim = 8;
  o.positions = 24;
  o.sequences = 2;
  o.nominal_tokens = 48;
  return o;
}

static Plan plan_open(EngineOptions o, int ranks, int shards) {
  Plan p = {.arena = arena_open(), .comm = comm_plan(ranks)};
  p.mesh = mesh_data_parallel(p.comm, shards);
  CompileWatch watch = {NULL, keep_name, &p.compiled};
  o.watch = &watch;
  p.engine = engine_open(p.arena, NULL, p.comm, p.mesh, &o);
  for (int i = 0; i < p.compiled.n; i++) p.compiled.program[i] = job_program(engine_job(p.engine), i);
  return p;
}

static void plan_close(Plan *p) {
  mesh_close(p->mesh);
  comm_close(p->comm);
  arena_close(p->arena);
}

/* The same sizes for a model of another family. */
static void set_family(EngineOptions *o, const char *family) {
  o->model.family = family;
  o->model.max_positions = 64;
  o->model.window = !strcmp(family, "mistral") ? 7 : 0;
  o->model.experts = !strcmp(family, "mixtral") ? 3 : 0;
  o->model.experts_per_token = o->model.experts ? 2 : 0;
}

TEST(every_program_of_a_model_is_sound) {
  static const char *const families[] = {"llama", "qwen2", "gpt2", "qwen3", "mistral", "gpt2", "mixtral"};
  static const int ranks[] = {1, 2, 3, 4}, shards[] = {1, 2, 3, 2};
  for (int i = 0; i < 64; i++) {
    EngineOptions o = small_options();
    set_family(&o, families[i % 7]);
    if (i % 7 == 2 || i % 7 == 5) o.model.kv_heads = o.model.heads;
    o.across = i & 32;
    o.choices.forget = i & 2 ? FORGET_BLOCKS : FORGET_NOTHING;
    o.choices.whole = i & 4;
    o.choices.unfused = i & 8;
    o.model.tied = i & 16;
    o.choices.units_alive = 1 + i % 3;
    o.passes = 1 + i % 4;
    o.eval = true;
    if (i % 8 == 0) { /* whose batch is another */
      o.train = o.eval = false;
      o.generate = true;
      o.slots = 1 + i % 3;
      o.kept = 2 * o.positions;
    }
    Plan p = plan_open(o, ranks[i / 3 % 4], i & 1 ? shards[i / 3 % 4] : 1);
    for (int k = 0; k < p.compiled.n; k++) expect_sound(p.compiled.program[k], p.compiled.name[k], i, 1.1);
    plan_close(&p);
  }
}

/* No two transient buffers that are alive at one step share a byte; lives cover all uses, and begin with a write. */
static void expect_plan_sound(const Program *p) {
  int *first = arena_ints(p->arena, p->nbuffers, -1), *last = arena_ints(p->arena, p->nbuffers, -1);
  for (int s = 0; s < p->nsteps; s++) {
    const Step *step = &p->steps[s];
    for (int i = 0; i < step->nin; i++) {
      int b = step->in[i].place.buffer;
      EXPECT(p->buffers[b].class != BUFFER_TRANSIENT || first[b] >= 0 || step->kind == STEP_COLLECTIVE_WAIT);
      last[b] = s;
    }
    for (int o = 0; o <= step->nout; o++) {
      int b = o < step->nout ? step->out[o].place.buffer : step->workspace;
      if (b < 0) continue;
      if (first[b] < 0) first[b] = s;
      last[b] = s;
    }
  }
  for (int i = 0; i < p->nbuffers; i++) {
    const Buffer *a = &p->buffers[i];
    if (a->class != BUFFER_TRANSIENT || !a->nbytes) continue;
    EXPECT(a->first <= first[i] && a->last >= last[i]);
    EXPECT(a->offset >= 0 && (size_t)a->offset + a->nbytes <= p->transient);
    for (int j = 0; j < i; j++) {
      const Buffer *b = &p->buffers[j];
      if (b->class != BUFFER_TRANSIENT || b->first > a->last || a->first > b->last) continue;
      EXPECT(a->offset >= b->offset + (int64_t)b->nbytes || b->offset >= a->offset + (int64_t)a->nbytes);
    }
  }
}

/* Gathered units (ALL_GATHER), or whole gradients (REDUCE_SCATTER), that are alive at once. */
static int most_alive(const Program *p, Op op) {
  int most = 0;
  int *change = arena_ints(p->arena, p->nsteps + 2, 0);
  for (int s = 0; s < p->nsteps; s++) {
    const Step *step = &p->steps[s];
    if (step->kind != STEP_COLLECTIVE_START || step->op != op) continue;
    const Buffer *b = &p->buffers[(op == OP_ALL_GATHER ? step->out : step->in)->place.buffer];
    change[b->first]++;
    change[b->last + 1]--;
  }
  for (int s = 0, now = 0; s < p->nsteps; s++) {
    now += change[s];
    if (now > most) most = now;
  }
  return most;
}

static const struct {
  const char *preset;
  int ranks;
  int64_t positions;
  bool recompute;
} models[] = {{"llama2-7b", 1, 4096, false},
              {"llama2-7b", 8, 4096, false},
              {"llama2-7b", 8, 4096, true},
              {"llama3.1-8b", 3, 1000, true},
              {"llama3.1-405b", 512, 128, true}};

TEST(plans_of_large_models_are_sound_and_waste_less_than_a_tenth) {
  for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
    EngineOptions o = options_of(models[m].preset);
    o.positions = models[m].positions;
    o.choices.forget = models[m].recompute ? FORGET_BLOCKS : FORGET_NOTHING;
    Plan p = plan_open(o, models[m].ranks, models[m].ranks);
    for (int k = 0; k < p.compiled.n; k++) {
      const Program *program = p.compiled.program[k];
      printf("%s on %d, %s: %.2f GiB, %.3f of what is alive\n", models[m].preset, models[m].ranks, p.compiled.name[k],
             (double)program->transient / (1 << 30), (double)program->transient / (double)program->live);
      expect_plan_sound(program);
      EXPECT((double)program->transient <= 1.1 * (double)program->live);
    }
    plan_close(&p);
  }
}

static void expect_most_alive(const Plan *p, Op op, int most, int label) {
  for (int k = 0; k < p->compiled.n; k++) {
    int is = most_alive(p->compiled.program[k], op);
    if (is > most) fprintf(stderr, "case %d, %s: %d\n", label, p->compiled.name[k], is);
    EXPECT(is <= most);
  }
}

/* As many as were asked for, forward and backward, with recomputation and without; a table that is embedding and head is there
 * from the one to the other.  A whole gradient is let go once it is reduced: one may be on its way, one being made. */
TEST(units_and_whole_gradients_do_not_pile_up) {
  for (int i = 0; i < 48; i++) {
    EngineOptions o = small_options();
    o.model.layers = 9;
    o.choices.compute = i < 24 ? DT_F32 : DT_BF16;
    o.choices.cuda = i >= 36;
    o.model.tied = i & 1;
    o.choices.forget = i & 2 ? FORGET_BLOCKS : FORGET_NOTHING;
    o.choices.units_alive = 1 + i / 4 % 3;
    o.passes = 1 + i / 12 % 2;
    o.eval = true;
    Plan p = plan_open(o, 2 + i % 3, 2 + i % 3);
    int widened = o.choices.compute == DT_BF16 && !o.choices.cuda ? 1 : 0; /* for products, by kernels that run when they like */
    expect_most_alive(&p, OP_ALL_GATHER, o.choices.units_alive + o.model.tied + widened, i);
    expect_most_alive(&p, OP_REDUCE_SCATTER, 2 + o.model.tied, i);
    plan_close(&p);
  }
}

/* --- biases ------------------------------------------------------------------------------------------------------------------ */

static int count_biased(const Plan *plan, bool *all_forward) {
  const Program *p = plan->compiled.program[0];
  int n = 0;
  *all_forward = true;
  for (int s = 0; s < p->nsteps; s++) {
    const Step *step = &p->steps[s];
    if (step->kind != STEP_BIG || step->op != OP_MATMUL || step->nin < 3) continue;
    *all_forward &= graph_node(p->graph, step->node)->phase != PHASE_BACKWARD;
    n++;
  }
  return n;
}

TEST(products_on_gpus_add_their_bias_and_those_on_cpus_leave_it_to_kernels) {
  static const DType types[] = {DT_F32, DT_BF16, DT_F16};
  for (int i = 0; i < 12; i++) {
    bool one = i % 2, padded = i % 4 < 2, all_forward;
    EngineOptions o = small_options();
    set_family(&o, one ? "qwen2" : "gpt2"); /* one product of a block has biases, or all four */
    if (!one) o.model.kv_heads = o.model.heads;
    o.model.vocab = padded ? 97 : 96; /* logits behind the last token are told apart by a bias, too */
    o.choices.compute = types[i / 2 % 3];
    o.choices.forget = i >= 6 ? FORGET_CHEAP : FORGET_NOTHING;
    o.choices.cuda = true;
    Plan gpu = plan_open(o, 1, 1);
    o.choices.cuda = false;
    Plan cpu = plan_open(o, 1, 1);
    EXPECT(count_biased(&gpu, &all_forward) == (one ? 4 : 16) + padded && all_forward);
    EXPECT(count_biased(&cpu, &all_forward) == 0);
    plan_close(&gpu);
    plan_close(&cpu);
  }
}

/* --- gathers by copy engines ------------------------------------------------------------------------------------------------- */

static int count_gathers(const Program *p, bool of_states) {
  int n = 0;
  for (int s = 0; s < p->nsteps; s++) {
    const Step *step = &p->steps[s];
    if (step->kind == STEP_COLLECTIVE_START && step->op == OP_ALL_GATHER) n += !of_states || gather_reads_state(p, step);
  }
  return n;
}

/* In fp16 what travels is a cast, and lies in memory that programs share. */
TEST(gathers_read_states_themselves_but_in_fp16) {
  static const DType types[] = {DT_F32, DT_BF16, DT_F16};
  for (int i = 0; i < 24; i++) {
    EngineOptions o = small_options();
    o.choices.cuda = true;
    o.choices.copies = true;
    o.choices.compute = types[i % 3];
    o.choices.forget = i & 4 ? FORGET_BLOCKS : FORGET_NOTHING;
    o.passes = 1 + i % 4;
    o.eval = true;
    Plan p = plan_open(o, 2 + i % 2, 2 + i % 2);
    int all = 0, states = 0;
    for (int k = 0; k < p.compiled.n; k++) {
      const Program *program = p.compiled.program[k];
      all += count_gathers(program, false);
      states += count_gathers(program, true);
      EXPECT(gathers_may_copy(program, MESH_DP_SHARD));
      EXPECT(gathers_states(program, MESH_DP_SHARD) == (count_gathers(program, true) > 0));
      EXPECT(!gathers_states(program, MESH_TP));
    }
    EXPECT(all > 0);
    EXPECT(states == (o.choices.compute == DT_F16 ? 0 : all));
    plan_close(&p);
  }
}

/* Where replicas share out the update, in place around the state, so that copies find each part; in every first micro-step. */
TEST(what_is_gathered_once_a_step_is_written_where_it_stays) {
  static const DType types[] = {DT_F32, DT_BF16};
  for (int i = 0; i < 16; i++) {
    EngineOptions o = small_options();
    o.across = true;
    o.model.tied = i & 1;
    o.choices.cuda = i & 2;
    o.choices.compute = types[i / 4 % 2];
    o.choices.forget = i & 8 ? FORGET_BLOCKS : FORGET_NOTHING;
    o.passes = 1 + i % 3;
    o.eval = true;
    Plan p = plan_open(o, 4, i & 8 ? 2 : 1);
    int found = 0;
    for (int k = 0; k < p.compiled.n; k++) {
      const Program *program = p.compiled.program[k];
      for (int s = 0; s < program->nsteps; s++) {
        const Step *step = &program->steps[s];
        if (step->kind != STEP_COLLECTIVE_START || step->op != OP_ALL_GATHER || step->n[0] != MESH_DP_REPLICATE) continue;
        EXPECT(program->buffers[step->out[0].place.buffer].class == BUFFER_VAR);
        EXPECT(gather_reads_state(program, step));
        found++;
      }
    }
    EXPECT(found > 0);
    plan_close(&p);
  }
}

TEST(how_gathers_go_changes_no_plan) {
  uint64_t hash[2];
  for (int copies = 0; copies < 2; copies++) {
    EngineOptions o = small_options();
    o.choices.cuda = true;
    o.choices.copies = copies;
    Plan p = plan_open(o, 2, 2);
    hash[copies] = engine_hash(p.engine);
    plan_close(&p);
  }
  EXPECT(hash[0] == hash[1]);
}

/* A kernel that writes a Var, and a collective of others; steps in any order. */
TEST(whoever_writes_what_copies_read_does_so_behind_a_reduction_of_all_readers) {
  enum { STATE, OTHER };
  Var vars[] = {{.name = "state", .class = VAR_STATE, .dtype = DT_F32, .shape = SHAPE(4)},
                {.name = "other", .class = VAR_CARRY, .dtype = DT_F32, .shape = SHAPE(4)}};
  Graph g = {.vars = {.at = vars, .n = 2}};
  Buffer buffers[2];
  StepArg args[2];
  for (int b = 0; b < 2; b++) {
    buffers[b] = (Buffer){.class = BUFFER_VAR, .var = b, .nbytes = BUFFER_ALIGN};
    args[b] = (StepArg){.place = {.buffer = b, .stride = {1}}, .shape = SHAPE(4), .dtype = DT_F32};
  }
  StepArg *state = &args[STATE], *other = &args[OTHER];
  Step write = {.kind = STEP_KERNEL, .nin = 1, .nout = 1, .in = other, .out = state}, harmless = write;
  harmless.out = other;
  Step sum = {
      .kind = STEP_COLLECTIVE_START, .op = OP_ALL_REDUCE, .n = {MESH_DP_SHARD, 2}, .nin = 1, .nout = 1, .in = other, .out = other};
  Step summed = sum, gather = sum, away = sum, far, foreign;
  summed.kind = STEP_COLLECTIVE_WAIT;
  gather.op = OP_ALL_GATHER;
  gather.in = state;
  Step gathered = gather;
  gathered.kind = STEP_COLLECTIVE_WAIT;
  away.n[0] = MESH_DP_REPLICATE;
  far = away;
  far.kind = STEP_COLLECTIVE_WAIT;
  foreign = gather;
  foreign.in = other;
  const struct {
    Step steps[5];
    int n;
    bool may;
  } cases[] = {
      {{sum, summed, write}, 3, true},
      {{write, sum, summed}, 3, false},
      {{sum, write, summed}, 3, false}, /* not over yet */
      {{away, far, write}, 3, false},   /* other ranks */
      {{gather, gathered}, 2, true},
      {{gather, harmless, gathered}, 3, true},
      {{gather}, 1, false}, /* nobody waits */
      {{gather, gathered, sum, summed, write}, 5, false},
      {{foreign, gathered, write}, 3, false}, /* a gather tells nothing of who has read */
      {{harmless}, 1, true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Program p = {.graph = &g, .nsteps = cases[i].n, .nbuffers = 2, .buffers = buffers, .steps = (Step *)cases[i].steps};
    if (gathers_may_copy(&p, MESH_DP_SHARD) != cases[i].may) check_failed(__FILE__, __LINE__, "case %d", (int)i);
  }
  Program p = {.graph = &g, .nsteps = 1, .nbuffers = 2, .buffers = buffers, .steps = &foreign};
  EXPECT(!gather_reads_state(&p, &foreign));
  p.steps = &gather;
  EXPECT(gather_reads_state(&p, &gather));
}

/* In processor time, for the machine may be busy; the best of some runs. */
static double seconds_to_compile(EngineOptions o, int ranks, int shards, int runs) {
  double best = 1e9;
  for (int run = 0; run < runs; run++) {
    double start = check_cpu_seconds();
    Plan p = plan_open(o, ranks, shards);
    double seconds = check_cpu_seconds() - start;
    if (seconds < best) best = seconds;
    plan_close(&p);
  }
  return best;
}

TEST(seven_billion_parameters_compile_in_a_tenth_of_a_second) {
  const char *slowdown = getenv("slowdown");
  double allowed = 0.1 * (slowdown ? atof(slowdown) : 1) * (slowdown && atof(slowdown) > 1 ? 4 : 1);
  for (int i = 0; i < 4; i++) {
    EngineOptions o = options_of("llama2-7b");
    o.choices.forget = i & 2 ? FORGET_BLOCKS : FORGET_NOTHING;
    double seconds = seconds_to_compile(o, 8, i & 1 ? 8 : 1, 5);
    printf("llama2-7b, micro-step and update, %s%s: %.1f ms\n", i & 1 ? "full_shard" : "no_shard",
           o.choices.forget ? ", recomputed" : "", seconds * 1e3);
    EXPECT(seconds <= allowed);
  }
  EngineOptions o = options_of("llama3.1-405b");
  o.choices.forget = FORGET_BLOCKS;
  printf("llama3.1-405b on 512 ranks: %.1f ms\n", seconds_to_compile(o, 512, 512, 5) * 1e3);
}

TEST(compilation_takes_twice_as_long_for_twice_the_parameters_not_four_times) {
  double seconds[2];
  EngineOptions o = options_of("mixtral-8x7b");
  o.model.hidden = 2048;
  o.model.intermediate = 768;
  o.model.layers = 32;
  o.choices.forget = FORGET_BLOCKS;
  for (int i = 0; i < 2; i++) {
    o.model.experts = 80 << i;
    seconds[i] = seconds_to_compile(o, 64, 64, 2);
    printf("32 blocks of %d experts on 64 ranks: %.1f ms\n", 80 << i, seconds[i] * 1e3);
  }
  EXPECT(seconds[1] < 3 * seconds[0]);
}
