/* SPDX-License-Identifier: Apache-2.0 */
/* hpctrain profile: the tables of a run's recorded steps, from what its ranks have written; needs no ranks itself. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/cmd/cmd.h"
#include "src/prof/prof.h"
#include "src/report/runfolder.h"

enum { ROWS = 40, RANKS_MOST = 1 << 20 };

typedef struct Words {
  const char *folder;
  int64_t rank, rows;
} Words;

static Words take_words(int argc, char **argv) {
  Words w = {.rows = ROWS};
  for (int i = 1; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : "";
    bool rank = !strcmp(argv[i], "--rank"), rows = !strcmp(argv[i], "--rows");
    if ((rank && (!num_parse_int(value, &w.rank) || w.rank < 0)) ||
        (rows && (!num_parse_int(value, &w.rows) || w.rows < 1 || w.rows > RANKS_MOST)))
      fail(FAIL_INPUT, "%s wants a number, not '%.40s'", argv[i], value);
    if (rank || rows)
      i++;
    else if (argv[i][0] != '-' && !w.folder)
      w.folder = argv[i];
    else
      fail(FAIL_INPUT, "what is '%.60s'?\nhelp: hpctrain help profile", argv[i]);
  }
  if (!w.folder) fail(FAIL_INPUT, "profile needs a run folder\nhelp: hpctrain help profile");
  return w;
}

static ProfTable *read_rank(Arena *arena, const RunFolder *folder, int rank) {
  ProfTable *table;
  Why why;
  if (!prof_table_try_read(arena, runfolder_rank_profile(folder, arena, rank, "tsv"), &table, &why))
    fail(FAIL_INPUT, "no profile of rank %d: %s\nhelp: profile.steps=10-12 records steps of a run; hpctrain help profile.steps",
         rank, why.text);
  if (table->rank != rank || table->ranks > RANKS_MOST)
    fail(FAIL_INPUT, "%s is not rank %d's\nhelp: record the profile again", runfolder_rank_profile(folder, arena, rank, "tsv"),
         rank);
  return table;
}

/* Of another profile than rank 0's: left from a time when there were other ranks, or other steps were asked for. */
static void check_same(const ProfTable *a, const ProfTable *b, const char *folder) {
  if (a->ranks == b->ranks && a->first == b->first && a->last == b->last) return;
  fail(FAIL_INPUT,
       "%s: rank %" PRId64 " recorded steps %" PRId64 "-%" PRId64 " of %" PRId64 " ranks, rank 0 steps %" PRId64 "-%" PRId64
       " of %" PRId64 "\nhelp: record the profile again",
       folder, b->rank, b->first, b->last, b->ranks, a->first, a->last, a->ranks);
}

int cmd_profile(int argc, char **argv) {
  Words w = take_words(argc, argv);
  Arena *arena = arena_open();
  const RunFolder *folder = runfolder_paths(arena, w.folder);
  ProfTable *first = read_rank(arena, folder, 0);
  int n = (int)first->ranks;
  ProfTable **tables = arena_array(arena, ProfTable *, n);
  if (w.rank >= n) fail(FAIL_INPUT, "--rank %" PRId64 ": the run had %d rank%s", w.rank, n, n == 1 ? "" : "s");
  for (int i = 0; i < n; i++) {
    tables[i] = i ? read_rank(arena, folder, i) : first;
    check_same(first, tables[i], folder->profile);
  }
  Text text = {0};
  prof_table_print(tables, n, (int)w.rank, (int)w.rows, &text);
  fputs(text.at, stdout);
  printf("traces   %s/rank-*.json: chrome://tracing, ui.perfetto.dev, Holistic Trace Analysis\n", folder->profile);
  printf("memory   %s/memory.pickle: pytorch.org/memory_viz\n", folder->profile);
  text_close(&text);
  arena_close(arena);
  return 0;
}
