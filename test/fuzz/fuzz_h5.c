/* SPDX-License-Identifier: Apache-2.0 */
/* Good HDF5 files that are no checkpoints of ours, beside manifests that may fit them: a case says which objects the file has and
 * what the manifest says of each.  What is found to be the manifest's dataset, or one of ids, has its bytes where they are said to
 * lie. */
#include <fcntl.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/ckpt_impl.h"
#include "io/h5.h"
#include "io/h5_tokens.h"
#include "src/base/file.h"
#include "test/fuzz/fuzz.h"

enum { MOST = 512, OBJECTS = 12, ASKED = 2, RANK_MOST = 5, EXTENT_MOST = 6, TEXT = 7, BYTES_MOST = 1 << 16 };

static const char *const names[] = {"/model/a", "/model/a/b", "/model/c",  "/model",     "/optim/m/a", "/optim/v/a",
                                    "/state/n", "/run/yaml",  "/run/hf/x", "/run//yaml", "/./state/n", "/"};
enum { NAMES = sizeof names / sizeof *names };

/* What is left of a case; zeros follow it. */
typedef struct Choices {
  const uint8_t *at;
  size_t n;
} Choices;

static unsigned choose(Choices *c, unsigned n) {
  if (!c->n) return 0;
  c->n--;
  return *c->at++ % n;
}

static const char *path_of(const char *name) {
  static char path[512];
  snprintf(path, sizeof path, "%s/step-00000003%s", fuzz_folder(), name);
  return path;
}

/* --- objects: a row a kind --------------------------------------------------------------------------------------------------- */

typedef struct Object {
  const char *name;
  hid_t file, link; /* link: creates the groups on the way */
  Choices *c;
  int rank;
  hsize_t shape[RANK_MOST];
} Object;

static hid_t some_type(Choices *c) {
  unsigned i = choose(c, DT_COUNT + 8);
  if (i < DT_COUNT) return H5Tcopy(h5_type((DType)i));
  hid_t others[] = {H5T_IEEE_F32BE, H5T_STD_I64BE, H5T_IEEE_F64LE, H5T_STD_U16LE, H5T_STD_REF_OBJ, H5T_NATIVE_OPAQUE}, type;
  if (i - DT_COUNT < 6) return H5Tcopy(others[i - DT_COUNT]);
  CHECK((type = H5Tcopy(H5T_C_S1)) >= 0);
  CHECK(H5Tset_size(type, i - DT_COUNT == 6 ? 1 + choose(c, TEXT) : H5T_VARIABLE) >= 0);
  return type;
}

/* How it lies in the file: in one piece, in chunks and deflated, among its own header, in another file, or nowhere yet. */
static hid_t some_layout(Choices *c, int rank) {
  hsize_t chunk[RANK_MOST] = {2, 1, 3, 1, 1};
  hid_t create = H5Pcreate(H5P_DATASET_CREATE);
  unsigned how = choose(c, 8);
  CHECK(create >= 0 && H5Pset_alloc_time(create, how == 1 ? H5D_ALLOC_TIME_LATE : H5D_ALLOC_TIME_EARLY) >= 0);
  if (how == 2 && rank) CHECK(H5Pset_chunk(create, rank, chunk) >= 0);
  if (how == 3) CHECK(H5Pset_alloc_time(create, H5D_ALLOC_TIME_DEFAULT) >= 0 && H5Pset_layout(create, H5D_COMPACT) >= 0);
  if (how == 4 && rank) CHECK(H5Pset_external(create, "/dev/zero", 0, H5F_UNLIMITED) >= 0);
  return create;
}

static void make_dataset(Object *o) {
  static uint8_t bytes[1 << 14];
  hid_t type = some_type(o->c), create = some_layout(o->c, o->rank);
  hid_t space = o->rank ? H5Screate_simple(o->rank, o->shape, NULL) : H5Screate(choose(o->c, 9) ? H5S_SCALAR : H5S_NULL);
  hid_t dataset = H5Dcreate2(o->file, o->name, type, space, o->link, create, H5P_DEFAULT);
  hssize_t n = H5Sget_simple_extent_npoints(space);
  bool plain = H5Tis_variable_str(type) <= 0 && H5Tget_class(type) != H5T_REFERENCE && H5Pget_external_count(create) == 0;
  for (size_t i = 0; !bytes[1] && i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 7);
  if (dataset >= 0 && plain && n >= 0 && (size_t)n * H5Tget_size(type) <= sizeof bytes && choose(o->c, 4))
    H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes);
  if (dataset >= 0) H5Dclose(dataset);
  H5Sclose(space);
  H5Pclose(create);
  H5Tclose(type);
}

static void make_group(Object *o) {
  hid_t group = H5Gcreate2(o->file, o->name, o->link, H5P_DEFAULT, H5P_DEFAULT);
  if (group >= 0) H5Gclose(group);
}

static void make_soft_link(Object *o) { H5Lcreate_soft(names[choose(o->c, NAMES)], o->file, o->name, o->link, H5P_DEFAULT); }

/* HDF5 1.10 itself dies of a hard link whose way leads through another file. */
static bool leads_elsewhere(hid_t file) {
  H5L_info_t info;
  for (int i = 0; i < NAMES; i++)
    if (H5Lget_info(file, names[i], &info, H5P_DEFAULT) >= 0 && info.type == H5L_TYPE_EXTERNAL) return true;
  return false;
}

static void make_hard_link(Object *o) {
  if (leads_elsewhere(o->file)) return;
  H5Lcreate_hard(o->file, names[choose(o->c, NAMES)], o->file, o->name, o->link, H5P_DEFAULT);
}

/* To another file, or to this very one. */
static void make_external_link(Object *o) {
  const char *target = names[choose(o->c, NAMES)];
  H5Lcreate_external(choose(o->c, 2) ? "other.h5" : CKPT_FILE, target, o->file, o->name, o->link, H5P_DEFAULT);
}

static void make_named_type(Object *o) {
  hid_t type = some_type(o->c);
  H5Tcommit2(o->file, o->name, type, o->link, H5P_DEFAULT, H5P_DEFAULT);
  H5Tclose(type);
}

static void (*const kinds[])(Object *) = {make_dataset,   make_dataset,   make_dataset,       make_dataset,   make_group,
                                          make_soft_link, make_hard_link, make_external_link, make_named_type};

/* --- file and manifest ------------------------------------------------------------------------------------------------------ */

/* The manifest's row of an object: its shape or another, any type. */
static void add_row(Object *o, Text *rows) {
  unsigned type = choose(o->c, DT_COUNT + 1), other = choose(o->c, 16);
  text_printf(rows, "%s\"%s\":{\"dtype\":\"%s\",\"crc32c\":\"00000000\",\"shape\":[", rows->n ? "," : "", o->name,
              type < DT_COUNT ? dtype_name((DType)type) : "text");
  if (type == DT_COUNT) {
    text_printf(rows, "%u", 1 + other % TEXT);
  } else if (other == 1) {
    text_printf(rows, "%u,%u", choose(o->c, 255), choose(o->c, 255));
  } else {
    for (int k = 0; k < o->rank; k++) text_printf(rows, "%s%llu", k ? "," : "", (unsigned long long)o->shape[k]);
  }
  text_printf(rows, "]}");
}

static hid_t create_file(Choices *c) {
  hid_t create = H5Pcreate(H5P_FILE_CREATE), access = H5Pcreate(H5P_FILE_ACCESS);
  unsigned flags = choose(c, 8);
  CHECK(create >= 0 && access >= 0 && H5Pset_userblock(create, flags & 1 ? 512 : 0) >= 0);
  CHECK(H5Pset_libver_bounds(access, flags & 2 ? H5F_LIBVER_LATEST : H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST) >= 0);
  hid_t file = H5Fcreate(path_of("/" CKPT_FILE), H5F_ACC_TRUNC, create, access);
  H5Pclose(access);
  H5Pclose(create);
  CHECK(file >= 0);
  return file;
}

static void make_file(Choices *c, Text *rows) {
  hid_t file = create_file(c), link = H5Pcreate(H5P_LINK_CREATE);
  CHECK(link >= 0 && H5Pset_create_intermediate_group(link, 1) >= 0);
  for (int i = 0; i < OBJECTS && c->n; i++) {
    Object o = {.name = names[choose(c, NAMES)], .file = file, .link = link, .c = c, .rank = (int)choose(c, RANK_MOST + 1)};
    for (int k = 0; k < o.rank; k++) o.shape[k] = choose(c, EXTENT_MOST);
    kinds[choose(c, sizeof kinds / sizeof *kinds)](&o);
    if (choose(c, 8)) add_row(&o, rows);
  }
  H5Pclose(link);
  CHECK(H5Fclose(file) >= 0);
}

static void put_manifest(const Text *rows) {
  Text text = {0};
  struct stat info;
  CHECK(!stat(path_of("/" CKPT_FILE), &info));
  text_printf(&text,
              "{\"format\":\"" CKPT_FORMAT "\",\"version\":%d,\"step\":3,\"facts\":{},\"files\":{\"" CKPT_FILE
              "\":%lld},\"datasets\":{%s}}",
              CKPT_VERSION, (long long)info.st_size, rows->n ? rows->at : "");
  fuzz_put(path_of("/" CKPT_MANIFEST), text.at, text.n);
  text_close(&text);
}

/* --- what holds ------------------------------------------------------------------------------------------------------------- */

/* HDF5 reads the same bytes as they are found past it. */
static void check_bytes(const Ckpt *c, hid_t file, const CkptEntry *e, int64_t offset) {
  static uint8_t past[BYTES_MOST], by[BYTES_MOST];
  size_t nbytes = (size_t)ckpt_entry_nbytes(e);
  Why why;
  CHECK(offset >= 0 && offset + (int64_t)nbytes <= ckpt_nbytes(c));
  if (nbytes > BYTES_MOST) return;
  hid_t dataset = H5Dopen2(file, e->path, H5P_DEFAULT), type = dataset < 0 ? -1 : H5Dget_type(dataset);
  CHECK(type >= 0 && H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, by) >= 0);
  CHECK(try_ckpt_bytes(c, e, offset, past, nbytes, &why) && !memcmp(past, by, nbytes));
  H5Tclose(type);
  H5Dclose(dataset);
}

static void check_all(const Ckpt *c, hid_t file) {
  Why why;
  for (int i = 0; i < ckpt_n(c); i++) {
    int64_t offset;
    const CkptEntry *e = ckpt_at(c, i);
    if (try_ckpt_locate(c, e, &offset, &why)) check_bytes(c, file, e, offset);
    try_ckpt_verify(c, i, ckpt_n(c), 1, &why);
  }
}

/* The same where the file is asked for ids, at the place of a name. */
static void check_tokens(hid_t file, const char *name) {
  static uint8_t past[BYTES_MOST], by[BYTES_MOST];
  const char *path = path_of("/" CKPT_FILE);
  struct stat info;
  int fd = open(path, O_RDONLY);
  CHECK(fd >= 0 && !fstat(fd, &info));
  H5Tokens found;
  Why why;
  if (try_h5_tokens(path, (uint64_t)info.st_size, name, &found, &why)) {
    size_t nbytes = (size_t)(found.n * found.width);
    CHECK(found.offset >= 0 && found.n >= 0 && found.offset + (int64_t)nbytes <= info.st_size);
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT), type = set < 0 ? -1 : H5Dget_type(set);
    CHECK(nbytes <= BYTES_MOST && type >= 0 && H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, by) >= 0);
    CHECK(fd_read_at(fd, past, nbytes, found.offset) && !memcmp(past, by, nbytes));
    H5Tclose(type);
    H5Dclose(set);
  }
  close(fd);
}

static void try_case(const uint8_t *bytes, size_t n) {
  Why why;
  Choices choices = {bytes, n};
  Text rows = {0};
  const char *asked[ASKED];
  for (int i = 0; i < ASKED; i++) asked[i] = names[choose(&choices, NAMES)];
  make_file(&choices, &rows);
  put_manifest(&rows);
  Ckpt *c = try_ckpt_open(path_of(""), &why);
  hid_t file = H5Fopen(path_of("/" CKPT_FILE), H5F_ACC_RDONLY, H5P_DEFAULT);
  CHECK(file >= 0);
  if (c) check_all(c, file);
  for (int i = 0; i < ASKED; i++) check_tokens(file, asked[i]);
  H5Fclose(file);
  ckpt_close(c);
  text_close(&rows);
}

/* Folder and another file for links are made once.  HDF5 keeps what it frees: a file's tables are of half a megabyte, which the
 * system would have to clear a case. */
static int make_seeds(Arena *arena, FuzzBytes seeds[FUZZ_SEEDS]) {
  static const uint8_t plain[] = {4, 6, 0, 0, 2, 3, 4, 0, 0, 0, 1,  1, 1, 0, 0, 6, 0, 0,
                                  2, 0, 0, 1, 1, 2, 0, 7, 0, 0, 13, 4, 0, 1, 1, 1, 7, 4};
  static const uint8_t block[] = {1, 4, 3, 0, 1, 5, 1, 0, 0, 1, 1, 0, 0, 2, 3, 1, 2, 3, 2, 4, 0, 1, 1, 4, 0};
  Why why;
  (void)arena;
  if (!try_folder_make(path_of(""), &why)) fail(FAIL_MACHINE, "%s", why.text);
  h5_start();
  CHECK(H5set_free_list_limits(-1, -1, -1, -1, -1, -1) >= 0);
  hid_t other = H5Fcreate(path_of("/other.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), group, set;
  hid_t space = H5Screate_simple(1, (hsize_t[]){3}, NULL);
  CHECK(other >= 0 && space >= 0 && (group = H5Gcreate2(other, "/model", 0, 0, 0)) >= 0);
  CHECK((set = H5Dcreate2(other, "/model/a", H5T_STD_I32LE, space, 0, 0, 0)) >= 0);
  CHECK(H5Dwrite(set, H5T_STD_I32LE, H5S_ALL, H5S_ALL, 0, (int32_t[]){7, 8, 9}) >= 0 && H5Dclose(set) >= 0);
  CHECK(H5Gclose(group) >= 0 && H5Sclose(space) >= 0 && H5Fclose(other) >= 0);
  seeds[0] = (FuzzBytes){plain, sizeof plain};
  seeds[1] = (FuzzBytes){block, sizeof block};
  return 2;
}

const FuzzTarget fuzz_target = {"files_that_are_no_checkpoints_are_refused", try_case, make_seeds, NULL, MOST};
