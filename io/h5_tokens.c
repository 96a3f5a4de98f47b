/* SPDX-License-Identifier: Apache-2.0 */
#include "io/h5_tokens.h"

#include <inttypes.h>
#include <stdio.h>

#include "io/h5.h"
#include "src/base/text.h"

enum { NAMES = 8 }; /* that are listed */

/* A group, or a link that leads elsewhere, is there and is none. */
static bool why_missing(hid_t file, const char *path, const char *dataset, Why *why) {
  Text names = {0};
  if (H5Lexists(file, dataset, H5P_DEFAULT) > 0)
    return why_not(why, "%s: '%s' is no dataset of this file\nhelp: data.hdf5_dataset names it", path, dataset);
  H5G_info_t info = {.nlinks = 0};
  H5Gget_info(file, &info);
  for (hsize_t i = 0; i < info.nlinks && i < NAMES; i++) {
    char name[128];
    if (H5Lget_name_by_idx(file, ".", H5_INDEX_NAME, H5_ITER_INC, i, name, sizeof name, H5P_DEFAULT) > 0)
      text_printf(&names, "%s%s", names.n ? ", " : "", name);
  }
  why_not(why, "%s has no dataset '%s'\nhelp: data.hdf5_dataset names it; the file has %s", path, dataset,
          names.n ? names.at : "none");
  text_close(&names);
  return false;
}

static bool check_type(hid_t set, H5Tokens *found) {
  hid_t type = H5Dget_type(set);
  size_t size = type < 0 ? 0 : H5Tget_size(type);
  bool ok = (size == 1 || size == 2 || size == 4 || size == 8) && H5Tget_class(type) == H5T_INTEGER &&
            H5Tget_order(type) == H5T_ORDER_LE && H5Tget_precision(type) == 8 * size && H5Tget_offset(type) == 0;
  found->width = (int)size;
  found->is_signed = ok && H5Tget_sign(type) != H5T_SGN_NONE;
  if (type >= 0) H5Tclose(type);
  return ok;
}

static bool is_one_piece(hid_t set) {
  hid_t made = H5Dget_create_plist(set);
  bool ok = made >= 0 && H5Pget_layout(made) == H5D_CONTIGUOUS && H5Pget_external_count(made) == 0;
  if (made >= 0) H5Pclose(made);
  return ok;
}

/* Asked only where there is one: HDF5 adds the length of a user block to the address that there is none. */
static haddr_t place(hid_t set) {
  H5D_space_status_t status;
  bool there = H5Dget_space_status(set, &status) >= 0 && status == H5D_SPACE_STATUS_ALLOCATED;
  return there ? H5Dget_offset(set) : HADDR_UNDEF;
}

static int64_t count(hid_t set) {
  hid_t space = H5Dget_space(set);
  int64_t n = space < 0 ? -1 : (int64_t)H5Sget_simple_extent_npoints(space);
  if (space >= 0) H5Sclose(space);
  return n;
}

static bool look(hid_t set, const char *path, uint64_t nbytes, const char *dataset, H5Tokens *found, Why *why) {
  if (!check_type(set, found))
    return why_not(why, "%s: dataset '%s' is not of little-endian integers of 1, 2, 4 or 8 bytes", path, dataset);
  if (!is_one_piece(set))
    return why_not(why, "%s: dataset '%s' does not lie in one piece\nhelp: h5repack -f NONE -l %s:CONTI %s NEW.h5", path, dataset,
                   dataset, path);
  haddr_t offset = place(set);
  found->n = count(set);
  if (found->n == 0) offset = 0; /* nothing lies anywhere */
  bool there = found->n >= 0 && offset != HADDR_UNDEF && offset <= nbytes &&
               (uint64_t)found->n <= (nbytes - offset) / (unsigned)found->width;
  if (!there)
    return why_not(why,
                   "%s: dataset '%s' has %" PRId64 " ids that are not within the file's %" PRIu64 " bytes"
                   "\nhelp: it was cut short, or nothing was written there",
                   path, dataset, found->n, nbytes);
  found->offset = (int64_t)offset;
  return true;
}

bool try_h5_tokens(const char *path, uint64_t nbytes, const char *dataset, H5Tokens *found, Why *why) {
  h5_start();
  hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  if (file < 0) return h5_why(why, path);
  hid_t access = h5_within_file(), set = H5Dopen2(file, dataset, access);
  bool ok = set >= 0 ? look(set, path, nbytes, dataset, found, why) : why_missing(file, path, dataset, why);
  if (set >= 0) H5Dclose(set);
  H5Pclose(access);
  H5Fclose(file);
  return ok;
}
