/* SPDX-License-Identifier: Apache-2.0 */
/* What data.buckets comes to on a run's data, before anything is computed. */
#ifndef TRAIN_BUCKETS_H
#define TRAIN_BUCKETS_H

#include "src/train/data.h"

/* What share of the positions of a run's first steps is computed, and what of that is padding, for people; "" where the run file
 * asks for no buckets.  group: rows of a pass, of all ranks. */
void buckets_tell(const Data *data, const Config *c, int64_t steps, int64_t group, Text *out);

#endif
