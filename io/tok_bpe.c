/* SPDX-License-Identifier: Apache-2.0 */
/* Two hash tables hold pieces by their bytes and merges by their pair.  Short words, which nearly all are, are joined by looking
 * over all pairs again and again; long ones with a queue (a heap of rank and place), so that n symbols cost n·log n.  An entry of
 * the queue whose pair has changed is recognised by its rank when it comes up. */
#include "io/tok_bpe.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/utf8.h"

typedef struct Piece {
  const char *at; /* NULL: a free place */
  uint32_t n;
  int32_t id;
} Piece;

typedef struct Merge {
  uint64_t pair; /* left << 32 | right */
  uint32_t rank;
  int32_t joined;
} Merge;

static const uint64_t NO_PAIR = UINT64_MAX;
enum { NO_RANK = -1 };

struct Bpe {
  BpeOptions o;
  Piece *pieces;
  Merge *merges;
  uint64_t piece_mask, merge_mask;
  int32_t ascii[128]; /* pieces of one such character */
  uint64_t *borders;  /* as many places as merges; last << 32 | first, NO_PAIR: a free place */
  bool has_borders;
};

typedef struct Symbol {
  int32_t id, previous, next; /* id -1: joined to one on its left; places -1: none */
} Symbol;

/* A word met before: an entry by its hash, the newer one stays.  Sizes: 64 B of a line hold a word of most texts and its ids. */
enum { CACHE_BITS = 14, CACHE_WORD = 31, CACHE_IDS = 8, SHORT = 40 };
typedef struct Cached {
  uint8_t n, n_ids; /* n 0: empty */
  char word[CACHE_WORD];
  int32_t ids[CACHE_IDS];
} Cached;

struct BpeWork {
  Symbol *symbols;
  int64_t symbols_cap;
  uint64_t *queue;
  int64_t queue_n, queue_cap;
  Cached *cache;
};

/* --- tables ---------------------------------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u; /* odd, and its bits are even: from a search for such multipliers (J. Maiga, "mx3") */
  return x ^ x >> 32;
}

static uint64_t hash_bytes(const char *at, size_t n) {
  uint64_t h = n * 0x9e3779b97f4a7c15u, part;
  for (; n >= 8; at += 8, n -= 8) {
    memcpy(&part, at, 8);
    h = mix(h ^ part) + 0x9e3779b97f4a7c15u;
  }
  part = 0;
  if (n) memcpy(&part, at, n);
  return mix(h ^ part);
}

static uint64_t table_mask(int64_t n) {
  uint64_t size = 16;
  while (size < 2 * (uint64_t)n) size *= 2;
  return size - 1;
}

Bpe *bpe_open(Arena *arena, int64_t pieces, int64_t merges) {
  Bpe *b = arena_new(arena, Bpe);
  b->piece_mask = table_mask(pieces);
  b->pieces = arena_array(arena, Piece, b->piece_mask + 1);
  bpe_room_for_merges(b, arena, merges);
  return b;
}

void bpe_room_for_merges(Bpe *b, Arena *arena, int64_t merges) {
  b->merge_mask = table_mask(merges);
  b->merges = arena_array(arena, Merge, b->merge_mask + 1);
  b->borders = arena_array(arena, uint64_t, b->merge_mask + 1);
  for (uint64_t i = 0; i <= b->merge_mask; i++) b->merges[i].pair = b->borders[i] = NO_PAIR;
}

static Piece *find_piece(const Bpe *b, const char *bytes, size_t n, uint64_t hash) {
  uint64_t i = hash & b->piece_mask;
  while (b->pieces[i].at && (b->pieces[i].n != n || memcmp(b->pieces[i].at, bytes, n))) i = (i + 1) & b->piece_mask;
  return &b->pieces[i];
}

bool bpe_add_piece(Bpe *b, const char *bytes, size_t n, int32_t id) {
  Piece *p = find_piece(b, bytes, n, hash_bytes(bytes, n));
  if (p->at) return false;
  *p = (Piece){bytes, (uint32_t)n, id};
  return true;
}

int32_t bpe_find(const Bpe *b, const char *bytes, size_t n) {
  const Piece *p = find_piece(b, bytes, n, hash_bytes(bytes, n));
  return p->at ? p->id : -1;
}

static Merge *find_merge(const Bpe *b, int32_t left, int32_t right) {
  uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right, i = mix(pair * 0x9e3779b97f4a7c15u) & b->merge_mask;
  while (b->merges[i].pair != pair && b->merges[i].pair != NO_PAIR) i = (i + 1) & b->merge_mask;
  return &b->merges[i];
}

void bpe_add_merge(Bpe *b, int32_t left, int32_t right, uint32_t rank, int32_t joined) {
  Merge *m = find_merge(b, left, right);
  *m = (Merge){(uint64_t)(uint32_t)left << 32 | (uint32_t)right, rank, joined};
}

static uint64_t *find_border(const Bpe *b, uint32_t last, uint32_t first) {
  uint64_t border = (uint64_t)last << 32 | first, i = mix(border * 0x9e3779b97f4a7c15u) & b->merge_mask;
  while (b->borders[i] != border && b->borders[i] != NO_PAIR) i = (i + 1) & b->merge_mask;
  return &b->borders[i];
}

void bpe_add_border(Bpe *b, uint32_t last, uint32_t first) {
  *find_border(b, last, first) = (uint64_t)last << 32 | first;
  b->has_borders = true;
}

/* The rank of a pair, NO_RANK where it makes no piece. */
static int64_t pair_rank(const Bpe *b, int32_t left, int32_t right, int32_t *joined) {
  const Merge *m = find_merge(b, left, right);
  *joined = m->joined;
  return m->pair == NO_PAIR ? NO_RANK : (int64_t)m->rank;
}

void bpe_start(Bpe *b, const BpeOptions *options) {
  b->o = *options;
  for (int c = 0; c < 128; c++) b->ascii[c] = bpe_find(b, &(char){(char)c}, 1);
}

/* --- a thread's room ------------------------------------------------------------------------------------------------------- */

BpeWork *bpe_work_open(void) {
  BpeWork *w = xmalloc(sizeof *w);
  *w = (BpeWork){0};
  CHECK((w->cache = calloc(1 << CACHE_BITS, sizeof *w->cache))); /* a megabyte, touched where words come to lie */
  return w;
}

void bpe_work_close(BpeWork *w) {
  free(w->symbols);
  free(w->queue);
  free(w->cache);
  free(w);
}

static void reserve_symbols(BpeWork *w, size_t n) {
  if ((int64_t)n <= w->symbols_cap) return;
  w->symbols_cap = 2 * (int64_t)n;
  w->symbols = xrealloc(w->symbols, sizeof *w->symbols * (size_t)w->symbols_cap);
}

/* --- symbols --------------------------------------------------------------------------------------------------------------- */

static int32_t add_symbol(BpeWork *w, int32_t n, int32_t id) {
  w->symbols[n] = (Symbol){id, n - 1, n + 1};
  return n + 1;
}

/* Unknown characters become UNK once something known follows, or at the end: behind bytes that stand for a character in between,
 * which is where the library puts it, too. */
typedef struct Cut {
  const Bpe *b;
  BpeWork *w;
  int32_t n;    /* symbols */
  bool pending; /* an UNK */
} Cut;

static void add_pending(Cut *cut) {
  if (cut->pending) cut->n = add_symbol(cut->w, cut->n, cut->b->o.unk);
  cut->pending = false;
}

static void add_known(Cut *cut, int32_t id) {
  add_pending(cut);
  cut->n = add_symbol(cut->w, cut->n, id);
}

static void add_unknown(Cut *cut) {
  if (!cut->b->o.fuse_unk) add_pending(cut);
  cut->pending = cut->b->o.unk >= 0;
}

static void cut_bytes(Cut *cut, const char *word, size_t n) {
  for (size_t i = 0; i < n; i++) {
    int32_t id = cut->b->o.byte_id[(unsigned char)word[i]];
    if (id >= 0)
      add_known(cut, id);
    else
      add_unknown(cut);
  }
}

/* A character that is no piece: as bytes, as UNK, or not at all. */
static void fall_back(Cut *cut, const char *at, int length, uint32_t c) {
  const int32_t *byte_id = cut->b->o.byte_id;
  char byte = (char)utf8_escaped(c);
  if (utf8_escaped(c) >= 0) at = &byte, length = 1;
  bool known = cut->b->o.fallback;
  for (int i = 0; i < length; i++) known = known && byte_id[(unsigned char)at[i]] >= 0;
  for (int i = 0; known && i < length; i++) cut->n = add_symbol(cut->w, cut->n, byte_id[(unsigned char)at[i]]);
  if (!known) add_unknown(cut);
}

static void cut_characters(Cut *cut, const char *word, size_t n) {
  for (size_t i = 0; i < n;) {
    uint32_t c;
    int length = utf8_read(word + i, &c);
    int32_t id = c < 128 ? cut->b->ascii[c] : utf8_escaped(c) >= 0 ? -1 : bpe_find(cut->b, word + i, (size_t)length);
    if (id >= 0)
      add_known(cut, id);
    else
      fall_back(cut, word + i, length, c);
    i += (size_t)length;
  }
}

/* --- joining --------------------------------------------------------------------------------------------------------------- */

static void join(Symbol *s, int32_t at, int32_t n, int32_t joined) {
  int32_t right = s[at].next, behind = s[right].next;
  s[at].id = joined;
  s[at].next = behind;
  s[right].id = -1;
  if (behind < n) s[behind].previous = at;
}

static void join_short(const Bpe *b, Symbol *s, int32_t n) {
  int64_t rank[SHORT]; /* of each symbol with the next one */
  int32_t joined[SHORT];
  for (int32_t i = 0; i + 1 < n; i++) rank[i] = pair_rank(b, s[i].id, s[i + 1].id, &joined[i]);
  while (true) {
    int32_t best = -1;
    for (int32_t i = 0; i < n && s[i].next < n; i = s[i].next)
      if (rank[i] >= 0 && (best < 0 || rank[i] < rank[best])) best = i;
    if (best < 0) return;
    join(s, best, n, joined[best]);
    if (s[best].next < n) rank[best] = pair_rank(b, s[best].id, s[s[best].next].id, &joined[best]);
    int32_t before = s[best].previous;
    if (best > 0 && before >= 0) rank[before] = pair_rank(b, s[before].id, s[best].id, &joined[before]);
  }
}

/* The queue: a binary heap of rank << 32 | place, the least on top. */
static void queue_put(BpeWork *w, uint64_t entry) {
  if (w->queue_n == w->queue_cap) {
    w->queue_cap = w->queue_cap ? 2 * w->queue_cap : 1024;
    w->queue = xrealloc(w->queue, sizeof *w->queue * (size_t)w->queue_cap);
  }
  int64_t i = w->queue_n++;
  for (int64_t up; i && w->queue[up = (i - 1) / 2] > entry; i = up) w->queue[i] = w->queue[up];
  w->queue[i] = entry;
}

static uint64_t queue_take(BpeWork *w) {
  uint64_t top = w->queue[0], last = w->queue[--w->queue_n];
  int64_t i = 0, n = w->queue_n;
  for (int64_t down; (down = 2 * i + 1) < n; i = down) {
    down += down + 1 < n && w->queue[down + 1] < w->queue[down];
    if (w->queue[down] >= last) break;
    w->queue[i] = w->queue[down];
  }
  if (n) w->queue[i] = last;
  return top;
}

static void queue_pair(const Bpe *b, BpeWork *w, int32_t at) {
  int32_t joined;
  int64_t rank = pair_rank(b, w->symbols[at].id, w->symbols[w->symbols[at].next].id, &joined);
  if (rank >= 0) queue_put(w, (uint64_t)rank << 32 | (uint32_t)at);
}

static void join_long(const Bpe *b, BpeWork *w, int32_t n) {
  Symbol *s = w->symbols;
  w->queue_n = 0;
  for (int32_t i = 0; i + 1 < n; i++) queue_pair(b, w, i);
  while (w->queue_n) {
    uint64_t top = queue_take(w);
    int32_t at = (int32_t)(uint32_t)top, joined;
    if (s[at].id < 0 || s[at].next >= n || pair_rank(b, s[at].id, s[s[at].next].id, &joined) != (int64_t)(top >> 32)) continue;
    join(s, at, n, joined);
    if (s[at].previous >= 0) queue_pair(b, w, s[at].previous);
    if (s[at].next < n) queue_pair(b, w, at);
  }
}

static void encode(const Bpe *b, BpeWork *w, const char *word, size_t n, Ids *ids) {
  int32_t whole = b->o.ignore_merges ? bpe_find(b, word, n) : -1;
  if (whole >= 0) return ids_add(ids, &whole, 1);
  reserve_symbols(w, n);
  Cut cut = {.b = b, .w = w};
  if (b->o.bytes)
    cut_bytes(&cut, word, n);
  else
    cut_characters(&cut, word, n);
  add_pending(&cut);
  if (cut.n <= SHORT)
    join_short(b, w->symbols, cut.n);
  else
    join_long(b, w, cut.n);
  for (int32_t i = 0; i < cut.n; i = w->symbols[i].next) ids_add(ids, &w->symbols[i].id, 1);
}

static void encode_part(const Bpe *b, BpeWork *w, const char *word, size_t n, Ids *ids) {
  if (n > CACHE_WORD) return encode(b, w, word, n, ids);
  Cached *c = &w->cache[hash_bytes(word, n) >> (64 - CACHE_BITS)];
  if (c->n == n && !memcmp(c->word, word, n)) return ids_add(ids, c->ids, c->n_ids);
  int64_t first = ids->n;
  encode(b, w, word, n, ids);
  if (ids->n - first > CACHE_IDS) return;
  c->n = (uint8_t)n;
  c->n_ids = (uint8_t)(ids->n - first);
  memcpy(c->word, word, n);
  if (c->n_ids) memcpy(c->ids, ids->at + first, sizeof *ids->at * c->n_ids);
}

/* Characters that are no piece become bytes or UNK, of which borders know nothing: no cut beside one. */
static void encode_parts(const Bpe *b, BpeWork *w, const char *word, size_t n, Ids *ids) {
  bool was_piece = false;
  uint32_t last = 0, c;
  size_t start = 0;
  for (size_t i = 0, length; i < n; i += length) {
    length = (size_t)utf8_read(word + i, &c);
    bool is_piece = (c < 128 ? b->ascii[c] : utf8_escaped(c) >= 0 ? -1 : bpe_find(b, word + i, length)) >= 0;
    if (is_piece && was_piece && *find_border(b, last, c) == NO_PAIR) {
      encode_part(b, w, word + start, i - start, ids);
      start = i;
    }
    last = c;
    was_piece = is_piece;
  }
  encode_part(b, w, word + start, n - start, ids);
}

bool bpe_word(const Bpe *b, BpeWork *w, const char *word, size_t n, Ids *ids, Why *why) {
  if (n > INT32_MAX) return why_not(why, "a word has %zu bytes, more than 2^31 - 1", n);
  if (!n) return true;
  if (n > CACHE_WORD && b->has_borders && !b->o.bytes && !b->o.ignore_merges)
    encode_parts(b, w, word, n, ids);
  else
    encode_part(b, w, word, n, ids);
  return true;
}
