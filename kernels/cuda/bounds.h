/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic on calls that plans and rows must do alike; no CUDA in it.
 *
 * Attention's gradient is done in parts (sequences, key heads) so that what grows with S² stays bounded, and on copies that
 * are padded with zeros where S is no multiple of ATTENTION_ROWS: a padded query adds nothing to any gradient, because its
 * dO is zero, and causality hides padded keys from the others. */
#ifndef KERNELS_CUDA_BOUNDS_H
#define KERNELS_CUDA_BOUNDS_H

#include <stddef.h>

#include "kernels/big.h"

enum { CUBLASLT_WORKSPACE = 32 << 20, ATTENTION_ROWS = 128 };

typedef enum AttentionKind { ATTENTION_FORWARD, ATTENTION_GRADIENT, ATTENTION_FAST_GRADIENT } AttentionKind;

/* Operand numbers differ between the op and its gradient. */
typedef struct AttentionPlaces {
  int q, k, start, nin, nout;
} AttentionPlaces;
extern const AttentionPlaces attention_places[];

/* Sequences and key heads of a part; parts are equal. */
typedef struct AttentionPart {
  int64_t B, G;
} AttentionPart;
AttentionPart attention_part(const BigCall *call, AttentionKind kind);

/* View v of a part as it lies in a padded copy: contiguous, S rounded up, no address.  Its heads are all of them, its strides
 * the part's. */
BigView attention_padded(const BigCall *call, AttentionKind kind, const BigView *v);
size_t attention_padded_bytes(const BigCall *call, AttentionKind kind, const BigView *v);

#endif
