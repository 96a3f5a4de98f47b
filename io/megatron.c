/* SPDX-License-Identifier: Apache-2.0 */
/* Where the tables lie follows from two numbers of the header, which are held against the file's size before anything is read.
 * What the tables say is a number to compare with, never a place to read from, unless it is below the number of sequences. */
#include "io/megatron.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/mapped.h"

enum { MAGIC = 9, HEADER = 34, VERSION_AT = 9, TYPE_AT = 17, SEQUENCES_AT = 18, BOUNDS_AT = 26, LENGTH = 4, PLACE = 8, BOUND = 8 };

static const char magic[MAGIC] = "MMIDIDX\0"; /* and the string's own 0 */

/* By code; 0: no ids. */
static const struct {
  const char *name;
  int width;
} types[] = {[1] = {"uint8", 0}, [2] = {"int8", 0},    [3] = {"int16", 0},   [4] = {"int32", 4},
             [5] = {"int64", 0}, [6] = {"float64", 0}, [7] = {"float32", 0}, [8] = {"uint16", 2}};

/* --- opening ------------------------------------------------------------------------------------------------------------- */

bool megatron_is_index(const char *path) {
  char start[MAGIC];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  bool is = pread(fd, start, MAGIC, 0) == MAGIC && !memcmp(start, magic, MAGIC);
  close(fd);
  return is;
}

static int64_t read_i64(const unsigned char *at) {
  int64_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static const unsigned char *places(const MegatronIndex *x) { return x->map + HEADER + x->n_sequences * LENGTH; }
static const unsigned char *bounds(const MegatronIndex *x) { return places(x) + x->n_sequences * PLACE; }

static bool check_header(MegatronIndex *x, const char *path, Why *why) {
  if (x->nbytes < HEADER || memcmp(x->map, magic, MAGIC) != 0) return why_not(why, "%s: no Megatron index", path);
  int64_t version = read_i64(x->map + VERSION_AT);
  unsigned type = x->map[TYPE_AT];
  if (version != 1) return why_not(why, "%s: version %" PRId64 " of a Megatron index; version 1 is read", path, version);
  bool known = type < sizeof types / sizeof *types && types[type].name;
  if (!known || !types[type].width)
    return why_not(why, "%s: its ids are of type %u%s%s%s; int32 and uint16 are read", path, type, known ? " (" : "",
                   known ? types[type].name : "", known ? ")" : "");
  x->width = types[type].width;
  x->n_sequences = read_i64(x->map + SEQUENCES_AT);
  x->n_bounds = read_i64(x->map + BOUNDS_AT);
  return true;
}

static bool check_size(const MegatronIndex *x, const char *path, Why *why) {
  int64_t nbytes = (int64_t)x->nbytes, n = x->n_sequences, d = x->n_bounds;
  bool fits = n >= 0 && d >= 0 && n <= nbytes / (LENGTH + PLACE) && d <= nbytes / BOUND;
  int64_t want = fits ? HEADER + n * (LENGTH + PLACE) + d * BOUND : -1;
  if (want == nbytes || (fits && want + n == nbytes)) return true;
  return why_not(why,
                 "%s: %" PRId64 " sequences and %" PRId64 " document bounds by its header do not make its %" PRId64
                 " bytes\nhelp: it was cut short or damaged; copy it again",
                 path, n, d, nbytes);
}

/* The first sequence begins with the ids, and the last ends with them. */
static bool check_ends(MegatronIndex *x, const char *path, uint64_t ids_bytes, Why *why) {
  int32_t length = 0;
  int64_t last = x->n_sequences - 1, first_at = 0, last_at = 0;
  if (x->n_sequences) {
    memcpy(&length, x->map + HEADER + last * LENGTH, sizeof length);
    first_at = read_i64(places(x));
    last_at = read_i64(places(x) + last * PLACE);
  }
  bool good = first_at == 0 && length >= 0 && last_at >= 0 && last_at <= (int64_t)ids_bytes && last_at % x->width == 0 &&
              (uint64_t)last_at + (uint64_t)length * (unsigned)x->width == ids_bytes;
  if (!good)
    return why_not(why,
                   "%s: its sequences do not end where the ids beside it do (%" PRIu64
                   " bytes)\nhelp: one of the two was cut short or is another's; copy both again",
                   path, ids_bytes);
  x->n = (int64_t)(ids_bytes / (unsigned)x->width);
  return true;
}

bool try_megatron_open(const char *path, uint64_t ids_bytes, MegatronIndex *x, Why *why) {
  struct stat info;
  *x = (MegatronIndex){0};
  CHECK(ids_bytes <= INT64_MAX);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return why_not(why, "%s: %s", path, strerror(errno));
  bool there = !fstat(fd, &info) && S_ISREG(info.st_mode) && info.st_size;
  if (there)
    x->map = mapped_open(path, fd, (size_t)info.st_size, why);
  else
    why_not(why, "%s: no plain file with something in it", path);
  close(fd);
  if (!x->map) return false;
  x->nbytes = (size_t)info.st_size;
  if (check_header(x, path, why) && check_size(x, path, why) && check_ends(x, path, ids_bytes, why)) return true;
  megatron_close(x);
  return false;
}

void megatron_close(MegatronIndex *x) {
  mapped_close(x->map, x->nbytes);
  x->map = NULL;
}

/* --- documents ----------------------------------------------------------------------------------------------------------- */

/* The id with which document d begins; n where the tables say nothing that can be. */
static int64_t document_start(const MegatronIndex *x, int64_t d) {
  int64_t sequence = read_i64(bounds(x) + d * BOUND);
  if (sequence < 0 || sequence >= x->n_sequences) return x->n;
  int64_t place = read_i64(places(x) + sequence * PLACE);
  return place < 0 || place / x->width > x->n ? x->n : place / x->width;
}

int64_t megatron_next(const MegatronIndex *x, int64_t at) {
  int64_t low = 0, high = x->n_bounds, start = x->n;
  while (low < high) {
    int64_t middle = low + (high - low) / 2, here = document_start(x, middle);
    if (here > at) {
      high = middle;
      start = here;
    } else {
      low = middle + 1;
    }
  }
  return start;
}
