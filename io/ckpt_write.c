/* SPDX-License-Identifier: Apache-2.0 */
/* Saving, in stages after each of which all ranks agree whether to go on:
 *   rank 0 makes step-N.tmp/ and in it the file with all datasets, allocated but not filled;
 *   all open it through MPI-IO, each writes its pieces by itself and hashes them as it does, all flush and close;
 *   rank 0 joins the hashes, writes the manifest, flushes everything and renames.
 * So the metadata is one process's, and no write waits for another rank. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/ckpt_impl.h"
#include "io/h5.h"
#include "src/base/file.h"
#include "src/base/hash.h"

/* Datasets this large begin at multiples of it: the stripe of a parallel file system, and whole pages everywhere. */
enum { ALIGNMENT = 1 << 20 };

typedef struct Writer {
  Comm *comm;
  const CkptSave *save;
  Arena *arena;
  const char *aside, *name, *file; /* step-N.tmp, step-N, step-N.tmp/model.h5 */
  CkptHash *hashes;                /* this rank's */
  int n_hashes;
  Why *why;
} Writer;

/* True when all ranks were successful; else why is the same on all. */
static bool all_agree(Writer *w, bool ok) { return !comm_any_reason(w->comm, !ok, w->why->text, sizeof w->why->text); }

/* --- rank 0: an empty file with everything in its place ----------------------------------------------------------------- */

static hid_t file_access(void) {
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  CHECK(access >= 0 && H5Pset_alignment(access, ALIGNMENT, ALIGNMENT) >= 0);
  CHECK(H5Pset_sieve_buf_size(access, 0) >= 0); /* what is written is written now, and its error this call's */
  return access;
}

/* Contiguous, on disk from the start, never filled, without a time (the same states make the same file). */
static hid_t create_dataset(hid_t file, const char *path, hid_t type, int rank, const int64_t *shape) {
  hsize_t extent[CKPT_MAX_RANK] = {0};
  for (int k = 0; k < rank; k++) {
    CHECK(shape[k] > 0);
    extent[k] = (hsize_t)shape[k];
  }
  hid_t space = rank ? H5Screate_simple(rank, extent, NULL) : H5Screate(H5S_SCALAR);
  hid_t create = H5Pcreate(H5P_DATASET_CREATE), link = H5Pcreate(H5P_LINK_CREATE);
  CHECK(space >= 0 && create >= 0 && link >= 0);
  CHECK(H5Pset_layout(create, H5D_CONTIGUOUS) >= 0 && H5Pset_alloc_time(create, H5D_ALLOC_TIME_EARLY) >= 0);
  CHECK(H5Pset_fill_time(create, H5D_FILL_TIME_NEVER) >= 0 && H5Pset_obj_track_times(create, 0) >= 0);
  CHECK(H5Pset_create_intermediate_group(link, 1) >= 0);
  hid_t dataset = H5Dcreate2(file, path, type, space, link, create, H5P_DEFAULT);
  H5Pclose(link);
  H5Pclose(create);
  H5Sclose(space);
  return dataset;
}

static bool write_text(hid_t file, const CkptText *text) {
  char path[256];
  CHECK(snprintf(path, sizeof path, "/run/%s", text->name) < (int)sizeof path);
  hid_t type = H5Tcopy(H5T_C_S1);
  CHECK(type >= 0 && H5Tset_size(type, strlen(text->text) + 1) >= 0 && H5Tset_cset(type, H5T_CSET_UTF8) >= 0);
  hid_t dataset = create_dataset(file, path, type, 0, NULL);
  bool ok = dataset >= 0 && H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text->text) >= 0;
  if (dataset >= 0) ok = H5Dclose(dataset) >= 0 && ok;
  H5Tclose(type);
  return ok;
}

static bool write_version(hid_t file) {
  int version = CKPT_VERSION;
  hid_t space = H5Screate(H5S_SCALAR);
  hid_t attribute = H5Acreate2(file, "format_version", H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT);
  bool ok = attribute >= 0 && H5Awrite(attribute, H5T_NATIVE_INT, &version) >= 0;
  if (attribute >= 0) ok = H5Aclose(attribute) >= 0 && ok;
  H5Sclose(space);
  return ok;
}

static bool create_all(const Writer *w, hid_t file) {
  const CkptSave *save = w->save;
  bool ok = write_version(file);
  for (int i = 0; ok && i < save->n_texts; i++) ok = write_text(file, &save->texts[i]);
  for (int i = 0; ok && i < save->n_tensors; i++) {
    const CkptTensor *t = &save->tensors[i];
    CHECK(t->rank >= 0 && t->rank <= CKPT_MAX_RANK);
    hid_t dataset = create_dataset(file, t->path, h5_type(t->dtype), t->rank, t->shape);
    ok = dataset >= 0 && H5Dclose(dataset) >= 0;
  }
  return ok || h5_why(w->why, w->file);
}

/* What a job that died in a save left behind, of this step or any other. */
static void remove_remains(const Writer *w) {
  DIR *dir = opendir(w->save->folder);
  if (!dir) return;
  const char *end = NULL;
  for (struct dirent *d; (d = readdir(dir));)
    if (ckpt_parse_name(d->d_name, &end) >= 0 && (!strcmp(end, ".tmp") || !strcmp(end, ".old")))
      try_tree_remove(arena_printf(w->arena, "%s/%s", w->save->folder, d->d_name), NULL);
  closedir(dir);
}

/* The empty file at `from` (sparse, in memory) is copied to its place, where all of its space is asked for at once if the file
 * system can do that: a disk too full is known before the tensors are written to it. */
static bool copy_sparse(int from, int to, int64_t nbytes) {
  char part[65536];
  if (ftruncate(to, nbytes)) return false;
  if (fallocate(to, 0, 0, nbytes) && (errno == ENOSPC || errno == EFBIG || errno == EDQUOT)) return false;
  for (int64_t at = 0; at < nbytes;) {
    int64_t data = lseek(from, at, SEEK_DATA), hole = data < 0 ? -1 : lseek(from, data, SEEK_HOLE);
    if (data < 0) return errno == ENXIO; /* a hole to the end */
    for (at = data; at < hole;) {
      size_t n = hole - at < (int64_t)sizeof part ? (size_t)(hole - at) : sizeof part;
      if (!fd_read_at(from, part, n, at) || !fd_write_at(to, part, n, at)) return false;
      at += (int64_t)n;
    }
  }
  return true;
}

static bool place_file(const Writer *w, int memory) {
  struct stat info;
  int fd = open(w->file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  bool ok = fd >= 0 && !fstat(memory, &info) && copy_sparse(memory, fd, info.st_size);
  int error = errno;
  if (fd >= 0) close(fd);
  if (ok) return true;
  return why_not(w->why, "%s: cannot be made: %s", w->file, strerror(error));
}

/* A limit on file sizes holds for files in memory too. */
static bool check_limit(const Writer *w) {
  struct rlimit limit;
  uint64_t most = 1 << 20;
  for (int i = 0; i < w->save->n_tensors; i++) {
    const CkptTensor *t = &w->save->tensors[i];
    uint64_t n = dtype_size(t->dtype);
    for (int k = 0; k < t->rank; k++) n *= (uint64_t)t->shape[k];
    most += n + (n >= ALIGNMENT ? ALIGNMENT : 0) + 4096;
  }
  for (int i = 0; i < w->save->n_texts; i++) most += strlen(w->save->texts[i].text) + 4096;
  if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY || most <= limit.rlim_cur) return true;
  return why_not(w->why, "%s: %s: %.3g MB, the limit (ulimit -f) is %.3g MB", w->file, strerror(EFBIG), (double)most * 1e-6,
                 (double)limit.rlim_cur * 1e-6);
}

/* HDF5 makes the file in memory, since after a metadata write that failed it can neither close the file nor end in peace. */
static bool make_file(const Writer *w) {
  char path[64];
  if (!try_folder_make(w->save->folder, w->why)) return false;
  remove_remains(w);
  if (!try_folder_make(w->aside, w->why) || !check_limit(w)) return false;
  int memory = memfd_create(CKPT_FILE, MFD_CLOEXEC);
  if (memory < 0) return why_not(w->why, "memfd_create: %s", strerror(errno));
  snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
  hid_t access = file_access();
  CHECK(H5Pset_fapl_stdio(access) >= 0); /* the other drivers want a real path */
  hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
  H5Pclose(access);
  bool ok = file >= 0 ? create_all(w, file) : h5_why(w->why, w->file);
  if (file >= 0 && H5Fclose(file) < 0 && ok) ok = h5_why(w->why, w->file);
  ok = ok && place_file(w, memory);
  close(memory);
  return ok;
}

/* --- all ranks: the pieces ---------------------------------------------------------------------------------------------- */

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

static bool write_piece(Writer *w, hid_t dataset, hid_t space, int tensor, const CkptPiece *piece) {
  Taker t = {&w->save->tensors[tensor], dataset, space, piece->first, 0, 0, true};
  if (piece->at)
    take_part(&t, 0, piece->n, piece->at);
  else
    piece->feed(piece->self, take_part, &t);
  CHECK(t.taken == piece->n);
  w->hashes[w->n_hashes++] = (CkptHash){tensor, t.crc32c, piece->first, piece->n};
  return t.ok;
}

static bool write_tensor(Writer *w, hid_t file, int tensor) {
  const CkptTensor *t = &w->save->tensors[tensor];
  if (!t->n_pieces) return true;
  hid_t dataset = H5Dopen2(file, t->path, H5P_DEFAULT), space = dataset < 0 ? -1 : H5Dget_space(dataset);
  bool ok = space >= 0;
  errno = 0;
  for (int k = 0; ok && k < t->n_pieces; k++)
    if (t->pieces[k].n) ok = write_piece(w, dataset, space, tensor, &t->pieces[k]);
  char what[640];
  /* MPI-IO reports a write that fell short without saying why; the system's last error does */
  snprintf(what, sizeof what, "%.300s: %.200s%s%.60s", w->file, t->path, errno ? ": " : "", errno ? strerror(errno) : "");
  if (!ok) h5_why(w->why, what);
  if (space >= 0) H5Sclose(space);
  if (dataset >= 0 && H5Dclose(dataset) < 0 && ok) ok = h5_why(w->why, what);
  return ok;
}

static bool write_pieces(Writer *w) {
  const void *mpi = comm_mpi(w->comm);
  hid_t access = file_access();
  CHECK(!mpi || H5Pset_fapl_mpio(access, *(const MPI_Comm *)mpi, MPI_INFO_NULL) >= 0);
  hid_t file = H5Fopen(w->file, H5F_ACC_RDWR, access);
  H5Pclose(access);
  bool ok = file >= 0 || h5_why(w->why, w->file);
  if (!all_agree(w, ok)) {
    if (file >= 0) H5Fclose(file);
    return false;
  }
  for (int i = 0; ok && i < w->save->n_tensors; i++) ok = write_tensor(w, file, i);
  ok = all_agree(w, ok);
  if (ok && H5Fflush(file, H5F_SCOPE_GLOBAL) < 0) ok = h5_why(w->why, w->file);
  if (H5Fclose(file) < 0 && ok) ok = h5_why(w->why, w->file);
  return all_agree(w, ok);
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

static bool write_manifest(const Writer *w, const CkptHash *hash, int64_t n) {
  const CkptSave *save = w->save;
  struct stat info;
  CkptEntry *entries = arena_array(w->arena, CkptEntry, save->n_tensors + save->n_texts), *e = entries;
  const CkptHash *at = hash;
  for (int i = 0; i < save->n_tensors; i++) *e++ = join_hashes(&save->tensors[i], i, &at, hash + n);
  CHECK(at == hash + n);
  for (int i = 0; i < save->n_texts; i++) {
    const char *text = save->texts[i].text;
    size_t nbytes = strlen(text) + 1;
    *e++ = (CkptEntry){.path = arena_printf(w->arena, "/run/%s", save->texts[i].name),
                       .is_text = true,
                       .n = (int64_t)nbytes,
                       .crc32c = crc32c(0, text, nbytes)};
  }
  if (stat(w->file, &info)) return why_not(w->why, "%s: %s", w->file, strerror(errno));
  CkptManifest m = {save->step, info.st_size, save->facts, save->n_facts, entries, (int)(e - entries)};
  return try_manifest_write(w->aside, &m, w->why);
}

/* A step of that name is exchanged in one go where the kernel can; both are whole. */
static bool take_name(const Writer *w) {
  if (!rename(w->aside, w->name)) return true;
  if (errno != EEXIST && errno != ENOTEMPTY) return why_not(w->why, "%s: rename: %s", w->name, strerror(errno));
  if (renameat2(AT_FDCWD, w->aside, AT_FDCWD, w->name, RENAME_EXCHANGE)) {
    const char *old = ckpt_path(w->arena, w->save->folder, w->save->step, ".old");
    if (rename(w->name, old) || rename(w->aside, w->name)) return why_not(w->why, "%s: rename: %s", w->name, strerror(errno));
  }
  return true;
}

static bool commit(const Writer *w, const CkptHash *hash, int64_t n) {
  bool ok = try_sync(w->file, w->why) && write_manifest(w, hash, n) && try_sync(w->aside, w->why) && take_name(w);
  if (!ok) return false;
  remove_remains(w);
  return try_sync(w->save->folder, w->why);
}

/* --- public ------------------------------------------------------------------------------------------------------------- */

static void check_same(const Writer *w) {
  Sha256 hash;
  sha256_init(&hash);
  sha256_add(&hash, &w->save->step, sizeof w->save->step);
  for (int i = 0; i < w->save->n_tensors; i++) {
    const CkptTensor *t = &w->save->tensors[i];
    sha256_add_text(&hash, t->path);
    sha256_add(&hash, &t->dtype, sizeof t->dtype);
    sha256_add(&hash, t->shape, sizeof *t->shape * (size_t)t->rank);
  }
  comm_agree(w->comm, sha256_u64(&hash), "the list of tensors of a checkpoint");
}

static bool write_all(Writer *w) {
  bool first = comm_rank(w->comm) == 0;
  if (!all_agree(w, !first || make_file(w)) || !write_pieces(w)) return false;
  int64_t n;
  const CkptHash *hashes = ckpt_gather_hashes(w->arena, w->comm, w->hashes, w->n_hashes, &n);
  return all_agree(w, !first || commit(w, hashes, n));
}

bool try_ckpt_write(Comm *comm, const CkptSave *save, Why *why) {
  Why unwanted;
  Arena *arena = arena_open();
  int n_pieces = 0;
  for (int i = 0; i < save->n_tensors; i++) n_pieces += save->tensors[i].n_pieces;
  const char *aside = ckpt_path(arena, save->folder, save->step, ".tmp");
  Writer w = {.comm = comm,
              .save = save,
              .arena = arena,
              .aside = aside,
              .name = ckpt_path(arena, save->folder, save->step, ""),
              .file = arena_printf(arena, "%s/" CKPT_FILE, aside),
              .hashes = arena_array(arena, CkptHash, n_pieces),
              .why = why ? why : &unwanted};
  h5_start();
  check_same(&w);
  bool ok = write_all(&w);
  if (!ok && comm_rank(comm) == 0) try_tree_remove(aside, NULL);
  comm_barrier(comm); /* what this says about the disk holds when it returns */
  arena_close(arena);
  return ok;
}

bool try_ckpt_prune(const char *folder, int keep, int64_t keep_every, Why *why) {
  Arena *arena = arena_open();
  int n, kept = 0;
  const int64_t *steps = ckpt_list(arena, folder, &n);
  const char *within = ckpt_steps_folder(arena, folder);
  bool ok = true;
  for (int i = n - 1; keep > 0 && ok && i >= 0; i--) {
    const char *name = ckpt_path(arena, within, steps[i], ""), *old = ckpt_path(arena, within, steps[i], ".old");
    Ckpt *c = try_ckpt_open(name, NULL);
    bool good = c != NULL;
    ckpt_close(c);
    if (kept < keep || (keep_every && steps[i] % keep_every == 0)) {
      kept += good && kept < keep; /* a damaged one does not push out a good one */
      continue;
    }
    try_tree_remove(old, NULL);
    if (rename(name, old)) ok = why_not(why, "%s: rename: %s", name, strerror(errno));
    ok = ok && try_tree_remove(old, why);
  }
  arena_close(arena);
  return ok;
}
