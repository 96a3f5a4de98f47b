/* SPDX-License-Identifier: Apache-2.0 */
/* Which text goes into which file of tokens: files, parts of them that end where documents do, and shards of such parts. */
#ifndef TRAIN_TOKENIZE_PARTS_H
#define TRAIN_TOKENIZE_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/vec.h"

typedef struct Source {
  const char *path;
  int64_t size, changed; /* bytes; nanoseconds since 1970 */
  bool json, lines;      /* lines are JSON; a line is a document, else the file is */
} Source;
typedef VEC(Source) Sources;

/* Bytes of a file: a document, or the lines that begin there. */
typedef struct Part {
  const Source *source;
  int64_t begin, end;
} Part;

typedef struct Shard {
  VEC(Part) parts;
  int64_t size; /* bytes of text */
} Shard;
typedef VEC(Shard) Shards;

/* A file, or all in a folder and below; *.jsonl and *.ndjson are JSON lines.  lines: a line of text is a document.  Input errors.
 */
void sources_add(Arena *arena, Sources *sources, const char *path, bool lines);
int64_t sources_size(const Sources *sources);

/* Shards of `most` bytes, but where a document is longer. */
void shards_cut(Arena *arena, const Sources *sources, int64_t most, Shards *shards);
/* Of what a shard's tokens follow from; settings: the tokenizer's and the documents'. */
void shard_hash(const Shard *shard, const char *settings, char hex[65]);

#endif
