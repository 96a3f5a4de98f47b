/* SPDX-License-Identifier: Apache-2.0 */
/* llm.c's token files, as reader and writer share them (karpathy/llm.c, dev/data/data_common.py). */
#ifndef IO_TOKEN_FILE_H
#define IO_TOKEN_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "token files are little-endian and read as they lie");

/* Header: magic, version, count, zeros. */
enum { TOKEN_HEADER_INTS = 256, TOKEN_HEADER_BYTES = 1024 };

/* Where in the header a note lies: its magic and version, the vocabulary, 1 if marks lie beside, and two hashes of 32 bytes. */
enum { TOKEN_NOTE_AT = 8, TOKEN_NOTE_TOKENIZER = 16, TOKEN_NOTE_JOB = 24, TOKEN_NOTE_HASH = 32, TOKEN_NOTE_VERSION = 1 };
enum { TOKEN_NOTE_JOB_AT = 4 * TOKEN_NOTE_JOB };    /* bytes */
static const int32_t token_note_magic = 0x6e747068; /* "hptn" */

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

struct TokenNote;
/* From a header; false: it has none. */
bool token_note_read(const int32_t header[TOKEN_HEADER_INTS], struct TokenNote *note);
void token_note_write(const struct TokenNote *note, int32_t header[TOKEN_HEADER_INTS]);

#endif
