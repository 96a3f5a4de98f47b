/* SPDX-License-Identifier: Apache-2.0 */
/* One arena, the programs over it, and the loop that runs them.
 *
 *   arena: | Vars, each at a fixed address | constants | transient: the largest program's plan | */
#include <string.h>

#include "src/base/clock.h"
#include "src/exec/private.h"

typedef void KernelRun(void *const *p, int threads);

/* A step with everything bound: what the loop needs. */
typedef struct Bound {
  StepKind kind;
  KernelRun *kernel;
  void **pointers; /* kernels: inputs, then outputs */
  BigRun *big;
  BigCall call;
  CommOp *op;
  const char *symbol; /* of generated code, until it is loaded */
} Bound;

typedef struct JobVar {
  const Var *var;
  size_t offset, nbytes;
} JobVar;

typedef struct JobProgram {
  const Program *program;
  const char *name;
  int *var;      /* of the program's graph -> of the job */
  size_t *table; /* by buffer: offset of a BUFFER_TABLE's constants */
  Bound *steps;
  double *seconds; /* by step; NULL: not timed */
} JobProgram;

struct Job {
  Arena *arena;
  Dev *dev;
  Comm *comm;
  Mesh *mesh;
  const Choices *choices;
  bool interpreted;
  VEC(JobVar) vars;
  VEC(JobProgram) programs;
  JobMemory memory;
  char *base; /* of the arena */
  size_t nbytes;
  DevModule *module;
};

static size_t round_up(size_t nbytes) { return (nbytes + 63) / 64 * 64; }

Job *job_open(Arena *arena, Dev *dev, Comm *comm, Mesh *mesh, const Choices *choices, bool interpreted) {
  Job *job = arena_new(arena, Job);
  *job = (Job){.arena = arena, .dev = dev, .comm = comm, .mesh = mesh, .choices = choices, .interpreted = interpreted};
  return job;
}

static int find_var(const Job *job, const char *name) {
  for (int i = 0; i < job->vars.n; i++)
    if (!strcmp(job->vars.at[i].var->name, name)) return i;
  return -1;
}

static int add_var(Job *job, const Var *var) {
  int at = find_var(job, var->name);
  size_t nbytes = round_up((size_t)shape_size(&var->shape) * dtype_size(var->dtype));
  if (at >= 0) {
    CHECK(job->vars.at[at].nbytes == nbytes && job->vars.at[at].var->dtype == var->dtype); /* one name, one thing */
    return at;
  }
  vec_push(job->arena, &job->vars, (JobVar){var, job->memory.vars, nbytes});
  job->memory.vars += nbytes;
  if (var->class == VAR_STATE)
    job->memory.states += nbytes;
  else if (var->class == VAR_CARRY)
    job->memory.carried += nbytes;
  else
    job->memory.inputs += nbytes;
  return job->vars.n - 1;
}

int job_add(Job *job, const Program *program, const char *name) {
  CHECK(!job->base);
  const Graph *g = program->graph;
  JobProgram p = {.program = program, .name = name, .var = arena_array(job->arena, int, g->vars.n)};
  p.table = arena_array(job->arena, size_t, program->nbuffers);
  for (int i = 0; i < g->vars.n; i++) p.var[i] = add_var(job, &g->vars.at[i]);
  for (int b = 0; b < program->nbuffers && !job->interpreted; b++)
    if (program->buffers[b].class == BUFFER_TABLE) {
      p.table[b] = job->memory.tables;
      job->memory.tables += program->buffers[b].nbytes;
    }
  if (program->transient > job->memory.transient && !job->interpreted) job->memory.transient = program->transient;
  vec_push(job->arena, &job->programs, p);
  return job->programs.n - 1;
}

JobMemory job_memory(const Job *job) { return job->memory; }

const Program *job_program(const Job *job, int program) { return job->programs.at[program].program; }

/* --- binding: places to addresses, steps to functions ------------------------------------------------------------------- */

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
  const BigImpl *row = big_choose(step, &bound->call, job->choices);
  if (row->text)
    bound->symbol = code_big(code, row, &bound->call);
  else
    bound->big = row->native(NULL);
  for (int i = 0; i < step->nin; i++) bound->call.in[i].at = address(job, p, &step->in[i].place, step->in[i].dtype);
  for (int i = 0; i < step->nout; i++) bound->call.out[i].at = address(job, p, &step->out[i].place, step->out[i].dtype);
  bound->call.workspace = workspace_address(job, p, step);
}

static void bind_collective(Job *job, const JobProgram *p, const Step *step, Bound *bound) {
  void *in = address(job, p, &step->in[0].place, step->in[0].dtype),
       *out = address(job, p, &step->out[0].place, step->out[0].dtype);
  bound->op = comm_prepare(job->mesh, (MeshAxis)step->n[0], collective_kind(step->op), in, out, collective_count(step),
                           step->in[0].dtype, workspace_address(job, p, step), op_table[step->op].name);
}

static void bind_program(Job *job, JobProgram *p, Code *code) {
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

static void resolve_symbols(Job *job, JobProgram *p) {
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

static void fill_tables(const Job *job, const JobProgram *p) {
  for (int b = 0; b < p->program->nbuffers; b++) {
    const Buffer *buffer = &p->program->buffers[b];
    if (buffer->class != BUFFER_TABLE) continue;
    const Node *node = graph_node(p->program->graph, buffer->var);
    float *at = address(job, p, &(Place){.buffer = b}, DT_F32);
    for (int64_t i = 0; i < node->n[0]; i++) at[i] = (float)node->table[i];
  }
}

JobStart job_start(Job *job) {
  JobStart start = {0};
  double begin = clock_seconds();
  bool hit = false;
  job->nbytes = job->memory.vars + job->memory.tables + job->memory.transient;
  job->base = dev_alloc(job->dev, job->nbytes, "parameters, states, gradients and activations");
  if (!job->interpreted) {
    Code *code = code_open(job->arena);
    for (int i = 0; i < job->programs.n; i++) bind_program(job, &job->programs.at[i], code);
    job->module = code_load(code, job->dev, job->comm, &hit);
    for (int i = 0; i < job->programs.n; i++) {
      resolve_symbols(job, &job->programs.at[i]);
      fill_tables(job, &job->programs.at[i]);
    }
    start.kernels = code_count(code);
  }
  start.cached = hit ? start.kernels : 0;
  start.seconds = clock_seconds() - begin;
  return start;
}

void job_close(Job *job) {
  for (int i = 0; i < job->programs.n && job->programs.at[i].steps; i++)
    for (int s = 0; s < job->programs.at[i].program->nsteps; s++) {
      Bound *bound = &job->programs.at[i].steps[s];
      if (bound->kind == STEP_COLLECTIVE_START) comm_release(bound->op);
    }
  if (job->module) dev_unload(job->module);
  if (job->base) dev_free(job->dev, job->base, job->nbytes);
}

void *job_var(const Job *job, const char *name, int64_t *n) {
  int i = find_var(job, name);
  if (i < 0) return NULL;
  if (n) *n = shape_size(&job->vars.at[i].var->shape);
  CHECK(job->base);
  return job->base + job->vars.at[i].offset;
}

/* --- running ------------------------------------------------------------------------------------------------------------- */

static void interpret(Job *job, const JobProgram *p);

static void run_step(const Job *job, Bound *s) {
  switch (s->kind) {
  case STEP_KERNEL:
    s->kernel(s->pointers, job->choices->threads);
    break;
  case STEP_BIG:
    s->big(&s->call);
    break;
  case STEP_COLLECTIVE_START:
    comm_start(s->op);
    break;
  case STEP_COLLECTIVE_WAIT:
    comm_wait(s->op);
    break;
  }
}

void job_run(Job *job, int program) {
  JobProgram *p = &job->programs.at[program];
  if (job->interpreted) {
    interpret(job, p);
    return;
  }
  for (int i = 0; i < p->program->nsteps; i++) {
    double begin = p->seconds ? clock_seconds() : 0;
    run_step(job, &p->steps[i]);
    if (p->seconds) p->seconds[i] += clock_seconds() - begin;
  }
}

/* --- timing ---------------------------------------------------------------------------------------------------------------- */

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

/* --- the interpreter -------------------------------------------------------------------------------------------------------- */

/* The interpreter's collectives: through float32, as the compiled program's. */
static void interpret_collective(void *self, const Node *node, const double *in, double *out) {
  Job *job = self;
  int64_t ranks = node->n[1], out_n = shape_size(&node->shape);
  int64_t in_n = node->op == OP_ALL_GATHER ? out_n / ranks : node->op == OP_REDUCE_SCATTER ? out_n * ranks : out_n;
  int64_t n = node->op == OP_REDUCE_SCATTER ? out_n : in_n;
  CommKind kind = collective_kind(node->op);
  Arena *arena = arena_open();
  float *from = arena_array(arena, float, in_n), *to = arena_array(arena, float, out_n);
  void *workspace = arena_alloc(arena, comm_workspace(kind, n, DT_F32, (int)ranks) + 64);
  for (int64_t i = 0; i < in_n; i++) from[i] = (float)in[i];
  CommOp *op = comm_prepare(job->mesh, (MeshAxis)node->n[0], kind, from, to, n, DT_F32, workspace, op_table[node->op].name);
  comm_start(op);
  comm_wait(op);
  comm_release(op);
  for (int64_t i = 0; i < out_n; i++) out[i] = to[i];
  arena_close(arena);
}

static double load_element(const void *at, DType dtype, int64_t i) {
  return dtype == DT_F32   ? ((const float *)at)[i]
         : dtype == DT_I32 ? ((const int32_t *)at)[i]
         : dtype == DT_I64 ? (double)((const int64_t *)at)[i]
                           : ((const uint8_t *)at)[i];
}

static void store_element(void *at, DType dtype, int64_t i, double value) {
  if (dtype == DT_F32) ((float *)at)[i] = (float)value;
  if (dtype == DT_I32) ((int32_t *)at)[i] = (int32_t)value;
  if (dtype == DT_I64) ((int64_t *)at)[i] = (int64_t)value;
  if (dtype == DT_PRED) ((uint8_t *)at)[i] = value != 0;
}

static void interpret(Job *job, const JobProgram *p) {
  const Graph *g = p->program->source;
  Arena *arena = arena_open();
  double **values = arena_array(arena, double *, g->vars.n);
  for (int pass = 0; pass < 2; pass++) {
    for (int v = 0; v < g->vars.n; v++) {
      const Var *var = &g->vars.at[v];
      int64_t n = shape_size(&var->shape);
      void *at = job_var(job, var->name, NULL);
      if (pass == 0) values[v] = arena_array(arena, double, n);
      for (int64_t i = 0; i < n; i++)
        if (pass == 0)
          values[v][i] = load_element(at, var->dtype, i);
        else
          store_element(at, var->dtype, i, values[v][i]);
    }
    if (pass == 0) graph_interpret(g, values, interpret_collective, job);
  }
  arena_close(arena);
}
