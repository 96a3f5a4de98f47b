/* SPDX-License-Identifier: Apache-2.0 */
/* Sources: openai/tiktoken, tiktoken_ext/openai_public.py (gpt2 … o200k_base); meta-llama/llama3, llama/tokenizer.py (llama3:
 * 256 special tokens behind the ranks); Qwen/Qwen, tokenization_qwen.py (qwen: three, then 205 that are reserved). */
#include "io/tok_families.h"

#include <stddef.h>

#define GPT2 "'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^\\s\\p{L}\\p{N}]++|\\s++$|\\s+(?!\\S)|\\s"
#define CL100K                                                                                                                     \
  "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|"       \
  "\\s+(?!\\S)|\\s"
#define ENDINGS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LLAMA3 ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define QWEN ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define O200K                                                                                                                      \
  "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" ENDINGS "?|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" ENDINGS                      \
  "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

const TokFamily tok_families[] = {
    {"gpt2", 50256, GPT2, {{"<|endoftext|>", 50256}}, 0, NULL, "<|endoftext|>"},
    {"r50k_base", 0, GPT2, {{"<|endoftext|>", 50256}}, 0, NULL, "<|endoftext|>"},
    {"p50k_base", 50280, GPT2, {{"<|endoftext|>", 50256}}, 0, NULL, "<|endoftext|>"},
    {"cl100k_base",
     100256,
     CL100K,
     {{"<|endoftext|>", 100257},
      {"<|fim_prefix|>", 100258},
      {"<|fim_middle|>", 100259},
      {"<|fim_suffix|>", 100260},
      {"<|endofprompt|>", 100276}},
     0,
     NULL,
     "<|endoftext|>"},
    {"o200k_base", 199998, O200K, {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}, 0, NULL, "<|endoftext|>"},
    {"llama3",
     128000,
     LLAMA3,
     {{"<|begin_of_text|>", 128000},
      {"<|end_of_text|>", 128001},
      {"<|start_header_id|>", 128006},
      {"<|end_header_id|>", 128007},
      {"<|eot_id|>", 128009}},
     128256,
     "<|begin_of_text|>",
     "<|end_of_text|>"},
    {"qwen",
     151643,
     QWEN,
     {{"<|endoftext|>", 151643}, {"<|im_start|>", 151644}, {"<|im_end|>", 151645}},
     151851,
     NULL,
     "<|endoftext|>"},
};
const int tok_nfamilies = sizeof tok_families / sizeof *tok_families;
