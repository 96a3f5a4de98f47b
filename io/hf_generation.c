/* SPDX-License-Identifier: Apache-2.0 */
#include "io/hf_generation.h"

#include <string.h>

#include "io/hf_impl.h"

static bool take(const json_t *id, int32_t *end) {
  json_int_t value = json_integer_value(id);
  *end = (int32_t)value;
  return json_is_integer(id) && value >= 0 && value <= INT32_MAX;
}

static bool take_ends(const HfReader *r, const json_t *ids, HfGeneration *g) {
  size_t n = json_is_array(ids) ? json_array_size(ids) : 1;
  bool good = n <= HF_ENDS;
  if (!ids || json_is_null(ids)) return true;
  for (size_t i = 0; i < n && good; i++) good = take(json_is_array(ids) ? json_array_get(ids, i) : ids, &g->ends[i]);
  g->n_ends = (int)n;
  return good || why_not(r->why, "%s: eos_token_id is no id, nor a list of at most %d", r->path, HF_ENDS);
}

#define NUMBER(name, use, field, least, most)                                                                                      \
  { name, 1, use, offsetof(HfGeneration, field), -1, -1, least, most, NULL, NULL, NULL }
#define ONLY(name, values)                                                                                                         \
  { name, 1, HF_ONLY, 0, 0, 0, 0, 0, values, NULL, NULL }
#define SILENT(name)                                                                                                               \
  { name, 1, HF_SILENT, 0, 0, 0, 0, 0, NULL, NULL, NULL }

/* The fields of transformers' GenerationConfig (4.x and 5.x). */
static const HfField fields[] = {
    NUMBER("temperature", HF_REAL, temperature, 0, 1e6),
    NUMBER("top_k", HF_INT, top_k, -1, 1 << 30),
    NUMBER("top_p", HF_REAL, top_p, 0, 1),
    NUMBER("repetition_penalty", HF_REAL, repetition_penalty, 1e-3, 1e3),
    SILENT("do_sample"),
    SILENT("eos_token_id"), /* both are read below */

    ONLY("bad_words_ids", "[]"),
    ONLY("begin_suppress_tokens", "[]"),
    ONLY("constraints", "[]"),
    ONLY("dola_layers", "null"),
    ONLY("encoder_no_repeat_ngram_size", "0"),
    ONLY("encoder_repetition_penalty", "1"),
    ONLY("epsilon_cutoff", "0"),
    ONLY("eta_cutoff", "0"),
    ONLY("exponential_decay_length_penalty", "null"),
    ONLY("force_words_ids", "[]"),
    ONLY("forced_bos_token_id", "null"),
    ONLY("forced_eos_token_id", "null"),
    ONLY("guidance_scale", "1"),
    ONLY("min_length", "0"),
    ONLY("min_new_tokens", "0"),
    ONLY("min_p", "0"),
    ONLY("no_repeat_ngram_size", "0"),
    ONLY("num_beam_groups", "1"),
    ONLY("num_beams", "1"),
    ONLY("num_return_sequences", "1"),
    ONLY("penalty_alpha", "0"),
    ONLY("sequence_bias", "{} []"),
    ONLY("stop_strings", "[]"),
    ONLY("suppress_tokens", "[]"),
    ONLY("token_healing", "false"),
    ONLY("top_h", "null"),
    ONLY("typical_p", "1"),
    ONLY("watermarking_config", "null"),

    SILENT("_from_model_config"),
    SILENT("assistant_confidence_threshold"), /* which model proposes tokens, and how many: the texts are the same */
    SILENT("assistant_early_exit"),
    SILENT("assistant_ensemble_weight"),
    SILENT("assistant_lookbehind"),
    SILENT("bos_token_id"),
    SILENT("cache_config"),
    SILENT("cache_implementation"),
    SILENT("compile_config"),
    SILENT("continuous_batching_config"),
    SILENT("decoder_start_token_id"),
    SILENT("disable_compile"),
    SILENT("diversity_penalty"), /* this, early_stopping and length_penalty are of beams */
    SILENT("early_stopping"),
    SILENT("generation_kwargs"),
    SILENT("is_assistant"),
    SILENT("length_penalty"),
    SILENT("low_memory"),
    SILENT("max_cache_len"),
    SILENT("max_length"), /* this, max_new_tokens and max_time: --tokens */
    SILENT("max_matching_ngram_size"),
    SILENT("max_new_tokens"),
    SILENT("max_time"),
    SILENT("num_assistant_tokens"),
    SILENT("num_assistant_tokens_schedule"),
    SILENT("output_attentions"),
    SILENT("output_hidden_states"),
    SILENT("output_logits"),
    SILENT("output_scores"),
    SILENT("pad_token_id"),
    SILENT("prefill_chunk_size"),
    SILENT("prompt_lookup_num_tokens"),
    SILENT("remove_invalid_values"),
    SILENT("renormalize_logits"), /* probabilities are */
    SILENT("return_dict_in_generate"),
    SILENT("return_legacy_cache"),
    SILENT("speculation_type"),
    SILENT("target_lookbehind"),
    SILENT("transformers_version"),
    SILENT("trust_remote_code"),
    SILENT("use_cache"),
    SILENT("use_mtp"),
};

static bool read_settings(HfReader *r, const json_t *root, HfGeneration *g) {
  const json_t *sampled = json_object_get(root, "do_sample");
  if (sampled && !json_is_null(sampled) && !json_is_boolean(sampled))
    return why_not(r->why, "%s: do_sample is not true or false", r->path);
  if (!hf_fields_read(r, root, "", fields, sizeof fields / sizeof *fields, 1, g)) return false;
  if (json_is_integer(json_object_get(root, "top_k")) && g->top_k < 0) g->top_k = 0; /* -1: all, as some have it */
  g->draws = json_is_true(sampled);
  g->says = json_is_boolean(sampled) || g->temperature >= 0 || g->top_p >= 0 || g->top_k >= 0;
  g->warnings = r->warnings.at;
  g->n_warnings = r->warnings.n;
  return true;
}

bool try_hf_generation_parse(Arena *arena, const char *path, const char *text, bool ends_alone, HfGeneration *g, Why *why) {
  HfReader r = {.arena = arena, .path = path, .why = why};
  *g = (HfGeneration){.temperature = -1, .top_p = -1, .repetition_penalty = -1, .top_k = -1};
  json_t *root = json_parse(text, strlen(text), path, why);
  bool ok = root && (json_is_object(root) || why_not(why, "%s: no JSON object", path));
  ok = ok && take_ends(&r, json_object_get(root, "eos_token_id"), g) && (ends_alone || read_settings(&r, root, g));
  json_decref(root);
  return ok;
}
