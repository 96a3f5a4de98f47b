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

typedef struct Sampling {
  int fd;
  int64_t nbytes;
  FileGap gap;
  Sha256 hash;
} Sampling;

static bool add_block(Sampling *s, int64_t at) {
  char block[BLOCK];
  int64_t n = s->nbytes - at < BLOCK ? s->nbytes - at : BLOCK;
  if (!fd_read_at(s->fd, block, (size_t)n, at)) return false;
  int64_t begin = s->gap.at > at ? s->gap.at - at : 0, end = s->gap.at + s->gap.n - at;
  if (end > n) end = n;
  if (begin < end) memset(block + begin, 0, (size_t)(end - begin));
  sha256_add(&s->hash, block, (size_t)n);
  return true;
}

static bool add_all(Sampling *s, int blocks) {
  int64_t nbytes = s->nbytes;
  bool whole = nbytes <= (int64_t)(blocks + 2) * BLOCK, ok = true;
  Rng rng = rng_make((uint64_t)nbytes, RNG_FILE_SAMPLE, "", 0);
  (void)posix_fadvise(s->fd, 0, 0, POSIX_FADV_RANDOM); /* no reading ahead */
  for (int64_t at = 0; ok && whole && at < nbytes; at += BLOCK) ok = add_block(s, at);
  if (whole) return ok;
  ok = add_block(s, 0) && add_block(s, nbytes - BLOCK);
  for (int i = 0; ok && i < blocks; i++) {
    int64_t places = nbytes / BLOCK;
    ok = add_block(s, (int64_t)(rng_uniform(&rng, (uint64_t)i) * (double)places) * BLOCK);
  }
  return ok;
}

bool try_file_sample(const char *path, int blocks, FileGap gap, FileSample *out, Why *why) {
  struct stat info;
  struct tm tm;
  Sampling s = {.gap = gap};
  int fd = s.fd = open(path, O_RDONLY | O_CLOEXEC);
  bool ok = fd >= 0 && !fstat(fd, &info);
  sha256_init(&s.hash);
  errno = ok ? 0 : errno;
  if (ok) {
    s.nbytes = info.st_size;
    sha256_add(&s.hash, &s.nbytes, sizeof s.nbytes);
    ok = add_all(&s, blocks);
  }
  if (!ok) why_not(why, "%s: %s", path, errno ? strerror(errno) : "it became shorter while it was read");
  if (fd >= 0) close(fd);
  if (!ok) return false;
  *out = (FileSample){.nbytes = info.st_size, .hash = sha256_u64(&s.hash)};
  if (gmtime_r(&info.st_mtime, &tm)) strftime(out->written, sizeof out->written, "%Y-%m-%dT%H:%M:%SZ", &tm);
  return true;
}
