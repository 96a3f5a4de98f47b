/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds memory, as the plan knows it: all of it is somebody's, nobody's twice, and the timeline's maximum is the peak; which
 * is not much more than what is alive then. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/exec/memory.h"
#include "src/train/engine.h"
#include "test/check.h"

typedef struct Case {
  const char *preset;
  int ranks, shards;
  bool across;
  Forget forget;
  DType compute;
  int64_t passes;
  bool cuda;
  OffloadOptions offload;
} Case;

static const Case cases[] = {{"llama-5m", 1, 1, false, FORGET_NOTHING, DT_F32, 1},
                             {"llama-124m", 4, 4, false, FORGET_CHEAP, DT_BF16, 3},
                             {"llama-5m", 2, 1, true, FORGET_BLOCKS, DT_F16, 2},
                             {"llama2-7b", 1, 1, false, FORGET_CHEAP, DT_BF16, 1},
                             {"llama2-7b", 64, 8, true, FORGET_BLOCKS, DT_BF16, 2},
                             {"llama-124m",
                              2,
                              2,
                              false,
                              FORGET_BLOCKS,
                              DT_BF16,
                              2,
                              false,
                              {OFFLOAD_MOMENTS | OFFLOAD_MASTERS | OFFLOAD_GRADIENTS | OFFLOAD_INPUTS, HOME_HOST}}};
enum { CASES = sizeof cases / sizeof *cases };

typedef struct Planned {
  Arena *arena;
  Comm *comm;
  Mesh *mesh;
  Engine *engine;
  const Job *job;
} Planned;

static Planned plan(const Case *c) {
  Planned p = {.arena = arena_open(), .comm = comm_plan(c->ranks)};
  p.mesh = mesh_data_parallel(p.comm, c->shards);
  EngineOptions o = {.sequences = 2,
                     .positions = 512,
                     .passes = c->passes,
                     .across = c->across,
                     .nominal_tokens = 1024,
                     .adam = {0.9, 0.95, 1e-8, 0.1},
                     .clip = 1,
                     .train = true,
                     .eval = true};
  CHECK(model_preset(c->preset, &o.model));
  o.choices = (Choices){.forget = c->forget,
                        .compute = c->compute,
                        .units_alive = 2,
                        .matmul = "auto",
                        .threads = 1,
                        .cuda = c->cuda,
                        .offload = c->offload};
  p.engine = engine_open(p.arena, NULL, p.comm, p.mesh, &o);
  p.job = engine_job(p.engine);
  return p;
}

static void planned_close(Planned *p) {
  mesh_close(p->mesh);
  comm_close(p->comm);
  arena_close(p->arena);
}

static size_t sum(const size_t by_class[MEMORY_CLASSES]) {
  size_t all = 0;
  for (int c = 0; c < MEMORY_CLASSES; c++) all += by_class[c];
  return all;
}

TEST(all_memory_is_somebodys) {
  for (int i = 0; i < CASES; i++) {
    Planned p = plan(&cases[i]);
    JobMemory m = job_memory(p.job);
    const MemoryReport *r = memory_report(p.arena, p.job);
    size_t held[MEMORY_CLASSES] = {0};
    EXPECT(r->nbytes == m.vars + m.tables + m.transient && sum(r->by_class) == r->nbytes && r->program >= 0);
    for (int h = 0; h < r->n; h++) held[r->at[h].class] += r->at[h].nbytes;
    for (int c = 0; c < MEMORY_CLASSES; c++) EXPECT(held[c] == (c == MEMORY_GAPS ? 0 : r->by_class[c]));
    EXPECT(cases[i].offload.what || r->by_class[MEMORY_PARAMETERS] + r->by_class[MEMORY_MOMENTS] <= m.states);
    EXPECT(r->host == m.host && sum(r->host_by_class) == r->host);
    EXPECT((r->host_by_class[MEMORY_MOMENTS] > 0 && r->host_by_class[MEMORY_ACTIVATIONS] > 0) == (cases[i].offload.what != 0));
    EXPECT((cases[i].offload.what || r->by_class[MEMORY_MOMENTS] > 0) && r->by_class[MEMORY_ACTIVATIONS] > 0 &&
           r->by_class[MEMORY_GRADIENTS] > 0);
    EXPECT(cases[i].offload.what || (r->by_class[MEMORY_GATHERED] > 0) == (cases[i].shards > 1 || cases[i].across));
    planned_close(&p);
  }
}

static int by_place(const void *a, const void *b) {
  const MemoryHolder *x = a, *y = b;
  return x->at < y->at ? -1 : x->at > y->at;
}

TEST(no_byte_is_held_twice) {
  for (int i = 0; i < CASES; i++) {
    Planned p = plan(&cases[i]);
    const MemoryReport *r = memory_report(p.arena, p.job);
    for (int h = 1; h < r->n; h++) EXPECT(r->at[h - 1].nbytes >= r->at[h].nbytes);
    qsort(r->at, (size_t)r->n, sizeof *r->at, by_place);
    for (int h = 1; h < r->n; h++) EXPECT(r->at[h - 1].at + r->at[h - 1].nbytes <= r->at[h].at);
    EXPECT(r->at[r->n - 1].at + r->at[r->n - 1].nbytes <= r->nbytes);
    planned_close(&p);
  }
}

TEST(the_timeline_reaches_the_peak_and_no_more) {
  for (int i = 0; i < CASES; i++) {
    Planned p = plan(&cases[i]);
    JobMemory m = job_memory(p.job);
    const MemoryReport *r = memory_report(p.arena, p.job);
    const Program *program = job_program(p.job, r->program);
    const size_t *alive = memory_timeline(p.arena, p.job, r->program);
    size_t most = 0;
    for (int s = 0; s < program->nsteps; s++) {
      size_t now = sum(&alive[s * MEMORY_CLASSES]);
      most = now > most ? now : most;
    }
    EXPECT(most == m.vars + m.tables + program->live && most == r->nbytes - r->by_class[MEMORY_GAPS]);
    for (int c = 0; c < MEMORY_GAPS; c++) EXPECT(alive[r->step * MEMORY_CLASSES + c] == r->by_class[c]);
    planned_close(&p);
  }
}

TEST(holders_of_a_kind_are_told_together) {
  Planned p = plan(&cases[3]);
  Text text = {0};
  memory_report_print(memory_report(p.arena, p.job), 5, &text);
  EXPECT(strstr(text.at, " GiB planned: activations ") && strstr(text.at, "\n   peak in "));
  EXPECT(strstr(text.at, "32 of 0.754: m/layers.* 202383360 f32\n"));
  int lines = 0;
  for (const char *c = text.at; *c; c++) lines += *c == '\n';
  EXPECT(lines == 2 + 5);
  text_close(&text);
  planned_close(&p);
}

/* --- the planner ------------------------------------------------------------------------------------------------------------ */

static double worst_ratio(const Case *c) {
  Planned p = plan(c);
  double worst = 0;
  int n = (int)(c->passes < 3 ? c->passes : 3) + 2; /* micro-steps, update, evaluation */
  for (int i = 0; i < n; i++) {
    const Program *program = job_program(p.job, i);
    double ratio = (double)program->transient / (double)program->live;
    if (!(ratio <= worst)) worst = ratio;
    if (!(ratio <= 1.1))
      fprintf(stderr, "%s on %d ranks, recompute %d, %s, program %d: %.3f\n", c->preset, c->ranks, c->forget,
              dtype_name(c->compute), i, ratio);
  }
  planned_close(&p);
  return worst;
}

TEST(plans_of_small_presets_waste_less_than_a_tenth_in_every_way_to_run_them) {
  static const char *const presets[] = {"llama-5m", "llama-10m"};
  static const struct {
    int ranks, shards;
    bool across;
  } ways[] = {{1, 1, false}, {8, 8, false}, {8, 1, true}, {8, 4, false}, {8, 4, true}};
  enum { WAYS = sizeof ways / sizeof *ways };
  for (int i = 0; i < WAYS * 2 * 3 * 3 * 2; i++) {
    int k = i;
    Case c = {.passes = 3, .ranks = ways[k % WAYS].ranks, .shards = ways[k % WAYS].shards, .across = ways[k % WAYS].across};
    k /= WAYS;
    c.preset = presets[k % 2];
    k /= 2;
    c.forget = (Forget[]){FORGET_NOTHING, FORGET_CHEAP, FORGET_BLOCKS}[k % 3];
    k /= 3;
    c.compute = (DType[]){DT_F32, DT_BF16, DT_F16}[k % 3];
    c.cuda = k / 3;
    EXPECT(worst_ratio(&c) <= 1.1);
  }
}

TEST(plans_of_all_presets_waste_less_than_a_tenth) {
  double worst = 0;
  for (int i = 0; model_presets()[i]; i++) {
    const Case usual[] = {{model_presets()[i], 64, 64, false, FORGET_CHEAP, DT_BF16, 2, true},
                          {model_presets()[i], 1, 1, false, FORGET_BLOCKS, DT_F32, 1, false}};
    for (int k = 0; k < 2; k++) {
      double ratio = worst_ratio(&usual[k]);
      EXPECT(ratio <= 1.1);
      worst = ratio > worst ? ratio : worst;
    }
  }
  printf("presets: at most %.3f of what is alive\n", worst);
}
