/* SPDX-License-Identifier: Apache-2.0 */
/* Marks beside a token file, and the documents that they tell of: refused with a reason, or rows whose labels are those that count.
 * A case's first bytes say how long rows are and what becomes of longer documents; the rest are the marks of ids 0, 1, 2 … */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/train/data.h"
#include "src/train/documents.h"
#include "test/fuzz/fuzz.h"

enum { HEAD = 3, IDS_MOST = 1 << 10, ROW_MOST = 64 };

typedef struct Room {
  int32_t row[ROW_MOST + 1], ids[ROW_MOST], labels[ROW_MOST], starts[ROW_MOST];
  uint8_t marks[ROW_MOST + 1];
} Room;

static const char *path_of(const char *name) {
  static char path[2][512];
  static int turn;
  turn = !turn;
  snprintf(path[turn], sizeof path[turn], "%s/%s", fuzz_folder(), name);
  return path[turn];
}

/* Labels that count, one for one. */
static int64_t look_at_row(const Documents *d, int64_t i, int32_t S, bool packing, const uint8_t *marks) {
  static Room r;
  int64_t counted = 0;
  Why why;
  CHECK(try_documents_row(d, i, r.row, r.marks, r.ids, r.labels, r.starts, &why));
  for (int32_t t = 0; t < S; t++) {
    CHECK(r.labels[t] == DATA_IGNORED || r.labels[t] == DATA_PADDING ||
          (r.labels[t] == r.ids[t] + 1 && marks[r.labels[t]] == TOKEN_COUNTS));
    CHECK(!packing || (r.starts[t] >= 0 && r.starts[t] <= t && (!t || r.starts[t] == r.starts[t - 1] || r.starts[t] == t)));
    counted += r.labels[t] >= 0;
  }
  return counted;
}

static void use(const Tokens *tokens, const uint8_t *how, const uint8_t *marks) {
  Documents *d;
  Why why = {""};
  Arena *arena = arena_open();
  int32_t S = 1 + how[0] % ROW_MOST;
  bool packing = how[1] % 2;
  bool ok = try_documents_open(arena, tokens, S, packing, (DocumentsLong)(how[2] % 3), &d, &why);
  CHECK(ok || *why.text);
  int64_t counted = 0;
  for (int64_t i = 0; ok && i < documents_told(d)->rows; i++) counted += look_at_row(d, i, S, packing, marks);
  if (ok) CHECK(counted == documents_told(d)->labels);
  arena_close(arena);
}

static void try_case(const uint8_t *bytes, size_t n) {
  static uint16_t ids[IDS_MOST];
  const char *path = path_of("x.bin");
  Tokens *tokens;
  Why why = {""};
  if (n <= HEAD) return;
  for (int i = 0; i < IDS_MOST; i++) ids[i] = (uint16_t)i;
  size_t n_ids = n - HEAD - (bytes[1] == 0xff); /* one too few, which must be seen */
  fuzz_put(path, ids, 2 * n_ids);
  fuzz_put(path_of("x.mask"), bytes + HEAD, n - HEAD);
  if (try_tokens_open(&path, 1, &(TokensAsk){2, IDS_MOST, "tokens"}, &tokens, &why)) {
    CHECK(tokens_n(tokens) == (int64_t)(n - HEAD));
    use(tokens, bytes, bytes + HEAD);
    tokens_close(tokens);
  } else {
    CHECK(*why.text);
  }
}

static int make_seeds(Arena *arena, FuzzBytes seeds[FUZZ_SEEDS]) {
  (void)arena;
  seeds[0] = fuzz_text("\7\1\1\2\1\1\3\1\1\1\2\1\2\1\1\1");
  seeds[1] = fuzz_text("\3\2\3\1\1\2\1\1\1\1\1\1\1\2\1");
  seeds[2] = fuzz_text("\20\1\2\3\1\1\3\1\1\3\1\1\1\1\3\1\3\1\1\1\1\1\1\1\3\1");
  seeds[3] = fuzz_text("\20\377\2\3\1\1\3");
  return 4;
}

static const char *const words[] = {"\2\1\1\1", "\3\1", "\1\1\1\1\1\1\1\1", "\2\2\2", NULL};

const FuzzTarget fuzz_target = {"marks_make_rows_or_are_refused", try_case, make_seeds, words, HEAD + IDS_MOST};
