/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of hpctrain tokenize share. */
#ifndef CMD_TOKENIZE_H
#define CMD_TOKENIZE_H

#include "io/tokenizer.h"
#include "src/comm/comm.h"

/* A document's ends, and how documents lie in files. */
typedef struct TokenizeOptions {
  const char *out;   /* names of shards begin so */
  const char *field; /* of JSON lines */
  int32_t bos, eos;  /* -1: none */
  bool lines;        /* a line of text is a document, else a file */
  int threads;
  int shards; /* about so many; 0: as many as suit the texts */
} TokenizeOptions;

/* Opens it or ends with the reason; usage is told where path is NULL. */
Tokenizer *tokenize_open(const char *path, const char *pattern, const char *usage);

/* --print: see tokenize_print.c. */
int tokenize_print(const Tokenizer *t, bool special);

/* Writes shards of the inputs, files and folders; ranks share them out. */
int tokenize_files(Comm *comm, const Tokenizer *t, const TokenizeOptions *o, char **inputs, int n);

#endif
