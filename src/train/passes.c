/* SPDX-License-Identifier: Apache-2.0 */
/* Forward and backward of a step.  Its sequences are numbered by rank, then by pass, then by row, so that those of a range are of
 * few ranks. */
#include "src/train/run.h"

/* The first in the data's order that a step takes. */
static int64_t stream_begin(const Run *run, int64_t step) {
  return (step - 1 + history_ahead(run->history)) * run->batch.sequences;
}

/* With data.buckets a pass is as long as the longest of its rows on any rank wants: all ranks know the lengths of all rows
 * (data_hash), and choose the same programs without asking. */
static void shorten(Run *run, RowLengths lengths) {
  int64_t rows = mesh_dp_size(run->mesh) * run->batch.micro, positions = engine_shorten(run->engine, lengths.longest);
  double tokens = (double)(rows * positions);
  const Flops *one = &run->flops[lengths_holding(&run->lengths, lengths.longest)];
  run->work.tokens += rows * positions;
  run->work.filled += lengths.sum;
  run->work.flops = (Flops){run->work.flops.causal + tokens * one->causal, run->work.flops.full + tokens * one->full};
}

void run_passes_of(Run *run, int64_t step, int64_t first, int64_t end) {
  const Batch *b = &run->batch;
  int64_t D = mesh_dp_size(run->mesh), d = mesh_dp_index(run->mesh);
  comm_step(run->comm, step);
  run->work = (Work){0};
  for (int64_t pass = 0; pass < b->passes; pass++) {
    int64_t number = (d * b->passes + pass) * b->micro, at = stream_begin(run, step) + (pass * D + d) * b->micro;
    prof_span_begin(run->prof, "data");
    comm_doing(run->comm, false, "reading %s", prefetch_file(run->prefetch, at));
    const Rows *rows = prefetch_take(run->prefetch, at);
    for (int64_t row = 0; row < b->micro; row++)
      if (number + row < first || number + row >= end) data_blank(run->data, row, rows->ids, rows->labels);
    comm_doing(run->comm, false, "%s", "");
    shorten(run, rows->lengths);
    engine_batch(run->engine, rows->ids, rows->labels);
    engine_segments(run->engine, rows->starts);
    engine_place(run->engine, step, (pass * D + d) * b->micro);
    prof_span_end(run->prof);
    run->work.fresh |= engine_micro(run->engine, pass) < PROGRAM_READY;
  }
}

void run_passes(Run *run, int64_t step) { run_passes_of(run, step, 0, run->batch.sequences); }

int64_t run_sample(const Run *run, int64_t step, int64_t number, const char **source) {
  const Batch *b = &run->batch;
  int64_t D = mesh_dp_size(run->mesh), row = number % b->micro, pass = number / b->micro % b->passes;
  return data_sample(run->data, stream_begin(run, step) + (pass * D + run_rank_of(run, number)) * b->micro + row, source);
}

int run_rank_of(const Run *run, int64_t number) { return (int)(number / (run->batch.micro * run->batch.passes)); }
