/* SPDX-License-Identifier: Apache-2.0 */
/* Cases out of seeds: one seed and a few changes, each a row of a table.  A case is a function of (target, seed, number). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/fail.h"
#include "src/base/file.h"
#include "src/base/rng.h"
#include "src/base/text.h"
#include "test/fuzz/fuzz.h"

typedef struct Case {
  const FuzzTarget *target;
  const FuzzBytes *seeds;
  int n_seeds;
  Rng rng;
  uint64_t draws;
  uint8_t *at;
  size_t n;
} Case;

static uint32_t draw(Case *c) {
  uint32_t words[4];
  uint64_t i = c->draws++;
  rng_words(&c->rng, i / 4, words);
  return words[i % 4];
}

static size_t below(Case *c, size_t n) { return n ? (size_t)(((uint64_t)draw(c) * n) >> 32) : 0; }

/* Small lengths more often than large ones. */
static size_t some(Case *c, size_t most) {
  size_t n = 1 + below(c, (size_t)1 << below(c, 12));
  return n < most ? n : most;
}

/* n bytes at `to` become m others; NULL leaves what is there. */
static void replace(Case *c, size_t to, size_t n, const void *bytes, size_t m) {
  if (c->n - n + m > c->target->most) m = c->target->most - (c->n - n);
  memmove(c->at + to + m, c->at + to + n, c->n - to - n);
  if (bytes) memcpy(c->at + to, bytes, m);
  c->n += m - n;
}

/* --- changes -------------------------------------------------------------------------------------------------------------- */

static void flip_bit(Case *c) {
  if (c->n) c->at[below(c, c->n)] ^= (uint8_t)(1u << below(c, 8));
}

static void set_byte(Case *c) {
  static const uint8_t bytes[] = {0, 1, 127, 128, 255, '"', '\\', '{', '}', '[', ']', ',', ':', '-', '/', '.', '\n', ' '};
  if (c->n) c->at[below(c, c->n)] = below(c, 2) ? (uint8_t)draw(c) : bytes[below(c, sizeof bytes)];
}

static void set_integer(Case *c) {
  static const int64_t values[] = {0, 1, -1, INT8_MIN, INT16_MAX, INT32_MAX, INT32_MIN, UINT32_MAX, INT64_MAX, INT64_MIN, 1 << 20};
  static const size_t sizes[] = {2, 4, 8};
  size_t size = sizes[below(c, 3)];
  if (c->n >= size) memcpy(c->at + below(c, c->n - size + 1), &values[below(c, sizeof values / sizeof *values)], size);
}

static void erase(Case *c) {
  if (!c->n) return;
  size_t from = below(c, c->n);
  replace(c, from, some(c, c->n - from), NULL, 0);
}

static void repeat(Case *c) {
  uint8_t part[4096];
  if (!c->n) return;
  size_t from = below(c, c->n), n = some(c, c->n - from < sizeof part ? c->n - from : sizeof part);
  memcpy(part, c->at + from, n);
  for (size_t times = 1 + below(c, 3); times; times--) replace(c, below(c, 2) ? from : below(c, c->n + 1), 0, part, n);
}

static void insert_bytes(Case *c) {
  uint8_t bytes[16];
  size_t n = 1 + below(c, sizeof bytes);
  for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)draw(c);
  replace(c, below(c, c->n + 1), 0, bytes, n);
}

static void insert_word(Case *c) {
  const char *const *words = c->target->words;
  size_t n = 0;
  while (words && words[n]) n++;
  if (!n) return;
  const char *word = words[below(c, n)];
  size_t at = below(c, c->n + 1), over = below(c, 2) ? strlen(word) : 0;
  replace(c, at, over < c->n - at ? over : c->n - at, word, strlen(word));
}

/* A number written in digits becomes another one. */
static void renumber(Case *c) {
  static const char *const numbers[] = {"0",     "1",  "-1", "2147483648", "9223372036854775807", "18446744073709551616",
                                        "1e400", "0.5"};
  size_t from = below(c, c->n), n = 0;
  while (from < c->n && (c->at[from] < '0' || c->at[from] > '9')) from++;
  while (from + n < c->n && c->at[from + n] >= '0' && c->at[from + n] <= '9') n++;
  char near[24];
  snprintf(near, sizeof near, "%u", draw(c) >> below(c, 32));
  const char *number = below(c, 2) ? near : numbers[below(c, sizeof numbers / sizeof *numbers)];
  if (n) replace(c, from, n, number, strlen(number));
}

/* What follows comes from another seed. */
static void splice(Case *c) {
  const FuzzBytes *other = &c->seeds[below(c, (size_t)c->n_seeds)];
  size_t at = below(c, c->n + 1), from = below(c, other->n + 1);
  replace(c, at, c->n - at, other->at + from, other->n - from);
}

static void cut(Case *c) { c->n = below(c, c->n + 1); }

static void (*const changes[])(Case *) = {flip_bit,     set_byte,    set_byte,    set_integer, erase,    erase,  repeat,
                                          insert_bytes, insert_word, insert_word, renumber,    renumber, splice, cut};

size_t fuzz_mutate(const FuzzTarget *target, const FuzzBytes *seeds, int n_seeds, uint64_t seed, uint64_t i, uint8_t *out) {
  Case c = {target, seeds, n_seeds, rng_make(seed, RNG_TEST, target->name, i), 0, out, 0};
  const FuzzBytes *from = &seeds[below(&c, (size_t)n_seeds)];
  c.n = from->n < target->most ? from->n : target->most;
  if (c.n) memcpy(out, from->at, c.n);
  for (size_t n = below(&c, 8); n; n--) changes[below(&c, sizeof changes / sizeof *changes)](&c); /* now and then none */
  return c.n;
}

/* --- what targets use ----------------------------------------------------------------------------------------------------- */

FuzzBytes fuzz_text(const char *text) { return (FuzzBytes){(const uint8_t *)text, strlen(text)}; }

FuzzBytes fuzz_file(Arena *arena, const char *name) {
  size_t n;
  const char *srcdir = getenv("srcdir"), *path = arena_printf(arena, "%s/%s", srcdir ? srcdir : ".", name);
  char *bytes = file_read(path, &n);
  if (!bytes) fail(FAIL_INPUT, "%s is not there\nhelp: srcdir=SOURCES", path);
  uint8_t *copy = arena_alloc(arena, n);
  memcpy(copy, bytes, n);
  free(bytes);
  return (FuzzBytes){copy, n};
}

static char folder[512];

static void remove_folder(void) { try_tree_remove(folder, NULL); }

const char *fuzz_folder(void) {
  Why why;
  if (*folder) return folder;
  const char *in = getenv("FUZZ_FOLDER");
  snprintf(folder, sizeof folder, "%s/hpctrain-fuzz-%d", in ? in : "/dev/shm", (int)getpid());
  if (!try_folder_make(folder, &why)) fail(FAIL_MACHINE, "%s", why.text);
  atexit(remove_folder);
  return folder;
}

void fuzz_put(const char *path, const void *bytes, size_t n) {
  FILE *f = fopen(path, "wb");
  CHECK(f && (!n || fwrite(bytes, 1, n, f) == n) && !fclose(f));
}
