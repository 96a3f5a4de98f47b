/* SPDX-License-Identifier: Apache-2.0 */
/* An engine that is asked for text: what a text costs, and what comes next. */
#include <stdlib.h>
#include <string.h>

#include "src/train/engine_parts.h"

const float *engine_score(Engine *e) {
  job_run(e->job, e->score);
  return job_var(e->job, "nll", NULL);
}

static void set_turns(Engine *e, const char *name, int64_t row, int64_t length) {
  int64_t n, half = e->options.model.head_dim / 2;
  float *to = job_var(e->job, name, &n);
  if (!to) return;
  CHECK(row >= 0 && (row + 1) * half <= n);
  double *frequency = xmalloc(sizeof *frequency * (size_t)half);
  model_rope_frequencies(&e->options.model, length, frequency);
  for (int64_t i = 0; i < half; i++) to[row * half + i] = (float)frequency[i];
  free(frequency);
}

void engine_length(Engine *e, int64_t row, int64_t length) {
  set_turns(e, "turns", e->options.score ? row : 0, length);
  set_turns(e, "next_turns", row, length);
}

static void check_ids(const Engine *e, const int32_t *ids, int64_t n) {
  for (int64_t i = 0; i < n; i++) CHECK(ids[i] >= 0 && ids[i] < e->options.model.vocab);
}

const float *engine_fill(Engine *e, int64_t slot, const int32_t *ids, int64_t n) {
  int64_t positions;
  int32_t *to = job_var(e->job, "ids", &positions);
  CHECK(n >= 1 && n <= positions && slot >= 0 && slot < e->options.slots);
  check_ids(e, ids, n);
  memcpy(to, ids, sizeof *to * (size_t)n);
  memset(to + n, 0, sizeof *to * (size_t)(positions - n));
  *(int32_t *)job_var(e->job, "row", NULL) = (int32_t)(n - 1);
  *(int32_t *)job_var(e->job, "slot", NULL) = (int32_t)slot;
  job_run(e->job, e->fill);
  return job_var(e->job, "logits", NULL);
}

const float *engine_extend(Engine *e, const int32_t *ids, const int32_t *positions) {
  int64_t n;
  int32_t *to = job_var(e->job, "next", &n);
  check_ids(e, ids, n);
  memcpy(to, ids, sizeof *to * (size_t)n);
  memcpy(job_var(e->job, "position", NULL), positions, sizeof *positions * (size_t)n);
  for (int64_t i = 0; i < n; i++) CHECK(positions[i] >= 0 && positions[i] < e->options.kept);
  job_run(e->job, e->extend);
  return job_var(e->job, "next_logits", NULL);
}
