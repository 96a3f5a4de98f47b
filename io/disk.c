/* SPDX-License-Identifier: Apache-2.0 */
#include "io/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/arena.h"
#include "src/base/clock.h"
#include "src/base/file.h"

enum { PART = 4 << 20 };

void disk_folder(const char *path, char *out, size_t n) {
  struct stat s;
  snprintf(out, n, "%s", *path ? path : ".");
  while (stat(out, &s) && errno == ENOENT) {
    char *slash = strrchr(out, '/');
    if (!slash) {
      snprintf(out, n, ".");
      return;
    }
    slash[slash == out] = 0;
  }
}

/* Bytes of a kind that no file system makes fewer of. */
static char *make_part(void) {
  char *part = xmalloc(PART);
  uint32_t x = (uint32_t)getpid() | 1;
  for (size_t i = 0; i < PART; i++) {
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5; /* Marsaglia, "Xorshift RNGs", 2003 */
    part[i] = (char)x;
  }
  return part;
}

static bool write_all(int fd, const char *part, size_t nbytes, double seconds, size_t *done) {
  double end = clock_seconds() + seconds;
  for (*done = 0; *done < nbytes && (!*done || clock_seconds() < end); *done += PART)
    if (!fd_write_at(fd, part, PART, (long long)*done)) return false;
  return !fsync(fd);
}

static bool read_all(int fd, char *part, size_t nbytes, double seconds, size_t *done) {
  double end = clock_seconds() + seconds;
  for (*done = 0; *done < nbytes && (!*done || clock_seconds() < end); *done += PART)
    if (!fd_read_at(fd, part, PART, (long long)*done)) return false;
  return true;
}

/* 0, or errno. */
static int measure(int fd, char *part, size_t nbytes, double seconds, DiskRates *rates) {
  size_t written, read;
  double begin = clock_seconds();
  if (!write_all(fd, part, nbytes, seconds, &written)) return errno;
  rates->write = (double)written / (clock_seconds() - begin);
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); /* a wish */
  begin = clock_seconds();
  if (!read_all(fd, part, written, seconds, &read)) return errno;
  rates->read = (double)read / (clock_seconds() - begin);
  return 0;
}

bool try_disk_rates(const char *folder, size_t nbytes, double seconds, DiskRates *rates, Why *why) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/.hpctrain-check.XXXXXX", folder);
  int fd = mkostemp(path, O_CLOEXEC);
  if (fd < 0) return why_not(why, "no file can be made in %s: %s", folder, strerror(errno));
  unlink(path);
  char *part = make_part();
  int error = measure(fd, part, nbytes, seconds, rates);
  free(part);
  if (close(fd) && !error) error = errno;
  return !error || why_not(why, "a file in %s cannot be written and read: %s", folder, strerror(error));
}
