/* SPDX-License-Identifier: Apache-2.0 */
/* Token files and Megatron's index.  A case's first byte says what the rest is: a token file, or an index beside 28 bytes of ids.
 * (Marks: fuzz_marks.c.) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/megatron.h"
#include "io/token_file.h"
#include "io/tokens.h"
#include "test/fuzz/fuzz.h"
#include "test/megatron_index.h"

enum { SHARDS = 'a', INDEXES, KINDS = 2, IDS_BYTES = 28, MOST = 1 << 13 };

static const char *path_of(const char *name) {
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
  return path;
}

/* What was taken can be read to its last id, or one that is none is told. */
static void read_ids(int width) {
  const char *path = path_of("x.bin");
  Tokens *t;
  Why why;
  if (!try_tokens_open(&path, 1, &(TokensAsk){width, INT32_MAX, "tokens"}, &t, &why)) return;
  int64_t n = tokens_n(t);
  int32_t *ids = xmalloc(sizeof *ids * (size_t)(n + 1)), *starts = xmalloc(sizeof *starts * (size_t)(n + 1));
  const TokenNote *note;
  bool good = try_tokens_read(t, 0, n, ids, &why);
  CHECK(tokens_note(t, 0, &note) && (!note || (note->vocab > 0 && strlen(note->job) == 64)));
  if (n > 1 && good) tokens_starts(t, 0, n - 1, 0, ids, NULL, starts);
  for (int64_t s = 1; n > 1 && good && s < n; s++) CHECK(starts[s] == s || starts[s] == starts[s - 1]);
  free(ids);
  free(starts);
  tokens_close(t);
}

static void read_index(void) {
  MegatronIndex index;
  Why why;
  if (!try_megatron_open(path_of("x.idx"), IDS_BYTES, &index, &why)) return;
  for (int64_t at = -1, next; at < index.n; at = next) {
    next = megatron_next(&index, at);
    CHECK(next > at);
  }
  megatron_close(&index);
}

static void try_case(const uint8_t *bytes, size_t n) {
  static const uint8_t ids[IDS_BYTES];
  if (!n) return;
  int kind = bytes[0] % KINDS;
  bytes++, n--;
  remove(path_of("x.idx"));
  if (kind == INDEXES % KINDS) {
    fuzz_put(path_of("x.bin"), ids, sizeof ids);
    fuzz_put(path_of("x.idx"), bytes, n);
    read_index();
  } else {
    fuzz_put(path_of("x.bin"), bytes, n);
  }
  for (int width = 0; width <= 4; width += 2) read_ids(width);
}

static FuzzBytes seed_of(Arena *arena, char kind, const void *bytes, size_t n) {
  uint8_t *copy = arena_alloc(arena, 1 + n);
  copy[0] = (uint8_t)kind;
  memcpy(copy + 1, bytes, n);
  return (FuzzBytes){copy, 1 + n};
}

static const TokenNote made = {.vocab = 300, .tokenizer = "00ff", .job = "10", .marked = false};

static int make_seeds(Arena *arena, FuzzBytes seeds[FUZZ_SEEDS]) {
  MegatronFile index = megatron_file(4, 4, 4);
  int32_t shard[256 + 2] = {20240520, 1, 4};
  seeds[0] = seed_of(arena, INDEXES, &index, sizeof index);
  index = megatron_file(8, 2, 8);
  seeds[1] = seed_of(arena, INDEXES, &index, sizeof index);
  seeds[2] = seed_of(arena, SHARDS, shard, sizeof shard);
  shard[0] = 20240801, shard[1] = 7, shard[2] = 2;
  seeds[3] = seed_of(arena, SHARDS, shard, sizeof shard);
  seeds[4] = seed_of(arena, SHARDS, "\1\0\2\0\3\0\4\0", 8);
  token_note_write(&made, shard);
  seeds[5] = seed_of(arena, SHARDS, shard, sizeof shard);
  return 6;
}

static const char *const words[] = {"MMIDIDX", "hptn", "\xff\xff\xff\xff\xff\xff\xff\x7f", "\xff\xff\xff\x7f", NULL};

const FuzzTarget fuzz_target = {"tokens", try_case, make_seeds, words, MOST};
