/* SPDX-License-Identifier: Apache-2.0 */
/* A growing array in an arena: VEC(int) xs = {0}; vec_push(arena, &xs, 3); xs.at[i], xs.n.
 * Growth leaves the old copy in the arena: at most as much again as the array, which is what makes it fine. */
#ifndef BASE_VEC_H
#define BASE_VEC_H

#include <limits.h>
#include <string.h>

#include "src/base/arena.h"
#include "src/base/fail.h"

#define VEC(T)                                                                                                                     \
  struct {                                                                                                                         \
    T *at;                                                                                                                         \
    int n, cap;                                                                                                                    \
  }

#define vec_push(arena, v, ...)                                                                                                    \
  (vec_grow((arena), (void **)&(v)->at, (v)->n, &(v)->cap, sizeof *(v)->at), (v)->at[(v)->n++] = (__VA_ARGS__))

static inline void vec_grow(Arena *arena, void **at, int n, int *cap, size_t size) {
  if (n < *cap) return;
  CHECK(*cap <= INT_MAX / 2);
  int bigger = *cap ? 2 * *cap : 8;
  void *copy = arena_alloc(arena, size * (size_t)bigger);
  if (n) memcpy(copy, *at, size * (size_t)n);
  *at = copy;
  *cap = bigger;
}

#endif
