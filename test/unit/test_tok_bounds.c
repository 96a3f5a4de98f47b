/* SPDX-License-Identifier: Apache-2.0 */
/* Files of tokenizers that were made to lead a library astray, or to take all memory or time: they end with a reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "io/tok_impl.h"
#include "io/unicode.h"
#include "src/base/arena.h"
#include "src/base/module.h"
#include "test/check.h"
#include "test/sp_model.h"

BEFORE_ALL {
  const char *build = getenv("builddir");
  module_look_in(build ? build : ".");
}

/* --- SentencePiece --------------------------------------------------------------------------------------------------------- */

static bool checks(int user, const uint32_t *units, size_t n_units, Why *why) {
  Text model = {0};
  sp_make_model(&model, user, units, n_units);
  bool ok = try_sp_check(model.at, model.n, why);
  text_close(&model);
  return ok;
}

TEST(user_defined_pieces_that_begin_with_one_another_are_at_most_the_librarys_room) {
  Why why = {""};
  EXPECT(checks(64, NULL, 0, &why));
  EXPECT(!checks(65, NULL, 0, &why) && strstr(why.text, "more than 64 user-defined pieces"));
}

TEST(keys_of_a_table_of_characters_that_begin_with_one_another_are_at_most_the_librarys_room) {
  static uint32_t units[SP_UNITS];
  Why why = {""};
  sp_make_keys(units, 32);
  if (!checks(0, units, SP_UNITS, &why)) check_failed(__FILE__, __LINE__, "%s", why.text);
  sp_make_keys(units, 33);
  EXPECT(!checks(0, units, SP_UNITS, &why) && strstr(why.text, "more than 32 keys"));
  sp_make_keys(units, 2);
  units[sp_base(2) ^ 'a'] = sp_leads(sp_base(2) ^ 'a', sp_base(1), 'a'); /* a circle */
  EXPECT(!checks(0, units, SP_UNITS, &why) && strstr(why.text, "more than 32 keys"));
}

/* A hundred letters become pieces of 64 and 36; or by a table letters that are unknown. */
TEST(the_library_takes_models_that_fill_its_room) {
  static uint32_t units[SP_UNITS];
  char text[101] = "";
  memset(text, 'a', 100);
  sp_make_keys(units, 32);
  for (int table = 0; table < 2; table++) {
    Text bytes = {0};
    Ids ids = {0};
    Tokenizer *t;
    Why why;
    sp_make_model(&bytes, table ? 0 : 64, units, table ? sizeof units / sizeof *units : 0);
    if (!try_tokenizer_parse("/dev/null/tokenizer", bytes.at, bytes.n, NULL, &t, &why))
      check_failed(__FILE__, __LINE__, "%s", why.text);
    TokenizerWork *w = tokenizer_work_open(t);
    EXPECT(try_tokenizer_encode(w, text, 100, &ids, &why) && ids.n > 0);
    if (table)
      for (int64_t i = 0; i < ids.n; i++) EXPECT(!ids.at[i]);
    else
      EXPECT(ids.n > 1 && ids.at[ids.n - 2] == 1 + 64 && ids.at[ids.n - 1] == 1 + 36);
    tokenizer_work_close(w);
    tokenizer_close(t);
    ids_close(&ids);
    text_close(&bytes);
  }
}

TEST(a_table_of_characters_whose_leaves_or_offsets_lead_outside_is_refused) {
  static uint32_t units[SP_UNITS];
  static const struct {
    size_t at;
    uint32_t unit;
  } wrong[] = {{4, SP_VALUE | 2},             /* the leaf of the first key: behind the texts */
               {4, 0x7FFFFF00},               /* a leaf that is no value */
               {4, 0},                        /* nor is this */
               {0, SP_VALUE | 0x7FFFFF00},    /* the first, which nobody asks what it is */
               {0, (uint32_t)SP_UNITS << 10}, /* too far */
               {7, SP_VALUE | 2}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    Why why = {""};
    sp_make_keys(units, 1);
    EXPECT(checks(0, units, SP_UNITS, &why));
    units[wrong[i].at] = wrong[i].unit;
    if (checks(0, units, SP_UNITS, &why) || !strstr(why.text, "leads outside"))
      check_failed(__FILE__, __LINE__, "case %zu: '%s'", i, why.text);
  }
}

/* --- tokenizer.json -------------------------------------------------------------------------------------------------------- */

static const char model[] = "\"model\":{\"vocab\":{\"x\":0,\"y\":1,\" \":2},\"merges\":[]}}";

/* A tokenizer of x, y and blanks, with other parts of the file before the model. */
static bool try_parse(const char *parts, Tokenizer **t, Why *why) {
  Text json = {0};
  text_printf(&json, "{%s,%s", parts, model);
  bool ok = try_tokenizer_parse("/dev/null/tokenizer", json.at, json.n, NULL, t, why);
  text_close(&json);
  return ok;
}

static Tokenizer *parse(const char *parts) {
  Tokenizer *t;
  Why why;
  if (!try_parse(parts, &t, &why)) check_failed(__FILE__, __LINE__, "%s", why.text);
  return t;
}

/* Its ids; -1: it cannot be encoded. */
static int64_t count(const char *parts, const char *text, size_t n, Why *why) {
  Tokenizer *t = parse(parts);
  TokenizerWork *w = tokenizer_work_open(t);
  Ids ids = {0};
  int64_t n_ids = try_tokenizer_encode(w, text, n, &ids, why) ? ids.n : -1;
  ids_close(&ids);
  tokenizer_work_close(w);
  tokenizer_close(t);
  return n_ids;
}

/* n rules that make a hundred of one each, in a list. */
static void add_rules(Text *parts, int n) {
  char hundred[101] = "";
  memset(hundred, 'x', 100);
  text_printf(parts, "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
  for (int i = 0; i < n; i++)
    text_printf(parts, "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\"x\"},\"content\":\"%s\"}", i ? "," : "", hundred);
  text_printf(parts, "]}");
}

TEST(rules_that_make_much_of_little_end_before_memory_does) {
  Text parts = {0};
  Why why = {""};
  add_rules(&parts, 2);
  EXPECT(count(parts.at, "yx", 2, &why) == 10001);
  parts.n = 0;
  add_rules(&parts, 6);
  EXPECT(count(parts.at, "yx", 2, &why) < 0 && strstr(why.text, "make too long a text"));
  EXPECT(count(parts.at, "y", 1, &why) == 1);
  Tokenizer *t;
  text_printf(&parts, ",\"added_tokens\":[{\"id\":3,\"content\":\"xx\",\"normalized\":true}]");
  EXPECT(!try_parse(parts.at, &t, &why) && strstr(why.text, "added token 'xx'") && strstr(why.text, "make too long a text"));
  text_close(&parts);
}

/* Decodes n times the piece x; what became of it is out. */
static bool decodes(const char *parts, int64_t n, Text *out, Why *why) {
  Tokenizer *t = parse(parts);
  Ids ids = {0};
  for (int64_t i = 0; i < n; i++) ids_add(&ids, &(int32_t){0}, 1);
  bool ok = try_tokenizer_decode(t, ids.at, n, false, out, why);
  ids_close(&ids);
  tokenizer_close(t);
  return ok;
}

TEST(decoders_that_make_much_of_little_end_before_memory_does) {
  Text parts = {0}, out = {0};
  Why why = {""};
  text_printf(&parts, "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"}");
  for (int i = 0; i < 12; i++)
    text_printf(&parts, ",{\"type\":\"Replace\",\"pattern\":{\"String\":\"x\"},\"content\":\"xxxxxxxxxx\"}");
  text_printf(&parts, "]}");
  text_add(&out, "before", 6);
  EXPECT(!decodes(parts.at, 1, &out, &why) && strstr(why.text, "decoding 1 ids") && strstr(why.text, "make too long a text"));
  EXPECT_TEXT(out.at, "before");
  text_close(&parts);
  text_close(&out);
}

TEST(a_decoders_pattern_that_gives_up_is_told) {
  Text out = {0};
  Why why = {""};
  const char *parts = "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Replace\",\"pattern\":"
                      "{\"Regex\":\"(x+x+)+[yz]\"},\"content\":\"\"}]}";
  EXPECT(decodes(parts, 8, &out, &why));
  EXPECT_TEXT(out.at, "xxxxxxxx");
  EXPECT(!decodes(parts, 60, &out, &why) && strstr(why.text, "a pattern gives up"));
  EXPECT_TEXT(out.at, "xxxxxxxx");
  text_close(&out);
}

TEST(ids_whose_pieces_are_longer_than_a_gibibyte_are_not_put_together) {
  enum { LONG = 1 << 20 };
  Text json = {0}, out = {0};
  Ids ids = {0};
  Tokenizer *t;
  Why why = {""};
  char *piece = xmalloc(LONG);
  memset(piece, 'x', LONG);
  text_printf(&json, "{\"model\":{\"vocab\":{\"");
  text_add(&json, piece, LONG);
  text_printf(&json, "\":0},\"merges\":[]}}");
  if (!try_tokenizer_parse("/dev/null/tokenizer", json.at, json.n, NULL, &t, &why))
    check_failed(__FILE__, __LINE__, "%s", why.text);
  for (int i = 0; i < 1024; i++) ids_add(&ids, &(int32_t){0}, 1);
  EXPECT(!try_tokenizer_decode(t, ids.at, ids.n, true, &out, &why) && strstr(why.text, "longer than 1 GiB"));
  EXPECT(try_tokenizer_decode(t, ids.at, 1, true, &out, &why) && out.n == LONG);
  tokenizer_close(t);
  ids_close(&ids);
  text_close(&json);
  text_close(&out);
  free(piece);
}

TEST(there_are_at_most_64_stages_of_a_kind) {
  static const struct {
    const char *what, *members, *stage;
  } kinds[] = {{"normalizer", "normalizers", "{\"type\":\"Strip\"}"},
               {"pre_tokenizer", "pretokenizers", "{\"type\":\"Digits\"}"},
               {"decoder", "decoders", "{\"type\":\"Fuse\"}"}};
  for (int k = 0; k < 3; k++)
    for (int n = 64; n <= 65; n++) {
      Text parts = {0};
      Tokenizer *t;
      Why why = {""};
      text_printf(&parts, "\"%s\":{\"type\":\"Sequence\",\"%s\":[", kinds[k].what, kinds[k].members);
      for (int i = 0; i < n; i++) text_printf(&parts, "%s%s", i ? "," : "", kinds[k].stage);
      text_printf(&parts, "]}");
      bool ok = try_parse(parts.at, &t, &why);
      EXPECT(ok == (n == 64) && (ok || strstr(why.text, ": more than 64 stages")));
      tokenizer_close(t);
      text_close(&parts);
    }
}

TEST(stages_that_cut_and_put_before_in_turn_end_before_time_does) {
  Text parts = {0};
  Why why = {""};
  text_printf(&parts, "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[");
  for (int i = 0; i < 60; i++) text_printf(&parts, "%s{\"type\":\"Metaspace\",\"replacement\":\"%c\"}", i ? "," : "", 'a' + i % 2);
  text_printf(&parts, "]}");
  EXPECT(count(parts.at, "xy", 2, &why) < 0 && strstr(why.text, "make too long a text"));
  text_close(&parts);
}

TEST(a_metaspace_is_one_character) {
  static const char *const wrong[] = {"", "ab", "\\u0000", "\\u2581\\u2581"};
  for (int i = 0; i < 4; i++) {
    char parts[128];
    Tokenizer *t;
    Why why = {""};
    snprintf(parts, sizeof parts, "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"%s\"}", wrong[i]);
    EXPECT(!try_parse(parts, &t, &why) && strstr(why.text, "replacement is not one character"));
  }
}

/* Room of which only what is written or read is ever there. */
static char *reserve(size_t n) {
  char *at = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(at != MAP_FAILED);
  return at;
}

TEST(texts_of_two_gibibytes_are_refused_where_they_are_counted_in_31_bits) {
  size_t n = (size_t)1 << 31;
  char *text = reserve(n);
  Arena *arena = arena_open();
  Bpe *bpe = bpe_open(arena, 1, 0);
  Ids ids = {0};
  Text out = {0};
  Why why = {""};
  BpeWork *w = bpe_work_open();
  bpe_start(bpe, &(BpeOptions){.unk = -1});
  EXPECT(!bpe_word(bpe, w, text, n, &ids, &why) && strstr(why.text, "more than 2^31 - 1"));
  memcpy(text, "\xC3\xA9", 2); /* ASCII would be every form of itself */
  if (!try_unicode_open(&why)) check_failed(__FILE__, __LINE__, "%s", why.text);
  EXPECT(!unicode_normalize(UNICODE_NFC, text, n, &out) && !out.n);
  EXPECT(unicode_normalize(UNICODE_NFD, text, 4, &out) && out.n == 5);
  bpe_work_close(w);
  arena_close(arena);
  text_close(&out);
  munmap(text, n);
}

#define STRIP "\"normalizer\":{\"type\":\"Strip\",\"strip_left\":%s,\"strip_right\":%s}"
#define BLANKS "\t\xC2\x85\xC2\xA0\xE2\x80\x83\xE3\x80\x80 "

TEST(strip_takes_white_space_of_its_ends_alone) {
  static const char text[] = BLANKS "x  y" BLANKS;
  for (int i = 0; i < 4; i++) {
    char parts[128];
    snprintf(parts, sizeof parts, STRIP, i & 1 ? "true" : "false", i & 2 ? "true" : "false");
    /* of BLANKS only one is a piece; the others are left out */
    EXPECT(count(parts, text, sizeof text - 1, NULL) == 4 + !(i & 1) + !(i & 2));
    EXPECT(count(parts, BLANKS, sizeof BLANKS - 1, NULL) == !i);
  }
}

/* Blanks between two letters. */
static double seconds_of_blanks(const char *parts, size_t n) {
  char *text = xmalloc(n);
  memset(text, ' ', n);
  text[0] = text[n - 1] = 'x';
  double begin = check_cpu_seconds();
  EXPECT(count(parts, text, n, NULL) == (int64_t)n);
  free(text);
  return check_cpu_seconds() - begin;
}

TEST(a_run_of_blanks_takes_no_longer_than_its_length) {
  static const char *const files[] = {"\"normalizer\":{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}",
                                      "\"added_tokens\":[{\"id\":2,\"content\":\" \",\"rstrip\":true,\"normalized\":false}]"};
  for (int i = 0; i < 2; i++) {
    double brief = seconds_of_blanks(files[i], 100000), whole = seconds_of_blanks(files[i], 1000000);
    if (whole > 40 * brief + 1) check_failed(__FILE__, __LINE__, "file %d: %.3f s, a tenth %.3f s", i, whole, brief);
  }
}
