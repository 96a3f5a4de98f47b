/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.json, *.tiktoken and SentencePiece models: refused with a reason, or fit to encode and decode with. */
#include <stdlib.h>
#include <string.h>

#include "io/tokenizer.h"
#include "src/base/module.h"
#include "test/fuzz/fuzz.h"
#include "test/sp_model.h"
#include "test/tiktoken_ranks.h"

enum { VOCAB_TRIED = 600, SHOWN = 2000 }; /* ids; showing decodes them one by one, a normalizer makes millions of a text */

static void use(const Tokenizer *t) {
  static const char text[] =
      "  The quick <|endoftext|> brown\0 fox's 1234567 caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac \xff\xe2\x82 </s>\n\n"
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
  TokenizerWork *w = tokenizer_work_open(t);
  Ids ids = {0};
  Text out = {0};
  if (try_tokenizer_encode(w, text, sizeof text - 1, &ids, NULL))
    for (int64_t i = 0; i < ids.n; i++) CHECK(tokenizer_has(t, ids.at[i]));
  for (int32_t id = -1; id < VOCAB_TRIED; id++) ids_add(&ids, &id, 1);
  const Ids *before, *after;
  tokenizer_template(t, &before, &after);
  for (int64_t i = 0; i < before->n; i++) CHECK(tokenizer_has(t, before->at[i]));
  for (int raw = 0; raw < 2; raw++) try_tokenizer_decode(t, ids.at, ids.n, raw, &out, NULL);
  try_tokenizer_show(t, ids.at, ids.n < SHOWN ? ids.n : SHOWN, &out, NULL);
  text_close(&out);
  ids_close(&ids);
  tokenizer_work_close(w);
}

static void read_and_use(const uint8_t *bytes, size_t n) {
  Tokenizer *t;
  Why why = {""};
  bool ok = try_tokenizer_parse("/dev/null/tokenizer", (const char *)bytes, n, n % 2 ? NULL : "gpt2", &t, &why);
  if (!ok) ok = try_tokenizer_parse("/dev/null/tokenizer", (const char *)bytes, n, NULL, &t, &why);
  CHECK(ok || *why.text);
  if (!ok) return;
  use(t);
  tokenizer_close(t);
}

/* Small ones, so that a change hits what matters; and the golden models. */
#define MODEL                                                                                                                      \
  "\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"byte_fallback\":true,\"vocab\":{\"u\":0,\"a\":1,\"b\":2,\"ab\":3,"            \
  "\"\\u2581\":4},\"merges\":[\"a b\"]}"

static FuzzBytes keep_take(Arena *arena, Text *text) {
  FuzzBytes bytes = {(const uint8_t *)arena_strndup(arena, text->at, text->n), text->n};
  text_close(text);
  return bytes;
}

/* A SentencePiece model whose keys fill the library's room. */
static FuzzBytes full_model(Arena *arena) {
  static uint32_t units[SP_UNITS];
  Text model = {0};
  sp_make_keys(units, 32);
  sp_make_model(&model, 64, units, sizeof units / sizeof *units);
  return keep_take(arena, &model);
}

static FuzzBytes small_model(Arena *arena, int type) {
  Text model = {0};
  sp_make_small(&model, type);
  return keep_take(arena, &model);
}

static int seeds(Arena *arena, FuzzBytes out[FUZZ_SEEDS]) {
  static const char *const small[] = {
      "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":0,\"content\":\"u\",\"lstrip\":true,\"rstrip\":true,\"single_word\":true,"
      "\"normalized\":true,\"special\":true}],\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\","
      "\"prepend\":\"\\u2581\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\\u2581\"},{\"type\":\"NFKC\"},"
      "{\"type\":\"Lowercase\"},{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}]},\"decoder\":{\"type\":\"Sequence\","
      "\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"\\u2581+\"},\"content\":\" "
      "\"},{\"type\":\"ByteFallback\"},{\"type\":"
      "\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}," MODEL "}",
      "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true},{\"type\":"
      "\"Split\","
      "\"pattern\":{\"Regex\":\"(?i:'s|'t)|[^\\\\r\\\\n\\\\p{L}]?\\\\p{L}+|\\\\s+(?!\\\\S)\"},\"behavior\":\"MergedWithNext\","
      "\"invert\":"
      "false},{\"type\":\"Punctuation\"},{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"use_regex\":true}]},\"decoder\":{"
      "\"type\":"
      "\"ByteLevel\"},"
      "\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[[\"a\",\"b\"]],\"ignore_merges\":true}}",
      "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\",\"prepend_scheme\":\"first\",\"split\":true},"
      "\"decoder\":"
      "{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\"},\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{"
      "\"SpecialToken\":"
      "{\"id\":\"u\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"special_tokens\":{\"u\":{\"id\":\"u\",\"ids\":["
      "0]}}}," MODEL "}",
      "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"e\"},\"content\":"
      "\"eeeeeeee\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"e\"},\"content\":\"e\\u0000\\uffffe\"},{\"type\":\"Strip\"}]},"
      "\"added_tokens\":[{\"id\":5,\"content\":\" \",\"lstrip\":false,\"rstrip\":true,\"normalized\":false},{\"id\":6,\"content\":"
      "\"</s>\"}],\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Metaspace\",\"replacement\":\"a\"},{"
      "\"type\":\"Metaspace\",\"replacement\":\"b\"},{\"type\":\"Metaspace\",\"replacement\":\"a\"}]},\"model\":{\"vocab\":{\"a\":"
      "0,"
      "\"\\uffff\":1,\"\\u0000\":2,\"e\":3,\"\\uffff\\u0000\":4},\"merges\":[\"\\uffff \\u0000\"]}}",
      "{\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"CharDelimiterSplit\","
      "\"delimiter\":\"x\"},{\"type\":\"WhitespaceSplit\"},{\"type\":\"Whitespace\"},{\"type\":\"Punctuation\",\"behavior\":"
      "\"Isolated\"},{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Contiguous\",\"invert\":true}]},\"post_"
      "processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"BertProcessing\",\"sep\":[\"a\",0],\"cls\":[\"b\",1]},{"
      "\"type\":\"ByteLevel\",\"trim_offsets\":true},{\"type\":\"RobertaProcessing\",\"sep\":[\"a\",0],\"cls\":[\"b\",1],\"trim_"
      "offsets\":true,\"add_prefix_space\":true}]},\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"<0x20>\":2},\"merges\":[],\"byte_"
      "fallback\":true,\"unk_token\":\"b\",\"fuse_unk\":true}}"};
  const char *build = getenv("builddir");
  int n = 0;
  module_look_in(build ? build : ".");
  for (size_t i = 0; i < sizeof small / sizeof *small; i++) out[n++] = fuzz_text(small[i]);
  Text ranks = {0};
  tiktoken_ranks(&ranks);
  out[n++] = keep_take(arena, &ranks);
  out[n++] = full_model(arena);
  out[n++] = small_model(arena, 1);
  out[n++] = small_model(arena, 2);
  return n;
}

static const char *const words[] = {"null",
                                    "true",
                                    "false",
                                    "0",
                                    "-1",
                                    "16777215",
                                    "99999999999",
                                    "[]",
                                    "{}",
                                    "\"\"",
                                    "\"type\":\"Sequence\"",
                                    "\"type\":\"NFC\"",
                                    "\"type\":\"Whitespace\"",
                                    "\"type\":\"BertProcessing\"",
                                    "\"post_processor\":",
                                    "\"behavior\":\"Contiguous\"",
                                    "\"Regex\":\"(a|aa)+$\"",
                                    "\"Regex\":\"[[:alpha:]]*\"",
                                    "\"Regex\":\"(?R)\"",
                                    "\"String\":\"\"",
                                    "\\u0000",
                                    "\\uffff",
                                    "<0xFF>",
                                    " 3000000\n",
                                    NULL};

const FuzzTarget fuzz_target = {"a_tokenizer_is_read_or_refused", read_and_use, seeds, words, 1 << 13};
