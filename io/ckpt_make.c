/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint's files before their tensors: one process makes them, in memory, and copies each to its place. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/ckpt_writer.h"
#include "io/h5.h"
#include "src/base/file.h"

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
  CHECK(type >= 0 && H5Tset_size(type, ckpt_text_n(text) + 1) >= 0 && H5Tset_cset(type, H5T_CSET_UTF8) >= 0);
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

/* Texts are in the first. */
static bool create_all(const CkptWriter *w, hid_t file, int number) {
  const CkptSave *save = w->save;
  bool ok = write_version(file);
  for (int i = 0; ok && !number && i < save->n_texts; i++) ok = write_text(file, &save->texts[i]);
  for (int i = 0; ok && i < save->n_tensors; i++) {
    const CkptTensor *t = &save->tensors[i];
    if (w->file[i] != number) continue;
    CHECK(t->rank >= 0 && t->rank <= CKPT_MAX_RANK);
    hid_t dataset = create_dataset(file, t->path, h5_type(t->dtype), t->rank, t->shape);
    w->offsets[i] = dataset >= 0 ? (int64_t)H5Dget_offset(dataset) : -1;
    ok = dataset >= 0 && H5Dclose(dataset) >= 0 && w->offsets[i] >= 0;
  }
  return ok || h5_why(w->why, w->files[number]);
}

/* Where names cannot be exchanged, a step that is saved again is for a moment under its old name alone (take_name). */
static bool bring_back(const char *name, const char *old) { return access(name, F_OK) && ckpt_opens(old) && !rename(old, name); }

void ckpt_clear(const char *folder) {
  DIR *dir = opendir(folder);
  if (!dir) return;
  Arena *arena = arena_open();
  const char *end = NULL;
  for (struct dirent *d; (d = readdir(dir));) {
    if (ckpt_parse_name(d->d_name, &end) < 0) continue;
    bool tmp = !strcmp(end, ".tmp"), old = !strcmp(end, ".old");
    const char *path = arena_printf(arena, "%s/%s", folder, d->d_name);
    const char *name = arena_strndup(arena, path, strlen(path) - strlen(end));
    if (tmp || (old && !bring_back(name, path))) try_tree_remove(path, NULL);
  }
  closedir(dir);
  arena_close(arena);
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

static bool place_file(const CkptWriter *w, int memory, const char *path) {
  struct stat info;
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  bool ok = fd >= 0 && !fstat(memory, &info) && copy_sparse(memory, fd, info.st_size);
  int error = errno;
  if (fd >= 0) close(fd);
  if (ok) return true;
  return why_not(w->why, "%s: cannot be made: %s", path, strerror(error));
}

/* A limit on file sizes holds for files in memory too. */
static bool check_limit(const CkptWriter *w, int number) {
  struct rlimit limit;
  uint64_t most = 1 << 20;
  for (int i = 0; i < w->save->n_tensors; i++) {
    uint64_t n = (uint64_t)ckpt_tensor_nbytes(&w->save->tensors[i]);
    if (w->file[i] == number) most += n + (n >= CKPT_ALIGNMENT ? CKPT_ALIGNMENT : 0) + 4096;
  }
  for (int i = 0; !number && i < w->save->n_texts; i++) most += ckpt_text_n(&w->save->texts[i]) + 4096;
  if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY || most <= limit.rlim_cur) return true;
  return why_not(w->why, "%s: %s: %.3g MB, the limit (ulimit -f) is %.3g MB", w->files[number], strerror(EFBIG),
                 (double)most * 1e-6, (double)limit.rlim_cur * 1e-6);
}

/* HDF5 makes the file in memory, since after a metadata write that failed it can neither close the file nor end in peace. */
static bool make_file(const CkptWriter *w, int number) {
  char path[64];
  ckpt_tell_doing(w, "making", w->files[number]);
  if (!check_limit(w, number)) return false;
  int memory = memfd_create(CKPT_FILE, MFD_CLOEXEC);
  if (memory < 0) return why_not(w->why, "memfd_create: %s", strerror(errno));
  snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
  hid_t access = h5_file_access(CKPT_ALIGNMENT);
  CHECK(H5Pset_fapl_stdio(access) >= 0); /* the other drivers want a real path */
  hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
  H5Pclose(access);
  bool ok = file >= 0 ? create_all(w, file, number) : h5_why(w->why, w->files[number]);
  if (file >= 0 && H5Fclose(file) < 0 && ok) ok = h5_why(w->why, w->files[number]);
  ok = ok && place_file(w, memory, w->files[number]);
  close(memory);
  return ok;
}

bool ckpt_make_files(CkptWriter *w) {
  ckpt_tell_doing(w, "making", w->aside);
  if (!try_folder_make(w->save->folder, w->why)) return false;
  ckpt_clear(w->save->folder);
  bool ok = try_folder_make(w->aside, w->why);
  for (int i = 0; ok && i < w->n_files; i++) ok = make_file(w, i);
  return ok;
}
