/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/forecast.h"

#include "src/exec/gathers.h"

/* --- what a step wants ------------------------------------------------------------------------------------------------------ */

static double longer(double a, double b) { return a > b ? a : b; }

/* 0: unknown. */
static double attention_rate(const Step *s, const MachineRates *rates) {
  enum { SMALL = 64 };
  if (dtype_size(s->in[0].dtype) != 2) return 0;
  return rates->attention[s->in[0].shape.dim[3] > SMALL][s->op == OP_ATTENTION_GRAD];
}

/* Seconds of a step that computes; negative: unknown. */
static double compute_seconds(const Step *s, const StepCost *cost, const MachineRates *rates) {
  const double moves[PROF_KINDS] = {[PROF_PRODUCTS] = rates->bytes,
                                    [PROF_EMBEDDING] = rates->fused,
                                    [PROF_ROUTING] = rates->fused,
                                    [PROF_FUSED] = rates->fused,
                                    [PROF_UPDATE] = rates->update};
  double rate = cost->kind != PROF_ATTENTION ? (cost->narrow ? rates->narrow : rates->wide) : attention_rate(s, rates);
  if (cost->flops > 0 && !(rate > 0)) return -1;
  double flops = cost->flops > 0 ? cost->flops / rate : 0;
  return longer(flops, moves[cost->kind] > 0 ? cost->nbytes / moves[cost->kind] : 0);
}

/* Members of an axis' group that share a node, where ranks that differ in this axis alone are `stride` apart. */
static int neighbours(const ForecastSite *site, int64_t axis) {
  int stride = 1, extent = site->extent[axis];
  for (int a = (int)axis + 1; a < MESH_AXES; a++) stride *= site->extent[a];
  int n = site->per_node / stride;
  return n < 1 ? 1 : n < extent ? n : extent;
}

static bool by_copies(const Program *p, const Step *s, const ForecastSite *site) {
  return s->op == OP_ALL_TO_ALL || (site->copies && gather_reads_state(p, s));
}

typedef struct Travel {
  double seconds; /* alone; negative: unknown */
  bool nccl;
} Travel;

/* Rings pass through the GPUs of a node over their links, and from node to node over as many ports as they have members there. */
static Travel travel(const Program *p, const Step *s, const StepCost *cost, const ForecastSite *site) {
  const MachineRates *r = &site->rates;
  int near = neighbours(site, s->n[0]);
  bool inside = near >= site->extent[s->n[0]], copied = inside && by_copies(p, s, site);
  MachineWay way = copied                       ? WAY_COPY
                   : s->op == OP_ALL_GATHER     ? WAY_GATHER
                   : s->op == OP_REDUCE_SCATTER ? WAY_SCATTER
                                                : WAY_ALL_REDUCE;
  double rate = r->way[way];
  if (!inside && (near == 1 || near * r->network < rate)) rate = near * r->network;
  if (!(rate > 0)) return (Travel){-1, !copied};
  int hops = 1;
  for (int n = site->extent[s->n[0]] / near; n > 1; n = (n + 1) / 2) hops++;
  return (Travel){cost->nbytes > 0 ? hops * r->start + cost->nbytes / rate : 0, !copied};
}

static bool in_file(const Program *p, const StepArg *arg) {
  const Buffer *b = &p->buffers[arg->place.buffer];
  return b->class == BUFFER_VAR && p->graph->vars.at[b->var].home == HOME_FILE;
}

static Travel transferred(const Program *p, const Step *s, const StepCost *cost, const MachineRates *r) {
  bool known = r->host > 0 && !in_file(p, &s->in[0]) && !in_file(p, &s->out[0]);
  return (Travel){known ? cost->nbytes / r->host : -1, false};
}

/* --- the clock -------------------------------------------------------------------------------------------------------------- */

typedef struct Going {
  int collective;
  double left; /* seconds, alone */
  bool nccl;
} Going;

typedef struct Clock {
  const MachineRates *rates;
  Forecast *f;
  Going *queue[LANES];
  int first[LANES], n[LANES]; /* of the queue: on its way, and all that were started */
} Clock;

static Going *under_way(const Clock *c, int lane) { return c->first[lane] < c->n[lane] ? &c->queue[lane][c->first[lane]] : NULL; }

static bool nccl_runs(const Clock *c) {
  for (int l = 0; l < LANES; l++) {
    const Going *going = under_way(c, l);
    if (going && going->nccl) return true;
  }
  return false;
}

/* Time goes by until a collective is over, `most` seconds at the longest; returns how many. */
static double pass(Clock *c, double most, bool computing) {
  double slowed[LANES], dt = most;
  for (int l = 0; l < LANES; l++) {
    const Going *going = under_way(c, l);
    slowed[l] = going && going->nccl && computing ? c->rates->way_slowed : 1;
    if (going && going->left * slowed[l] < dt) dt = going->left * slowed[l];
  }
  for (int l = 0; l < LANES; l++) {
    Going *going = under_way(c, l);
    if (!going) continue;
    c->f->busy[l] += dt;
    going->left -= dt / slowed[l];
    if (going->left <= 1e-12) c->first[l]++;
  }
  return dt;
}

static void compute(Clock *c, double seconds, ProfKind kind) {
  while (seconds > 1e-12) {
    double slowed = nccl_runs(c) ? c->rates->products_slowed : 1, dt = pass(c, seconds * slowed, true);
    c->f->spent[kind] += dt;
    seconds -= dt / slowed;
  }
}

static void start(Clock *c, Lane lane, int collective, Travel t) {
  c->queue[lane][c->n[lane]++] = (Going){collective, t.seconds, t.nccl};
  while (under_way(c, lane) && under_way(c, lane)->left <= 0) c->first[lane]++; /* nothing has to move */
}

static const ProfKind exposed[LANES] = {PROF_GATHERS, PROF_REDUCTIONS, PROF_COPIES, PROF_COPIES};

static void wait_for(Clock *c, Lane lane, int collective) {
  int at = 0;
  while (c->queue[lane][at].collective != collective) at++;
  while (c->first[lane] <= at) c->f->spent[exposed[lane]] += pass(c, 1e30, false);
}

/* --- a program -------------------------------------------------------------------------------------------------------------- */

static Lane lane_of(Op op) {
  static const Lane lanes[OP_COUNT] = {[OP_REDUCE_SCATTER] = LANE_REDUCTIONS,
                                       [OP_ALL_REDUCE] = LANE_REDUCTIONS,
                                       [OP_ALL_TO_ALL] = LANE_REDUCTIONS,
                                       [OP_FETCH] = LANE_FETCHES,
                                       [OP_SEND] = LANE_SENDS};
  return lanes[op];
}

static void run_step(Clock *c, const Program *p, const Step *s, bool updates, const ForecastSite *site) {
  StepCost cost = step_cost(s, updates);
  bool transfer = s->kind == STEP_TRANSFER_START;
  if (s->kind == STEP_COLLECTIVE_WAIT || s->kind == STEP_TRANSFER_WAIT) {
    wait_for(c, lane_of(s->op), s->collective);
  } else if (s->kind == STEP_COLLECTIVE_START || transfer) {
    Lane lane = lane_of(s->op);
    c->f->nbytes[lane] += cost.nbytes;
    Travel t = transfer ? transferred(p, s, &cost, c->rates) : travel(p, s, &cost, site);
    c->f->unknown += t.seconds < 0;
    start(c, lane, s->collective, t);
  } else {
    double seconds = compute_seconds(s, &cost, c->rates);
    c->f->unknown += seconds < 0;
    compute(c, seconds, cost.kind);
    compute(c, c->rates->kernel_gap, PROF_GAPS);
  }
}

void forecast_add(Forecast *sum, const Program *p, const ForecastSite *site, double times) {
  Arena *scratch = arena_open();
  Forecast one = {0};
  Clock c = {.rates = &site->rates, .f = &one};
  for (int l = 0; l < LANES; l++) c.queue[l] = arena_array(scratch, Going, p->ncollectives);
  bool updates = program_updates(p);
  for (int i = 0; i < p->nsteps; i++) run_step(&c, p, &p->steps[i], updates, site);
  for (int k = 0; k < PROF_KINDS; k++) {
    sum->spent[k] += times * one.spent[k];
    sum->seconds += times * one.spent[k];
  }
  for (int l = 0; l < LANES; l++) {
    sum->busy[l] += times * one.busy[l];
    sum->nbytes[l] += times * one.nbytes[l];
  }
  sum->unknown += one.unknown;
  arena_close(scratch);
}
