/* SPDX-License-Identifier: Apache-2.0 */
/* What a profile is told of a program's steps: a name that says what is computed, and what it costs at the least. */
#include "kernels/cuda/gpu.h"
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
  if (s->op == OP_MATMUL) text_printf(text, "x%lld%s", (long long)s->out[0].shape.dim[1], s->n[0] ? " accumulating" : "");
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

/* --- costs ------------------------------------------------------------------------------------------------------------------ */

static double arg_bytes(const StepArg *arg) { return (double)shape_size(&arg->shape) * (double)dtype_size(arg->dtype); }

/* Elements that are read or written, each once however often it is repeated. */
static double access_bytes(const Kernel *k, const KernelArg *a) {
  double n = (double)dtype_size(a->dtype);
  for (int i = 0; i < k->domain.rank; i++)
    if (a->stride[i]) n *= (double)k->domain.dim[i];
  return n;
}

static double kernel_bytes(const Kernel *k) {
  double nbytes = 0;
  for (int i = 0; i < k->ninputs; i++) nbytes += access_bytes(k, &k->inputs[i]);
  for (int i = 0; i < k->noutputs; i++)
    nbytes += access_bytes(k, &k->outputs[i]) * (k->values[k->outputs[i].value].level == LEVEL_COLUMN ? k->blocks : 1);
  return nbytes;
}

/* Two products forward, five back, of which one is the first forward one again; where segments end is not known here. */
static double big_flops(const Step *s) {
  const int64_t *d = s->in[0].shape.dim;
  double products = s->op == OP_ATTENTION ? 2 : 5;
  if (s->op == OP_MATMUL) return 2 * (double)d[0] * (double)d[1] * (double)s->out[0].shape.dim[1];
  if (s->op != OP_ATTENTION && s->op != OP_ATTENTION_GRAD) return 0;
  return 2 * products * (double)d[0] * (double)d[2] * (double)d[3] * attention_pairs((double)d[1], (double)s->n[0]);
}

double program_flops(const Program *program, double *again) {
  double all = 0;
  *again = 0;
  for (int i = 0; i < program->nsteps; i++) {
    const Step *s = &program->steps[i];
    double flops = s->kind == STEP_BIG ? big_flops(s) : 0;
    all += flops;
    if (graph_node(program->graph, s->node)->phase == PHASE_RECOMPUTE) *again += flops;
  }
  return all;
}

static double big_bytes(const Step *s) {
  double nbytes = 0;
  for (int i = 0; i < s->nin; i++) nbytes += arg_bytes(&s->in[i]);
  for (int i = 0; i < s->nout; i++) nbytes += arg_bytes(&s->out[i]);
  if (s->op == OP_EMBEDDING) nbytes += arg_bytes(&s->out[0]) - arg_bytes(&s->in[0]); /* only rows that are looked up */
  if ((s->op == OP_MATMUL || s->op == OP_EMBEDDING_GRAD) && s->n[0]) nbytes += arg_bytes(&s->out[0]); /* read, too */
  return nbytes;
}

/* What this rank receives: all parts of the whole but its own; a sum of the whole on all ranks is a scatter and a gather. */
static double collective_bytes(const Step *s) {
  double ranks = (double)s->n[1], whole = arg_bytes(s->op == OP_ALL_GATHER ? &s->out[0] : &s->in[0]);
  return whole * (ranks - 1) / ranks * (s->op == OP_ALL_REDUCE ? 2 : 1);
}

/* --- telling ---------------------------------------------------------------------------------------------------------------- */

static ProfKind big_kind(Op op) {
  return op == OP_MATMUL ? PROF_PRODUCTS : op == OP_ATTENTION || op == OP_ATTENTION_GRAD ? PROF_ATTENTION : PROF_EMBEDDING;
}

static ProfItem item_of(const Step *s, bool updates) {
  if (s->kind == STEP_KERNEL) return (ProfItem){.kind = updates ? PROF_UPDATE : PROF_FUSED, .nbytes = kernel_bytes(s->kernel)};
  if (s->kind == STEP_TRANSFER_START) return (ProfItem){.kind = PROF_COPIES, .nbytes = arg_bytes(&s->in[0])};
  if (s->kind == STEP_TRANSFER_WAIT) return (ProfItem){.kind = PROF_COPIES};
  ProfItem item = {.kind = s->op == OP_ALL_GATHER ? PROF_GATHERS : PROF_REDUCTIONS, .narrow = dtype_size(s->in[0].dtype) == 2};
  if (s->kind == STEP_COLLECTIVE_START) item.nbytes = collective_bytes(s);
  if (s->kind != STEP_BIG) return item;
  item.kind = big_kind(s->op);
  item.flops = big_flops(s);
  item.nbytes = big_bytes(s);
  return item;
}

static bool updates_states(const Program *p) {
  for (int i = 0; i < p->nsteps; i++)
    for (int o = 0; o < p->steps[i].nout; o++) {
      const Buffer *b = &p->buffers[p->steps[i].out[o].place.buffer];
      if (b->class == BUFFER_VAR && p->graph->vars.at[b->var].class == VAR_STATE) return true;
    }
  return false;
}

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
    bool updates = updates_states(p->program);
    for (int s = 0; s < p->program->nsteps; s++) {
      items[s] = item_of(&p->program->steps[s], updates);
      items[s].name = job_step_name(job->arena, job, i, s);
    }
    p->profiled = prof_program(prof, p->name, items, p->program->nsteps);
  }
  if (!job->interpreted) tell_memory(job, prof);
}
