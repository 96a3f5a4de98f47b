/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are read soon, asked for by a thread of its own: posix_fadvise(POSIX_FADV_WILLNEED) comes back when the system has
 * taken pages for all of it and sent for the disk, which costs the caller more time than to copy the bytes afterwards. */
#ifndef BASE_AHEAD_H
#define BASE_AHEAD_H

#include <stdint.h>

typedef struct Ahead Ahead;

Ahead *ahead_open(void); /* the thread starts when something is asked for; where it cannot, the caller asks by itself */
/* From any thread, as often as it likes; the bytes are read as ever.  fd is open until ahead_close. */
void ahead_ask(Ahead *ahead, int fd, int64_t offset, int64_t nbytes);
void ahead_close(Ahead *ahead); /* what has not been asked for is left; NULL is fine */

#endif
