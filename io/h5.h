/* SPDX-License-Identifier: Apache-2.0 */
/* HDF5 as this folder uses it: silent, with its reasons as text.  It may not know threads: one at a time calls it, while a save
 * is under way that save's (saver.h). */
#ifndef IO_H5_H
#define IO_H5_H

#include <hdf5.h>

#include "src/base/dtype.h"
#include "src/base/fail.h"

/* Before anything with HDF5: no file locks unless the user's HDF5_USE_FILE_LOCKING says so (parallel file systems refuse
 * them), no printing, and a write beyond the file size limit is an error, not a signal. */
void h5_start(void);

/* "what: " and the innermost words of the first failure since h5_start or the last h5_why.  Returns false. */
bool h5_why(Why *why, const char *what);

/* For files whose objects of that many bytes or more begin at multiples of it; what is written is written now, and its error this
 * call's. */
hid_t h5_file_access(size_t alignment);

/* For opening datasets of a file from elsewhere: follows no link out of the file, where bytes would be looked for in the wrong one.
 */
hid_t h5_within_file(void);

hid_t h5_type(DType dtype); /* little-endian in the file, and so in memory */

/* Selects in space, of that shape, the next box of the flattened range [first, first+n), which is not empty; returns its
 * elements.  A range needs at most 2·rank-1 of them.  rank 0: all of a scalar. */
int64_t h5_select(hid_t space, int rank, const int64_t *shape, int64_t first, int64_t n);

#endif
