/* SPDX-License-Identifier: Apache-2.0 */
/* The names that Hugging Face's files use: of architectures, of rope scalings, and of the two weights that can be one.  What
 * else weights are called src/model knows alone. */
#ifndef IO_NAMES_H
#define IO_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/arena.h"

/* Architectures that can be trained, in the order of the table.  1 << one of these is a bit of HfField.of. */
typedef enum NameFamily { NAME_LLAMA, NAME_MISTRAL, NAME_QWEN2, NAME_QWEN3, NAME_MIXTRAL, NAME_GPT2, NAME_FAMILIES } NameFamily;

typedef struct NameArchitecture {
  const char *architecture; /* in "architectures" */
  const char *model_type;   /* "model_type" */
  const char *prefix;       /* of all names but the head's; files of the bare model lack it */
  const char *embedding;    /* (vocabulary, hidden) */
} NameArchitecture;

const NameArchitecture *name_architecture(NameFamily family);
/* Those above, for messages: "LlamaForCausalLM, …". */
const char *name_known(char *out, int nbytes);

bool name_is_embedding(const char *name);
bool name_is_prefix(const char *text, int n); /* whether these n bytes are an architecture's prefix */
/* The output matrix, which is not there when tied to the embedding. */
extern const char name_head[];

/* Where the memory of transformers 5, and what is written straight from it, holds a weight that files have by itself: all experts'
 * matrices in one tensor.  part: how many of the weight's size come before it there.  NULL: it is not so. */
const char *name_fused(Arena *arena, const char *name, int64_t *part);

/* A tensor that old files hold beside the weights and that every model computes for itself. */
bool name_is_constant(const char *name);

/* How rotary positions are stretched beyond the trained length. */
typedef enum RopeKind {
  ROPE_DEFAULT,    /* not */
  ROPE_LINEAR,     /* all wavelengths by a factor */
  ROPE_DYNAMIC,    /* by a larger base, as long as the sequence asks for it */
  ROPE_WAVELENGTH, /* long wavelengths by a factor, short ones not, a ramp between */
  ROPE_YARN,       /* the same by another ramp, and attention is sharpened */
  ROPE_KINDS
} RopeKind;

const char *name_rope(RopeKind kind); /* as in rope_type */

#endif
