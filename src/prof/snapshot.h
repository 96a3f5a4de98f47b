/* SPDX-License-Identifier: Apache-2.0 */
/* A memory snapshot for PyTorch's viewer (https://pytorch.org/memory_viz): one segment, what is taken in it and given back, in
 * order, and what is still held at the end. */
#ifndef PROF_SNAPSHOT_H
#define PROF_SNAPSHOT_H

#include <stdint.h>

#include "src/base/text.h"

typedef struct Snapshot Snapshot;

/* The segment.  out gets the file's bytes, and is complete after snapshot_close. */
Snapshot *snapshot_open(uint64_t address, uint64_t nbytes, Text *out);
void snapshot_close(Snapshot *s);

/* Who takes: what the viewer shows as the stack, "file:line:name", and by category gives a colour.  Texts are copied.  Gives a
 * number for snapshot_take. */
int snapshot_holder(Snapshot *s, const char *category, const char *name, const char *file, int line);
void snapshot_take(Snapshot *s, int holder, uint64_t address, uint64_t nbytes, int64_t micros);
void snapshot_give(Snapshot *s, uint64_t address, int64_t micros); /* what was taken there */

#endif
