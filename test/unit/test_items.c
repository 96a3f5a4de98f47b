/* SPDX-License-Identifier: Apache-2.0 */
/* Keys whose values are patterns and lists of maps: read from files and command lines, printed so that they read back, refused at
 * their own place. */
#include <string.h>

#include "src/config/table.h"
#include "test/check.h"

static const char head[] = "hpctrain: 1\n"
                           "model: {from: a}\n"
                           "data: {train: a.bin}\n"
                           "parallel: {ignore: \"*norm*\"}\n"
                           "train:\n"
                           "  {seq_len: 4, duration: 2 steps, global_batch_size: 1 sequences, lr: 3e-4, schedule: constant%s}\n";

/* The file with this behind its last key, and one word of a command line or NULL. */
static Config *load(Arena *arena, const char *more, const char *word) {
  char *argv[] = {"test", (char *)word, NULL};
  const char *text = arena_printf(arena, "%.*s%s}\n", (int)(strlen(head) - strlen("%s}\n")), head, more);
  return config_parse(arena, "r.yaml", text, word ? 2 : 1, argv);
}

static void expect_groups(const Config *c) {
  const Group *g = c->train.groups.at;
  EXPECT(c->train.groups.n == 2);
  EXPECT(g[0].match.n == 1 && g[0].trainable && g[0].lr_factor == 1 && g[0].weight_decay == 0);
  EXPECT_TEXT(g[0].match.at[0].text, "*norm*");
  EXPECT(g[0].given == (1 << GROUP_MATCH | 1 << GROUP_WEIGHT_DECAY));
  EXPECT(g[1].match.n == 2 && !g[1].trainable);
  EXPECT_TEXT(g[1].match.at[1].text, "lm_head.weight");
}

static const char two[] = "[{match: \"*norm*\", weight_decay: 0}, {match: [\"a*\", lm_head.weight], trainable: false}]";

TEST(groups_come_from_a_file_and_from_a_word) {
  Arena *arena = arena_open();
  expect_groups(load(arena, arena_printf(arena, ", groups: %s", two), NULL));
  expect_groups(load(arena, "", arena_printf(arena, "train.groups=%s", two)));
  expect_groups(load(arena, ", groups: [{match: x}]", arena_printf(arena, "train.groups=%s", two)));
  EXPECT(load(arena, "", NULL)->train.groups.n == 0);
  EXPECT(load(arena, "", "train.groups=[]")->train.groups.n == 0);
  arena_close(arena);
}

TEST(a_pattern_is_a_word_or_a_list) {
  static const char *const words[] = {"parallel.ignore=*norm*", "parallel.ignore=[\"*norm*\"]"};
  Arena *arena = arena_open();
  EXPECT_TEXT(load(arena, "", NULL)->parallel.ignore.at[0].text, "*norm*");
  for (int i = 0; i < 2; i++) {
    Config *c = load(arena, "", words[i]);
    EXPECT(c->parallel.ignore.n == 1);
    EXPECT_TEXT(c->parallel.ignore.at[0].text, "*norm*");
  }
  EXPECT(load(arena, "", "parallel.ignore=[a, b]")->parallel.ignore.n == 2);
  EXPECT(load(arena, "", "parallel.ignore=[]")->parallel.ignore.n == 0);
  arena_close(arena);
}

TEST(what_is_printed_reads_back) {
  Arena *arena = arena_open();
  const char *words[] = {arena_printf(arena, "train.groups=%s", two), "model.rename=[{from: \"a.*\", to: \"b.*.c\"}]",
                         "model.skip=[a, \"*b\"]", "train.groups=[]"};
  for (int i = 0; i < 4; i++) {
    Text once = {0}, twice = {0};
    config_print(load(arena, "", words[i]), &once);
    EXPECT(strstr(once.at, strchr(words[i], '=') + 1));
    const Config *again = config_parse(arena, "again.yaml", once.at, 1, (char *[]){"test", NULL});
    config_print(again, &twice);
    EXPECT(strstr(twice.at, strchr(words[i], '=') + 1));
    EXPECT(config_hash(again) == config_hash(load(arena, "", words[i])));
    text_close(&once);
    text_close(&twice);
  }
  arena_close(arena);
}

TEST(each_item_is_refused_at_its_place) {
  static const struct {
    const char *more, *what;
  } rows[] = {
      {",\n  groups: [{match: a},\n    {match: b, weigth_decay: 0}]",
       "'train.groups' has an item with an unknown key 'weigth_decay'\n --> r.yaml:8:16\n"},
      {", groups: [{match: a, weigth_decay: 0}]", "did you mean 'weight_decay'?"},
      {", groups: [{match: a, requires_grad: false}]", "called 'trainable' here"},
      {", groups: [{match: a, zzzz: 1}]", "there are match, trainable, lr_factor and weight_decay"},
      {",\n  groups: [{match: a,\n    lr_factor: 0}]",
       "'train.groups' has an item whose 'lr_factor' is out of range\n --> r.yaml:8:16\n8 |     lr_factor: 0}]}\n  |               "
       " ^ 0 < lr_factor <= 1000"},
      {", groups: [{match: a, weight_decay: -1}]", "0 <= weight_decay <= 10"},
      {", groups: [{match: a, weight_decay: [1]}]", "whose 'weight_decay' is one value, not a list"},
      {", groups: [{match: a, trainable: no}]", "whose 'trainable' wants a boolean"},
      {", groups: [{match: }]", "whose 'match' has no value"},
      {", groups: [{match: \"\"}]", "whose 'match' wants a pattern"},
      {", groups: [{match: []}]", "whose 'match' wants a pattern or more"},
      {", groups: [{match: [{a: b}]}]", "whose 'match' wants a pattern"},
      {", groups: [{trainable: false}]", "'train.groups' has an item without 'match'"},
      {", groups: [a]", "'train.groups' has an item that is no map"},
      {", groups: {match: a}", "'train.groups' wants a list of maps"},
      {", groups: a", "'train.groups' wants a list of maps"},
      {", groups: [{match: a, match: b}]", "'match' is given twice"},
      {", groups: [{match: *norm*}]", "what begins with * wants quotes"},
      {", groups: [{match: *norm}]", "what begins with * wants quotes"},
      {", groups: [{match: a, trainable: false, lr_factor: 2}]", "'lr_factor' has no use where 'trainable' is false"},
  };
  Arena *arena = arena_open();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) EXPECT_FAIL(FAIL_INPUT, rows[i].what, load(arena, rows[i].more, NULL));
  arena_close(arena);
}

TEST(a_word_is_quoted_under_its_fault) {
  static const struct {
    const char *word, *what;
  } rows[] = {
      {"train.groups=[{match: a, lr_facto: 2}]", "  --> argument 1: train.groups=[{match: a, lr_facto: 2}]\n"
                                                 "                                           ^^^^^^^^ did you mean 'lr_factor'?"},
      {"train.groups=[{match: *norm*}]", "what begins with * wants quotes"},
      {"train.groups=[", "  --> argument 1: train.groups=[\n"},
      {"train.groups=x", "'train.groups' wants a list of maps"},
      {"model.rename=[{from: \"a.*\", to: b}]", "'from' and 'to' of a renaming need as many *\n"
                                                "  --> argument 1: model.rename=[{from: \"a.*\", to: b}]\n"
                                                "                                                  ^ 'a.*' has 1, this 0"},
      {"parallel.strategy=no_shard", "with no_shard every rank holds all parameters whole"},
  };
  Arena *arena = arena_open();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) EXPECT_FAIL(FAIL_INPUT, rows[i].what, load(arena, "", rows[i].word));
  arena_close(arena);
}

TEST(keys_of_files_want_files) {
  static const char *const words[] = {"model.rename=[{from: a, to: b}]", "model.fresh=a", "model.skip=a"};
  static const char text[] = "hpctrain: 1\nmodel: {preset: llama2-7b}\ndata: {train: a.bin}\n"
                             "train: {seq_len: 4, duration: 2 steps, global_batch_size: 1 sequences, lr: 1, schedule: constant}\n";
  Arena *arena = arena_open();
  for (int i = 0; i < 3; i++)
    EXPECT_FAIL(FAIL_INPUT, "it is about the files of model.from",
                config_parse(arena, "r.yaml", text, 2, (char *[]){"test", (char *)words[i], NULL}));
  arena_close(arena);
}

TEST(a_later_failure_names_the_place_of_one_item) {
  Arena *arena = arena_open();
  Config *c = load(arena, ",\n  groups: [{match: [a,\n    bc]}]", "parallel.ignore=[x, yz]");
  EXPECT_FAIL(FAIL_INPUT, "it fits nothing\n --> r.yaml:8:5\n8 |     bc]}]}\n  |     ^^\nhelp: do this",
              config_fail_at(c, c->train.groups.at[0].match.at[1].place, "do this", "it fits %s", "nothing"));
  EXPECT_FAIL(FAIL_INPUT, "--> argument 1: parallel.ignore=[x, yz]\n                                      ^^",
              config_fail_at(c, c->parallel.ignore.at[1].place, NULL, "x"));
  EXPECT_TEXT(config_place(c, c->train.groups.at[0].match.at[1].place), "r.yaml:8:5");
  EXPECT_TEXT(config_place(c, c->parallel.ignore.at[0].place), "argument 1");
  arena_close(arena);
}
