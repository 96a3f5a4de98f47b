/* SPDX-License-Identifier: Apache-2.0 */
/* Llama 2 and 3.  Touvron et al., "Llama 2: Open Foundation and Fine-Tuned Chat Models", 2023; Grattafiori et al., "The
 * Llama 3 Herd of Models", 2024.  Names and layouts are those of the published checkpoints.  q, k, v and gate, up are
 * declared side by side, so that each group is one matrix product. */
#include <math.h>

#include "src/model/build.h"

static const char *layer_name(ModelBuild *m, int64_t layer, const char *rest) {
  return arena_printf(m->g->arena, "model.layers.%lld.%s.weight", (long long)layer, rest);
}

static int layer_param(ModelBuild *m, const char *unit, int64_t layer, const char *rest, Shape shape, InitKind init) {
  return model_param(m, unit, layer_name(m, layer, rest), shape, init);
}

static int attention(ModelBuild *m, const ModelNodes *model, const char *unit, int64_t layer, int x, int cosines, int sines) {
  const ModelConfig *c = m->config;
  Graph *g = m->g;
  int64_t B = m->batch->sequences, S = m->batch->positions, C = c->hidden, H = c->heads, G = c->kv_heads, D = c->head_dim;
  int qkv_weight[] = {
      layer_param(m, unit, layer, "self_attn.q_proj", SHAPE(H * D, C), INIT_NORMAL),
      layer_param(m, unit, layer, "self_attn.k_proj", SHAPE(G * D, C), INIT_NORMAL),
      layer_param(m, unit, layer, "self_attn.v_proj", SHAPE(G * D, C), INIT_NORMAL),
  };
  int o_weight = layer_param(m, unit, layer, "self_attn.o_proj", SHAPE(C, H * D), INIT_NORMAL);
  int qkv = ir_reshape(g, model_linear(g, x, ir_concat(g, qkv_weight, 3, 0)), SHAPE(B, S, H + 2 * G, D));
  int qk = model_rope(g, ir_slice(g, qkv, 2, 0, H + G), cosines, sines);
  int q = ir_slice(g, qk, 2, 0, H), k = ir_slice(g, qk, 2, H, H + G), v = ir_slice(g, qkv, 2, H + G, H + 2 * G);
  int o = ir_attention(g, q, k, v, model->start, 1 / sqrt((double)D), 0);
  return model_linear(g, ir_reshape(g, o, SHAPE(B * S, H * D)), o_weight);
}

static int mlp(ModelBuild *m, const char *unit, int64_t layer, int x) {
  Graph *g = m->g;
  int64_t C = m->config->hidden, F = m->config->intermediate;
  int gate_up_weight[] = {
      layer_param(m, unit, layer, "mlp.gate_proj", SHAPE(F, C), INIT_NORMAL),
      layer_param(m, unit, layer, "mlp.up_proj", SHAPE(F, C), INIT_NORMAL),
  };
  int down_weight = layer_param(m, unit, layer, "mlp.down_proj", SHAPE(C, F), INIT_NORMAL);
  int gate_up = model_linear(g, x, ir_concat(g, gate_up_weight, 2, 0));
  int gate = ir_slice(g, gate_up, 1, 0, F), up = ir_slice(g, gate_up, 1, F, 2 * F);
  int silu = ir_mul(g, gate, ir_unary(g, OP_SIGMOID, gate));
  return model_linear(g, ir_mul(g, silu, up), down_weight);
}

void model_llama(ModelBuild *m, ModelNodes *model) {
  const ModelConfig *c = m->config;
  Graph *g = m->g;
  Shape norm = SHAPE(c->hidden), table = SHAPE(c->vocab, c->hidden);
  int embed = model_param(m, "embed", "model.embed_tokens.weight", table, INIT_NORMAL);
  int x = graph_push(g, (Node){.op = OP_EMBEDDING, .nin = 2, .in = (int[]){embed, model->ids}});
  int cosines, sines;
  model_rope_tables(m, model->start, &cosines, &sines);
  for (int64_t layer = 0; layer < c->layers; layer++) {
    const char *unit = arena_printf(g->arena, "layers.%lld", (long long)layer);
    int outer = graph_enter(g, unit, SCOPE_BLOCK);
    int attn_norm = layer_param(m, unit, layer, "input_layernorm", norm, INIT_ONE);
    x = model_residual(g, x, attention(m, model, unit, layer, model_rmsnorm(g, x, attn_norm, c->norm_eps), cosines, sines));
    int mlp_norm = layer_param(m, unit, layer, "post_attention_layernorm", norm, INIT_ONE);
    x = model_residual(g, x, mlp(m, unit, layer, model_rmsnorm(g, x, mlp_norm, c->norm_eps)));
    g->scope = outer;
  }
  int out_norm = model_param(m, "head", "model.norm.weight", norm, INIT_ONE);
  model->head = c->tied ? embed : model_param(m, "head", "lm_head.weight", table, INIT_NORMAL);
  model->hidden = model_rmsnorm(g, x, out_norm, c->norm_eps);
}
