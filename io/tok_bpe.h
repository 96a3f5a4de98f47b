/* SPDX-License-Identifier: Apache-2.0 */
/* Byte pair encoding (Sennrich, Haddow, Birch, "Neural machine translation of rare words with subword units", ACL 2016): a word is
 * cut into its smallest symbols; of all neighbours that make a piece the pair of lowest rank is joined, the leftmost first, until
 * none is left. */
#ifndef IO_TOK_BPE_H
#define IO_TOK_BPE_H

#include "io/tokenizer.h"
#include "src/base/arena.h"

typedef struct Bpe Bpe;
typedef struct BpeWork BpeWork; /* a thread's: queues, and a bounded number of words met before */

typedef struct BpeOptions {
  bool bytes;           /* the smallest symbols are bytes, else characters */
  bool fallback;        /* a character that is no piece: its bytes, if all 256 have ids in byte_id */
  bool ignore_merges;   /* a word that is a piece is that piece */
  bool fuse_unk;        /* unknown characters in a row are one UNK */
  int32_t unk;          /* -1: what is unknown is left out */
  int32_t byte_id[256]; /* -1: none */
} BpeOptions;

Bpe *bpe_open(Arena *arena, int64_t pieces, int64_t merges);    /* how many will come */
void bpe_room_for_merges(Bpe *b, Arena *arena, int64_t merges); /* instead of what bpe_open was told, before the first comes */
/* Bytes are kept, not copied.  False: those bytes are a piece already. */
bool bpe_add_piece(Bpe *b, const char *bytes, size_t n, int32_t id);
int32_t bpe_find(const Bpe *b, const char *bytes, size_t n); /* -1: no piece */
/* The later of two for one pair counts. */
void bpe_add_merge(Bpe *b, int32_t left, int32_t right, uint32_t rank, int32_t joined);
/* Of a merge's texts: the last character of the left one, the first of the right one.  Where all merges are told, a long word of
 * characters is cut between two that no merge has so: nothing is ever joined across, and parts come again where words do not. */
void bpe_add_border(Bpe *b, uint32_t last, uint32_t first);
void bpe_start(Bpe *b, const BpeOptions *options); /* once all pieces are there */

BpeWork *bpe_work_open(void);
void bpe_work_close(BpeWork *w);

/* Appends the ids of a word of n bytes; of characters where symbols are those, among them escaped bytes (utf8.h).  False: n is 2^31
 * or more. */
bool bpe_word(const Bpe *b, BpeWork *w, const char *word, size_t n, Ids *ids, Why *why);

#endif
