/* SPDX-License-Identifier: Apache-2.0 */
/* llm.c's token files, as reader and writer share them (karpathy/llm.c, dev/data/data_common.py). */
#ifndef IO_TOKEN_FILE_H
#define IO_TOKEN_FILE_H

#include <stddef.h>
#include <stdint.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "token files are little-endian and read as they lie");

/* Header: magic, version, count, zeros. */
enum { TOKEN_HEADER_INTS = 256, TOKEN_HEADER_BYTES = 1024 };

typedef struct TokenFormat {
  int32_t magic, version;
  int width; /* bytes of an id */
} TokenFormat;

static const TokenFormat token_formats[] = {{20240520, 1, 2}, {20240801, 7, 4}};
enum { TOKEN_FORMATS = sizeof token_formats / sizeof *token_formats };

static inline const TokenFormat *token_format(int32_t magic) {
  for (int i = 0; i < TOKEN_FORMATS; i++)
    if (token_formats[i].magic == magic) return &token_formats[i];
  return NULL;
}

#endif
