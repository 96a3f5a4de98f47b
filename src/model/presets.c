/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes by name.  Numbers of published models are those of each one's config.json; llama-124m has GPT-2's smallest shape, its
 * vocabulary padded to a multiple of 128; llama-10m is for bytes. */
#include <string.h>

#include "src/model/model.h"

#define LLAMA(V, C, F, L, H, G, D, P, EPS)                                                                                         \
  .family = "llama", .vocab = V, .hidden = C, .intermediate = F, .layers = L, .heads = H, .kv_heads = G, .head_dim = D,            \
  .max_positions = P, .norm_eps = EPS, .init_std = 0.02
#define LLAMA3_ROPE .rope = {MODEL_ROPE_WAVELENGTH, 500000, 8, 1, 4, 8192}

static const char *const names[] = {"llama2-7b",     "llama2-13b",     "llama2-70b", "llama3-8b", "llama3.1-8b", "llama3.1-70b",
                                    "llama3.1-405b", "tinyllama-1.1b", "llama-124m", "llama-10m", "llama-5m",    NULL};
static const ModelConfig configs[] = {
    {LLAMA(32000, 4096, 11008, 32, 32, 32, 128, 4096, 1e-5), .rope = {.theta = 10000}},
    {LLAMA(32000, 5120, 13824, 40, 40, 40, 128, 4096, 1e-5), .rope = {.theta = 10000}},
    {LLAMA(32000, 8192, 28672, 80, 64, 8, 128, 4096, 1e-5), .rope = {.theta = 10000}},
    {LLAMA(128256, 4096, 14336, 32, 32, 8, 128, 8192, 1e-5), .rope = {.theta = 500000}},
    {LLAMA(128256, 4096, 14336, 32, 32, 8, 128, 131072, 1e-5), LLAMA3_ROPE},
    {LLAMA(128256, 8192, 28672, 80, 64, 8, 128, 131072, 1e-5), LLAMA3_ROPE},
    {LLAMA(128256, 16384, 53248, 126, 128, 8, 128, 131072, 1e-5), LLAMA3_ROPE},
    {LLAMA(32000, 2048, 5632, 22, 32, 4, 64, 2048, 1e-5), .rope = {.theta = 10000}},
    {LLAMA(50304, 768, 2048, 12, 12, 12, 64, 1024, 1e-5), .rope = {.theta = 10000}, .tied = true},
    {LLAMA(256, 384, 1024, 6, 6, 6, 64, 1024, 1e-5), .rope = {.theta = 10000}},
    {LLAMA(512, 256, 688, 6, 8, 8, 32, 1024, 1e-5), .rope = {.theta = 10000}},
};
_Static_assert(sizeof names / sizeof *names == sizeof configs / sizeof *configs + 1, "a name a config");

const char *const *model_presets(void) { return names; }

bool model_preset(const char *name, ModelConfig *config) {
  for (int i = 0; names[i]; i++)
    if (!strcmp(names[i], name)) {
      *config = configs[i];
      return true;
    }
  return false;
}

/* Counted from the graph, so that it cannot differ from it. */
int64_t model_parameters(const ModelConfig *config, int64_t *embedding) {
  Arena *arena = arena_open();
  Graph *g = graph_open(arena);
  model_build(g, config, &(ModelBatch){.sequences = 1, .positions = 1});
  int64_t total = 0;
  for (int i = 0; i < g->vars.n; i++)
    if (g->vars.at[i].class == VAR_PARAM) total += shape_size(&g->vars.at[i].shape);
  *embedding = config->vocab * config->hidden;
  arena_close(arena);
  return total;
}
