/* SPDX-License-Identifier: Apache-2.0 */
/* One arena, the programs over it, and the loop that runs them.
 *
 *   arena: | Vars, each at a fixed address | constants | transient: the largest program's plan |
 *   far, in the host's memory: | Vars that are kept there | what is sent there: the largest program's plan |
 *
 * Where programs may read other ranks' memory the arena is two allocations: Vars that nobody else reads, which are most of it, and
 * the rest.  To map a peer's GiB takes some 10 ms. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/base/hash.h"
#include "src/base/memory.h"
#include "src/exec/job.h"
#include "src/exec/memory.h"

static size_t round_up(size_t nbytes) { return (nbytes + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN; }

Job *job_open(Arena *arena, Dev *dev, Comm *comm, Mesh *mesh, const Choices *choices, bool interpreted) {
  Job *job = arena_new(arena, Job);
  *job = (Job){.arena = arena, .dev = dev, .comm = comm, .mesh = mesh, .choices = choices, .interpreted = interpreted};
  return job;
}

int job_find_var(const Job *job, const char *name) {
  for (int i = 0; i < job->vars.n; i++)
    if (!strcmp(job->vars.at[i].var->name, name)) return i;
  return -1;
}

static size_t *count_of(Job *job, const Var *var) {
  if (var->class == VAR_STATE) return &job->memory.states;
  if (var->class == VAR_CARRY) return state_is_gathered(var->name) ? &job->memory.gathered : &job->memory.carried;
  return &job->memory.inputs;
}

char *job_at(const Job *job, size_t offset) {
  return offset < job->split || !job->open ? job->base + offset : job->open + (offset - job->split);
}

char *job_address(const Job *job, const JobVar *v) {
  if (v->borrowed) return job_address(job->lender, &job->lender->vars.at[job_find_var(job->lender, v->var->name)]);
  if (v->var->home == HOME_DEVICE && job->base) return job_at(job, v->offset);
  return v->var->home == HOME_HOST && job->far ? job->far + v->offset : NULL;
}

static size_t file_span(size_t nbytes) { return (nbytes + FILE_ALIGN - 1) / FILE_ALIGN * FILE_ALIGN; }

static bool is_lent(const Job *lender, const Var *var, size_t nbytes) {
  int at = lender ? job_find_var(lender, var->name) : -1;
  if (at < 0 || lender->vars.at[at].var->home != HOME_HOST) return false;
  CHECK(lender->vars.at[at].nbytes == nbytes && lender->vars.at[at].var->dtype == var->dtype);
  return true;
}

static int add_var(Job *job, const Var *var) {
  int at = job_find_var(job, var->name);
  size_t nbytes = round_up((size_t)shape_size(&var->shape) * dtype_size(var->dtype));
  if (at >= 0) {
    const Var *same = job->vars.at[at].var; /* one name, one thing */
    CHECK(same->dtype == var->dtype && same->home == var->home);
    CHECK(job->vars.at[at].nbytes == nbytes || (var->class == VAR_INPUT && nbytes < job->vars.at[at].nbytes));
    return at;
  }
  if (is_lent(job->lender, var, nbytes)) {
    vec_push(job->arena, &job->vars, (JobVar){.var = var, .nbytes = nbytes, .borrowed = true, .placed = true});
    return job->vars.n - 1;
  }
  size_t *const totals[VAR_HOMES] = {&job->memory.vars, &job->memory.host_vars, &job->memory.files}, *total = totals[var->home];
  vec_push(job->arena, &job->vars, (JobVar){.var = var, .offset = *total, .nbytes = nbytes, .placed = !var->within});
  if (var->within) return job->vars.n - 1;
  *total += var->home == HOME_FILE ? file_span(nbytes) : nbytes;
  if (var->home == HOME_FILE && file_span(nbytes) > job->stage_bytes) job->stage_bytes = file_span(nbytes);
  if (var->home == HOME_DEVICE) *count_of(job, var) += nbytes;
  return job->vars.n - 1;
}

/* A Var within another has this rank's part of that one. */
static void place_var(Job *job, JobVar *v) {
  if (v->placed) return;
  int outer = job_find_var(job, v->var->within);
  CHECK(outer >= 0 && job->vars.at[outer].var->dtype == v->var->dtype);
  int64_t n = shape_size(&v->var->shape), part = mesh_index(job->mesh, (MeshAxis)v->var->axis);
  CHECK(n * mesh_extent(job->mesh, (MeshAxis)v->var->axis) == shape_size(&job->vars.at[outer].var->shape));
  v->offset = job->vars.at[outer].offset + (size_t)(part * n) * dtype_size(v->var->dtype);
  v->placed = true;
}

/* What the job has of the host's memory. */
static void count_host(Job *job) {
  job->far_bytes = job->memory.host_vars + job->sent;
  job->memory.host = job->far_bytes + (job->choices->cuda ? (size_t)job->in_flight * job->stage_bytes : 0);
}

void job_keep(Job *job, const Var *var) {
  Var *copy = arena_new(job->arena, Var);
  CHECK(!job->base && !var->within);
  *copy = *var;
  add_var(job, copy);
  count_host(job);
}

void job_borrow(Job *job, const Job *lender) {
  CHECK(!job->vars.n);
  job->lender = lender;
}

int job_add(Job *job, const Program *program, const char *name) {
  CHECK(!job->base);
  const Graph *g = program->graph;
  JobProgram p = {.program = program, .name = name, .var = arena_array(job->arena, int, g->vars.n)};
  p.table = arena_array(job->arena, size_t, program->nbuffers);
  for (int i = 0; i < g->vars.n; i++) p.var[i] = add_var(job, &g->vars.at[i]);
  for (int i = 0; i < g->vars.n; i++) place_var(job, &job->vars.at[p.var[i]]);
  for (int b = 0; b < program->nbuffers && !job->interpreted; b++)
    if (program->buffers[b].class == BUFFER_TABLE) {
      p.table[b] = job->memory.tables;
      job->memory.tables += program->buffers[b].nbytes;
    }
  if (program->transient > job->memory.transient && !job->interpreted) job->memory.transient = program->transient;
  if (program->host > job->sent && !job->interpreted) job->sent = program->host;
  p.in_flight = transfers_in_flight(program);
  if (p.in_flight > job->in_flight) job->in_flight = p.in_flight;
  count_host(job);
  vec_push(job->arena, &job->programs, p);
  return job->programs.n - 1;
}

JobMemory job_memory(const Job *job) { return job->memory; }

int job_programs(const Job *job) { return job->programs.n; }

const Program *job_program(const Job *job, int program) { return job->programs.at[program].program; }

const char *job_program_name(const Job *job, int program) { return job->programs.at[program].name; }

/* Nodes with other libraries would choose other rows, and other bits. */
static void agree_on_rows(const Job *job) {
  Sha256 hash;
  sha256_init(&hash);
  for (int i = 0; i < job->programs.n; i++)
    for (int s = 0; s < job->programs.at[i].program->nsteps; s++) {
      const Bound *bound = &job->programs.at[i].steps[s];
      if (bound->kind == STEP_BIG) sha256_add_text(&hash, bound->gpu ? gpu_told(bound) : bound->row->name);
    }
  comm_agree(job->comm, sha256_u64(&hash), "the implementations of big ops (libraries may differ between nodes)");
}

/* For those who find that there is no room. */
static void tell_holders(void *self, Text *out) {
  enum { LARGEST = 10 };
  const Job *job = self;
  Arena *arena = arena_open();
  memory_report_print(memory_report(arena, job), LARGEST, out);
  arena_close(arena);
}

/* Ranks of a node that have its memory together have room for all of them, or none begins. */
static void check_room(const Job *job) {
  DevMemory memory = dev_memory(job->dev);
  NodeMemory node = node_memory();
  int n = comm_local_size(job->comm);
  uint64_t mine = (memory.shared ? job->nbytes : 0) + job->memory.host, sum = 0, *all = xmalloc(sizeof *all * (size_t)n);
  comm_gather_local(job->comm, &mine, sizeof mine, all);
  for (int i = 0; i < n; i++) sum += all[i];
  free(all);
  if (!memory.shared && memory.total && job->nbytes > memory.available) dev_memory_short(job->dev, job->nbytes, "the arena", "");
  if (!memory.total || !node.total || sum <= (uint64_t)node.available) return;
  const char *ranks = arena_printf(job->arena, " of %d ranks of this node", n);
  if (memory.shared)
    dev_memory_short(job->dev, sum, arena_printf(job->arena, "the arena%s%s", n == 1 ? "" : "s", n == 1 ? "" : ranks), "");
  dev_host_memory_failed(sum, arena_printf(job->arena, "memory.offload%s", n == 1 ? "" : ranks), "more than there is");
}

static bool axis_copies(const Job *job, int axis) {
  bool any = false;
  for (int i = 0; i < job->programs.n; i++) {
    const Program *p = job->programs.at[i].program;
    if (!gathers_may_copy(p, axis)) return false;
    any |= gathers_states(p, axis);
  }
  return any;
}

static bool axis_exchanges(const Job *job, int axis) {
  for (int i = 0; i < job->programs.n; i++)
    for (int s = 0; s < job->programs.at[i].program->nsteps; s++) {
      const Step *step = &job->programs.at[i].program->steps[s];
      if (step_exchanges(step) && step->n[0] == axis) return true;
    }
  return false;
}

/* All ranks have the same programs, and decide alike.  Mapping peers' memory takes its time: only where it will be read. */
static bool find_copies(Job *job) {
  bool any = false;
  for (int axis = 0; job->mesh && axis < MESH_AXES; axis++) {
    any |= job->copies[axis] = job->choices->copies && axis_copies(job, axis);
    any |= axis_exchanges(job, axis);
  }
  return any;
}

/* States that others will gather, or what these lie within; and what they exchange where that is a Var. */
static void find_open(Job *job, const JobProgram *p) {
  for (int s = 0; s < p->program->nsteps; s++) {
    const Step *step = &p->program->steps[s];
    if (!step_exchanges(step) && !(gather_reads_state(p->program, step) && job->copies[step->n[0]])) continue;
    const Buffer *in = &p->program->buffers[step->in[0].place.buffer];
    if (in->class != BUFFER_VAR) continue;
    JobVar *v = &job->vars.at[p->var[in->var]];
    if (v->borrowed) continue;
    if (v->var->within) v = &job->vars.at[job_find_var(job, v->var->within)];
    v->open = true;
  }
}

/* Vars anew, those that others read behind all that they do not. */
static void lay_out(Job *job) {
  size_t at = 0;
  for (int i = 0; i < job->programs.n; i++) find_open(job, &job->programs.at[i]);
  for (int open = 0; open < 2; open++) {
    for (int i = 0; i < job->vars.n; i++) {
      JobVar *v = &job->vars.at[i];
      if (v->borrowed || v->var->home != HOME_DEVICE || v->var->within || v->open != open) continue;
      v->offset = at;
      at += v->nbytes;
    }
    if (!open) job->split = at;
  }
  CHECK(at == job->memory.vars && job->split); /* inputs are nobody else's */
  for (int i = 0; i < job->vars.n; i++) {
    JobVar *v = &job->vars.at[i];
    if (v->borrowed || !v->var->within) continue;
    v->placed = false;
    place_var(job, v);
  }
}

static void allocate(Job *job, bool shares) {
  job->split = job->nbytes = job->memory.vars + job->memory.tables + job->memory.transient;
  check_room(job);
  if (shares) lay_out(job);
  job->base = dev_alloc(job->dev, job->split, "the arena");
  if (job->split < job->nbytes) job->open = dev_alloc(job->dev, job->nbytes - job->split, "the arena, what other ranks read");
  if (job->far_bytes) job->far = dev_pinned_alloc(job->dev, job->far_bytes, "what memory.offload keeps in the host's memory");
  if (job->memory.files) job->files = files_open(job->choices->offload_folder, job->memory.files);
}

/* Texts, plans of libraries and code: steps become functions.  Gives whether the code was in the cache. */
static bool make_functions(Job *job, Phases *phases, int *kernels) {
  bool hit = false;
  kernels_set_verdicts(dev_cache_folder(job->dev));
  Code *code = code_open(job->arena, job->choices->cuda);
  for (int i = 0; i < job->programs.n; i++) job_bind(job, &job->programs.at[i], code);
  code_build(code, job->dev, job->comm);
  phase_end(phases, "texts");
  gpu_prepare(job);
  phase_end(phases, "libraries");
  job->module = code_load(code, job->dev, job->comm, &hit);
  phase_end(phases, "code");
  gpu_settle(job);
  for (int i = 0; i < job->programs.n; i++) job_resolve(job, &job->programs.at[i]);
  if (!job->choices->cuda) job_tune(job);
  agree_on_rows(job);
  for (int i = 0; i < job->programs.n; i++) {
    job_fill_tables(job, &job->programs.at[i]);
    if (comm_rank(job->comm) == 0 && !job->choices->cuda)
      job_check_products(job, &job->programs.at[i]); /* all ranks have the same code */
  }
  *kernels = code_count(code);
  return hit;
}

JobStart job_start(Job *job) {
  JobStart start = {.phases = phases_begin()};
  Phases *phases = &start.phases;
  double begin = phases->since;
  bool hit = false;
  dev_holders(job->dev, tell_holders, job);
  job->device_collectives = job->mesh && comm_device_open(job->mesh, job->dev);
  bool shares = find_copies(job);
  allocate(job, shares);
  phase_end(phases, "memory");
  job->shared = shares && job->device_collectives && comm_device_share(job->mesh, job->open, job->nbytes - job->split);
  phase_end(phases, "share");
  if (!job->interpreted) hit = make_functions(job, phases, &start.kernels);
  if (!dev_is_host(job->dev)) job->inputs = job_inputs_open(job);
  malloc_trim(0); /* what compiling and checking took goes back before the arena fills */
  phase_end(phases, "functions");
  start.copies = job->shared;
  start.cached = hit ? start.kernels : 0;
  start.seconds = clock_seconds() - begin;
  return start;
}

void job_close(Job *job) {
  if (job->dev) dev_holders(job->dev, NULL, NULL);
  if (job->base) dev_sync(job->dev);
  for (int i = 0; i < job->programs.n; i++) dev_graph_close(job->programs.at[i].captured); /* before the communicators */
  for (int i = 0; i < job->programs.n && job->programs.at[i].steps; i++)
    for (int s = 0; s < job->programs.at[i].program->nsteps; s++) {
      Bound *bound = &job->programs.at[i].steps[s];
      if (bound->kind == STEP_COLLECTIVE_START) comm_release(bound->op);
      if (bound->kind == STEP_TRANSFER_START) transfer_close(bound->transfer);
    }
  gpu_release(job);
  text_close(&job->notes);
  if (job->device_collectives) comm_device_close(job->mesh);
  if (job->inputs) job_inputs_close(job);
  job_host_close(job);
  stages_close(job);
  if (job->module) dev_unload(job->module);
  if (job->base) dev_free(job->dev, job->base, job->split);
  if (job->open) dev_free(job->dev, job->open, job->nbytes - job->split);
  if (job->far) dev_pinned_free(job->dev, job->far, job->far_bytes);
  files_close(job->files);
}

/* --- running ------------------------------------------------------------------------------------------------------------- */

static void run_big(void *self) {
  const Bound *s = self;
  s->big(&s->call);
}

static void run_step(Job *job, Bound *s) {
  switch (s->kind) {
  case STEP_KERNEL:
    dev_launch(job->dev, s->kernel, s->pointers, s->npointers, &s->launch);
    break;
  case STEP_BIG:
    if (s->gpu)
      gpu_run(job, s);
    else
      dev_call(job->dev, run_big, s);
    break;
  case STEP_COLLECTIVE_START:
    if (s->host_in) dev_copy_out(job->dev, s->host_in, s->pointers[0], s->in_bytes);
    comm_start(s->op);
    break;
  case STEP_COLLECTIVE_WAIT:
    comm_wait(s->op);
    if (s->host_out) dev_copy_in(job->dev, s->pointers[1], s->host_out, s->out_bytes);
    break;
  case STEP_TRANSFER_START:
    transfer_start(job, s->transfer);
    break;
  case STEP_TRANSFER_WAIT:
    transfer_wait(job, s->transfer);
    break;
  }
}

/* run.debug: sync.  Who went wrong, where others would be told of it long after. */
static void check_step(Job *job, const JobProgram *p, int step) {
  Why why;
  if (dev_try_sync(job->dev, &why)) return;
  const char *symbol = p->steps[step].symbol, *name = job_step_name(job->arena, job, (int)(p - job->programs.at), step);
  fail(FAIL_MACHINE, "step %d of %s (%s%s%s): %s", step, p->name, name, symbol ? ", function " : "", symbol ? symbol : "",
       why.text);
}

static void run_steps(Job *job, JobProgram *p) {
  for (int i = 0; i < p->program->nsteps; i++) {
    run_step(job, &p->steps[i]);
    if (job->choices->sync) check_step(job, p, i);
  }
}

/* Each step of its own, so that what it does on the device is known to be its. */
static void run_profiled(Job *job, JobProgram *p) {
  prof_run_begin(job->prof, p->profiled);
  for (int i = 0; i < p->program->nsteps; i++) {
    prof_item_begin(job->prof, i);
    run_step(job, &p->steps[i]);
    prof_item_end(job->prof);
  }
  prof_run_end(job->prof);
}

/* Not in a program's first run: libraries and communicators prepare themselves in it, which cannot be captured. */
static DevGraph *capture(Job *job, JobProgram *p) {
  dev_capture_begin(job->dev);
  run_steps(job, p);
  return dev_capture_end(job->dev);
}

void job_run(Job *job, int program) {
  JobProgram *p = &job->programs.at[program];
  job->ran = true;
  if (job->interpreted) {
    job_interpret(job, p);
    return;
  }
  prof_span_begin(job->prof, "inputs");
  if (job->inputs) job_inputs_send(job);
  prof_span_end(job->prof);
  if (prof_on(job->prof)) {
    run_profiled(job, p);
  } else if (job->choices->graph && !p->in_flight && !job->choices->sync && dev_has_graphs(job->dev) && p->runs++) {
    if (!p->captured) p->captured = capture(job, p);
    dev_graph_launch(p->captured);
  } else {
    run_steps(job, p);
  }
}

void job_rest(Job *job) {
  dev_sync(job->dev);
  comm_barrier(job->comm);
  job->ran = false;
}
