/* SPDX-License-Identifier: Apache-2.0 */
/* Files of tokenizers that were made to lead a library astray, or to take all memory or time: they end with a reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/tok_impl.h"
#include "src/base/arena.h"
#include "src/base/module.h"
#include "test/check.h"

BEFORE_ALL {
  const char *build = getenv("builddir");
  module_look_in(build ? build : ".");
}

/* --- SentencePiece --------------------------------------------------------------------------------------------------------- */

/* A field of bytes in the wire format of protocol buffers. */
static void add_bytes(Text *out, int number, const Text *bytes) {
  size_t n = bytes->n;
  text_add(out, &(char){(char)(number << 3 | 2)}, 1);
  for (; n > 127; n >>= 7) text_add(out, &(char){(char)((n & 127) | 128)}, 1);
  text_add(out, &(char){(char)n}, 1);
  text_add(out, bytes->at, bytes->n);
}

static void add_piece(Text *model, const char *text, char type) {
  Text piece = {0};
  add_bytes(&piece, 1, &(Text){.at = (char *)text, .n = strlen(text)});
  text_add(&piece, (char[]){3 << 3, type}, 2);
  add_bytes(model, 1, &piece);
  text_close(&piece);
}

/* A model of <unk>, a, and n user-defined pieces that begin with one another; with a table of characters where there is one. */
static void make_model(Text *model, int user, const uint32_t *units, size_t n_units) {
  char piece[128] = "";
  add_piece(model, "<unk>", 2);
  add_piece(model, "b", 1);
  for (int i = 0; i < user; i++) {
    piece[i] = 'a';
    add_piece(model, piece, 4);
  }
  if (!n_units) return;
  Text map = {0}, spec = {0};
  uint32_t bytes = (uint32_t)(4 * n_units);
  text_add(&map, (const char *)&bytes, 4);
  text_add(&map, (const char *)units, bytes);
  text_add(&map, "x", 2);
  add_bytes(&spec, 2, &map);
  add_bytes(model, 3, &spec);
  text_close(&map);
  text_close(&spec);
}

static bool checks(int user, const uint32_t *units, size_t n_units, Why *why) {
  Text model = {0};
  make_model(&model, user, units, n_units);
  bool ok = try_sp_check(model.at, model.n, why);
  text_close(&model);
  return ok;
}

TEST(user_defined_pieces_that_begin_with_one_another_are_at_most_the_librarys_room) {
  Why why = {""};
  EXPECT(checks(64, NULL, 0, &why));
  EXPECT(!checks(65, NULL, 0, &why) && strstr(why.text, "more than 64 user-defined pieces"));
}

/* Keys a, aa, aaa, …: units of a block each, whose unit 0 is the leaf of the one before. */
enum { BLOCK = 256, BLOCKS = 40, LEAF = 0x100, VALUE = 1u << 31 };
static uint32_t leads(size_t from, size_t to, uint32_t rest) { return (uint32_t)(from ^ to) << 10 | rest; }
static void make_keys(uint32_t *units, int n) {
  memset(units, 0, sizeof *units * BLOCKS * BLOCK);
  units[0] = leads(0, BLOCK, 0);
  for (int k = 1; k <= n; k++) {
    size_t at = (size_t)k * BLOCK, a = at + 'a';
    units[a] = leads(a, at + BLOCK, LEAF | 'a');
    units[at + BLOCK] = VALUE;
  }
}

TEST(keys_of_a_table_of_characters_that_begin_with_one_another_are_at_most_the_librarys_room) {
  static uint32_t units[BLOCKS * BLOCK];
  Why why = {""};
  make_keys(units, 32);
  if (!checks(0, units, BLOCKS * BLOCK, &why)) check_failed(__FILE__, __LINE__, "%s", why.text);
  make_keys(units, 33);
  EXPECT(!checks(0, units, BLOCKS * BLOCK, &why) && strstr(why.text, "more than 32 keys"));
  make_keys(units, 2);
  units[2 * BLOCK + 'a'] = leads(2 * BLOCK + 'a', BLOCK, 'a'); /* a circle */
  EXPECT(!checks(0, units, BLOCKS * BLOCK, &why) && strstr(why.text, "more than 32 keys"));
}

TEST(a_table_of_characters_whose_leaves_or_offsets_lead_outside_is_refused) {
  static uint32_t units[BLOCKS * BLOCK];
  static const struct {
    size_t at;
    uint32_t unit;
  } wrong[] = {{2 * BLOCK, VALUE | 2},                /* behind the texts */
               {2 * BLOCK, 0x7FFFFF00},               /* a leaf that is no value */
               {2 * BLOCK, 0},                        /* nor is this */
               {0, VALUE | 0x7FFFFF00},               /* the first, which nobody asks what it is */
               {0, (uint32_t)(BLOCKS * BLOCK) << 10}, /* one block too far */
               {7, VALUE | 2}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    Why why = {""};
    make_keys(units, 1);
    EXPECT(checks(0, units, BLOCKS * BLOCK, &why));
    units[wrong[i].at] = wrong[i].unit;
    if (checks(0, units, BLOCKS * BLOCK, &why) || !strstr(why.text, "leads outside"))
      check_failed(__FILE__, __LINE__, "case %zu: '%s'", i, why.text);
  }
}
