/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/data.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/base/hash.h"
#include "src/report/human.h"
#include "src/train/chat.h"
#include "src/train/documents.h"
#include "src/train/mixture.h"

typedef struct Set {
  const char *name;
  Tokens *tokens;
  Documents *documents; /* that are its rows; NULL: its ids are one text */
  TokensRange range;
  ByLength *sorted; /* of a validation set, with data.buckets: its rows that are scored */
} Set;

struct Data {
  int64_t S;
  uint64_t seed;
  bool packing;
  bool sorts;    /* rows stand by length (data.buckets) */
  int64_t end;   /* the id behind a document; -1: none */
  DataRoom room; /* of the job's thread */
  Set *train, *val;
  int n_trains, n_vals;
  Mixture mixture; /* of the training sets */
  bool own_val;    /* val's files are not train's */
  const Config *config;
  const ChatFiles *made; /* or NULL */
};

static const int widths[] = {[DATA_AUTO] = 0, [DATA_UINT16] = 2, [DATA_UINT32] = 4};

/* --- opening ------------------------------------------------------------------------------------------------------------- */

/* why names the file. */
static _Noreturn void fail_files(const Config *c, const char *key, const DataSet *sets, int n, const Why *why) {
  if (n == 1) config_fail_at(c, sets->path.place, NULL, "%s", why->text);
  config_fail(c, key, NULL, "%s", why->text);
}

typedef struct Opening {
  Arena *arena;
  const Config *config;
  int64_t vocab;
} Opening;

/* Whether a file is one that was made here of this set's conversations. */
static bool is_made_of(const DataSet *set, const char *pattern, const char *path) {
  return config_is_json(set->path.text) && !fnmatch(pattern, path, FNM_PATHNAME);
}

/* why begins with the file's name; of one that was made here, what of. */
static void name_source(Arena *arena, const DataSet *sets, const char *const *made, int n, Why *why) {
  static const char end[] = ".bin";
  const char *after = strstr(why->text, ".bin:");
  if (!after || !made) return;
  after += strlen(end);
  const char *path = arena_strndup(arena, why->text, (size_t)(after - why->text));
  for (int i = 0; i < n; i++) {
    if (!is_made_of(&sets[i], made[i], path)) continue;
    Why named;
    why_not(&named, "%s, made of %s%s", path, sets[i].path.text, after);
    *why = named;
    return;
  }
}

/* made: by set, in place of its own; NULL: none. */
static Set open_set(const Opening *o, const char *key, const char *name, const DataSet *sets, const char *const *made, int n) {
  const Config *c = o->config;
  const char **paths = xmalloc(sizeof *paths * (size_t)n);
  for (int i = 0; i < n; i++) paths[i] = made ? made[i] : sets[i].path.text;
  TokensAsk ask = {.width = widths[c->data.dtype], .vocab = o->vocab, .dataset = c->data.hdf5_dataset};
  Set set = {.name = name};
  Why why;
  bool ok = try_tokens_open(paths, n, &ask, &set.tokens, &why);
  if (ok && c->data.format == DATA_CHAT)
    ok = try_documents_open(o->arena, set.tokens, c->train.seq_len, c->data.packing, (DocumentsLong)c->data.too_long,
                            &set.documents, &why);
  free(paths);
  if (!ok) name_source(o->arena, sets, made, n, &why);
  if (!ok) fail_files(c, key, sets, n, &why);
  set.range.n = set.documents ? documents_told(set.documents)->rows : tokens_samples(set.tokens, c->train.seq_len);
  return set;
}

/* A set a weight, or all files as one. */
static void open_trains(const Opening *o, Data *d, const ChatFiles *made) {
  static const char key[] = "data.train";
  const Config *c = o->config;
  const DataSets *sets = &c->data.train;
  bool weighed = sets->at->weight > 0;
  d->n_trains = weighed ? sets->n : 1;
  d->train = arena_array(o->arena, Set, d->n_trains);
  double *weights = arena_array(o->arena, double, d->n_trains);
  for (int i = 0; i < d->n_trains; i++) {
    const DataSet *set = &sets->at[i];
    weights[i] = weighed ? set->weight : 1;
    d->train[i] = open_set(o, key, set->path.text, set, made ? made->train + i : NULL, weighed ? 1 : sets->n);
  }
  int small;
  if (!try_mixture_make(o->arena, weights, d->n_trains, &d->mixture, &small))
    config_fail_at(c, sets->at[small].path.place, "a larger weight, or leave it out",
                   "its weight is less than a two-millionth of all weights together");
}

static void open_vals(const Opening *o, Data *d, const ChatFiles *made) {
  const Config *c = o->config;
  const DataSets *sets = &c->data.val;
  d->own_val = sets->n > 0;
  d->n_vals = d->own_val ? sets->n : c->data.val_fraction > 0 ? d->n_trains : 0;
  d->val = arena_array(o->arena, Set, d->n_vals);
  for (int i = 0; i < d->n_vals; i++) {
    if (d->own_val) {
      d->val[i] = open_set(o, "data.val", sets->at[i].name, &sets->at[i], made ? made->val + i : NULL, 1);
      continue;
    }
    d->val[i] = d->train[i];
    d->val[i].name = d->n_vals > 1 ? arena_printf(o->arena, "val-%d", i + 1) : "val";
    tokens_split(d->train[i].range.n, c->data.val_fraction, &d->train[i].range, &d->val[i].range);
  }
}

/* Documents without a label that counts are left out as it is. */
static bool counts(const Data *d, const Set *set, int64_t n) {
  return set->documents || !tokens_marked(set->tokens) || tokens_any_counts(set->tokens, set->range.first * d->S + 1, n * d->S);
}

static void check_counts(const Data *d, const Config *c) {
  static const char nothing[] = "%s: none of its %s%lld tokens counts", help[] = "its marks: NAME.mask beside NAME.bin";
  const DataSet *trains = c->data.train.at, *vals = c->data.val.at;
  for (int i = 0; i < d->n_trains; i++) {
    const char *name = d->n_trains < c->data.train.n ? "data.train" : d->train[i].name;
    if (!counts(d, &d->train[i], d->train[i].range.n))
      config_fail_at(c, trains[i].path.place, help, nothing, name, "", (long long)(d->train[i].range.n * d->S));
  }
  for (int i = 0; i < d->n_vals; i++) {
    int64_t n = data_val_scored(d, i);
    const char *name = d->val[i].name, *first = n < d->val[i].range.n ? "first " : "";
    if (counts(d, &d->val[i], n)) continue;
    if (d->own_val) config_fail_at(c, vals[i].path.place, help, nothing, name, first, (long long)(n * d->S));
    config_fail(c, "data.val_fraction", help, nothing, name, first, (long long)(n * d->S));
  }
}

/* The set and the sample of it that have this number of the stream. */
static const Set *find(const Data *d, int64_t number, int64_t *sample) {
  int64_t own;
  int source = mixture_source(&d->mixture, number, &own);
  const Set *set = &d->train[source];
  *sample = tokens_order(set->range, d->seed, source, own / set->range.n, own % set->range.n);
  return set;
}

static LengthRow train_row(const void *self, int64_t number) {
  int64_t sample;
  const Set *set = find(self, number, &sample);
  return (LengthRow){documents_length(set->documents, sample), number, sample, set};
}

static LengthRow val_row(const void *self, int64_t i) {
  const Set *set = self;
  int64_t sample = set->range.first + i;
  return (LengthRow){documents_length(set->documents, sample), i, sample, set};
}

DataRoom data_room(const Data *d, Arena *arena) {
  return (DataRoom){.ids = arena_array(arena, int32_t, d->S + 1),
                    .starts = arena_array(arena, int32_t, d->S + 1),
                    .marks = arena_array(arena, uint8_t, d->S + 1),
                    .sorted = d->sorts ? by_length_open(arena, config_batch_sequences(d->config), train_row, d) : NULL};
}

Data *data_open(Arena *arena, const Config *c, const ChatFiles *made, int64_t vocab) {
  Data *d = arena_new(arena, Data);
  Opening o = {arena, c, vocab};
  *d = (Data){
      .S = c->train.seq_len, .seed = (uint64_t)c->run.seed, .packing = c->data.packing, .end = -1, .config = c, .made = made};
  d->sorts = config_has_buckets(c);
  d->room = data_room(d, arena);
  open_trains(&o, d, made);
  open_vals(&o, d, made);
  check_counts(d, c);
  for (int i = 0; d->sorts && i < d->n_vals; i++)
    d->val[i].sorted = by_length_open(arena, data_val_scored(d, i), val_row, &d->val[i]);
  return d;
}

void data_set_end(Data *d, const Config *c, int64_t vocab, int64_t end) {
  if (!d->packing || c->data.format == DATA_CHAT) return;
  d->end = c->data.document_end >= 0 ? c->data.document_end : end;
  if (d->end >= vocab)
    config_fail(c, "data.document_end", "an id of the tokenizer that made the files", "the vocabulary ends at %lld",
                (long long)vocab - 1);
  for (int i = 0; d->end < 0 && i < data_sets(d); i++)
    if (!tokens_indexed(data_files(d, i)))
      config_fail(c, "data.packing",
                  "data.document_end: the id that ends a document, a data.tokenizer that has one, or marks beside the files",
                  "nothing tells where documents end");
}

void data_close(Data *d) {
  for (int i = 0; d->own_val && i < d->n_vals; i++) tokens_close(d->val[i].tokens);
  for (int i = 0; i < d->n_trains; i++) tokens_close(d->train[i].tokens);
}

/* --- what there is --------------------------------------------------------------------------------------------------------- */

int64_t data_tokens(const Data *d) {
  int64_t n = 0;
  for (int i = 0; i < d->n_trains; i++) n += tokens_n(d->train[i].tokens);
  return n;
}

int64_t data_epoch_sequences(const Data *d) {
  int64_t n = 0;
  for (int i = 0; i < d->n_trains; i++) n += d->train[i].range.n;
  return n;
}

const char *data_made_of(const Data *d, const char *path) {
  const DataSets *sets = &d->config->data.train;
  for (int i = 0; d->made && i < sets->n; i++)
    if (is_made_of(&sets->at[i], d->made->train[i], path)) return sets->at[i].path.text;
  return NULL;
}

int data_vals(const Data *d) { return d->n_vals; }
const char *data_val_name(const Data *d, int val) { return d->val[val].name; }
int64_t data_val_sequences(const Data *d, int val) { return d->val[val].range.n; }

int64_t data_val_scored(const Data *d, int val) {
  int64_t wanted = (int64_t)d->config->eval.tokens.value / d->S, n = d->val[val].range.n;
  wanted = wanted < 1 ? 1 : wanted;
  return wanted < n ? wanted : n;
}

/* By which ranks choose alike what a pass computes. */
static void hash_lengths(Sha256 *hash, const Set *set) {
  uint32_t crc = 0;
  for (int64_t i = 0; i < documents_told(set->documents)->rows; i++) {
    int64_t length = documents_length(set->documents, i);
    crc = crc32c(crc, &length, sizeof length);
  }
  sha256_add(hash, &crc, sizeof crc);
}

static void hash_set(Sha256 *hash, const Set *set) {
  int64_t sizes[] = {tokens_n(set->tokens), tokens_files(set->tokens), set->range.first, set->range.n, tokens_marked(set->tokens)};
  sha256_add(hash, sizes, sizeof sizes);
  if (set->documents) sha256_add(hash, documents_told(set->documents), sizeof(DocumentsTold));
  for (int i = 0; i < tokens_files(set->tokens); i++) {
    const TokenNote *note;
    tokens_note(set->tokens, i, &note);
    sha256_add_text(hash, note ? note->job : "");
  }
}

uint64_t data_hash(const Data *d) {
  Sha256 hash;
  sha256_init(&hash);
  for (int i = 0; i < d->n_trains; i++) hash_set(&hash, &d->train[i]);
  for (int i = 0; i < d->n_vals; i++) hash_set(&hash, &d->val[i]);
  for (int i = 0; d->sorts && i < d->n_trains; i++) hash_lengths(&hash, &d->train[i]);
  for (int i = 0; d->sorts && i < d->n_vals; i++) hash_lengths(&hash, &d->val[i]);
  sha256_add(&hash, d->mixture.share, sizeof *d->mixture.share * (size_t)d->mixture.n);
  return sha256_u64(&hash);
}

void data_mixture(const Data *d, Text *out) {
  for (int i = 0; d->n_trains > 1 && i < d->n_trains; i++)
    text_printf(out, "%s%d/%d of %" PRId64 " sequences", i ? ", " : "", d->mixture.share[i], d->mixture.period,
                d->train[i].range.n);
}

void data_sources(const Data *d, int64_t steps, int64_t sequences, Text *out) {
  const Mixture *m = &d->mixture;
  for (int i = 0; d->n_trains > 1 && i < d->n_trains; i++) {
    char tokens[HUMAN_TEXT];
    const Set *set = &d->train[i];
    double share = (double)m->share[i] / m->period, epochs = (double)(steps * sequences) * share / (double)set->range.n;
    int64_t again = mixture_number(m, i, set->range.n) / sequences + 1;
    text_printf(out, "%.4g %% of %s: %s tokens, %.2f epochs", 100 * share, set->name,
                human_count((double)tokens_n(set->tokens), tokens), epochs);
    if (again <= steps) text_printf(out, ", repeats from step %" PRId64, again);
    text_printf(out, "\n");
  }
}

/* --- rows ------------------------------------------------------------------------------------------------------------------ */

/* Sample i becomes a row: the first S of its S+1 ids, and the last S.  starts: of documents, if they are kept apart; no label is of
 * another document than its id. */
static bool take_text(const Data *d, const DataRoom *room, const Tokens *tokens, int64_t i, int32_t *ids, int32_t *labels,
                      int32_t *starts, Why *why) {
  bool marked = tokens_marked(tokens);
  if (!try_tokens_read(tokens, i * d->S, d->S + 1, room->ids, why)) return false;
  if (marked && !try_tokens_marks(tokens, i * d->S, d->S + 1, room->marks, why)) return false;
  if (d->packing) tokens_starts(tokens, i, d->S, d->end, room->ids, marked ? room->marks : NULL, room->starts);
  for (int64_t t = 0; t < d->S; t++) {
    bool other = d->packing && room->starts[t + 1] == t + 1, counts = !marked || room->marks[t + 1] & TOKEN_COUNTS;
    ids[t] = room->ids[t];
    labels[t] = other || !counts ? DATA_IGNORED : room->ids[t + 1];
    if (d->packing) starts[t] = room->starts[t];
  }
  return true;
}

static bool take(const Data *d, const DataRoom *room, const Set *set, int64_t i, int32_t *ids, int32_t *labels, int32_t *starts,
                 Why *why) {
  if (set->documents) return try_documents_row(set->documents, i, room->ids, room->marks, ids, labels, starts, why);
  return take_text(d, room, set->tokens, i, ids, labels, starts, why);
}

static int32_t *row_of(const Data *d, int32_t *rows, int64_t r) { return rows ? rows + r * d->S : NULL; }

/* The same of a row's number here, which with data.buckets is its place. */
static const Set *find_row(const Data *d, const DataRoom *room, int64_t number, int64_t *sample) {
  if (!room->sorted) return find(d, number, sample);
  const LengthRow *row = by_length_row(room->sorted, number);
  *sample = row->sample;
  return row->set;
}

RowLengths data_lengths(const Data *d, const DataRoom *room, int64_t first, int64_t n) {
  if (!d->sorts) return (RowLengths){d->S, n * d->S};
  return by_length_of((room ? room : &d->room)->sorted, first, n);
}

RowLengths data_val_lengths(const Data *d, int val, int64_t first, int64_t end) {
  return d->sorts ? by_length_of(d->val[val].sorted, first, end - first) : (RowLengths){d->S, (end - first) * d->S};
}

int64_t data_sample(const Data *d, int64_t number, const char **source) {
  int64_t sample;
  const Set *set = find_row(d, &d->room, number, &sample);
  *source = d->n_trains > 1 ? set->name : NULL;
  return sample;
}

const char *data_train_file(const Data *d, const DataRoom *room, int64_t number) {
  int64_t sample;
  const Set *set = find_row(d, room, number, &sample);
  return set->documents ? tokens_file(set->tokens, documents_at(set->documents, sample), 1)
                        : tokens_file(set->tokens, sample, d->S);
}

static double lap(const DataRoom *room, double *since) {
  if (!room->spent) return 0;
  double now = clock_seconds(), took = now - *since;
  *since = now;
  return took;
}

bool try_data_train(const Data *d, const DataRoom *room, int64_t first, int64_t micro, int32_t *ids, int32_t *labels,
                    int32_t *starts, Why *why) {
  double at = 0;
  lap(room, &at);
  for (int64_t r = 0, sample; r < micro; r++) {
    const Set *set = find_row(d, room, first + r, &sample);
    if (room->spent) room->spent->order += lap(room, &at);
    if (!take(d, room, set, sample, row_of(d, ids, r), row_of(d, labels, r), row_of(d, starts, r), why)) return false;
    if (room->spent) room->spent->rows += lap(room, &at);
  }
  return true;
}

void data_blank(const Data *d, int64_t row, int32_t *ids, int32_t *labels) {
  for (int64_t t = row * d->S; t < (row + 1) * d->S; t++) {
    ids[t] = 0;
    labels[t] = DATA_PADDING;
  }
}

static void take_val(const Data *d, const Set *set, int64_t i, int32_t *ids, int32_t *labels, int32_t *starts) {
  Why why;
  if (set->sorted) i = by_length_row(set->sorted, i)->number;
  if (!take(d, &d->room, set, set->range.first + i, ids, labels, starts, &why)) fail(FAIL_INPUT, "%s", why.text);
}

void data_val(const Data *d, int val, int64_t first, int64_t end, int64_t micro, int32_t *ids, int32_t *labels, int32_t *starts) {
  for (int64_t r = 0; r < micro; r++) {
    if (first + r < end)
      take_val(d, &d->val[val], first + r, row_of(d, ids, r), row_of(d, labels, r), row_of(d, starts, r));
    else
      data_blank(d, r, ids, labels);
  }
}

int64_t data_peek(const Data *d, int32_t **ids) {
  int64_t sample, n = d->S;
  const Set *set = find_row(d, &d->room, 0, &sample);
  Why why;
  *ids = xmalloc(3 * sizeof **ids * (size_t)n); /* with labels and starts */
  if (!take(d, &d->room, set, sample, *ids, *ids + n, *ids + 2 * n, &why)) fail(FAIL_INPUT, "%s", why.text);
  while (n > 1 && (*ids)[d->S + n - 1] == DATA_PADDING) n--;
  return n;
}

int data_trains(const Data *d) { return d->n_trains; }
int data_sets(const Data *d) { return d->n_trains + d->n_vals; }
const Tokens *data_files(const Data *d, int set) {
  return set < d->n_trains ? d->train[set].tokens : d->val[set - d->n_trains].tokens;
}

int64_t data_val_bytes(const Data *d, int val, int64_t n, const int32_t *bytes) {
  int64_t sum = 0;
  int32_t *row = xmalloc(3 * sizeof *row * (size_t)d->S), *labels = row + d->S;
  for (int64_t i = 0; i < n; i++) {
    take_val(d, &d->val[val], i, row, labels, labels + d->S);
    for (int64_t t = 0; t < d->S; t++) sum += labels[t] < 0 ? 0 : bytes[labels[t]];
  }
  free(row);
  return sum;
}

static void tell_documents(const Set *set, int64_t S, Text *out) {
  const DocumentsTold *t = documents_told(set->documents);
  char documents[HUMAN_TEXT], rows[HUMAN_TEXT];
  text_printf(out, "%s: %s documents in %s sequences, %.0f %% of them full, %.0f %% of that counts", set->name,
              human_count((double)t->documents, documents), human_count((double)t->rows, rows),
              100 * (double)t->inputs / ((double)t->rows * (double)S), 100 * (double)t->labels / (double)t->inputs);
  if (t->longer) text_printf(out, "; %" PRId64 " are longer than train.seq_len (data.too_long)", t->longer);
  if (t->useless) text_printf(out, "; %" PRId64 " have nothing that counts and are left out", t->useless);
  text_printf(out, "\n");
}

void data_marks(const Data *d, Text *out) {
  int n = d->n_trains + (d->own_val ? d->n_vals : 0);
  for (int i = 0; i < n; i++) {
    const Set *set = i < d->n_trains ? &d->train[i] : &d->val[i - d->n_trains];
    if (set->documents)
      tell_documents(set, d->S, out);
    else if (tokens_marked(set->tokens))
      text_printf(out, "%s: marks say which tokens count\n", set->name);
  }
}
