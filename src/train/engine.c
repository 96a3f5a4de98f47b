/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/hash.h"
#include "src/base/rng.h"
#include "src/train/host_update.h"

enum { ONLY, FIRST, MIDDLE, LAST, MICROS };

/* A step by the device's clock. */
typedef struct Lap {
  DevEvent *begin, *end;
  bool begun; /* here, not at the end of the one before */
} Lap;

enum { LAPS = 4 }; /* under way, and the one before them */

struct Engine {
  Arena *arena;
  Dev *dev;
  Comm *comm;
  Mesh *mesh;
  EngineOptions options;
  StateTable *states;
  Job *job;
  int micro[MICROS], update, replicas, eval, score, fill, extend; /* programs; -1: none */
  HostUpdate *host; /* the part of the update that is the host's cores'; NULL: none is */
  uint64_t *sort;   /* scratch of engine_batch */
  Lap laps[LAPS];
  int64_t started, told; /* updates, and results that were given */
};

enum { EXCHANGE_MOST = 16 }; /* ranks */
enum { CHUNKS_MOST = 64 };   /* of the head: what a very long pass may add to the program's length */
/* A chunk of the head's logits: large enough for full-speed products, small beside the rest.  On a GPU the product that gives the
 * hidden state's gradient has no more tiles than the chunk has rows and columns of hidden: all multiprocessors, about twice, want
 * 2^23 elements. */
enum {
  LOGITS_BYTES = 4 << 20,
  LOGITS_BYTES_GPU = 256 << 20,
  LOGITS_BYTES_MOST = 1 << 30,
  GRADIENT_GPU = 1 << 23,
  ROWS_GRAIN = 256
};

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Rows of a chunk; chunks are about equal. */
static int64_t head_rows(const EngineOptions *o) {
  int64_t row = o->model.vocab * (int64_t)dtype_size(o->choices.compute), all = o->sequences * o->positions;
  int64_t filling = smaller(GRADIENT_GPU / o->model.hidden, LOGITS_BYTES_MOST / row);
  int64_t rows = o->choices.cuda ? larger(LOGITS_BYTES_GPU / row, filling) : LOGITS_BYTES / row;
  rows = larger(rows, larger(128, (all + CHUNKS_MOST - 1) / CHUNKS_MOST));
  int64_t chunks = (all + rows - 1) / rows, grain = rows < ROWS_GRAIN ? 1 : ROWS_GRAIN;
  return ((all + chunks - 1) / chunks + grain - 1) / grain * grain;
}

static ModelBatch batch_of(const EngineOptions *o) {
  int64_t rows = head_rows(o);
  return (ModelBatch){.sequences = o->sequences, .positions = o->positions, .head_rows = rows, .segments = o->segments};
}

/* Compiles graph, which lies in scratch, and gives scratch back. */
static int add_take(Engine *e, Arena *scratch, const Graph *graph, bool first, bool last, const char *name) {
  const EngineOptions *o = &e->options;
  const Program *program = compile(e->arena, graph, e->states, &o->choices, name, first, last, o->watch);
  arena_close(scratch);
  return job_add(e->job, program, name);
}

static bool wanted(const Engine *e, const char *name) { return !e->options.only || !strcmp(e->options.only, name); }

static int add_micro(Engine *e, bool first, bool last, const char *name) {
  const EngineOptions *o = &e->options;
  if (!wanted(e, name)) return -1;
  Arena *scratch = arena_open();
  ModelBatch batch = batch_of(o);
  if (o->logits) batch.head_rows = 0;
  batch.dropout = o->dropout;
  MicroOptions micro = {o->nominal_tokens, o->z_loss, o->router, first, o->logits, e->states};
  return add_take(e, scratch, graph_micro(scratch, &o->model, &batch, &micro), first, last, name);
}

static int add_update(Engine *e) {
  const EngineOptions *o = &e->options;
  Arena *scratch = arena_open();
  UpdateOptions update = {o->adam, o->clip, o->nominal_tokens, o->z_loss, o->router, MESH_DP_SHARD, MESH_DP_REPLICATE};
  if (o->on_host) e->host = host_update_open(e->arena, e->dev, e->job, e->comm, e->states, &update, o);
  const Graph *g = e->host ? graph_update_head(scratch, e->states, &update) : graph_update(scratch, e->states, &update);
  return add_take(e, scratch, g, true, true, "update");
}

static int add_replicas(Engine *e) {
  Arena *scratch = arena_open();
  ReplicaRow *rows;
  int n = graph_replicated(e->states, scratch, &rows);
  if (n) return add_take(e, scratch, graph_replicas(scratch, e->states), true, true, "replicas");
  arena_close(scratch);
  return -1;
}

static int add_eval(Engine *e) {
  Arena *scratch = arena_open();
  ModelBatch batch = batch_of(&e->options);
  const Graph *g = graph_eval(scratch, &e->options.model, &batch, e->states, MESH_DP_SHARD, MESH_DP_REPLICATE);
  return add_take(e, scratch, g, true, true, "eval");
}

static int add_score(Engine *e) {
  Arena *scratch = arena_open();
  ModelBatch batch = batch_of(&e->options);
  batch.lengths = true;
  return add_take(e, scratch, graph_score(scratch, &e->options.model, &batch), true, true, "score");
}

static int add_generate(Engine *e, ModelCacheUse use, const char *name) {
  Arena *scratch = arena_open();
  const EngineOptions *o = &e->options;
  bool fills = use == CACHE_FILL;
  ModelBatch batch = {.sequences = fills ? 1 : o->slots,
                      .positions = fills ? o->positions : 1,
                      .cache = {use, o->slots, o->kept, o->choices.compute}};
  return add_take(e, scratch, graph_generate(scratch, &o->model, &batch), true, true, name);
}

static void add_programs(Engine *e) {
  const EngineOptions *o = &e->options;
  for (int i = 0; i < MICROS; i++) e->micro[i] = -1;
  if (o->train && o->passes == 1) e->micro[ONLY] = add_micro(e, true, true, "micro");
  if (o->train && o->passes > 1) e->micro[FIRST] = add_micro(e, true, false, "micro.first");
  if (o->train && o->passes > 2) e->micro[MIDDLE] = add_micro(e, false, false, "micro.middle");
  if (o->train && o->passes > 1) e->micro[LAST] = add_micro(e, false, true, "micro.last");
  e->update = o->train && wanted(e, "update") ? add_update(e) : -1;
  e->replicas = o->train && o->compare && wanted(e, "replicas") ? add_replicas(e) : -1;
  e->eval = o->eval && wanted(e, "eval") ? add_eval(e) : -1;
  e->score = o->score && wanted(e, "score") ? add_score(e) : -1;
  e->fill = o->generate && wanted(e, "fill") ? add_generate(e, CACHE_FILL, "fill") : -1;
  e->extend = o->generate && wanted(e, "extend") ? add_generate(e, CACHE_EXTEND, "extend") : -1;
}

Engine *engine_open(Arena *arena, Dev *dev, Comm *comm, Mesh *mesh, const EngineOptions *options) {
  Engine *e = arena_new(arena, Engine);
  *e = (Engine){.arena = arena, .dev = dev, .comm = comm, .mesh = mesh, .options = *options};
  Graph *model = graph_open(arena);
  model_build(model, &options->model, &(ModelBatch){.sequences = 1, .positions = 1});
  StateOptions states = {.shards = mesh_extent(mesh, MESH_DP_SHARD),
                         .replicas = mesh_extent(mesh, MESH_DP_REPLICATE),
                         .across = options->across,
                         .traits = options->traits,
                         .split = options->choices.compute == DT_BF16,
                         .scaled = options->choices.compute == DT_F16,
                         .moments = options->moments};
  e->states = state_table(arena, model, &states);
  for (int axis = 0; axis < MESH_AXES; axis++) /* each rank keeps a part of every other: that many are too much memory */
    e->options.choices.exchange[axis] &= mesh_is_near(mesh, (MeshAxis)axis) && mesh_extent(mesh, (MeshAxis)axis) <= EXCHANGE_MOST;
  e->job = job_open(arena, dev, comm, mesh, &e->options.choices, options->interpreted);
  add_programs(e);
  e->sort = arena_array(arena, uint64_t, options->sequences * options->positions);
  return e;
}

void engine_close(Engine *e) {
  if (e->host) host_update_close(e->host);
  job_close(e->job);
  for (int i = 0; i < LAPS && e->laps[i].end; i++) {
    dev_event_close(e->laps[i].begin);
    dev_event_close(e->laps[i].end);
  }
}

void engine_rest(Engine *e) { job_rest(e->job); }

const StateTable *engine_states(const Engine *engine) { return engine->states; }

StateRank engine_rank(const Engine *e) {
  return (StateRank){mesh_index(e->mesh, MESH_DP_SHARD), mesh_index(e->mesh, MESH_DP_REPLICATE)};
}

const Job *engine_job(const Engine *engine) { return engine->job; }

void engine_shape(const Engine *engine, int64_t *sequences, int64_t *positions) {
  *sequences = engine->options.sequences;
  *positions = engine->options.positions;
}

int64_t engine_vocab(const Engine *engine) { return engine->options.model.vocab; }

int engine_order(const Engine *e, int programs[ENGINE_STEP]) {
  const int all[] = {e->micro[ONLY], e->micro[FIRST], e->micro[MIDDLE], e->micro[LAST], e->update};
  int n = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i] >= 0) programs[n++] = all[i];
  return n;
}

void engine_profile(Engine *engine, Prof *prof) { job_profile(engine->job, prof); }

static void hash_program(Sha256 *hash, const Program *p) {
  uint64_t numbers[] = {graph_hash(p->graph), (uint64_t)p->nsteps, (uint64_t)p->nbuffers, p->transient};
  sha256_add(hash, numbers, sizeof numbers);
  for (int i = 0; i < p->nbuffers; i++) sha256_add(hash, &p->buffers[i].offset, sizeof p->buffers[i].offset);
}

static void hash_programs(Sha256 *hash, const Job *job) {
  for (int i = 0; i < job_programs(job); i++) hash_program(hash, job_program(job, i));
}

uint64_t engine_hash(const Engine *e) {
  Sha256 hash;
  sha256_init(&hash);
  hash_programs(&hash, e->job);
  if (e->host) hash_programs(&hash, host_update_job(e->host));
  return sha256_u64(&hash);
}

/* The job whose programs update units. */
static Job *units_job(const Engine *e) { return e->host ? host_update_job(e->host) : e->job; }

JobStart engine_start(Engine *e) {
  JobStart start = job_start(e->job);
  if (e->host) {
    JobStart host = host_update_start(e->host);
    start.kernels += host.kernels;
    start.cached += host.cached;
    start.seconds += host.seconds;
  }
  int32_t *shard = job_var(units_job(e), "shard", NULL);
  if (shard) *shard = (int32_t)state_share(e->states, engine_rank(e));
  engine_set_scalar(e, "loss_scale", SCALE_FIRST);
  if (e->update >= 0) engine_limit(e, INFINITY, INFINITY);
  for (int64_t i = 0; e->score >= 0 && i < e->options.sequences; i++) engine_length(e, i, e->options.positions);
  for (int64_t i = 0; e->extend >= 0 && i < e->options.slots; i++) engine_length(e, i, e->options.kept);
  for (int i = 0; i < LAPS; i++) e->laps[i] = (Lap){dev_event_open(e->dev), dev_event_open(e->dev), false};
  return start;
}

/* --- parameters and states ------------------------------------------------------------------------------------------------ */

/* NULL: there is no such row, as of moments of what is frozen. */
static const char *find_state(const Engine *e, StateSlot slot, int unit) {
  for (int i = 0; i < e->states->nrows; i++)
    if (e->states->rows[i].slot == slot && e->states->rows[i].unit == unit) return e->states->rows[i].name;
  return NULL;
}

static const char *row_name(const Engine *e, StateSlot slot, int unit) {
  const char *name = find_state(e, slot, unit);
  CHECK(name);
  return name;
}

bool engine_holds(const Engine *e, StateSlot slot, int unit) {
  const char *name = find_state(e, slot, unit);
  return name && job_size(e->job, name) >= 0;
}

/* The Var of the lower halves where the slot's F32s are in two; NULL.  There need not be such a Var: none keeps those of what is
 * frozen. */
static const char *lower_name(const Engine *e, StateSlot slot, int unit) {
  if (!e->states->split || slot != SLOT_PARAM) return NULL;
  return state_name(e->arena, SLOT_LOWER, &e->states->units[unit]);
}

static bool is_brief(const Engine *e, StateSlot slot) {
  return (slot == SLOT_M || slot == SLOT_V) && e->states->moments == DT_BF16;
}

void engine_put(Engine *e, StateSlot slot, int unit, int64_t at, int64_t n, JobMake *make, void *self) {
  const char *name = row_name(e, slot, unit), *lower = lower_name(e, slot, unit);
  if (e->host && slot == SLOT_PARAM) host_update_stale(e->host);
  if (is_brief(e, slot))
    job_put_bf16(e->job, name, at, n, make, self);
  else
    lower ? job_put_halves(e->job, name, lower, at, n, make, self) : job_put(e->job, name, at, n, make, self);
}

void engine_get(const Engine *e, StateSlot slot, int unit, int64_t at, int64_t n, JobUse *use, void *self) {
  const char *name = row_name(e, slot, unit), *lower = lower_name(e, slot, unit);
  if (is_brief(e, slot))
    job_get_bf16(e->job, name, at, n, use, self);
  else
    lower ? job_get_halves(e->job, name, lower, at, n, use, self) : job_get(e->job, name, at, n, use, self);
}

Staging *engine_staging_open(const Engine *e, Arena *arena) { return staging_open(arena, e->job); }

EngineStaged engine_stage(const Engine *e, Staging *staging, StateSlot slot, int unit, int64_t at, int64_t n) {
  const char *lower = lower_name(e, slot, unit);
  EngineStaged staged = {staging_add(staging, row_name(e, slot, unit), at, n), -1};
  if (lower && job_size(e->job, lower) >= 0) staged.lower = staging_add(staging, lower, at, n);
  return staged;
}

void engine_gather_holders(Engine *e, int param, const void *mine, size_t nbytes, void *all) {
  int64_t holders, me;
  StateHolders who = state_holders(e->states, param, engine_rank(e), &holders, &me);
  if (who == HELD_ALONE) memcpy(all, mine, nbytes);
  if (who == HELD_BY_REPLICAS) comm_gather_axis(e->mesh, MESH_DP_REPLICATE, mine, nbytes, all);
  if (who == HELD_BY_ALL) comm_gather(e->comm, mine, nbytes, all);
}

void engine_get_grad(const Engine *e, int unit, int64_t at, int64_t n, JobUse *use, void *self) {
  job_get(e->job, state_grad(e->arena, &e->states->units[unit]), at, n, use, self);
}

static void add_crc(void *self, int64_t first, int64_t n, const void *from) {
  (void)first;
  uint32_t *crc = self;
  *crc = crc32c(*crc, from, sizeof(float) * (size_t)n);
}

uint32_t engine_crc(const Engine *e, StateSlot slot, int param) {
  uint32_t crc = 0;
  int64_t first, n, at;
  if (state_piece(e->states, param, engine_rank(e), &first, &n, &at))
    engine_get(e, slot, e->states->params[param].unit, at, n, add_crc, &crc);
  return crc;
}

uint32_t engine_grad_crc(const Engine *e, int param) {
  uint32_t crc = 0;
  int64_t first, n, at;
  int unit = e->states->params[param].unit;
  if (!e->states->units[unit].traits.frozen && state_piece(e->states, param, engine_rank(e), &first, &n, &at))
    engine_get_grad(e, unit, at, n, add_crc, &crc);
  return crc;
}

static void read_some(void *self, int64_t first, int64_t n, const void *from) {
  memcpy((float *)self + first, from, sizeof(float) * (size_t)n);
}

void engine_read(const Engine *e, StateSlot slot, int unit, int64_t at, int64_t n, float *to) {
  engine_get(e, slot, unit, at, n, read_some, to);
}

float engine_scalar(const Engine *e, const char *name) {
  float value;
  job_read(e->job, name, 0, 1, &value);
  return value;
}

void engine_set_scalar(Engine *e, const char *name, float value) {
  if (job_size(e->job, name) >= 0) job_write(e->job, name, 0, 1, &value);
}

/* Only this rank's elements are made: no rank ever holds a whole large tensor. */
void engine_init_param(Engine *e, int p, uint64_t seed) {
  const StateParam *param = &e->states->params[p];
  int64_t first, n, at;
  if (!state_piece(e->states, p, engine_rank(e), &first, &n, &at)) return;
  Rng rng = rng_make(seed, RNG_INIT, param->name, 0);
  JobFill fill = {param->init == INIT_NORMAL ? &rng : NULL, (uint64_t)first, param->std, param->init == INIT_ONE};
  if (e->host) host_update_stale(e->host);
  job_fill(e->job, row_name(e, SLOT_PARAM, param->unit), lower_name(e, SLOT_PARAM, param->unit), at, n, &fill);
}

void engine_init(Engine *e, uint64_t seed) {
  for (int p = 0; p < e->states->nparams; p++) engine_init_param(e, p, seed);
}

/* --- batches -------------------------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static void copy_batch(Engine *e, const int32_t *ids, const int32_t *labels) {
  int64_t n;
  int32_t *to = job_var(e->job, "ids", &n);
  CHECK(to);
  memcpy(to, ids, sizeof *to * (size_t)n);
  if ((to = job_var(e->job, "labels", NULL))) memcpy(to, labels, sizeof *to * (size_t)n);
  if (!(to = job_var(e->job, "order", NULL))) return;
  for (int64_t i = 0; i < n; i++) e->sort[i] = (uint64_t)(uint32_t)ids[i] << 32 | (uint64_t)i; /* by id, then place: stable */
  qsort(e->sort, (size_t)n, sizeof *e->sort, by_value);
  for (int64_t i = 0; i < n; i++) to[i] = (int32_t)(e->sort[i] & 0xffffffff);
}

void engine_batch(Engine *engine, const int32_t *ids, const int32_t *labels) { copy_batch(engine, ids, labels); }

void engine_segments(Engine *e, const int32_t *starts) {
  int64_t n;
  int32_t *to = e->options.segments ? job_var(e->job, "start", &n) : NULL;
  if (to) memcpy(to, starts, sizeof *to * (size_t)n);
}

void engine_place(Engine *e, int64_t step, int64_t first_sequence) {
  int64_t n = 0, *keys = job_var(e->job, "dropout_keys", &n);
  for (int64_t i = 0; keys && i < n; i++) {
    char name[MODEL_DROP_NAME];
    Rng rng = rng_make(e->options.seed, RNG_DROPOUT, model_drop_name(i, name), (uint64_t)step);
    keys[i] = (int64_t)rng_key53(&rng);
  }
  if (keys) *(int64_t *)job_var(e->job, "first_sequence", NULL) = first_sequence;
}

void engine_micro(Engine *e, int64_t pass) {
  int64_t passes = e->options.passes;
  job_run(e->job, e->micro[passes == 1 ? ONLY : pass == 0 ? FIRST : pass == passes - 1 ? LAST : MIDDLE]);
}

void engine_step_begin(Engine *e) {
  Lap *lap = &e->laps[e->started % LAPS];
  dev_event_record(lap->begin);
  lap->begun = true;
}

/* What this step's roundings draw from, a key a unit. */
static void set_dither_keys(Engine *e, int64_t step) {
  int64_t *keys = job_var(units_job(e), "dither_keys", NULL);
  for (int u = 0; keys && u < e->states->nunits; u++) {
    Rng rng = rng_make(e->options.seed, RNG_ROUND, e->states->units[u].name, (uint64_t)step);
    keys[u] = (int64_t)rng_key53(&rng);
  }
}

void engine_update_start(Engine *e, int64_t step, double lr) {
  *(float *)job_var(e->job, "lr", NULL) = (float)lr;
  set_dither_keys(e, step);
  job_run(e->job, e->update);
  if (e->host) host_update_run(e->host);
  dev_event_record(e->laps[e->started++ % LAPS].end);
  e->laps[e->started % LAPS].begun = false;
  job_note(e->job, "metrics");
}

StepResult engine_update_result(Engine *e) {
  const float *m = job_noted(e->job); /* which waits */
  const Lap *lap = &e->laps[e->told % LAPS], *before = &e->laps[(e->told + LAPS - 1) % LAPS];
  double seconds = lap->begun ? dev_event_seconds(lap->begin, lap->end) : e->told ? dev_event_seconds(before->end, lap->end) : 0;
  e->told++;
  return (StepResult){m[METRIC_LOSS],  m[METRIC_GRAD_NORM], m[METRIC_TOKENS],      seconds,
                      m[METRIC_SCALE], m[METRIC_Z_LOSS],    m[METRIC_ROUTER_LOSS], m[METRIC_APPLIED] != 0};
}

StepResult engine_update(Engine *e, int64_t step, double lr) {
  engine_update_start(e, step, lr);
  return engine_update_result(e);
}

void engine_limit(Engine *e, double loss, double norm) {
  *(float *)job_var(e->job, "loss_limit", NULL) = (float)loss;
  *(float *)job_var(e->job, "norm_limit", NULL) = (float)norm;
}

StepResult engine_look(Engine *e, int64_t step) {
  engine_limit(e, INFINITY, -1);
  StepResult result = engine_update(e, step, 0);
  engine_limit(e, INFINITY, INFINITY);
  return result;
}

bool engine_has_replicas(const Engine *e) { return e->replicas >= 0; }

const float *engine_hashes(Engine *e) {
  if (e->replicas < 0) return NULL;
  job_run(e->job, e->replicas);
  return job_var(e->job, "replicas", NULL);
}

void engine_eval_start(Engine *e) {
  job_run(e->job, e->eval);
  job_note(e->job, "eval");
}

void engine_eval_result(Engine *e, double sums[2]) {
  const float *eval = job_noted(e->job);
  sums[0] += eval[0];
  sums[1] += eval[1];
}

const float *engine_score(Engine *e) {
  job_run(e->job, e->score);
  return job_var(e->job, "nll", NULL);
}

static void set_turns(Engine *e, const char *name, int64_t row, int64_t length) {
  int64_t n, half = e->options.model.head_dim / 2;
  float *to = job_var(e->job, name, &n);
  if (!to) return;
  CHECK(row >= 0 && (row + 1) * half <= n);
  double *frequency = xmalloc(sizeof *frequency * (size_t)half);
  model_rope_frequencies(&e->options.model, length, frequency);
  for (int64_t i = 0; i < half; i++) to[row * half + i] = (float)frequency[i];
  free(frequency);
}

void engine_length(Engine *e, int64_t row, int64_t length) {
  set_turns(e, "turns", e->options.score ? row : 0, length);
  set_turns(e, "next_turns", row, length);
}

static void check_ids(const Engine *e, const int32_t *ids, int64_t n) {
  for (int64_t i = 0; i < n; i++) CHECK(ids[i] >= 0 && ids[i] < e->options.model.vocab);
}

const float *engine_fill(Engine *e, int64_t slot, const int32_t *ids, int64_t n) {
  int64_t positions;
  int32_t *to = job_var(e->job, "ids", &positions);
  CHECK(n >= 1 && n <= positions && slot >= 0 && slot < e->options.slots);
  check_ids(e, ids, n);
  memcpy(to, ids, sizeof *to * (size_t)n);
  memset(to + n, 0, sizeof *to * (size_t)(positions - n));
  *(int32_t *)job_var(e->job, "row", NULL) = (int32_t)(n - 1);
  *(int32_t *)job_var(e->job, "slot", NULL) = (int32_t)slot;
  job_run(e->job, e->fill);
  return job_var(e->job, "logits", NULL);
}

const float *engine_extend(Engine *e, const int32_t *ids, const int32_t *positions) {
  int64_t n;
  int32_t *to = job_var(e->job, "next", &n);
  check_ids(e, ids, n);
  memcpy(to, ids, sizeof *to * (size_t)n);
  memcpy(job_var(e->job, "position", NULL), positions, sizeof *positions * (size_t)n);
  for (int64_t i = 0; i < n; i++) CHECK(positions[i] >= 0 && positions[i] < e->options.kept);
  job_run(e->job, e->extend);
  return job_var(e->job, "next_logits", NULL);
}

const float *engine_logits(const Engine *e) { return job_var(e->job, "logits", NULL); }

typedef void ReadVector(const Engine *e, int unit, int64_t at, int64_t n, float *to);

static void read_param(const Engine *e, int unit, int64_t at, int64_t n, float *to) { engine_read(e, SLOT_PARAM, unit, at, n, to); }

static void read_grad(const Engine *e, int unit, int64_t at, int64_t n, float *to) {
  job_read(e->job, state_grad(e->arena, &e->states->units[unit]), at, n, to);
}

/* A parameter out of a unit's vector, of which each rank has its share (or all of it). */
static void whole_tensor(Engine *e, int param, ReadVector *read, float *whole) {
  const StateParam *p = &e->states->params[param];
  const StateUnit *unit = &e->states->units[p->unit];
  int64_t n = shape_size(&p->shape), ranks = comm_size(e->comm), shares = unit->padded / unit->local;
  if (shares == 1) {
    read(e, p->unit, p->offset, n, whole);
    return;
  }
  float *mine = xmalloc(sizeof *mine * (size_t)unit->local), *all = xmalloc(sizeof *all * (size_t)(unit->local * ranks));
  float *vector = xmalloc(sizeof *vector * (size_t)unit->padded);
  int64_t share = state_share(e->states, engine_rank(e)), *which = xmalloc(sizeof *which * (size_t)ranks);
  read(e, p->unit, 0, unit->local, mine);
  comm_gather(e->comm, mine, sizeof *mine * (size_t)unit->local, all);
  comm_gather(e->comm, &share, sizeof share, which);
  for (int64_t r = 0; r < ranks; r++)
    memcpy(vector + which[r] * unit->local, all + r * unit->local, sizeof *vector * (size_t)unit->local);
  memcpy(whole, vector + p->offset, sizeof *whole * (size_t)n);
  free(which);
  free(vector);
  free(all);
  free(mine);
}

void engine_param(Engine *e, int param, float *whole) { whole_tensor(e, param, read_param, whole); }

void engine_gradient(Engine *e, int param, float *whole) {
  const StateParam *p = &e->states->params[param];
  whole_tensor(e, param, read_grad, whole);
  float counted;
  job_read(e->job, "token_count", 0, 1, &counted);
  float *counts = xmalloc(sizeof *counts * (size_t)comm_size(e->comm));
  comm_gather(e->comm, &counted, sizeof counted, counts);
  double total = 0;
  for (int r = 0; r < comm_size(e->comm); r++) total += counts[r];
  free(counts);
  float scale = e->states->scaled ? engine_scalar(e, "loss_scale") : 1;
  float ratio = (float)(e->options.nominal_tokens / (total > 1 ? total : 1)) / scale;
  for (int64_t i = 0; i < shape_size(&p->shape); i++) whole[i] *= ratio;
}
