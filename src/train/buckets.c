/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/buckets.h"

/* Of the training rows' positions: what is computed of all, and what is padding of that. */
typedef struct Shares {
  double computed, padding;
} Shares;

static Shares find_shares(const Data *data, const Config *c, int64_t steps, int64_t group) {
  enum { MOST = 1 << 17 }; /* rows that are looked at */
  Lengths lengths = config_buckets(c);
  int64_t step = config_batch_sequences(c), rows = steps * step, computed = 0, filled = 0;
  if (rows > MOST) rows = MOST > step ? MOST / step * step : step;
  for (int64_t at = 0; at < rows; at += group) {
    RowLengths of = data_lengths(data, NULL, at, group);
    computed += group * lengths.at[lengths_holding(&lengths, of.longest)];
    filled += of.sum;
  }
  return (Shares){(double)computed / ((double)rows * (double)c->train.seq_len), 1 - (double)filled / (double)computed};
}

void buckets_tell(const Data *data, const Config *c, int64_t steps, int64_t group, Text *out) {
  Lengths lengths = config_buckets(c);
  if (!config_has_buckets(c)) return;
  Shares shares = find_shares(data, c, steps, group);
  text_printf(out, "passes of ");
  for (int i = 0; i < lengths.n; i++) text_printf(out, "%s%lld", i ? ", " : "", (long long)lengths.at[i]);
  text_printf(out, " positions: %.0f %% of what there are is computed, of which %.0f %% is padding\n", 100 * shares.computed,
              100 * shares.padding);
}
