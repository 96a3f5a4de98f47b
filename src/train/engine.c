/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/hash.h"
#include "src/base/rng.h"
#include "src/train/engine_parts.h"

enum { EXCHANGE_MOST = 16 }; /* ranks */

static UnitNames *unit_names(Arena *arena, const StateTable *states) {
  UnitNames *names = arena_array(arena, UnitNames, states->nunits);
  for (int u = 0; u < states->nunits; u++)
    names[u] = (UnitNames){state_name(arena, SLOT_LOWER, &states->units[u]), state_grad(arena, &states->units[u])};
  return names;
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
  e->names = unit_names(arena, e->states);
  for (int axis = 0; axis < MESH_AXES; axis++) /* each rank keeps a part of every other: that many are too much memory */
    e->options.choices.exchange[axis] &= mesh_is_near(mesh, (MeshAxis)axis) && mesh_extent(mesh, (MeshAxis)axis) <= EXCHANGE_MOST;
  e->job = job_open(arena, dev, comm, mesh, &e->options.choices, options->interpreted);
  engine_add_programs(e);
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
  const int *micro = e->passes[0].micro, all[] = {micro[ONLY], micro[FIRST], micro[MIDDLE], micro[LAST], e->update};
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
    phase_end(&start.phases, "update on the host");
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
  return e->names[unit].lower;
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
  job_get(e->job, e->names[unit].grad, at, n, use, self);
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

int64_t engine_shorten(Engine *e, int64_t needed) {
  int i = lengths_holding(&e->lengths, needed);
  e->length = e->lengths.n - 1 - i;
  return e->lengths.at[i];
}

/* What is computed of each of the batch's sequences, one behind the other; gives how many they are, or 0 where there is no such
 * input. */
static int64_t copy_rows(Engine *e, const char *name, const int32_t *from, int32_t **to) {
  int64_t S = e->options.positions, taken = e->passes[e->length].positions, room;
  if (!(*to = job_var(e->job, name, &room))) return 0;
  CHECK(room == e->options.sequences * S);
  for (int64_t b = 0; b < e->options.sequences; b++) memcpy(*to + b * taken, from + b * S, sizeof **to * (size_t)taken);
  return e->options.sequences * taken;
}

void engine_batch(Engine *e, const int32_t *ids, const int32_t *labels) {
  int32_t *to, *copied;
  int64_t n = copy_rows(e, "ids", ids, &copied);
  CHECK(n);
  copy_rows(e, "labels", labels, &to);
  if (!(to = job_var(e->job, "order", NULL))) return;
  for (int64_t i = 0; i < n; i++) e->sort[i] = (uint64_t)(uint32_t)copied[i] << 32 | (uint64_t)i; /* by id, then place: stable */
  qsort(e->sort, (size_t)n, sizeof *e->sort, by_value);
  for (int64_t i = 0; i < n; i++) to[i] = (int32_t)(e->sort[i] & 0xffffffff);
}

void engine_segments(Engine *e, const int32_t *starts) {
  int32_t *to;
  if (e->options.segments) copy_rows(e, "start", starts, &to);
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

int64_t engine_micro(Engine *e, int64_t pass) {
  int64_t passes = e->options.passes;
  int which = passes == 1 ? ONLY : pass == 0 ? FIRST : pass == passes - 1 ? LAST : MIDDLE;
  job_run(e->job, e->passes[e->length].micro[which]);
  return e->passes[e->length].runs[which]++;
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
  job_run(e->job, e->passes[e->length].eval);
  job_note(e->job, "eval");
}

void engine_eval_result(Engine *e, double sums[2]) {
  const float *eval = job_noted(e->job);
  sums[0] += eval[0];
  sums[1] += eval[1];
}

const float *engine_logits(const Engine *e) { return job_var(e->job, "logits", NULL); }

typedef void ReadVector(const Engine *e, int unit, int64_t at, int64_t n, float *to);

static void read_param(const Engine *e, int unit, int64_t at, int64_t n, float *to) { engine_read(e, SLOT_PARAM, unit, at, n, to); }

static void read_grad(const Engine *e, int unit, int64_t at, int64_t n, float *to) {
  job_read(e->job, e->names[unit].grad, at, n, to);
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
