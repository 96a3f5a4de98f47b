/* SPDX-License-Identifier: Apache-2.0 */
/* Run files and command lines, good and bad. */
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/file.h"
#include "src/base/rng.h"
#include "src/base/text.h"
#include "src/config/table.h"
#include "test/check.h"

static const char good[] = "hpctrain: 1\n"
                           "model: {preset: llama2-7b}\n"
                           "data: {train: a.bin}\n"
                           "train:\n"
                           "  seq_len: 4096\n"
                           "  duration: 2T tokens\n"
                           "  global_batch_size: 4Mi tokens\n"
                           "  lr: 3e-4\n"
                           "  schedule: cosine\n";

/* good with these words of a command line, separated by blanks (none holds one). */
static Config *load_words(Arena *arena, const char *text, const char *words) {
  char *argv[32] = {"test"}, *copy = arena_strdup(arena, words), *rest;
  int argc = 1;
  for (char *word = strtok_r(copy, " ", &rest); word && argc < 32; word = strtok_r(NULL, " ", &rest)) argv[argc++] = word;
  return config_parse(arena, "llama7b.yaml", text, argc, argv);
}

static Config *load_text(Arena *arena, const char *text) { return load_words(arena, text, ""); }

/* A file of good with these words, without what has no use beside the rest. */
static Config *load_usable(Arena *arena, const char *words, const char **left_out) {
  const char *path = check_path("usable.yaml");
  char *argv[32] = {"test", (char *)path}, *copy = arena_strdup(arena, words), *rest;
  int argc = 2;
  Why why;
  EXPECT(try_file_write(path, good, strlen(good), &why));
  for (char *word = strtok_r(copy, " ", &rest); word && argc < 32; word = strtok_r(NULL, " ", &rest)) argv[argc++] = word;
  return config_load_usable(arena, argc, argv, 1, left_out);
}

TEST(what_has_no_use_can_be_left_out) {
  static const struct {
    const char *words, *left_out;
  } rows[] = {
      {"", ""},
      {"parallel.units_alive=3", ""},
      {"parallel.units_alive=3 parallel.strategy=shard_opt", "parallel.units_alive"},
      {"parallel.strategy=shard_grad_op parallel.accumulate=whole parallel.shard_degree=2",
       "parallel.shard_degree parallel.accumulate"},
      {"train.schedule=wsd train.decay=10%", ""},
      {"train.decay=10%", "train.decay"},
      {"health.spike=none health.on_spike=back health.backs=3",
       "health.on_spike health.backs"}, /* the last for want of the first */
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    Arena *arena = arena_open();
    const char *left_out;
    Config *c = load_usable(arena, rows[i].words, &left_out);
    EXPECT_TEXT(left_out, rows[i].left_out);
    EXPECT(!strstr(left_out, "accumulate") || c->parallel.accumulate == ACCUMULATE_SHARD); /* as if it had not been given */
    arena_close(arena);
  }
  Arena *arena = arena_open();
  const char *left_out;
  EXPECT_FAIL(FAIL_INPUT, "unknown key", load_usable(arena, "train.decay=10% train.lrr=1", &left_out));
  arena_close(arena);
}

/* ---- values ---- */

TEST(amounts_have_exact_values_and_units) {
  static const struct {
    const char *key, *text;
    double value;
    Unit unit;
  } rows[] = {
      {"train.duration", "2T tokens", 2e12, UNIT_TOKENS},
      {"train.duration", "5000 steps", 5000, UNIT_STEPS},
      {"train.duration", "1 step", 1, UNIT_STEPS},
      {"train.duration", "3 epochs", 3, UNIT_EPOCHS},
      {"train.duration", "0.5 epochs", 0.5, UNIT_EPOCHS},
      {"train.duration", "2epochs", 2, UNIT_EPOCHS}, /* not an exponent */
      {"train.duration", "2e3 steps", 2000, UNIT_STEPS},
      {"train.duration", "4.35K steps", 4350, UNIT_STEPS},
      {"train.global_batch_size", "4Mi tokens", 4194304, UNIT_TOKENS},
      {"train.global_batch_size", "1024 sequences", 1024, UNIT_SEQUENCES},
      {"train.global_batch_size", "1Gi tokens", 1073741824, UNIT_TOKENS},
      {"train.stop_after", "10steps", 10, UNIT_STEPS},
      {"train.stop_after", "2Ktokens", 2000, UNIT_TOKENS},
      {"train.stop_after", "none", 0, UNIT_NONE},
      {"train.time_limit", "auto", 0, UNIT_AUTO},
      {"train.time_limit", "none", 0, UNIT_NONE},
      {"train.time_limit", "600s", 600, UNIT_SECONDS},
      {"train.time_limit", "1.5 h", 5400, UNIT_SECONDS},
      {"train.time_limit", "90min", 5400, UNIT_SECONDS},
      {"train.time_limit", "2 days", 172800, UNIT_SECONDS},
      {"train.warmup", "3%", 3, UNIT_PERCENT},
      {"train.warmup", "0", 0, UNIT_STEPS},           /* all readings of nothing agree */
      {"checkpoint.every", "1000", 1000, UNIT_STEPS}, /* there is one reading */
      {"eval.tokens", "10M", 1e7, UNIT_TOKENS},
  };
  Arena *arena = arena_open();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    Config c = {0};
    Fault fault = {0};
    const Key *key = key_find_path(rows[i].key);
    EXPECT(value_parse(arena, key, rows[i].text, &c, &fault));
    const Amount *amount = (const Amount *)(const void *)((const char *)&c + key->offset);
    EXPECT(amount->value == rows[i].value);
    EXPECT(amount->unit == rows[i].unit);
  }
  arena_close(arena);
}

/* An eighth, a quarter and half of a sequence, in whole eights and none shorter than 64; or as asked, with the sequence itself. */
TEST(buckets_come_to_lengths) {
  static const struct {
    const char *words, *printed, *lengths;
  } rows[] = {{"data.buckets=none", "none", "4096 "},
              {"data.buckets=auto", "auto", "512 1024 2048 4096 "},
              {"data.buckets=auto train.seq_len=300 train.global_batch_size=1sequences", "auto", "80 152 300 "},
              {"data.buckets=auto train.seq_len=1100 train.global_batch_size=1sequences", "auto", "256 384 640 1100 "},
              {"data.buckets=auto train.seq_len=1024 train.global_batch_size=1sequences", "auto", "128 256 512 1024 "},
              {"data.buckets=auto train.seq_len=64 train.global_batch_size=1sequences", "auto", "64 "},
              {"data.buckets=1Ki", "[1024]", "1024 4096 "},
              {"data.buckets=[256,512,3000]", "[256, 512, 3000]", "256 512 3000 4096 "},
              {"data.buckets=1,2,3,4096", "[1, 2, 3, 4096]", "1 2 3 4096 "}};
  Arena *arena = arena_open();
  ptrdiff_t to_data = strstr(good, "data:") - good;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    Config *c = load_words(arena, good, arena_printf(arena, "data.format=chat %s", rows[i].words));
    const Key *key = key_find_path("data.buckets");
    Text text = {0}, all = {0};
    value_print(key, c, &text);
    EXPECT_TEXT(text.at, rows[i].printed);
    Config *again = load_text(arena, arena_printf(arena, "%.*sdata: {train: a.bin, format: chat, buckets: %s}\n%s", (int)to_data,
                                                  good, text.at, strstr(good, "train:\n")));
    EXPECT(!memcmp(&again->data.buckets, &c->data.buckets, sizeof c->data.buckets));
    Lengths lengths = config_buckets(c);
    for (int n = 0; n < lengths.n; n++) text_printf(&all, "%lld ", (long long)lengths.at[n]);
    EXPECT_TEXT(all.at, rows[i].lengths);
    text_close(&text);
    text_close(&all);
  }
  static const char *const bad[][2] = {{"data.buckets=[]", "'data.buckets' wants lengths"},
                                       {"data.buckets=[512,256]", "'data.buckets' wants ascending lengths"},
                                       {"data.buckets=[0,256]", "'data.buckets' is out of range"},
                                       {"data.buckets=long", "'data.buckets' wants a whole number"},
                                       {"data.buckets=1,2,3,4,5", "'data.buckets' has too many lengths"},
                                       {"data.buckets=1,2,3,4", "too many buckets"},
                                       {"data.buckets=[5000]", "a bucket is longer than all rows"},
                                       {"data.buckets=a,b", "'data.buckets' wants a whole number"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    EXPECT_FAIL(FAIL_INPUT, bad[i][1], load_words(arena, good, arena_printf(arena, "data.format=chat %s", bad[i][0])));
  EXPECT_FAIL(FAIL_INPUT, "'data.buckets' has no use here", load_words(arena, good, "data.buckets=auto"));
  arena_close(arena);
}

TEST(bytes_read_back) {
  static const struct {
    const char *text, *printed;
    int64_t nbytes;
  } rows[] = {{"auto", "auto", 0},
              {"auto: fit", "auto", 0},
              {"{auto: fit}", "auto", 0},
              {"auto:60GiB", "{auto: 60GiB}", (int64_t)60 << 30},
              {"auto: 1.5 GiB", "{auto: 1536MiB}", (int64_t)3 << 29},
              {"{auto: 64GB}", "{auto: 64GB}", 64000000000},
              {"auto: 64000000001B", "{auto: 64000000001B}", 64000000001}};
  Arena *arena = arena_open();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    Config *c = load_words(arena, good, "");
    const Key *key = key_find_path("memory.recompute");
    Fault fault = {0};
    for (int again = 0; again < 2; again++) {
      EXPECT(value_parse(arena, key, again ? rows[i].printed : rows[i].text, c, &fault));
      EXPECT(c->memory.recompute.choice == RECOMPUTE_AUTO && c->memory.recompute.nbytes == rows[i].nbytes);
      Text text = {0};
      value_print(key, c, &text);
      EXPECT_TEXT(text.at, rows[i].printed);
      text_close(&text);
    }
  }
  Config *c = load_text(arena, arena_printf(arena, "%smemory: {recompute: {auto: 2TB}}\n", good));
  EXPECT(c->memory.recompute.choice == RECOMPUTE_AUTO && c->memory.recompute.nbytes == 2000000000000);
  arena_close(arena);
}

TEST(values_that_are_not_meant_are_refused) {
  static const struct {
    const char *word, *what;
  } rows[] = {
      {"train.lr=fast", "'train.lr' wants a number"},
      {"train.lr=0x1", "'train.lr' wants a number"},
      {"train.lr=nan", "'train.lr' wants a number"},
      {"train.lr=inf", "'train.lr' wants a number"},
      {"train.lr=1e999", "'train.lr' wants a number"},
      {"train.lr=0,1", "'train.lr' wants a number"},
      {"train.lr=1e-4x", "'train.lr' wants a number"},
      {"train.lr=0", "0 < lr <= 1"},
      {"train.lr=2", "0 < lr <= 1"},
      {"train.beta2=1", "0 <= beta2 < 1"},
      {"train.seq_len=1.5", "'train.seq_len' wants a whole number"},
      {"train.seq_len=-1", "1 <= seq_len"},
      {"train.seq_len=4k", "K M B T are 1000s"},
      {"train.seq_len=9e99", "'train.seq_len' wants a whole number"},
      {"run.tune=yes", "'run.tune' wants a boolean"},
      {"run.tune=True", "true or false"},
      {"run.tune=1", "true or false"},
      {"train.schedule=cosin", "constant, linear, cosine or wsd; did you mean 'cosine'?"},
      {"precision.compute=bf8", "'precision.compute' knows no 'bf8'"},
      {"precision.compute=bfloat16", "fp32, bf16 or fp16; called 'bf16' here"},
      {"precision.compute=BF16", "called 'bf16' here"},
      {"device.kind=gpu", "called 'cuda' here"},
      {"parallel.strategy=FSDP", "called 'full_shard' here"},
      {"memory.recompute=full", "called 'block' here"},
      {"run.debug=ir,men", "'run.debug' knows no 'men'"},
      {"train.duration=5000", "5000 steps, 5000 tokens or 5000 epochs"},
      {"train.global_batch_size=5M", "5M tokens or 5M sequences"},
      {"train.duration=3%", "'train.duration' does not go in %"},
      {"train.duration=3hours", "'train.duration' knows no unit 'hours'"},
      {"train.duration=auto", "'train.duration' wants an amount"},
      {"train.time_limit=30", "'train.time_limit' needs a unit"},
      {"train.time_limit=2m", "longer: 90min, 24h, 2d"},
      {"train.time_limit=0s", "0 < time_limit"},
      {"train.duration=0steps", "0 < duration"},
      {"train.warmup=3.5steps", "'train.warmup' wants whole steps"},
      {"train.warmup=101%", "at most 100%"},
      {"train.warmup=-1steps", "0 <= warmup"},
      {"train.stop_after=", "'train.stop_after' has no value"},
      {"run.name=", "'run.name' has no value"},
      {"memory.recompute=atuo", "did you mean 'auto'?"},
      {"memory.recompute=auto:60", "'memory.recompute' wants bytes behind 'auto'"},
      {"memory.recompute=auto: 60Gi", "such as 60GiB or 64GB, or fit"},
      {"memory.recompute=auto: 9.9e20GiB", "such as 60GiB or 64GB, or fit"},
      {"memory.recompute=auto: -1GiB", "'memory.recompute' wants bytes behind 'auto'"},
      {"memory.recompute=auto: 0.1B", "'memory.recompute' wants bytes behind 'auto'"},
      {"memory.recompute=cheap: 60GiB", "'memory.recompute' has nothing behind 'cheap'"},
      {"hpctrain=2", "1 <= hpctrain <= 1"},
  };
  Arena *arena = arena_open();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    EXPECT_FAIL(FAIL_INPUT, rows[i].what, load_words(arena, good, rows[i].word));
  arena_close(arena);
}

TEST(every_default_and_example_is_a_value_of_its_key) {
  Arena *arena = arena_open();
  for (int i = 0; i < nkeys; i++) {
    Config c = {0};
    Fault fault = {0};
    if (keys[i].fallback) EXPECT(value_parse(arena, &keys[i], keys[i].fallback, &c, &fault));
    if (!keys[i].example) continue;
    if (key_has_places(&keys[i])) {
      Problems p = {.arena = arena};
      Place place;
      const Node *node = yaml_read_value(&p, keys[i].example, (Place){.argument = 1, .column = 1});
      EXPECT(node && value_parse_node(arena, &keys[i], node, &c, &fault, &place));
      continue;
    }
    char *copy = arena_strdup(arena, keys[i].example), *rest;
    const char *between = keys[i].type == KEY_SET || keys[i].type == KEY_LENGTHS ? "" : ",";
    for (char *at = strtok_r(copy, between, &rest); at; at = strtok_r(NULL, between, &rest)) {
      EXPECT(value_parse(arena, &keys[i], at + strspn(at, " "), &c, &fault));
    }
  }
  arena_close(arena);
}

TEST(every_key_is_documented_and_lies_in_a_known_section) {
  for (int i = 0; i < nkeys; i++) {
    EXPECT(keys[i].help && *keys[i].help);
    EXPECT(!keys[i].required || keys[i].example);
    EXPECT(keys[i].example || keys[i].fallback || keys[i].choices);
    bool known = !*keys[i].section;
    for (int s = 0; s < nsections; s++) known |= !strcmp(sections[s].name, keys[i].section);
    EXPECT(known);
    for (int j = 0; j < i; j++) EXPECT(strcmp(keys[i].section, keys[j].section) != 0 || strcmp(keys[i].name, keys[j].name) != 0);
  }
}

/* ---- files ---- */

TEST(a_file_is_read_into_typed_fields) {
  Arena *arena = arena_open();
  Config *c = load_words(arena, good, "train.lr=1e-3 run.debug=ir,comm data.val=v.bin cpu.threads=2 memory.recompute=block");
  EXPECT(c->train.lr == 1e-3);
  EXPECT(c->train.seq_len == 4096);
  EXPECT(c->train.schedule == SCHEDULE_COSINE);
  EXPECT(c->run.debug == (DEBUG_IR | DEBUG_COMM));
  EXPECT(c->memory.recompute.choice == RECOMPUTE_BLOCK);
  EXPECT(c->cpu.threads == 2);
  EXPECT(c->data.train.n == 1 && c->data.val.n == 1);
  EXPECT_TEXT(c->data.train.at[0].path.text, "a.bin");
  EXPECT_TEXT(c->data.val.at[0].name, "val");
  EXPECT_TEXT(c->model.preset, "llama2-7b");
  EXPECT(!c->model.from && !c->demo);
  EXPECT_TEXT(c->run.name, "llama7b");
  EXPECT_TEXT(c->run.folder, "runs/llama7b");
  EXPECT(c->parallel.accumulate == ACCUMULATE_SHARD);
  EXPECT(c->eval.every.value == 1000 && c->eval.every.unit == UNIT_STEPS);
  arena_close(arena);
}

static void expect_bad_file(const char *text, const char *what) {
  Arena *arena = arena_open();
  EXPECT_FAIL(FAIL_INPUT, what, load_text(arena, text));
  arena_close(arena);
}

static void expect_bad_addition(const char *added, const char *what) {
  char text[4096];
  snprintf(text, sizeof text, "%s%s", good, added);
  expect_bad_file(text, what);
}

TEST(unknown_keys_are_told_with_place_and_suggestion) {
  expect_bad_addition("  learning_rate: 1\n",
                      "unknown key 'train.learning_rate'\n  --> llama7b.yaml:10:3\n10 |   learning_rate: 1\n"
                      "   |   ^^^^^^^^^^^^^ called 'lr' here\n");
  expect_bad_addition("  lrr: 1\n", "did you mean 'lr'?");
  expect_bad_addition("  keep: 1\n", "belongs in 'checkpoint'");
  expect_bad_addition("  n_embd: 1\n", "called 'model.hidden_size' here");
  expect_bad_addition("  recompte: 1\n", "did you mean 'memory.recompute'?");
  expect_bad_addition("  zzzz: 1\n", "hpctrain help train lists the keys");
  expect_bad_addition("training: {}\n", "called 'train' here");
  expect_bad_addition("chekpoint: {}\n", "did you mean 'checkpoint'?");
  expect_bad_addition("warmup: 3\n", "unknown section 'warmup'");
}

TEST(files_that_say_two_things_are_refused) {
  expect_bad_addition("  lr: 1\n", "'lr' is given twice\n  --> llama7b.yaml:10:3\n10 |   lr: 1\n   |   ^^ first on line 8\n");
  expect_bad_addition("train: {}\n", "'train' is given twice");
  expect_bad_addition("---\na: 1\n", "a run file is one YAML document");
  expect_bad_addition("run: {name: &x a, folder: *x}\n", "aliases have no meaning");
  expect_bad_addition("run: {name: !!str a}\n", "tags and NUL bytes");
  expect_bad_addition("run: {name: \"a\\0b\"}\n", "tags and NUL bytes");
}

TEST(files_of_another_form_are_refused) {
  expect_bad_file("train: {lr: 3\n", "not YAML: libyaml says 'did not find expected ',' or '}'");
  expect_bad_file("run:\ntrain: {lr: 3\n", "^ what begins on line 2 has no end");
  expect_bad_file("train:\n\tlr: 3\n", "llama7b.yaml:2:1\n2 |  lr: 3\n  | ^ a tab: ");
  expect_bad_file("\xff\xfe\x01", "not text: libyaml says");
  expect_bad_file("[1, 2]\n", "a run file is sections of keys");
  expect_bad_file("hello\n", "a run file is sections of keys");
  expect_bad_file("{{a: 1}: 2}\n", "a key is a word");
  expect_bad_file("[[[[[[[[[[[[[[[[[[[[[[[[", "nested more than 16 deep");
  expect_bad_addition("checkpoint: 3\n", "'checkpoint' is a section of keys");
  expect_bad_addition("memory: {recompute: {auto: 1GiB, b: 1}}\n", "'memory.recompute' is one value");
  expect_bad_addition("memory: {recompute: {auto: [1]}}\n", "'memory.recompute' is one value");
  expect_bad_addition("memory: {recompute: {auto: 7}}\n", "'memory.recompute' wants bytes behind 'auto'");
  expect_bad_addition("  beta1: [1]\n", "'train.beta1' is one value, not a list");
  expect_bad_addition("  beta1: {a: 1}\n", "'train.beta1' is one value, not a section");
  expect_bad_addition("  beta1:\n", "'train.beta1' has no value");
  expect_bad_addition("  beta1: ~\n", "'train.beta1' has no value");
}

/* The run folder's copy could not be read again. */
TEST(a_word_that_no_run_file_can_hold_is_refused) {
  Arena *arena = arena_open();
  EXPECT_FAIL(FAIL_INPUT, "'model.from' is no UTF-8", load_words(arena, good, "model.from=caf\xe9/x"));
  arena_close(arena);
}

TEST(files_of_very_many_items_are_refused) {
  static const char *const starts[] = {"", "train:\n", "train: {groups: [", "data: {train: ["}, *const items[] = {"%d:\n",
                                                                                                                  " a%d: 1\n",
                                                                                                                  "{},", "a,"};
  for (int kind = 0; kind < 4; kind++) {
    Arena *arena = arena_open();
    Text text = {0};
    text_printf(&text, "%s", starts[kind]);
    for (int i = 0; text.n < 250000; i++) text_printf(&text, items[kind], i);
    EXPECT_FAIL(FAIL_INPUT, "more than 10000 items", load_text(arena, text.at));
    EXPECT_FAIL(FAIL_INPUT, "a pattern, such as \"data/*.bin\"", load_text(arena, text.at));
    text_close(&text);
    arena_close(arena);
  }
}

TEST(all_missing_keys_are_listed) {
  expect_bad_file("", "8 required keys are missing\n  --> llama7b.yaml\n");
  static const char *const names[] = {"   | model ",          "   | data.train ", "   | train.seq_len ",
                                      "   | train.duration ", "   | train.lr ",   "   | train.global_batch_size ",
                                      "   | train.schedule ", "   | hpctrain "};
  for (int i = 0; i < 8; i++) expect_bad_file("", names[i]);
  expect_bad_file("model: {vocab_size: 5}\n", "   | model.hidden_size ");
}

TEST(all_errors_of_a_file_come_in_one_message_in_order) {
  expect_bad_file(
      "hpctrain: 1\nmodel: {preset: x}\ndata: {train: a}\ntrain: {lr: 3, seq_len: a}\n",
      "error: 'train.lr' is out of range\n --> llama7b.yaml:4:13\n4 | train: {lr: 3, seq_len: a}\n  |             ^ 0 < lr <= 1\n"
      "\nerror: 'train.seq_len' wants a whole number\n --> llama7b.yaml:4:25\n4 | train: {lr: 3, seq_len: a}\n"
      "  |                         ^\n\nerror: 3 required keys are missing\n");
}

TEST(data_sets_are_a_path_or_a_list_or_a_name) {
  static const char *const forms[] = {"v.bin", "[v.bin]", "[{path: v.bin}]", "{val: v.bin}", "\n    - path: v.bin"};
  for (int i = 0; i < 5; i++) {
    Arena *arena = arena_open();
    const char *text = arena_printf(arena, "hpctrain: 1\nmodel: {preset: x}\ndata:\n  train: a.bin\n  val: %s\n%s", forms[i],
                                    strstr(good, "train:\n"));
    Config *c = load_text(arena, text);
    EXPECT(c->data.val.n == 1);
    EXPECT_TEXT(c->data.val.at[0].path.text, "v.bin");
    EXPECT_TEXT(c->data.val.at[0].name, "val");
    arena_close(arena);
  }
  const char *head = "data: {train: ", *bad[][2] = {{"[]", "holds 0 data sets"},
                                                    {"a.bin, val: [a, b]", "holds 2 data sets"},
                                                    {"{a: b, c: d}", "holds 2 data sets"},
                                                    {"[{path: a, size: 1}]", "unknown key 'size'"},
                                                    {"a.bin, val: [{path: a, weight: 1}]", "unknown key 'weight'"},
                                                    {"[{path: a, weight: 0}]", "'weight' is out of range"},
                                                    {"[{path: a, weight: -1}, b]", "'weight' is out of range"},
                                                    {"[{}]", "an item without 'path'"},
                                                    {"[[a]]", "no path"},
                                                    {"{a: [b]}", "a name without a path"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char text[256];
    snprintf(text, sizeof text, "%s%s}\n", head, bad[i][0]);
    expect_bad_file(text, bad[i][1]);
  }
}

TEST(a_mixture_has_weights_for_all_of_its_items_or_for_none) {
  Arena *arena = arena_open();
  Config *c = load_words(
      arena, good, "data.train=[{\"path\":a*.bin,\"weight\":0.9},{\"path\":\"b\",\"weight\":1e-1}] data.val={\"x\":v,\"y\":w}");
  EXPECT(c->data.train.n == 2 && c->data.train.at[0].weight == 0.9 && c->data.train.at[1].weight == 0.1 && c->data.val.n == 2);
  EXPECT_TEXT(c->data.train.at[0].path.text, "a*.bin");
  EXPECT_TEXT(c->data.val.at[1].name, "y");
  c = load_words(arena, good, "data.train=[a,{\"path\":b}]");
  EXPECT(c->data.train.n == 2 && c->data.train.at[1].weight == 0);
  EXPECT_FAIL(FAIL_INPUT,
              "'data.train' has weights for some of its items only\n  --> argument 1: data.train=[{\"path\":a,\"weight\":1},b]\n"
              "                                                    ^ a weight, as others have",
              load_words(arena, good, "data.train=[{\"path\":a,\"weight\":1},b]"));
  EXPECT_FAIL(FAIL_INPUT, "sources of a mixture have epochs of their own",
              load_words(arena, good, "data.train=[{\"path\":a,\"weight\":1},{\"path\":b,\"weight\":1}] train.duration=2epochs"));
  arena_close(arena);
}

/* ---- combinations ---- */

static const char shape[] =
    "hpctrain: 1\n"
    "model: {vocab_size: 256, hidden_size: 96, num_hidden_layers: 2, num_attention_heads: 6, intermediate_size: 64}\n"
    "data: {train: a.bin}\n"
    "train: {seq_len: 64, duration: 10 steps, global_batch_size: 8 sequences, lr: 3e-4, schedule: cosine}\n";

TEST(an_explicit_shape_is_completed) {
  Arena *arena = arena_open();
  Config *c = load_text(arena, shape);
  EXPECT(c->model.head_dim == 16 && c->model.num_key_value_heads == 6 && c->model.max_position_embeddings == 64);
  EXPECT(c->model.rms_norm_eps == 1e-5 && c->model.initializer_range == 0.02);
  arena_close(arena);
}

TEST(combinations_that_cannot_be_meant_are_refused) {
  static const struct {
    const char *text, *words, *what;
  } rows[] = {
      {good, "model.config=x.json", "'model.preset' says it too"},
      {good, "model.hidden_size=3", "the model is given twice"},
      {good, "model.from=x", "the model is given twice"},
      {shape, "model.num_attention_heads=7", "heads do not divide hidden_size"},
      {shape, "model.num_key_value_heads=4", "key and value heads do not divide query heads"},
      {shape, "model.head_dim=15", "head_dim must be even"},
      {shape, "model.max_position_embeddings=32", "sequences are longer than the model is meant for"},
      {shape, "train.min_lr=0.1", "min_lr is above lr"},
      {shape, "train.schedule=constant train.min_lr=1e-5", "'train.min_lr' has no use here"},
      {shape, "train.schedule=wsd", "needs 'train.decay'"},
      {shape, "train.decay=10%", "'train.decay' has no use here"},
      {shape, "train.global_batch_size=100tokens", "64 tokens (1 sequences) or 128 tokens (2 sequences)"},
      {shape, "parallel.strategy=no_shard parallel.units_alive=2", "gathers nothing block by block"},
      {shape, "parallel.strategy=shard_opt parallel.accumulate=shard", "in shares it is shard_grad_op"},
      {shape, "parallel.strategy=shard_grad_op parallel.accumulate=whole", "whole gradients are shard_opt"},
      {shape, "parallel.strategy=full_shard parallel.shard_degree=2", "only hybrid_shard has groups"},
      {shape, "parallel.strategy=shard_opt parallel.hybrid_optimizer=shard", "only hybrid_shard has groups"},
      {shape, "memory.offload=masters", "there are no masters to offload"},
      {shape, "memory.offload=masters precision.compute=fp16", "only precision.compute: bf16 keeps masters"},
      {shape, "memory.optimizer=host", "the host updates what lies there alone"},
      {shape, "memory.optimizer=host memory.offload=[moments,gradients]", "the host updates what lies there alone"},
      {shape, "memory.optimizer=host memory.offload=[moments,masters,gradients]", "there are no masters to offload"},
      {shape, "memory.optimizer=host memory.offload=[moments,masters,gradients] precision.compute=bf16 memory.offload_folder=/x",
       "memory.offload_folder puts the moments into files"},
      {shape, "memory.optimizer=host memory.offload=[moments,masters,gradients] precision.compute=bf16 cpu.compiler=none",
       "the host's part of an update is compiled"},
      {shape, "parallel.strategy=no_shard parallel.accumulate=shard", "no_shard accumulates whole gradients"},
      {shape, "eval.every=10", "no validation data"},
      {shape, "data.val=v data.val_fraction=0.1", "'data.val' says what to evaluate on"},
      {shape, "train.lr=1e-3 train.lr=1e-3", "'train.lr' is given twice\n  --> argument 2: train.lr=1e-3\n"},
      {shape, "trian.lr=1", "did you mean 'train'?"},
      {shape, "lr=1", "belongs in 'train'"},
      {shape, "train.learning_rate=1", "called 'lr' here"},
      {shape, "data.train=a.jsonl", "JSON lines are no token files\n  --> argument 1: data.train=a.jsonl\n"},
      {shape, "data.val=a.ndjson", "JSON lines are no token files\n  --> argument 1: data.val=a.ndjson\n"},
      {shape, "train.lr=x", "  --> argument 1: train.lr=x\n                           ^ such as 0.1 or 3e-4\n"},
  };
  Arena *arena = arena_open();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    EXPECT_FAIL(FAIL_INPUT, rows[i].what, load_words(arena, rows[i].text, rows[i].words));
  }
  arena_close(arena);
}

TEST(a_reasons_own_help_stands_behind_the_place) {
  Arena *arena = arena_open();
  Config *c = load_text(arena, good);
  EXPECT_FAIL(
      FAIL_INPUT,
      "a.bin: short\n --> llama7b.yaml:3:15\n3 | data: {train: a.bin}\n  |               ^^^^^\nhelp: copy it; or more data",
      config_fail(c, "data.train", "more data", "%s", "a.bin: short\nhelp: copy it"));
  EXPECT_FAIL(FAIL_INPUT, "^^^^^\nhelp: copy it", config_fail(c, "data.train", NULL, "a.bin: short\nhelp: copy it"));
  arena_close(arena);
}

TEST(a_preset_has_a_known_name) {
  static const char *const names[] = {"llama2-7b", "llama3-8b", NULL};
  Arena *arena = arena_open();
  config_set_presets(names);
  EXPECT_TEXT(load_text(arena, good)->model.preset, "llama2-7b");
  EXPECT_FAIL(FAIL_INPUT, "did you mean 'llama3-8b'?\nhelp: llama2-7b or llama3-8b",
              load_words(arena, good + 0, "model.preset=llama3-8x"));
  config_set_presets(NULL);
  arena_close(arena);
}

/* ---- out again ---- */

static const char *printed(Arena *arena, const Config *c) {
  Text out = {0};
  config_print(c, &out);
  const char *copy = arena_strdup(arena, out.at);
  text_close(&out);
  return copy;
}

/* Without " # source" at each line's end. */
static const char *without_sources(Arena *arena, const char *text) {
  char *copy = arena_strdup(arena, text), *to = copy;
  for (const char *at = copy; *at; at++) {
    if (!strncmp(at, "  # ", 4)) at += strcspn(at, "\n");
    *to++ = *at;
  }
  *to = 0;
  return copy;
}

TEST(the_resolved_print_reads_back_to_the_same_values) {
  static const struct {
    const char *text, *words;
  } rows[] = {
      {good, ""},
      {shape, ""},
      {shape, "train.schedule=constant parallel.strategy=no_shard"},
      {shape, "train.schedule=wsd train.decay=12.5% train.warmup=1% train.duration=1.7epochs"},
      {shape, "run.debug=ir,mem,comm run.tune=true train.grad_clip=none train.stop_after=1step train.eps=1.2345678901234567e-9"},
      {good, "data.val=\"quoted\\and,{odd}:#.bin run.folder=-dash run.name=null checkpoint.resume=a:b"},
      {good, "run.seed=9000000000000000 train.duration=123456789012345tokens run.name=\xc3\xa9t\xc3\xa9"},
      {good, "data.train=[{\"path\":a*,\"weight\":0.7},{\"path\":b,\"weight\":3e-3}] data.val={\"x\":a,\"y\":b}"},
      {good, "data.train=[a,b]"},
      {good, "data.val_fraction=0.1 eval.tokens=1M train.global_batch_size=1Ki\tsequences"},
      {good, "run.name=\x01\x7f\xc2\x80\xc2\x85\xe2\x80\xa8\xe2\x80\xa9\xef\xbb\xbf\xef\xbf\xbf\xf0\x9f\x98\x80"},
  };
  Arena *arena = arena_open();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    Config *c = load_words(arena, rows[i].text, rows[i].words), *again = load_text(arena, printed(arena, c));
    EXPECT_TEXT(without_sources(arena, printed(arena, again)), without_sources(arena, printed(arena, c)));
    EXPECT(config_hash(again) == config_hash(c));
  }
  arena_close(arena);
}

TEST(each_value_says_where_it_came_from) {
  Arena *arena = arena_open();
  const char *text = printed(arena, load_words(arena, good, "train.beta1=0.8"));
  static const char *const lines[][2] = {{"  lr: 0.0003 ", "# file\n"},
                                         {"  beta1: 0.8 ", "# shell\n"},
                                         {"  beta2: 0.95 ", "# default\n"},
                                         {"  folder: runs/llama7b ", "# auto\n"}};
  for (int i = 0; i < 4; i++) {
    const char *line = strstr(text, lines[i][0]);
    EXPECT(line != NULL);
    line += strcspn(line, "#");
    EXPECT(!strncmp(line, lines[i][1], strlen(lines[i][1])));
  }
  arena_close(arena);
}

TEST(the_hash_is_of_values_not_of_where_they_came_from) {
  Arena *arena = arena_open();
  uint64_t hash = config_hash(load_text(arena, good));
  EXPECT(config_hash(load_words(arena, good, "train.lr=0.0003 train.beta1=0.9")) == hash);
  EXPECT(config_hash(load_words(arena, good, "train.lr=0.00031")) != hash);
  EXPECT(config_hash(load_words(arena, good, "data.val=v")) != hash);
  arena_close(arena);
}

TEST(a_starter_file_is_a_run_file) {
  Arena *arena = arena_open();
  Text out = {0};
  config_print_new(&out);
  Config *c = load_text(arena, out.at);
  EXPECT(c->train.lr > 0 && c->model.preset);
  text_close(&out);
  arena_close(arena);
}

TEST(the_demo_follows_the_ranks) {
  Arena *arena = arena_open();
  EXPECT(chdir(check_folder()) == 0);
  for (int ranks = 1; ranks <= 64; ranks += 9) {
    char *argv[] = {"test", "run.folder=r", "train.stop_after=2steps", NULL};
    Config *c = config_load(arena, 3, argv, ranks);
    EXPECT(c->demo && !c->file);
    EXPECT_TEXT(c->data.train.at[0].path.text, "r/demo.bin");
    EXPECT(config_check_batch(c, ranks).sequences % ranks == 0);
    EXPECT(load_text(arena, printed(arena, c))->train.lr == c->train.lr);
  }
  EXPECT(strlen(demo_text) > 64 * 64);
  EXPECT(chdir("/") == 0);
  arena_close(arena);
}

/* ---- arithmetic ---- */

TEST(a_batch_splits_or_says_what_would) {
  Arena *arena = arena_open();
  Batch b = config_check_batch(load_words(arena, good, "train.micro_batch_size=4"), 64);
  EXPECT(b.sequences == 1024 && b.tokens == 4194304 && b.micro == 4 && b.micro_tokens == 16384 && b.passes == 4);
  b = config_check_batch(load_words(arena, shape, "train.global_batch_size=90sequences"), 2); /* auto: at most 4096 tokens */
  EXPECT(b.micro == 45 && b.passes == 1);
  b = config_check_batch(load_words(arena, shape, "train.global_batch_size=194sequences"), 1);
  EXPECT(b.micro == 2 && b.passes == 97);
  const char *buckets = "data.format=chat data.buckets=auto train.global_batch_size=%dsequences";
  b = config_check_batch(load_words(arena, shape, arena_printf(arena, buckets, 90)), 1); /* several passes, where there can be */
  EXPECT(b.micro == 18 && b.passes == 5);
  b = config_check_batch(load_words(arena, shape, arena_printf(arena, buckets, 2)), 1);
  EXPECT(b.micro == 1 && b.passes == 2);
  Config *c = load_words(arena, good, "train.micro_batch_size=4");
  EXPECT_FAIL(FAIL_INPUT, "1024 sequences / (48 ranks x 4) = 5.33 passes", config_check_batch(c, 48));
  EXPECT_FAIL(FAIL_INPUT, "help: 960 sequences, 1152 sequences, or 64 ranks", config_check_batch(c, 48));
  EXPECT_FAIL(FAIL_INPUT, " --> llama7b.yaml:7:22", config_check_batch(c, 48));
  c = load_words(arena, shape, "");
  EXPECT_FAIL(FAIL_INPUT, "8 sequences / 3 ranks = 2.67 sequences a rank\n", config_check_batch(c, 3));
  EXPECT_FAIL(FAIL_INPUT, "help: 6 sequences, 9 sequences, or 4 ranks", config_check_batch(c, 3));
  EXPECT_FAIL(FAIL_INPUT, "help: 9 sequences, or 8 ranks", config_check_batch(c, 9));
  arena_close(arena);
}

TEST(amounts_become_whole_steps) {
  Arena *arena = arena_open();
  Config *c = load_text(arena, good);
  EXPECT(config_total_steps(c, 0) == 476837);
  EXPECT(config_steps(c, (Amount){3, UNIT_PERCENT}, 0, 100) == 3);
  EXPECT(config_steps(c, (Amount){3, UNIT_EPOCHS}, 2048, 0) == 6);
  EXPECT(config_steps(c, (Amount){4194304 * 5.0, UNIT_TOKENS}, 0, 0) == 5);
  EXPECT(config_steps(c, (Amount){7, UNIT_STEPS}, 0, 0) == 7);
  EXPECT(config_steps(c, (Amount){0}, 1, 1) == 0);
  c = load_words(arena, good, "train.duration=0.5epochs");
  EXPECT_FAIL(FAIL_INPUT, "argument 1: train.duration=0.5epochs", config_total_steps(c, 2));
  arena_close(arena);
}

/* A locale with a decimal comma, made here if the machine can. */
static bool enter_comma_locale(void) {
  char command[512], name[128];
  snprintf(name, sizeof name, "%s/de_DE.UTF-8", check_folder());
  snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s >%s.log 2>&1", name, name);
  if (system(command) != 0) return false;
  return !setenv("LOCPATH", check_folder(), 1) && setlocale(LC_ALL, "de_DE.UTF-8") && strtod("0,5", NULL) == 0.5;
}

TEST(numbers_do_not_depend_on_the_locale) {
  if (!enter_comma_locale()) {
    fprintf(stderr, "note  no locale with a decimal comma can be made on this machine\n");
    return;
  }
  text_pin_locale();
  Arena *arena = arena_open();
  Config *c = load_words(arena, good, "train.lr=1.5e-3");
  EXPECT(c->train.lr == 1.5e-3);
  EXPECT(strstr(printed(arena, c), "  lr: 0.0015 ") != NULL);
  EXPECT_FAIL(FAIL_INPUT, "wants a number", load_words(arena, good, "train.lr=0,1"));
  setlocale(LC_ALL, "C");
  arena_close(arena);
}

static jmp_buf told;

static void jump_back(FailKind kind, const char *text) {
  longjmp(told, kind == FAIL_INPUT && !strncmp(text, "error: ", 7) ? 1 : 2);
}

/* One to eight bytes of text are dropped, doubled or replaced. */
static char *mangle(Arena *arena, const char *text, uint64_t round) {
  static const char bytes[] = "{}[]:,-#'\"\n \t&*!|>%@`~0e9.=\\\xff\xc3";
  char *copy = arena_printf(arena, "%s        ", text);
  Rng rng = rng_make(1, RNG_TEST, "mangle", round);
  uint32_t words[4];
  rng_words(&rng, 0, words);
  for (uint32_t i = 0, n = 1 + words[0] % 8; i < n; i++) {
    rng_words(&rng, i + 1, words);
    size_t length = strlen(copy), at = words[0] % length;
    if (words[1] % 4 == 0) memmove(copy + at, copy + at + 1, length - at);
    if (words[1] % 4 == 1) memmove(copy + at + 1, copy + at, length - at - 1);
    if (words[1] % 4 >= 2) copy[at] = bytes[words[2] % (sizeof bytes - 1)];
  }
  return copy;
}

TEST(mangled_files_are_read_or_told) {
  Arena *arena = arena_open();
  const char *whole = printed(arena, load_words(arena, shape, "data.val=v run.debug=ir,mem"));
  fail_set_hook(jump_back);
  volatile int read = 0, refused = 0;
  for (volatile uint64_t round = 0; round < 4000; round++) {
    Arena *own = arena_open();
    int how = setjmp(told);
    if (!how) {
      load_text(own, mangle(own, round % 2 ? shape : whole, round));
      read++;
    }
    refused += how == 1;
    arena_close(own);
  }
  fail_set_hook(NULL);
  EXPECT(read + refused == 4000);
  EXPECT(read > 40 && refused > 1000);
  arena_close(arena);
}

TEST(a_near_word_is_found) {
  static const char *const names[] = {"train", "config", "lr"};
  EXPECT_TEXT(config_nearest("trian", names, 3), "train");
  EXPECT_TEXT(config_nearest("confgi", names, 3), "config");
  EXPECT_TEXT(config_nearest("lt", names, 3), "lr");
  EXPECT(!config_nearest("x", names, 3) && !config_nearest("zebra", names, 3) && !config_nearest("", names, 3));
}
