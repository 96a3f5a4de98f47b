/* SPDX-License-Identifier: Apache-2.0 */
/* Megatron's index of 7 ids in 3 sequences of 2 documents, as it lies in a file (io/megatron.c). */
#ifndef TEST_MEGATRON_INDEX_H
#define TEST_MEGATRON_INDEX_H

#include <stdint.h>

typedef struct __attribute__((packed)) MegatronFile {
  char magic[9];
  uint64_t version;
  uint8_t type;
  uint64_t n, bounds;
  int32_t length[3];
  int64_t place[3], bound[3];
} MegatronFile;

/* type: Megatron's code of ids of that many bytes; the last sequence has 4, if the tables do not lie. */
static inline MegatronFile megatron_file(int type, int width, int32_t last_length) {
  return (MegatronFile){"MMIDIDX", 1, (uint8_t)type, 3, 3, {2, 1, last_length}, {0, 2 * width, 3 * width}, {0, 2, 3}};
}

#endif
