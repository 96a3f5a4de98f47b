/* SPDX-License-Identifier: Apache-2.0 */
/* What a profile is told of a program's steps: a name that says what is computed, and what it costs at the least. */
#include "kernels/cuda/gpu.h"
#include "src/exec/cost.h"
#include "src/exec/job.h"
#include "src/exec/memory.h"

/* --- names ------------------------------------------------------------------------------------------------------------------ */

static void print_shape(Text *text, const Shape *s) {
  for (int i = 0; i < s->rank; i++) text_printf(text, "%s%lld", i ? "x" : " ", (long long)s->dim[i]);
}

/* What a value of a kernel is called; NULL: nothing. */
static const char *value_name(const KernelValue *v) {
  static const char *const names[] = {[K_SUM] = "sum", [K_MAXIMUM] = "maximum", [K_COLUMN_SUM] = "column_sum"};
  return v->kop == K_POINTWISE ? op_table[v->op].name : names[v->kop];
}

/* What it is made of: each op once, in order. */
static void print_kernel(Text *text, const Kernel *k) {
  print_shape(text, &k->domain);
  for (int i = 0; i < k->nvalues; i++) {
    const char *name = value_name(&k->values[i]);
    int before = 0;
    while (before < i && value_name(&k->values[before]) != name) before++;
    if (name && before == i) text_printf(text, " %s", name);
  }
}

static void print_big(Text *text, const Step *s, const Bound *bound) {
  if (s->op == OP_MATMUL)
    text_printf(text, "x%lld%s", (long long)s->out[0].shape.dim[1], s->n[0] ? " accumulating" : s->nin == 3 ? " + bias" : "");
  text_printf(text, " %s", dtype_name(s->in[0].dtype));
  const char *row = !bound ? NULL : bound->gpu ? bound->gpu->row->name : bound->row ? bound->row->name : NULL;
  if (row) text_printf(text, ", %s", row);
}

const char *job_step_name(Arena *arena, const Job *job, int program, int step) {
  const JobProgram *p = &job->programs.at[program];
  const Step *s = &p->program->steps[step];
  Text text = {0};
  text_printf(&text, "%s", s->kind == STEP_KERNEL ? "kernel" : op_table[s->op].name);
  if (s->kind == STEP_KERNEL)
    print_kernel(&text, s->kernel);
  else
    print_shape(&text, &s->in[0].shape);
  if (s->kind == STEP_BIG) print_big(&text, s, p->steps ? &p->steps[step] : NULL);
  if (s->kind == STEP_COLLECTIVE_START || s->kind == STEP_COLLECTIVE_WAIT) text_printf(&text, " %s", dtype_name(s->in[0].dtype));
  const char *name = arena_strdup(arena, text.at);
  text_close(&text);
  return name;
}

/* --- telling ---------------------------------------------------------------------------------------------------------------- */

/* Kept with the job, as the profile needs it. */
static void tell_memory(const Job *job, Prof *prof) {
  enum { LARGEST = 12 };
  const MemoryReport *r = memory_report(job->arena, job);
  ProfPeak peak = {.nbytes = (double)r->nbytes, .place = r->place};
  int n;
  const MemoryKin *kin = memory_kin(job->arena, r, &n);
  for (int i = 0; i < n && i < LARGEST; i++) {
    const MemoryKin *k = &kin[i];
    const char *name = k->n > 1 ? arena_printf(job->arena, "%d of %s", k->n, k->name) : k->one->name;
    vec_push(job->arena, &peak.holders, (ProfHolder){(double)k->each * k->n, memory_class_names[k->class], name});
  }
  prof_peak(prof, &peak);
  for (int i = 0; i < job->programs.n; i++)
    prof_memory(prof, job->programs.at[i].profiled, memory_class_names, MEMORY_CLASSES, memory_timeline(job->arena, job, i));
}

void job_profile(Job *job, Prof *prof) {
  CHECK(!job->prof && job->base); /* once, when rows of big ops are known */
  job->prof = prof;
  for (int i = 0; i < job->programs.n; i++) {
    JobProgram *p = &job->programs.at[i];
    ProfItem *items = arena_array(job->arena, ProfItem, p->program->nsteps);
    bool updates = program_updates(p->program);
    for (int s = 0; s < p->program->nsteps; s++) {
      StepCost cost = step_cost(&p->program->steps[s], updates);
      items[s] = (ProfItem){.kind = cost.kind, .flops = cost.flops, .nbytes = cost.nbytes, .narrow = cost.narrow};
      items[s].name = job_step_name(job->arena, job, i, s);
    }
    p->profiled = prof_program(prof, p->name, items, p->program->nsteps);
  }
  if (!job->interpreted) tell_memory(job, prof);
}
