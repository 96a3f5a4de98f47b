/* SPDX-License-Identifier: Apache-2.0 */
/* Token files of text: for hpctrain tokenize, and for conversations that a run is to train on. */
#ifndef TRAIN_TOKENIZE_H
#define TRAIN_TOKENIZE_H

#include "io/chat.h"
#include "io/tokenizer.h"
#include "src/base/arena.h"
#include "src/comm/comm.h"

/* A document's ends, and how documents lie in files. */
typedef struct TokenizeOptions {
  const char *out;   /* names of shards begin so; one that ends in .bin is the file */
  const char *field; /* of JSON lines */
  bool asked;        /* the user has named it, so that lines must be there */
  const Chat *chat;  /* JSON lines are conversations; NULL: texts */
  const char *chat_name;
  bool inputs;      /* as the chat has it */
  int32_t bos, eos; /* -1: none */
  bool lines;       /* a line of text is a document, else a file */
  bool own;         /* what is there of other texts or settings gives way */
  bool look;        /* nothing is written, nothing goes: whether all is there */
  int threads;
  int shards; /* about so many; 0: as many as suit the texts */
} TokenizeOptions;

/* On rank 0: what has become of all. */
typedef struct TokenizeMade {
  int64_t tokens, documents, kept; /* kept: files that were there */
  int files, shards;               /* inputs; token files */
  double nbytes, seconds;          /* of inputs */
  int width;
  bool whole;               /* all were there, and no others of their name */
  const char *first, *last; /* names of token files; the arena's */
} TokenizeMade;

/* Writes token files of the inputs, files and folders; ranks share them out.  One that is whole and of the same texts and settings
 * is kept, so that the same call goes on where it was stopped. */
TokenizeMade tokenize_files(Arena *arena, Comm *comm, const Tokenizer *t, const TokenizeOptions *o, char *const *inputs, int n);

#endif
