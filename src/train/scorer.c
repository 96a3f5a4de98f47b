/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/scorer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GRAIN = 32, IGNORED = -100 };        /* GRAIN: lengths of programs are multiples of it, so that few are ever compiled */
enum { TOKENS = 2048, TOKENS_GPU = 16384 }; /* of a batch: enough for products at full speed */

void scorer_start(Loaded *l, int64_t longest) {
  EngineOptions o = loaded_options(l);
  int64_t most = model_positions(&l->model), tokens = o.choices.cuda ? TOKENS_GPU : TOKENS;
  o.score = true;
  o.positions = (longest - 1 + GRAIN - 1) / GRAIN * GRAIN;
  if (o.positions > most) o.positions = most;
  CHECK(longest - 1 <= o.positions);
  o.sequences = tokens / o.positions > 1 ? tokens / o.positions : 1;
  o.segments = false;
  loaded_start(l, &o);
}

typedef struct Scorer {
  Engine *engine;
  const int32_t *all; /* ids that rows name */
  int64_t B, S;
  int32_t *ids, *labels;
} Scorer;

static void put_row(Scorer *s, int64_t at, const ScoreRow *row) {
  int32_t *ids = s->ids + at * s->S, *labels = s->labels + at * s->S;
  CHECK(row->from >= 1 && row->from < row->n && row->n - 1 <= s->S);
  for (int64_t i = 0; i < row->n; i++) CHECK(s->all[row->at + i] >= 0 && s->all[row->at + i] < engine_vocab(s->engine));
  engine_length(s->engine, at, row->n - 1);
  memcpy(ids, s->all + row->at, sizeof *ids * (size_t)(row->n - 1));
  memcpy(labels + row->from - 1, s->all + row->at + row->from, sizeof *labels * (size_t)(row->n - row->from));
}

/* The sums of up to B rows, of which there may be none. */
static void score_batch(Scorer *s, const ScoreRow *rows, int64_t n, double *nats) {
  for (int64_t i = 0; i < s->B * s->S; i++) s->ids[i] = 0, s->labels[i] = IGNORED;
  for (int64_t i = 0; i < n; i++) put_row(s, i, &rows[i]);
  engine_batch(s->engine, s->ids, s->labels);
  const float *nll = engine_score(s->engine);
  for (int64_t i = 0; i < n; i++) {
    nats[i] = 0;
    for (int64_t k = rows[i].from - 1; k < rows[i].n - 1; k++) nats[i] += (double)nll[i * s->S + k];
  }
}

/* Each rank has the sums of its batches side by side. */
static void gather(const Loaded *l, ScoreRow *rows, int64_t n, int64_t B, const double *mine, int64_t rounds) {
  int64_t ranks = comm_size(l->comm), each = rounds * B;
  double *all = xmalloc(sizeof *all * (size_t)(ranks * each));
  comm_gather(l->comm, mine, sizeof *mine * (size_t)each, all);
  for (int64_t i = 0; i < n; i++) {
    int64_t batch = i / B;
    rows[i].nats = all[batch % ranks * each + batch / ranks * B + i % B];
    if (!isfinite(rows[i].nats))
      fail(FAIL_INPUT, "%s: the model's logits are not finite\nhelp: try an earlier step", model_folder_path(l->from));
  }
  free(all);
}

void scorer_run(Loaded *l, const int32_t *ids, ScoreRow *rows, int64_t n, ScoreProgress *progress, void *self) {
  Scorer s = {.engine = l->engine, .all = ids};
  engine_shape(l->engine, &s.B, &s.S);
  int64_t ranks = comm_size(l->comm), rank = comm_rank(l->comm), batches = (n + s.B - 1) / s.B,
          rounds = (batches + ranks - 1) / ranks;
  double *mine = xmalloc(sizeof *mine * (size_t)(rounds * s.B + 1));
  memset(mine, 0, sizeof *mine * (size_t)(rounds * s.B + 1));
  s.ids = xmalloc(sizeof *s.ids * (size_t)(s.B * s.S));
  s.labels = xmalloc(sizeof *s.labels * (size_t)(s.B * s.S));
  for (int64_t round = 0; round < rounds; round++) {
    int64_t first = (round * ranks + rank) * s.B, left = n - first;
    score_batch(&s, rows + (left > 0 ? first : 0), left < 0 ? 0 : left < s.B ? left : s.B, mine + round * s.B);
    int64_t done = (round + 1) * ranks * s.B;
    if (!rank) progress(self, done < n ? done : n, n);
  }
  gather(l, rows, n, s.B, mine, rounds);
  free(s.labels);
  free(s.ids);
  free(mine);
}
