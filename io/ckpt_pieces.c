/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks' pieces on their way into a checkpoint's files, hashed as they go by.
 *
 *   by MPI-IO   HDF5 writes them, one after the other
 *   directly    datasets are contiguous, and so are pieces of them: a few threads write each part of one at its place in the file.
 *               HDF5 and MPI-IO have no part in it, so that it goes on in a thread of its own beside whatever else uses them */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/ckpt_writer.h"
#include "io/h5.h"
#include "src/base/file.h"
#include "src/base/hash.h"
#include "src/base/thread.h"

/* --- by MPI-IO ------------------------------------------------------------------------------------------------------------ */

/* A piece on its way into its dataset. */
typedef struct Taker {
  const CkptTensor *tensor;
  hid_t dataset, space;
  int64_t first, taken; /* of the piece: its place, and how much has come */
  uint32_t crc32c;
  bool ok;
} Taker;

static void take_part(void *self, int64_t first, int64_t left, const void *from) {
  Taker *t = self;
  const CkptTensor *tensor = t->tensor;
  size_t size = dtype_size(tensor->dtype);
  CHECK(first == t->taken);
  t->taken += left;
  if (!t->ok) return;
  t->crc32c = crc32c(t->crc32c, from, (size_t)left * size);
  for (const char *at = from; t->ok && left;) {
    int64_t n = h5_select(t->space, tensor->rank, tensor->shape, t->first + first, left);
    CHECK(n > 0 && n <= left);
    hsize_t count = (hsize_t)n;
    hid_t memory = H5Screate_simple(1, &count, NULL);
    t->ok = memory >= 0 && H5Dwrite(t->dataset, h5_type(tensor->dtype), memory, t->space, H5P_DEFAULT, at) >= 0;
    if (memory >= 0) H5Sclose(memory);
    at += (size_t)n * size;
    first += n;
    left -= n;
  }
}

static bool write_piece(CkptWriter *w, hid_t dataset, hid_t space, int tensor, const CkptPiece *piece) {
  Taker t = {&w->save->tensors[tensor], dataset, space, piece->first, 0, 0, true};
  if (piece->at)
    take_part(&t, 0, piece->n, piece->at);
  else
    piece->feed(piece->self, take_part, &t);
  CHECK(t.taken == piece->n);
  w->hashes[w->n_hashes++] = (CkptHash){tensor, t.crc32c, piece->first, piece->n};
  return t.ok;
}

static bool write_tensor(CkptWriter *w, hid_t file, int tensor) {
  const CkptTensor *t = &w->save->tensors[tensor];
  if (!t->n_pieces) return true;
  ckpt_tell_doing(w, "writing", w->files[w->file[tensor]]);
  hid_t dataset = H5Dopen2(file, t->path, H5P_DEFAULT), space = dataset < 0 ? -1 : H5Dget_space(dataset);
  bool ok = space >= 0;
  errno = 0;
  for (int k = 0; ok && k < t->n_pieces; k++)
    if (t->pieces[k].n) ok = write_piece(w, dataset, space, tensor, &t->pieces[k]);
  char what[640];
  /* MPI-IO reports a write that fell short without saying why; the system's last error does */
  snprintf(what, sizeof what, "%.300s: %.200s%s%.60s", w->files[w->file[tensor]], t->path, errno ? ": " : "",
           errno ? strerror(errno) : "");
  if (!ok) h5_why(w->why, what);
  if (space >= 0) H5Sclose(space);
  if (dataset >= 0 && H5Dclose(dataset) < 0 && ok) ok = h5_why(w->why, what);
  return ok;
}

/* Whether this rank can open all of them: MPI-IO opens together, and where some ranks cannot, the others wait for good. */
static bool can_open(CkptWriter *w) {
  for (int f = 0; f < w->n_files; f++)
    if (access(w->files[f], R_OK | W_OK)) return why_not(w->why, "%s: %s", w->files[f], strerror(errno));
  return true;
}

/* All ranks; as many of the files as can be opened. */
static bool open_files(CkptWriter *w, hid_t *files) {
  const void *mpi = comm_mpi(w->comm);
  hid_t access = h5_file_access(CKPT_ALIGNMENT);
  CHECK(!mpi || H5Pset_fapl_mpio(access, *(const MPI_Comm *)mpi, MPI_INFO_NULL) >= 0);
  for (int f = 0; f < w->n_files; f++) files[f] = -1;
  bool ok = ckpt_all_agree(w, can_open(w));
  for (int f = 0; ok && f < w->n_files; f++) {
    files[f] = H5Fopen(w->files[f], H5F_ACC_RDWR, access);
    ok = ckpt_all_agree(w, files[f] >= 0 || h5_why(w->why, w->files[f]));
  }
  H5Pclose(access);
  return ok;
}

bool ckpt_write_pieces(CkptWriter *w) {
  hid_t *files = arena_array(w->arena, hid_t, w->n_files);
  bool opened = open_files(w, files), ok = opened;
  for (int k = 0; ok && k < w->n_files; k++)
    for (int i = 0, f = ckpt_file_turn(w, k); ok && i < w->save->n_tensors; i++)
      if (w->file[i] == f) ok = write_tensor(w, files[f], i);
  ok = opened && ckpt_all_agree(w, ok);
  bool flush = ok; /* all ranks, or none */
  for (int f = 0; f < w->n_files && files[f] >= 0; f++) {
    ckpt_tell_doing(w, "flushing", w->files[f]);
    if (flush && H5Fflush(files[f], H5F_SCOPE_GLOBAL) < 0 && ok) ok = h5_why(w->why, w->files[f]);
    if (H5Fclose(files[f]) < 0 && ok) ok = h5_why(w->why, w->files[f]);
  }
  return opened && ckpt_all_agree(w, ok);
}

/* --- directly ------------------------------------------------------------------------------------------------------------- */

enum { CUT = 4 << 20 }; /* bytes of a write, which ends at a multiple of that in the file where it can */

/* A piece and where its elements go. */
typedef struct Item {
  const CkptPiece *piece;
  int64_t offset; /* in the file */
  int32_t tensor;
} Item;

typedef struct Direct {
  CkptWriter *writer;
  int *fds; /* of the files; -1: nothing of this rank's goes there */
  const Item *items;
  int n;
  atomic_int next; /* the item that nobody has taken yet */
  atomic_bool failed;
  Why why; /* of who set failed */
} Direct;

typedef struct Flow {
  Direct *direct;
  const Item *item;
  size_t size; /* of an element */
  int64_t taken;
  uint32_t crc32c;
} Flow;

static void write_failed(Direct *d, int file, const char *what) {
  int error = errno;
  if (!atomic_exchange(&d->failed, true)) why_not(&d->why, "%.300s: %.200s: %s", d->writer->files[file], what, strerror(error));
}

/* Each write is handed to the disk at once: what the file's flush waits for at the end is little. */
static void take_direct(void *self, int64_t first, int64_t left, const void *from) {
  Flow *f = self;
  Direct *d = f->direct;
  int file = d->writer->file[f->item->tensor], fd = d->fds[file];
  CHECK(first == f->taken);
  f->taken += left;
  int64_t offset = f->item->offset + first * (int64_t)f->size;
  size_t nbytes = (size_t)left * f->size;
  for (const char *at = from; nbytes && !d->failed;) {
    size_t room = CUT - (size_t)(offset % CUT), n = nbytes < room ? nbytes : room;
    f->crc32c = crc32c(f->crc32c, at, n);
    ckpt_tell_doing(d->writer, "writing", d->writer->files[file]);
    if (!fd_write_at(fd, at, n, offset)) write_failed(d, file, d->writer->save->tensors[f->item->tensor].path);
    (void)sync_file_range(fd, offset, (off_t)n, SYNC_FILE_RANGE_WRITE); /* where that cannot be, the flush has more to do */
    at += n;
    offset += (int64_t)n;
    nbytes -= n;
  }
}

static void *write_items(void *self) {
  Direct *d = self;
  for (int i; (i = atomic_fetch_add(&d->next, 1)) < d->n && !d->failed;) {
    const Item *item = &d->items[i];
    const CkptPiece *piece = item->piece;
    Flow f = {d, item, dtype_size(d->writer->save->tensors[item->tensor].dtype), 0, 0};
    if (piece->at)
      take_direct(&f, 0, piece->n, piece->at);
    else
      piece->feed(piece->self, take_direct, &f);
    CHECK(f.taken == piece->n);
    d->writer->hashes[i] = (CkptHash){item->tensor, f.crc32c, piece->first, piece->n};
  }
  return NULL;
}

static int list_items(const CkptWriter *w, Item *items) {
  int n = 0;
  for (int turn = 0; turn < w->n_files; turn++)
    for (int i = 0, f = ckpt_file_turn(w, turn); i < w->save->n_tensors; i++) {
      const CkptTensor *t = &w->save->tensors[i];
      for (int k = 0; k < t->n_pieces && w->file[i] == f; k++)
        if (t->pieces[k].n)
          items[n++] = (Item){&t->pieces[k], w->offsets[i] + t->pieces[k].first * (int64_t)dtype_size(t->dtype), i};
    }
  return n;
}

/* Threads that cannot be had are done without. */
static void write_by_threads(Direct *d, int threads) {
  enum { MOST = 16 };
  pthread_t ids[MOST];
  int n = 0;
  while (n + 1 < threads && n < MOST && n + 1 < d->n && try_thread_start(&ids[n], write_items, d, NULL)) n++;
  write_items(d);
  for (int t = 0; t < n; t++) CHECK(!pthread_join(ids[t], NULL));
}

/* Every rank flushes what it has written: that may be in the memory of its own node. */
static bool write_mine(CkptWriter *w, Item *items) {
  Direct d = {.writer = w, .fds = arena_array(w->arena, int, w->n_files), .items = items, .n = list_items(w, items)};
  for (int f = 0; f < w->n_files; f++) d.fds[f] = -1;
  for (int i = 0; i < d.n && !d.failed; i++) {
    int f = w->file[items[i].tensor];
    if (d.fds[f] < 0 && (d.fds[f] = open(w->files[f], O_WRONLY | O_CLOEXEC)) < 0) write_failed(&d, f, "open");
  }
  if (!d.failed) write_by_threads(&d, w->save->threads);
  w->n_hashes = d.n;
  for (int f = 0; f < w->n_files; f++) {
    if (d.fds[f] >= 0) ckpt_tell_doing(w, "flushing", w->files[f]);
    if (d.fds[f] >= 0 && !d.failed && fsync(d.fds[f])) write_failed(&d, f, "fsync");
    if (d.fds[f] >= 0 && close(d.fds[f]) && !d.failed) write_failed(&d, f, "close");
  }
  return !d.failed || why_not(w->why, "%s", d.why.text);
}

bool ckpt_write_direct(CkptWriter *w) {
  int n = 0;
  for (int i = 0; i < w->save->n_tensors; i++) n += w->save->tensors[i].n_pieces;
  comm_broadcast(w->comm, w->offsets, sizeof *w->offsets * (size_t)w->save->n_tensors, 0);
  return ckpt_all_agree(w, write_mine(w, arena_array(w->arena, Item, n)));
}
