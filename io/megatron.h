/* SPDX-License-Identifier: Apache-2.0 */
/* Megatron's index of a token file: PREFIX.idx beside the bare ids of PREFIX.bin (NVIDIA/Megatron-LM,
 * megatron/core/datasets/indexed_dataset.py).  Little-endian, packed:
 *   "MMIDIDX" 0 0 · u64 1 · u8 type of an id · u64 sequences n · u64 bounds d · i32 length[n] · i64 byte where it begins[n]
 *   · i64 sequence with which a document begins[d], the last of them n · perhaps i8 mode[n]
 * Sequences lie one behind the other, so that the ids are one stream.  Ends of the tables are checked when it is opened, the rest
 * where it is used: a data set may have billions of documents. */
#ifndef IO_MEGATRON_H
#define IO_MEGATRON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/fail.h"

typedef struct MegatronIndex {
  const unsigned char *map; /* NULL: none */
  size_t nbytes;
  int width;                        /* bytes of an id: 2 or 4 */
  int64_t n_sequences, n_bounds, n; /* n: ids */
} MegatronIndex;

/* Whether the file has such an index's first bytes. */
bool megatron_is_index(const char *path);
/* ids_bytes: of PREFIX.bin.  Input errors name the file. */
bool try_megatron_open(const char *path, uint64_t ids_bytes, MegatronIndex *index, Why *why);
void megatron_close(MegatronIndex *index);

/* The first id behind id `at` with which a document begins; at least n when there is none. */
int64_t megatron_next(const MegatronIndex *index, int64_t at);

#endif
