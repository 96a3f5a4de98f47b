/* SPDX-License-Identifier: Apache-2.0 */
/* Forecasts: what was measured on H200 is foretold; collectives hide behind what is computed meanwhile; a better machine is never
 * slower. */
#include "src/train/forecast.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "src/model/model.h"
#include "src/train/prospect.h"
#include "test/check.h"

/* --- what was measured ---------------------------------------------------------------------------------------------------------
 */

static Prospect *prospect(const char *words, int ranks, int per_node, const char *gpu) {
  static const char run[] = "hpctrain: 1\ndata: {train: none.bin}\ndevice: {kind: cuda}\nprecision: {compute: bf16}\n";
  char copy[512], *argv[32] = {"plan"};
  int argc = 1;
  config_set_presets(model_presets());
  snprintf(copy, sizeof copy, "train.duration=10steps train.lr=1e-4 train.schedule=constant %s", words);
  Arena *arena = arena_open();
  for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) argv[argc++] = arena_strdup(arena, word);
  const Config *c = config_parse(arena, "run.yaml", run, argc, argv);
  Text warnings = {0};
  return prospect_open(arena, c, &(ProspectSite){ranks, per_node, machine_find(gpu), NULL}, &warnings);
}

static void forget(Prospect *p) {
  Arena *arena = p->arena;
  prospect_close(p);
  arena_close(arena);
}

#define SMALL "model.preset=tinyllama-1.1b train.seq_len=2048 train.global_batch_size=8sequences train.micro_batch_size=8 "
#define LARGE "model.preset=llama2-7b train.seq_len=4096 train.micro_batch_size=2 memory.recompute=cheap "
#define BATCH "train.global_batch_size=16sequences"
#define OFFLOADED "train.seq_len=4096 memory.recompute=block memory.offload="

/* test/bench/h200.md and h200/: tokens a second and GPU, and the GiB that the driver said were in use. */
static const struct {
  const char *words;
  int ranks;
  double tokens, gib;
} measured[] = {
    {SMALL "memory.recompute=cheap", 1, 72622, 32.45},
    {SMALL "memory.recompute=none", 1, 74512, 40.22},
    {LARGE BATCH, 1, 13522, 125.94},
    {LARGE BATCH " gpu.reductions=nccl", 2, 12544, 79.45},
    {"model.preset=llama2-7b train.micro_batch_size=2 train.seq_len=4096 memory.recompute=auto:63GiB "
     "memory.offload=[moments] " BATCH,
     1, 9887, 63.59},
    {"model.preset=llama2-7b train.micro_batch_size=4 train.global_batch_size=32sequences " OFFLOADED "[moments,masters,gradients]",
     1, 9097, 23.15},
    {"model.preset=llama2-13b train.micro_batch_size=2 " BATCH " " OFFLOADED "[moments]", 1, 4918, 104.82},
};

TEST(speed_and_memory_on_h200_are_foretold) {
  for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
    Prospect *p = prospect(measured[i].words, measured[i].ranks, measured[i].ranks, "h200");
    double tokens = prospect_tokens(p) / measured[i].ranks, gib = prospect_bytes(p) / (1 << 30);
    printf("%d rank%s, %.24s: %.0f tokens/s, %+.1f %%; %.2f GiB, %+.1f %%\n", measured[i].ranks, measured[i].ranks > 1 ? "s" : "",
           measured[i].words + strlen("model.preset="), tokens, 100 * (tokens / measured[i].tokens - 1), gib,
           100 * (gib / measured[i].gib - 1));
    EXPECT_NEAR(tokens, measured[i].tokens, 0.15);
    EXPECT_NEAR(gib, measured[i].gib, 0.03);
    forget(p);
  }
}

TEST(what_auto_takes_fits_and_the_room_is_used) {
  for (int ranks = 1; ranks <= 8; ranks += 7) {
    Prospect *p = prospect("model.preset=tinyllama-1.1b train.seq_len=2048 train.micro_batch_size=32 memory.recompute=auto "
                           "train.global_batch_size=256sequences",
                           ranks, ranks, "h100");
    double room = machine_room(p->capacity, ranks == 1);
    EXPECT(p->fit && !strstr(p->fit, "none") && prospect_short(p) == 0);
    EXPECT(p->memory->nbytes <= room && p->memory->nbytes > 0.95 * room);
    EXPECT(room + machine_reserve(ranks == 1) < p->capacity);
    forget(p);
  }
}

TEST(what_was_never_measured_is_unknown) {
  Prospect *p = prospect(SMALL "precision.compute=fp32", 1, 1, "h200");
  EXPECT(!p->timed && isnan(prospect_tokens(p)) && p->step.unknown > 0);
  forget(p);
}

TEST(machines_are_known_by_their_cards) {
  EXPECT(machine_of_card("NVIDIA H200") == machine_find("h200") && machine_find("h200")->narrow == 989e12);
  EXPECT(machine_of_card("NVIDIA H100 PCIe")->narrow < machine_of_card("NVIDIA H100 80GB HBM3")->narrow);
  EXPECT(!machine_of_card("NVIDIA GeForce RTX 4090") && !machine_find("cpu"));
  for (int i = 0; i < nmachines; i++) EXPECT(machine_find(machines[i].name) == &machines[i]);
}

/* --- the clock ------------------------------------------------------------------------------------------------------------------
 */

enum { SIDE = 1024, PARTS = 4 };

/* Some products between a gather's start and its wait; n gathers, one after another. */
static Program *gathers(Arena *arena, int n, int products) {
  Program *p = arena_new(arena, Program);
  StepArg *matrix = arena_array(arena, StepArg, 2), *part = arena_array(arena, StepArg, 1);
  matrix[0] = matrix[1] = (StepArg){.shape = SHAPE(SIDE, SIDE), .dtype = DT_BF16};
  part[0] = (StepArg){.shape = SHAPE(SIDE / PARTS, SIDE), .dtype = DT_BF16};
  *p = (Program){.arena = arena, .nbuffers = 1, .ncollectives = n, .buffers = arena_new(arena, Buffer)};
  p->buffers[0].class = BUFFER_TRANSIENT;
  p->steps = arena_array(arena, Step, n * (products + 2));
  for (int i = 0; i < n; i++) {
    Step gather = {
        .op = OP_ALL_GATHER, .n = {MESH_DP_SHARD, PARTS}, .collective = i, .nin = 1, .nout = 1, .in = part, .out = matrix};
    Step product = {.kind = STEP_BIG, .op = OP_MATMUL, .workspace = -1, .nin = 2, .nout = 1, .in = matrix, .out = matrix};
    gather.kind = STEP_COLLECTIVE_START;
    p->steps[p->nsteps++] = gather;
    for (int k = 0; k < products; k++) p->steps[p->nsteps++] = product;
    gather.kind = STEP_COLLECTIVE_WAIT;
    p->steps[p->nsteps++] = gather;
  }
  return p;
}

/* A machine on which a product of gathers() takes a second, as a gather does, and nothing disturbs anything. */
static ForecastSite plain_site(void) {
  double product = 2.0 * SIDE * SIDE * SIDE, part = 2.0 * SIDE * SIDE * (PARTS - 1) / PARTS;
  ForecastSite site = {.per_node = PARTS};
  for (int a = 0; a < MESH_AXES; a++) site.extent[a] = a == MESH_DP_SHARD ? PARTS : 1;
  site.rates = (MachineRates){.narrow = product, .wide = product, .bytes = 1e30, .fused = 1e30, .update = 1e30};
  for (int w = 0; w < WAYS; w++) site.rates.way[w] = part;
  site.rates.network = part / PARTS;
  site.rates.products_slowed = site.rates.way_slowed = 1;
  return site;
}

static Forecast forecast(const Program *p, const ForecastSite *site) {
  Forecast f = {0};
  forecast_add(&f, p, site, 1);
  return f;
}

TEST(a_gather_is_exposed_as_far_as_nothing_is_computed_meanwhile) {
  Arena *arena = arena_open();
  ForecastSite site = plain_site();
  Forecast none = forecast(gathers(arena, 3, 0), &site), two = forecast(gathers(arena, 3, 2), &site);
  EXPECT_NEAR(none.seconds, 3, 1e-9);
  EXPECT_NEAR(none.spent[PROF_GATHERS], 3, 1e-9);
  EXPECT_NEAR(two.seconds, 6, 1e-9);
  EXPECT(two.spent[PROF_GATHERS] == 0);
  EXPECT_NEAR(two.busy[LANE_GATHERS], 3, 1e-9);
  site.rates.narrow *= 4; /* two products take half of a gather's time */
  EXPECT_NEAR(forecast(gathers(arena, 3, 2), &site).spent[PROF_GATHERS], 1.5, 1e-9);
  arena_close(arena);
}

TEST(kernels_of_nccl_and_products_slow_one_another) {
  Arena *arena = arena_open();
  ForecastSite site = plain_site();
  site.rates.products_slowed = 1.25;
  site.rates.way_slowed = 2;
  Forecast f = forecast(gathers(arena, 1, 2), &site); /* the first two seconds of both are side by side: 1.6 of products */
  EXPECT_NEAR(f.busy[LANE_GATHERS], 2, 1e-9);
  EXPECT_NEAR(f.seconds, 2 + 0.4, 1e-9);
  arena_close(arena);
}

TEST(between_nodes_the_network_counts) {
  Arena *arena = arena_open();
  ForecastSite site = plain_site();
  double last = forecast(gathers(arena, 2, 0), &site).seconds;
  for (site.per_node = PARTS / 2; site.per_node >= 1; site.per_node /= 2) { /* half as many ports at a time */
    double now = forecast(gathers(arena, 2, 0), &site).seconds;
    EXPECT_NEAR(now, 2 * last, 1e-9);
    last = now;
  }
  arena_close(arena);
}

static double sum(const Forecast *f) {
  double all = 0;
  for (int k = 0; k < PROF_KINDS; k++) all += f->spent[k];
  return all;
}

/* Of real programs: as long as what any lane takes, no longer than all of it in turn. */
TEST(a_step_lies_between_its_longest_lane_and_the_sum_of_all) {
  static const char *const runs[] = {LARGE BATCH, LARGE BATCH " parallel.strategy=no_shard"};
  for (int i = 0; i < 4; i++) {
    Prospect *p = prospect(runs[i & 1], 8, i & 2 ? 8 : 2, "h100");
    const Forecast *f = &p->step;
    double exposed = f->spent[PROF_GATHERS] + f->spent[PROF_REDUCTIONS], computed = sum(f) - exposed;
    EXPECT_NEAR(sum(f), f->seconds, 1e-9);
    for (int l = 0; l < LANES; l++) EXPECT(f->busy[l] <= f->seconds * (1 + 1e-9));
    EXPECT(exposed >= 0 && exposed <= (f->busy[LANE_GATHERS] + f->busy[LANE_REDUCTIONS]) * (1 + 1e-9));
    EXPECT(f->seconds >= computed && f->nbytes[LANE_REDUCTIONS] > 0);
    forget(p);
  }
}

TEST(a_better_machine_is_never_slower) {
  Prospect *p = prospect(LARGE BATCH, 8, 8, "h200");
  ForecastSite site = {.rates = machine_rates(machine_find("h200")), .per_node = 2};
  for (int a = 0; a < MESH_AXES; a++) site.extent[a] = mesh_extent(p->mesh, (MeshAxis)a);
  const Program *program = job_program(engine_job(p->engine), 0);
  const MachineRates usual = site.rates;
  double before = forecast(program, &site).seconds;
  double *const better[] = {
      &site.rates.narrow,           &site.rates.fused,           &site.rates.network,        &site.rates.way[WAY_GATHER],
      &site.rates.way[WAY_SCATTER], &site.rates.attention[1][0], &site.rates.attention[1][1]};
  for (size_t i = 0; i < sizeof better / sizeof *better; i++)
    for (double times = 1.1; times < 20; times *= 3) {
      site.rates = usual;
      *better[i] *= times;
      EXPECT(forecast(program, &site).seconds <= before * (1 + 1e-9));
    }
  site.rates = usual;
  site.per_node = 8;
  EXPECT(forecast(program, &site).seconds <= before);
  forget(p);
}
