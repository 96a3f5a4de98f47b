/* SPDX-License-Identifier: Apache-2.0 */
/* A model's generation_config.json: the ids at which a text ends ("eos_token_id", a number or several).  What else it says are
 * defaults of another program, and not looked at. */
#ifndef IO_HF_GENERATION_H
#define IO_HF_GENERATION_H

#include <stdint.h>

#include "src/base/fail.h"

enum { HF_ENDS = 64 };

/* How many, at most HF_ENDS; -1 and why: it is no such file.  path for messages. */
int try_hf_generation_ends(const char *path, const char *text, int32_t ends[HF_ENDS], Why *why);

#endif
