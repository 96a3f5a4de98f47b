/* SPDX-License-Identifier: Apache-2.0 */
/* Loading: each rank opens the file by itself, read-only, and reads the ranges it wants; no MPI is needed, and how the file
 * was written does not show.  HDF5 sees a file only when the manifest fits it, follows no link out of it, and says where a dataset
 * lies: in one piece, with the manifest's type and shape.  Its bytes are then read past HDF5, by any number of threads. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/ckpt_impl.h"
#include "io/h5.h"
#include "src/base/ahead.h"
#include "src/base/file.h"

/* One of its files, once for HDF5 and once for us. */
typedef struct Opened {
  const char *path;
  hid_t file;
  int fd;
} Opened;

struct Ckpt {
  Arena *arena;
  const char *folder; /* the step's */
  CkptManifest manifest;
  hid_t access;  /* of datasets */
  Opened *files; /* of the manifest's; as many as n_opened */
  int n_opened;
  Ahead *ahead;
};

static bool check_length(const Ckpt *c, const CkptFile *file, Why *why) {
  struct stat info;
  const char *path = arena_printf(c->arena, "%s/%s", c->folder, file->name);
  if (stat(path, &info)) return why_not(why, "%s: %s", path, strerror(errno));
  if (info.st_size == file->nbytes) return true;
  return why_not(why, "%s: %lld bytes, manifest %lld", path, (long long)info.st_size, (long long)file->nbytes);
}

static bool open_file(Ckpt *c, const CkptFile *file, Why *why) {
  Opened *o = &c->files[c->n_opened++];
  *o = (Opened){arena_printf(c->arena, "%s/%s", c->folder, file->name), -1, -1};
  o->file = H5Fopen(o->path, H5F_ACC_RDONLY, H5P_DEFAULT);
  if (o->file < 0) return h5_why(why, o->path);
  o->fd = open(o->path, O_RDONLY | O_CLOEXEC);
  return o->fd >= 0 || why_not(why, "%s: %s", o->path, strerror(errno));
}

static bool open_files(Ckpt *c, Why *why) {
  const CkptManifest *m = &c->manifest;
  for (int i = 0; i < m->n_files; i++)
    if (!check_length(c, &m->files[i], why)) return false;
  h5_start();
  c->access = h5_within_file();
  c->files = arena_array(c->arena, Opened, m->n_files);
  for (int i = 0; i < m->n_files; i++)
    if (!open_file(c, &m->files[i], why)) return false;
  return true;
}

Ckpt *try_ckpt_open(const char *step_folder, Why *why) {
  Arena *arena = arena_open();
  Ckpt *c = arena_new(arena, Ckpt);
  *c = (Ckpt){.arena = arena, .folder = arena_strdup(arena, step_folder), .access = -1, .ahead = ahead_open()};
  if (try_manifest_read(arena, step_folder, &c->manifest, why) && open_files(c, why)) return c;
  ckpt_close(c);
  return NULL;
}

void ckpt_close(Ckpt *c) {
  if (!c) return;
  if (c->access >= 0) H5Pclose(c->access);
  ahead_close(c->ahead);
  for (int i = 0; i < c->n_opened; i++) {
    if (c->files[i].file >= 0) H5Fclose(c->files[i].file);
    if (c->files[i].fd >= 0) close(c->files[i].fd);
  }
  arena_close(c->arena);
}

bool ckpt_opens(const char *step_folder) {
  Ckpt *c = try_ckpt_open(step_folder, NULL);
  bool opens = c != NULL;
  ckpt_close(c);
  return opens;
}

const char *ckpt_folder(const Ckpt *c) { return c->folder; }
int64_t ckpt_step(const Ckpt *c) { return c->manifest.step; }
int ckpt_files(const Ckpt *c) { return c->manifest.n_files; }

const char *ckpt_file(const Ckpt *c, int i, int64_t *nbytes) {
  CHECK(i >= 0 && i < c->manifest.n_files);
  *nbytes = c->manifest.files[i].nbytes;
  return c->manifest.files[i].name;
}

int64_t ckpt_nbytes(const Ckpt *c) {
  int64_t sum = 0;
  for (int i = 0; i < c->manifest.n_files; i++) sum += c->manifest.files[i].nbytes;
  return sum;
}

int ckpt_n(const Ckpt *c) { return c->manifest.n_entries; }

const char *ckpt_fact(const Ckpt *c, const char *name) {
  for (int i = 0; i < c->manifest.n_facts; i++)
    if (!strcmp(c->manifest.facts[i].name, name)) return c->manifest.facts[i].text;
  return NULL;
}

const CkptEntry *ckpt_at(const Ckpt *c, int i) {
  CHECK(i >= 0 && i < c->manifest.n_entries);
  return &c->manifest.entries[i];
}

static int by_path(const void *a, const void *b) { return strcmp(((const CkptEntry *)a)->path, ((const CkptEntry *)b)->path); }

const CkptEntry *ckpt_find(const Ckpt *c, const char *path) {
  CkptEntry key = {.path = path};
  int n = c->manifest.n_entries;
  return n ? bsearch(&key, c->manifest.entries, (size_t)n, sizeof key, by_path) : NULL;
}

/* --- datasets ----------------------------------------------------------------------------------------------------------- */

/* Does the dataset lie in this file in one piece, with the manifest's type and shape?  One without a place is asked for it in vain:
 * HDF5 adds the length of a user block to the address that there is none. */
static bool check_dataset(const CkptEntry *e, hid_t dataset, hid_t space) {
  hsize_t extent[H5S_MAX_RANK];
  hid_t type = H5Dget_type(dataset), create = H5Dget_create_plist(dataset), want = -1;
  H5D_space_status_t place;
  bool ok = type >= 0 && create >= 0 && H5Pget_layout(create) == H5D_CONTIGUOUS && H5Pget_external_count(create) == 0;
  ok = ok && H5Dget_space_status(dataset, &place) >= 0 && place == H5D_SPACE_STATUS_ALLOCATED;
  if (ok && e->is_text) {
    ok = H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0 && H5Tget_size(type) == (size_t)e->n;
  } else if (ok) {
    want = h5_type(e->dtype);
    ok = H5Tequal(type, want) > 0;
  }
  ok = ok && H5Sget_simple_extent_ndims(space) == e->rank && H5Sget_simple_extent_dims(space, extent, NULL) == e->rank;
  for (int k = 0; ok && k < e->rank; k++) ok = extent[k] == (hsize_t)e->shape[k];
  if (type >= 0) H5Tclose(type);
  if (create >= 0) H5Pclose(create);
  return ok;
}

int64_t ckpt_entry_nbytes(const CkptEntry *e) { return e->n * (e->is_text ? 1 : (int64_t)dtype_size(e->dtype)); }

bool try_ckpt_locate(const Ckpt *c, const CkptEntry *e, int64_t *offset, Why *why) {
  hid_t dataset = H5Dopen2(c->files[e->file].file, e->path, c->access), space = dataset < 0 ? -1 : H5Dget_space(dataset);
  bool opened = space >= 0, fits = opened && check_dataset(e, dataset, space);
  haddr_t at = fits ? H5Dget_offset(dataset) : HADDR_UNDEF;
  if (!opened) h5_why(why, e->where);
  if (opened && !fits) why_not(why, "%s: type or shape is not the manifest's", e->where);
  if (space >= 0) H5Sclose(space);
  if (dataset >= 0) H5Dclose(dataset);
  if (!fits) return false;
  int64_t nbytes = ckpt_entry_nbytes(e), room = c->manifest.files[e->file].nbytes - nbytes;
  *offset = (int64_t)at;
  return (room >= 0 && at <= (haddr_t)room) || why_not(why, "%s: lies beyond the file's end", e->where);
}

void ckpt_bytes_soon(const Ckpt *c, const CkptEntry *e, int64_t offset, int64_t nbytes) {
  ahead_ask(c->ahead, c->files[e->file].fd, offset, nbytes);
}

bool try_ckpt_bytes(const Ckpt *c, const CkptEntry *e, int64_t offset, void *out, size_t nbytes, Why *why) {
  if (fd_read_at(c->files[e->file].fd, out, nbytes, offset)) return true;
  return why_not(why, "%s: %s", e->where, errno ? strerror(errno) : "the file ends too early");
}

static _Noreturn void fail_read(const Ckpt *c, const char *reason) {
  fail(FAIL_INPUT, "%s: %s\nhelp: this checkpoint does not fit or is damaged; use another one", c->folder, reason);
}

void ckpt_read(const Ckpt *c, const char *path, DType dtype, int64_t first, int64_t n, void *out) {
  Why why;
  int64_t at, size = (int64_t)dtype_size(dtype);
  const CkptEntry *e = ckpt_find(c, path);
  if (!e) why_not(&why, "no dataset %s", path);
  if (e && (e->is_text || e->dtype != dtype)) why_not(&why, "%s is not %s", path, dtype_name(dtype));
  if (!e || e->is_text || e->dtype != dtype) fail_read(c, why.text);
  CHECK(first >= 0 && n >= 0 && first <= e->n && n <= e->n - first);
  if (!try_ckpt_locate(c, e, &at, &why) || !try_ckpt_bytes(c, e, at + first * size, out, (size_t)(n * size), &why))
    fail_read(c, why.text);
}

size_t ckpt_text_n(const CkptText *text) { return text->n ? text->n : strlen(text->text); }

const char *ckpt_text(const Ckpt *c, Arena *arena, const char *name) {
  size_t n;
  return ckpt_text_bytes(c, arena, name, &n);
}

const char *ckpt_text_bytes(const Ckpt *c, Arena *arena, const char *name, size_t *n) {
  Why why;
  int64_t at;
  const CkptEntry *e = ckpt_find(c, arena_printf(arena, "/run/%s", name));
  if (!e || !e->is_text) return NULL;
  if (!try_ckpt_locate(c, e, &at, &why)) fail_read(c, why.text);
  char *text = arena_alloc(arena, (size_t)e->n + 1);
  if (!try_ckpt_bytes(c, e, at, text, (size_t)e->n, &why)) fail_read(c, why.text);
  *n = (size_t)e->n - 1;
  return text;
}

/* --- the newest --------------------------------------------------------------------------------------------------------- */

/* Rank 0's list of steps, on all ranks. */
static const int64_t *shared_list(Comm *comm, Arena *arena, const char *folder, int *n) {
  const int64_t *mine = comm_rank(comm) == 0 ? ckpt_list(arena, folder, n) : NULL;
  comm_broadcast(comm, n, sizeof *n, 0);
  int64_t *steps = arena_array(arena, int64_t, *n);
  if (mine) memcpy(steps, mine, sizeof *steps * (size_t)*n);
  comm_broadcast(comm, steps, sizeof *steps * (size_t)*n, 0);
  return steps;
}

/* What a run needs to know of itself before it loads anything. */
static bool try_verify_small(const Ckpt *c, int i, int k, Why *why) {
  for (; i < ckpt_n(c); i += k) {
    const char *path = ckpt_at(c, i)->path;
    bool small = !strncmp(path, "/run/", 5) || !strncmp(path, "/state/", 7);
    if (small && !try_ckpt_verify(c, i, ckpt_n(c), 1, why)) return false;
  }
  return true;
}

/* NULL on all ranks unless all ranks find it good; why is then the same on all. */
static Ckpt *open_good(Comm *comm, const char *step_folder, bool whole, Why *why) {
  int i = comm_rank(comm), k = comm_size(comm);
  Ckpt *c = try_ckpt_open(step_folder, why);
  bool ok = c && (whole ? try_ckpt_verify(c, i, k, 1, why) : try_verify_small(c, i, k, why));
  if (ckpt_agree(comm, ok, why)) return c;
  ckpt_close(c);
  return NULL;
}

static bool is_step_folder(Comm *comm, Arena *arena, const char *folder) {
  struct stat info;
  int there = !stat(arena_printf(arena, "%s/" CKPT_MANIFEST, folder), &info);
  comm_broadcast(comm, &there, sizeof there, 0);
  return there;
}

void ckpt_fail_step(const char *step_folder, const char *why) {
  if (ckpt_is_newer(step_folder))
    fail(FAIL_INPUT, "%s\nhelp: a newer hpctrain has saved it: run that one, or name the folder of an older step", why);
  fail(FAIL_INPUT, "%s damaged: %s\nhelp: use another checkpoint; hpctrain ckpt ls lists them", step_folder, why);
}

/* To go back behind a step that is not damaged must be wanted. */
static void refuse_newer(Comm *comm, const char *step_folder, const Why *why) {
  bool newer = comm_rank(comm) == 0 && ckpt_is_newer(step_folder);
  comm_broadcast(comm, &newer, sizeof newer, 0);
  if (newer) ckpt_fail_step(step_folder, why->text);
}

/* Of the steps before a damaged one (-1: none was); damage: that one's. */
static Ckpt *newest_of(Comm *comm, const char *folder, int64_t damaged, const Why *damage, Text *warnings) {
  Arena *arena = arena_open();
  Why why = damage ? *damage : (Why){""};
  int n;
  const int64_t *steps = shared_list(comm, arena, folder, &n);
  const char *within = ckpt_steps_folder(arena, folder);
  int64_t newest = damaged;
  Ckpt *c = NULL;
  for (int i = n - 1; i >= 0; i--) {
    if (damaged >= 0 && steps[i] > damaged) continue;
    bool known = steps[i] == damaged;
    const char *path = ckpt_path(arena, within, steps[i], "");
    if (!known) c = open_good(comm, path, newest >= 0, &why);
    if (!known && !c) refuse_newer(comm, path, &why);
    if (newest < 0) newest = steps[i];
    if (c && newest > steps[i])
      text_printf(warnings, "       using step-%08" PRId64 " (verified); %" PRId64 " step%s redone\n", steps[i], newest - steps[i],
                  newest - steps[i] == 1 ? " is" : "s are");
    if (c) break;
    text_printf(warnings, "step-%08" PRId64 " damaged: %s\n", steps[i], why.text);
  }
  if (!c && n)
    fail(FAIL_INPUT,
         "%s: none of its %d checkpoints is whole; step-%08" PRId64
         ": %s\nhelp: move them away to start over, or put back a good copy",
         within, n, steps[0], why.text);
  arena_close(arena);
  return c;
}

Ckpt *ckpt_find_newest(Comm *comm, const char *folder, Text *warnings) {
  Arena *arena = arena_open();
  Why why = {""};
  bool one = is_step_folder(comm, arena, folder);
  arena_close(arena);
  Ckpt *c = one ? open_good(comm, folder, false, &why) : newest_of(comm, folder, -1, NULL, warnings);
  if (one && !c) ckpt_fail_step(folder, why.text);
  return c;
}

Ckpt *ckpt_find_before_take(Comm *comm, const char *folder, Ckpt *c, const Why *damage, Text *warnings) {
  int64_t step = ckpt_step(c);
  ckpt_close(c);
  Arena *arena = arena_open();
  bool one = is_step_folder(comm, arena, folder);
  arena_close(arena);
  if (one) ckpt_fail_step(folder, damage->text);
  return newest_of(comm, folder, step, damage, warnings);
}
