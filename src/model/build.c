/* SPDX-License-Identifier: Apache-2.0 */
/* The table of families and presets, the pieces that models share, and the loss. */
#include "src/model/build.h"

#include <math.h>
#include <string.h>

static const struct {
  const char *name;
  ModelForward *forward;
} families[] = {{"llama", model_llama}};

int model_param(ModelBuild *m, const char *unit, const char *name, Shape shape, InitKind init) {
  graph_var(m->g, (Var){.name = name,
                        .class = VAR_PARAM,
                        .dtype = DT_F32,
                        .shape = shape,
                        .unit = unit,
                        .init = init,
                        .std = init == INIT_NORMAL ? m->config->init_std : 0});
  int load = ir_load(m->g, name);
  vec_push(m->g->arena, &m->params, load);
  return load;
}

int model_linear(Graph *g, int x, int weight) { return ir_matmul(g, x, false, weight, true); }

int model_residual(Graph *g, int x, int y) { return ir_unary(g, OP_KEEP, ir_add(g, x, y)); }

/* Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019. */
int model_rmsnorm(Graph *g, int x, int weight, double eps) {
  int64_t C = graph_node(g, x)->shape.dim[1];
  int mean_square = ir_scale(g, ir_reduce(g, OP_SUM, ir_mul(g, x, x), 1), 1 / (double)C);
  int scale = ir_unary(g, OP_RSQRT, ir_add(g, mean_square, ir_const(g, DT_F32, eps)));
  return ir_mul(g, ir_mul(g, x, scale), weight);
}

/* Frequencies as transformers computes them (modeling_rope_utils.py): the llama3 kind divides those of wavelengths above
 * original/low by factor, keeps those below original/high, and blends between. */
static double rope_frequency(const ModelConfig *c, int64_t i) {
  double frequency = pow(c->rope.theta, -2.0 * (double)i / (double)c->head_dim);
  if (c->rope.kind == MODEL_ROPE_DEFAULT) return frequency;
  double original = (double)c->rope.original_positions, wavelength = 2 * M_PI / frequency;
  double smooth = (original / wavelength - c->rope.low_freq_factor) / (c->rope.high_freq_factor - c->rope.low_freq_factor);
  smooth = smooth < 0 ? 0 : smooth > 1 ? 1 : smooth;
  return (1 - smooth) * frequency / c->rope.factor + smooth * frequency;
}

/* Su et al., "RoFormer", 2021.  A position counts from the start of its segment. */
void model_rope_tables(ModelBuild *m, int start, int *cosines, int *sines) {
  Graph *g = m->g;
  int64_t B = m->batch->sequences, S = m->batch->positions, half = m->config->head_dim / 2;
  double *frequency = arena_array(g->arena, double, half);
  for (int64_t i = 0; i < half; i++) frequency[i] = (float)rope_frequency(m->config, i);
  int position = ir_sub(g, ir_iota(g, DT_I32, SHAPE(B, S), 1), start);
  int angle = ir_mul(g, ir_reshape(g, ir_cast(g, DT_F32, position), SHAPE(B, S, 1, 1)), ir_table(g, frequency, half));
  *cosines = ir_unary(g, OP_COS, angle);
  *sines = ir_unary(g, OP_SIN, angle);
}

int model_rope(Graph *g, int x, int cosines, int sines) {
  int64_t D = graph_node(g, x)->shape.dim[3];
  int a = ir_slice(g, x, 3, 0, D / 2), b = ir_slice(g, x, 3, D / 2, D);
  int halves[] = {ir_sub(g, ir_mul(g, a, cosines), ir_mul(g, b, sines)), ir_add(g, ir_mul(g, b, cosines), ir_mul(g, a, sines))};
  return ir_concat(g, halves, 2, 3);
}

static int input(Graph *g, const char *name, Shape shape) {
  graph_var(g, (Var){.name = name, .class = VAR_INPUT, .dtype = DT_I32, .shape = shape});
  return ir_load(g, name);
}

/* The first position of each position's segment: the sequence's own where it is one segment. */
static int segment_starts(Graph *g, const ModelBatch *b) {
  Shape s = SHAPE(b->sequences, b->positions);
  return b->segments ? input(g, "start", s) : ir_broadcast(g, ir_const(g, DT_I32, 0), s);
}

ModelNodes model_build(Graph *g, const ModelConfig *config, const ModelBatch *batch) {
  ModelBuild m = {.g = g, .config = config, .batch = batch};
  int64_t B = batch->sequences, S = batch->positions, T = B * S;
  ModelNodes model = {.ids = input(g, "ids", SHAPE(T)),
                      .labels = input(g, "labels", SHAPE(T)),
                      .start = segment_starts(g, batch),
                      .order = input(g, "order", SHAPE(T))};
  const char *family = config->family ? config->family : families[0].name;
  size_t i = 0;
  while (i < sizeof families / sizeof *families && strcmp(families[i].name, family)) i++;
  CHECK(i < sizeof families / sizeof *families);
  families[i].forward(&m, &model);
  model.params = m.params.at;
  model.n_params = m.params.n;
  return model;
}

int model_logits(Graph *g, const ModelNodes *model) { return model_linear(g, model->hidden, model->head); }

/* Softmax cross-entropy of rows lo to hi, summed.  The maximum only keeps exp in range, so no gradient goes through it. */
static void loss_chunk(Graph *g, const ModelNodes *model, int64_t lo, int64_t hi, int *loss, int *count) {
  int logits = model_linear(g, ir_slice(g, model->hidden, 0, lo, hi), model->head);
  Shape s = graph_node(g, logits)->shape, rows = SHAPE(hi - lo, 1);
  int label = ir_reshape(g, ir_slice(g, model->labels, 0, lo, hi), rows);
  int counted = ir_binary(g, OP_LE, ir_const(g, DT_I32, 0), label);
  int top = ir_unary(g, OP_STOP, ir_reduce(g, OP_MAXIMUM, logits, 1));
  int lse = ir_add(g, top, ir_unary(g, OP_LOG, ir_reduce(g, OP_SUM, ir_unary(g, OP_EXP, ir_sub(g, logits, top)), 1)));
  int is_label = ir_binary(g, OP_EQ, ir_iota(g, DT_I32, s, 1), label);
  int picked = ir_reduce(g, OP_SUM, ir_select(g, is_label, logits, ir_const(g, DT_F32, 0)), 1);
  int nll = ir_select(g, counted, ir_sub(g, lse, picked), ir_const(g, DT_F32, 0));
  *loss = ir_sum_all(g, nll);
  *count = ir_sum_all(g, ir_cast(g, DT_F32, counted));
}

void model_loss(Graph *g, const ModelNodes *model, const ModelBatch *batch, int *loss_sum, int *count) {
  int64_t T = batch->sequences * batch->positions, step = batch->head_rows ? batch->head_rows : T;
  *loss_sum = *count = -1;
  for (int64_t lo = 0; lo < T; lo += step) {
    int outer = graph_enter(g, arena_printf(g->arena, "head.%lld", (long long)(lo / step)), SCOPE_CHUNK), loss, counted;
    loss_chunk(g, model, lo, lo + step < T ? lo + step : T, &loss, &counted);
    g->scope = outer;
    *loss_sum = *loss_sum < 0 ? loss : ir_add(g, *loss_sum, loss);
    *count = *count < 0 ? counted : ir_add(g, *count, counted);
  }
}
