/* SPDX-License-Identifier: Apache-2.0 */
/* A file is mapped whole, after its size has been held against its header, so that no later access leaves it.  Finding the
 * file of an id is a binary search over where files start; there is no other index, at any size. */
#include "io/tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/h5_tokens.h"
#include "io/mapped.h"
#include "io/megatron.h"
#include "io/token_file.h"
#include "io/token_marks.h"
#include "src/base/arena.h"
#include "src/base/rng.h"
#include "src/base/text.h"
#include "src/base/utf8.h"
#include "src/base/vec.h"

typedef struct File {
  const char *path;
  int pattern;              /* by which it was found */
  const unsigned char *map; /* NULL for an empty file */
  size_t nbytes;            /* mapped */
  int64_t start, n;         /* ids: before this file, in it */
  int width;                /* bytes of an id */
  bool is_signed;           /* the upper half of what they can be is negative, and no ids */
  int64_t header;           /* bytes before the first */
  bool noted;
  TokenNote note;
  MegatronIndex index; /* where documents begin, if the format tells */
  TokenMarks marks;    /* beside it, if there are any */
} File;

struct Tokens {
  Arena *arena;
  VEC(File) files;
  int64_t n, vocab;
  bool marked; /* some file is */
};

/* What people take for token files.  Known by their first bytes. */
static const struct {
  const char *magic;
  int n;
  const char *what;
} foreign[] = {
    {"\x8a\xd8\x34\x01", 4, "an llm.c evaluation file"}, /* 20240522 */
    {"\xc6\xd7\x34\x01", 4, "an llm.c model"},           /* 20240326 */
    {"\xc7\xd7\x34\x01", 4, "an llm.c training state"},  /* 20240327 */
    {"\xc8\xd7\x34\x01", 4, "an llm.c tokenizer"},       /* 20240328 */
    {"\xa3\xd9\x34\x01", 4, "an llm.c model"},           /* 20240803 */
    {"MMIDIDX", 7, "a Megatron index; the ids are in the .bin beside it"},
    {"\x93NUMPY", 6, "a NumPy array"},
    {"PK\3\4", 4, "a zip archive"},
    {"\x1f\x8b", 2, "compressed with gzip"},
    {"\x28\xb5\x2f\xfd", 4, "compressed with zstd"},
    {"PAR1", 4, "a Parquet file"},
};

/* --- opening ------------------------------------------------------------------------------------------------------------ */

static bool check_foreign(const unsigned char *start, size_t n, const char *path, Why *why) {
  for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
    if (n >= (size_t)foreign[i].n && !memcmp(start, foreign[i].magic, (size_t)foreign[i].n))
      return why_not(why, "%s is %s, no token file\nhelp: make one with hpctrain tokenize", path, foreign[i].what);
  return true;
}

/* Printing characters and the usual controls: what bare ids hardly ever are. */
static bool looks_text(const char *start, size_t n) {
  size_t good = utf8_valid(start, n);
  for (size_t i = 0; i < good; i++)
    if ((unsigned char)start[i] < 32 && !strchr("\t\n\f\r", start[i])) return false;
  return n && good + 4 > n; /* the last character may be cut */
}

/* What formats are told by. */
typedef struct Look {
  int32_t start[TOKEN_HEADER_INTS];
  size_t n; /* bytes of start that the file has */
  uint64_t size;
  int width;           /* that was asked for, or 0 */
  const char *dataset; /* the same of HDF5 */
  char *neighbour;     /* PATH.idx of PATH.bin, or NULL */
} Look;

static bool is_llmc(const Look *look) { return look->n >= 4 && token_format(look->start[0]); }

static bool check_width(const File *f, int wanted, int found, Why *why) {
  if (!wanted || wanted == found) return true;
  return why_not(why, "%s: its header says %d-byte ids, data.dtype %d-byte ones\nhelp: leave data.dtype out", f->path, found,
                 wanted);
}

static bool read_llmc(File *f, const Look *look, Why *why) {
  const int32_t *start = look->start;
  const TokenFormat *format = token_format(start[0]);
  if (look->n < TOKEN_HEADER_BYTES) return why_not(why, "%s: %" PRIu64 " bytes are too short for its header", f->path, look->size);
  if (start[1] != format->version)
    return why_not(why, "%s: version %d of magic %d; version %d is read", f->path, start[1], start[0], format->version);
  if (!check_width(f, look->width, format->width, why)) return false;
  uint64_t want = TOKEN_HEADER_BYTES + (uint64_t)(uint32_t)start[2] * (unsigned)format->width;
  if (start[2] < 0 || want != look->size)
    return why_not(why,
                   "%s: %d tokens by its header make %" PRIu64 " bytes, but it has %" PRIu64
                   "\nhelp: it was cut short or damaged; copy it again",
                   f->path, start[2], want, look->size);
  f->width = format->width;
  f->header = TOKEN_HEADER_BYTES;
  f->n = start[2];
  f->noted = token_note_read(start, &f->note);
  return true;
}

static bool is_megatron(const Look *look) { return look->neighbour && megatron_is_index(look->neighbour); }

static bool read_megatron(File *f, const Look *look, Why *why) {
  if (!try_megatron_open(look->neighbour, look->size, &f->index, why)) return false;
  if (!check_width(f, look->width, f->index.width, why)) {
    megatron_close(&f->index);
    return false;
  }
  f->width = f->index.width;
  f->n = f->index.n;
  return true;
}

static bool is_h5(const Look *look) { return look->n >= 8 && !memcmp(look->start, "\x89HDF\r\n\x1a\n", 8); }

static bool read_h5(File *f, const Look *look, Why *why) {
  H5Tokens found;
  if (!try_h5_tokens(f->path, look->size, look->dataset, &found, why) || !check_width(f, look->width, found.width, why))
    return false;
  f->width = found.width;
  f->is_signed = found.is_signed;
  f->header = found.offset;
  f->n = found.n;
  return true;
}

static bool is_any(const Look *look) { return look; }

static bool read_bare(File *f, const Look *look, Why *why) {
  const char *start = (const char *)look->start;
  int width = look->width;
  if (token_marks_is(f->path))
    return why_not(why, "%s holds the marks of the token file beside it\nhelp: a pattern that leaves it out, such as *.bin",
                   f->path);
  if (!check_foreign((const unsigned char *)start, look->n, f->path, why)) return false;
  if (!width && looks_text(start, look->n))
    return why_not(why, "%s is text, no token file\nhelp: hpctrain tokenize --tokenizer T %s --out PREFIX makes token files of it",
                   f->path, f->path);
  if (!width)
    return why_not(why, "%s has no header that is known\nhelp: if it holds bare ids, set data.dtype to uint16 or uint32", f->path);
  if (look->size % (unsigned)width)
    return why_not(why, "%s: %" PRIu64 " bytes are no whole number of %d-byte ids\nhelp: data.dtype or the file is wrong", f->path,
                   look->size, width);
  f->width = width;
  f->n = (int64_t)(look->size / (unsigned)width);
  return true;
}

/* The first that a file is counts; read fills width, header, n and what else the format tells. */
static const struct {
  bool (*is)(const Look *look);
  bool (*read)(File *f, const Look *look, Why *why);
} formats[] = {{is_llmc, read_llmc}, {is_megatron, read_megatron}, {is_h5, read_h5}, {is_any, read_bare}};

static bool read_layout(File *f, const Look *look, Why *why) {
  int i = 0;
  while (!formats[i].is(look)) i++;
  return formats[i].read(f, look, why);
}

/* The caller's; NULL where the name ends otherwise. */
static char *index_path(const char *path) {
  size_t n = strlen(path);
  if (!text_ends(path, ".bin")) return NULL;
  char *copy = xmalloc(n + 1);
  memcpy(copy, path, n - 3);
  strcpy(copy + n - 3, "idx");
  return copy;
}

static bool map_file(File *f, int fd, const TokensAsk *ask, Why *why) {
  struct stat info;
  Look look = {.width = ask->width, .dataset = ask->dataset};
  if (fstat(fd, &info)) return why_not(why, "%s: %s", f->path, strerror(errno));
  if (!S_ISREG(info.st_mode)) return why_not(why, "%s: not a plain file", f->path);
  ssize_t n = pread(fd, look.start, sizeof look.start, 0);
  if (n < 0) return why_not(why, "%s: %s", f->path, strerror(errno));
  look.n = (size_t)n;
  look.size = (uint64_t)info.st_size;
  look.neighbour = index_path(f->path);
  bool good = read_layout(f, &look, why);
  free(look.neighbour);
  if (!good) return false;
  f->nbytes = (size_t)info.st_size;
  if (!f->nbytes) return true;
  const void *map = mapped_open(f->path, fd, f->nbytes, why);
  if (!map) {
    megatron_close(&f->index);
    return false;
  }
  madvise((void *)map, f->nbytes, MADV_RANDOM); /* ask_for asks for more */
  f->map = map;
  return true;
}

static void close_file(File *f) {
  mapped_close(f->map, f->nbytes);
  megatron_close(&f->index);
  token_marks_close(&f->marks);
}

/* What its ids are read with: within the vocabulary by its note, and with all marks that its note promises. */
static bool check_beside(const Tokens *t, File *f, Why *why) {
  if (f->noted && f->note.vocab > t->vocab)
    return why_not(why,
                   "%s: made by a tokenizer of %" PRId64 " ids, but the vocabulary ends at %" PRId64
                   "\nhelp: a model with that vocabulary, or tokens of the model's own tokenizer",
                   f->path, f->note.vocab, t->vocab - 1);
  return try_token_marks_open(f->path, f->n, f->noted && f->note.marked, &f->marks, why);
}

static bool add_file(Tokens *t, int pattern, const char *path, const TokensAsk *ask, Why *why) {
  File f = {.path = arena_strdup(t->arena, path), .pattern = pattern, .start = t->n};
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return why_not(why, "%s: %s", path, strerror(errno));
  bool ok = map_file(&f, fd, ask, why);
  close(fd);
  if (!ok) return false;
  if (!check_beside(t, &f, why)) {
    close_file(&f);
    return false;
  }
  vec_push(t->arena, &t->files, f);
  t->marked |= f.marks.map != NULL;
  t->n += f.n; /* a file is under 2^63 bytes, and so are all that one process can map */
  return true;
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Megatron is given what its two files' names begin with. */
static bool none_there(const Tokens *t, const char *pattern, Why *why) {
  const char *longer = arena_printf(t->arena, "%s.bin", pattern);
  if (access(longer, F_OK)) return why_not(why, "%s: no such file\nhelp: check data.train and data.val", pattern);
  return why_not(why, "%s: no such file\nhelp: %s is there", pattern, longer);
}

static bool add_pattern(Tokens *t, int number, const char *pattern, const TokensAsk *ask, Why *why) {
  glob_t found;
  int rc = glob(pattern, GLOB_ERR | GLOB_NOSORT | GLOB_TILDE, NULL, &found);
  if (rc == GLOB_NOMATCH || (rc == GLOB_ABORTED && errno == ENOENT)) /* of files, or of their folder */
    return none_there(t, pattern, why);
  if (rc) return why_not(why, "%s: its folder cannot be read: %s", pattern, rc == GLOB_NOSPACE ? "out of memory" : strerror(errno));
  qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, by_bytes);
  bool ok = true;
  for (size_t i = 0; ok && i < found.gl_pathc; i++) ok = add_file(t, number, found.gl_pathv[i], ask, why);
  globfree(&found);
  return ok;
}

bool try_tokens_open(const char *const *patterns, int n_patterns, const TokensAsk *ask, Tokens **tokens, Why *why) {
  CHECK((ask->width == 0 || ask->width == 2 || ask->width == 4) && ask->vocab > 0 && ask->vocab <= INT32_MAX);
  Arena *arena = arena_open();
  Tokens *t = arena_new(arena, Tokens);
  *t = (Tokens){.arena = arena, .vocab = ask->vocab};
  bool ok = true;
  for (int i = 0; ok && i < n_patterns; i++) ok = add_pattern(t, i, patterns[i], ask, why);
  if (!ok) {
    tokens_close(t);
    t = NULL;
  }
  *tokens = t;
  return ok;
}

Tokens *tokens_open(const char *const *patterns, int n_patterns, const TokensAsk *ask) {
  Tokens *t;
  Why why;
  if (!try_tokens_open(patterns, n_patterns, ask, &t, &why)) fail(FAIL_INPUT, "%s", why.text);
  return t;
}

void tokens_close(Tokens *t) {
  if (!t) return;
  for (int i = 0; i < t->files.n; i++) close_file(&t->files.at[i]);
  arena_close(t->arena);
}

/* --- samples ------------------------------------------------------------------------------------------------------------ */

int64_t tokens_n(const Tokens *t) { return t->n; }
int tokens_files(const Tokens *t) { return t->files.n; }

const char *tokens_note(const Tokens *t, int i, const TokenNote **note) {
  const File *f = &t->files.at[i];
  *note = f->noted ? &f->note : NULL;
  return f->path;
}

int64_t tokens_samples(const Tokens *t, int64_t S) {
  CHECK(S > 0);
  if (t->n <= S)
    fail(FAIL_INPUT,
         "%s%s: %" PRId64 " tokens are less than one sequence of %" PRId64
         " and its last label\nhelp: more data, or a smaller train.seq_len",
         t->files.n ? t->files.at[0].path : "no files", t->files.n > 1 ? " and the other files" : "", t->n, S);
  return (t->n - 1) / S;
}

/* The file that holds id at. */
static int find_file(const Tokens *t, int64_t at) {
  int low = 0, high = t->files.n - 1;
  while (low < high) {
    int middle = low + (high - low + 1) / 2;
    if (t->files.at[middle].start <= at)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

const char *tokens_file(const Tokens *t, int64_t i, int64_t S) { return t->files.at[find_file(t, i * S)].path; }

int tokens_pattern(const Tokens *t, int64_t at) { return t->files.at[find_file(t, at)].pattern; }

/* Copies n ids of this width; gives how many there are before the first that is none. */
static inline int64_t copy_width(const unsigned char *at, int64_t n, uint64_t vocab, int32_t *out, size_t width) {
  for (int64_t i = 0; i < n; i++) {
    uint64_t id = 0;
    memcpy(&id, at + (size_t)i * width, width);
    if (id >= vocab) return i;
    out[i] = (int32_t)id;
  }
  return n;
}

static int64_t copy_any(const unsigned char *at, int64_t n, uint64_t vocab, int32_t *out, int width) {
  switch (width) { /* so that each is compiled with its own */
  case 1:
    return copy_width(at, n, vocab, out, 1);
  case 2:
    return copy_width(at, n, vocab, out, 2);
  case 4:
    return copy_width(at, n, vocab, out, 4);
  default:
    return copy_width(at, n, vocab, out, 8);
  }
}

/* Rows come from anywhere: a disk reads what is asked for and nothing around it, all of it at once. */
static void ask_for(const unsigned char *at, size_t nbytes) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)at & ~(page - 1);
  if (nbytes >= page) madvise((void *)begin, (uintptr_t)at + nbytes - begin, MADV_WILLNEED); /* which is all the same if it fails */
}

static bool why_negative(const File *f, int64_t at, uint64_t id, Why *why) {
  uint64_t above = ~(uint64_t)0 << (8 * f->width - 1); /* the sign's bit and those that the id has none of */
  return why_not(why,
                 "%s: token %" PRId64 " is %" PRId64 ", no id"
                 "\nhelp: leave padding out, or write it as an id, such as 0, that the marks beside the file do not count",
                 f->path, at, (int64_t)(id | above));
}

/* Ids from … from+n-1 of one file. */
static bool copy_ids(const Tokens *t, const File *f, int64_t from, int64_t n, int32_t *out, Why *why) {
  const unsigned char *at = f->map + f->header + from * f->width;
  ask_for(at, (size_t)n * (size_t)f->width);
  uint64_t vocab = (uint64_t)t->vocab, half = (uint64_t)1 << (8 * f->width - 1);
  int64_t good = copy_any(at, n, f->is_signed && half < vocab ? half : vocab, out, f->width);
  if (good == n) return true;
  uint64_t id = 0;
  memcpy(&id, at + good * f->width, (size_t)f->width);
  if (f->is_signed && id >= half) return why_negative(f, from + good, id, why);
  return why_not(why,
                 "%s: token %" PRId64 " is %" PRIu64 ", but the vocabulary ends at %" PRId64
                 "\nhelp: these tokens are from another tokenizer%s",
                 f->path, from + good, id, t->vocab - 1, f->header ? "" : ", or data.dtype is wrong");
}

/* Of the range from `at` on: which of its `left` ids the file that holds `at` has. */
typedef struct Run {
  const File *file;
  int64_t from, n;
} Run;

static Run run_at(const Tokens *t, int64_t at, int64_t left) {
  const File *f = &t->files.at[find_file(t, at)];
  int64_t from = at - f->start;
  return (Run){f, from, f->n - from < left ? f->n - from : left};
}

bool try_tokens_read(const Tokens *t, int64_t at, int64_t n, int32_t *out, Why *why) {
  CHECK(at >= 0 && n >= 0 && n <= t->n - at);
  for (int64_t done = 0; done < n;) {
    Run r = run_at(t, at + done, n - done);
    if (!copy_ids(t, r.file, r.from, r.n, out + done, why)) return false;
    done += r.n;
  }
  return true;
}

bool try_tokens_marks(const Tokens *t, int64_t at, int64_t n, uint8_t *out, Why *why) {
  CHECK(at >= 0 && n >= 0 && n <= t->n - at);
  for (int64_t done = 0; done < n;) {
    Run r = run_at(t, at + done, n - done);
    if (!try_token_marks_read(&r.file->marks, r.from, r.n, out + done, why)) return false;
    done += r.n;
  }
  return true;
}

void tokens_sample(const Tokens *t, int64_t i, int64_t S, int32_t *out) {
  Why why;
  CHECK(S > 0 && i >= 0 && i < (t->n - 1) / S);
  if (!try_tokens_read(t, i * S, S + 1, out, &why)) fail(FAIL_INPUT, "%s", why.text);
}

bool tokens_marked(const Tokens *t) { return t->marked; }

bool tokens_any_counts(const Tokens *t, int64_t at, int64_t n) {
  CHECK(at >= 0 && n >= 0 && n <= t->n - at);
  Run r;
  for (; n; at += r.n, n -= r.n) {
    r = run_at(t, at, n);
    if (token_marks_any(&r.file->marks, r.from, r.n, TOKEN_COUNTS)) return true;
  }
  return false;
}

bool try_tokens_documents(const Tokens *t, Why *why) {
  for (int i = 0; i < t->files.n; i++) {
    const File *f = &t->files.at[i];
    if (!f->n || (f->marks.map && f->marks.map[0] >= TOKEN_BEGINS)) continue; /* more than a mark is told when it is read */
    return why_not(why, "%s: %s\nhelp: hpctrain tokenize --chat makes such files; data.format: tokens takes others as one text",
                   f->path,
                   f->marks.map ? "by its marks no document begins with its first token" : "no mark says where a document begins");
  }
  return true;
}

bool tokens_indexed(const Tokens *t) {
  for (int i = 0; i < t->files.n; i++)
    if (t->files.at[i].index.map || token_marks_any(&t->files.at[i].marks, 0, t->files.at[i].n, TOKEN_BEGINS)) return true;
  return false;
}

/* Notes where documents of one file's ids from … from+n-1 begin, by its index. */
static void note_indexed(const File *f, int64_t from, int64_t n, int32_t at, int32_t *starts) {
  if (!f->index.map) return;
  for (int64_t here = megatron_next(&f->index, from - 1); here < from + n; here = megatron_next(&f->index, here))
    starts[at + here - from] = at + (int32_t)(here - from);
}

void tokens_starts(const Tokens *t, int64_t i, int64_t S, int64_t end, const int32_t *ids, const uint8_t *marks, int32_t *starts) {
  CHECK(S > 0 && S < INT32_MAX && i >= 0 && i < (t->n - 1) / S);
  memset(starts, 0, sizeof *starts * (size_t)(S + 1));
  for (int64_t at = 0; at <= S;) {
    Run r = run_at(t, i * S + at, S + 1 - at);
    note_indexed(r.file, r.from, r.n, (int32_t)at, starts);
    at += r.n;
  }
  for (int32_t s = 1; s <= S; s++)
    if (!starts[s]) starts[s] = ids[s - 1] == end || (marks && marks[s] & TOKEN_BEGINS) ? s : starts[s - 1];
}

/* --- order -------------------------------------------------------------------------------------------------------------- */

void tokens_split(int64_t n, double val_fraction, TokensRange *train, TokensRange *val) {
  CHECK(n > 0 && val_fraction >= 0 && val_fraction < 1);
  int64_t held = (int64_t)llround((double)n * val_fraction);
  if (held == 0 && val_fraction > 0) held = 1;
  if (held >= n)
    fail(FAIL_INPUT,
         "%" PRId64 " sequences leave none to train on beside a validation part of %g\nhelp: more data, a smaller train.seq_len, "
         "or a file of its own in data.val",
         n, val_fraction);
  *train = (TokensRange){0, n - held};
  *val = (TokensRange){n - held, held};
}

int64_t tokens_order(TokensRange range, uint64_t seed, int stream, int64_t epoch, int64_t index) {
  CHECK(range.n > 0 && index >= 0 && index < range.n && epoch >= 0 && stream >= 0);
  char name[16] = "";
  if (stream) snprintf(name, sizeof name, "%d", stream);
  Rng rng = rng_make(seed, RNG_DATA_ORDER, name, (uint64_t)epoch);
  return range.first + (int64_t)rng_permute(&rng, (uint64_t)range.n, (uint64_t)index);
}
