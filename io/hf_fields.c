/* SPDX-License-Identifier: Apache-2.0 */
/* The one table of config.json's fields: what is used, what must have the value that is built, what has no effect.  A row's
 * families are those whose class in transformers (5.x, and 4.x for old files) knows the field; a field that no row of the family
 * names is a warning: newer versions add fields, most of which do not touch the arithmetic.  Values for absent fields are those of
 * the classes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/hf_impl.h"

enum {
  LLAMA = 1 << NAME_LLAMA,
  MISTRAL = 1 << NAME_MISTRAL,
  QWEN2 = 1 << NAME_QWEN2,
  QWEN3 = 1 << NAME_QWEN3,
  MIXTRAL = 1 << NAME_MIXTRAL,
  GPT2 = 1 << NAME_GPT2,
  QWEN = QWEN2 | QWEN3,
  ROTARY = LLAMA | MISTRAL | QWEN | MIXTRAL,
  ALL = ROTARY | GPT2
};

/* Qwen's window is for the blocks from max_window_layers on, and only where use_sliding_window says so; layer_types, where it is
 * there, says the same block by block. */
static bool read_layer_types(HfReader *r, const json_t *root, HfConfig *c) {
  const json_t *types = json_object_get(root, "layer_types");
  if (!c->use_sliding_window) c->sliding_window = 0;
  if (!c->sliding_window) c->max_window_layers = 0;
  if (!types || json_is_null(types)) return true;
  if (!json_is_array(types) || (int64_t)json_array_size(types) != c->num_hidden_layers)
    return why_not(r->why, "%s: layer_types is no list of num_hidden_layers words", r->path);
  for (int64_t i = 0; i < c->num_hidden_layers; i++) {
    bool window = c->sliding_window && i >= c->max_window_layers;
    const char *is = json_string_value(json_array_get(types, (size_t)i));
    const char *want = window ? "sliding_attention" : "full_attention";
    if (!is || strcmp(is, want))
      return why_not(r->why, "%s: layer_types has %.40s for block %lld; by sliding_window and max_window_layers it is %s", r->path,
                     is ? is : "no text", (long long)i, want);
  }
  return true;
}

/* Whose class has another base where the file has none. */
static bool read_far_rope(HfReader *r, const json_t *root, HfConfig *c) {
  c->rope.theta = 1e6;
  return hf_rope_read(r, root, c);
}

#define INT(name, of, field, absent, null, least, most)                                                                            \
  { name, of, HF_INT, offsetof(HfConfig, field), absent, null, least, most, NULL, NULL, NULL }
#define REAL(name, of, field, absent, least, most)                                                                                 \
  { name, of, HF_REAL, offsetof(HfConfig, field), absent, absent, least, most, NULL, NULL, NULL }
#define BOOL(name, of, field, absent)                                                                                              \
  { name, of, HF_BOOL, offsetof(HfConfig, field), absent, absent, 0, 1, NULL, NULL, NULL }
#define ONLY(name, of, values)                                                                                                     \
  { name, of, HF_ONLY, 0, 0, 0, 0, 0, values, NULL, NULL }
#define SILENT(name, of)                                                                                                           \
  { name, of, HF_SILENT, 0, 0, 0, 0, 0, NULL, NULL, NULL }

const HfField hf_fields[] = {
    INT("hidden_size", ROTARY, hidden_size, NAN, NAN, 1, HF_WIDEST),
    INT("intermediate_size", ROTARY, intermediate_size, NAN, NAN, 1, HF_WIDEST),
    INT("num_hidden_layers", ROTARY, num_hidden_layers, NAN, NAN, 1, 10000),
    INT("num_attention_heads", ROTARY, num_attention_heads, NAN, NAN, 1, HF_MOST_HEADS),
    INT("num_key_value_heads", LLAMA, num_key_value_heads, 0, 0, 1, HF_MOST_HEADS),
    INT("num_key_value_heads", MISTRAL | QWEN, num_key_value_heads, NAN, 0, 1, HF_MOST_HEADS),
    INT("num_key_value_heads", MIXTRAL, num_key_value_heads, 8, 0, 1, HF_MOST_HEADS),
    INT("head_dim", LLAMA | MISTRAL | QWEN2 | MIXTRAL, head_dim, 0, 0, 1, HF_WIDEST_HEAD),
    INT("head_dim", QWEN3, head_dim, 128, NAN, 1, HF_WIDEST_HEAD),
    INT("vocab_size", ALL, vocab_size, NAN, NAN, 1, HF_WIDEST),
    INT("max_position_embeddings", LLAMA, max_position_embeddings, 2048, 2048, 1, 1 << 30),
    INT("max_position_embeddings", MISTRAL | MIXTRAL, max_position_embeddings, 131072, 131072, 1, 1 << 30),
    INT("max_position_embeddings", QWEN, max_position_embeddings, 32768, 32768, 1, 1 << 30),
    INT("sliding_window", MISTRAL, sliding_window, 4096, 0, 1, 1 << 30),
    INT("sliding_window", MIXTRAL, sliding_window, 0, 0, 1, 1 << 30),
    INT("sliding_window", QWEN, sliding_window, 4096, 0, 1, 1 << 30),
    INT("max_window_layers", QWEN, max_window_layers, 28, 28, 0, 10000),
    BOOL("use_sliding_window", QWEN, use_sliding_window, 0),
    REAL("rms_norm_eps", LLAMA | MISTRAL | QWEN, rms_norm_eps, 1e-6, 0, 1),
    REAL("rms_norm_eps", MIXTRAL, rms_norm_eps, 1e-5, 0, 1),
    REAL("initializer_range", ALL, initializer_range, 0.02, 0, 100),
    REAL("attention_dropout", ROTARY, attention_dropout, 0, 0, 0.999),
    BOOL("tie_word_embeddings", ROTARY, tie_word_embeddings, 0),
    BOOL("attention_bias", LLAMA | QWEN3, attention_bias, 0),
    BOOL("mlp_bias", LLAMA, mlp_bias, 0),
    ONLY("hidden_act", ROTARY, "\"silu\""),
    {.name = "layer_types", .of = QWEN, .use = HF_SILENT, .read = read_layer_types},
    {.name = "rope_parameters", .of = MIXTRAL, .use = HF_SILENT, .read = read_far_rope, .write = hf_rope_write},
    {.name = "rope_parameters", .of = ROTARY & ~MIXTRAL, .use = HF_SILENT, .read = hf_rope_read, .write = hf_rope_write},
    SILENT("rope_scaling", ROTARY),
    SILENT("rope_theta", ROTARY),
    INT("num_local_experts", MIXTRAL, num_local_experts, 8, NAN, 1, HF_MOST_EXPERTS),
    INT("num_experts_per_tok", MIXTRAL, num_experts_per_tok, 2, NAN, 1, HF_MOST_EXPERTS),
    REAL("router_aux_loss_coef", MIXTRAL, router_aux_loss_coef, 0.001, 0, 100),
    BOOL("output_router_logits", MIXTRAL, output_router_logits, 0),
    ONLY("router_jitter_noise", MIXTRAL, "0"),

    INT("n_embd", GPT2, hidden_size, NAN, NAN, 1, HF_WIDEST),
    INT("n_inner", GPT2, intermediate_size, 0, 0, 1, HF_WIDEST),
    INT("n_layer", GPT2, num_hidden_layers, NAN, NAN, 1, 10000),
    INT("n_head", GPT2, num_attention_heads, NAN, NAN, 1, HF_MOST_HEADS),
    INT("n_positions", GPT2, max_position_embeddings, 1024, 1024, 1, HF_WIDEST),
    REAL("layer_norm_epsilon", GPT2, rms_norm_eps, 1e-5, 0, 1),
    REAL("embd_pdrop", GPT2, embedding_dropout, 0.1, 0, 0.999),
    REAL("resid_pdrop", GPT2, residual_dropout, 0.1, 0, 0.999),
    /* Refused in training, but for 0: the draws would have to be made within each implementation of attention, of which the fast
     * ones are libraries' with draws of their own. */
    REAL("attn_pdrop", GPT2, attention_dropout, 0.1, 0, 0.999),
    BOOL("tie_word_embeddings", GPT2, tie_word_embeddings, 1),
    ONLY("activation_function", GPT2, "\"gelu_new\" \"gelu_pytorch_tanh\""), /* two names of one function */
    ONLY("scale_attn_weights", GPT2, "true"),
    ONLY("scale_attn_by_inverse_layer_idx", GPT2, "false"),
    SILENT("reorder_and_upcast_attn", GPT2), /* of the same arithmetic, which is in float32 here */
    SILENT("n_ctx", GPT2),
    SILENT("summary_activation", GPT2),
    SILENT("summary_first_dropout", GPT2),
    SILENT("summary_proj_to_labels", GPT2),
    SILENT("summary_type", GPT2),
    SILENT("summary_use_proj", GPT2),

    ONLY("add_cross_attention", ALL, "false"),
    ONLY("is_encoder_decoder", ALL, "false"),
    ONLY("partial_rotary_factor", ROTARY, "1"),
    ONLY("pruned_heads", ALL, "{}"),
    ONLY("quantization_config", ALL, "null"),
    ONLY("rope_interleaved", ROTARY, "false"),
    SILENT("architectures", ALL),
    SILENT("model_type", ALL),
    SILENT("bos_token_id", ALL),
    SILENT("eos_token_id", ALL),
    SILENT("pad_token_id", ALL),
    SILENT("sep_token_id", ALL),
    SILENT("dtype", ALL),
    SILENT("torch_dtype", ALL),
    SILENT("transformers_version", ALL),
    SILENT("use_cache", ALL),
    SILENT("pretraining_tp", LLAMA), /* cuts products up, and adds the parts */
    SILENT("is_llama_config", LLAMA),
    SILENT("transformers.js_config", ALL),
    SILENT("_name_or_path", ALL),
    SILENT("_attn_implementation", ALL),
    SILENT("_attn_implementation_autoset", ALL),
    /* of the files that models were published with: what older classes had, and who wrote them */
    ONLY("use_mrope", QWEN2, "false"),
    SILENT("_num_labels", ALL),
    SILENT("gradient_checkpointing", ALL),
    SILENT("max_sequence_length", LLAMA),
    SILENT("n_special", GPT2),
    SILENT("num_labels", ALL),
    SILENT("output_past", ALL),
    SILENT("predict_special_tokens", GPT2),
    SILENT("unsloth_fixed", ALL),
    SILENT("unsloth_version", ALL),
    /* of the class that all share: how a model is called, what text it is asked for, what else it is trained to */
    SILENT("bad_words_ids", ALL),
    SILENT("begin_suppress_tokens", ALL),
    SILENT("chunk_size_feed_forward", ALL),
    SILENT("cross_attention_hidden_size", ALL),
    SILENT("decoder_start_token_id", ALL),
    SILENT("diversity_penalty", ALL),
    SILENT("do_sample", ALL),
    SILENT("early_stopping", ALL),
    SILENT("encoder_no_repeat_ngram_size", ALL),
    SILENT("exponential_decay_length_penalty", ALL),
    SILENT("finetuning_task", ALL),
    SILENT("forced_bos_token_id", ALL),
    SILENT("forced_eos_token_id", ALL),
    SILENT("id2label", ALL),
    SILENT("is_decoder", ALL),
    SILENT("label2id", ALL),
    SILENT("length_penalty", ALL),
    SILENT("max_length", ALL),
    SILENT("min_length", ALL),
    SILENT("no_repeat_ngram_size", ALL),
    SILENT("num_beam_groups", ALL),
    SILENT("num_beams", ALL),
    SILENT("num_return_sequences", ALL),
    SILENT("output_attentions", ALL),
    SILENT("output_hidden_states", ALL),
    SILENT("output_scores", ALL),
    SILENT("prefix", ALL),
    SILENT("problem_type", ALL),
    SILENT("remove_invalid_values", ALL),
    SILENT("repetition_penalty", ALL),
    SILENT("return_dict", ALL),
    SILENT("return_dict_in_generate", ALL),
    SILENT("suppress_tokens", ALL),
    SILENT("task_specific_params", ALL),
    SILENT("temperature", ALL),
    SILENT("tf_legacy_loss", ALL),
    SILENT("tie_encoder_decoder", ALL),
    SILENT("tokenizer_class", ALL),
    SILENT("top_k", ALL),
    SILENT("top_p", ALL),
    SILENT("torchscript", ALL),
    SILENT("typical_p", ALL),
    SILENT("use_bfloat16", ALL),
};
const int hf_nfields = sizeof hf_fields / sizeof *hf_fields;

void hf_warn(HfReader *r, const char *prefix, const char *name) {
  const char *text = arena_printf(r->arena, "%s: %s%.100s is not understood, and has no effect", r->path, prefix, name);
  vec_push(r->arena, &r->warnings, text);
}

/* --- one field ------------------------------------------------------------------------------------------------------------ */

static bool read_number(const HfReader *r, const json_t *value, const char *prefix, const HfField *f, void *into) {
  double number = value ? f->null : f->absent;
  void *at = (char *)into + f->offset;
  if (value && !json_is_null(value)) {
    bool fits = f->use == HF_INT ? json_is_integer(value) : f->use == HF_BOOL ? json_is_boolean(value) : json_is_number(value);
    static const char *const words[] = {[HF_INT] = "a whole number", [HF_REAL] = "a number", [HF_BOOL] = "true or false"};
    if (!fits) return why_not(r->why, "%s: %s%s is not %s", r->path, prefix, f->name, words[f->use]);
    number = json_is_boolean(value) ? json_is_true(value) : json_number_value(value);
    if (!(number >= f->least && number <= f->most)) {
      char a[NUM_TEXT], b[NUM_TEXT], c[NUM_TEXT];
      return why_not(r->why, "%s: %s%s is %s, not within %s and %s", r->path, prefix, f->name, num_double(number, a),
                     num_double(f->least, b), num_double(f->most, c));
    }
  } else if (isnan(number)) {
    return why_not(r->why, "%s: %s%s is %s", r->path, prefix, f->name, value ? "null" : "missing");
  }
  if (f->use == HF_INT) *(int64_t *)at = (int64_t)number;
  if (f->use == HF_REAL) *(double *)at = number;
  if (f->use == HF_BOOL) *(bool *)at = number != 0;
  return true;
}

/* Whether a value, printed as `given`, is this word of n bytes: the same text, or the same number. */
static bool is_word(const json_t *value, const char *given, const char *word, size_t n) {
  double number;
  char text[NUM_TEXT] = "";
  if (strlen(given) == n && !strncmp(given, word, n)) return true;
  if (n < sizeof text) memcpy(text, word, n);
  return json_is_number(value) && num_parse_double(text, &number) && number == json_number_value(value);
}

static bool check_only(const HfReader *r, const json_t *value, const char *prefix, const HfField *f) {
  if (!value || json_is_null(value)) return true;
  char *given = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
  CHECK(given);
  bool fits = false;
  for (const char *word = f->only; *word && !fits; word += strspn(word, " ")) {
    size_t n = strcspn(word, " ");
    fits = is_word(value, given, word, n);
    word += n;
  }
  if (!fits) why_not(r->why, "%s: %s%s is %.60s; only %s is built", r->path, prefix, f->name, given, f->only);
  free(given);
  return fits;
}

bool hf_field_read(const HfReader *r, const json_t *object, const char *prefix, const HfField *f, void *into) {
  const json_t *value = json_object_get(object, f->name);
  if (f->use == HF_SILENT) return true;
  return f->use == HF_ONLY ? check_only(r, value, prefix, f) : read_number(r, value, prefix, f, into);
}

/* --- all of them ---------------------------------------------------------------------------------------------------------- */

bool hf_fields_read(HfReader *r, const json_t *object, const char *prefix, const HfField *table, int n, unsigned of, void *into) {
  const char *name;
  json_t *value;
  for (int i = 0; i < n; i++)
    if (table[i].of & of && !hf_field_read(r, object, prefix, &table[i], into)) return false;
  json_object_foreach((json_t *)object, name, value) {
    int i = 0;
    while (i < n && !(table[i].of & of && !strcmp(table[i].name, name))) i++;
    if (i == n) hf_warn(r, prefix, name);
  }
  return true;
}

/* What must have one value is written where that is a word: of all else the class's own default is the one that is built. */
void hf_fields_write(json_t *object, const HfField *table, int n, unsigned of, const void *from) {
  for (int i = 0; i < n; i++) {
    const HfField *f = &table[i];
    const void *at = (const char *)from + f->offset;
    json_t *value = NULL;
    if (!(f->of & of) || f->use == HF_SILENT || (f->use == HF_ONLY && *f->only != '"')) continue;
    if (f->use == HF_INT) value = *(const int64_t *)at >= f->least ? json_integer(*(const int64_t *)at) : json_null();
    if (f->use == HF_REAL) value = json_real(*(const double *)at);
    if (f->use == HF_BOOL) value = json_boolean(*(const bool *)at);
    if (f->use == HF_ONLY) value = json_stringn(f->only + 1, strcspn(f->only + 1, "\""));
    CHECK(!json_object_set_new(object, f->name, value));
  }
}
