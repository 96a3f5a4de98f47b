/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a stream, block by block, the shortest of each block first and those of one length in their order: so rows of about one
 * length stand together, and each block still holds the same rows. */
#ifndef TRAIN_BY_LENGTH_H
#define TRAIN_BY_LENGTH_H

#include <stdint.h>

#include "src/base/arena.h"

typedef struct ByLength ByLength;

/* Of the row with this number of the stream; a pure function of it. */
typedef int64_t RowLength(const void *self, int64_t number);

/* Keeps the block that was asked for last: for one thread. */
ByLength *by_length_open(Arena *arena, int64_t block, RowLength *length, const void *self);
/* The stream's number of the row that stands at this place. */
int64_t by_length_number(ByLength *b, int64_t place);

typedef struct RowLengths {
  int64_t longest, sum;
} RowLengths;
/* Of the n rows from place `first` on, all of one block. */
RowLengths by_length_of(ByLength *b, int64_t first, int64_t n);

#endif
