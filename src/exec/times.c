/* SPDX-License-Identifier: Apache-2.0 */
/* How long each step takes, and what it is called. */
#include "src/exec/job.h"

void job_time(Job *job) {
  for (int i = 0; i < job->programs.n; i++) {
    JobProgram *p = &job->programs.at[i];
    if (!p->seconds) p->seconds = arena_array(job->arena, double, p->program->nsteps);
  }
}

const double *job_seconds(const Job *job, int program) { return job->programs.at[program].seconds; }

static void print_shape(Text *text, const Shape *s) {
  for (int i = 0; i < s->rank; i++) text_printf(text, "%s%lld", i ? "x" : " ", (long long)s->dim[i]);
}

const char *job_step_name(Arena *arena, const Job *job, int program, int step) {
  const Step *s = &job->programs.at[program].program->steps[step];
  Text text = {0};
  if (s->kind == STEP_KERNEL) {
    text_printf(&text, "kernel");
    print_shape(&text, &s->kernel->domain);
    for (int i = 0; i < s->kernel->nvalues; i++)
      if (s->kernel->values[i].kop == K_POINTWISE) text_printf(&text, " %s", op_table[s->kernel->values[i].op].name);
  } else {
    static const char *const waits[] = {[STEP_BIG] = "", [STEP_COLLECTIVE_START] = "start ", [STEP_COLLECTIVE_WAIT] = "wait "};
    text_printf(&text, "%s%s", waits[s->kind], op_table[s->op].name);
    print_shape(&text, &s->in[0].shape);
    if (s->op == OP_MATMUL) text_printf(&text, "x%lld%s", (long long)s->out[0].shape.dim[1], s->n[0] ? " accumulating" : "");
  }
  const char *name = arena_strdup(arena, text.at);
  text_close(&text);
  return name;
}
