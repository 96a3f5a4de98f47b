/* SPDX-License-Identifier: Apache-2.0 */
/* Text to token ids and back, by the tokenizer that a model comes with:
 *
 *   tokenizer.json   of Hugging Face tokenizers, model BPE: byte-level or with characters and byte fallback
 *   *.model          of SentencePiece, by its own library (hpctrain_sentencepiece.so, loaded when one is opened)
 *   *.tiktoken       lines of base64 and rank; pattern and special tokens are known by family, or a pattern is given
 *   bytes            every byte is its own id, 0 … 255
 *
 * Ids are those of the library that the format is from, to the last one.  Text need not be UTF-8: where the format can spell bytes
 * (byte-level, byte fallback), each byte that is part of no character is spelled as itself, and decoding gives it back. */
#ifndef IO_TOKENIZER_H
#define IO_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/fail.h"
#include "src/base/text.h"

typedef struct Tokenizer Tokenizer;
typedef struct TokenizerWork TokenizerWork;

/* A growing array of ids on the heap.  Start from {0}; ids_close frees it. */
typedef struct Ids {
  int32_t *at;
  int64_t n, cap;
} Ids;

void ids_add(Ids *ids, const int32_t *more, int64_t n);
void ids_close(Ids *ids);

/* path: "bytes", a file, or a folder that holds one (tokenizer.json, tokenizer.model, *.tiktoken, in this order).  pattern: for
 * *.tiktoken files alone, a family's name or a regular expression; NULL: by the number of ranks.  A part of a tokenizer.json
 * that is not known is an error that names it. */
bool tokenizer_is_there(const char *path); /* whether it would be looked at, not whether it is one */
bool try_tokenizer_open(const char *path, const char *pattern, Tokenizer **tokenizer, Why *why);
/* The same of a file's n bytes; path says where others would lie beside it. */
bool try_tokenizer_parse(const char *path, const char *bytes, size_t n, const char *pattern, Tokenizer **tokenizer, Why *why);
void tokenizer_close(Tokenizer *t); /* NULL is fine */

const char *tokenizer_path(const Tokenizer *t);       /* of the file; "bytes" */
const char *tokenizer_kind(const Tokenizer *t);       /* "bytes", "tokenizer.json", "SentencePiece", "tiktoken" */
const char *tokenizer_usual_name(const Tokenizer *t); /* of its file in a model's folder; NULL: it has no file */
const char *tokenizer_hash(const Tokenizer *t);       /* SHA-256 of the file and the pattern, 64 hexadecimal digits */
int64_t tokenizer_vocab(const Tokenizer *t);          /* all ids are below */
bool tokenizer_has(const Tokenizer *t, int32_t id);

typedef enum TokenizerRole { TOKENIZER_BOS, TOKENIZER_EOS, TOKENIZER_UNK, TOKENIZER_PAD, TOKENIZER_ROLES } TokenizerRole;

/* -1: it has none.  Of a tokenizer.json by tokenizer_config.json or special_tokens_map.json beside it, else by usual names.  A
 * document ends with EOS. */
int32_t tokenizer_special(const Tokenizer *t, TokenizerRole role);
/* Its text, of a tokenizer.json; NULL: it has none, or is of another format. */
const char *tokenizer_special_text(const Tokenizer *t, TokenizerRole role);
/* "bos_token": by which transformers calls a role. */
const char *tokenizer_role_key(TokenizerRole role);
/* What the tokenizer itself puts before and behind a text when it is asked to add special tokens. */
void tokenizer_template(const Tokenizer *t, const Ids **before, const Ids **after);

/* A thread's own room: buffers, and the words it has met. */
TokenizerWork *tokenizer_work_open(const Tokenizer *t);
void tokenizer_work_close(TokenizerWork *w);

/* Appends the ids of n bytes of text (NULs are text, too), n < 2^30.  No special tokens are added, but one whose own text stands
 * there is found where the library finds it.  False: a pattern gave up on this text. */
bool try_tokenizer_encode(TokenizerWork *w, const char *text, size_t n, Ids *ids, Why *why);

/* Appends the text of n ids; an id that is not there is passed over.  raw: the bytes as they are, which may be part of a character;
 * else what is no UTF-8 becomes U+FFFD, as the libraries have it.  False: a decoder's pattern gave up, or the text would be longer
 * than 1 GiB or than its pieces explain; text is then as it was. */
bool try_tokenizer_decode(const Tokenizer *t, const int32_t *ids, int64_t n, bool raw, Text *text, Why *why);
void tokenizer_decode(const Tokenizer *t, const int32_t *ids, int64_t n, bool raw, Text *text); /* or ends the job */

/* The same as people want to see it: special tokens as they are spelled. */
bool try_tokenizer_show(const Tokenizer *t, const int32_t *ids, int64_t n, Text *text, Why *why);
/* How an id is spelled in the file; "" where it is not there. */
const char *tokenizer_piece(const Tokenizer *t, int32_t id, size_t *n);

/* Bytes of text that each id stands for amid others, vocab numbers, 0 for special tokens; on the heap, the caller's. */
int32_t *tokenizer_bytes(const Tokenizer *t);

#endif
