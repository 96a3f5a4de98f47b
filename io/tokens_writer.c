/* SPDX-License-Identifier: Apache-2.0 */
/* Ids are written as they come, the header last, when their count is known.  Marks get their name before the ids do, and
 * after other ids of that name have gone: a crash in between leaves no ids with marks that are not theirs. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/token_file.h"
#include "io/token_marks.h"
#include "io/tokens.h"
#include "src/base/arena.h"
#include "src/base/file.h"

struct TokensWriter {
  Arena *arena;
  const char *path, *aside;
  const char *marks, *marks_aside;
  const TokenFormat *format;
  TokenNote note;
  int fd, marks_fd; /* marks_fd: -1 before the first mark */
  int64_t n;
  FailUndo undo;
};

/* --- notes ---------------------------------------------------------------------------------------------------------------- */

static void hash_write(const char *hex, int32_t *at) {
  for (int i = 0; i < TOKEN_NOTE_HASH; i++) {
    unsigned byte = 0;
    sscanf(hex + 2 * i, "%2x", &byte);
    ((unsigned char *)at)[i] = (unsigned char)byte;
  }
}

static void hash_read(const int32_t *at, char hex[65]) {
  for (int i = 0; i < TOKEN_NOTE_HASH; i++) snprintf(hex + 2 * i, 3, "%02x", ((const unsigned char *)at)[i]);
}

bool token_note_read(const int32_t header[TOKEN_HEADER_INTS], TokenNote *note) {
  const int32_t *at = header + TOKEN_NOTE_AT;
  if (at[0] != token_note_magic || at[1] != TOKEN_NOTE_VERSION || at[2] < 1) return false;
  note->vocab = at[2];
  note->marked = at[3] & 1;
  hash_read(header + TOKEN_NOTE_TOKENIZER, note->tokenizer);
  hash_read(header + TOKEN_NOTE_JOB, note->job);
  return true;
}

void token_note_write(const TokenNote *note, int32_t header[TOKEN_HEADER_INTS]) {
  int32_t *at = header + TOKEN_NOTE_AT;
  at[0] = token_note_magic;
  at[1] = TOKEN_NOTE_VERSION;
  at[2] = (int32_t)note->vocab;
  at[3] = note->marked;
  hash_write(note->tokenizer, header + TOKEN_NOTE_TOKENIZER);
  hash_write(note->job, header + TOKEN_NOTE_JOB);
}

static bool marks_made(const char *path, int64_t n) {
  struct stat info;
  char *marks = token_marks_path(path);
  bool made = !stat(marks, &info) && info.st_size == n;
  free(marks);
  return made;
}

TokensMade tokens_made(const char *path, const TokenNote *note, int width, int64_t *n) {
  int32_t header[TOKEN_HEADER_INTS] = {0};
  struct stat info;
  TokenNote found;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return TOKENS_NOT_MADE;
  ssize_t there = fstat(fd, &info) ? -1 : pread(fd, header, sizeof header, 0);
  close(fd);
  const TokenFormat *format = token_format(header[0]);
  if (!there || (format && there < TOKEN_HEADER_BYTES)) return TOKENS_NOT_MADE;
  if (!format || format->width != width || !token_note_read(header, &found)) return TOKENS_OTHER;
  if (strcmp(found.job, note->job) || strcmp(found.tokenizer, note->tokenizer)) return TOKENS_OTHER;
  *n = header[2];
  if (found.marked && !marks_made(path, *n)) return TOKENS_NOT_MADE;
  return info.st_size == TOKEN_HEADER_BYTES + *n * width ? TOKENS_MADE : TOKENS_NOT_MADE;
}

/* --- writing -------------------------------------------------------------------------------------------------------------- */

static void drop_aside(void *self) {
  const TokensWriter *w = self;
  unlink(w->aside);
  if (w->marks_fd >= 0) unlink(w->marks_aside);
}

static _Noreturn void fail_write(const TokensWriter *w, int error) {
  fail(FAIL_MACHINE, "%s: cannot be written: %s\nhelp: free some space, or write elsewhere", w->path, strerror(error));
}

TokensWriter *tokens_writer_open(const char *path, int width) {
  Arena *arena = arena_open();
  TokensWriter *w = arena_new(arena, TokensWriter);
  char *marks = token_marks_path(path);
  *w = (TokensWriter){.arena = arena,
                      .path = arena_strdup(arena, path),
                      .aside = arena_printf(arena, "%s.tmp", path),
                      .marks = arena_strdup(arena, marks),
                      .marks_aside = arena_printf(arena, "%s.tmp", marks),
                      .marks_fd = -1};
  free(marks);
  for (int i = 0; i < TOKEN_FORMATS; i++)
    if (token_formats[i].width == width) w->format = &token_formats[i];
  CHECK(w->format);
  w->fd = open(w->aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (w->fd < 0) fail_write(w, errno);
  w->undo = (FailUndo){.undo = drop_aside, .self = w};
  fail_undo_push(&w->undo);
  return w;
}

void tokens_writer_note(TokensWriter *w, const TokenNote *note) { w->note = *note; }

void tokens_writer_add(TokensWriter *w, const int32_t *ids, int64_t n) {
  if (n > INT32_MAX - w->n)
    fail(FAIL_INPUT, "%s: more than 2147483647 tokens do not fit the file's header\nhelp: split the text over several files",
         w->path);
  unsigned char part[65536];
  int width = w->format->width, most = (int)sizeof part / width;
  while (n) {
    int take = n < most ? (int)n : most;
    for (int i = 0; i < take; i++) {
      CHECK(ids[i] >= 0 && (width == 4 || ids[i] <= UINT16_MAX));
      memcpy(part + i * width, &ids[i], (size_t)width);
    }
    if (!fd_write_at(w->fd, part, (size_t)take * (size_t)width, TOKEN_HEADER_BYTES + w->n * width)) fail_write(w, errno);
    ids += take;
    n -= take;
    w->n += take;
  }
}

static void open_marks(TokensWriter *w) {
  if (w->marks_fd < 0) w->marks_fd = open(w->marks_aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (w->marks_fd < 0) fail_write(w, errno);
}

void tokens_writer_add_marked(TokensWriter *w, const int32_t *ids, const uint8_t *marks, int64_t n) {
  CHECK(w->n == 0 || w->marks_fd >= 0);
  open_marks(w);
  if (!fd_write_at(w->marks_fd, marks, (size_t)n, w->n)) fail_write(w, errno);
  tokens_writer_add(w, ids, n);
}

static void sync_parent(const TokensWriter *w) {
  Why why;
  if (!try_sync_parent(w->path, &why)) fail(FAIL_MACHINE, "%s\nhelp: the disk does not keep what is written", why.text);
}

/* Marks that are there already would be taken for this file's. */
static void close_marks(TokensWriter *w) {
  if (w->note.marked) open_marks(w); /* of no ids, perhaps */
  if (w->marks_fd >= 0) {
    if (fsync(w->marks_fd) || close(w->marks_fd) || (unlink(w->path) && errno != ENOENT)) fail_write(w, errno);
    sync_parent(w);
    if (rename(w->marks_aside, w->marks)) fail_write(w, errno);
  } else if (!access(w->marks, F_OK)) {
    fail(FAIL_INPUT, "%s is there, and would be taken for marks of %s, which has none\nhelp: remove it, or write elsewhere",
         w->marks, w->path);
  }
}

void tokens_writer_close(TokensWriter *w) {
  int32_t header[TOKEN_HEADER_INTS] = {w->format->magic, w->format->version, (int32_t)w->n};
  if (w->note.vocab) token_note_write(&w->note, header);
  if (!fd_write_at(w->fd, header, sizeof header, 0) || fsync(w->fd) || close(w->fd)) fail_write(w, errno);
  close_marks(w);
  if (rename(w->aside, w->path)) fail_write(w, errno);
  fail_undo_pop(&w->undo);
  sync_parent(w);
  arena_close(w->arena);
}
