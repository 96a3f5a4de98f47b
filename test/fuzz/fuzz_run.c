/* SPDX-License-Identifier: Apache-2.0 */
/* Run files, and words of the command line behind them, each after a NUL. */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "src/config/config.h"
#include "src/model/model.h"
#include "test/fuzz/fuzz.h"

enum { MOST = 1 << 12, WORDS_MOST = 16 };

static jmp_buf refused;

/* What is refused comes back here; what is our fault does not. */
static void come_back(FailKind kind, const char *text) {
  if (kind == FAIL_BUG || !*text) abort();
  longjmp(refused, 1);
}

static Config *parse(Arena *arena, const char *text, int argc, char **argv) {
  return setjmp(refused) ? NULL : config_parse(arena, "run.yaml", text, argc, argv);
}

/* What is taken can be worked with, or that is refused. */
static void ask(const Config *c) {
  if (setjmp(refused)) return;
  config_total_steps(c, 1000);
  config_check_batch(c, 3);
  config_buckets(c);
}

/* What is taken prints as a run file of the same values. */
static void read_and_print(const uint8_t *bytes, size_t n) {
  Arena *arena = arena_open();
  char *text = arena_strndup(arena, (const char *)bytes, n), *words[WORDS_MOST + 2] = {"hpctrain"}, *first[] = {"hpctrain", NULL};
  int argc = 1;
  for (const char *at = text + strlen(text) + 1; at <= text + n && argc <= WORDS_MOST; at += strlen(at) + 1)
    if (strchr(at, '=')) words[argc++] = arena_strdup(arena, at);
  fail_set_hook(come_back);
  Config *c = parse(arena, text, argc, words);
  if (c) {
    Text printed = {0};
    config_print(c, &printed);
    Config *again = parse(arena, printed.at, 1, first);
    if (!again || config_hash(again) != config_hash(c)) abort();
    text_close(&printed);
    ask(c);
  }
  arena_close(arena);
}

static FuzzBytes seed_of(Arena *arena, const char *text, const char *word) {
  size_t n = strlen(text), m = strlen(word);
  uint8_t *copy = arena_alloc(arena, n + m + 1);
  memcpy(copy, text, n);
  memcpy(copy + n + 1, word, m);
  return (FuzzBytes){copy, n + m + 1};
}

static int seeds(Arena *arena, FuzzBytes out[FUZZ_SEEDS]) {
  static const char start[] = "hpctrain: 1\ndata: {train: a.bin}\ntrain: {seq_len: 4Ki, duration: 2T tokens, lr: 3e-4, schedule: "
                              "cosine, global_batch_size: 4Mi tokens}\n";
  static const char lists[] =
      "model:\n  preset: llama-10m\ndata:\n  train: [a.bin, {path: b.bin, weight: 0.25}]\n  val: {one: c.bin, two: \"d.bin\"}\n"
      "parallel: {strategy: hybrid_shard, ignore: [\"*norm*\", '*bias']}\ntrain:\n  seq_len: 128\n  duration: 10 steps # of them\n"
      "  global_batch_size: 65536 tokens\n  lr: 0.001\n  groups:\n  - {match: \"*embed*\", lr_factor: 0.1, weight_decay: 0}\n"
      "  - match: ['*.0.*', x]\n    trainable: false\ncheckpoint: {every: 2 steps, keep: 3}\nmemory: {recompute: auto}\n";
  static const char kinds[] = /* of values: sets, ranges, bytes, times, lengths, renames */
      "hpctrain: 1\n"
      "run: {name: a, folder: runs/a, debug: [ir, mem], tune: true}\n"
      "model:\n"
      "  from: m\n"
      "  rename: [{from: \"transformer.*\", to: \"model.*\"}]\n"
      "  fresh: lm_head.weight\n"
      "  skip: [\"vision.*\", v]\n"
      "data:\n"
      "  train: [b.jsonl, {path: \"c.jsonl\"}]\n"
      "  format: chat\n"
      "  train_on_inputs: false\n"
      "  tokenizer: t\n"
      "  chat_template: llama3\n"
      "  buckets: [256, 512, 1024]\n"
      "train:\n"
      "  seq_len: 2048\n"
      "  duration: 3 epochs\n"
      "  global_batch_size: 128 sequences\n"
      "  micro_batch_size: 4\n"
      "  lr: 3e-4\n"
      "  warmup: 3%\n"
      "  time_limit: 90min\n"
      "  schedule: cosine\n"
      "checkpoint: {every: 1000 steps, keep_every: 50000 steps, async: true}\n"
      "memory: {recompute: {auto: 60GiB}, offload: [moments, gradients]}\n"
      "profile: {steps: 10-12}\n"
      "health: {timeout: 2h, spike: 6}\n";
  static const char sizes[] = "hpctrain: 1\n"
                              "model: {preset: llama-10m}\n"
                              "data: {train: a.bin, val_fraction: 0.02}\n"
                              "train: {seq_len: 1024, duration: 100M tokens, global_batch_size: 65536 tokens, lr: 1e-3, schedule: "
                              "wsd, decay: 10%, time_limit: none}\n"
                              "memory: {recompute: auto, optimizer: host, offload: [moments, masters, gradients]}\n"
                              "precision: {compute: bf16}\n";
  int n = 0;
  config_set_presets(model_presets());
  out[n++] = seed_of(arena, start, "model.preset=llama-10m");
  out[n++] = seed_of(arena, start, "train.groups=[{match: \"*\", lr_factor: 2}]");
  out[n++] = seed_of(arena, start, "model.from=folder");
  out[n++] = seed_of(arena, lists, "checkpoint.keep=5");
  out[n++] = seed_of(arena, kinds, "data.buckets=64, 128");
  out[n++] = seed_of(arena, kinds, "memory.recompute=auto: 1.5 GB");
  out[n++] = seed_of(arena, sizes, "profile.steps=10-12");
  return n;
}

static const char *const words[] = {"train:",
                                    "lr: ",
                                    "1e308",
                                    "-0",
                                    "9223372036854775807",
                                    "16Ki tokens",
                                    "50%",
                                    "none",
                                    "auto",
                                    "null",
                                    "[]",
                                    "{}",
                                    "[[[[[[[[",
                                    "&a ",
                                    "*a",
                                    "!!int ",
                                    "<<: ",
                                    "---\n",
                                    "? ",
                                    "|\n  ",
                                    "\"\\u0000\"",
                                    "\xef\xbb\xbf",
                                    "\t",
                                    "\r\n",
                                    "- ",
                                    ": ",
                                    "#",
                                    "'",
                                    "model:",
                                    "from: x",
                                    "vocab_size: ",
                                    "64GiB",
                                    "90min",
                                    "10-12",
                                    "[64, 128]",
                                    "{auto: 1TB}",
                                    "trainable: false",
                                    NULL};

const FuzzTarget fuzz_target = {"a_run_file_is_read_or_refused", read_and_print, seeds, words, MOST};
