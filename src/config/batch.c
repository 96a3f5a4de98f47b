/* SPDX-License-Identifier: Apache-2.0 */
/* How the global batch splits over ranks and passes, and what to change when it does not. */
#include <stdio.h>

#include "src/base/fail.h"
#include "src/config/table.h"

enum { AUTO_MICRO_TOKENS = 4096 }; /* a pass on CPU ranks: matrices are large enough by then, activations still small */
enum { AUTO_PASSES = 4 };          /* with data.buckets: a step of one pass is as long as its longest row */

int64_t config_batch_sequences(const Config *c) {
  Amount batch = c->train.global_batch_size;
  return (int64_t)batch.value / (batch.unit == UNIT_TOKENS ? c->train.seq_len : 1);
}

static int64_t micro_auto(const Config *c, int64_t share) {
  int64_t most = AUTO_MICRO_TOKENS / c->train.seq_len, micro = 1;
  if (config_has_buckets(c) && most > share / AUTO_PASSES) most = share / AUTO_PASSES;
  for (int64_t d = 2; d <= most && d <= share; d++)
    if (share % d == 0) micro = d;
  return micro;
}

/* The next larger number of ranks that divides passes, else the next smaller; 0 if there is none near. */
static int64_t ranks_near(int64_t passes, int64_t ranks) {
  for (int64_t r = ranks + 1; r <= passes && r <= 16 * ranks; r++)
    if (passes % r == 0) return r;
  for (int64_t r = ranks - 1; r >= 1; r--)
    if (passes % r == 0) return r;
  return 0;
}

static _Noreturn void batch_fail(const Config *c, int64_t sequences, int64_t ranks) {
  int64_t micro = c->train.micro_batch_size, unit = ranks * (micro ? micro : 1), less = sequences / unit * unit;
  int64_t other = sequences % (micro ? micro : 1) == 0 ? ranks_near(sequences / (micro ? micro : 1), ranks) : 0;
  Arena *arena = c->origin->arena;
  const char *lower = less ? arena_printf(arena, "%lld sequences, ", (long long)less) : "";
  const char *near = other ? arena_printf(arena, ", or %lld rank%s", (long long)other, other == 1 ? "" : "s") : "";
  const char *help = arena_printf(arena, "%s%lld sequences%s", lower, (long long)(less + unit), near);
  const char *split =
      micro ? arena_printf(arena, "(%lld rank%s x %lld) = %.2f passes", (long long)ranks, ranks == 1 ? "" : "s", (long long)micro,
                           (double)sequences / (double)unit)
            : arena_printf(arena, "%lld ranks = %.2f sequences a rank", (long long)ranks, (double)sequences / (double)unit);
  config_fail(c, "train.global_batch_size", help, "global_batch_size does not split: %lld sequences / %s", (long long)sequences,
              split);
}

Batch config_check_batch(const Config *c, int data_parallel_size) {
  CHECK(data_parallel_size > 0);
  int64_t sequences = config_batch_sequences(c), ranks = data_parallel_size, micro = c->train.micro_batch_size;
  if (sequences % (ranks * (micro ? micro : 1)) != 0) batch_fail(c, sequences, ranks);
  if (!micro) micro = micro_auto(c, sequences / ranks);
  return (Batch){.sequences = sequences,
                 .tokens = sequences * c->train.seq_len,
                 .micro = micro,
                 .micro_tokens = micro * c->train.seq_len,
                 .passes = sequences / ranks / micro};
}
