/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints in the folder of a test, and damage to their files.  For tests of one rank. */
#ifndef TEST_CKPT_FILES_H
#define TEST_CKPT_FILES_H

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "io/ckpt.h"
#include "src/base/file.h"
#include "test/check.h"

static inline Ckpt *open_step(const char *name) {
  Why why;
  Ckpt *c = try_ckpt_open(check_path(name), &why);
  if (!c) check_failed(__FILE__, __LINE__, "%s", why.text);
  return c;
}

/* Done twice it is undone. */
static inline void flip_bit(const char *file, int64_t at, int bit) {
  unsigned char byte;
  int fd = open(file, O_RDWR);
  CHECK(fd >= 0 && fd_read_at(fd, &byte, 1, at));
  byte ^= (unsigned char)(1 << bit);
  CHECK(fd_write_at(fd, &byte, 1, at) && !close(fd));
}

#endif
