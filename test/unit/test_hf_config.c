/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/hf_config.h"
#include "io/json.h"
#include "src/base/file.h"
#include "src/train/setup.h"
#include "test/check.h"

static const char *golden(const char *name) {
  static char path[4096];
  const char *srcdir = getenv("srcdir");
  snprintf(path, sizeof path, "%s/test/golden/%s", srcdir ? srcdir : ".", name);
  return path;
}

#define SIZES "\"hidden_size\":64,\"intermediate_size\":176,\"num_hidden_layers\":2,\"num_attention_heads\":4,\"vocab_size\":320"
#define QWEN SIZES ",\"architectures\":[\"Qwen2ForCausalLM\"],\"num_key_value_heads\":2"
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
  HfConfig both = read_text("{" BASE ",\"rope_theta\":500000,\"rope_scaling\":{" STRETCH "},\"rope_parameters\":{" STRETCH
                            ",\"rope_theta\":500000.0}}");
  EXPECT(!memcmp(&both.rope, &newer.rope, sizeof newer.rope));
  EXPECT_FAIL(FAIL_INPUT, "rope_parameters and rope_scaling, which differ",
              read_text("{" BASE ",\"rope_theta\":10000,\"rope_scaling\":{" STRETCH "},\"rope_parameters\":{" STRETCH
                        ",\"rope_theta\":500000.0}}"));
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
      {"{" BASE ",\"hidden_act\":\"gelu\"}", "hidden_act is \"gelu\"; only \"silu\" is built"},
      {"{" BASE ",\"attention_dropout\":1}", "attention_dropout is 1, not within 0 and"},
      {"{" BASE ",\"quantization_config\":{\"bits\":4}}", "quantization_config is {\"bits\":4}; only null"},
      {"{" BASE ",\"rope_scaling\":{\"type\":\"longrope\",\"factor\":4}}",
       "rope_scaling.type is longrope; built are default, linear,"},
      {"{" BASE ",\"rope_scaling\":{\"type\":\"linear\"}}", "rope_scaling.factor is missing"},
      {"{" BASE ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":0.5}}", "rope_scaling.factor is 0.5, not within 1"},
      {"{" BASE ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2,\"truncate\":3}}", "rope_scaling.truncate is not true or false"},
      {"{" BASE ",\"partial_rotary_factor\":0.5}", "partial_rotary_factor is 0.5; only 1 is built"},
      {"{" BASE ",\"rope_parameters\":{\"partial_rotary_factor\":0.5}}", "rope_parameters.partial_rotary_factor is 0.5; only 1"},
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
      {"{" QWEN ",\"sliding_window\":8,\"layer_types\":[\"full_attention\",\"sliding_attention\"]}",
       "layer_types has sliding_attention for block 1; by sliding_window and max_window_layers it is full_attention"},
      {"{" QWEN ",\"layer_types\":[\"full_attention\"]}", "layer_types is no list of num_hidden_layers words"},
      {"{\"model_type\":\"qwen2\"," SIZES "}", "num_key_value_heads is missing"},
      {"{\"model_type\":\"gpt2\"," SIZES "}", "n_embd is missing"},
      {"{\"model_type\":\"mixtral\",\"num_key_value_heads\":4,\"num_experts_per_tok\":9," SIZES "}",
       "num_experts_per_tok 9 is more than num_local_experts 8"},
      {"{\"model_type\":\"mixtral\",\"num_key_value_heads\":4,\"router_jitter_noise\":0.5," SIZES "}",
       "router_jitter_noise is 0.5; only 0"},
      {"{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":2,\"n_head\":3,\"vocab_size\":320}",
       "no multiple of num_attention_heads 3"},
      {"{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":2,\"n_head\":4,\"vocab_size\":320,\"scale_attn_by_inverse_layer_idx\":"
       "true}",
       "scale_attn_by_inverse_layer_idx is true; only false"},
      {"{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":64.5}", "hidden_size is not a whole number"},
      {"{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":99999999999}", "hidden_size is 99999999999, not within"},
      {"{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":null}", "hidden_size is null"},
      {"{\"architectures\":[\"LlamaForCausalLM\"]}", "hidden_size is missing"},
      {"{\"architectures\":[\"OtherForCausalLM\"]}", "architectures is OtherForCausalLM; built are LlamaForCausalLM, "},
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
  EXPECT(strstr(c.warnings[0], "sliding_window is not understood"));
  EXPECT(strstr(c.warnings[1], "rope_parameters.mscale is not understood"));
}

static const char *const families[] = {"llama", "mistral", "qwen2", "qwen3", "mixtral", "gpt2"};

TEST(every_field_of_the_librarys_classes_is_known) {
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
    char name[64];
    snprintf(name, sizeof name, "configs/%s.json", families[i]);
    HfConfig c = hf_config_read(arena, golden(name));
    for (int w = 0; w < c.n_warnings; w++) printf("%s\n", c.warnings[w]);
    EXPECT(c.n_warnings == 0 && !strcmp(name_architecture(c.family)->model_type, families[i]));
  }
}

/* Beside those of the classes: of gpt2-large, distilgpt2, gpt2-xl, huggyllama's Llama, Qwen2.5 and unsloth's. */
TEST(fields_of_published_files_are_known) {
  static const char *const files[] = {
      "{" QWEN ",\"use_mrope\":false}",
      "{" BASE ",\"max_sequence_length\":2048,\"unsloth_fixed\":true,\"unsloth_version\":\"2024.9\",\"num_labels\":2}",
      "{\"architectures\":[\"GPT2LMHeadModel\"],\"n_embd\":64,\"n_layer\":2,\"n_head\":4,\"vocab_size\":320,\"n_special\":0,"
      "\"predict_special_tokens\":true,\"output_past\":true,\"_num_labels\":1,\"gradient_checkpointing\":false}"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    HfConfig c = read_text(files[i]);
    for (int w = 0; w < c.n_warnings; w++) check_failed(__FILE__, __LINE__, "%s", c.warnings[w]);
  }
}

TEST(defaults_are_those_of_each_class) {
  HfConfig m = hf_config_read(arena, golden("mistral-window")),
           old = read_text("{\"model_type\":\"mistral\",\"num_key_value_heads\":2," SIZES "}");
  HfConfig none = read_text("{\"model_type\":\"mistral\",\"num_key_value_heads\":2,\"sliding_window\":null," SIZES "}");
  EXPECT(m.sliding_window == 24 && m.max_window_layers == 0 && old.sliding_window == 4096 && none.sliding_window == 0);
  HfConfig off = read_text("{" QWEN ",\"sliding_window\":8}");
  HfConfig on = read_text("{" QWEN ",\"sliding_window\":8,\"use_sliding_window\":true,\"max_window_layers\":1,"
                          "\"layer_types\":[\"full_attention\",\"sliding_attention\"]}");
  EXPECT(off.sliding_window == 0 && on.sliding_window == 8 && on.max_window_layers == 1 && on.n_warnings == 0);
  HfConfig g = hf_config_read(arena, golden("gpt2")), real = read_text("{\"model_type\":\"gpt2\",\"n_ctx\":1024,\"n_embd\":768,"
                                                                       "\"n_head\":12,\"n_layer\":12,\"vocab_size\":50257}");
  EXPECT(g.intermediate_size == 256 && g.residual_dropout == 0 && g.tie_word_embeddings && g.head_dim == 16);
  EXPECT(real.tie_word_embeddings && real.max_position_embeddings == 1024 && real.residual_dropout == 0.1 && real.n_warnings == 0);
  HfConfig moe = hf_config_read(arena, golden("mixtral")),
           large = read_text("{\"model_type\":\"mixtral\",\"num_key_value_heads\":4," SIZES "}");
  EXPECT(moe.num_local_experts == 4 && moe.num_experts_per_tok == 2 && moe.router_aux_loss_coef == 0.001 &&
         !moe.output_router_logits);
  EXPECT(large.num_local_experts == 8 && large.rope.theta == 1e6 && large.sliding_window == 0 && large.rms_norm_eps == 1e-5);
  HfConfig q = hf_config_read(arena, golden("qwen3"));
  EXPECT(q.head_dim == 32 && q.sliding_window == 0 && !q.attention_bias);
}

TEST(a_config_that_is_written_reads_back_the_same) {
  const char *names[] = {"llama2", "llama3-gqa-tied", "llama-headdim", "qwen2", "qwen3", "mistral-window", "mixtral", "gpt2"};
  for (int i = 0; i < 8; i++) {
    char path[4096];
    Why why;
    snprintf(path, sizeof path, "%s/config.json", check_folder());
    HfConfig a = hf_config_read(arena, golden(names[i]));
    EXPECT(try_hf_config_write(path, &a, &why));
    HfConfig b = hf_config_read(arena, path);
    EXPECT(b.n_warnings == 0 && !memcmp(&a, &b, offsetof(HfConfig, warnings)));
    EXPECT(!try_hf_config_write("/proc/none/config.json", &a, &why) && strstr(why.text, "/proc/none"));
    ModelConfig model = setup_model_from_hf(&a);
    HfConfig back = setup_model_to_hf(&model);
    Text is = {0}, was = {0};
    hf_config_print(&back, &is);
    hf_config_print(&a, &was);
    EXPECT(!strcmp(is.at, was.at));
    text_close(&is);
    text_close(&was);
  }
}

/* Numbers of transformers for configs of all kinds in both forms; those of float32 powers. */
TEST(frequencies_of_every_kind_of_rope_are_the_librarys) {
  Why why;
  int kinds[ROPE_KINDS] = {0};
  json_t *cases = json_parse_file(golden("configs/rope.json"), &why);
  EXPECT(cases && json_array_size(cases) >= 30);
  for (size_t i = 0; i < json_array_size(cases); i++) {
    const json_t *one = json_array_get(cases, i), *want = json_object_get(one, "frequencies");
    char *text = json_dumps(json_object_get(one, "config"), 0), path[4096];
    HfConfig hf = read_text(text);
    ModelConfig model = setup_model_from_hf(&hf);
    double *got = arena_array(arena, double, model.head_dim / 2);
    model_rope_frequencies(&model, json_integer_value(json_object_get(one, "positions")), got);
    EXPECT(hf.n_warnings == 0 && (int64_t)json_array_size(want) == model.head_dim / 2);
    for (int64_t k = 0; k < model.head_dim / 2; k++)
      EXPECT_NEAR(got[k] / json_number_value(json_array_get(want, (size_t)k)), 1, 3e-6);
    if (hf.rope.kind == ROPE_YARN)
      EXPECT_NEAR(model.rope.attention_factor, json_number_value(json_object_get(one, "attention_factor")), 1e-12);
    kinds[hf.rope.kind]++;
    snprintf(path, sizeof path, "%s/config.json", check_folder());
    EXPECT(try_hf_config_write(path, &hf, &why)); /* and what a checkpoint keeps of it is the same */
    HfConfig back = hf_config_read(arena, path);
    EXPECT(back.n_warnings == 0 && !memcmp(&back.rope, &hf.rope, sizeof hf.rope));
    free(text);
  }
  for (RopeKind k = 0; k < ROPE_KINDS; k++) EXPECT(kinds[k] >= 4);
  json_decref(cases);
}

TEST(names_know_what_is_tied_and_what_is_no_weight) {
  EXPECT(name_is_embedding("model.embed_tokens.weight") && name_is_embedding("transformer.wte.weight"));
  EXPECT(!name_is_embedding("transformer.wpe.weight") && !name_is_embedding(name_head));
  EXPECT(name_is_prefix("transformer.wte", 12) && name_is_prefix("model.x", 6) && !name_is_prefix("model.x", 5));
  EXPECT(name_is_constant("model.layers.0.self_attn.rotary_emb.inv_freq") && name_is_constant("transformer.h.0.attn.bias"));
  EXPECT(name_is_constant("h.11.attn.masked_bias") && !name_is_constant("transformer.h.0.attn.c_attn.bias"));
}
