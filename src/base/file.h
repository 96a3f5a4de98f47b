/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are whole or not there at all, and folders.  Reasons name the path and the system's own words. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "src/base/fail.h"

/* The file has these bytes and is on disk, or is as it was: written aside (path + ".tmp"), flushed, renamed. */
bool try_file_write(const char *path, const void *bytes, size_t nbytes, Why *why);

/* Flushes a file or a folder (its entries) to disk. */
bool try_sync(const char *path, Why *why);
/* The same for the folder in which path lies. */
bool try_sync_parent(const char *path, Why *why);

bool try_folder_make(const char *path, Why *why); /* with its parents; an existing folder is fine */

/* Removes path and all below it, following no link; a path that is not there is fine. */
bool try_tree_remove(const char *path, Why *why);

/* Looks until seen(self), or for so many seconds: what another node has made in a shared file system may show late.  A client of
 * NFS may remember for a minute which names a folder has (acdirmax, nfs(5)), but asks again about a folder that is opened: between
 * two looks those above path are.  Gives what seen said last. */
bool file_await(const char *path, double seconds, bool (*seen)(void *self), void *self);

/* Whether a file that begins so is what Git leaves in the place of a large one (github.com/git-lfs, docs/spec.md); n is 8 or more.
 */
bool file_is_pointer(const void *bytes, size_t n);
#define FILE_POINTER "a pointer of Git LFS, not the file itself: git lfs pull fetches it"

/* All of nbytes to fd at offset, through interruptions and short writes; false with errno set. */
bool fd_write_at(int fd, const void *bytes, size_t nbytes, long long offset);
/* All of nbytes from offset; false with errno set, errno 0 when the file ends first. */
bool fd_read_at(int fd, void *bytes, size_t nbytes, long long offset);

#endif
