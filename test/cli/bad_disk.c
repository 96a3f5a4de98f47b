/* SPDX-License-Identifier: Apache-2.0 */
/* A disk that is slow, full or broken, for programs that are started with this in LD_PRELOAD.  While the file named by BAD_DISK
 * exists, each call of its kind on a file whose path has PART takes so long, and fails with ERRNO unless that is 0:
 *   fsync|pwrite|pread MILLISECONDS ERRNO PART */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static bool concerns(int fd, const char *part) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (n < 0) return false;
  path[n] = 0;
  return strstr(path, part);
}

/* The call waits; true when it is to fail, with errno set. */
static bool is_bad(const char *call, int fd) {
  char kind[16], part[256];
  int ms = 0, error = 0;
  const char *name = getenv("BAD_DISK");
  FILE *file = name ? fopen(name, "r") : NULL;
  if (!file) return false;
  bool bad = fscanf(file, "%15s %d %d %255s", kind, &ms, &error, part) == 4 && !strcmp(kind, call) && concerns(fd, part);
  fclose(file);
  if (!bad) return false;
  usleep((useconds_t)ms * 1000);
  errno = error;
  return error;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int fsync(int fd) { return is_bad("fsync", fd) ? -1 : REAL(fsync)(fd); }

ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at) { return is_bad("pwrite", fd) ? -1 : REAL(pwrite)(fd, bytes, n, at); }
ssize_t pwritev(int fd, const struct iovec *v, int n, off_t at) { return is_bad("pwrite", fd) ? -1 : REAL(pwritev)(fd, v, n, at); }
ssize_t pread(int fd, void *bytes, size_t n, off_t at) { return is_bad("pread", fd) ? -1 : REAL(pread)(fd, bytes, n, at); }

ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at) {
  return is_bad("pwrite", fd) ? -1 : REAL(pwrite64)(fd, bytes, n, at);
}
ssize_t pwritev64(int fd, const struct iovec *v, int n, off64_t at) {
  return is_bad("pwrite", fd) ? -1 : REAL(pwritev64)(fd, v, n, at);
}
ssize_t pread64(int fd, void *bytes, size_t n, off64_t at) { return is_bad("pread", fd) ? -1 : REAL(pread64)(fd, bytes, n, at); }
