/* SPDX-License-Identifier: Apache-2.0 */
/* A shard's text becomes tokens: threads take runs of its documents, the ids are written in the documents' order. */
#ifndef TRAIN_TOKENIZE_SHARD_H
#define TRAIN_TOKENIZE_SHARD_H

#include "io/tokens.h"
#include "src/train/tokenize.h"
#include "src/train/tokenize_parts.h"

typedef struct ShardMade {
  int64_t tokens, documents;
} ShardMade;

/* Called as bytes of text are done and tokens written. */
typedef void ShardProgress(void *self, int64_t nbytes, int64_t tokens);

/* Tokenizes a shard into out, with o->threads threads, a workspace each.  The same ids for any number of threads. */
ShardMade shard_make(const Shard *shard, const TokenizeOptions *o, TokenizerWork **works, TokensWriter *out,
                     ShardProgress *progress, void *self);

#endif
