/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a stream, block by block, the shortest of each block first and those of one length in their order: so rows of about one
 * length stand together, and each block still holds the same rows. */
#ifndef TRAIN_BY_LENGTH_H
#define TRAIN_BY_LENGTH_H

#include <stdint.h>

#include "src/base/arena.h"

typedef struct ByLength ByLength;

/* The row with this number of the stream; set and sample: what that comes to, which nothing here looks at. */
typedef struct LengthRow {
  int64_t length, number, sample;
  const void *set;
} LengthRow;
typedef LengthRow FindRow(const void *self, int64_t number); /* pure; finding a row may be dear: each is asked for once a block */

/* Keeps the block that was asked for last: for one thread. */
ByLength *by_length_open(Arena *arena, int64_t block, FindRow *find, const void *self);
/* The row that stands at this place, until another block's is asked for. */
const LengthRow *by_length_row(ByLength *b, int64_t place);

typedef struct RowLengths {
  int64_t longest, sum;
} RowLengths;
/* Of the n rows from place `first` on, all of one block. */
RowLengths by_length_of(ByLength *b, int64_t first, int64_t n);

#endif
