/* SPDX-License-Identifier: Apache-2.0 */
/* Llama 1 to 3 and what differs from it in single things.  Touvron et al., "Llama 2: Open Foundation and Fine-Tuned Chat Models",
 * 2023; Grattafiori et al., "The Llama 3 Herd of Models", 2024; Jiang et al., "Mistral 7B", 2023 (a window); "Qwen2 Technical
 * Report", 2024 (biases of q, k and v); "Qwen3 Technical Report", 2025 (norms of each head's q and k); Mixtral
 * (src/model/experts.c).  Names and layouts are those of the published checkpoints.  q, k, v and gate, up are declared side by
 * side, so that each group is one matrix product. */
#include "src/model/build.h"

typedef struct Layer {
  ModelBuild *m;
  const char *unit;
  int64_t layer;
} Layer;

static int layer_param(const Layer *l, const char *rest, Shape shape, InitKind init) {
  const char *name = arena_printf(l->m->g->arena, "model.layers.%lld.%s", (long long)l->layer, rest);
  return model_param(l->m, l->unit, name, shape, init);
}

static int layer_norm(const Layer *l, const char *rest, int x) {
  const Shape *s = &graph_node(l->m->g, x)->shape;
  return model_rmsnorm(l->m->g, x, layer_param(l, rest, SHAPE(s->dim[s->rank - 1]), INIT_ONE), l->m->config->norm_eps);
}

/* One product of several matrices of (rows, K), and biases (-1: without). */
typedef struct Rows {
  const char *weight, *bias;
  int64_t rows;
} Rows;

static int product(const Layer *l, int x, const Rows *parts, int n, bool biased) {
  Graph *g = l->m->g;
  int weights[3], biases[3];
  CHECK(n <= 3);
  for (int i = 0; i < n; i++)
    weights[i] = layer_param(l, parts[i].weight, SHAPE(parts[i].rows, graph_node(g, x)->shape.dim[1]), INIT_NORMAL);
  for (int i = 0; i < n && biased; i++) biases[i] = layer_param(l, parts[i].bias, SHAPE(parts[i].rows), INIT_ZERO);
  return model_linear(g, x, ir_concat(g, weights, n, 0), biased ? ir_concat(g, biases, n, 0) : -1);
}

static int attention(const Layer *l, const ModelNodes *model, int x, int cosines, int sines) {
  const ModelConfig *c = l->m->config;
  const ModelFamily *family = l->m->family;
  Graph *g = l->m->g;
  int64_t B = l->m->batch->sequences, S = l->m->batch->positions, H = c->heads, G = c->kv_heads, D = c->head_dim;
  const Rows parts[] = {{"self_attn.q_proj.weight", "self_attn.q_proj.bias", H * D},
                        {"self_attn.k_proj.weight", "self_attn.k_proj.bias", G * D},
                        {"self_attn.v_proj.weight", "self_attn.v_proj.bias", G * D}};
  const Rows out = {"self_attn.o_proj.weight", "self_attn.o_proj.bias", c->hidden};
  int qkv = ir_reshape(g, product(l, x, parts, 3, family->qkv_bias || c->attention_bias), SHAPE(B, S, H + 2 * G, D));
  int qk = ir_slice(g, qkv, 2, 0, H + G), v = ir_slice(g, qkv, 2, H + G, H + 2 * G);
  if (family->qk_norm) {
    int both[] = {layer_norm(l, "self_attn.q_norm.weight", ir_slice(g, qk, 2, 0, H)),
                  layer_norm(l, "self_attn.k_norm.weight", ir_slice(g, qk, 2, H, H + G))};
    qk = ir_concat(g, both, 2, 2);
  }
  qk = model_rope(g, qk, cosines, sines);
  int q = ir_slice(g, qk, 2, 0, H), k = ir_slice(g, qk, 2, H, H + G);
  int o = model_attention(l->m, model, q, k, v, l->layer >= c->window_from ? c->window : 0);
  return product(l, ir_reshape(g, o, SHAPE(B * S, H * D)), &out, 1, c->attention_bias);
}

static int mlp(const Layer *l, int x) {
  Graph *g = l->m->g;
  if (l->m->config->experts)
    return model_experts(l->m, l->unit, arena_printf(g->arena, "model.layers.%lld.block_sparse_moe", (long long)l->layer), x);
  int64_t F = l->m->config->intermediate;
  bool biased = l->m->config->mlp_bias;
  const Rows parts[] = {{"mlp.gate_proj.weight", "mlp.gate_proj.bias", F}, {"mlp.up_proj.weight", "mlp.up_proj.bias", F}};
  const Rows down = {"mlp.down_proj.weight", "mlp.down_proj.bias", l->m->config->hidden};
  int gate_up = product(l, x, parts, 2, biased);
  int gate = ir_slice(g, gate_up, 1, 0, F), up = ir_slice(g, gate_up, 1, F, 2 * F);
  return product(l, ir_mul(g, model_silu(g, gate), up), &down, 1, biased);
}

void model_llama(ModelBuild *m, ModelNodes *model) {
  const ModelConfig *c = m->config;
  Graph *g = m->g;
  Shape norm = SHAPE(c->hidden), table = SHAPE(c->vocab, c->hidden);
  int embed = model_param(m, "embed", "model.embed_tokens.weight", table, INIT_NORMAL);
  int x = model_drop(m, model_rows(g, embed, model->ids), m->batch->dropout.embedding);
  int cosines, sines;
  model_rope_tables(m, model, &cosines, &sines);
  for (int64_t layer = 0; layer < c->layers; layer++) {
    Layer l = {m, arena_printf(g->arena, "layers.%lld", (long long)layer), layer};
    int outer = graph_enter(g, l.unit, SCOPE_BLOCK);
    x = model_residual(m, x, attention(&l, model, layer_norm(&l, "input_layernorm.weight", x), cosines, sines));
    x = model_residual(m, x, mlp(&l, layer_norm(&l, "post_attention_layernorm.weight", x)));
    g->scope = outer;
  }
  int out_norm = model_param(m, "head", "model.norm.weight", norm, INIT_ONE);
  model->head = c->tied ? embed : model_param(m, "head", "lm_head.weight", table, INIT_NORMAL);
  model->hidden = model_rmsnorm(g, x, out_norm, c->norm_eps);
}
