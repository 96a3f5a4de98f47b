/* SPDX-License-Identifier: Apache-2.0 */
#include "io/token_marks.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/mapped.h"
#include "io/tokens.h"
#include "src/base/arena.h"
#include "src/base/text.h"

static const char ending[] = ".mask";

bool token_marks_is(const char *path) { return text_ends(path, ending); }

char *token_marks_path(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
  size_t n = dot > name ? (size_t)(dot - path) : strlen(path);
  char *copy = xmalloc(n + sizeof ending);
  memcpy(copy, path, n);
  memcpy(copy + n, ending, sizeof ending);
  return copy;
}

static bool map_marks(const char *path, int fd, int64_t n, TokenMarks *marks, Why *why) {
  struct stat info;
  if (fstat(fd, &info)) return why_not(why, "%s: %s", path, strerror(errno));
  if (!S_ISREG(info.st_mode) || info.st_size != n)
    return why_not(why,
                   "%s: %lld bytes, but the token file beside it has %" PRId64
                   " ids, a byte each is wanted\nhelp: one of the two was cut short or is another's; copy both again",
                   path, (long long)info.st_size, n);
  if (!n) return true;
  marks->map = mapped_open(path, fd, (size_t)n, why);
  if (!marks->map) return false;
  marks->nbytes = (size_t)n;
  return true;
}

bool try_token_marks_open(const char *path, int64_t n, bool wanted, TokenMarks *marks, Why *why) {
  *marks = (TokenMarks){.path = path};
  char *beside = token_marks_path(path);
  int fd = open(beside, O_RDONLY | O_CLOEXEC);
  bool ok = fd < 0 && errno == ENOENT && !wanted;
  if (fd >= 0)
    ok = map_marks(beside, fd, n, marks, why);
  else if (!ok)
    why_not(why, "%s: %s%s", beside, strerror(errno), wanted ? "\nhelp: the token file beside it was made with it; copy both" : "");
  if (fd >= 0) close(fd);
  free(beside);
  return ok;
}

void token_marks_close(TokenMarks *m) {
  mapped_close(m->map, m->nbytes);
  m->map = NULL;
}

bool token_marks_any(const TokenMarks *m, int64_t from, int64_t n, uint8_t bit) {
  if (!m->map) return n > 0 && bit & TOKEN_COUNTS;
  for (int64_t i = from; i < from + n; i++)
    if (m->map[i] & bit) return true;
  return false;
}

bool try_token_marks_read(const TokenMarks *m, int64_t from, int64_t n, uint8_t *out, Why *why) {
  if (!m->map) {
    memset(out, TOKEN_COUNTS, (size_t)n);
    return true;
  }
  memcpy(out, m->map + from, (size_t)n);
  for (int64_t i = 0; i < n; i++) {
    if (out[i] <= (TOKEN_COUNTS | TOKEN_BEGINS)) continue;
    char *beside = token_marks_path(m->path);
    why_not(why,
            "%s: byte %" PRId64 " is %u, no mark: 1 where an id counts as a label, 2 more where a document begins"
            "\nhelp: the file is damaged, or none of marks",
            beside, from + i, out[i]);
    free(beside);
    return false;
  }
  return true;
}
