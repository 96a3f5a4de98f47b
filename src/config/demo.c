/* SPDX-License-Identifier: Apache-2.0 */
/* What runs when nobody says what to run: a small Llama that learns one story by its bytes. */
#include "src/base/fail.h"
#include "src/config/table.h"

const char demo_notes[] = "note  no ./hpctrain.yaml: training the built-in demo; Ctrl-C saves and stops\n"
                          "note  your own: hpctrain config --new > hpctrain.yaml; commands: hpctrain --help\n";

static const char run_file[] = "hpctrain: 1\n"
                               "run: {name: demo}\n"
                               "model:\n"
                               "  vocab_size: 256\n"
                               "  hidden_size: 128\n"
                               "  num_hidden_layers: 3\n"
                               "  num_attention_heads: 4\n"
                               "  num_key_value_heads: 2\n"
                               "  intermediate_size: 224\n"
                               "  tie_word_embeddings: true\n"
                               "data: {train: demo.bin, tokenizer: bytes, val_fraction: 0.1}\n"
                               "train:\n"
                               "  seq_len: 64\n"
                               "  duration: 300 steps\n"
                               "  global_batch_size: %d sequences\n"
                               "  lr: 3e-3\n"
                               "  min_lr: 3e-4\n"
                               "  schedule: cosine\n"
                               "  warmup: 20 steps\n"
                               "checkpoint: {every: 100 steps}\n"
                               "eval: {every: 50 steps}\n"
                               "log: {every: 10 steps}\n";

enum { SEQUENCES_A_RANK = 8 };

const char *demo_run_file(Arena *arena, int nranks) {
  CHECK(nranks > 0);
  return arena_printf(arena, run_file, SEQUENCES_A_RANK * nranks);
}
