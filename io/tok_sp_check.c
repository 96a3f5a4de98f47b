/* SPDX-License-Identifier: Apache-2.0 */
/* A SentencePiece model is looked through before the library sees it, which trusts more in a file than one should: it ends the
 * process at a piece that comes twice, follows the offsets of the table of characters wherever they lead, and reads past its room
 * for the keys that begin a text where there are more. Source: google/sentencepiece, src/sentencepiece_model.proto,
 * src/normalizer.cc; the table is Darts-clone's (a double array). */
#include <stdlib.h>
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
enum { TYPE_NORMAL = 1, TYPE_UNKNOWN = 2, TYPE_USER = 4, TYPE_BYTE = 6 };
/* Keys that one text may begin with: the library's room for them (0.1.97: kResultSize, kMaxTrieResultsSize). */
enum { USER_NESTED = 64, CHARS_NESTED = 32 };

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
  VEC(Wire) user; /* texts of those that are searched for first */
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
  if (type == TYPE_USER) vec_push(p->arena, &p->user, text);
  return true;
}

static bool begins(Wire whole, Wire with) {
  size_t n = (size_t)(with.end - with.at);
  return (size_t)(whole.end - whole.at) >= n && !memcmp(whole.at, with.at, n);
}

static int by_text(const void *a, const void *b) {
  const Wire *x = a, *y = b;
  ptrdiff_t m = x->end - x->at, n = y->end - y->at;
  int order = memcmp(x->at, y->at, (size_t)(m < n ? m : n));
  return order ? order : (m > n) - (m < n);
}

/* Sorted, a text follows what it begins with. */
static bool check_user(Pieces *p, Why *why) {
  Wire within[USER_NESTED];
  int n = 0;
  if (p->user.n) qsort(p->user.at, (size_t)p->user.n, sizeof *p->user.at, by_text);
  for (int i = 0; i < p->user.n; i++) {
    while (n && !begins(p->user.at[i], within[n - 1])) n--;
    if (n == USER_NESTED) return why_not(why, "more than %d user-defined pieces begin with one another", USER_NESTED);
    within[n++] = p->user.at[i];
  }
  return true;
}

/* --- table of characters --------------------------------------------------------------------------------------------------- */

enum { KEY_MOST = 1024 }; /* bytes of a key of the table; bounds the depth of the walk */

typedef struct Charsmap {
  const unsigned char *array;
  size_t units, texts;
  signed char *leaves; /* units: of children from there, the most on one way; -1: not known yet */
} Charsmap;

static uint32_t unit_at(const Charsmap *m, size_t i) {
  uint32_t unit;
  memcpy(&unit, m->array + 4 * i, 4);
  return unit;
}

/* Where the children of unit i are: of byte c at this ^ c. */
static size_t children_of(uint32_t unit, size_t i) { return i ^ (size_t)(unit >> 10) << ((unit & 0x200) >> 6); }

/* A unit is a value (bit 31), or a byte's: its children are there, and where it has a leaf (bit 8) that is a value that is a text.
 * The library asks no unit that it takes for a leaf, nor the first, which of both it is.  In a last block that is not whole only
 * zeros may be: nothing leads there. */
static bool check_unit(const Charsmap *m, size_t i) {
  uint32_t unit = unit_at(m, i), leaf;
  if (unit >> 31) return i && (unit & 0x7FFFFFFF) < m->texts;
  size_t children = children_of(unit, i);
  if ((children | 0xFF) >= m->units) return !unit;
  if (!(unit & 0x100)) return true;
  leaf = unit_at(m, children);
  return leaf >> 31 && (leaf & 0x7FFFFFFF) < m->texts;
}

/* The most leaves on one way from there down; -1: more than there may be, or no end. */
static int count_leaves(const Charsmap *m, size_t children, int depth) {
  int most = 0;
  if (m->leaves[children] >= 0) return m->leaves[children];
  if (depth == KEY_MOST) return -1;
  for (uint32_t c = 0; c < 256; c++) {
    size_t i = children ^ c;
    uint32_t unit = unit_at(m, i);
    if (!unit || (unit & 0x800000FF) != c) continue; /* zeros are of byte 0, without a leaf, and lead to themselves */
    int below = count_leaves(m, children_of(unit, i), depth + 1), n = below + (unit >> 8 & 1);
    if (below < 0 || n > CHARS_NESTED) return -1;
    if (n > most) most = n;
  }
  m->leaves[children] = (signed char)most;
  return most;
}

/* u32 size of the double array in bytes, its units, and texts that end with a NUL, which values are offsets into. */
static bool check_charsmap(Wire map, Why *why) {
  size_t n = (size_t)(map.end - map.at);
  uint32_t array;
  if (!n) return true;
  if (n < 4) return why_not(why, "its table of characters is cut short");
  memcpy(&array, map.at, 4);
  if (array < 1024 || array % 4 || array > n - 4) return why_not(why, "its table of characters has no size that fits");
  Charsmap m = {.array = map.at + 4, .units = array / 4, .texts = n - 4 - array};
  if (!m.texts || map.end[-1]) return why_not(why, "its table of characters has no end");
  for (size_t i = 0; i < m.units; i++)
    if (!check_unit(&m, i)) return why_not(why, "its table of characters leads outside");
  m.leaves = xmalloc(m.units);
  memset(m.leaves, -1, m.units);
  bool ok = count_leaves(&m, children_of(unit_at(&m, 0), 0), 0) >= 0;
  free(m.leaves);
  return ok || why_not(why, "its table of characters has more than %d keys that begin with one another, or a circle", CHARS_NESTED);
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
  if (!check_user(p, why)) return false;
  if (p->unknown != 1) return why_not(why, "it has %d unknown pieces, not 1", p->unknown);
  return !p->bytes || p->bytes == 256 || why_not(why, "it has %d bytes as pieces, not 256", p->bytes);
}

bool try_sp_check(const char *bytes, size_t n, Why *why) {
  Wire model = {(const unsigned char *)bytes, (const unsigned char *)bytes + n};
  int32_t count = count_pieces(model);
  if (!count)
    return why_not(why, "no tokenizer: neither JSON, nor lines of base64 and rank, nor a SentencePiece model\n"
                        "help: a tokenizer.json, *.model or *.tiktoken, a folder with one, or bytes");
  Pieces p = {.arena = arena_open()};
  p.seen = bpe_open(p.arena, count, 0);
  bool ok = check_model(&p, model, why);
  arena_close(p.arena);
  return ok;
}
