/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes by name.  Numbers of published models are those of each one's config.json; llama-124m has GPT-2's smallest shape, its
 * vocabulary padded to a multiple of 128; llama-10m is for bytes. */
#include <string.h>

#include "src/model/model.h"

#define SHAPED(FAMILY, V, C, F, L, H, G, D, P, EPS)                                                                                \
  .family = FAMILY, .vocab = V, .hidden = C, .intermediate = F, .layers = L, .heads = H, .kv_heads = G, .head_dim = D,             \
  .max_positions = P, .norm_eps = EPS
#define LLAMA3_ROPE(FACTOR) .rope = {MODEL_ROPE_WAVELENGTH, 500000, FACTOR, 1, 4, 8192}

/* init_std: 0.02 where none is given. */
static const struct {
  const char *name;
  ModelConfig config;
} presets[] = {
    {"llama2-7b", {SHAPED("llama", 32000, 4096, 11008, 32, 32, 32, 128, 4096, 1e-5), .rope = {.theta = 10000}}},
    {"llama2-13b", {SHAPED("llama", 32000, 5120, 13824, 40, 40, 40, 128, 4096, 1e-5), .rope = {.theta = 10000}}},
    {"llama2-70b", {SHAPED("llama", 32000, 8192, 28672, 80, 64, 8, 128, 4096, 1e-5), .rope = {.theta = 10000}}},
    {"llama3-8b", {SHAPED("llama", 128256, 4096, 14336, 32, 32, 8, 128, 8192, 1e-5), .rope = {.theta = 500000}}},
    {"llama3.1-8b", {SHAPED("llama", 128256, 4096, 14336, 32, 32, 8, 128, 131072, 1e-5), LLAMA3_ROPE(8)}},
    {"llama3.1-70b", {SHAPED("llama", 128256, 8192, 28672, 80, 64, 8, 128, 131072, 1e-5), LLAMA3_ROPE(8)}},
    {"llama3.1-405b", {SHAPED("llama", 128256, 16384, 53248, 126, 128, 8, 128, 131072, 1e-5), LLAMA3_ROPE(8)}},
    {"llama3.2-1b", {SHAPED("llama", 128256, 2048, 8192, 16, 32, 8, 64, 131072, 1e-5), LLAMA3_ROPE(32), .tied = true}},
    {"mistral-7b", {SHAPED("mistral", 32000, 4096, 14336, 32, 32, 8, 128, 32768, 1e-5), .rope = {.theta = 10000}, .window = 4096}},
    {"mixtral-8x7b",
     {SHAPED("mixtral", 32000, 4096, 14336, 32, 32, 8, 128, 32768, 1e-5), .rope = {.theta = 1e6}, .experts = 8,
      .experts_per_token = 2, .router = {.aux_loss = 0.02}}},
    {"qwen2.5-0.5b", {SHAPED("qwen2", 151936, 896, 4864, 24, 14, 2, 64, 32768, 1e-6), .rope = {.theta = 1e6}, .tied = true}},
    {"qwen2.5-7b", {SHAPED("qwen2", 152064, 3584, 18944, 28, 28, 4, 128, 131072, 1e-6), .rope = {.theta = 1e6}}},
    {"qwen3-0.6b", {SHAPED("qwen3", 151936, 1024, 3072, 28, 16, 8, 128, 40960, 1e-6), .rope = {.theta = 1e6}, .tied = true}},
    {"qwen3-8b", {SHAPED("qwen3", 151936, 4096, 12288, 36, 32, 8, 128, 40960, 1e-6), .rope = {.theta = 1e6}}},
    {"smollm2-135m",
     {SHAPED("llama", 49152, 576, 1536, 30, 9, 3, 64, 8192, 1e-5), .rope = {.theta = 100000}, .tied = true, .init_std = 1. / 24}},
    {"smollm2-1.7b", {SHAPED("llama", 49152, 2048, 8192, 24, 32, 32, 64, 8192, 1e-5), .rope = {.theta = 130000}, .tied = true}},
    {"gpt2-124m", {SHAPED("gpt2", 50257, 768, 3072, 12, 12, 12, 64, 1024, 1e-5), .tied = true}},
    {"tinyllama-1.1b", {SHAPED("llama", 32000, 2048, 5632, 22, 32, 4, 64, 2048, 1e-5), .rope = {.theta = 10000}}},
    {"llama-124m", {SHAPED("llama", 50304, 768, 2048, 12, 12, 12, 64, 1024, 1e-5), .rope = {.theta = 10000}, .tied = true}},
    {"llama-10m", {SHAPED("llama", 256, 384, 1024, 6, 6, 6, 64, 1024, 1e-5), .rope = {.theta = 10000}}},
    {"llama-5m", {SHAPED("llama", 512, 256, 688, 6, 8, 8, 32, 1024, 1e-5), .rope = {.theta = 10000}}},
};
enum { PRESETS = sizeof presets / sizeof *presets };

const char *const *model_presets(void) {
  static const char *names[PRESETS + 1];
  for (int i = 0; i < PRESETS; i++) names[i] = presets[i].name;
  return names;
}

bool model_preset(const char *name, ModelConfig *config) {
  for (int i = 0; i < PRESETS; i++)
    if (!strcmp(presets[i].name, name)) {
      *config = presets[i].config;
      if (!config->init_std) config->init_std = 0.02;
      return true;
    }
  return false;
}

int64_t model_positions(const ModelConfig *c) {
  return c->rope.kind == MODEL_ROPE_DYNAMIC ? (int64_t)((double)c->max_positions * c->rope.factor) : c->max_positions;
}

/* Counted from the graph, so that it cannot differ from it: a parameter that is in a product is there as a whole, transposed,
 * beside others, or in parts; of experts' only those of a token's own are. */
int64_t model_parameters(const ModelConfig *config, int64_t *looked_up) {
  Arena *arena = arena_open();
  Graph *g = graph_open(arena);
  ModelNodes model = model_build(g, config, &(ModelBatch){.sequences = 1, .positions = 1});
  int64_t total = 0;
  *looked_up = 0;
  for (int i = 0; i < model.n_params; i++) total += shape_size(&graph_node(g, model.params[i])->shape);
  for (int i = 0; i < g->nodes.n; i++) {
    const Node *x = graph_node(g, i);
    bool rows = x->op == OP_EMBEDDING && x->in[0] != model.head, part = x->op == OP_SLICE && graph_node(g, x->in[0])->op == OP_LOAD;
    if (x->op == OP_GROUPED) {
      const Node *w = graph_node(g, x->in[1]);
      *looked_up += shape_size(&w->shape) / config->experts * (config->experts - config->experts_per_token);
    }
    if (rows || part) *looked_up += shape_size(&graph_node(g, x->in[0])->shape);
  }
  arena_close(arena);
  return total;
}
