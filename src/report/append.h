/* SPDX-License-Identifier: Apache-2.0 */
/* A file that only grows, a record a write().  When the disk is full or the file system away, records wait in memory and
 * training goes on; it is said once, and again when the file works; beyond APPEND_WAITING bytes the job ends. */
#ifndef REPORT_APPEND_H
#define REPORT_APPEND_H

#include <stdbool.h>
#include <stddef.h>

#include "src/base/fail.h"

typedef struct Append Append;

enum { APPEND_WAITING = 16 << 20 };

/* The file is opened, and created, with the first record.  path NULL: records wait for append_set_path. */
Append *append_open(const char *path);
void append_set_path(Append *append, const char *path);
bool append_close(Append *append, Why *why); /* NULL is fine; false: records were lost */

void append_add(Append *append, const void *record, size_t nbytes);
bool append_sync(Append *append, Why *why); /* what was added is on disk */

#endif
