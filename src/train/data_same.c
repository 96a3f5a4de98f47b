/* SPDX-License-Identifier: Apache-2.0 */
/* The training files as a checkpoint knows them, a line each: HASH BYTES PATH, in the order in which they are read. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/file_sample.h"
#include "io/token_file.h"
#include "io/token_marks.h"
#include "src/base/vec.h"
#include "src/train/data.h"

/* Of all files together, so that a start stays quick whatever there is; at least two of each. */
enum { BLOCKS = 256, BLOCKS_MOST = 16, BLOCKS_LEAST = 2 };

typedef struct Path {
  const char *text, *made_of; /* conversations, or NULL */
  FileGap gap;
} Path;

typedef VEC(Path) Paths;

/* By which times and settings a file was made; the same ids may have been made anew. */
static const FileGap job_note = {TOKEN_NOTE_JOB_AT, TOKEN_NOTE_HASH};

/* Token files, and behind each its marks where it has some. */
static Paths paths_of(Arena *arena, const Data *d) {
  Paths all = {0};
  const TokenNote *note;
  for (int s = 0; s < data_trains(d); s++)
    for (int i = 0; i < tokens_files(data_files(d, s)); i++) {
      const char *path = tokens_note(data_files(d, s), i, &note);
      char *marks = token_marks_path(path);
      Path p = {path, data_made_of(d, path), note ? job_note : (FileGap){0}};
      vec_push(arena, &all, p);
      Path beside = {arena_strdup(arena, marks), p.made_of, {0}};
      if (!access(marks, F_OK)) vec_push(arena, &all, beside);
      free(marks);
    }
  return all;
}

static FileSample sample(const Path *path, int n) {
  FileSample found;
  Why why;
  int blocks = n * BLOCKS_MOST <= BLOCKS ? BLOCKS_MOST : n * BLOCKS_LEAST >= BLOCKS ? BLOCKS_LEAST : BLOCKS / n;
  if (!try_file_sample(path->text, blocks, path->gap, &found, &why))
    fail(FAIL_MACHINE, "%s\nhelp: the file must stay where it is and readable", why.text);
  return found;
}

void data_list(const Data *d, Text *out) {
  Arena *arena = arena_open();
  Paths all = paths_of(arena, d);
  for (int i = 0; i < all.n; i++) {
    FileSample s = sample(&all.at[i], all.n);
    text_printf(out, "%016" PRIx64 " %" PRId64 " %s\n", s.hash, s.nbytes, all.at[i].text);
  }
  arena_close(arena);
}

/* Of a line: what must stay, HASH BYTES. */
static size_t content_of(const char *line) {
  size_t hash = strcspn(line, " \n");
  return line[hash] == ' ' ? hash + 1 + strcspn(line + hash + 1, " \n") : hash;
}

static const char *next_line(const char *line) {
  line += strcspn(line, "\n");
  return *line ? line + 1 : line;
}

static void tell_change(const Path *path, int64_t before, const FileSample *s, Text *told) {
  text_printf(told, "%s", path->text);
  if (path->made_of) text_printf(told, ", made of %s,", path->made_of);
  text_printf(told, " has other bytes than in the checkpoint: ");
  if (before == s->nbytes)
    text_printf(told, "as many, %" PRId64, s->nbytes);
  else
    text_printf(told, "%" PRId64 " there, %" PRId64 " now", before, s->nbytes);
  text_printf(told, "; it was last written at %s", s->written);
}

bool data_list_same(const Data *d, const char *was, const char *is, Text *told) {
  Arena *arena = arena_open();
  Paths all = paths_of(arena, d);
  bool same = true;
  int i = 0;
  for (; same && i < all.n && *was; i++, was = next_line(was), is = next_line(is)) {
    size_t a = content_of(was), b = content_of(is);
    same = a == b && !strncmp(was, is, a);
    FileSample now = same ? (FileSample){0} : sample(&all.at[i], all.n);
    if (!same) tell_change(&all.at[i], strtoll(was + strcspn(was, " \n"), NULL, 10), &now, told);
  }
  if (same && (i < all.n || *was)) text_printf(told, "the checkpoint has %s files than there are now", *was ? "more" : "fewer");
  arena_close(arena);
  return same && i == all.n && !*was;
}
