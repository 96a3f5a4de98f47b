/* SPDX-License-Identifier: Apache-2.0 */
#include "io/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/fail.h"
#include "src/base/text.h"

static const NameArchitecture architectures[NAME_FAMILIES] = {
    [NAME_LLAMA] = {"LlamaForCausalLM", "llama", "model.", "model.embed_tokens.weight"},
    [NAME_MISTRAL] = {"MistralForCausalLM", "mistral", "model.", "model.embed_tokens.weight"},
    [NAME_QWEN2] = {"Qwen2ForCausalLM", "qwen2", "model.", "model.embed_tokens.weight"},
    [NAME_QWEN3] = {"Qwen3ForCausalLM", "qwen3", "model.", "model.embed_tokens.weight"},
    [NAME_MIXTRAL] = {"MixtralForCausalLM", "mixtral", "model.", "model.embed_tokens.weight"},
    [NAME_GPT2] = {"GPT2LMHeadModel", "gpt2", "transformer.", "transformer.wte.weight"},
};

static const char *const ropes[ROPE_KINDS] = {[ROPE_DEFAULT] = "default",
                                              [ROPE_LINEAR] = "linear",
                                              [ROPE_DYNAMIC] = "dynamic",
                                              [ROPE_WAVELENGTH] = "llama3",
                                              [ROPE_YARN] = "yarn"};

/* Angles of rotary positions; causal masks of GPT-2. */
static const char *const constants[] = {"rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias"};

const char name_head[] = "lm_head.weight";

const NameArchitecture *name_architecture(NameFamily family) {
  CHECK(family < NAME_FAMILIES);
  return &architectures[family];
}

const char *name_known(char *out, int nbytes) {
  int n = 0;
  for (NameFamily f = 0; f < NAME_FAMILIES && n < nbytes; f++)
    n += snprintf(out + n, (size_t)(nbytes - n), "%s%s", f ? ", " : "", architectures[f].architecture);
  return out;
}

bool name_is_embedding(const char *name) {
  for (NameFamily f = 0; f < NAME_FAMILIES; f++)
    if (!strcmp(name, architectures[f].embedding)) return true;
  return false;
}

bool name_is_prefix(const char *text, int n) {
  for (NameFamily f = 0; f < NAME_FAMILIES; f++)
    if ((int)strlen(architectures[f].prefix) == n && !strncmp(architectures[f].prefix, text, (size_t)n)) return true;
  return false;
}

/* Behind "experts.E.": in which tensor, and the how manieth of how many an expert has there. */
static const struct {
  const char *rest, *fused;
  int at, of;
} fused_weights[] = {{"w1.weight", "gate_up_proj", 0, 2}, {"w3.weight", "gate_up_proj", 1, 2}, {"w2.weight", "down_proj", 0, 1}};

const char *name_fused(Arena *arena, const char *name, int64_t *part) {
  static const char block[] = ".block_sparse_moe.", experts[] = "experts.";
  const char *at = strstr(name, block);
  if (!at) return NULL;
  int before = (int)(at - name);
  const char *rest = at + sizeof block - 1;
  *part = 0;
  if (strncmp(rest, experts, sizeof experts - 1)) return arena_printf(arena, "%.*s.mlp.%s", before, name, rest);
  char *end;
  int64_t expert = strtol(rest + sizeof experts - 1, &end, 10);
  for (size_t i = 0; i < sizeof fused_weights / sizeof *fused_weights; i++) {
    if (*end != '.' || strcmp(end + 1, fused_weights[i].rest)) continue;
    *part = expert * fused_weights[i].of + fused_weights[i].at;
    return arena_printf(arena, "%.*s.mlp.experts.%s", before, name, fused_weights[i].fused);
  }
  return NULL;
}

bool name_is_constant(const char *name) {
  for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
    if (text_ends(name, constants[i])) return true;
  return false;
}

const char *name_rope(RopeKind kind) { return ropes[kind]; }
