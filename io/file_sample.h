/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a large file is still the same one, for the price of a few reads: its length, its ends and blocks at places that follow
 * from the length alone are hashed.  A file that was made anew differs in nearly every block; a change of a few bytes in the middle
 * of a large one may be missed. */
#ifndef IO_FILE_SAMPLE_H
#define IO_FILE_SAMPLE_H

#include <stdint.h>

#include "src/base/fail.h"

typedef struct FileSample {
  int64_t nbytes;
  uint64_t hash;
  char written[32]; /* when it last was, as of clock_utc; for people: not hashed, copies have other times */
} FileSample;

/* Bytes that may differ: they count as zeros. */
typedef struct FileGap {
  int64_t at, n;
} FileGap;

/* blocks: how many of 4 KiB between the ends; a file that is not larger than all of them is hashed whole. */
bool try_file_sample(const char *path, int blocks, FileGap gap, FileSample *out, Why *why);

#endif
