/* SPDX-License-Identifier: Apache-2.0 */
#include "io/names.h"

#include <stdio.h>
#include <string.h>

#include "src/base/fail.h"
#include "src/base/text.h"

/* What stands before and after the layer's number; after is NULL where there is none. */
static const struct {
  const char *before, *after;
} weights[NAME_KINDS] = {
    [NAME_EMBED] = {"model.embed_tokens.weight", NULL},
    [NAME_ATTN_NORM] = {"model.layers.", ".input_layernorm.weight"},
    [NAME_Q] = {"model.layers.", ".self_attn.q_proj.weight"},
    [NAME_K] = {"model.layers.", ".self_attn.k_proj.weight"},
    [NAME_V] = {"model.layers.", ".self_attn.v_proj.weight"},
    [NAME_O] = {"model.layers.", ".self_attn.o_proj.weight"},
    [NAME_MLP_NORM] = {"model.layers.", ".post_attention_layernorm.weight"},
    [NAME_GATE] = {"model.layers.", ".mlp.gate_proj.weight"},
    [NAME_UP] = {"model.layers.", ".mlp.up_proj.weight"},
    [NAME_DOWN] = {"model.layers.", ".mlp.down_proj.weight"},
    [NAME_OUT_NORM] = {"model.norm.weight", NULL},
    [NAME_HEAD] = {"lm_head.weight", NULL},
};

static const NameArchitecture architectures[] = {
    {"LlamaForCausalLM", "llama"},
};

static const char *const ropes[ROPE_KINDS] = {[ROPE_DEFAULT] = "default", [ROPE_WAVELENGTH] = "llama3"};

bool name_is_layered(NameKind kind) { return weights[kind].after != NULL; }

const char *name_print(NameKind kind, int layer, char out[NAME_TEXT]) {
  if (name_is_layered(kind))
    snprintf(out, NAME_TEXT, "%s%d%s", weights[kind].before, layer, weights[kind].after);
  else
    snprintf(out, NAME_TEXT, "%s", weights[kind].before);
  return out;
}

/* The number that starts at text, as it would be printed; *end is what follows. */
static bool parse_layer(const char *text, int *layer, const char **end) {
  size_t n = strspn(text, "0123456789");
  if (n == 0 || n > 6 || (*text == '0' && n > 1)) return false;
  *layer = 0;
  for (size_t i = 0; i < n; i++) *layer = 10 * *layer + (text[i] - '0');
  *end = text + n;
  return true;
}

bool name_parse(const char *name, NameKind *kind, int *layer) {
  for (NameKind k = 0; k < NAME_KINDS; k++) {
    size_t n = strlen(weights[k].before);
    const char *end = "";
    int number = -1;
    if (strncmp(name, weights[k].before, n) != 0) continue;
    if (name_is_layered(k) ? !parse_layer(name + n, &number, &end) || strcmp(end, weights[k].after) != 0 : name[n] != 0) continue;
    *kind = k;
    *layer = number;
    return true;
  }
  return false;
}

int name_architectures(void) { return (int)(sizeof architectures / sizeof *architectures); }

const NameArchitecture *name_architecture(int i) {
  CHECK(i >= 0 && i < name_architectures());
  return &architectures[i];
}

const char *name_rope(RopeKind kind) { return ropes[kind]; }

bool name_is_constant(const char *name) { return strstr(name, "rotary_emb.inv_freq") != NULL; }
