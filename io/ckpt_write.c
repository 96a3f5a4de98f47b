/* SPDX-License-Identifier: Apache-2.0 */
/* Saving, in stages after each of which all ranks agree whether to go on:
 *   rank 0 makes step-N.tmp/ and in it the files with all datasets, allocated but not filled (ckpt_make.c);
 *   all open them, each writes its pieces by itself and hashes them as it does, all flush and close (ckpt_pieces.c);
 *   rank 0 joins the hashes, writes the manifest, flushes everything and renames.
 * So the metadata is one process's, and no write waits for another rank. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/ckpt_writer.h"
#include "io/h5.h"
#include "src/base/file.h"
#include "src/base/hash.h"

void ckpt_tell_doing(const CkptWriter *w, const char *what, const char *path) {
  comm_doing(w->comm, true, "%s %s", what, path + strlen(w->save->folder) + 1); /* "step-00000010.tmp/model.h5" */
}

bool ckpt_all_agree(CkptWriter *w, bool ok) { return ckpt_agree(w->comm, ok, w->why); }

/* --- which file ----------------------------------------------------------------------------------------------------------- */

int64_t ckpt_tensor_nbytes(const CkptTensor *t) {
  int64_t n = (int64_t)dtype_size(t->dtype);
  for (int k = 0; k < t->rank; k++) n *= t->shape[k];
  return n;
}

typedef struct Load {
  int64_t nbytes;
  int tensor;
} Load;

static int largest_first(const void *a, const void *b) {
  const Load *x = a, *y = b;
  if (x->nbytes != y->nbytes) return x->nbytes > y->nbytes ? -1 : 1;
  return x->tensor - y->tensor;
}

/* The largest first, each to the file that has the least so far: none is then larger than the others by more than a tensor. */
static void deal(CkptWriter *w) {
  int n = w->save->n_tensors;
  Load *order = arena_array(w->arena, Load, n);
  int64_t *nbytes = arena_array(w->arena, int64_t, w->n_files);
  for (int i = 0; i < n; i++) order[i] = (Load){ckpt_tensor_nbytes(&w->save->tensors[i]), i};
  if (n) qsort(order, (size_t)n, sizeof *order, largest_first);
  for (int i = 0; i < n; i++) {
    int least = 0;
    for (int f = 1; f < w->n_files; f++)
      if (nbytes[f] < nbytes[least]) least = f;
    nbytes[least] += order[i].nbytes;
    w->file[order[i].tensor] = least;
  }
}

int ckpt_file_turn(const CkptWriter *w, int k) {
  return (int)(((int64_t)comm_rank(w->comm) * w->n_files / comm_size(w->comm) + k) % w->n_files);
}

/* --- rank 0: hashes, manifest, rename ----------------------------------------------------------------------------------- */

static CkptEntry join_hashes(const CkptTensor *t, int tensor, const CkptHash **at, const CkptHash *end) {
  CkptEntry e = {.path = t->path, .dtype = t->dtype, .rank = t->rank, .n = 1};
  int64_t covered = 0;
  for (int k = 0; k < t->rank; k++) {
    e.shape[k] = t->shape[k];
    e.n *= t->shape[k];
  }
  for (; *at < end && (*at)->tensor == tensor; ++*at) {
    CHECK((*at)->first == covered); /* the ranks' pieces cover the tensor once */
    e.crc32c = crc32c_combine(e.crc32c, (*at)->crc32c, (uint64_t)(*at)->n * dtype_size(t->dtype));
    covered += (*at)->n;
  }
  CHECK(covered == e.n);
  return e;
}

static bool write_manifest(const CkptWriter *w, const CkptHash *hash, int64_t n) {
  const CkptSave *save = w->save;
  CkptEntry *entries = arena_array(w->arena, CkptEntry, save->n_tensors + save->n_texts), *e = entries;
  const CkptHash *at = hash;
  for (int i = 0; i < save->n_tensors; i++, e++) {
    *e = join_hashes(&save->tensors[i], i, &at, hash + n);
    e->file = w->file[i];
  }
  CHECK(at == hash + n);
  for (int i = 0; i < save->n_texts; i++) {
    const char *text = save->texts[i].text;
    size_t nbytes = ckpt_text_n(&save->texts[i]) + 1;
    *e++ = (CkptEntry){.path = arena_printf(w->arena, "/run/%s", save->texts[i].name),
                       .is_text = true,
                       .n = (int64_t)nbytes,
                       .crc32c = crc32c(0, text, nbytes)};
  }
  CkptFile *files = arena_array(w->arena, CkptFile, w->n_files);
  for (int i = 0; i < w->n_files; i++) {
    struct stat info;
    if (stat(w->files[i], &info)) return why_not(w->why, "%s: %s", w->files[i], strerror(errno));
    files[i] = (CkptFile){ckpt_file_name(w->arena, i, w->n_files), info.st_size};
  }
  CkptManifest m = {save->step, files, w->n_files, save->facts, save->n_facts, entries, (int)(e - entries)};
  return try_manifest_write(w->aside, &m, w->why);
}

/* A step of that name is exchanged in one go where the kernel can; both are whole. */
static bool take_name(const CkptWriter *w) {
  if (!rename(w->aside, w->name)) return true;
  if (errno != EEXIST && errno != ENOTEMPTY) return why_not(w->why, "%s: rename: %s", w->name, strerror(errno));
  if (renameat2(AT_FDCWD, w->aside, AT_FDCWD, w->name, RENAME_EXCHANGE)) {
    const char *old = ckpt_path(w->arena, w->save->folder, w->save->step, ".old");
    if (rename(w->name, old) || rename(w->aside, w->name)) return why_not(w->why, "%s: rename: %s", w->name, strerror(errno));
  }
  return true;
}

static bool commit(const CkptWriter *w, const CkptHash *hash, int64_t n) {
  bool ok = true;
  for (int i = 0; ok && i < w->n_files; i++) {
    ckpt_tell_doing(w, "flushing", w->files[i]);
    ok = try_sync(w->files[i], w->why);
  }
  ckpt_tell_doing(w, "committing", w->aside);
  ok = ok && write_manifest(w, hash, n) && try_sync(w->aside, w->why) && take_name(w);
  if (!ok) return false;
  ckpt_clear(w->save->folder);
  return try_sync(w->save->folder, w->why);
}

/* --- public ------------------------------------------------------------------------------------------------------------- */

static void check_same(const CkptWriter *w) {
  Sha256 hash;
  sha256_init(&hash);
  sha256_add(&hash, &w->save->step, sizeof w->save->step);
  sha256_add(&hash, &w->n_files, sizeof w->n_files);
  for (int i = 0; i < w->save->n_tensors; i++) {
    const CkptTensor *t = &w->save->tensors[i];
    sha256_add_text(&hash, t->path);
    sha256_add(&hash, &t->dtype, sizeof t->dtype);
    sha256_add(&hash, t->shape, sizeof *t->shape * (size_t)t->rank);
  }
  comm_agree(w->comm, sha256_u64(&hash), "the list of tensors of a checkpoint");
}

static bool write_all(CkptWriter *w) {
  bool first = comm_rank(w->comm) == 0;
  if (!ckpt_all_agree(w, !first || ckpt_make_files(w))) return false;
  if (!(w->save->direct ? ckpt_write_direct : ckpt_write_pieces)(w)) return false;
  int64_t n;
  const CkptHash *hashes = ckpt_gather_hashes(w->arena, w->comm, w->hashes, w->n_hashes, &n);
  return ckpt_all_agree(w, !first || commit(w, hashes, n));
}

bool try_ckpt_write(Comm *comm, const CkptSave *save, Why *why) {
  Why unwanted;
  Arena *arena = arena_open();
  int n_pieces = 0;
  for (int i = 0; i < save->n_tensors; i++) n_pieces += save->tensors[i].n_pieces;
  const char *aside = ckpt_path(arena, save->folder, save->step, ".tmp");
  CkptWriter w = {.comm = comm,
                  .save = save,
                  .arena = arena,
                  .aside = aside,
                  .name = ckpt_path(arena, save->folder, save->step, ""),
                  .n_files = save->files ? save->files : 1,
                  .file = arena_array(arena, int, save->n_tensors),
                  .offsets = arena_array(arena, int64_t, save->n_tensors),
                  .hashes = arena_array(arena, CkptHash, n_pieces),
                  .why = why ? why : &unwanted};
  CHECK(w.n_files > 0 && w.n_files <= CKPT_FILES_MOST);
  w.files = arena_array(arena, const char *, w.n_files);
  for (int i = 0; i < w.n_files; i++) w.files[i] = arena_printf(arena, "%s/%s", aside, ckpt_file_name(arena, i, w.n_files));
  deal(&w);
  h5_start();
  check_same(&w);
  bool ok = write_all(&w);
  if (!ok && comm_rank(comm) == 0) try_tree_remove(aside, NULL);
  comm_barrier(comm); /* what this says about the disk holds when it returns */
  arena_close(arena);
  return ok;
}

/* Somebody has made it so: it is to stay.  Its mode tells, not what this process may do, since root may write anywhere, and another
 * user's steps are no such wish: that they cannot be removed is to be told. */
static bool is_read_only(const char *path) {
  struct stat info;
  return !stat(path, &info) && !(info.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH));
}

/* No step is opened but the newest: a run keeps hundreds of those that stay for good. */
bool try_ckpt_prune(const char *folder, int keep, int64_t keep_every, Why *why) {
  Arena *arena = arena_open();
  int n, kept = 0;
  const int64_t *steps;
  const char *within = ckpt_steps_folder(arena, folder);
  bool ok = try_ckpt_list(arena, folder, &steps, &n, why);
  for (int i = n - 1; keep > 0 && ok && i >= 0; i--) {
    const char *name = ckpt_path(arena, within, steps[i], ""), *old = ckpt_path(arena, within, steps[i], ".old");
    bool newest = kept < keep;
    if (newest) kept += ckpt_opens(name); /* a damaged one does not push out a good one */
    if (newest || (keep_every && steps[i] % keep_every == 0)) continue;
    if (is_read_only(name)) continue;
    try_tree_remove(old, NULL);
    if (rename(name, old)) ok = why_not(why, "%s: rename: %s", name, strerror(errno));
    ok = ok && try_tree_remove(old, why);
  }
  arena_close(arena);
  return ok;
}
