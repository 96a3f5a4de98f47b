/* SPDX-License-Identifier: Apache-2.0 */
/* Token data: files of token ids, memory-mapped and read as one stream; which sample comes when; and the writer.
 *
 * A file is llm.c's (256 little-endian int32: magic 20240520, version 1, count, then uint16 ids; or magic 20240801, version 7,
 * count, uint32 ids; its size must match exactly), Megatron's (megatron.h), HDF5 (h5_tokens.h) or headerless: then its width must
 * be told.  Those made
 * here say in the rest of the header, which llm.c does not look at, by which tokenizer (TokenNote).  Beside it may lie marks, a
 * byte an id (token_marks.h): which ids count as labels, and where documents begin. */
#ifndef IO_TOKENS_H
#define IO_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/fail.h"

/* Who made a file of what; written in its header. */
typedef struct TokenNote {
  int64_t vocab;      /* ids are below; 0: not known, and then nothing is noted */
  char tokenizer[65]; /* tokenizer_hash */
  char job[65];       /* of the texts and settings, in the same form: the same job makes the same file */
  bool marked;        /* marks lie beside it, those of documents among them */
} TokenNote;

/* --- reading ------------------------------------------------------------------------------------------------------------ */

typedef struct Tokens Tokens;

typedef struct TokensAsk {
  int width;           /* bytes of an id in headerless files: 2 or 4, 0 when not told */
  int64_t vocab;       /* ids are below */
  const char *dataset; /* of HDF5 files */
} TokensAsk;

/* Files by patterns (glob), pattern after pattern, the matches of each in byte order of their paths.  Every file's header and
 * size are checked here, its ids when they are read.  Input errors name the file. */
Tokens *tokens_open(const char *const *patterns, int n_patterns, const TokensAsk *ask);
bool try_tokens_open(const char *const *patterns, int n_patterns, const TokensAsk *ask, Tokens **tokens, Why *why);
void tokens_close(Tokens *t); /* NULL is fine */

int64_t tokens_n(const Tokens *t); /* ids in all files */
int tokens_files(const Tokens *t);
/* Of file i: its path, and its note; NULL where it has none. */
const char *tokens_note(const Tokens *t, int i, const TokenNote **note);

/* Whole samples of S+1 ids, each starting S after the one before; an input error when there is none. */
int64_t tokens_samples(const Tokens *t, int64_t S);

/* The file in which sample i begins. */
const char *tokens_file(const Tokens *t, int64_t i, int64_t S);

/* The number of the pattern that found the file of id `at`. */
int tokens_pattern(const Tokens *t, int64_t at);

/* Sample i, ids iS … iS+S, into out (S+1): inputs are its first S, labels its last S.  Samples may cross files.  An id
 * outside the vocabulary is an input error with file and position.  Threads may read at once. */
void tokens_sample(const Tokens *t, int64_t i, int64_t S, int32_t *out);

/* The same of ids at … at+n-1, all of which are there; false, with what tokens_sample would say. */
bool try_tokens_read(const Tokens *t, int64_t at, int64_t n, int32_t *out, Why *why);

/* Bits of an id's mark. */
enum { TOKEN_COUNTS = 1 /* as a label */, TOKEN_BEGINS = 2 /* a document */ };
/* Marks of ids at … at+n-1; a file without them counts whole and tells of no document.  False: one is no mark. */
bool try_tokens_marks(const Tokens *t, int64_t at, int64_t n, uint8_t *marks, Why *why);
bool tokens_marked(const Tokens *t);                            /* some file has them */
bool tokens_any_counts(const Tokens *t, int64_t at, int64_t n); /* of ids at … at+n-1; reads as far as the first */
/* Whether each file that has ids has marks, too, by which a document begins with its first id; else an input error that names it.
 */
bool try_tokens_documents(const Tokens *t, Why *why);

/* Where the documents of sample i lie, whose S+1 ids these are, and their marks (NULL: there are none): starts[s] (S+1) is the
 * position where that of position s begins.  One ends behind each id `end` (-1: there is none) and where an index beside the file
 * or a mark says so; a file's end alone ends none. */
void tokens_starts(const Tokens *t, int64_t i, int64_t S, int64_t end, const int32_t *ids, const uint8_t *marks, int32_t *starts);
bool tokens_indexed(const Tokens *t); /* some file has such an index, or such marks */

/* --- which samples, in which order -------------------------------------------------------------------------------------- */

typedef struct TokensRange {
  int64_t first, n; /* samples */
} TokensRange;

/* The last val_fraction of n samples (whole ones, at least one when val_fraction > 0) for validation, the rest for training.
 * Input error when none is left to train on.  0 <= val_fraction < 1. */
void tokens_split(int64_t n, double val_fraction, TokensRange *train, TokensRange *val);

/* The sample that comes as number index of an epoch over range: a bijection of 0 … n-1 onto the range's samples, by (seed,
 * stream, epoch, index) alone.  stream: 0, or which of several are read side by side. */
int64_t tokens_order(TokensRange range, uint64_t seed, int stream, int64_t epoch, int64_t index);

/* --- writing ------------------------------------------------------------------------------------------------------------ */

typedef struct TokensWriter TokensWriter;

/* An llm.c file of ids of width 2 or 4 bytes, written aside and renamed in close.  At most 2^31-1 ids. */
TokensWriter *tokens_writer_open(const char *path, int width);
void tokens_writer_note(TokensWriter *w, const TokenNote *note); /* before close */
void tokens_writer_add(TokensWriter *w, const int32_t *ids, int64_t n);
/* The same with a mark each, for all ids or none; they are written beside, and are whole before the file is there. */
void tokens_writer_add_marked(TokensWriter *w, const int32_t *ids, const uint8_t *marks, int64_t n);
void tokens_writer_close(TokensWriter *w);

/* Whether a file is there already: not at all, or torn; whole and of this job, with its number of ids; or another. */
typedef enum TokensMade { TOKENS_NOT_MADE, TOKENS_MADE, TOKENS_OTHER } TokensMade;
TokensMade tokens_made(const char *path, const TokenNote *note, int width, int64_t *n);

#endif
