/* SPDX-License-Identifier: Apache-2.0 */
/* Validation loss on the live parameters; nothing that training reads is written. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "src/base/clock.h"
#include "src/train/run.h"

/* What a byte of the set's text costs; 0: not known.  The sum of losses is over the labels whose text is counted. */
static double bits_per_byte(Run *run, int val, int64_t n, double loss_sum) {
  if (!run->tokenizer) return 0;
  if (!run->val_bytes) {
    run->token_bytes = arena_array(run->arena, int32_t, run->model.vocab);
    run->val_bytes = arena_array(run->arena, int64_t, data_vals(run->data));
    int32_t *bytes = tokenizer_bytes(run->tokenizer);
    for (int64_t id = 0; id < tokenizer_vocab(run->tokenizer); id++) run->token_bytes[id] = bytes[id];
    free(bytes);
  }
  if (!run->val_bytes[val]) run->val_bytes[val] = data_val_bytes(run->data, val, n, run->token_bytes);
  return run->val_bytes[val] ? loss_sum / M_LN2 / (double)run->val_bytes[val] : 0;
}

/* Marks alone are looked at before the start; with packing a document's first id is no label either. */
static void tell_empty(Run *run, int val, int64_t n) {
  if (run_speaks(run) && !run->told_empty)
    lines_warn(run->lines, run->step, "%s: no loss, none of its %" PRId64 " tokens counts", data_val_name(run->data, val),
               n * run->config->train.seq_len);
  run->told_empty = true;
}

static void evaluate(Run *run, int val) {
  double sums[2] = {0, 0}, begin = clock_seconds();
  int64_t n = data_val_scored(run->data, val), micro = run->batch.micro, D = mesh_dp_size(run->mesh);
  for (int64_t first = 0; first < n; first += D * micro) {
    engine_shorten(run->engine, data_val_lengths(run->data, val, first, first + D * micro < n ? first + D * micro : n).longest);
    data_val(run->data, val, first + mesh_dp_index(run->mesh) * micro, n, micro, run->ids, run->labels, run->starts);
    engine_batch(run->engine, run->ids, run->labels);
    engine_segments(run->engine, run->starts);
    engine_eval_start(run->engine);
    if (first) engine_eval_result(run->engine, sums); /* of the batch before: the device goes on meanwhile */
  }
  engine_eval_result(run->engine, sums);
  if (sums[1] == 0) return tell_empty(run, val, n);
  run->eval_loss = sums[0] / sums[1];
  EvalEvent event = {.step = run->step,
                     .name = data_val_name(run->data, val),
                     .loss = run->eval_loss,
                     .bits_per_byte = bits_per_byte(run, val, n, sums[0]),
                     .tokens = (int64_t)sums[1],
                     .seconds = clock_seconds() - begin};
  if (!run_speaks(run)) return;
  lines_eval(run->lines, &event);
  metrics_eval(run->metrics, &event);
}

void run_evaluate(Run *run) {
  double begin = clock_seconds();
  run_doing(run, false, "evaluating");
  prof_span_begin(run->prof, "eval");
  for (int i = 0; i < data_vals(run->data); i++) evaluate(run, i);
  prof_span_end(run->prof);
  run_doing(run, false, "");
  run_spend(run, SPENT_EVALS, clock_seconds() - begin);
}
