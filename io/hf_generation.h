/* SPDX-License-Identifier: Apache-2.0 */
/* A model's generation_config.json: the ids at which a text ends ("eos_token_id", a number or several), and how its makers sample.
 * A setting that would change texts and is not built is refused; one that no row of the table names is a warning. */
#ifndef IO_HF_GENERATION_H
#define IO_HF_GENERATION_H

#include <stdint.h>

#include "src/base/arena.h"
#include "src/base/fail.h"

enum { HF_ENDS = 64 };

/* What the file does not say is negative (of greedy: false). */
typedef struct HfGeneration {
  int32_t ends[HF_ENDS];
  int n_ends;
  bool greedy; /* do_sample: false */
  double temperature, top_p, repetition_penalty;
  int64_t top_k;
  const char *const *warnings;
  int n_warnings;
} HfGeneration;

/* path for messages.  ends_alone: nothing else is looked at. */
bool try_hf_generation_parse(Arena *arena, const char *path, const char *text, bool ends_alone, HfGeneration *generation, Why *why);

#endif
