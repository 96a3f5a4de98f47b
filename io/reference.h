/* SPDX-License-Identifier: Apache-2.0 */
/* Reference values of a model, for verify: a safetensors file of tensors by name, and a JSON file of training steps. */
#ifndef IO_REFERENCE_H
#define IO_REFERENCE_H

#include <stdint.h>

#include "src/base/arena.h"

typedef struct Reference Reference;

Reference *reference_open(Arena *arena, const char *path);
void reference_close(Reference *ref);
/* All n elements as float; an input error when the tensor is not there or has another size. */
void reference_read(const Reference *ref, const char *name, float *out, int64_t n);

/* input_ids and labels, equal matrices in the arena; ids lie in [0,vocab), labels below vocab (negative: ignored).  Where a matrix
 * attention_mask is there and has 0, the label is `padding`. */
typedef struct ReferenceBatch {
  int64_t rows, columns;
  const int64_t *ids, *labels, *mask; /* NULL: no mask */
} ReferenceBatch;
void reference_read_batch(const Reference *ref, int64_t vocab, int64_t padding, ReferenceBatch *batch);

/* Own values under the reference's names, so that what is dumped can be a reference.  NULL as a dump is fine: nothing is written.
 */
typedef struct ReferenceDump ReferenceDump;
ReferenceDump *reference_dump_open(Arena *arena, const char *path);
void reference_dump(ReferenceDump *dump, const char *name, int rank, const int64_t *shape, const float *values); /* copied */
void reference_dump_ids(ReferenceDump *dump, const char *name, int rank, const int64_t *shape, const int64_t *ids);
void reference_dump_close(ReferenceDump *dump);

/* Training steps: path is the JSON file; the tokens (steps, rows, row), below vocab, are in the safetensors file of the same
 * name. */
typedef struct ReferenceTraining {
  int steps;
  int64_t rows, row; /* rows of `row` tokens a step: inputs are all but the last, labels all but the first */
  const int64_t *tokens;
  const double *loss, *grad_norm, *lr; /* by step */
  double beta1, beta2, eps, weight_decay, clip;
} ReferenceTraining;

ReferenceTraining *reference_training_open(Arena *arena, const char *path, int64_t vocab);

#endif
