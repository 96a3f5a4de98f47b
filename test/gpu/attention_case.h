/* SPDX-License-Identifier: Apache-2.0 */
/* One attention problem with its operands on the device: q, k, v side by side in one buffer, as a product leaves them. */
#ifndef TEST_GPU_ATTENTION_CASE_H
#define TEST_GPU_ATTENTION_CASE_H

#include "test/gpu/judge.h"

typedef struct AttentionCase {
  int64_t B, S, H, G, D, window;
  int segment; /* positions a segment, about; 0: no `start` operand */
  int type;
} AttentionCase;

/* Calls whose outputs are o, lse and dqkv; o and lse of the gradient are those of forward. */
typedef struct AttentionCalls {
  BigCall forward, gradient;
  BigView qkv, dqkv, o, lse;
} AttentionCalls;

AttentionCalls attention_calls(AttentionCase c);

#endif
