/* SPDX-License-Identifier: Apache-2.0 */
/* Memory by lifetime.  An Arena is handed down as an argument; everything taken from it lives until the arena is closed,
 * so nothing is freed one by one.  Allocation never fails (it ends the job), and memory comes zeroed. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

typedef struct Arena Arena;

Arena *arena_open(void);
void arena_close(Arena *arena); /* NULL is fine */

/* nbytes of zeroed memory, aligned to 16.  nbytes may be 0. */
void *arena_alloc(Arena *arena, size_t nbytes);
#define arena_new(arena, T) ((T *)arena_alloc((arena), sizeof(T)))
#define arena_array(arena, T, n) ((T *)arena_alloc((arena), sizeof(T) * (size_t)(n)))

int *arena_ints(Arena *arena, int n, int value); /* n times value */

char *arena_strdup(Arena *arena, const char *text);
char *arena_strndup(Arena *arena, const char *text, size_t n);
char *arena_printf(Arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* malloc that ends the job instead of returning NULL; for what is freed by hand. */
void *xmalloc(size_t nbytes);
void *xrealloc(void *old, size_t nbytes);

#endif
