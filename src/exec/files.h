/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's file of what memory.offload_folder keeps, read and written by threads of its own.  The file has no name once it is open:
 * it is gone with the process, whatever ends that. */
#ifndef EXEC_FILES_H
#define EXEC_FILES_H

#include <stdbool.h>
#include <stddef.h>

enum { FILE_ALIGN = 4096 }; /* of offsets, addresses and sizes that may go past the page cache */

typedef struct Files Files;
/* All nbytes are reserved, and zero; a folder that is not there, cannot be written or has no room ends the job. */
Files *files_open(const char *folder, size_t nbytes);
void files_close(Files *files); /* NULL is fine */
/* At once, by this thread; no transfer of these bytes is under way. */
void files_read(Files *files, size_t offset, void *to, size_t nbytes);
void files_write(Files *files, size_t offset, const void *from, size_t nbytes);

/* A transfer at a fixed place, any number of times; between start and wait neither end may be touched.  A wait ends the job where
 * the transfer has failed. */
typedef struct FileMove FileMove;
FileMove *file_move_open(Files *files, bool write, size_t offset, void *at, size_t nbytes);
void file_move_start(FileMove *move);
void file_move_wait(FileMove *move);
void file_move_close(FileMove *move); /* NULL is fine */

#endif
