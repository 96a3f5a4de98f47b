/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary positions.  Su et al., "RoFormer", 2021; stretched linearly: Chen et al., "Extending Context Window of Large Language
 * Models via Positional Interpolation", 2023; dynamic, by a larger base, and yarn: Peng et al., "YaRN: Efficient Context Window
 * Extension of Large Language Models", 2023; by wavelength: Llama 3.1.  Settings mean what they mean to transformers 5: yarn's
 * factor counts as given, where releases 4.5x put the longest over the original length in its place, which for Qwen2.5's recipe (4,
 * with 32768 both) is 1. */
#include <math.h>

#include "src/model/build.h"

/* The pair whose angle goes round `turns` times in the original length, as a real number. */
static double pair_of_turns(const ModelConfig *c, double turns) {
  return (double)c->head_dim * log((double)c->rope.original_positions / (turns * 2 * M_PI)) / (2 * log(c->rope.theta));
}

/* How much of pair i is stretched: 0 where it turns fast, 1 where it turns slowly. */
static double yarn_ramp(const ModelConfig *c, int64_t i) {
  double low = pair_of_turns(c, c->rope.beta_fast), high = pair_of_turns(c, c->rope.beta_slow);
  if (c->rope.truncate) low = floor(low), high = ceil(high);
  low = fmax(low, 0);
  high = fmin(high, (double)c->head_dim - 1);
  if (low == high) high += 0.001;
  return fmin(fmax(((double)i - low) / (high - low), 0), 1);
}

/* The same by wavelength: those above original/low in full, those below original/high not at all. */
static double wavelength_ramp(const ModelConfig *c, double frequency) {
  double turns = (double)c->rope.original_positions * frequency / (2 * M_PI);
  double kept = (turns - c->rope.low_freq_factor) / (c->rope.high_freq_factor - c->rope.low_freq_factor);
  return 1 - fmin(fmax(kept, 0), 1);
}

/* The base that spreads `positions` over the angles of the trained length. */
static double dynamic_base(const ModelConfig *c, int64_t positions) {
  double times = (double)(positions > c->max_positions ? positions : c->max_positions) / (double)c->max_positions;
  double D = (double)c->head_dim;
  return c->rope.theta * pow(c->rope.factor * times - (c->rope.factor - 1), D / (D - 2));
}

void model_rope_frequencies(const ModelConfig *c, int64_t positions, double *frequency) {
  double base = c->rope.kind == MODEL_ROPE_DYNAMIC ? dynamic_base(c, positions) : c->rope.theta;
  for (int64_t i = 0; i < c->head_dim / 2; i++) {
    double f = pow(base, -2.0 * (double)i / (double)c->head_dim);
    double stretched = c->rope.kind == MODEL_ROPE_LINEAR       ? 1
                       : c->rope.kind == MODEL_ROPE_WAVELENGTH ? wavelength_ramp(c, f)
                       : c->rope.kind == MODEL_ROPE_YARN       ? yarn_ramp(c, i)
                                                               : 0;
    frequency[i] = (float)(stretched ? stretched * f / c->rope.factor + (1 - stretched) * f : f);
  }
}

bool model_has_lengths(const ModelConfig *c, const ModelBatch *b) {
  return c->rope.kind == MODEL_ROPE_DYNAMIC && (b->lengths || b->cache.use != CACHE_NONE);
}

/* Of each sequence, or of all. */
static int frequencies(ModelBuild *m) {
  Graph *g = m->g;
  int64_t B = m->batch->sequences, half = m->config->head_dim / 2;
  const char *name = m->batch->cache.use == CACHE_EXTEND ? "next_turns" : "turns";
  if (model_has_lengths(m->config, m->batch)) {
    graph_var(g, (Var){.name = name, .class = VAR_INPUT, .dtype = DT_F32, .shape = SHAPE(B, half)});
    return ir_reshape(g, ir_load(g, name), SHAPE(B, 1, 1, half));
  }
  double *frequency = arena_array(g->arena, double, half);
  model_rope_frequencies(m->config, model_whole(m->batch), frequency);
  return ir_table(g, frequency, half);
}

/* A position counts from the start of its segment. */
void model_rope_tables(ModelBuild *m, const ModelNodes *model, int *cosines, int *sines) {
  Graph *g = m->g;
  int64_t B = m->batch->sequences, S = m->batch->positions;
  int angle = ir_mul(g, ir_reshape(g, ir_cast(g, DT_F32, model->position), SHAPE(B, S, 1, 1)), frequencies(m));
  *cosines = ir_unary(g, OP_COS, angle);
  *sines = ir_unary(g, OP_SIN, angle);
  if (m->config->rope.kind != MODEL_ROPE_YARN || m->config->rope.attention_factor == 1) return;
  *cosines = ir_scale(g, *cosines, m->config->rope.attention_factor);
  *sines = ir_scale(g, *sines, m->config->rope.attention_factor);
}

int model_rope(Graph *g, int x, int cosines, int sines) {
  int64_t D = graph_node(g, x)->shape.dim[3];
  int a = ir_slice(g, x, 3, 0, D / 2), b = ir_slice(g, x, 3, D / 2, D);
  int halves[] = {ir_sub(g, ir_mul(g, a, cosines), ir_mul(g, b, sines)), ir_add(g, ir_mul(g, b, cosines), ir_mul(g, a, sines))};
  return ir_concat(g, halves, 2, 3);
}
