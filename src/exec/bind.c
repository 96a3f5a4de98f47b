/* SPDX-License-Identifier: Apache-2.0 */
/* Binding: places to addresses, steps to functions. */
#include <string.h>

#include "src/exec/job.h"

static void *address(const Job *job, const JobProgram *p, const Place *place, DType dtype) {
  const Buffer *b = &p->program->buffers[place->buffer];
  size_t at = b->class == BUFFER_VAR     ? job->vars.at[p->var[b->var]].offset
              : b->class == BUFFER_TABLE ? job->memory.vars + p->table[place->buffer]
                                         : job->memory.vars + job->memory.tables + (size_t)b->offset;
  return job->base + at + (size_t)place->offset * dtype_size(dtype);
}

static void bind_kernel(Job *job, const JobProgram *p, const Step *step, Bound *bound, Code *code) {
  bound->symbol = code_kernel(code, step->kernel);
  bound->pointers = arena_array(job->arena, void *, step->nin + step->nout);
  for (int i = 0; i < step->nin; i++) bound->pointers[i] = address(job, p, &step->in[i].place, step->in[i].dtype);
  for (int i = 0; i < step->nout; i++) bound->pointers[step->nin + i] = address(job, p, &step->out[i].place, step->out[i].dtype);
}

static void *workspace_address(const Job *job, const JobProgram *p, const Step *step) {
  if (step->workspace < 0) return NULL;
  return address(job, p, &(Place){.buffer = step->workspace}, DT_PRED);
}

static void bind_big(Job *job, const JobProgram *p, const Step *step, Bound *bound, Code *code) {
  bound->call = big_call(step, job->choices->threads);
  const BigImpl *row = bound->row = big_choose(step, &bound->call, job->choices);
  if (row->text)
    bound->symbol = code_big(code, row, &bound->call);
  else
    bound->big = row->native(NULL);
  for (int i = 0; i < step->nin; i++) bound->call.in[i].at = address(job, p, &step->in[i].place, step->in[i].dtype);
  for (int i = 0; i < step->nout; i++) bound->call.out[i].at = address(job, p, &step->out[i].place, step->out[i].dtype);
  bound->call.workspace = workspace_address(job, p, step);
  job_tune_add(job, step, bound, code);
}

static void bind_collective(Job *job, const JobProgram *p, const Step *step, Bound *bound) {
  void *in = address(job, p, &step->in[0].place, step->in[0].dtype),
       *out = address(job, p, &step->out[0].place, step->out[0].dtype);
  bound->op = comm_prepare(job->mesh, (MeshAxis)step->n[0], collective_kind(step->op), in, out, collective_count(step),
                           step->in[0].dtype, workspace_address(job, p, step), op_table[step->op].name);
}

void job_bind(Job *job, JobProgram *p, Code *code) {
  const Program *program = p->program;
  CommOp **ops = arena_array(job->arena, CommOp *, program->ncollectives);
  p->steps = arena_array(job->arena, Bound, program->nsteps);
  for (int i = 0; i < program->nsteps; i++) {
    const Step *step = &program->steps[i];
    Bound *bound = &p->steps[i];
    bound->kind = step->kind;
    if (step->kind == STEP_KERNEL) bind_kernel(job, p, step, bound, code);
    if (step->kind == STEP_BIG) bind_big(job, p, step, bound, code);
    if (step->kind == STEP_COLLECTIVE_START) {
      bind_collective(job, p, step, bound);
      ops[step->collective] = bound->op;
    }
    if (step->kind == STEP_COLLECTIVE_WAIT) bound->op = ops[step->collective];
  }
}

void job_resolve(Job *job, JobProgram *p) {
  for (int i = 0; i < p->program->nsteps; i++) {
    Bound *bound = &p->steps[i];
    if (!bound->symbol) continue;
    void *function = dev_symbol(job->module, bound->symbol);
    if (bound->kind == STEP_KERNEL)
      memcpy(&bound->kernel, &function, sizeof function);
    else
      memcpy(&bound->big, &function, sizeof function);
  }
}

void job_check_products(const JobProgram *p) {
  for (int i = 0; i < p->program->nsteps; i++) {
    const Bound *bound = &p->steps[i];
    Why why;
    if (bound->kind == STEP_BIG && bound->symbol && !kernels_try_built(bound->row, &bound->call, bound->symbol, bound->big, &why))
      fail(FAIL_MACHINE, "matrix product '%s' %s\nhelp: cpu.matmul: onednn or cblas; another compiler by cpu.compiler",
           bound->row->name, why.text);
  }
}

void job_fill_tables(const Job *job, const JobProgram *p) {
  for (int b = 0; b < p->program->nbuffers; b++) {
    const Buffer *buffer = &p->program->buffers[b];
    if (buffer->class != BUFFER_TABLE) continue;
    const Node *node = graph_node(p->program->graph, buffer->var);
    float *at = address(job, p, &(Place){.buffer = b}, DT_F32);
    for (int64_t i = 0; i < node->n[0]; i++) at[i] = (float)node->table[i];
  }
}
