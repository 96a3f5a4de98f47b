/* SPDX-License-Identifier: Apache-2.0 */
/* run.debug: the compiler's stages as files of the attempt, memory and collectives as notes; all by rank 0. */
#include <string.h>

#include "src/base/file.h"
#include "src/exec/memory.h"
#include "src/train/run.h"

static void put_take(const Run *run, const char *program, const char *stage, Text *text) {
  Why why;
  const char *path = arena_printf(run->arena, "%s/ir-%s-%s.txt", run->folder->here, program, stage);
  if (!try_file_write(path, text->at, text->n, &why)) lines_warn(run->lines, 0, "run.debug: %s", why.text);
  text_close(text);
}

static void put_graph(void *self, const char *program, const char *stage, const Graph *g) {
  Text text = {0};
  graph_print(g, &text);
  put_take(self, program, stage, &text);
}

static void tell_collectives(const Run *run, const char *program, const Program *lowered) {
  for (int i = 0; i < lowered->nsteps; i++) {
    const Step *s = &lowered->steps[i];
    if (s->kind != STEP_COLLECTIVE_START) continue;
    lines_note(run->lines, "comm %s step %d: %s, %lld of %s to %lld", program, i, op_table[s->op].name,
               (long long)shape_size(&s->in[0].shape), dtype_name(s->in[0].dtype), (long long)shape_size(&s->out[0].shape));
  }
}

static void put_program(void *self, const char *program, const char *stage, const Program *lowered) {
  const Run *run = self;
  Text text = {0};
  (void)stage;
  if (run->config->run.debug & DEBUG_COMM) tell_collectives(run, program, lowered);
  if (!(run->config->run.debug & DEBUG_FUSE)) return;
  program_print(lowered, &text);
  put_take(run, program, "program", &text);
}

const CompileWatch *stages_watch(const Run *run) {
  int debug = run->config->run.debug;
  if (!run_speaks(run) || !(debug & (DEBUG_IR | DEBUG_FUSE | DEBUG_COMM))) return NULL;
  CompileWatch *watch = arena_new(run->arena, CompileWatch);
  *watch = (CompileWatch){debug & DEBUG_IR ? put_graph : NULL, debug & (DEBUG_FUSE | DEBUG_COMM) ? put_program : NULL, (void *)run};
  return watch;
}

static void tell_holders(const Run *run) {
  enum { LARGEST = 20 };
  Arena *arena = arena_open();
  Text text = {0};
  memory_report_print(memory_report(arena, engine_job(run->engine)), LARGEST, &text);
  for (char *line = strtok(text.at, "\n"); line; line = strtok(NULL, "\n")) lines_note(run->lines, "mem %s", line + 3);
  text_close(&text);
  arena_close(arena);
}

void stages_memory(const Run *run) {
  if (!run_speaks(run) || !(run->config->run.debug & DEBUG_MEM)) return;
  JobMemory m = job_memory(engine_job(run->engine));
  const struct {
    const char *what;
    size_t nbytes;
  } rows[] = {{"states", m.states},    {"carried", m.carried},     {"inputs", m.inputs},
              {"constants", m.tables}, {"transient", m.transient}, {"arena", m.vars + m.tables + m.transient}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    lines_note(run->lines, "mem %-9s %12zu bytes", rows[i].what, rows[i].nbytes);
  tell_holders(run);
}

void stages_choices(const Run *run) {
  const char *choices = job_choices(engine_job(run->engine));
  Why why;
  if (!run_speaks(run) || !*choices) return;
  if (!try_file_write(arena_printf(run->arena, "%s/choices.txt", run->folder->here), choices, strlen(choices), &why))
    lines_warn(run->lines, 0, "run.tune: %s", why.text);
}
