/* SPDX-License-Identifier: Apache-2.0 */
/* A model's generation_config.json: the ids at which a text ends ("eos_token_id", a number or several), and how its makers sample.
 * A setting that would change texts and is not built is refused; one that no row of the table names is a warning. */
#ifndef IO_HF_GENERATION_H
#define IO_HF_GENERATION_H

#include <stdint.h>

#include "src/base/arena.h"
#include "src/base/fail.h"

enum { HF_ENDS = 64 };

/* What transformers draws with where a file does not say (GenerationConfig's documentation). */
enum { HF_TEMPERATURE = 1, HF_TOP_K = 50, HF_TOP_P = 1 };

/* What the file does not say is negative. */
typedef struct HfGeneration {
  int32_t ends[HF_ENDS];
  int n_ends;
  bool says;  /* whether tokens are drawn, or how */
  bool draws; /* do_sample: true; without it transformers takes the most likely token, whatever else is said */
  double temperature, top_p, repetition_penalty;
  int64_t top_k;
  const char *const *warnings;
  int n_warnings;
} HfGeneration;

/* path for messages.  ends_alone: nothing else is looked at. */
bool try_hf_generation_parse(Arena *arena, const char *path, const char *text, bool ends_alone, HfGeneration *generation, Why *why);

#endif
