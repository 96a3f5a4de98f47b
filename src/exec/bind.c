/* SPDX-License-Identifier: Apache-2.0 */
/* Binding: places to addresses, steps to functions. */
#include <stdlib.h>
#include <string.h>

#include "src/exec/job.h"

static char *buffer_address(const Job *job, const JobProgram *p, int buffer) {
  const Buffer *b = &p->program->buffers[buffer];
  char *tables = job_at(job, job->memory.vars);
  switch (b->class) {
  case BUFFER_VAR:
    return job_address(job, &job->vars.at[p->var[b->var]]);
  case BUFFER_TABLE:
    return tables + p->table[buffer];
  case BUFFER_HOST:
    return job->far + job->memory.host_vars + b->offset;
  default:
    return tables + job->memory.tables + b->offset;
  }
}

static void *address(const Job *job, const JobProgram *p, const Place *place, DType dtype) {
  return buffer_address(job, p, place->buffer) + (size_t)place->offset * dtype_size(dtype);
}

static void bind_kernel(Job *job, const JobProgram *p, const Step *step, Bound *bound, Code *code) {
  uint64_t aligned = 0;
  bound->npointers = step->nin + step->nout;
  bound->pointers = arena_array(job->arena, void *, bound->npointers);
  for (int i = 0; i < bound->npointers; i++) {
    const StepArg *arg = i < step->nin ? &step->in[i] : &step->out[i - step->nin];
    bound->pointers[i] = address(job, p, &arg->place, arg->dtype);
    if ((uintptr_t)bound->pointers[i] % 16 == 0) aligned |= (uint64_t)1 << i;
  }
  bound->symbol = code_kernel(code, step->kernel, aligned, &bound->launch);
}

static void *workspace_address(const Job *job, const JobProgram *p, const Step *step) {
  if (step->workspace < 0) return NULL;
  return address(job, p, &(Place){.buffer = step->workspace}, DT_PRED);
}

static void bind_big(Job *job, const JobProgram *p, const Step *step, Bound *bound, Code *code) {
  bound->call = big_call(step, job->choices->threads);
  if (!job->choices->cuda) {
    const BigImpl *row = bound->row = big_choose(step, &bound->call, job->choices);
    if (row->text)
      bound->symbol = code_big(code, row, &bound->call);
    else
      bound->big = row->native(NULL);
  }
  for (int i = 0; i < step->nin; i++) bound->call.in[i].at = address(job, p, &step->in[i].place, step->in[i].dtype);
  for (int i = 0; i < step->nout; i++) bound->call.out[i].at = address(job, p, &step->out[i].place, step->out[i].dtype);
  bound->call.workspace = workspace_address(job, p, step);
  if (job->choices->cuda)
    gpu_add(job, step, bound, step->workspace < 0 ? 0 : p->program->buffers[step->workspace].nbytes);
  else
    job_tune_add(job, step, bound, code);
}

/* MPI touches host memory only: from other memory a collective goes by way of buffers there. */
static void *host_end(Job *job, const StepArg *arg, size_t *nbytes) {
  *nbytes = (size_t)shape_size(&arg->shape) * dtype_size(arg->dtype);
  return dev_is_host(job->dev) || job->device_collectives ? NULL : arena_alloc(job->arena, *nbytes);
}

/* What people know a collective by: "all_gather 'param/layers.3' of micro.first". */
static const char *collective_name(Job *job, const JobProgram *p, const Step *step) {
  const Buffer *in = &p->program->buffers[step->in[0].place.buffer], *out = &p->program->buffers[step->out[0].place.buffer];
  const char *name = in->class != BUFFER_VAR && out->class == BUFFER_VAR ? out->name : in->name;
  return arena_printf(job->arena, "%s '%s' of %s", op_table[step->op].name, name, p->name);
}

/* met: whether an earlier gather of the program has met the other ranks. */
static void bind_collective(Job *job, const JobProgram *p, const Step *step, Bound *bound, bool *met) {
  bound->pointers = arena_array(job->arena, void *, 2);
  bound->pointers[0] = address(job, p, &step->in[0].place, step->in[0].dtype);
  bound->pointers[1] = address(job, p, &step->out[0].place, step->out[0].dtype);
  bound->host_in = host_end(job, &step->in[0], &bound->in_bytes);
  bound->host_out = host_end(job, &step->out[0], &bound->out_bytes);
  CommKind kind = collective_kind(step->op);
  int64_t n = collective_count(step);
  void *workspace = workspace_address(job, p, step);
  if (bound->host_in) workspace = arena_alloc(job->arena, comm_workspace(kind, n, step->in[0].dtype, (int)step->n[1]));
  bound->op = comm_prepare(job->mesh, (MeshAxis)step->n[0], kind, bound->host_in ? bound->host_in : bound->pointers[0],
                           bound->host_out ? bound->host_out : bound->pointers[1], n, step->in[0].dtype, workspace,
                           collective_name(job, p, step));
  if (job->shared && job->copies[step->n[0]] && gather_reads_state(p->program, step)) *met |= comm_copies(bound->op, !*met);
  if (job->shared && step_exchanges(step)) comm_copies(bound->op, true);
}

static void bind_transfer(Job *job, const JobProgram *p, const Step *step, Bound *bound) {
  const StepArg *in = &step->in[0], *out = &step->out[0];
  transfer_bind(job, p->program, step, address(job, p, &out->place, out->dtype), address(job, p, &in->place, in->dtype), bound);
}

void job_bind(Job *job, JobProgram *p, Code *code) {
  const Program *program = p->program;
  Bound **starts = arena_array(job->arena, Bound *, program->ncollectives);
  bool met[MESH_AXES] = {false};
  p->steps = arena_array(job->arena, Bound, program->nsteps);
  for (int i = 0; i < program->nsteps; i++) {
    const Step *step = &program->steps[i];
    Bound *bound = &p->steps[i];
    bound->kind = step->kind;
    if (bound->transfer) transfer_unbind(bound);
    if (step->kind == STEP_KERNEL) bind_kernel(job, p, step, bound, code);
    if (step->kind == STEP_BIG) bind_big(job, p, step, bound, code);
    if (step->kind == STEP_COLLECTIVE_START) {
      bind_collective(job, p, step, bound, &met[step->n[0]]);
      starts[step->collective] = bound;
    }
    if (step->kind == STEP_TRANSFER_START) {
      bind_transfer(job, p, step, bound);
      starts[step->collective] = bound;
    }
    if (step->kind != STEP_COLLECTIVE_WAIT && step->kind != STEP_TRANSFER_WAIT) continue;
    *bound = *starts[step->collective];
    bound->kind = step->kind;
  }
}

void job_resolve(Job *job, JobProgram *p) {
  for (int i = 0; i < p->program->nsteps; i++) {
    Bound *bound = &p->steps[i];
    if (bound->use) gpu_bind(bound);
    if (!bound->symbol) continue;
    void *function = dev_symbol(job->module, bound->symbol);
    if (bound->kind == STEP_KERNEL)
      bound->kernel = function;
    else
      memcpy(&bound->big, &function, sizeof function);
  }
}

/* Where the device's memory may be touched: a product's workspace lies there. */
static void check_products(void *self) {
  const JobProgram *p = self;
  for (int i = 0; i < p->program->nsteps; i++) {
    const Bound *bound = &p->steps[i];
    Why why;
    if (bound->kind == STEP_BIG && bound->symbol && !kernels_try_built(bound->row, &bound->call, bound->symbol, bound->big, &why))
      fail(FAIL_MACHINE, "matrix product '%s' %s\nhelp: cpu.matmul: onednn or cblas; another compiler by cpu.compiler",
           bound->row->name, why.text);
  }
}

void job_check_products(Job *job, JobProgram *p) {
  if (dev_is_host(job->dev)) {
    check_products(p);
    return;
  }
  dev_call(job->dev, check_products, p);
  dev_sync(job->dev);
}

void job_fill_tables(const Job *job, const JobProgram *p) {
  for (int b = 0; b < p->program->nbuffers; b++) {
    const Buffer *buffer = &p->program->buffers[b];
    if (buffer->class != BUFFER_TABLE) continue;
    const Node *node = graph_node(p->program->graph, buffer->var);
    float *values = xmalloc(sizeof *values * (size_t)node->n[0]);
    for (int64_t i = 0; i < node->n[0]; i++) values[i] = (float)node->table[i];
    dev_copy_in(job->dev, address(job, p, &(Place){.buffer = b}, DT_F32), values, sizeof *values * (size_t)node->n[0]);
    free(values);
  }
}
