/* SPDX-License-Identifier: Apache-2.0 */
/* The table of families and presets, the pieces that models share, and the loss. */
#include "src/model/build.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const ModelFamily families[] = {{"llama", model_llama, false, false},   {"mistral", model_llama, false, false},
                                       {"qwen2", model_llama, true, false},    {"qwen3", model_llama, false, true},
                                       {"mixtral", model_llama, false, false}, {"gpt2", model_gpt2, true, false, true}};

static int param(ModelBuild *m, const char *unit, const char *name, Shape shape, InitKind init, double std) {
  Var var = {.name = name, .class = VAR_PARAM, .dtype = DT_F32, .shape = shape, .unit = unit, .init = init, .std = std};
  graph_var(m->g, var);
  int load = ir_load(m->g, name);
  vec_push(m->g->arena, &m->params, load);
  return load;
}

int model_param(ModelBuild *m, const char *unit, const char *name, Shape shape, InitKind init) {
  return param(m, unit, name, shape, init, init == INIT_NORMAL ? m->config->init_std : 0);
}

int model_param_std(ModelBuild *m, const char *unit, const char *name, Shape shape, double std) {
  return param(m, unit, name, shape, INIT_NORMAL, std);
}

int model_rows(Graph *g, int table, int ids) {
  return graph_push(g, (Node){.op = OP_EMBEDDING, .nin = 2, .in = (int[]){table, ids}});
}

int model_linear(Graph *g, int x, int weight, int bias) { return ir_matmul_bias(g, x, false, weight, true, bias); }

int model_conv1d(Graph *g, int x, int weight, int bias) { return ir_matmul_bias(g, x, false, weight, false, bias); }

int model_residual(ModelBuild *m, int x, int y) {
  return ir_unary(m->g, OP_KEEP, ir_add(m->g, x, model_drop(m, y, m->batch->dropout.residual)));
}

int model_silu(Graph *g, int x) { return ir_mul(g, x, ir_unary(g, OP_SIGMOID, x)); }

/* Hendrycks and Gimpel, "Gaussian Error Linear Units (GELUs)", 2016: its approximation by tanh, whose (1 + tanh u) / 2 is
 * sigmoid(2 u). */
int model_gelu_tanh(Graph *g, int x) {
  double slope = 2 * sqrt(2 / M_PI);
  int bend = ir_scale(g, ir_mul(g, x, x), 0.044715 * slope);
  return ir_mul(g, x, ir_unary(g, OP_SIGMOID, ir_mul(g, x, ir_add(g, bend, ir_const(g, DT_F32, slope)))));
}

static int mean(Graph *g, int x) {
  const Shape *s = &graph_node(g, x)->shape;
  double n = (double)s->dim[s->rank - 1];
  return ir_scale(g, ir_reduce(g, OP_SUM, x, s->rank - 1), 1 / n);
}

/* Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019. */
int model_rmsnorm(Graph *g, int x, int weight, double eps) {
  int scale = ir_unary(g, OP_RSQRT, ir_add(g, mean(g, ir_mul(g, x, x)), ir_const(g, DT_F32, eps)));
  return ir_mul(g, ir_mul(g, x, scale), weight);
}

/* Ba, Kiros and Hinton, "Layer Normalization", 2016.  Where the mean moves, the sum of squares around it does not: its gradient
 * there is 0, and is not computed. */
int model_layernorm(Graph *g, int x, int weight, int bias, double eps) {
  int middle = mean(g, x), from_middle = ir_sub(g, x, ir_unary(g, OP_STOP, middle));
  int scale = ir_unary(g, OP_RSQRT, ir_add(g, mean(g, ir_mul(g, from_middle, from_middle)), ir_const(g, DT_F32, eps)));
  return ir_add(g, ir_mul(g, ir_mul(g, ir_sub(g, x, middle), scale), weight), bias);
}

static int input(Graph *g, const char *name, Shape shape) {
  graph_var(g, (Var){.name = name, .class = VAR_INPUT, .dtype = DT_I32, .shape = shape});
  return ir_load(g, name);
}

/* Where each position is in its segment. */
static int positions_of(Graph *g, const ModelBatch *b, int start) {
  Shape s = SHAPE(b->sequences, b->positions);
  if (b->cache.use == CACHE_EXTEND) return ir_reshape(g, input(g, "position", SHAPE(b->sequences)), s);
  return ir_sub(g, ir_iota(g, DT_I32, s, 1), start);
}

/* The first position of each position's segment: the sequence's own where it is one segment. */
static int segment_starts(Graph *g, const ModelBatch *b) {
  Shape s = SHAPE(b->sequences, b->positions);
  return b->segments ? input(g, "start", s) : ir_broadcast(g, ir_const(g, DT_I32, 0), s);
}

static bool drops(const ModelDropout *d) { return d->embedding > 0 || d->residual > 0; }

/* The embedding's, then two a block. */
int64_t model_drops(const ModelConfig *config) { return 1 + 2 * config->layers; }

const char *model_drop_name(int64_t place, char out[MODEL_DROP_NAME]) {
  int64_t block = (place - 1) / 2;
  if (place)
    snprintf(out, MODEL_DROP_NAME, "layers.%lld.%s", (long long)block, place % 2 ? "attention" : "mlp");
  else
    snprintf(out, MODEL_DROP_NAME, "embedding");
  return out;
}

static void declare_drops(ModelBuild *m) {
  if (!drops(&m->batch->dropout)) return;
  Var keys = {.name = "dropout_keys", .class = VAR_STEP, .dtype = DT_I64, .shape = SHAPE(model_drops(m->config))};
  graph_var(m->g, keys);
  graph_var(m->g, (Var){.name = "first_sequence", .class = VAR_STEP, .dtype = DT_I64, .shape = shape_scalar()});
}

int64_t model_whole(const ModelBatch *batch) { return batch->whole ? batch->whole : batch->positions; }

/* The rows of x (T,C) by their places in the step's whole batch: those of a sequence that is cut short are where they would be if
 * it were not. */
static int rows_in_step(ModelBuild *m, int64_t columns) {
  Graph *g = m->g;
  const ModelBatch *b = m->batch;
  Shape s = SHAPE(b->sequences * b->positions, columns);
  int first = ir_mul(g, ir_load(g, "first_sequence"), ir_const(g, DT_I64, (double)model_whole(b)));
  if (model_whole(b) == b->positions) return ir_add(g, ir_iota(g, DT_I64, s, 0), first);
  Shape cut = SHAPE(b->sequences, b->positions, columns);
  int sequence = ir_mul(g, ir_iota(g, DT_I64, cut, 0), ir_const(g, DT_I64, (double)b->whole));
  return ir_reshape(g, ir_add(g, ir_add(g, sequence, ir_iota(g, DT_I64, cut, 1)), first), s);
}

/* Rows and columns are indices of the kernel, so that the draw is made again where it is wanted, and no mask is ever stored. */
int model_drop(ModelBuild *m, int x, double share) {
  Graph *g = m->g;
  Shape s = graph_node(g, x)->shape;
  int64_t place = m->drops++;
  if (share == 0) return x;
  int key = ir_reshape(g, ir_slice(g, ir_load(g, "dropout_keys"), 0, place, place + 1), shape_scalar());
  int row = ir_mul(g, rows_in_step(m, s.dim[1]), ir_const(g, DT_I64, (double)s.dim[1]));
  int draw = ir_binary(g, OP_RANDOM, key, ir_add(g, row, ir_iota(g, DT_I64, s, 1)));
  int kept = ir_binary(g, OP_LE, ir_const(g, DT_I32, floor(share * 0x1p32) - 0x1p31), draw);
  return ir_select(g, kept, ir_scale(g, x, 1 / (1 - share)), ir_const(g, DT_F32, 0));
}

static const ModelFamily *family_of(const ModelConfig *config) {
  const char *family = config->family ? config->family : families[0].name;
  size_t i = 0;
  while (i < sizeof families / sizeof *families && strcmp(families[i].name, family)) i++;
  CHECK(i < sizeof families / sizeof *families);
  return &families[i];
}

bool model_takes_segments(const ModelConfig *config) { return !family_of(config)->absolute; }

ModelNodes model_build(Graph *g, const ModelConfig *config, const ModelBatch *batch) {
  ModelBuild m = {.g = g, .config = config, .batch = batch};
  const ModelCache *cache = &batch->cache;
  int64_t B = batch->sequences, S = batch->positions, T = B * S;
  bool extends = cache->use == CACHE_EXTEND, learns = cache->use == CACHE_NONE;
  CHECK(learns || (!batch->segments && (extends ? B == cache->slots && S == 1 : B == 1 && S <= cache->length)));
  ModelNodes model = {.ids = input(g, extends ? "next" : "ids", SHAPE(T)),
                      .labels = learns ? input(g, "labels", SHAPE(T)) : -1,
                      .start = segment_starts(g, batch),
                      .order = learns ? input(g, "order", SHAPE(T)) : -1,
                      .slot = cache->use == CACHE_FILL ? input(g, "slot", shape_scalar()) : -1,
                      .balance = -1,
                      .router_z = -1};
  model.position = positions_of(g, batch, model.start);
  m.padding = learns && config->experts
                  ? ir_binary(g, OP_EQ, ir_reshape(g, model.labels, SHAPE(T, 1)), ir_const(g, DT_I32, MODEL_PADDING))
                  : -1;
  m.family = family_of(config);
  declare_drops(&m);
  m.family->forward(&m, &model);
  model_router_losses(&m, &model);
  CHECK(m.drops == model_drops(config));
  model.params = m.params.at;
  model.n_params = m.params.n;
  return model;
}

int model_logits(Graph *g, const ModelNodes *model) { return model_linear(g, model->hidden, model->head, -1); }

/* Libraries are several times slower at matrices of 16-bit numbers whose rows do not begin at multiples of 16 bytes, as rows of
 * 50,257 logits would: the head gets rows of zeros up to a multiple of so many. */
enum { LOGITS_GRAIN = 8 };
#define NO_LOGIT -1e38

static int padded_head(Graph *g, int head) {
  Shape s = graph_node(g, head)->shape;
  s.dim[0] = (LOGITS_GRAIN - s.dim[0] % LOGITS_GRAIN) % LOGITS_GRAIN;
  if (!s.dim[0]) return head;
  int outer = graph_enter(g, "head", SCOPE_PLAIN), zeros = ir_broadcast(g, ir_const(g, DT_F32, 0), s);
  int padded = ir_concat(g, (int[]){head, zeros}, 2, 0);
  g->scope = outer;
  return padded;
}

/* (rows,V) logits, and columns behind them that no token has: so far below all others that exp makes 0 of them.  They are the
 * product's bias, so that nothing asks each logit where it is. */
static int padded_logits(Graph *g, int hidden, int head, int64_t vocab) {
  int64_t rest = graph_node(g, head)->shape.dim[0] - vocab;
  if (!rest) return model_linear(g, hidden, head, -1);
  int parts[] = {ir_broadcast(g, ir_const(g, DT_F32, 0), SHAPE(vocab)),
                 ir_broadcast(g, ir_const(g, DT_F32, NO_LOGIT), SHAPE(rest))};
  return model_linear(g, hidden, head, ir_concat(g, parts, 2, 0));
}

/* Softmax cross-entropy of rows lo to hi (hi - lo, 1), 0 where nothing is counted.  The maximum only keeps exp in range, so no
 * gradient goes through it. */
static int chunk_nll(Graph *g, const ModelNodes *model, int head, int64_t lo, int64_t hi, int *counted, int *lse) {
  int64_t vocab = graph_node(g, model->head)->shape.dim[0];
  int logits = padded_logits(g, ir_slice(g, model->hidden, 0, lo, hi), head, vocab);
  Shape s = graph_node(g, logits)->shape, rows = SHAPE(hi - lo, 1);
  int label = ir_reshape(g, ir_slice(g, model->labels, 0, lo, hi), rows);
  *counted = ir_binary(g, OP_LE, ir_const(g, DT_I32, 0), label);
  int top = ir_unary(g, OP_STOP, ir_reduce(g, OP_MAXIMUM, logits, 1));
  *lse = ir_add(g, top, ir_unary(g, OP_LOG, ir_reduce(g, OP_SUM, ir_unary(g, OP_EXP, ir_sub(g, logits, top)), 1)));
  int is_label = ir_binary(g, OP_EQ, ir_iota(g, DT_I32, s, 1), label);
  int picked = ir_reduce(g, OP_SUM, ir_select(g, is_label, logits, ir_const(g, DT_F32, 0)), 1);
  return ir_select(g, *counted, ir_sub(g, *lse, picked), ir_const(g, DT_F32, 0));
}

static void loss_chunk(Graph *g, const ModelNodes *model, int head, int64_t lo, int64_t hi, int *loss, int *count, int *z) {
  int counted, lse, nll = chunk_nll(g, model, head, lo, hi, &counted, &lse);
  *loss = ir_sum_all(g, nll);
  if (z) *z = ir_sum_all(g, ir_select(g, counted, ir_mul(g, lse, lse), ir_const(g, DT_F32, 0)));
  *count = ir_sum_all(g, ir_cast(g, DT_F32, counted));
}

int model_nll(Graph *g, const ModelNodes *model, const ModelBatch *batch) {
  int64_t T = batch->sequences * batch->positions, step = batch->head_rows ? batch->head_rows : T;
  int *parts = arena_array(g->arena, int, (T + step - 1) / step), n = 0, head = padded_head(g, model->head), counted, lse;
  for (int64_t lo = 0; lo < T; lo += step)
    parts[n++] = chunk_nll(g, model, head, lo, lo + step < T ? lo + step : T, &counted, &lse);
  return ir_reshape(g, ir_concat(g, parts, n, 0), SHAPE(T));
}

static int sum(Graph *g, int before, int x) { return before < 0 ? x : ir_add(g, before, x); }

void model_loss(Graph *g, const ModelNodes *model, const ModelBatch *batch, int *loss_sum, int *count, int *z_sum) {
  int64_t T = batch->sequences * batch->positions, step = batch->head_rows ? batch->head_rows : T;
  *loss_sum = *count = -1;
  if (z_sum) *z_sum = -1;
  int head = padded_head(g, model->head);
  for (int64_t lo = 0; lo < T; lo += step) {
    int outer = graph_enter(g, arena_printf(g->arena, "head.%lld", (long long)(lo / step)), SCOPE_CHUNK), loss, counted, z;
    loss_chunk(g, model, head, lo, lo + step < T ? lo + step : T, &loss, &counted, z_sum ? &z : NULL);
    g->scope = outer;
    *loss_sum = sum(g, *loss_sum, loss);
    *count = sum(g, *count, counted);
    if (z_sum) *z_sum = sum(g, *z_sum, z);
  }
}
