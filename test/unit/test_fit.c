/* SPDX-License-Identifier: Apache-2.0 */
/* memory.recompute: auto: what it finds is what trying everything finds.  Nothing is run. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/train/fit.h"
#include "test/check.h"
#include "test/unit/small_model.h"

enum { SETTINGS_MOST = 256 };

typedef struct Case {
  Arena *arena;
  Comm *comm;
  Mesh *mesh;
  EngineOptions o;
  FitLine line;
  int n;
  size_t nbytes[SETTINGS_MOST]; /* by setting */
} Case;

static Case open_case(const EngineOptions *o, int ranks) {
  Case c = {.arena = arena_open(), .comm = comm_plan(ranks), .o = *o};
  c.mesh = mesh_open(c.comm, (int[MESH_AXES]){1, 1, ranks, 1, 1});
  return c;
}

static void close_case(Case *c) {
  mesh_close(c->mesh);
  comm_close(c->comm);
  arena_close(c->arena);
}

static size_t planned(const Case *c, const EngineOptions *o, uint64_t *hash) {
  Arena *arena = arena_open();
  Engine *engine = engine_open(arena, NULL, c->comm, c->mesh, o);
  JobMemory m = job_memory(engine_job(engine));
  if (hash) *hash = engine_hash(engine);
  arena_close(arena);
  return m.vars + m.tables + m.transient;
}

static EngineOptions with_setting(const Case *c, int setting) {
  EngineOptions o = c->o;
  fit_choose(&c->line, setting, &o.choices);
  return o;
}

/* A small model of long sequences: activations are most of what it needs. */
static Case small_case(int ranks) {
  EngineOptions o = small_options(&(SmallModel){4, 101, 4, 8}, 2, 96, 3, 1);
  o.eval = true;
  Case c = open_case(&o, ranks);
  c.line = fit_find(c.arena, c.comm, c.mesh, &c.o, 1).line;
  c.n = fit_settings(&c.line);
  CHECK(c.n < SETTINGS_MOST);
  for (int i = 0; i < c.n; i++) {
    EngineOptions each = with_setting(&c, i);
    c.nbytes[i] = planned(&c, &each, NULL);
  }
  return c;
}

TEST(what_is_found_is_the_first_that_fits) {
  for (int ranks = 1; ranks <= 2; ranks++) {
    Case c = small_case(ranks);
    EXPECT(c.line.blocks == 4 && c.line.levels >= 5);
    size_t most = c.nbytes[0];
    for (int i = 0; i < c.n; i++) { /* with budgets that separate two settings */
      size_t room = c.nbytes[i] - (size_t)(i % 2);
      int first = 0;
      while (first < c.n && c.nbytes[first] > room) first++;
      FitFound found = fit_find(c.arena, c.comm, c.mesh, &c.o, room);
      EXPECT(found.fits == (first < c.n));
      if (first == c.n) continue;
      EXPECT(found.setting == first && found.nbytes == c.nbytes[first] && found.nbytes <= room);
      EXPECT(found.compiled <= 40);
    }
    EXPECT(c.nbytes[c.n - 1] < most / 4 * 3); /* the line is worth something */
    close_case(&c);
  }
}

TEST(memory_falls_from_level_to_level) {
  Case c = small_case(1);
  for (int i = c.line.blocks; i < c.n; i += c.line.blocks) EXPECT(c.nbytes[i] < c.nbytes[i - c.line.blocks]);
  close_case(&c);
}

TEST(arithmetic_rises_along_the_line) {
  Case c = small_case(1);
  double before = -1;
  for (int i = 0; i < c.n; i++) {
    FitFound found = fit_find(c.arena, c.comm, c.mesh, &c.o, c.nbytes[i]);
    if (found.setting != i) continue;
    EXPECT(found.again >= before && (i <= c.line.blocks) == (found.again == 0)); /* norms and activations count for nothing */
    before = found.again;
  }
  EXPECT(before > 0.15 && before < 1. / 3);
  close_case(&c);
}

TEST(names_of_the_line_are_its_ends) {
  Case c = small_case(1);
  static const Forget names[] = {FORGET_NOTHING, FORGET_CHEAP, FORGET_BLOCKS};
  const int settings[] = {0, c.line.blocks, c.n - 1};
  for (int i = 0; i < 3; i++) {
    EngineOptions named = c.o, found = with_setting(&c, settings[i]);
    named.choices.forget = names[i];
    uint64_t a, b;
    planned(&c, &named, &a);
    planned(&c, &found, &b);
    EXPECT(a == b);
  }
  FitFound all = fit_find(c.arena, c.comm, c.mesh, &c.o, SIZE_MAX / 2);
  EXPECT(all.fits && all.setting == 0 && all.again == 0);
  EXPECT_TEXT(all.text, "none");
  close_case(&c);
}

/* The 7B of a GPU: what is found is found soon, and made of its products and attention. */
TEST(the_search_is_short) {
  EngineOptions o = small_options(&(SmallModel){1, 101, 4, 8}, 4, 4096, 3, 1);
  CHECK(model_preset("llama2-7b", &o.model));
  o.eval = true;
  o.choices.compute = DT_BF16;
  o.choices.cuda = true;
  Case c = open_case(&o, 1);
  double begin = clock_seconds();
  FitFound found = fit_find(c.arena, c.comm, c.mesh, &c.o, (size_t)130 << 30);
  double seconds = clock_seconds() - begin;
  if (getenv("HPCTRAIN_TEST_TIMES"))
    fprintf(stderr, "%.2f s, %d programs of %d settings: %s\n", seconds, found.compiled, fit_settings(&found.line), found.text);
  EXPECT(found.fits && found.compiled <= 24 && fit_settings(&found.line) == 5 * 32 + 1);
  EXPECT(strstr(found.text, "cheap, gate_proj+up_proj in ") == found.text);
  EXPECT(found.nbytes > (size_t)129 << 30);
  close_case(&c);
}

/* --- the key ---------------------------------------------------------------------------------------------------------------- */

static const char run_file[] =
    "hpctrain: 1\n"
    "model: {preset: llama-5m}\n"
    "data: {train: t.bin}\n"
    "train: {seq_len: 64, duration: 5 steps, global_batch_size: 4 sequences, lr: 1e-3, schedule: constant}\n";

static const char *settle(Case *c, const char *word, EngineOptions *o) {
  char *argv[] = {"train", (char *)word};
  const Config *config = config_parse(c->arena, "t.yaml", run_file, 2, argv);
  *o = c->o;
  return fit_settle(c->arena, config, c->comm, c->mesh, o, &(FitPlace){0});
}

TEST(auto_is_what_the_bytes_allow) {
  Case c = small_case(1);
  EngineOptions o;
  EXPECT(!settle(&c, "memory.recompute=block", &o));
  EXPECT(strstr(settle(&c, "memory.recompute=auto", &o), "none: ") && o.choices.forget == FORGET_NOTHING);
  size_t middle = c.nbytes[c.line.blocks + 2];
  const char *told = settle(&c, arena_printf(c.arena, "memory.recompute=auto: %zuB", middle), &o);
  EXPECT(strstr(told, " in 2 of 4 blocks: +") && planned(&c, &o, NULL) <= middle);
  size_t least = SIZE_MAX;
  for (int i = 0; i < c.n; i++) least = c.nbytes[i] < least ? c.nbytes[i] : least;
  const char *short_of = arena_printf(c.arena, "memory.recompute=auto: %zuB", least - 12345);
  EXPECT_FAIL(FAIL_INPUT, " short, 12345 bytes\n", settle(&c, short_of, &o));
  close_case(&c);
}
