/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/prospect.h"

#include <math.h>
#include <string.h>

#include "src/base/memory.h"
#include "src/train/fit.h"
#include "src/train/states.h"

/* How often the programs run in a step of training; those that it does not name do not. */
static double times_of(const char *program, int64_t passes) {
  static const char *const once[] = {"micro", "micro.first", "micro.last", "update"};
  for (size_t i = 0; i < sizeof once / sizeof *once; i++)
    if (!strcmp(program, once[i])) return 1;
  return !strcmp(program, "micro.middle") ? (double)(passes - 2) : 0;
}

static ForecastSite site_of(const Prospect *p) {
  ForecastSite site = {.per_node = p->site.per_node, .copies = p->config->gpu.gathers == GATHERS_COPY};
  if (p->site.machine) site.rates = machine_rates(p->site.machine);
  for (int a = 0; a < MESH_AXES; a++) site.extent[a] = mesh_extent(p->mesh, (MeshAxis)a);
  return site;
}

/* How fast the host's cores are nobody knows here; what comes from them travels. */
static void add_host_update(Prospect *p) {
  const StateTable *states = engine_states(p->engine);
  p->step.unknown++;
  for (int u = 0; u < states->nunits; u++)
    if (!states->units[u].traits.frozen)
      p->step.nbytes[LANE_FETCHES] += (double)states->units[u].local * (double)dtype_size(state_slot_type(states, SLOT_PARAM));
}

static void forecast(Prospect *p) {
  ForecastSite site = site_of(p);
  const Job *job = engine_job(p->engine);
  for (int i = 0; i < job_programs(job); i++)
    forecast_add(&p->step, job_program(job, i), &site, times_of(job_program_name(job, i), p->batch.passes));
  if (p->config->memory.optimizer == OPTIMIZER_HOST) add_host_update(p);
  p->timed = p->site.machine && !p->step.unknown;
}

/* Of a rank on a CPU: the compiled programs' tables, pages of code that training touches, open files, huge pages' rounding. */
static const double process_bytes = 8 << 20;

static void open_engine(Prospect *p) {
  const Config *c = p->config;
  p->comm = comm_plan_nodes(p->site.ranks, p->site.per_node);
  p->mesh = setup_mesh(c, p->comm);
  EngineOptions o = setup_training(c, &p->model, &p->batch, c->cpu.threads ? (int)c->cpu.threads : comm_core_share(p->comm));
  o.eval = c->data.val.n > 0 || c->data.val_fraction > 0;
  o.watch = p->site.watch;
  o.traits = p->members->traits;
  p->fit = fit_settle(p->arena, c, p->comm, p->mesh, &o, &(FitPlace){.gpu = p->site.machine ? (size_t)p->site.machine->memory : 0});
  p->engine = engine_open(p->arena, NULL, p->comm, p->mesh, &o);
}

/* As a run decides, if it has enough of the host's memory. */
static bool saves_beside(const Config *c) {
  bool apart = c->device.kind == DEVICE_KIND_CUDA || c->device.kind == DEVICE_KIND_APART;
  return c->checkpoint.async == ASYNC_TRUE || (c->checkpoint.async == ASYNC_AUTO && apart && c->checkpoint.every.unit);
}

Prospect *prospect_open(Arena *arena, const Config *c, const ProspectSite *site, Text *warnings) {
  Prospect *p = arena_new(arena, Prospect);
  *p = (Prospect){.arena = arena, .config = c, .site = *site, .model = setup_model(arena, c, warnings)};
  p->batch = config_check_batch(c, site->ranks);
  p->members = members_of_model(arena, c, &p->model);
  p->flops = members_flops(p->members, &p->model, c->train.seq_len);
  open_engine(p);
  p->memory = memory_report(arena, engine_job(p->engine));
  p->host = (double)job_memory(engine_job(p->engine)).host;
  p->files = (double)job_memory(engine_job(p->engine)).files;
  if (saves_beside(c)) p->copies = (double)staging_nbytes(states_copy_staging(states_copy_open(arena, p->engine, true)));
  p->reserve = c->device.kind == DEVICE_KIND_CUDA ? machine_reserve(site->ranks == 1) : process_bytes;
  p->capacity = c->device.kind != DEVICE_KIND_CUDA ? machine_host_room((double)node_memory().total, site->per_node) + process_bytes
                : site->machine                    ? site->machine->memory
                                                   : 0;
  forecast(p);
  return p;
}

void prospect_close(Prospect *p) {
  engine_close(p->engine);
  mesh_close(p->mesh);
  comm_close(p->comm);
}

double prospect_bytes(const Prospect *p) {
  return (double)p->memory->nbytes + p->reserve + (p->config->device.kind == DEVICE_KIND_CUDA ? 0 : p->host + p->copies);
}

static double beyond_capacity(const Prospect *p) {
  if (!(p->capacity > 0)) return 0;
  if (p->config->device.kind != DEVICE_KIND_CUDA) return prospect_bytes(p) - p->capacity;
  return (double)p->memory->nbytes - machine_room(p->capacity, p->site.ranks == 1);
}

static double beyond_allowed(const Prospect *p) { return p->site.allowed > 0 ? (double)p->memory->nbytes - p->site.allowed : 0; }

double prospect_short(const Prospect *p) { return fmax(0, fmax(beyond_capacity(p), beyond_allowed(p))); }

double prospect_beyond(const Prospect *p) {
  double beyond = beyond_allowed(p);
  return beyond > 0 && beyond > beyond_capacity(p) ? beyond : 0;
}

Speed prospect_speed(const Prospect *p) {
  bool known = p->site.machine && p->config->precision.compute != PRECISION_FP32;
  return (Speed){.per_token = p->flops, .devices = p->site.ranks, .peak = known ? p->site.machine->narrow : 0};
}

double prospect_tokens(const Prospect *p) { return p->timed ? (double)p->batch.tokens / p->step.seconds : NAN; }
