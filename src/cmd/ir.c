/* SPDX-License-Identifier: Apache-2.0 */
/* hpctrain ir: a run's programs after a stage of the compiler, as rank 0 of N would have them.  Needs no ranks. */
#include <stdio.h>
#include <string.h>

#include "src/cmd/cmd.h"
#include "src/train/fit.h"
#include "src/train/groups.h"
#include "src/train/setup.h"

typedef struct Print {
  const char *after, *program; /* program NULL: all */
  bool found;
} Print;

static void heading(const char *program, const char *stage) { printf("# %s after %s\n", program, stage); }

static void put(Print *print, const char *program, const char *stage, Text *text) {
  heading(program, stage);
  fputs(text->at, stdout);
  text_close(text);
  print->found = true;
}

static bool wanted(const Print *print, const char *program, const char *stage) {
  return !strcmp(print->after, stage) && (!print->program || !strcmp(print->program, program));
}

static void print_graph(void *self, const char *program, const char *stage, const Graph *g) {
  if (!wanted(self, program, stage) || !strcmp(stage, "fuse")) return;
  Text text = {0};
  graph_print(g, &text);
  put(self, program, stage, &text);
}

static void print_program(void *self, const char *program, const char *stage, const Program *lowered) {
  if (!wanted(self, program, stage)) return;
  Text text = {0};
  program_print(lowered, &text);
  put(self, program, stage, &text);
}

static void fail_stage(const char *word) {
  Text names = {0};
  for (int i = 0; compile_stages[i]; i++) text_printf(&names, "%s%s", i ? ", " : "", compile_stages[i]);
  fail(FAIL_INPUT, "there is no stage '%s'\nhelp: the stages are %s", word, names.at);
}

int cmd_ir(int argc, char **argv) {
  Print print = {.after = "fuse"};
  int n = 0, ranks = words_take_ranks(&argc, argv);
  Arena *arena = arena_open();
  char **words = arena_array(arena, char *, argc + 1);
  for (int i = 0; i < argc; i++) {
    if (!strncmp(argv[i], "--after=", 8))
      print.after = argv[i] + 8;
    else if (!strncmp(argv[i], "--program=", 10))
      print.program = argv[i] + 10;
    else
      words[n++] = argv[i];
  }
  int stage = 0;
  while (compile_stages[stage] && strcmp(compile_stages[stage], print.after)) stage++;
  if (!compile_stages[stage]) fail_stage(print.after);
  Config *c = config_load(arena, n, words, ranks);
  setup_kind(arena, c, NULL);
  Text warnings = {0};
  ModelConfig model = setup_model(arena, c, &warnings);
  text_close(&warnings);
  Batch batch = config_check_batch(c, ranks);
  Comm *comm = comm_plan(ranks);
  Mesh *mesh = setup_mesh(c, comm);
  CompileWatch watch = {print_graph, print_program, &print};
  EngineOptions o = setup_training(c, &model, &batch, 1);
  o.eval = true;
  o.watch = &watch;
  o.traits = members_of_model(arena, c, &model)->traits;
  fit_settle(arena, c, comm, mesh, &o, &(FitPlace){0});
  engine_open(arena, NULL, comm, mesh, &o);
  if (!print.found) fail(FAIL_INPUT, "this run has no program '%s'\nhelp: without --program all are printed", print.program);
  mesh_close(mesh);
  comm_close(comm);
  arena_close(arena);
  return 0;
}
