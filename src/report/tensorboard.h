/* SPDX-License-Identifier: Apache-2.0 */
/* A TensorBoard event file: scalars by tag and step.  A new file an attempt; its first events tell TensorBoard to forget what
 * earlier files say about the steps from there on. */
#ifndef REPORT_TENSORBOARD_H
#define REPORT_TENSORBOARD_H

#include <stdint.h>

#include "src/base/fail.h"

typedef struct TensorBoard TensorBoard;
typedef struct Scalar {
  const char *tag;
  double value;
} Scalar;

/* In this folder; the next step is step + 1. */
TensorBoard *tensorboard_open(const char *folder, int64_t step);
void tensorboard_add(TensorBoard *board, int64_t step, const Scalar *scalars, int n);
bool tensorboard_close(TensorBoard *board, Why *why);

#endif
