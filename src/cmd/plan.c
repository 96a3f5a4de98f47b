/* SPDX-License-Identifier: Apache-2.0 */
/* hpctrain plan: what a run on N ranks will be and need, by compiling its programs and running none of them.  All that can be
 * known before a job starts is checked: run file, batch, weights, data files, disk.  The data come last, so that the rest is
 * told even before they are there. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "src/cmd/cmd.h"
#include "src/report/flops.h"
#include "src/report/human.h"
#include "src/train/data.h"
#include "src/train/fit.h"
#include "src/train/groups.h"
#include "src/train/setup.h"
#include "src/train/weights.h"

enum { PROGRAMS_MOST = 8 };

typedef struct Planned {
  const char *name;
  const Program *program;
} Planned;

typedef struct Plan {
  Arena *arena;
  const Config *config;
  const char *kind; /* what device.kind: auto is here, and why; NULL: it was not auto */
  const char *fit;  /* the same of memory.recompute: auto */
  int ranks;
  ModelConfig model;
  Batch batch;
  Planned programs[PROGRAMS_MOST];
  int nprograms;
} Plan;

/* --- model, batch and data ------------------------------------------------------------------------------------------------- */

static void print_model(const Plan *p, const Members *members) {
  const Config *c = p->config;
  const ModelConfig *m = &p->model;
  const char *name = c->model.preset ? c->model.preset : c->model.config ? c->model.config : c->model.from;
  if (!name) name = c->run.name;
  char count[HUMAN_TEXT], flops[HUMAN_TEXT];
  int64_t embedding, parameters = model_parameters(m, &embedding);
  Flops each = flops_per_token(&(FlopsShape){parameters, m->tied ? 0 : embedding, m->layers, m->heads, m->head_dim,
                                             c->train.seq_len, members->spared_products, members->spared_attentions});
  int digits = (int)strcspn(human_rate(each.causal, flops), "kMGTPE");
  printf("model  %s %s parameters, %.*s %sFLOP/token\n", name, human_count((double)parameters, count), digits, flops,
         flops + digits);
}

static void print_members(const Plan *p, const Members *members) {
  Text lines = {0};
  members_print(members, p->config, &lines);
  printf("%s", lines.at);
  text_close(&lines);
  for (int i = 0; i < members->warnings.n; i++) fprintf(stderr, "warn   %s\n", members->warnings.at[i]);
}

static void print_device(const Plan *p) {
  if (p->kind)
    printf("device %s%s\n", p->kind, p->config->device.kind == DEVICE_KIND_CPU ? "; device.kind=cuda plans for GPUs" : "");
}

static void print_batch(const Plan *p) {
  char tokens[HUMAN_TEXT];
  const Batch *b = &p->batch;
  printf("batch  %" PRId64 " x %" PRId64 " = %s tokens = %d rank%s x %" PRId64 " x %" PRId64 " pass%s\n", b->sequences,
         p->config->train.seq_len, human_count((double)b->tokens, tokens), p->ranks, p->ranks == 1 ? "" : "s", b->micro, b->passes,
         b->passes == 1 ? "" : "es");
}

/* Opens the files as a run would: what is wrong with them ends this, when all else has been told. */
static void print_data(const Plan *p) {
  const Config *c = p->config;
  char text[HUMAN_TEXT];
  fflush(stdout);
  if (c->demo) {
    printf("data   the demo's own, %s bytes; %" PRId64 " steps\n", human_count((double)strlen(demo_text), text),
           config_total_steps(c, 1));
    return;
  }
  Data *data = data_open(p->arena, c, p->model.vocab);
  int64_t epoch = data_epoch_sequences(data), steps = setup_schedule(c, epoch).total;
  setup_check_profile(c, steps);
  printf("data   %s tokens; %" PRId64 " steps, %.3g epochs\n", human_count((double)data_tokens(data), text), steps,
         (double)steps * (double)p->batch.sequences / (double)epoch);
  for (int i = 0; i < data_vals(data); i++)
    printf("       %s %s tokens to evaluate on\n", data_val_name(data, i),
           human_count((double)(data_val_sequences(data, i) * c->train.seq_len), text));
  data_close(data);
}

/* --- programs -------------------------------------------------------------------------------------------------------------- */

/* Names by the order in which the engine adds programs to its job. */
static void keep_name(void *self, const char *name, const char *stage, const Program *lowered) {
  Plan *p = self;
  (void)stage, (void)lowered;
  CHECK(p->nprograms < PROGRAMS_MOST);
  p->programs[p->nprograms++].name = name;
}

/* Bytes alive at a step that are gathered parameters, or a kernel's workspace. */
static void alive_at(const Program *program, int at, size_t *gathered, size_t *workspace) {
  for (int i = 0; i < program->nsteps; i++) {
    const Step *s = &program->steps[i];
    const Buffer *b = s->workspace >= 0 ? &program->buffers[s->workspace] : NULL;
    if (b && b->first <= at && at <= b->last) *workspace += b->nbytes;
    if (s->kind != STEP_COLLECTIVE_START || s->op != OP_ALL_GATHER) continue;
    b = &program->buffers[s->out[0].place.buffer];
    if (b->class == BUFFER_TRANSIENT && b->first <= at && at <= b->last) *gathered += b->nbytes;
  }
}

static const char *peak_place(const Plan *p, const Planned *planned) {
  static const char *const phases[PHASE_COUNT] = {"forward", "recomputation", "backward"};
  const Program *program = planned->program;
  const Node *node = graph_node(program->graph, program->steps[program->peak_step].node);
  const char *scope = program->graph->scopes.at[node->scope].name;
  const char *phase = strcmp(planned->name, "update") ? phases[node->phase] : "update";
  return arena_printf(p->arena, "%s%s%s, %s", phase, scope && *scope ? " of " : "", scope ? scope : "",
                      program->steps[program->peak_step].kind == STEP_KERNEL ? "fused kernel" : op_table[node->op].name);
}

/* A number of bytes in the unit that suits the plan as a whole. */
static const char *amount(char out[HUMAN_TEXT], double nbytes, double unit) { return human_fixed(nbytes / unit, 9, 1, out); }

/* Bytes of a slot's states on the device. */
static size_t kept(const StateTable *states, const Job *job, StateSlot slot) {
  size_t nbytes = 0;
  for (int i = 0; i < states->nrows; i++) {
    const StateRow *row = &states->rows[i];
    if (row->slot == slot && job_size(job, row->name) >= 0 && job_home(job, row->name) == HOME_DEVICE)
      nbytes += dtype_size(row->dtype) * (size_t)row->n;
  }
  return nbytes;
}

static void print_memory(const Plan *p, Engine *engine) {
  const StateTable *states = engine_states(engine);
  const Planned *hungriest = &p->programs[0];
  JobMemory m = job_memory(engine_job(engine));
  size_t parameters = 0, gathered = 0, workspace = 0, all = m.vars + m.tables + m.transient;
  const Job *job = engine_job(engine);
  size_t moments = kept(states, job, SLOT_M) + kept(states, job, SLOT_V);
  for (int i = 1; i < p->nprograms; i++)
    if (p->programs[i].program->transient > hungriest->program->transient) hungriest = &p->programs[i];
  parameters = kept(states, job, SLOT_PARAM) + kept(states, job, SLOT_LOWER);
  alive_at(hungriest->program, hungriest->program->peak_step, &gathered, &workspace);
  const struct {
    const char *what;
    size_t nbytes;
  } parts[] = {{"activations", m.transient - gathered - workspace},
               {"gathered", gathered},
               {"workspace", workspace},
               {"gradients", m.carried},
               {"parameters", parameters},
               {"moments", moments},
               {"other", m.inputs + m.tables}};
  const double mib = 1 << 20, gib = 1 << 30, unit = (double)all < gib ? mib : gib;
  char text[HUMAN_TEXT], most[HUMAN_TEXT];
  printf("memory %s %s a rank, peak in %s\n      ", amount(text, (double)all, unit), unit < gib ? "MiB" : "GiB",
         peak_place(p, hungriest));
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    printf("%s %s %s", i ? "," : "", parts[i].what, amount(text, (double)parts[i].nbytes, unit));
  if (m.files) printf("; in files %s", amount(text, (double)m.files, unit));
  if (m.host) printf("; in the host's memory %s", amount(text, (double)m.host, unit));
  double here = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE), wanted = (double)(all + m.host) * p->ranks;
  printf("\n       all %d rank%s %s GiB; this node has %s%s\n", p->ranks, p->ranks == 1 ? "" : "s", amount(text, wanted, gib),
         amount(most, here, gib), wanted < here ? "" : ": too little for all of them");
}

/* --- what moves -------------------------------------------------------------------------------------------------------------- */

/* How often a program runs in a step of training. */
static int64_t times_of(const Plan *p, const char *name) {
  static const char *const once[] = {"micro", "micro.first", "micro.last", "update"};
  for (int i = 0; i < 4; i++)
    if (!strcmp(name, once[i])) return 1;
  return !strcmp(name, "micro.middle") ? p->batch.passes - 2 : 0;
}

/* Bytes that a rank receives: gathers and scatters move all parts but its own, an all-reduce is one of each. */
static double bytes_moved(const Step *s) {
  const StepArg *whole = s->op == OP_ALL_GATHER ? &s->out[0] : &s->in[0];
  double nbytes = (double)shape_size(&whole->shape) * (double)dtype_size(whole->dtype), ranks = (double)s->n[1];
  return nbytes * (ranks - 1) / ranks * (s->op == OP_ALL_REDUCE ? 2 : 1);
}

static void print_moves(const Plan *p) {
  double gathers = 0, reductions = 0;
  char a[HUMAN_TEXT], b[HUMAN_TEXT];
  for (int i = 0; i < p->nprograms; i++)
    for (int k = 0; k < p->programs[i].program->nsteps; k++) {
      const Step *s = &p->programs[i].program->steps[k];
      if (s->kind == STEP_COLLECTIVE_START)
        *(s->op == OP_ALL_GATHER ? &gathers : &reductions) += bytes_moved(s) * (double)times_of(p, p->programs[i].name);
    }
  printf("moves  gathers %s, reductions %s a step and rank\n", human_bytes(gathers, a), human_bytes(reductions, b));
}

/* --- disk --------------------------------------------------------------------------------------------------------------------- */

/* Of the file system on which path will be made; negative: unknown. */
static double disk_free(Arena *arena, const char *path) {
  char *at = arena_printf(arena, "%s%s", *path == '/' ? "" : "./", path);
  struct statvfs fs;
  while (statvfs(at, &fs)) {
    char *slash = strrchr(at, '/');
    if (!slash || slash == at) return -1;
    *slash = 0;
  }
  return (double)fs.f_bavail * (double)fs.f_frsize;
}

static void print_disk(const Plan *p, const Members *members) {
  const Config *c = p->config;
  char one[HUMAN_TEXT], all[HUMAN_TEXT], room[HUMAN_TEXT];
  double nbytes = members_saved_bytes(members), most = nbytes * (double)(c->checkpoint.keep + 1);
  double left = disk_free(p->arena, c->run.folder);
  if (!c->checkpoint.every.unit) {
    printf("disk   checkpoint %s; none is written but when asked for\n", human_bytes(nbytes, one));
    return;
  }
  printf("disk   checkpoint %s; %" PRId64 " and one in the making %s; %s free for %s\n", human_bytes(nbytes, one),
         c->checkpoint.keep, human_bytes(most, all), human_bytes(left, room), c->run.folder);
  if (left >= 0 && left < most)
    printf("       %s short: another run.folder, or a lower checkpoint.keep\n", human_bytes(most - left, room));
}

/* --- the command -------------------------------------------------------------------------------------------------------------- */

static void print_plan(Plan *p, Comm *comm, Mesh *mesh) {
  const Config *c = p->config;
  CompileWatch watch = {.program = keep_name, .self = p};
  EngineOptions o = setup_options(c, &p->model, c->cpu.threads ? (int)c->cpu.threads : comm_core_share(comm));
  o.sequences = p->batch.micro;
  o.passes = p->batch.passes;
  o.nominal_tokens = (double)p->batch.tokens;
  o.train = true;
  o.eval = c->data.val.n > 0 || c->data.val_fraction > 0;
  o.watch = &watch;
  const Members *members = members_of_model(p->arena, c, &p->model);
  o.traits = members->traits;
  p->fit = fit_settle(p->arena, c, comm, mesh, &o, &(FitPlace){0});
  Engine *engine = engine_open(p->arena, NULL, comm, mesh, &o);
  for (int i = 0; i < p->nprograms; i++) p->programs[i].program = job_program(engine_job(engine), i);
  print_device(p);
  print_model(p, members);
  print_members(p, members);
  print_batch(p);
  print_memory(p, engine);
  if (p->fit) printf("       memory.recompute: auto is %s\n", p->fit);
  if (p->ranks > 1) print_moves(p);
  print_disk(p, members);
  fflush(stdout);
  if (c->model.from) {
    Weights *weights = weights_open(p->arena, c, members);
    printf("loads  %s\n", weights_told(weights));
    weights_close(weights);
  }
  print_data(p);
}

int cmd_plan(int argc, char **argv) {
  Plan p = {.arena = arena_open()};
  Text warnings = {0};
  p.ranks = words_take_ranks(&argc, argv);
  Config *c = config_load(p.arena, argc, argv, p.ranks);
  p.kind = setup_kind(p.arena, c, NULL);
  p.config = c;
  p.model = setup_model(p.arena, p.config, &warnings);
  if (warnings.n) fprintf(stderr, "warn   %s", warnings.at);
  text_close(&warnings);
  p.batch = config_check_batch(p.config, p.ranks);
  Comm *comm = comm_plan(p.ranks);
  Mesh *mesh = setup_mesh(c, comm);
  print_plan(&p, comm, mesh);
  mesh_close(mesh);
  comm_close(comm);
  arena_close(p.arena);
  return 0;
}
