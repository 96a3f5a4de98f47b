/* SPDX-License-Identifier: Apache-2.0 */
#include "io/file_sample.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/base/file.h"
#include "src/base/hash.h"
#include "src/base/rng.h"

enum { BLOCK = 4096 };

static bool add_block(int fd, int64_t at, int64_t nbytes, Sha256 *hash) {
  char block[BLOCK];
  size_t n = nbytes - at < BLOCK ? (size_t)(nbytes - at) : BLOCK;
  if (!fd_read_at(fd, block, n, at)) return false;
  sha256_add(hash, block, n);
  return true;
}

static bool add_all(int fd, int64_t nbytes, int blocks, Sha256 *hash) {
  bool whole = nbytes <= (int64_t)(blocks + 2) * BLOCK, ok = true;
  Rng rng = rng_make((uint64_t)nbytes, RNG_FILE_SAMPLE, "", 0);
  (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); /* no reading ahead */
  for (int64_t at = 0; ok && whole && at < nbytes; at += BLOCK) ok = add_block(fd, at, nbytes, hash);
  if (whole) return ok;
  ok = add_block(fd, 0, nbytes, hash) && add_block(fd, nbytes - BLOCK, nbytes, hash);
  for (int i = 0; ok && i < blocks; i++) {
    int64_t places = nbytes / BLOCK;
    ok = add_block(fd, (int64_t)(rng_uniform(&rng, (uint64_t)i) * (double)places) * BLOCK, nbytes, hash);
  }
  return ok;
}

bool try_file_sample(const char *path, int blocks, FileSample *out, Why *why) {
  struct stat info;
  struct tm tm;
  Sha256 hash;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  bool ok = fd >= 0 && !fstat(fd, &info);
  sha256_init(&hash);
  errno = ok ? 0 : errno;
  if (ok) {
    int64_t nbytes = info.st_size;
    sha256_add(&hash, &nbytes, sizeof nbytes);
    ok = add_all(fd, nbytes, blocks, &hash);
  }
  if (!ok) why_not(why, "%s: %s", path, errno ? strerror(errno) : "it became shorter while it was read");
  if (fd >= 0) close(fd);
  if (!ok) return false;
  *out = (FileSample){.nbytes = info.st_size, .hash = sha256_u64(&hash)};
  if (gmtime_r(&info.st_mtime, &tm)) strftime(out->written, sizeof out->written, "%Y-%m-%dT%H:%M:%SZ", &tm);
  return true;
}
