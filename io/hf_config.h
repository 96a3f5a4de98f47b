/* SPDX-License-Identifier: Apache-2.0 */
/* A model's config.json as Hugging Face's transformers writes and reads it, for the architectures in io/names.h. */
#ifndef IO_HF_CONFIG_H
#define IO_HF_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "io/names.h"
#include "src/base/arena.h"
#include "src/base/fail.h"
#include "src/base/text.h"

typedef struct HfRope {
  RopeKind kind;
  double theta;
  double factor;                            /* of all but ROPE_DEFAULT */
  int64_t original_max_position_embeddings; /* of ROPE_WAVELENGTH and ROPE_YARN */
  double low_freq_factor, high_freq_factor; /* of ROPE_WAVELENGTH */
  double beta_fast, beta_slow;              /* these, of ROPE_YARN */
  double attention_factor;                  /* cosines and sines times this */
  bool truncate;                            /* the ramp's ends are whole numbers */
} HfRope;

/* By the names of most architectures; GPT-2 has others for the same (io/hf_fields.c).  What an architecture does not have is 0. */
typedef struct HfConfig {
  NameFamily family;
  int64_t hidden_size, intermediate_size, num_hidden_layers, num_attention_heads;
  int64_t num_key_value_heads; /* null in the file: num_attention_heads */
  int64_t head_dim;            /* absent or null in the file: hidden_size / num_attention_heads */
  int64_t vocab_size, max_position_embeddings;
  int64_t sliding_window;                         /* 0: none */
  int64_t max_window_layers;                      /* so many blocks have no window, those behind them do */
  int64_t num_local_experts, num_experts_per_tok; /* 0: an mlp for all tokens */
  double router_aux_loss_coef;                    /* of a loss that is asked for by output_router_logits */
  double rms_norm_eps, initializer_range;
  double embedding_dropout, residual_dropout, attention_dropout;
  bool tie_word_embeddings, attention_bias, mlp_bias, use_sliding_window, output_router_logits;
  HfRope rope;
  const char *const *warnings; /* one a field that was not understood, without "warn"; in the arena of the read */
  int n_warnings;
} HfConfig;

/* path is a config.json or the folder that holds one.  What would change the model's arithmetic and is not built (another
 * activation, another rope scaling, quantised weights, another architecture) is an error that names the field and its value; both
 * the rope_parameters form and the older rope_theta + rope_scaling form are read. */
HfConfig hf_config_read(Arena *arena, const char *path);
bool try_hf_config_read(Arena *arena, const char *path, HfConfig *config, Why *why);
/* The same from a text; name is what errors call it. */
bool try_hf_config_parse(Arena *arena, const char *name, const char *text, size_t nbytes, HfConfig *config, Why *why);

/* In the older form, which every version reads.  path is the file. */
bool try_hf_config_write(const char *path, const HfConfig *config, Why *why);
void hf_config_print(const HfConfig *config, Text *out);

#endif
