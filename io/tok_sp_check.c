/* SPDX-License-Identifier: Apache-2.0 */
/* A SentencePiece model is looked through before the library sees it, which trusts more in a file than one should: it ends the
 * process at a piece that comes twice, and follows the offsets of the table of characters wherever they lead.
 * Source: google/sentencepiece, src/sentencepiece_model.proto, src/normalizer.cc; the table is Darts-clone's (a double array). */
#include <string.h>

#include "io/tok_impl.h"

/* A message in the wire format of protocol buffers, and what is left of it. */
typedef struct Wire {
  const unsigned char *at, *end;
} Wire;

typedef struct Field {
  uint32_t number, type;
  uint64_t value;
  Wire inside; /* of type BYTES */
} Field;

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
enum { PIECES = 1, NORMALIZER = 3, DENORMALIZER = 5 }; /* of ModelProto */
enum { PIECE_TEXT = 1, PIECE_TYPE = 3, CHARSMAP = 2 }; /* of SentencePiece; of NormalizerSpec */
enum { TYPE_NORMAL = 1, TYPE_UNKNOWN = 2, TYPE_BYTE = 6 };

static bool read_varint(Wire *w, uint64_t *value) {
  *value = 0;
  for (int shift = 0; shift < 64 && w->at < w->end; shift += 7) {
    unsigned char byte = *w->at++;
    *value |= (uint64_t)(byte & 0x7F) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

/* The next field; false at the end or where there is none, which w->at < w->end tells. */
static bool read_field(Wire *w, Field *f) {
  Wire start = *w;
  uint64_t tag;
  if (w->at == w->end || !read_varint(w, &tag)) return *w = start, false;
  *f = (Field){.number = (uint32_t)(tag >> 3), .type = (uint32_t)(tag & 7)};
  size_t left, take = f->type == FIXED64 ? 8 : f->type == FIXED32 ? 4 : 0;
  bool ok = tag >> 3 > 0 && tag >> 32 == 0;
  if (f->type == VARINT || f->type == BYTES) ok = ok && read_varint(w, &f->value);
  left = (size_t)(w->end - w->at);
  if (f->type == BYTES) {
    ok = ok && f->value <= left;
    take = ok ? (size_t)f->value : 0;
    f->inside = (Wire){w->at, w->at + take};
  }
  if (!ok || take > left || f->type == 3 || f->type == 4 || f->type > 5) return *w = start, false;
  w->at += take;
  return true;
}

/* --- pieces ---------------------------------------------------------------------------------------------------------------- */

typedef struct Pieces {
  Arena *arena;
  Bpe *seen; /* only for its table of texts */
  int32_t n, unknown, bytes;
} Pieces;

static bool check_piece(Pieces *p, Wire piece, Why *why) {
  Field f;
  Wire text = {0};
  uint64_t type = TYPE_NORMAL;
  while (read_field(&piece, &f)) {
    if (f.number == PIECE_TEXT && f.type == BYTES) text = f.inside;
    if (f.number == PIECE_TYPE && f.type == VARINT) type = f.value;
  }
  size_t n = (size_t)(text.end - text.at);
  if (piece.at < piece.end) return why_not(why, "piece %d is damaged", p->n);
  if (!n || memchr(text.at, 0, n)) return why_not(why, "piece %d has no text", p->n);
  if (type < TYPE_NORMAL || type > TYPE_BYTE) return why_not(why, "piece %d is of no known type", p->n);
  if (type == TYPE_BYTE && fallback_byte((const char *)text.at, n) < 0) return why_not(why, "piece %d is no byte", p->n);
  if (!bpe_add_piece(p->seen, (const char *)text.at, n, p->n)) return why_not(why, "piece %d comes twice", p->n);
  p->n++;
  p->unknown += type == TYPE_UNKNOWN;
  p->bytes += type == TYPE_BYTE;
  return true;
}

/* --- table of characters --------------------------------------------------------------------------------------------------- */

/* u32 size of the double array in bytes, its units, and texts that end with a NUL, which values are offsets into. */
static bool check_charsmap(Wire map, Why *why) {
  size_t n = (size_t)(map.end - map.at);
  uint32_t array, unit;
  if (!n) return true;
  if (n < 4) return why_not(why, "its table of characters is cut short");
  memcpy(&array, map.at, 4);
  if (array < 1024 || array % 4 || array > n - 4) return why_not(why, "its table of characters has no size that fits");
  size_t units = array / 4, texts = n - 4 - array;
  if (!texts || map.end[-1]) return why_not(why, "its table of characters has no end");
  for (size_t i = 0; i < units; i++) {
    memcpy(&unit, map.at + 4 + 4 * i, 4);
    if (unit >> 31) { /* a value */
      if ((unit & 0x7FFFFFFF) >= texts) return why_not(why, "its table of characters leads outside");
      continue;
    }
    size_t offset = (size_t)(unit >> 10) << ((unit & 0x200) >> 6), next = i ^ offset;
    if ((next | 0xFF) >= units && unit) return why_not(why, "its table of characters leads outside");
  }
  return true;
}

static bool check_normalizer(Wire spec, Why *why) {
  Field f;
  while (read_field(&spec, &f))
    if (f.number == CHARSMAP && f.type == BYTES && !check_charsmap(f.inside, why)) return false;
  return spec.at == spec.end || why_not(why, "its normalizer is damaged");
}

/* --- the model ------------------------------------------------------------------------------------------------------------- */

static int32_t count_pieces(Wire model) {
  Field f;
  int32_t n = 0;
  while (read_field(&model, &f)) n += f.number == PIECES;
  return n;
}

static bool check_model(Pieces *p, Wire model, Why *why) {
  Field f;
  while (read_field(&model, &f)) {
    if (f.type != BYTES) continue;
    if (f.number == PIECES && !check_piece(p, f.inside, why)) return false;
    if ((f.number == NORMALIZER || f.number == DENORMALIZER) && !check_normalizer(f.inside, why)) return false;
  }
  if (model.at < model.end) return why_not(why, "no SentencePiece model, or cut short");
  if (p->unknown != 1) return why_not(why, "it has %d unknown pieces, not 1", p->unknown);
  return !p->bytes || p->bytes == 256 || why_not(why, "it has %d bytes as pieces, not 256", p->bytes);
}

bool try_sp_check(const char *bytes, size_t n, Why *why) {
  Wire model = {(const unsigned char *)bytes, (const unsigned char *)bytes + n};
  int32_t count = count_pieces(model);
  if (!count) return why_not(why, "no tokenizer: neither JSON, nor lines of base64 and rank, nor a SentencePiece model");
  Pieces p = {.arena = arena_open()};
  p.seen = bpe_open(p.arena, count, 0);
  bool ok = check_model(&p, model, why);
  arena_close(p.arena);
  return ok;
}
