/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/data.h"

#include <stdlib.h>

#include "src/base/hash.h"

enum { IGNORED = -100 };

typedef struct Set {
  const char *name;
  Tokens *tokens;
  TokensRange range;
} Set;

struct Data {
  int64_t S;
  uint64_t seed;
  int32_t *row; /* S+1 */
  Set train, *val;
  int n_vals;
  bool own_val; /* val's files are not train's */
};

static const int widths[] = {[DATA_AUTO] = 0, [DATA_UINT16] = 2, [DATA_UINT32] = 4};

static Set open_set(const Config *c, const char *name, const DataSet *sets, int n, int64_t vocab) {
  const char **paths = xmalloc(sizeof *paths * (size_t)n);
  for (int i = 0; i < n; i++) paths[i] = sets[i].path;
  Tokens *tokens = tokens_open(paths, n, widths[c->data.dtype], vocab);
  free(paths);
  return (Set){name, tokens, {0, tokens_samples(tokens, c->train.seq_len)}};
}

Data *data_open(Arena *arena, const Config *c, int64_t vocab) {
  Data *d = arena_new(arena, Data);
  *d = (Data){.S = c->train.seq_len, .seed = (uint64_t)c->run.seed};
  d->row = arena_array(arena, int32_t, d->S + 1);
  d->train = open_set(c, "train", c->data.train.at, c->data.train.n, vocab);
  d->own_val = c->data.val.n > 0;
  d->n_vals = d->own_val ? c->data.val.n : c->data.val_fraction > 0;
  d->val = arena_array(arena, Set, d->n_vals);
  for (int i = 0; d->own_val && i < d->n_vals; i++) {
    d->val[i] = open_set(c, c->data.val.at[i].name, &c->data.val.at[i], 1, vocab);
  }
  if (d->n_vals && !d->own_val) {
    d->val[0] = (Set){.name = "val", .tokens = d->train.tokens};
    tokens_split(d->train.range.n, c->data.val_fraction, &d->train.range, &d->val[0].range);
  }
  return d;
}

void data_close(Data *d) {
  for (int i = 0; d->own_val && i < d->n_vals; i++) tokens_close(d->val[i].tokens);
  tokens_close(d->train.tokens);
}

int64_t data_tokens(const Data *d) { return tokens_n(d->train.tokens); }
int64_t data_epoch_sequences(const Data *d) { return d->train.range.n; }
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
  hash_set(&hash, &d->train);
  for (int i = 0; i < d->n_vals; i++) hash_set(&hash, &d->val[i]);
  return sha256_u64(&hash);
}

/* Sample i becomes a row: the first S of its S+1 ids, and the last S. */
static void take(const Data *d, const Tokens *tokens, int64_t i, int32_t *ids, int32_t *labels) {
  tokens_sample(tokens, i, d->S, d->row);
  for (int64_t t = 0; t < d->S; t++) {
    ids[t] = d->row[t];
    labels[t] = d->row[t + 1];
  }
}

int64_t data_sample(const Data *d, int64_t number) {
  return tokens_order(d->train.range, d->seed, number / d->train.range.n, number % d->train.range.n);
}

const char *data_train_file(const Data *d, int64_t number) { return tokens_file(d->train.tokens, data_sample(d, number), d->S); }

void data_train(const Data *d, int64_t first, int64_t micro, int32_t *ids, int32_t *labels) {
  for (int64_t r = 0; r < micro; r++) take(d, d->train.tokens, data_sample(d, first + r), ids + r * d->S, labels + r * d->S);
}

void data_blank(const Data *d, int64_t row, int32_t *ids, int32_t *labels) {
  for (int64_t t = row * d->S; t < (row + 1) * d->S; t++) {
    ids[t] = 0;
    labels[t] = IGNORED;
  }
}

void data_val(const Data *d, int val, int64_t first, int64_t end, int64_t micro, int32_t *ids, int32_t *labels) {
  const Set *set = &d->val[val];
  for (int64_t r = 0; r < micro; r++) {
    if (first + r < end)
      take(d, set->tokens, set->range.first + first + r, ids + r * d->S, labels + r * d->S);
    else
      data_blank(d, r, ids, labels);
  }
}

void data_peek(const Data *d, const int32_t **ids, int64_t *n) {
  tokens_sample(d->train.tokens, data_sample(d, 0), d->S, d->row);
  *ids = d->row;
  *n = d->S + 1;
}

const Tokens *data_files(const Data *d, int set) { return set ? d->val[set - 1].tokens : d->train.tokens; }

int64_t data_val_bytes(const Data *d, int val, int64_t n, const int32_t *bytes) {
  int64_t sum = 0;
  for (int64_t i = 0; i < n; i++) {
    tokens_sample(d->val[val].tokens, d->val[val].range.first + i, d->S, d->row);
    for (int64_t t = 1; t <= d->S; t++) sum += bytes[d->row[t]];
  }
  return sum;
}
