/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are read through a map for as long as a run lasts.  What a disk then fails to give, or what is there no more since
 * somebody has cut the file short, is a signal (SIGBUS) in whatever thread reads; here it becomes an error that names the file. */
#ifndef IO_MAPPED_H
#define IO_MAPPED_H

#include <stdbool.h>
#include <stddef.h>

#include "src/base/fail.h"

/* Of all nbytes > 0 of an open file; NULL and why. */
const void *mapped_open(const char *path, int fd, size_t nbytes, Why *why);
void mapped_close(const void *map, size_t nbytes); /* NULL is fine */

#endif
