/* SPDX-License-Identifier: Apache-2.0 */
/* Shards of tokens from files: rank r of R makes every R-th. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file_sample.h"
#include "io/token_marks.h"
#include "src/base/clock.h"
#include "src/base/file.h"
#include "src/base/hash.h"
#include "src/base/text.h"
#include "src/report/human.h"
#include "src/train/tokenize_shard.h"

enum { NARROW = 65536, SHARDS_MOST = 99999, SPEAK_EVERY = 10, NOT_MADE = -1 }; /* ids of 16 bits; seconds */
enum { LOOK_EVERY = 20000 };                                                   /* microseconds */
static const int64_t shard_least = 8 << 20, shard_most = 256 << 20;            /* bytes of text, where nobody says */
enum { SHARDS_USUAL = 64 };
enum { SAMPLE = 64 }; /* blocks of all files between their ends that ranks compare */

typedef struct Job {
  Arena *arena;
  Comm *comm;
  const Tokenizer *t;
  const TokenizeOptions *o;
  Sources sources;
  Shards shards;
  bool single; /* one file of the name that was given */
  bool more;   /* there are files behind the last that the texts make */
  int width;
  TokenizerWork **works;
  double begin, spoke;
  int64_t todo, done; /* bytes of text of this rank */
  int64_t tokens;
} Job;

typedef struct Totals {
  int64_t tokens, documents, kept;
} Totals;

static const char *shard_path(const Job *j, int i) {
  return j->single ? j->o->out : arena_printf(j->arena, "%s-%05d.bin", j->o->out, i);
}

static TokenNote shard_note(const Job *j, int i) {
  TokenNote note = {.vocab = tokenizer_vocab(j->t), .marked = j->o->chat};
  const TokenizeOptions *o = j->o;
  const char *settings =
      arena_printf(j->arena, "1 %s bos %d eos %d lines %d field %s", tokenizer_hash(j->t), o->bos, o->eos, o->lines, o->field);
  if (o->chat) settings = arena_printf(j->arena, "2 %s chat %s inputs %d", tokenizer_hash(j->t), o->chat_name, o->inputs);
  snprintf(note.tokenizer, sizeof note.tokenizer, "%s", tokenizer_hash(j->t));
  shard_hash(&j->shards.at[i], settings, note.job);
  return note;
}

/* --- before anything is written -------------------------------------------------------------------------------------------- */

static void make_folder(const Job *j) {
  const char *slash = strrchr(j->o->out, '/');
  Why why;
  if (slash && slash > j->o->out && !try_folder_make(arena_strndup(j->arena, j->o->out, (size_t)(slash - j->o->out)), &why))
    fail(FAIL_MACHINE, "%s", why.text);
}

/* Names tell what is in files; one that is called *.json may hold what another program takes for lines. */
static void check_kinds(const Job *j) {
  int lines = 0, texts = 0;
  const char *text = NULL;
  for (int i = 0; i < j->sources.n; i++) {
    const Source *s = &j->sources.at[i];
    if (j->o->chat && !s->json) fail(FAIL_INPUT, "%s: conversations are JSON lines, *.jsonl or *.ndjson", s->path);
    lines += s->json;
    if (text_ends(s->path, ".json") && !texts++) text = s->path;
  }
  if (j->o->asked && !lines)
    fail(FAIL_INPUT, "--field %s: %s%s: no JSON lines\nhelp: they are files *.jsonl or *.ndjson, an object a line", j->o->field,
         j->sources.at[0].path, j->sources.n > 1 ? " and the others" : "");
  if (texts && comm_rank(j->comm) == 0)
    fprintf(stderr, "note   %s%s: taken as text; JSON lines are files *.jsonl or *.ndjson\n", text, texts > 1 ? " and others" : "");
}

static void cut(Job *j, char *const *inputs, int n) {
  for (int i = 0; i < n; i++) sources_add(j->arena, &j->sources, inputs[i], j->o->lines);
  if (j->sources.n) check_kinds(j);
  int64_t all = sources_size(&j->sources), most = j->o->shards ? (all + j->o->shards - 1) / j->o->shards : 0;
  if (!all) fail(FAIL_INPUT, "%s%s: no text is there", inputs[0], n > 1 ? " and the others" : "");
  j->single = text_ends(j->o->out, ".bin");
  if (!most)
    most = all / SHARDS_USUAL < shard_least ? shard_least : all / SHARDS_USUAL > shard_most ? shard_most : all / SHARDS_USUAL;
  shards_cut(j->arena, &j->sources, j->single ? INT64_MAX : most, &j->shards);
  if (j->shards.n > SHARDS_MOST) fail(FAIL_INPUT, "%d shards are too many\nhelp: fewer --shards", j->shards.n);
}

/* Nodes may have copies of the files: of the same names and bytes, of other times.  Rank 0's times count for all. */
static void agree_on_texts(Job *j) {
  Sha256 hash;
  FileSample sample;
  Why why;
  int n = j->sources.n;
  if (comm_size(j->comm) == 1) return;
  sha256_init(&hash);
  for (int i = 0; i < n; i++) {
    const char *path = j->sources.at[i].path;
    if (!try_file_sample(path, SAMPLE / n, (FileGap){0}, &sample, &why)) fail(FAIL_INPUT, "%s", why.text);
    sha256_add_text(&hash, path);
    sha256_add(&hash, &sample.hash, sizeof sample.hash);
  }
  comm_agree(j->comm, sha256_u64(&hash), "the texts to tokenize, by their names, sizes or some of their bytes");
  int64_t *changed = arena_array(j->arena, int64_t, n);
  for (int i = 0; i < n; i++) changed[i] = j->sources.at[i].changed;
  comm_broadcast(j->comm, changed, sizeof *changed * (size_t)n, 0);
  for (int i = 0; i < n; i++) j->sources.at[i].changed = changed[i];
}

/* A shard that is whole and the job's own counts; one of another job is nobody's to overwrite. */
static bool is_made(const Job *j, int i, int64_t *tokens) {
  TokenNote note = shard_note(j, i);
  TokensMade made = tokens_made(shard_path(j, i), &note, j->width, tokens);
  if (made == TOKENS_OTHER && !j->o->own)
    fail(FAIL_INPUT, "%s is there, of other texts or settings\nhelp: remove it, or another --out", shard_path(j, i));
  return made == TOKENS_MADE;
}

static void look(Job *j, int64_t *made) {
  for (int i = 0; i < j->shards.n; i++)
    if (!is_made(j, i, &made[i])) made[i] = NOT_MADE;
  struct stat info;
  j->more = !j->single && !stat(shard_path(j, j->shards.n), &info);
  if (j->more && !j->o->own)
    fail(FAIL_INPUT, "%s is there, and these texts make no such shard\nhelp: remove it, or another --out",
         shard_path(j, j->shards.n));
}

/* By shard: the tokens of what is made, or NOT_MADE.  Rank 0 alone looks, before anybody writes: on a file system of several nodes
 * who has not found a file may go on thinking so for a while. */
static int64_t *find_made(Job *j, Totals *totals) {
  Sha256 hash;
  sha256_init(&hash);
  for (int i = 0; i < j->shards.n; i++) sha256_add_text(&hash, shard_note(j, i).job);
  comm_agree(j->comm, sha256_u64(&hash), "how texts become tokens");
  int64_t *made = arena_array(j->arena, int64_t, j->shards.n);
  if (comm_rank(j->comm) == 0) {
    if (!j->o->look) make_folder(j);
    look(j, made);
  }
  comm_broadcast(j->comm, made, sizeof *made * (size_t)j->shards.n, 0);
  comm_broadcast(j->comm, &j->more, sizeof j->more, 0);
  for (int i = comm_rank(j->comm); i < j->shards.n; i += comm_size(j->comm)) {
    if (made[i] == NOT_MADE)
      j->todo += j->shards.at[i].size;
    else
      *totals = (Totals){totals->tokens + made[i], totals->documents, totals->kept + 1};
  }
  return made;
}

static void drop_file(const char *path) {
  if (unlink(path) && errno != ENOENT) fail(FAIL_MACHINE, "%s: %s\nhelp: remove it: it is of other texts", path, strerror(errno));
}

/* A pattern would find them.  The last goes first, so that the first is there until all have gone. */
static void drop_more(const Job *j) {
  int end = j->shards.n;
  while (!access(shard_path(j, end), F_OK)) end++;
  while (end-- > j->shards.n) {
    char *marks = token_marks_path(shard_path(j, end));
    drop_file(shard_path(j, end));
    drop_file(marks);
    free(marks);
  }
}

/* --- work ------------------------------------------------------------------------------------------------------------------ */

static void speak(void *self, int64_t nbytes, int64_t tokens) {
  Job *j = self;
  char done[HUMAN_TEXT], all[HUMAN_TEXT], count[HUMAN_TEXT], left[HUMAN_TEXT];
  j->done += nbytes;
  j->tokens += tokens;
  double now = clock_seconds(), spent = now - j->begin;
  if (comm_rank(j->comm) || now - j->spoke < SPEAK_EVERY) return;
  j->spoke = now;
  fprintf(stderr, "tokenize  %s of %s, %s tokens, %.1f MB/s%s, %s left\n", human_bytes((double)j->done, done),
          human_bytes((double)j->todo, all), human_count((double)j->tokens, count), (double)j->done / spent * 1e-6,
          comm_size(j->comm) > 1 ? " (rank 0)" : "", human_duration(spent * (double)(j->todo - j->done) / (double)j->done, left));
}

static void make_shard(Job *j, int i, Totals *totals) {
  TokenNote note = shard_note(j, i);
  TokensWriter *out = tokens_writer_open(shard_path(j, i), j->width);
  tokens_writer_note(out, &note);
  ShardMade made = shard_make(&j->shards.at[i], j->o, j->works, out, speak, j);
  tokens_writer_close(out);
  totals->tokens += made.tokens;
  totals->documents += made.documents;
}

/* This rank's. */
static void make_shards(Job *j, const int64_t *made, Totals *totals) {
  int rank = comm_rank(j->comm), size = comm_size(j->comm), threads = j->o->threads;
  if (j->more && rank == 0) drop_more(j);
  j->works = arena_array(j->arena, TokenizerWork *, threads);
  for (int i = 0; i < threads; i++) j->works[i] = tokenizer_work_open(j->t);
  for (int i = rank; i < j->shards.n; i += size)
    if (made[i] == NOT_MADE) make_shard(j, i, totals);
  for (int i = 0; i < threads; i++) tokenizer_work_close(j->works[i]);
}

/* All ranks' together, on rank 0, which tells whom it waits for meanwhile; others have their own.  All files are there behind it.
 */
static Totals add_up(Job *j, const Totals *mine) {
  int size = comm_size(j->comm);
  Totals sum = *mine;
  if (size == 1) return sum;
  comm_collect_start(j->comm, mine, sizeof *mine);
  const Totals *all = comm_collect_over(j->comm, comm_rank(j->comm) > 0);
  for (double told = j->spoke; comm_rank(j->comm) == 0 && !all; all = comm_collect_over(j->comm, false)) {
    double now = clock_seconds();
    if (now - told >= SPEAK_EVERY) {
      fprintf(stderr, "tokenize  rank 0 has made its share, others still make theirs\n");
      told = now;
    }
    usleep(LOOK_EVERY);
  }
  for (int r = 1; all && r < size; r++)
    sum = (Totals){sum.tokens + all[r].tokens, sum.documents + all[r].documents, sum.kept + all[r].kept};
  comm_barrier(j->comm);
  return sum;
}

TokenizeMade tokenize_files(Arena *arena, Comm *comm, const Tokenizer *t, const TokenizeOptions *o, char *const *inputs, int n) {
  Job j = {.arena = arena, .comm = comm, .t = t, .o = o, .width = tokenizer_vocab(t) <= NARROW ? 2 : 4};
  Totals totals = {0};
  cut(&j, inputs, n);
  agree_on_texts(&j);
  int64_t *made = find_made(&j, &totals);
  j.begin = j.spoke = clock_seconds();
  if (!o->look) make_shards(&j, made, &totals);
  Totals sum = add_up(&j, &totals);
  return (TokenizeMade){.tokens = sum.tokens,
                        .documents = sum.documents,
                        .kept = sum.kept,
                        .files = j.sources.n,
                        .shards = j.shards.n,
                        .nbytes = (double)sources_size(&j.sources),
                        .seconds = clock_seconds() - j.begin,
                        .width = j.width,
                        .whole = sum.kept == j.shards.n && !j.more,
                        .first = shard_path(&j, 0),
                        .last = shard_path(&j, j.shards.n - 1)};
}
