/* SPDX-License-Identifier: Apache-2.0 */
/* What *.tiktoken files leave to programs: patterns and special tokens, by family. */
#ifndef IO_TOK_FAMILIES_H
#define IO_TOK_FAMILIES_H

#include <stdint.h>

typedef struct TokFamily {
  const char *name;
  int32_t ranks; /* lines of its file; 0: another family's, found by name alone */
  const char *pattern;
  struct {
    const char *text;
    int32_t id;
  } special[8];
  int32_t reserved_to; /* ids below that have no text of their own count as well; 0: none */
  const char *bos, *eos;
} TokFamily;

extern const TokFamily tok_families[];
extern const int tok_nfamilies;

#endif
