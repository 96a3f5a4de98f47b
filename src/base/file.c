/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/base/clock.h"

bool file_is_pointer(const void *bytes, size_t n) {
  static const char begin[] = "version https://git-lfs";
  return n >= 8 && !memcmp(bytes, begin, n < sizeof begin ? n : sizeof begin - 1);
}

bool fd_write_at(int fd, const void *bytes, size_t nbytes, long long offset) {
  const char *at = bytes;
  while (nbytes) {
    ssize_t n = pwrite(fd, at, nbytes, offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    at += n;
    offset += n;
    nbytes -= (size_t)n;
  }
  return true;
}

bool fd_read_at(int fd, void *bytes, size_t nbytes, long long offset) {
  char *at = bytes;
  while (nbytes) {
    ssize_t n = pread(fd, at, nbytes, offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      if (n == 0) errno = 0;
      return false;
    }
    at += n;
    offset += n;
    nbytes -= (size_t)n;
  }
  return true;
}

bool try_sync(const char *path, Why *why) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return why_not(why, "%s: %s", path, strerror(errno));
  /* EINVAL: a file system without fsync on folders */
  bool ok = fsync(fd) == 0 || errno == EINVAL;
  int error = errno;
  close(fd);
  return ok || why_not(why, "%s: fsync: %s", path, strerror(error));
}

bool try_sync_parent(const char *path, Why *why) {
  char copy[PATH_MAX];
  if (strlen(path) >= sizeof copy) return why_not(why, "%s: %s", path, strerror(ENAMETOOLONG));
  return try_sync(dirname(strcpy(copy, path)), why);
}

bool try_file_write(const char *path, const void *bytes, size_t nbytes, Why *why) {
  char aside[PATH_MAX];
  if (snprintf(aside, sizeof aside, "%s.tmp", path) >= (int)sizeof aside)
    return why_not(why, "%s: %s", path, strerror(ENAMETOOLONG));
  int fd = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return why_not(why, "%s: %s", aside, strerror(errno));
  bool ok = fd_write_at(fd, bytes, nbytes, 0) && fsync(fd) == 0;
  int error = errno;
  if (close(fd) && ok) {
    ok = false;
    error = errno;
  }
  if (ok && rename(aside, path)) {
    ok = false;
    error = errno;
  }
  if (!ok) {
    unlink(aside);
    return why_not(why, "%s: %s", path, strerror(error));
  }
  return try_sync_parent(path, why);
}

bool try_folder_make(const char *path, Why *why) {
  char part[PATH_MAX];
  if (strlen(path) >= sizeof part) return why_not(why, "%s: %s", path, strerror(ENAMETOOLONG));
  strcpy(part, path);
  for (char *p = part + (*part == '/');; p++) {
    if (*p && *p != '/') continue;
    char was = *p;
    *p = 0;
    if (*part && mkdir(part, 0777) && errno != EEXIST) return why_not(why, "%s: %s", part, strerror(errno));
    *p = was;
    if (!was) break;
  }
  struct stat s;
  if (stat(path, &s)) return why_not(why, "%s: %s", path, strerror(errno));
  return S_ISDIR(s.st_mode) || why_not(why, "%s: %s", path, strerror(ENOTDIR));
}

static int remove_one(const char *path, const struct stat *s, int flag, struct FTW *ftw) {
  (void)s, (void)flag, (void)ftw;
  return remove(path) && errno != ENOENT ? -1 : 0;
}

bool try_tree_remove(const char *path, Why *why) {
  if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) && errno != ENOENT)
    return why_not(why, "%s: cannot be removed: %s", path, strerror(errno));
  return true;
}

static void open_folders_above(const char *path) {
  char folder[PATH_MAX];
  for (const char *at = *path ? strchr(path + 1, '/') : NULL; at; at = strchr(at + 1, '/')) {
    if ((size_t)(at - path) >= sizeof folder) return;
    memcpy(folder, path, (size_t)(at - path));
    folder[at - path] = 0;
    DIR *dir = opendir(folder);
    if (dir) closedir(dir);
  }
}

bool file_await(const char *path, double seconds, bool (*seen)(void *self), void *self) {
  static const struct timespec between = {.tv_nsec = 50000000};
  double end = clock_seconds() + seconds;
  bool there;
  while (!(there = seen(self)) && clock_seconds() < end) {
    nanosleep(&between, NULL);
    open_folders_above(path);
  }
  return there;
}
