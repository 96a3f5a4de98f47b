/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/by_length.h"

#include <stdlib.h>

#include "src/base/fail.h"

struct ByLength {
  int64_t n; /* rows of a block */
  FindRow *find;
  const void *self;
  int64_t block; /* which it is; -1: none yet */
  LengthRow *rows;
};

ByLength *by_length_open(Arena *arena, int64_t block, FindRow *find, const void *self) {
  CHECK(block > 0);
  ByLength *b = arena_new(arena, ByLength);
  *b = (ByLength){.n = block, .find = find, .self = self, .block = -1, .rows = arena_array(arena, LengthRow, block)};
  return b;
}

static int by_length(const void *a, const void *b) {
  const LengthRow *x = a, *y = b;
  if (x->length != y->length) return x->length < y->length ? -1 : 1;
  return (x->number > y->number) - (x->number < y->number);
}

const LengthRow *by_length_row(ByLength *b, int64_t place) {
  int64_t block = place / b->n;
  if (block != b->block) {
    for (int64_t i = 0; i < b->n; i++) b->rows[i] = b->find(b->self, block * b->n + i);
    qsort(b->rows, (size_t)b->n, sizeof *b->rows, by_length);
    b->block = block;
  }
  return &b->rows[place % b->n];
}

RowLengths by_length_of(ByLength *b, int64_t first, int64_t n) {
  CHECK(n > 0 && first % b->n + n <= b->n);
  const LengthRow *rows = by_length_row(b, first);
  RowLengths of = {.longest = rows[n - 1].length};
  for (int64_t i = 0; i < n; i++) of.sum += rows[i].length;
  return of;
}
