/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/hf_config.h"
#include "io/safetensors.h"
#include "src/base/file.h"
#include "test/check.h"

static const char *golden(const char *name) {
  static char path[4096];
  const char *srcdir = getenv("srcdir");
  snprintf(path, sizeof path, "%s/test/golden/%s", srcdir ? srcdir : ".", name);
  return path;
}

#define BASE                                                                                                                       \
  "\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":64,\"intermediate_size\":176,\"num_hidden_layers\":2,"                 \
  "\"num_attention_heads\":4,\"vocab_size\":320"
#define STRETCH                                                                                                                    \
  "\"factor\":8.0,\"high_freq_factor\":4.0,\"low_freq_factor\":1,\"original_max_position_embeddings\":8192,\"rope_type\":"         \
  "\"llama3\""

static Arena *arena;
BEFORE_ALL { arena = arena_open(); }
AFTER_ALL { arena_close(arena); }

static HfConfig read_text(const char *text) {
  char path[4096];
  snprintf(path, sizeof path, "%s/config.json", check_folder());
  CHECK(try_file_write(path, text, strlen(text), NULL));
  return hf_config_read(arena, check_folder());
}

TEST(the_golden_configs_read_without_warnings) {
  HfConfig a = hf_config_read(arena, golden("llama2")), b = hf_config_read(arena, golden("llama3-gqa-tied"));
  HfConfig c = hf_config_read(arena, golden("llama-headdim/config.json"));
  EXPECT(a.hidden_size == 64 && a.intermediate_size == 176 && a.num_hidden_layers == 2 && a.num_attention_heads == 4);
  EXPECT(a.num_key_value_heads == 4 && a.head_dim == 16 && a.vocab_size == 320 && a.max_position_embeddings == 256);
  EXPECT(a.rms_norm_eps == 1e-5 && a.initializer_range == 0.02 && !a.tie_word_embeddings);
  EXPECT(a.rope.kind == ROPE_DEFAULT && a.rope.theta == 10000);
  EXPECT(b.tie_word_embeddings && b.num_key_value_heads == 2 && b.rope.kind == ROPE_WAVELENGTH && b.rope.theta == 500000);
  EXPECT(b.rope.factor == 8 && b.rope.low_freq_factor == 1 && b.rope.high_freq_factor == 4);
  EXPECT(b.rope.original_max_position_embeddings == 64);
  EXPECT(c.head_dim == 32 && c.num_key_value_heads == 1);
  EXPECT(a.n_warnings == 0 && b.n_warnings == 0 && c.n_warnings == 0);
}

TEST(both_rope_forms_mean_the_same) {
  HfConfig newer = read_text("{" BASE ",\"rope_parameters\":{" STRETCH ",\"rope_theta\":500000.0}}");
  HfConfig older = read_text("{" BASE ",\"rope_theta\":500000,\"rope_scaling\":{" STRETCH "}}");
  HfConfig oldest = read_text("{" BASE ",\"rope_theta\":500000,\"rope_scaling\":{\"factor\":8,\"high_freq_factor\":4,"
                              "\"low_freq_factor\":1,\"original_max_position_embeddings\":8192,\"type\":\"llama3\"}}");
  EXPECT(newer.rope.theta == 500000 && newer.rope.original_max_position_embeddings == 8192 && newer.n_warnings == 0);
  EXPECT(!memcmp(&newer.rope, &older.rope, sizeof newer.rope) && !memcmp(&newer.rope, &oldest.rope, sizeof newer.rope));
  EXPECT(read_text("{" BASE ",\"rope_theta\":7e4,\"rope_scaling\":null}").rope.theta == 7e4);
  EXPECT_FAIL(FAIL_INPUT, "both rope_parameters and rope_scaling",
              read_text("{" BASE ",\"rope_parameters\":{},\"rope_scaling\":{}}"));
}

TEST(absent_and_null_fields_have_the_librarys_defaults) {
  HfConfig c = read_text("{" BASE ",\"num_key_value_heads\":null,\"head_dim\":null}");
  EXPECT(c.num_key_value_heads == 4 && c.head_dim == 16 && c.rms_norm_eps == 1e-6 && c.initializer_range == 0.02);
  EXPECT(!c.tie_word_embeddings && c.max_position_embeddings == 2048 && c.rope.theta == 10000 && c.rope.kind == ROPE_DEFAULT);
}

TEST(what_would_change_the_arithmetic_is_refused_by_name) {
  const struct {
    const char *text, *words;
  } bad[] = {
      {"{" BASE ",\"attention_bias\":true}", "attention_bias is true; only false is built"},
      {"{" BASE ",\"mlp_bias\":true}", "mlp_bias is true"},
      {"{" BASE ",\"hidden_act\":\"gelu\"}", "hidden_act is \"gelu\"; only silu"},
      {"{" BASE ",\"attention_dropout\":0.1}", "attention_dropout is 0.1"},
      {"{" BASE ",\"quantization_config\":{\"bits\":4}}", "quantization_config is {"},
      {"{" BASE ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4}}", "rope_scaling.type is yarn"},
      {"{" BASE ",\"rope_parameters\":{\"rope_type\":\"llama3\",\"factor\":4}}", "rope_parameters.low_freq_factor is missing"},
      {"{" BASE ",\"rope_parameters\":{\"rope_type\":3}}", "rope_parameters.rope_type is no text"},
      {"{" BASE ",\"rope_parameters\":[1]}", "rope_parameters is no object"},
      {"{" BASE ",\"rope_parameters\":{\"full_attention\":{\"rope_theta\":1e4}}}", "rope_parameters.full_attention is an object"},
      {"{" BASE ",\"num_key_value_heads\":3}", "no multiple of num_key_value_heads 3"},
      {"{" BASE ",\"num_key_value_heads\":0}", "num_key_value_heads is 0, not within 1 and"},
      {"{" BASE ",\"head_dim\":15}", "head_dim 15 is odd"},
      {"{" BASE ",\"rms_norm_eps\":\"small\"}", "rms_norm_eps is not a number"},
      {"{" BASE ",\"tie_word_embeddings\":1}", "tie_word_embeddings is not true or false"},
      {"{" BASE ",\"hidden_size\":65}", "duplicate object key"},
      {"{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":64.5}", "hidden_size is not a whole number"},
      {"{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":99999999999}", "hidden_size is 99999999999, not within"},
      {"{\"architectures\":[\"LlamaForCausalLM\"]}", "hidden_size is missing"},
      {"{\"architectures\":[\"OtherForCausalLM\"]}", "architectures is OtherForCausalLM"},
      {"{\"model_type\":\"other\"}", "model_type is other"},
      {"{}", "neither architectures nor model_type"},
      {"[]", "no JSON object"},
      {"{", "config.json:1"},
  };
  check_folder(); /* before the forks, which would each make one */
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) EXPECT_FAIL(FAIL_INPUT, bad[i].words, read_text(bad[i].text));
  EXPECT_FAIL(FAIL_INPUT, "No such file", hf_config_read(arena, "nowhere"));
}

TEST(unknown_fields_are_warned_of_by_name) {
  HfConfig c = read_text("{" BASE ",\"sliding_window\":12,\"rope_parameters\":{\"rope_theta\":1e4,\"mscale\":2}}");
  EXPECT(c.n_warnings == 2);
  EXPECT(strstr(c.warnings[0], "rope_parameters.mscale is not understood"));
  EXPECT(strstr(c.warnings[1], "sliding_window is not understood"));
}

TEST(a_config_that_is_written_reads_back_the_same) {
  const char *names[] = {"llama2", "llama3-gqa-tied", "llama-headdim"};
  for (int i = 0; i < 3; i++) {
    char path[4096];
    Why why;
    snprintf(path, sizeof path, "%s/config.json", check_folder());
    HfConfig a = hf_config_read(arena, golden(names[i]));
    EXPECT(try_hf_config_write(path, &a, &why));
    HfConfig b = hf_config_read(arena, path);
    EXPECT(b.n_warnings == 0 && !memcmp(&a.rope, &b.rope, sizeof a.rope) && a.tie_word_embeddings == b.tie_word_embeddings);
    EXPECT(!memcmp(&a.hidden_size, &b.hidden_size, offsetof(HfConfig, rms_norm_eps) - offsetof(HfConfig, hidden_size)));
    EXPECT(a.rms_norm_eps == b.rms_norm_eps && a.initializer_range == b.initializer_range && a.architecture == b.architecture);
    EXPECT(!try_hf_config_write("/proc/none/config.json", &a, &why) && strstr(why.text, "/proc/none"));
  }
}

TEST(names_go_both_ways) {
  for (NameKind kind = 0; kind < NAME_KINDS; kind++)
    for (int layer = 0; layer < 200; layer += 7) {
      char name[NAME_TEXT];
      NameKind back;
      int back_layer;
      EXPECT(name_parse(name_print(kind, layer, name), &back, &back_layer));
      EXPECT(back == kind && back_layer == (name_is_layered(kind) ? layer : -1));
    }
}

TEST(every_golden_weight_has_a_name_of_ours) {
  Safetensors *s = safetensors_open(golden("llama2"));
  for (int i = 0; i < safetensors_n(s); i++) {
    NameKind kind;
    int layer;
    EXPECT(name_parse(safetensors_at(s, i)->name, &kind, &layer));
  }
  safetensors_close(s);
}

TEST(near_names_are_no_names) {
  const char *bad[] = {"",
                       "model.layers.0",
                       "model.layers..input_layernorm.weight",
                       "model.layers.01.mlp.up_proj.weight",
                       "model.layers.-1.mlp.up_proj.weight",
                       "model.layers.99999999999.mlp.up_proj.weight",
                       "lm_head.weights",
                       "model.layers.0.mlp.up_proj.bias",
                       "model.norm"};
  NameKind kind;
  int layer;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) EXPECT(!name_parse(bad[i], &kind, &layer));
}
