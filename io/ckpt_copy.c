/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint elsewhere.  What is verified is the copy: damage of the source and of the way shows alike.  It is made under a name
 * that neither a reader nor a run that cleans up its own remains takes for one of theirs. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/ckpt_impl.h"
#include "src/base/file.h"

enum { PART = 8 << 20 };

static bool copy_bytes(int from, int to, int64_t nbytes) {
  char *part = xmalloc(PART);
  bool ok = !fallocate(to, 0, 0, nbytes) || (errno != ENOSPC && errno != EFBIG && errno != EDQUOT);
  for (int64_t at = 0; ok && at < nbytes; at += PART) {
    size_t n = nbytes - at < PART ? (size_t)(nbytes - at) : PART;
    ok = fd_read_at(from, part, n, at) && fd_write_at(to, part, n, at);
  }
  int error = errno;
  free(part);
  errno = error;
  return ok;
}

static bool copy_file(const char *from, const char *to, Why *why) {
  struct stat info;
  int in = open(from, O_RDONLY | O_CLOEXEC);
  if (in < 0 || fstat(in, &info)) {
    why_not(why, "%s: %s", from, strerror(errno));
    if (in >= 0) close(in);
    return false;
  }
  int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  errno = out < 0 ? errno : 0;
  bool ok = out >= 0 && copy_bytes(in, out, info.st_size);
  if (!ok) why_not(why, "%s: %s", to, errno ? strerror(errno) : "the file that is copied has become shorter");
  close(in);
  if (out >= 0 && close(out) && ok) ok = why_not(why, "%s: %s", to, strerror(errno));
  return ok && try_sync(to, why);
}

static bool verify_copy(const char *folder, int threads, Why *why) {
  Ckpt *copy = try_ckpt_open(folder, why);
  bool whole = copy && try_ckpt_verify(copy, 0, 1, threads, why);
  ckpt_close(copy);
  return whole;
}

static bool copy_step(Arena *arena, const Ckpt *c, const char *aside, const char *name, int threads, Why *why) {
  if (!access(name, F_OK)) return why_not(why, "%s is there already", name);
  if (!try_tree_remove(aside, why) || !try_folder_make(aside, why)) return false;
  for (int i = 0; i <= ckpt_files(c); i++) {
    int64_t nbytes;
    const char *file = i < ckpt_files(c) ? ckpt_file(c, i, &nbytes) : CKPT_MANIFEST;
    if (!copy_file(arena_printf(arena, "%s/%s", ckpt_folder(c), file), arena_printf(arena, "%s/%s", aside, file), why))
      return false;
  }
  if (!verify_copy(aside, threads, why) || !try_sync(aside, why)) return false;
  if (rename(aside, name)) return why_not(why, "%s: rename: %s", name, strerror(errno));
  return try_sync_parent(name, why);
}

bool try_ckpt_copy(const Ckpt *c, const char *folder, int threads, Why *why) {
  Arena *arena = arena_open();
  Why unwanted;
  const char *within = ckpt_steps_folder(arena, folder), *aside = ckpt_path(arena, within, ckpt_step(c), ".copy");
  bool ok = copy_step(arena, c, aside, ckpt_path(arena, within, ckpt_step(c), ""), threads, why ? why : &unwanted);
  if (!ok) try_tree_remove(aside, NULL);
  arena_close(arena);
  return ok;
}
