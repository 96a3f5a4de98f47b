/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizers against the libraries' own ids and texts (test/golden/tokenizers), and against themselves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "io/tok_impl.h"
#include "io/tokenizer.h"
#include "src/base/arena.h"
#include "src/base/file.h"
#include "src/base/module.h"
#include "src/base/rng.h"
#include "src/base/utf8.h"
#include "test/check.h"

BEFORE_ALL {
  const char *build = getenv("builddir");
  module_look_in(build ? build : ".");
}

static const char *golden(const char *name) {
  static char path[4][4096];
  static int turn;
  turn = (turn + 1) % 4;
  const char *top = getenv("srcdir");
  snprintf(path[turn], sizeof path[turn], "%s/test/golden/tokenizers/%s", top ? top : ".", name);
  return path[turn];
}

static Tokenizer *open_at(const char *path) {
  Tokenizer *t;
  Why why;
  if (!try_tokenizer_open(path, NULL, &t, &why)) check_failed(__FILE__, __LINE__, "%s", why.text);
  return t;
}

static void encode(TokenizerWork *w, const char *text, size_t n, Ids *ids) {
  Why why;
  ids->n = 0;
  if (!try_tokenizer_encode(w, text, n, ids, &why)) check_failed(__FILE__, __LINE__, "%s", why.text);
}

/* --- golden ---------------------------------------------------------------------------------------------------------------- */

static void check_row(const Tokenizer *t, TokenizerWork *w, const json_t *row, size_t i) {
  const json_t *text = json_object_get(row, "text"), *want = json_object_get(row, "ids"),
               *decoded = json_object_get(row, "decoded");
  Ids ids = {0};
  encode(w, json_string_value(text), json_string_length(text), &ids);
  bool same = ids.n == (int64_t)json_array_size(want);
  for (int64_t k = 0; same && k < ids.n; k++) same = ids.at[k] == json_integer_value(json_array_get(want, (size_t)k));
  if (!same) check_failed(__FILE__, __LINE__, "row %zu: other ids of '%s'", i, json_string_value(text));
  Text out = {0};
  tokenizer_decode(t, ids.at, ids.n, false, &out);
  if (out.n != json_string_length(decoded) || memcmp(out.at, json_string_value(decoded), out.n))
    check_failed(__FILE__, __LINE__, "row %zu: '%s' becomes '%s'", i, json_string_value(text), out.at);
  text_close(&out);
  ids_close(&ids);
}

static void check_golden(const char *file, const char *rows) {
  Why why;
  json_t *all = json_parse_file(golden(rows), &why);
  if (!all) check_failed(__FILE__, __LINE__, "%s", why.text);
  Tokenizer *t = open_at(file);
  TokenizerWork *w = tokenizer_work_open(t);
  EXPECT(json_array_size(all) > 40);
  for (size_t i = 0; i < json_array_size(all); i++) check_row(t, w, json_array_get(all, i), i);
  tokenizer_work_close(w);
  tokenizer_close(t);
  json_decref(all);
}

TEST(byte_level_by_its_own_pattern) { check_golden(golden("gpt2-style.json"), "gpt2-style.golden.json"); }
TEST(byte_level_behind_a_split_that_ignores_merges) { check_golden(golden("llama3-style.json"), "llama3-style.golden.json"); }
TEST(characters_with_byte_fallback) { check_golden(golden("llama2-style.json"), "llama2-style.golden.json"); }
TEST(sentencepiece_bpe) { check_golden(golden("sp-bpe.model"), "sp-bpe.golden.json"); }
TEST(sentencepiece_unigram) { check_golden(golden("sp-unigram.model"), "sp-unigram.golden.json"); }
TEST(sentencepiece_of_a_published_model) {
  const char *path = getenv("LLAMA2_MODEL"), *beside = golden("../../../../shared/golden/tokenizers/llama2.model");
  if (!path) path = beside;
  if (access(path, R_OK))
    fprintf(stderr, "note  Llama 2's tokenizer.model is not there (LLAMA2_MODEL=FILE names it); its test is skipped\n");
  else
    check_golden(path, "llama2.golden.json");
}

/* --- tiktoken -------------------------------------------------------------------------------------------------------------- */

static void add_base64(const Text *bytes, Text *out) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < bytes->n; i += 3) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; k++) bits = bits << 8 | (i + k < bytes->n ? (unsigned char)bytes->at[i + k] : 0);
    for (size_t k = 0; k < 4; k++) text_add(out, k > bytes->n - i ? "=" : &digits[bits >> (18 - 6 * k) & 63], 1);
  }
}

/* The pieces of a byte-level tokenizer.json as a tiktoken file: their ids are in the order of the merges. */
static void write_ranks(const char *json_path, const char *path) {
  Text out = {0}, bytes = {0};
  json_t *root = json_parse_file(json_path, NULL), *id;
  const char *piece;
  json_object_foreach(json_object_get(json_object_get(root, "model"), "vocab"), piece, id) {
    if (json_integer_value(id) == 0) continue; /* the special one */
    bytes.n = 0;
    for (const char *at = piece; *at;) {
      uint32_t c;
      at += utf8_read(at, &c);
      text_add(&bytes, &(char){(char)byte_of_char(c)}, 1);
    }
    add_base64(&bytes, &out);
    text_printf(&out, " %lld\n", (long long)json_integer_value(id));
  }
  CHECK(try_file_write(path, out.at, out.n, NULL));
  text_close(&out);
  text_close(&bytes);
  json_decref(root);
}

TEST(a_tiktoken_file_of_the_same_pieces_gives_the_same_ids) {
  char path[4096];
  snprintf(path, sizeof path, "%s/x.tiktoken", check_folder());
  write_ranks(golden("gpt2-style.json"), path);
  Tokenizer *t;
  Why why;
  EXPECT(!try_tokenizer_open(path, NULL, &t, &why) && strstr(why.text, "1023 ranks are no family's that is known"));
  if (!try_tokenizer_open(path, "gpt2", &t, &why)) check_failed(__FILE__, __LINE__, "%s", why.text);
  EXPECT(tokenizer_special(t, TOKENIZER_EOS) == 50256 && tokenizer_vocab(t) == 50257 && !tokenizer_has(t, 2000));
  TokenizerWork *w = tokenizer_work_open(t);
  json_t *all = json_parse_file(golden("gpt2-style.golden.json"), &why);
  for (size_t i = 0; i < json_array_size(all); i++) /* special tokens are text to tiktoken */
    if (!strstr(json_string_value(json_object_get(json_array_get(all, i), "text")), "<|endoftext|>"))
      check_row(t, w, json_array_get(all, i), i);
  json_decref(all);
  tokenizer_work_close(w);
  tokenizer_close(t);
}

/* Twenty million digits are refused before anybody looks at their cuts; a kilobyte is a piece like others. */
TEST(a_tiktoken_piece_is_at_most_a_kilobyte) {
  enum { MOST = 1024, MANY = 20 << 20 };
  char path[4096], *word = xmalloc(MANY);
  Text out = {0};
  size_t n;
  Tokenizer *t;
  Why why;
  Ids ids = {0};
  snprintf(path, sizeof path, "%s/x.tiktoken", check_folder());
  write_ranks(golden("gpt2-style.json"), path);
  char *ranks = file_read(path, &n);
  memset(word, 'x', MANY);
  text_add(&out, ranks, n);
  add_base64(&(Text){.at = word, .n = MOST}, &out);
  text_add(&out, " 5000\n", 6);
  CHECK(try_file_write(path, out.at, out.n, NULL));
  if (!try_tokenizer_open(path, "gpt2", &t, &why)) check_failed(__FILE__, __LINE__, "%s", why.text);
  TokenizerWork *w = tokenizer_work_open(t);
  encode(w, word, MOST, &ids);
  EXPECT(ids.n == 1 && ids.at[0] == 5000);
  tokenizer_work_close(w);
  tokenizer_close(t);
  for (int k = 0; k < 2; k++) {
    out.n = 0;
    text_add(&out, word, k ? MANY : 1372);
    text_add(&out, " 0\n", 3);
    CHECK(try_file_write(path, out.at, out.n, NULL));
    EXPECT(!try_tokenizer_open(path, "gpt2", &t, &why) && strstr(why.text, "digits of base64; a piece has at most 1368"));
  }
  ids_close(&ids);
  text_close(&out);
  free(ranks);
  free(word);
}

/* --- tokenizer.json -------------------------------------------------------------------------------------------------------- */

/* {PARTS,"model":…} as a file. */
static Tokenizer *parse(const char *parts, const char *vocab, const char *merges) {
  Text json = {0};
  Tokenizer *t;
  Why why;
  text_printf(&json, "{%s\"model\":{\"vocab\":{%s},\"merges\":[%s]}}", parts, vocab, merges);
  if (!try_tokenizer_parse("/dev/null/tokenizer", json.at, json.n, NULL, &t, &why))
    check_failed(__FILE__, __LINE__, "%s", why.text);
  text_close(&json);
  return t;
}

static void expect_ids(const Tokenizer *t, const char *text, size_t n, const char *wanted) {
  TokenizerWork *w = tokenizer_work_open(t);
  Ids ids = {0};
  Text got = {0};
  encode(w, text, n, &ids);
  text_add(&got, "", 0);
  for (int64_t i = 0; i < ids.n; i++) text_printf(&got, "%s%d", i ? " " : "", (int)ids.at[i]);
  EXPECT_TEXT(got.at, wanted);
  text_close(&got);
  ids_close(&ids);
  tokenizer_work_close(w);
}

/* As Hugging Face's, whichever way the file spells them. */
TEST(pieces_of_nul_and_of_the_last_character_of_the_plane_are_told_apart) {
  static const char *const vocabs[] = {"\"a\":0,\"\\uffff\":1,\"\\u0000\":2,\"a\\uFFFf\":3,\"0\":4,\"\\uFFFF\\u0000\":5",
                                       "\"a\":0,\"\xEF\xBF\xBF\":1,\"\\u0000\":2,\"a\xEF\xBF\xBF\":3,\"0\":4,"
                                       "\"\xEF\xBF\xBF\\u0000\":5"};
  static const char *const merges[] = {"[\"\\uffff\",\"\\u0000\"],[\"a\",\"\\uffff\"]",
                                       "\"\xEF\xBF\xBF \\u0000\",\"a \xEF\xBF\xBF\""};
#define LAST "\xEF\xBF\xBF"
  for (int i = 0; i < 2; i++) {
    Tokenizer *t = parse("", vocabs[i], merges[i]);
    expect_ids(t, "a" LAST "\0", 5, "0 5");
    expect_ids(t, "a" LAST, 4, "3");
    expect_ids(t, LAST "0", 4, "1 4");
    expect_ids(t,
               "\0"
               "0a\0",
               4, "2 4 0 2");
    for (int n = 1; n < 12; n++) { /* long words are cut where no merge is */
      char text[64] = "", wanted[64] = "0 3";
      for (int k = 0; k < n; k++) strcat(text, "aa" LAST);
      for (int k = 1; k < n; k++) strcat(wanted, " 0 3");
      expect_ids(t, text, strlen(text), wanted);
    }
    tokenizer_close(t);
  }
}

TEST(roles_go_by_the_content_of_an_added_token_not_by_what_a_normalizer_makes_of_it) {
  Tokenizer *t = parse("\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"_\"},\"added_tokens\":["
                       "{\"id\":1,\"content\":\"<s>\",\"normalized\":true},{\"id\":2,\"content\":\"</s>\",\"normalized\":true},"
                       "{\"id\":3,\"content\":\"<pad>\",\"normalized\":false}],",
                       "\"<unk>\":0", "");
  static const int32_t wanted[TOKENIZER_ROLES] = {
      [TOKENIZER_BOS] = 1, [TOKENIZER_EOS] = 2, [TOKENIZER_UNK] = 0, [TOKENIZER_PAD] = 3};
  for (int role = 0; role < TOKENIZER_ROLES; role++) EXPECT(tokenizer_special(t, role) == wanted[role]);
  tokenizer_close(t);
}

TEST(a_post_processor_says_what_comes_before_and_behind_a_text) {
#define TEMPLATE                                                                                                                   \
  "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"B\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\","      \
  "\"type_id\":0}},{\"SpecialToken\":{\"id\":\"E\",\"type_id\":0}}],\"pair\":[],\"special_tokens\":{\"B\":{\"ids\":[%d]},\"E\":{"  \
  "\"ids\":[2,1]}}}"
  static const struct {
    const char *text;
    int id; /* in the text */
    const char *before_after, *refused;
  } cases[] = {
      {TEMPLATE, 0, "0|2 1", NULL},
      {"{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\",\"trim_offsets\":false}," TEMPLATE "]}", 0, "0|2 1", NULL},
      {"{\"type\":\"RobertaProcessing\",\"sep\":[\"e\",2],\"cls\":[\"b\",%d],\"trim_offsets\":true}", 1, "1|2", NULL},
      {"{\"type\":\"BertProcessing\",\"sep\":[\"e\",2],\"cls\":[\"b\",%d]}", 1, "1|2", NULL},
      {TEMPLATE, 3, NULL, "post_processor TemplateProcessing: an id that is none"}, /* a hole */
      {TEMPLATE, 5, NULL, "post_processor TemplateProcessing: an id that is none"},
      {"{\"type\":\"BertProcessing\",\"sep\":[\"e\",2],\"cls\":[\"b\",%d],\"x\":1}", 1, NULL, "'x' is not known here"},
      {"{\"type\":\"Other%d\"}", 1, NULL, "post_processor 'Other1' is not known here"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Text json = {0}, got = {0};
    Tokenizer *t;
    Why why = {""};
    text_printf(&json, "{\"post_processor\":");
    text_printf(&json, cases[i].text, cases[i].id);
    text_printf(&json, ",\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"d\":4},\"merges\":[]}}");
    bool ok = try_tokenizer_parse("/dev/null/tokenizer", json.at, json.n, NULL, &t, &why);
    if (ok != !cases[i].refused || (!ok && !strstr(why.text, cases[i].refused)))
      check_failed(__FILE__, __LINE__, "case %zu: %s", i, why.text);
    if (ok) {
      const Ids *parts[2];
      tokenizer_template(t, &parts[0], &parts[1]);
      for (int k = 0; k < 2; k++)
        for (int64_t j = 0; j < parts[k]->n; j++) text_printf(&got, "%s%d", j ? " " : k ? "|" : "", (int)parts[k]->at[j]);
      EXPECT_TEXT(got.at, cases[i].before_after);
    }
    tokenizer_close(t);
    text_close(&json);
    text_close(&got);
  }
}

/* Of one each of what libraries count otherwise: a letter, a line, a dollar, a superscript, a mark of letters and one of none, a
 * joiner, a Roman number, a letter in a circle, a comma of several scripts, a character of Han. */
TEST(classes_of_patterns_hold_what_the_libraries_say) {
  static const char all[] = "a_$\xC2\xB2\xCD\x85\xCC\x80\xE2\x80\x8D\xE2\x85\xB7\xE2\x92\xB6\xE3\x80\x81\xE4\xB8\xAD";
  static const struct {
    const char *pattern;
    RegexDialect dialect;
    const char *held; /* tokenizers 0.23 for Oniguruma; NULL: refused */
  } cases[] = {{"\\w", REGEX_ONIGURUMA, "61 5F B2 345 300 2177 24B6 4E2D"},
               {"[\\w]", REGEX_ONIGURUMA, "61 5F 345 300 2177 24B6 4E2D"},
               {"\\w", REGEX_RUST, "61 5F 345 300 200D 2177 24B6 4E2D"},
               {"\\W", REGEX_ONIGURUMA, "24 200D 3001"},
               {"[[:alpha:]]", REGEX_ONIGURUMA, "61 345 2177 24B6 4E2D"},
               {"[^[:alpha:]]", REGEX_ONIGURUMA, "5F 24 B2 300 200D 3001"},
               {"[[:lower:]_]", REGEX_ONIGURUMA, "61 5F 345 2177"},
               {"[[:punct:]]", REGEX_ONIGURUMA, "5F 24 24B6 3001"},
               {"[[:word:]]", REGEX_ONIGURUMA, "61 5F 345 300 2177 24B6 4E2D"},
               {"[[:xdigit:]]", REGEX_ONIGURUMA, "61"},
               {"[[:alpha:]]", REGEX_RUST, NULL},
               {"[[:^alpha:]]", REGEX_ONIGURUMA, NULL},
               {"[[:alp:]]", REGEX_ONIGURUMA, NULL},
               {"\\p{Han}", REGEX_ONIGURUMA, "4E2D"},
               {"[\\p{Han}]", REGEX_RUST, "4E2D"},
               {"\\P{Han}", REGEX_ONIGURUMA, "61 5F 24 B2 345 300 200D 2177 24B6 3001"},
               {"\\x{4e2d}", REGEX_ONIGURUMA, "4E2D"}};
  RegexWork *w = regex_work_open();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t start = REGEX_START, end = 0;
    Text held = {0};
    Regex *regex;
    Why why;
    bool ok = try_regex_open(cases[i].pattern, strlen(cases[i].pattern), cases[i].dialect, &regex, &why);
    if (ok != !!cases[i].held) check_failed(__FILE__, __LINE__, "%s: %s", cases[i].pattern, ok ? "taken" : why.text);
    while (ok && regex_next(regex, w, all, sizeof all - 1, &start, &end) == REGEX_YES) {
      uint32_t c;
      utf8_read(all + start, &c);
      text_printf(&held, "%s%X", held.n ? " " : "", c);
    }
    if (ok && cases[i].held) EXPECT_TEXT(held.at, cases[i].held);
    text_close(&held);
    regex_close(regex);
  }
  regex_work_close(w);
}

/* As Hugging Face's: a token among spaces that another took is there as well, unless it strips those before it. */
TEST(added_tokens_that_are_spaces_and_take_spaces) {
  static const struct {
    const char *flags, *text, *wanted;
  } cases[] = {{"\"rstrip\":true", "x   x", "0 2 2 2 0"},
               {"\"rstrip\":true", "   ", "2 2 2"},
               {"\"rstrip\":true,\"lstrip\":true", "x   x", "0 2 0"},
               {"\"lstrip\":true", "  x", "2 2 0"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char parts[160];
    snprintf(parts, sizeof parts, "\"added_tokens\":[{\"id\":2,\"content\":\" \",\"normalized\":false,%s}],", cases[i].flags);
    Tokenizer *t = parse(parts, "\"x\":0,\"y\":1,\" \":2", "");
    expect_ids(t, cases[i].text, strlen(cases[i].text), cases[i].wanted);
    tokenizer_close(t);
  }
}

/* --- round trips ----------------------------------------------------------------------------------------------------------- */

/* Encodes and decodes; true when the bytes are the same again. */
static bool comes_back(const Tokenizer *t, TokenizerWork *w, const char *text, size_t n) {
  Ids ids = {0};
  Text out = {0};
  encode(w, text, n, &ids);
  tokenizer_decode(t, ids.at, ids.n, true, &out);
  bool same = out.n == n && !memcmp(out.at, text, n);
  for (int64_t i = 0; i < ids.n; i++) same = same && tokenizer_has(t, ids.at[i]);
  text_close(&out);
  ids_close(&ids);
  return same;
}

static const char *const spell_bytes[] = {"gpt2-style.json", "llama3-style.json", "llama2-style.json", "tiktoken", "bytes"};
enum { SPELL_BYTES = sizeof spell_bytes / sizeof *spell_bytes, TRIPS = 400, LONGEST = 200 };

static Tokenizer *open_tiktoken(void) {
  char path[4096];
  Tokenizer *t;
  Why why;
  snprintf(path, sizeof path, "%s/x.tiktoken", check_folder());
  write_ranks(golden("gpt2-style.json"), path);
  if (!try_tokenizer_open(path, "gpt2", &t, &why)) check_failed(__FILE__, __LINE__, "%s", why.text);
  return t;
}

static Tokenizer *open_spelling(int i) {
  if (!strcmp(spell_bytes[i], "tiktoken")) return open_tiktoken();
  return open_at(strchr(spell_bytes[i], '.') ? golden(spell_bytes[i]) : spell_bytes[i]);
}

/* Closes t. */
static void check_kind(Tokenizer *t, const char *name, void (*make)(const Rng *rng, uint64_t trip, Text *text)) {
  TokenizerWork *w = tokenizer_work_open(t);
  Rng rng = rng_make(7, RNG_TEST, name, 0);
  Text text = {0};
  for (uint64_t trip = 0; trip < TRIPS; trip++) {
    text.n = 0;
    text_add(&text, "", 0);
    make(&rng, trip, &text);
    if (!comes_back(t, w, text.at, text.n)) check_failed(__FILE__, __LINE__, "%s: trip %d: %s", name, (int)trip, text.at);
  }
  text_close(&text);
  tokenizer_work_close(w);
  tokenizer_close(t);
}

static void check_trips(void (*make)(const Rng *rng, uint64_t trip, Text *text)) {
  for (int i = 0; i < SPELL_BYTES; i++) check_kind(open_spelling(i), spell_bytes[i], make);
}

static void make_bytes(const Rng *rng, uint64_t trip, Text *text) {
  for (uint64_t i = 0; i <= trip % LONGEST; i++) {
    uint32_t words[4];
    rng_words(rng, trip * LONGEST + i, words);
    text_add(text, &(char){(char)(words[0] % 3 ? (char)words[1] : " \n\0ae"[words[1] % 5])}, 1);
  }
}

/* Of blocks that come often, and now and then of anything. */
static void make_unicode(const Rng *rng, uint64_t trip, Text *text) {
  static const uint32_t starts[] = {' ',    'a',   0xC0,   0x400,  0x5D0,  0x900,  0xE00,
                                    0x1100, 0x300, 0x2000, 0x3040, 0x4E00, 0xFB00, 0x1F600};
  for (uint64_t i = 0; i <= trip % LONGEST; i++) {
    uint32_t words[4];
    char bytes[4];
    rng_words(rng, trip * LONGEST + i, words);
    uint32_t c = words[0] % 9 ? starts[words[1] % 14] + words[2] % 26 : words[2] % 0x110000;
    if (c >= 0xD800 && c < 0xE000) c = 0;
    text_add(text, bytes, (size_t)utf8_write(c, bytes));
  }
}

TEST(random_bytes_come_back) { check_trips(make_bytes); }
TEST(random_unicode_comes_back) { check_trips(make_unicode); }

/* A SentencePiece model has a normalizer of its own: what a text becomes by it. */
static void normalize(const Tokenizer *t, TokenizerWork *w, Text *text) {
  Ids ids = {0};
  encode(w, text->at, text->n, &ids);
  for (int64_t i = 0; i < ids.n; i++) EXPECT(tokenizer_has(t, ids.at[i]));
  text->n = 0;
  tokenizer_decode(t, ids.at, ids.n, false, text);
  EXPECT(utf8_valid(text->at, text->n) == text->n);
  ids_close(&ids);
}

static const char *const models[] = {"sp-bpe.model", "sp-unigram.model"};
enum { MODELS = sizeof models / sizeof *models };

/* Twice, since a mark behind a ligature has a letter to go with only then, and what was no text is a blank. */
static void check_settles(void (*make)(const Rng *rng, uint64_t trip, Text *text)) {
  for (int i = 0; i < MODELS; i++) {
    Tokenizer *t = open_at(golden(models[i]));
    TokenizerWork *w = tokenizer_work_open(t);
    Rng rng = rng_make(7, RNG_TEST, models[i], 0);
    Text text = {0}, twice = {0};
    for (uint64_t trip = 0; trip < TRIPS; trip++) {
      text.n = twice.n = 0;
      make(&rng, trip, &text);
      for (int k = 0; k < 2; k++) normalize(t, w, &text);
      text_add(&twice, text.at, text.n);
      normalize(t, w, &text);
      if (twice.n != text.n || memcmp(twice.at, text.at, text.n))
        check_failed(__FILE__, __LINE__, "%s: trip %d: '%s' becomes '%s'", models[i], (int)trip, twice.at, text.at);
    }
    text_close(&text);
    text_close(&twice);
    tokenizer_work_close(w);
    tokenizer_close(t);
  }
}

/* Letters, digits and signs, one blank between words: what a normalizer leaves as it is. */
static void make_words(const Rng *rng, uint64_t trip, Text *text) {
  static const char *const letters[] = {"a", "e", "Z", "7", "!", "\xc3\xa9", "\xd0\xb6", "\xe4\xb8\xad", "\xf0\x9f\x98\x80"};
  for (uint64_t i = 0; i <= trip % LONGEST; i++) {
    uint32_t words[4];
    rng_words(rng, trip * LONGEST + i, words);
    if (i && words[0] % 5 == 0) text_add(text, " ", 1);
    text_add(text, letters[words[1] % 9], strlen(letters[words[1] % 9]));
  }
}

TEST(sentencepiece_settles_on_a_text_for_random_bytes) { check_settles(make_bytes); }
TEST(sentencepiece_settles_on_a_text_for_random_unicode) { check_settles(make_unicode); }
TEST(sentencepiece_gives_words_back) {
  for (int i = 0; i < MODELS; i++) check_kind(open_at(golden(models[i])), models[i], make_words);
}

TEST(bytes_that_are_no_text_are_shown_as_the_libraries_do) {
  static const struct {
    const char *file;
    const char *text, *shown;
  } cases[] = {{"gpt2-style.json", "a\xe2\x82z\xff", "a\xef\xbf\xbdz\xef\xbf\xbd"},                /* a maximal subpart is one */
               {"llama2-style.json", "a\xe2\x82z\xff", "a\xef\xbf\xbd\xef\xbf\xbdz\xef\xbf\xbd"}}; /* a byte each */
  for (int i = 0; i < 2; i++) {
    Tokenizer *t = open_at(golden(cases[i].file));
    TokenizerWork *w = tokenizer_work_open(t);
    Ids ids = {0};
    Text out = {0};
    encode(w, cases[i].text, strlen(cases[i].text), &ids);
    tokenizer_decode(t, ids.at, ids.n, false, &out);
    EXPECT_TEXT(out.at, cases[i].shown);
    text_close(&out);
    ids_close(&ids);
    tokenizer_work_close(w);
    tokenizer_close(t);
  }
}

/* --- length ---------------------------------------------------------------------------------------------------------------- */

static double seconds_of(TokenizerWork *w, const char *text, size_t n) {
  Ids ids = {0};
  double begin = check_cpu_seconds();
  encode(w, text, n, &ids);
  ids_close(&ids);
  return check_cpu_seconds() - begin;
}

/* One word, of letters in no order, of one letter, of spaces: ten times as long takes at most as long as n·log n allows, with room
 * for a busy machine; and never minutes. */
TEST(a_word_of_a_megabyte_takes_no_longer_than_its_length) {
  enum { LONG = 1000000, SHORT = LONG / 10 };
  char *text = xmalloc(LONG);
  for (int i = 0; i < SPELL_BYTES + MODELS; i++) {
    Tokenizer *t = i < SPELL_BYTES ? open_spelling(i) : open_at(golden(models[i - SPELL_BYTES]));
    TokenizerWork *w = tokenizer_work_open(t);
    for (int kind = 0; kind < 3; kind++) {
      for (int k = 0; k < LONG; k++) text[k] = (char)(kind == 0 ? "etaoinshrdlu"[rng_bits(3, k) % 12] : kind == 1 ? 'a' : ' ');
      double brief = seconds_of(w, text, SHORT), whole = seconds_of(w, text, LONG);
      if (whole > 40 * brief + 2)
        check_failed(__FILE__, __LINE__, "tokenizer %d, word %d: %.3f s, a tenth %.3f s", i, kind, whole, brief);
    }
    tokenizer_work_close(w);
    tokenizer_close(t);
  }
  free(text);
}
