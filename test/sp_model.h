/* SPDX-License-Identifier: Apache-2.0 */
/* Small SentencePiece models, in the wire format of protocol buffers, with as many nested keys as is asked for. */
#ifndef TEST_SP_MODEL_H
#define TEST_SP_MODEL_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "src/base/text.h"

/* A field of bytes. */
static inline void sp_add_bytes(Text *out, int number, const Text *bytes) {
  size_t n = bytes->n;
  text_add(out, &(char){(char)(number << 3 | 2)}, 1);
  for (; n > 127; n >>= 7) text_add(out, &(char){(char)((n & 127) | 128)}, 1);
  text_add(out, &(char){(char)n}, 1);
  text_add(out, bytes->at, bytes->n);
}

static inline void sp_add_piece(Text *model, const char *text, char type) {
  Text piece = {0};
  sp_add_bytes(&piece, 1, &(Text){.at = (char *)text, .n = strlen(text)});
  text_add(&piece, (char[]){3 << 3, type}, 2);
  sp_add_bytes(model, 1, &piece);
  text_close(&piece);
}

/* A model of <unk>, b, and user < 128 user-defined pieces that begin with one another; with a table of characters where there is
 * one. */
static inline void sp_make_model(Text *model, int user, const uint32_t *units, size_t n_units) {
  char piece[128] = "";
  sp_add_piece(model, "<unk>", 2);
  sp_add_piece(model, "b", 1);
  for (int i = 0; i < user; i++) {
    piece[i] = 'a';
    sp_add_piece(model, piece, 4);
  }
  if (!n_units) return;
  Text map = {0}, spec = {0};
  uint32_t bytes = (uint32_t)(4 * n_units);
  text_add(&map, (const char *)&bytes, 4);
  text_add(&map, (const char *)units, bytes);
  text_add(&map, "x", 2);
  sp_add_bytes(&spec, 2, &map);
  sp_add_bytes(model, 3, &spec);
  text_close(&map);
  text_close(&spec);
}

/* A small model with all bytes as pieces: of pairs that merge (type 2) or of likelihoods (1). */
static inline void sp_make_small(Text *model, int type) {
  static const char *const pieces[] = {"\xe2\x96\x81", "a", "b", "e", "\xc3\xa9", "ab", "\342\226\201a", "aba"};
  char byte[8];
  const char trainer[] = {3 << 3, (char)type, (char)((35 << 3 & 127) | 128), 35 >> 4, 1}; /* model_type, byte_fallback */
  sp_add_piece(model, "<unk>", 2);
  sp_add_piece(model, "<s>", 3);
  sp_add_piece(model, "</s>", 3);
  for (int b = 0; b < 256; b++) {
    snprintf(byte, sizeof byte, "<0x%02X>", b);
    sp_add_piece(model, byte, 6);
  }
  for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) sp_add_piece(model, pieces[i], 1);
  sp_add_bytes(model, 2, &(Text){.at = (char *)trainer, .n = sizeof trainer});
}

/* n < 47 keys a, aa, aaa, …, which all become x.  From place sp_base(k) the k'th a leads on: its unit is there ^ 'a', and there
 * itself is the leaf of the key before, so that bases are even, those units odd, and all have room in the fewest units that there
 * can be. */
enum { SP_UNITS = 256, SP_LEAF = 0x100, SP_VALUE = 1u << 31 };
static inline size_t sp_base(int k) { return 2 * (size_t)k; }
static inline uint32_t sp_leads(size_t from, size_t to, uint32_t rest) { return (uint32_t)(from ^ to) << 10 | rest; }
static inline void sp_make_keys(uint32_t units[SP_UNITS], int n) {
  memset(units, 0, sizeof *units * SP_UNITS);
  units[0] = sp_leads(0, sp_base(1), 0);
  for (int k = 1; k <= n; k++) {
    size_t a = sp_base(k) ^ 'a';
    units[a] = sp_leads(a, sp_base(k + 1), SP_LEAF | 'a');
    units[sp_base(k + 1)] = SP_VALUE;
  }
}

#endif
