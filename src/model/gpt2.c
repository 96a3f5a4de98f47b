/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-2.  Radford et al., "Language Models are Unsupervised Multitask Learners", 2019.  Names and layouts are those of the
 * published checkpoints: products have their weight as (in,out), q, k and v are one. */
#include <math.h>

#include "src/model/build.h"

typedef struct Layer {
  ModelBuild *m;
  const char *unit, *name; /* name: before those of its parameters */
} Layer;

static int layer_param(const Layer *l, const char *rest, Shape shape, InitKind init) {
  return model_param(l->m, l->unit, arena_printf(l->m->g->arena, "%s.%s", l->name, rest), shape, init);
}

static int layer_norm(const Layer *l, const char *which, int x) {
  Shape s = SHAPE(l->m->config->hidden);
  int weight = layer_param(l, arena_printf(l->m->g->arena, "%s.weight", which), s, INIT_ONE);
  int bias = layer_param(l, arena_printf(l->m->g->arena, "%s.bias", which), s, INIT_ZERO);
  return model_layernorm(l->m->g, x, weight, bias, l->m->config->norm_eps);
}

/* to_residual: such products start smaller, the more of them add up. */
static int product(const Layer *l, const char *which, int x, int64_t in, int64_t out, bool to_residual) {
  const ModelConfig *c = l->m->config;
  const char *name = arena_printf(l->m->g->arena, "%s.%s.weight", l->name, which);
  double std = to_residual ? c->init_std / sqrt(2 * (double)c->layers) : c->init_std;
  int weight = model_param_std(l->m, l->unit, name, SHAPE(in, out), std);
  return model_conv1d(l->m->g, x, weight, layer_param(l, arena_printf(l->m->g->arena, "%s.bias", which), SHAPE(out), INIT_ZERO));
}

static int attention(const Layer *l, const ModelNodes *model, int x) {
  const ModelConfig *c = l->m->config;
  Graph *g = l->m->g;
  int64_t B = l->m->batch->sequences, S = l->m->batch->positions, C = c->hidden, H = c->heads, D = c->head_dim;
  int qkv = ir_reshape(g, product(l, "attn.c_attn", x, C, 3 * C, false), SHAPE(B, S, 3 * H, D));
  int q = ir_slice(g, qkv, 2, 0, H), k = ir_slice(g, qkv, 2, H, 2 * H), v = ir_slice(g, qkv, 2, 2 * H, 3 * H);
  int o = model_attention(l->m, model, q, k, v, 0);
  return product(l, "attn.c_proj", ir_reshape(g, o, SHAPE(B * S, C)), C, C, true);
}

static int mlp(const Layer *l, int x) {
  int64_t C = l->m->config->hidden, F = l->m->config->intermediate;
  int up = product(l, "mlp.c_fc", x, C, F, false);
  return product(l, "mlp.c_proj", model_gelu_tanh(l->m->g, up), F, C, true);
}

/* Every sequence is one segment: row s of the table is for position s. */
static int add_positions(ModelBuild *m, int x, int table, const ModelNodes *model) {
  Graph *g = m->g;
  int64_t B = m->batch->sequences, S = m->batch->positions, C = m->config->hidden;
  CHECK(!m->batch->segments);
  if (m->batch->cache.use == CACHE_EXTEND) return ir_add(g, x, model_rows(g, table, ir_reshape(g, model->position, SHAPE(B * S))));
  int rows = ir_reshape(g, ir_slice(g, table, 0, 0, S), SHAPE(1, S, C));
  return ir_reshape(g, ir_add(g, ir_reshape(g, x, SHAPE(B, S, C)), rows), SHAPE(B * S, C));
}

void model_gpt2(ModelBuild *m, ModelNodes *model) {
  const ModelConfig *c = m->config;
  Graph *g = m->g;
  int table = model_param(m, "embed", "transformer.wte.weight", SHAPE(c->vocab, c->hidden), INIT_NORMAL);
  int positions = model_param(m, "positions", "transformer.wpe.weight", SHAPE(c->max_positions, c->hidden), INIT_NORMAL);
  int x = add_positions(m, model_rows(g, table, model->ids), positions, model);
  x = ir_unary(g, OP_KEEP, model_drop(m, x, m->batch->dropout.embedding));
  for (int64_t layer = 0; layer < c->layers; layer++) {
    const char *unit = arena_printf(g->arena, "layers.%lld", (long long)layer);
    Layer l = {m, unit, arena_printf(g->arena, "transformer.h.%lld", (long long)layer)};
    int outer = graph_enter(g, unit, SCOPE_BLOCK);
    x = model_residual(m, x, attention(&l, model, layer_norm(&l, "ln_1", x)));
    x = model_residual(m, x, mlp(&l, layer_norm(&l, "ln_2", x)));
    g->scope = outer;
  }
  Layer top = {m, "head", "transformer"};
  model->hidden = layer_norm(&top, "ln_f", x);
  model->head = c->tied ? table : model_param(m, "head", "lm_head.weight", SHAPE(c->vocab, c->hidden), INIT_NORMAL);
}
