/* SPDX-License-Identifier: Apache-2.0 */
/* Bump allocation in a chain of blocks; a request larger than a block gets a block of its own. */
#include "src/base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/fail.h"
#include "src/base/memory.h"

enum { BLOCK_BYTES = 64 * 1024, ALIGN = 16 };

typedef struct Block {
  struct Block *next;
  size_t used, size;
  _Alignas(ALIGN) char at[];
} Block;

struct Arena {
  Block *head;
};

void *xmalloc(size_t nbytes) { return xrealloc(NULL, nbytes); }

static _Noreturn void no_memory(size_t nbytes) {
  static bool again; /* asking what there is takes memory, too */
  NodeMemory node = {.limit = "this node"};
  if (!again) {
    again = true;
    node = node_memory();
  }
  fail(FAIL_MACHINE,
       "no memory of the host: %.3f GiB wanted, %.3f GiB free of %.3f on %s\nhelp: fewer ranks a node, or a higher limit (ulimit "
       "-v, the batch system's memory of the job)",
       (double)nbytes / 0x1p30, (double)node.available / 0x1p30, (double)node.total / 0x1p30, node.limit);
}

void *xrealloc(void *old, size_t nbytes) {
  void *p = realloc(old, nbytes ? nbytes : 1);
  if (!p) no_memory(nbytes);
  return p;
}

Arena *arena_open(void) {
  Arena *arena = xmalloc(sizeof *arena);
  arena->head = NULL;
  return arena;
}

void arena_close(Arena *arena) {
  if (!arena) return;
  for (Block *b = arena->head, *next; b; b = next) {
    next = b->next;
    free(b);
  }
  free(arena);
}

void *arena_alloc(Arena *arena, size_t nbytes) {
  CHECK(nbytes <= (size_t)-1 / 2);
  size_t need = (nbytes + ALIGN - 1) / ALIGN * ALIGN;
  Block *b = arena->head;
  if (!b || b->size - b->used < need) {
    size_t size = need > BLOCK_BYTES ? need : BLOCK_BYTES;
    b = xmalloc(sizeof *b + size);
    b->used = 0;
    b->size = size;
    b->next = arena->head;
    arena->head = b;
  }
  void *p = b->at + b->used;
  b->used += need;
  return memset(p, 0, need);
}

int *arena_ints(Arena *arena, int n, int value) {
  int *at = arena_array(arena, int, n);
  for (int i = 0; i < n; i++) at[i] = value;
  return at;
}

char *arena_strndup(Arena *arena, const char *text, size_t n) {
  char *copy = arena_alloc(arena, n + 1);
  memcpy(copy, text, n);
  return copy;
}

char *arena_strdup(Arena *arena, const char *text) { return arena_strndup(arena, text, strlen(text)); }

char *arena_printf(Arena *arena, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, format, args);
  va_end(args);
  CHECK(n >= 0);
  char *text = arena_alloc(arena, (size_t)n + 1);
  vsnprintf(text, (size_t)n + 1, format, again);
  va_end(again);
  return text;
}
