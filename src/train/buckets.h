/* SPDX-License-Identifier: Apache-2.0 */
/* What data.buckets comes to on a run's data, before anything is computed. */
#ifndef TRAIN_BUCKETS_H
#define TRAIN_BUCKETS_H

#include "src/train/data.h"

/* Of the training rows' positions, in the run's first steps. */
typedef struct BucketShares {
  double computed; /* what is, of all that there are: 1 without buckets */
  double padding;  /* what is padding, of those that are computed */
} BucketShares;

/* group: rows of a pass, of all ranks. */
BucketShares buckets_shares(const Data *data, const Config *c, int64_t steps, int64_t group);
/* For people; "" where the run file asks for none. */
void buckets_tell(const Data *data, const Config *c, int64_t steps, int64_t group, Text *out);

/* The positions that a pass computes of its rows, the longest of which has so many. */
int64_t buckets_positions(const Lengths *lengths, int64_t longest);

#endif
