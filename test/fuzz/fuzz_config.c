/* SPDX-License-Identifier: Apache-2.0 */
/* A model's config.json, of any family. */
#include <stdio.h>

#include "io/hf_config.h"
#include "src/train/setup.h"
#include "test/fuzz/fuzz.h"

/* What is taken can be worked with: it is written, and read again. */
static void read_and_use(const uint8_t *bytes, size_t n) {
  Arena *arena = arena_open();
  HfConfig config, again;
  Text text = {0};
  Why why = {""};
  bool ok = try_hf_config_parse(arena, "config.json", (const char *)bytes, n, &config, &why);
  CHECK(ok || *why.text);
  if (ok) {
    ModelConfig model = setup_model_from_hf(&config);
    HfConfig back = setup_model_to_hf(&model);
    double *frequency = arena_array(arena, double, model.head_dim / 2 + 1);
    if (model.rope.theta > 0) model_rope_frequencies(&model, model_positions(&model), frequency);
    hf_config_print(&back, &text);
    if (!try_hf_config_parse(arena, "written", text.at, text.n, &again, &why)) fail(FAIL_BUG, "%s", why.text);
  }
  text_close(&text);
  arena_close(arena);
}

static int seeds(Arena *arena, FuzzBytes out[FUZZ_SEEDS]) {
  static const char *const families[] = {"llama", "mistral", "qwen2", "qwen3", "mixtral", "gpt2"};
  static const char *const ropes[] = {
      "\"rope_theta\":5e5,\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":64,\"mscale\":1.5,"
      "\"mscale_all_dim\":1,\"beta_fast\":16}",
      "\"rope_scaling\":{\"rope_type\":\"dynamic\",\"factor\":2.5}", "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}",
      "\"rope_parameters\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4,"
      "\"original_max_position_embeddings\":64,\"rope_theta\":5e5}"};
  int n = 0;
  for (size_t i = 0; i < sizeof families / sizeof *families; i++)
    out[n++] = fuzz_file(arena, arena_printf(arena, "test/golden/configs/%s.json", families[i]));
  for (size_t i = 0; i < sizeof ropes / sizeof *ropes; i++)
    out[n++] =
        fuzz_text(arena_printf(arena,
                               "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":176,\"num_hidden_layers\":2,"
                               "\"num_attention_heads\":4,\"vocab_size\":320,%s}",
                               ropes[i]));
  return n;
}

static const char *const words[] = {"null",
                                    "true",
                                    "false",
                                    "0",
                                    "-1",
                                    "1e308",
                                    "1e-308",
                                    "9223372036854775807",
                                    "[]",
                                    "{}",
                                    "\"\"",
                                    "\"rope_type\":",
                                    "\"yarn\"",
                                    "\"dynamic\"",
                                    "\"model_type\":\"qwen2\"",
                                    "\"layer_types\":",
                                    "\"sliding_window\":4",
                                    "\"head_dim\":2",
                                    "\"n_embd\":64",
                                    NULL};

const FuzzTarget fuzz_target = {"a_config_is_read_or_refused", read_and_use, seeds, words, 1 << 13};
