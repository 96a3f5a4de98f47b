/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/data.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/hash.h"
#include "src/report/human.h"
#include "src/train/mixture.h"

enum { IGNORED = -100 };

typedef struct Set {
  const char *name;
  Tokens *tokens;
  TokensRange range;
} Set;

struct Data {
  int64_t S;
  uint64_t seed;
  bool packing;
  int64_t end;           /* the id behind a document; -1: none */
  int32_t *row, *starts; /* S+1; starts of documents, with packing */
  Set *train, *val;
  int n_trains, n_vals;
  Mixture mixture; /* of the training sets */
  bool own_val;    /* val's files are not train's */
};

static const int widths[] = {[DATA_AUTO] = 0, [DATA_UINT16] = 2, [DATA_UINT32] = 4};

/* --- opening ------------------------------------------------------------------------------------------------------------- */

/* why names the file; the run file's line is added between it and its help. */
static _Noreturn void fail_files(const Config *c, const char *key, const DataSet *sets, int n, Why *why) {
  char *help = strstr(why->text, "\nhelp: ");
  if (help) *help = 0;
  if (help) help += strlen("\nhelp: ");
  if (n == 1) config_fail_at(c, sets->path.place, help, "%s", why->text);
  config_fail(c, key, help, "%s", why->text);
}

static Set open_set(const Config *c, const char *key, const char *name, const DataSet *sets, int n, int64_t vocab) {
  const char **paths = xmalloc(sizeof *paths * (size_t)n);
  for (int i = 0; i < n; i++) paths[i] = sets[i].path.text;
  Tokens *tokens;
  Why why;
  bool ok = try_tokens_open(paths, n, widths[c->data.dtype], vocab, &tokens, &why);
  free(paths);
  if (!ok) fail_files(c, key, sets, n, &why);
  return (Set){name, tokens, {0, tokens_samples(tokens, c->train.seq_len)}};
}

/* A set a weight, or all files as one. */
static void open_trains(Arena *arena, Data *d, const Config *c, int64_t vocab) {
  static const char key[] = "data.train";
  const DataSets *sets = &c->data.train;
  bool weighed = sets->at->weight > 0;
  d->n_trains = weighed ? sets->n : 1;
  d->train = arena_array(arena, Set, d->n_trains);
  double *weights = arena_array(arena, double, d->n_trains);
  for (int i = 0; i < d->n_trains; i++) {
    const DataSet *set = &sets->at[i];
    weights[i] = weighed ? set->weight : 1;
    d->train[i] = open_set(c, key, set->path.text, set, weighed ? 1 : sets->n, vocab);
  }
  int small;
  if (!try_mixture_make(arena, weights, d->n_trains, &d->mixture, &small))
    config_fail_at(c, sets->at[small].path.place, "a larger weight, or leave it out",
                   "its weight is less than a two-millionth of all weights together");
}

static void open_vals(Arena *arena, Data *d, const Config *c, int64_t vocab) {
  const DataSets *sets = &c->data.val;
  d->own_val = sets->n > 0;
  d->n_vals = d->own_val ? sets->n : c->data.val_fraction > 0 ? d->n_trains : 0;
  d->val = arena_array(arena, Set, d->n_vals);
  for (int i = 0; i < d->n_vals; i++) {
    if (d->own_val) {
      d->val[i] = open_set(c, "data.val", sets->at[i].name, &sets->at[i], 1, vocab);
      continue;
    }
    d->val[i] = (Set){.name = d->n_vals > 1 ? arena_printf(arena, "val-%d", i + 1) : "val", .tokens = d->train[i].tokens};
    tokens_split(d->train[i].range.n, c->data.val_fraction, &d->train[i].range, &d->val[i].range);
  }
}

Data *data_open(Arena *arena, const Config *c, int64_t vocab) {
  Data *d = arena_new(arena, Data);
  *d = (Data){.S = c->train.seq_len, .seed = (uint64_t)c->run.seed, .packing = c->data.packing, .end = -1};
  d->row = arena_array(arena, int32_t, d->S + 1);
  d->starts = arena_array(arena, int32_t, d->S + 1);
  open_trains(arena, d, c, vocab);
  open_vals(arena, d, c, vocab);
  return d;
}

void data_set_end(Data *d, const Config *c, int64_t vocab, int64_t end) {
  if (!d->packing) return;
  d->end = c->data.document_end >= 0 ? c->data.document_end : end;
  if (d->end >= vocab)
    config_fail(c, "data.document_end", "an id of the tokenizer that made the files", "the vocabulary ends at %lld",
                (long long)vocab - 1);
  for (int i = 0; d->end < 0 && i < data_sets(d); i++)
    if (!tokens_indexed(data_files(d, i)))
      config_fail(c, "data.packing", "data.document_end: the id that ends a document, or a data.tokenizer that has one",
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

int data_vals(const Data *d) { return d->n_vals; }
const char *data_val_name(const Data *d, int val) { return d->val[val].name; }
int64_t data_val_sequences(const Data *d, int val) { return d->val[val].range.n; }

static void hash_set(Sha256 *hash, const Set *set) {
  int64_t sizes[] = {tokens_n(set->tokens), tokens_files(set->tokens), set->range.first, set->range.n};
  sha256_add(hash, sizes, sizeof sizes);
}

uint64_t data_hash(const Data *d) {
  Sha256 hash;
  sha256_init(&hash);
  for (int i = 0; i < d->n_trains; i++) hash_set(&hash, &d->train[i]);
  for (int i = 0; i < d->n_vals; i++) hash_set(&hash, &d->val[i]);
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
static void take(const Data *d, const Tokens *tokens, int64_t i, int32_t *ids, int32_t *labels, int32_t *starts) {
  tokens_sample(tokens, i, d->S, d->row);
  if (d->packing) tokens_starts(tokens, i, d->S, d->end, d->row, d->starts);
  for (int64_t t = 0; t < d->S; t++) {
    ids[t] = d->row[t];
    labels[t] = d->packing && d->starts[t + 1] == t + 1 ? IGNORED : d->row[t + 1];
    if (d->packing) starts[t] = d->starts[t];
  }
}

static int32_t *row_of(const Data *d, int32_t *rows, int64_t r) { return rows ? rows + r * d->S : NULL; }

/* The set and the sample of it that have this number. */
static const Set *find(const Data *d, int64_t number, int64_t *sample) {
  int64_t own;
  int source = mixture_source(&d->mixture, number, &own);
  const Set *set = &d->train[source];
  *sample = tokens_order(set->range, d->seed, source, own / set->range.n, own % set->range.n);
  return set;
}

int64_t data_sample(const Data *d, int64_t number, const char **source) {
  int64_t sample;
  const Set *set = find(d, number, &sample);
  *source = d->n_trains > 1 ? set->name : NULL;
  return sample;
}

const char *data_train_file(const Data *d, int64_t number) {
  int64_t sample;
  const Set *set = find(d, number, &sample);
  return tokens_file(set->tokens, sample, d->S);
}

void data_train(const Data *d, int64_t first, int64_t micro, int32_t *ids, int32_t *labels, int32_t *starts) {
  for (int64_t r = 0, sample; r < micro; r++) {
    const Set *set = find(d, first + r, &sample);
    take(d, set->tokens, sample, row_of(d, ids, r), row_of(d, labels, r), row_of(d, starts, r));
  }
}

void data_blank(const Data *d, int64_t row, int32_t *ids, int32_t *labels) {
  for (int64_t t = row * d->S; t < (row + 1) * d->S; t++) {
    ids[t] = 0;
    labels[t] = IGNORED;
  }
}

void data_val(const Data *d, int val, int64_t first, int64_t end, int64_t micro, int32_t *ids, int32_t *labels, int32_t *starts) {
  const Set *set = &d->val[val];
  for (int64_t r = 0; r < micro; r++) {
    if (first + r < end)
      take(d, set->tokens, set->range.first + first + r, row_of(d, ids, r), row_of(d, labels, r), row_of(d, starts, r));
    else
      data_blank(d, r, ids, labels);
  }
}

void data_peek(const Data *d, const int32_t **ids, int64_t *n) {
  int64_t sample;
  const Set *set = find(d, 0, &sample);
  tokens_sample(set->tokens, sample, d->S, d->row);
  *ids = d->row;
  *n = d->S + 1;
}

int data_sets(const Data *d) { return d->n_trains + d->n_vals; }
const Tokens *data_files(const Data *d, int set) {
  return set < d->n_trains ? d->train[set].tokens : d->val[set - d->n_trains].tokens;
}

int64_t data_val_bytes(const Data *d, int val, int64_t n, const int32_t *bytes) {
  const Set *set = &d->val[val];
  int64_t sum = 0;
  for (int64_t i = 0; i < n; i++) {
    tokens_sample(set->tokens, set->range.first + i, d->S, d->row);
    if (d->packing) tokens_starts(set->tokens, set->range.first + i, d->S, d->end, d->row, d->starts);
    for (int64_t t = 1; t <= d->S; t++) sum += d->packing && d->starts[t] == t ? 0 : bytes[d->row[t]];
  }
  return sum;
}
