/* SPDX-License-Identifier: Apache-2.0 */
/* Token ids of an HDF5 file: a dataset of integers of 1, 2, 4 or 8 bytes, of any shape, read as one text in the order in which it
 * lies.  HDF5 says where that is; the ids are then read like any other file's, by any thread and without HDF5.  So the dataset must
 * lie there in one piece: h5py's create_dataset makes it so unless chunks, maxshape or compression are asked for. */
#ifndef IO_H5_TOKENS_H
#define IO_H5_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/fail.h"

typedef struct H5Tokens {
  int64_t offset, n; /* bytes before the first id; ids */
  int width;         /* bytes of one */
  bool is_signed;
} H5Tokens;

/* nbytes: of the file, in which what is found lies.  Input errors name file and dataset. */
bool try_h5_tokens(const char *path, uint64_t nbytes, const char *dataset, H5Tokens *found, Why *why);

#endif
