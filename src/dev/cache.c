/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled code kept by content: a file KEY.so an image, in a folder that only its user can write, since what lies there
 * will run.  Files appear whole by rename and carry a seal; hits are touched and the least recently used go first.  Whatever
 * fails here costs a compilation, never the run; only a folder in others' hands ends the job. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/base/arena.h"
#include "src/base/file.h"
#include "src/dev/back.h"

enum { CACHE_FILES = 200, CACHE_BYTES = 512 << 20, IMAGE_MAX = 256 << 20, STALE_SECONDS = 3600 };

/* --- seals -------------------------------------------------------------------------------------------------------------- */

typedef struct Seal {
  char magic[8];
  uint64_t nbytes;
  uint32_t crc, crc_again; /* the second over the bytes before it in the seal too */
  uint64_t zero;
} Seal;
_Static_assert(sizeof(Seal) == SEAL_SIZE, "a seal has no holes");

static Seal seal_make(const void *image, size_t nbytes) {
  Seal seal = {.magic = "hpctrk1", .nbytes = nbytes, .crc = crc32c(0, image, nbytes)};
  seal.crc_again = crc32c(seal.crc, &seal, offsetof(Seal, crc_again));
  return seal;
}

void seal_add(void **image, size_t *nbytes) {
  Seal seal = seal_make(*image, *nbytes);
  *image = xrealloc(*image, *nbytes + SEAL_SIZE);
  memcpy((char *)*image + *nbytes, &seal, SEAL_SIZE);
  *nbytes += SEAL_SIZE;
}

bool seal_holds(const void *image, size_t nbytes) {
  if (nbytes <= SEAL_SIZE) return false;
  Seal seal = seal_make(image, nbytes - SEAL_SIZE);
  return !memcmp((const char *)image + nbytes - SEAL_SIZE, &seal, SEAL_SIZE);
}

/* --- the folder --------------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void note(Cache *cache, const char *format, ...) {
  if (cache->note[0]) return; /* the first reason is the one to mend */
  va_list args;
  va_start(args, format);
  vsnprintf(cache->note, sizeof cache->note, format, args);
  va_end(args);
}

/* Makes path and its parents, for this user alone. */
static bool folders_make(const char *path) {
  char part[sizeof((Cache *)NULL)->path];
  size_t n = strlen(path);
  for (size_t i = 1; i <= n; i++) {
    if (i < n && path[i] != '/') continue;
    snprintf(part, sizeof part, "%.*s", (int)i, path);
    if (mkdir(part, 0700) && errno != EEXIST && (i == n || (errno != EROFS && errno != EACCES))) return false;
  }
  return true;
}

static _Noreturn void folder_refused(const char *path, const char *reason) {
  fail(FAIL_MACHINE,
       "cache of compiled code %s: %s\n   code from there would run as you\n"
       "help: make it a folder of your own (chmod 700), or set XDG_CACHE_HOME to another",
       path, reason);
}

static void folder_check(const char *path, int fd) {
  struct stat st;
  if (fstat(fd, &st)) folder_refused(path, strerror(errno));
  char reason[128];
  snprintf(reason, sizeof reason, "belongs to user %u, you are user %u", (unsigned)st.st_uid, (unsigned)geteuid());
  if (st.st_uid != geteuid()) folder_refused(path, reason);
  snprintf(reason, sizeof reason, "others may write to it (mode %04o)", (unsigned)st.st_mode & 07777);
  if (st.st_mode & 022) folder_refused(path, reason);
}

/* False when path cannot be had; the reason is in note. */
static bool folder_open(Cache *cache, const char *path) {
  struct stat st;
  if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode)) folder_refused(path, "is not a folder");
  bool made = folders_make(path);
  if (made) cache->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (cache->fd < 0) {
    note(cache, "%s: %s", path, strerror(errno));
    return false;
  }
  folder_check(path, cache->fd);
  snprintf(cache->path, sizeof cache->path, "%s", path);
  return true;
}

void cache_open(Cache *cache, const char *asked, const char *fallback) {
  const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  char path[sizeof cache->path] = "";
  cache->fd = -1;
  if (asked)
    snprintf(path, sizeof path, "%s", asked);
  else if (xdg && *xdg == '/')
    snprintf(path, sizeof path, "%s/hpctrain", xdg);
  else if (home && *home == '/')
    snprintf(path, sizeof path, "%s/.cache/hpctrain", home);
  if (*path && (folder_open(cache, path) || asked)) return;
  if (!fallback) return;
  snprintf(path, sizeof path, "%s/cache", fallback);
  if (folder_open(cache, path)) cache->note[0] = 0;
}

void cache_close(Cache *cache) {
  if (cache->fd >= 0) close(cache->fd);
  cache->fd = -1;
}

/* --- files -------------------------------------------------------------------------------------------------------------- */

bool cache_try_read(Cache *cache, const char *key, void **image, size_t *nbytes) {
  char name[80];
  struct stat st;
  if (cache->fd < 0) return false;
  snprintf(name, sizeof name, "%s.so", key);
  int fd = openat(cache->fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  bool ok = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 022) && st.st_size > 0 &&
            st.st_size <= IMAGE_MAX;
  if (ok) {
    *nbytes = (size_t)st.st_size;
    *image = xmalloc(*nbytes);
    ok = fd_read_at(fd, *image, *nbytes, 0) && seal_holds(*image, *nbytes);
    if (!ok) free(*image);
  }
  if (ok) futimens(fd, NULL); /* last used now; a cache that cannot be written serves all the same */
  close(fd);
  return ok;
}

typedef struct Entry {
  char name[80];
  struct timespec used;
  int64_t nbytes;
} Entry;

static int entry_newer(const void *a, const void *b) {
  const struct timespec *x = &((const Entry *)a)->used, *y = &((const Entry *)b)->used;
  if (x->tv_sec != y->tv_sec) return x->tv_sec > y->tv_sec ? -1 : 1;
  return x->tv_nsec == y->tv_nsec ? 0 : x->tv_nsec > y->tv_nsec ? -1 : 1;
}

/* Keeps the most recently used within the bounds; also removes what a killed writer left. */
static void cache_trim(Cache *cache) {
  int fd = openat(cache->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *dir = fd < 0 ? NULL : fdopendir(fd);
  if (!dir) {
    if (fd >= 0) close(fd);
    return;
  }
  Entry *entries = NULL;
  size_t n = 0;
  for (struct dirent *e; (e = readdir(dir));) {
    struct stat st;
    size_t length = strlen(e->d_name);
    if (length < 67 || length >= sizeof entries->name || fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
      continue;
    if (length > 67) { /* KEY.so.NUMBER */
      if (st.st_mtim.tv_sec + STALE_SECONDS < time(NULL)) unlinkat(fd, e->d_name, 0);
      continue;
    }
    entries = xrealloc(entries, (n + 1) * sizeof *entries);
    entries[n] = (Entry){.used = st.st_mtim, .nbytes = st.st_size};
    memcpy(entries[n++].name, e->d_name, length + 1);
  }
  if (n) qsort(entries, n, sizeof *entries, entry_newer);
  int64_t total = 0;
  for (size_t i = 0; i < n; i++) {
    total += entries[i].nbytes;
    if (i >= CACHE_FILES || total > CACHE_BYTES) unlinkat(fd, entries[i].name, 0);
  }
  free(entries);
  closedir(dir);
}

/* A new file KEY.so.NUMBER.  Not the process's number, which others have too: on other nodes, in other containers. */
static int aside_open(const Cache *cache, const char *key, char name[96]) {
  uint32_t number;
  if (getrandom(&number, sizeof number, 0) != sizeof number) return -1;
  snprintf(name, 96, "%s.so.%08x", key, number);
  return openat(cache->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

void cache_write(Cache *cache, const char *key, const void *image, size_t nbytes) {
  char aside[96], name[80];
  if (cache->fd < 0 || nbytes > IMAGE_MAX) return;
  snprintf(name, sizeof name, "%s.so", key);
  int fd = aside_open(cache, key, aside);
  bool ok = fd >= 0 && fd_write_at(fd, image, nbytes, 0);
  if (fd >= 0 && close(fd)) ok = false;
  if (ok && renameat(cache->fd, aside, cache->fd, name) == 0) {
    cache_trim(cache);
    return;
  }
  note(cache, "%s: %s", cache->path, strerror(errno));
  if (fd >= 0) unlinkat(cache->fd, aside, 0);
}
