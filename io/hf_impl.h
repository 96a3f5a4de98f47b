/* SPDX-License-Identifier: Apache-2.0 */
/* What the files behind io/hf_config.h share.  Private to them. */
#ifndef IO_HF_IMPL_H
#define IO_HF_IMPL_H

#include <stddef.h>

#include "io/hf_config.h"
#include "io/json.h"
#include "src/base/vec.h"

/* No model's width, vocabulary or length comes near the first; products of two stay exact. */
enum { HF_WIDEST = 1 << 24, HF_MOST_HEADS = 65536, HF_WIDEST_HEAD = 65536, HF_MOST_EXPERTS = 4096 };

typedef struct HfReader {
  Arena *arena;
  const char *path;
  Why *why;
  VEC(const char *) warnings;
} HfReader;

/* What becomes of a field. */
typedef enum HfUse {
  HF_INT, /* a number (a truth value) of the struct */
  HF_REAL,
  HF_BOOL,
  HF_ONLY,  /* must be one of the values in `only`, null, or absent: nothing else is built */
  HF_SILENT /* has no effect on the arithmetic, or is read together with another field */
} HfUse;

typedef struct HfField {
  const char *name;
  unsigned of; /* bits: of which families (NameFamily), or kinds of rope (RopeKind) */
  HfUse use;
  size_t offset;       /* HF_INT, HF_REAL, HF_BOOL: in the struct that is read into */
  double absent, null; /* its value where the field is not there, or null; NAN: that is an error */
  double least, most;  /* inclusive */
  const char *only;    /* JSON values, blank between */
  /* For what is more than one value: called once behind all plain fields, whether the field is there or not.  write: adds it to
   * root, NULL: that is not needed. */
  bool (*read)(HfReader *r, const json_t *root, HfConfig *config);
  void (*write)(json_t *root, const HfConfig *config);
} HfField;

/* The table: every field of these families' classes in transformers, and those that files have had besides. */
extern const HfField hf_fields[];
extern const int hf_nfields;

/* Reads one field, whoever has it; prefix is what errors put before names. */
bool hf_field_read(const HfReader *r, const json_t *object, const char *prefix, const HfField *field, void *into);
/* Reads all fields of a table that are of these bits, and warns of what no row names. */
bool hf_fields_read(HfReader *r, const json_t *object, const char *prefix, const HfField *table, int n, unsigned of, void *into);
void hf_fields_write(json_t *object, const HfField *table, int n, unsigned of, const void *from);
void hf_warn(HfReader *r, const char *prefix, const char *name);

/* hf_rope.c: rope_parameters, or rope_scaling and rope_theta. */
bool hf_rope_read(HfReader *r, const json_t *root, HfConfig *config);
void hf_rope_write(json_t *root, const HfConfig *config);

#endif
