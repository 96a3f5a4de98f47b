/* SPDX-License-Identifier: Apache-2.0 */
/* Which programs an engine has, and what each is compiled of. */
#include <string.h>

#include "src/train/engine_parts.h"

enum { CHUNKS_MOST = 64 }; /* of the head: what a very long pass may add to the program's length */
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

/* Rows of a chunk of the head, of all; chunks are about equal. */
static int64_t head_rows(const EngineOptions *o, int64_t all) {
  int64_t row = o->model.vocab * (int64_t)dtype_size(o->choices.compute);
  int64_t filling = smaller(GRADIENT_GPU / o->model.hidden, LOGITS_BYTES_MOST / row);
  int64_t rows = o->choices.cuda ? larger(LOGITS_BYTES_GPU / row, filling) : LOGITS_BYTES / row;
  rows = larger(rows, larger(128, (all + CHUNKS_MOST - 1) / CHUNKS_MOST));
  int64_t chunks = (all + rows - 1) / rows, grain = rows < ROWS_GRAIN ? 1 : ROWS_GRAIN;
  return ((all + chunks - 1) / chunks + grain - 1) / grain * grain;
}

/* Of sequences of so many positions, or of the beginnings of longer ones. */
static ModelBatch batch_of(const EngineOptions *o, int64_t positions) {
  return (ModelBatch){.sequences = o->sequences,
                      .positions = positions,
                      .whole = o->positions,
                      .head_rows = head_rows(o, o->sequences * positions),
                      .segments = o->segments};
}

/* What a program is called: that of whole sequences by its name alone. */
static const char *name_of(const Engine *e, const char *name, int64_t positions) {
  return positions == e->options.positions ? name : arena_printf(e->arena, "%s.%lld", name, (long long)positions);
}

/* Compiles graph, which lies in scratch, and gives scratch back. */
static int add_take(Engine *e, Arena *scratch, const Graph *graph, bool first, bool last, const char *name) {
  const EngineOptions *o = &e->options;
  const Program *program = compile(e->arena, graph, e->states, &o->choices, name, first, last, o->watch);
  arena_close(scratch);
  return job_add(e->job, program, name);
}

static bool wanted(const Engine *e, const char *name) { return !e->options.only || !strcmp(e->options.only, name); }

static int add_micro(Engine *e, int64_t positions, bool first, bool last, const char *base) {
  const EngineOptions *o = &e->options;
  const char *name = name_of(e, base, positions);
  if (!wanted(e, name)) return -1;
  Arena *scratch = arena_open();
  ModelBatch batch = batch_of(o, positions);
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

static int add_eval(Engine *e, int64_t positions) {
  const char *name = name_of(e, "eval", positions);
  if (!wanted(e, name)) return -1;
  Arena *scratch = arena_open();
  ModelBatch batch = batch_of(&e->options, positions);
  const Graph *g = graph_eval(scratch, &e->options.model, &batch, e->states, MESH_DP_SHARD, MESH_DP_REPLICATE);
  return add_take(e, scratch, g, true, true, name);
}

static int add_score(Engine *e) {
  Arena *scratch = arena_open();
  ModelBatch batch = batch_of(&e->options, e->options.positions);
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

/* The micro-steps of passes of one length. */
static void add_micros(Engine *e, Passes *p) {
  const EngineOptions *o = &e->options;
  for (int i = 0; i < MICROS; i++) p->micro[i] = -1;
  if (o->train && o->passes == 1) p->micro[ONLY] = add_micro(e, p->positions, true, true, "micro");
  if (o->train && o->passes > 1) p->micro[FIRST] = add_micro(e, p->positions, true, false, "micro.first");
  if (o->train && o->passes > 2) p->micro[MIDDLE] = add_micro(e, p->positions, false, false, "micro.middle");
  if (o->train && o->passes > 1) p->micro[LAST] = add_micro(e, p->positions, false, true, "micro.last");
}

/* The longest first, whose programs have the inputs whole. */
static void set_lengths(Engine *e) {
  const EngineOptions *o = &e->options;
  Lengths *all = &e->lengths;
  for (int i = 0; i <= (int)ENGINE_SHORTER; i++) {
    int64_t positions = i < (int)ENGINE_SHORTER ? o->shorter[i] : o->positions;
    if (!positions) continue;
    CHECK(positions > (all->n ? all->at[all->n - 1] : 0));
    all->at[all->n++] = positions;
  }
  for (int i = 0; i < all->n; i++) e->passes[i].positions = all->at[all->n - 1 - i];
}

void engine_add_programs(Engine *e) {
  const EngineOptions *o = &e->options;
  set_lengths(e);
  for (int i = 0; i < e->lengths.n; i++) add_micros(e, &e->passes[i]);
  e->update = o->train && wanted(e, "update") ? add_update(e) : -1;
  e->replicas = o->train && o->compare && wanted(e, "replicas") ? add_replicas(e) : -1;
  for (int i = 0; i < e->lengths.n; i++) e->passes[i].eval = o->eval ? add_eval(e, e->passes[i].positions) : -1;
  e->score = o->score && wanted(e, "score") ? add_score(e) : -1;
  e->fill = o->generate && wanted(e, "fill") ? add_generate(e, CACHE_FILL, "fill") : -1;
  e->extend = o->generate && wanted(e, "extend") ? add_generate(e, CACHE_EXTEND, "extend") : -1;
}
