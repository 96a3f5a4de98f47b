/* SPDX-License-Identifier: Apache-2.0 */
/* How fast a folder's file system is for this rank, measured while other ranks do the same. */
#ifndef IO_DISK_H
#define IO_DISK_H

#include <stddef.h>

#include "src/base/fail.h"

typedef struct DiskRates {
  double write, read; /* bytes a second: until they are on disk; not out of this node's memory, as far as it heeds that wish */
} DiskRates;

/* The folder, or the nearest above it that is there: out has room for n bytes. */
void disk_folder(const char *path, char *out, size_t n);

/* By a file that has no name, so that nothing stays whatever happens; at most nbytes of it, and little more than `seconds` long
 * each way.  False: no such file can be made, or written, or read, and why. */
bool try_disk_rates(const char *folder, size_t nbytes, double seconds, DiskRates *rates, Why *why);

#endif
