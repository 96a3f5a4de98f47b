/* SPDX-License-Identifier: Apache-2.0 */
/* The names that Hugging Face's files use: of architectures, of rope scalings, of weights.  One table each, read both ways;
 * outside src/model no other file knows these names. */
#ifndef IO_NAMES_H
#define IO_NAMES_H

#include <stdbool.h>

/* What a weight is in a decoder; per block from NAME_ATTN_NORM to NAME_DOWN. */
typedef enum NameKind {
  NAME_EMBED,     /* (vocabulary, hidden) */
  NAME_ATTN_NORM, /* (hidden), before attention */
  NAME_Q,         /* (heads · head size, hidden) */
  NAME_K,         /* (key/value heads · head size, hidden) */
  NAME_V,         /* as K */
  NAME_O,         /* (hidden, heads · head size) */
  NAME_MLP_NORM,  /* (hidden), before the MLP */
  NAME_GATE,      /* (intermediate, hidden) */
  NAME_UP,        /* (intermediate, hidden) */
  NAME_DOWN,      /* (hidden, intermediate) */
  NAME_OUT_NORM,  /* (hidden), after the last block */
  NAME_HEAD,      /* (vocabulary, hidden); not there when tied to NAME_EMBED */
  NAME_KINDS
} NameKind;

enum { NAME_TEXT = 96 };

bool name_is_layered(NameKind kind);
/* layer is not looked at where the kind has none.  Returns out. */
const char *name_print(NameKind kind, int layer, char out[NAME_TEXT]);
/* False: no such name.  layer is -1 where the kind has none. */
bool name_parse(const char *name, NameKind *kind, int *layer);

/* A tensor that old files hold beside the weights and that every model computes for itself. */
bool name_is_constant(const char *name);

/* Architectures that can be trained, by the names in config.json. */
typedef struct NameArchitecture {
  const char *architecture; /* in "architectures" */
  const char *model_type;   /* "model_type" */
} NameArchitecture;

int name_architectures(void);
const NameArchitecture *name_architecture(int i);

/* How rotary positions are stretched beyond the trained length. */
typedef enum RopeKind {
  ROPE_DEFAULT,    /* not */
  ROPE_WAVELENGTH, /* long wavelengths by a factor, short ones not, a ramp between */
  ROPE_KINDS
} RopeKind;

const char *name_rope(RopeKind kind); /* as in rope_type */

#endif
