/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors in safetensors files: a length, a JSON header, then the bytes of all tensors in a row.
 * Format: huggingface/safetensors, README.md.  A file from elsewhere is believed only as far as it has been checked. */
#ifndef IO_SAFETENSORS_H
#define IO_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/arena.h"
#include "src/base/dtype.h"
#include "src/base/fail.h"

enum { SAFE_MAX_RANK = 8 };

/* In the order of their names in safetensors.c.  Those that can be read have a comment. */
typedef enum SafeType {
  SAFE_F32,  /* as float */
  SAFE_F16,  /* as float */
  SAFE_BF16, /* as float */
  SAFE_I64,  /* as int64_t */
  SAFE_I32,  /* as int64_t */
  SAFE_F64,
  SAFE_I16,
  SAFE_I8,
  SAFE_U64,
  SAFE_U32,
  SAFE_U16,
  SAFE_U8,
  SAFE_BOOL,
  SAFE_C64,
  SAFE_F8_E4M3,
  SAFE_F8_E5M2,
  SAFE_F8_E8M0,
  SAFE_F8_E4M3FNUZ,
  SAFE_F8_E5M2FNUZ,
  SAFE_F6_E2M3,
  SAFE_F6_E3M2,
  SAFE_F4,
  SAFE_TYPES
} SafeType;

const char *safe_type_name(SafeType type);         /* "F32", as in the header */
int safe_type_bits(SafeType type);                 /* of an element */
bool safe_type_dtype(SafeType type, DType *dtype); /* false: no DType is like it.  U8, as older masks are, is PRED */
SafeType safe_type_of(DType dtype);                /* of those that one is like; of PRED BOOL */

typedef struct SafeTensor {
  const char *name;
  SafeType type;
  int rank;                     /* 0: a scalar */
  int64_t shape[SAFE_MAX_RANK]; /* row-major, slowest first */
  int64_t n;                    /* elements */
  uint64_t offset, nbytes;      /* in its file, from the file's first byte */
  int file;                     /* for safetensors_file */
} SafeTensor;

/* --- reading ------------------------------------------------------------------------------------------------------------ */

typedef struct Safetensors Safetensors;

/* path is one file, or a folder with model.safetensors or model.safetensors.index.json and its shards.  Every header is
 * checked in full; no tensor's bytes are read. */
Safetensors *safetensors_open(const char *path);
Safetensors *try_safetensors_open(const char *path, Why *why); /* NULL: why says it */
void safetensors_close(Safetensors *s);                        /* NULL is fine */
/* What a file says that is not there, or not yet: its header's n bytes; name is what errors call it.  Nothing can be read of it. */
Safetensors *try_safetensors_parse(const char *name, const char *header, size_t n, Why *why);

int safetensors_n(const Safetensors *s);
const SafeTensor *safetensors_at(const Safetensors *s, int i);              /* by file, then by place in it; lives as long as s */
const SafeTensor *safetensors_find(const Safetensors *s, const char *name); /* NULL: no such tensor */
const char *safetensors_file(const Safetensors *s, const SafeTensor *t);    /* its path, for messages */
int safetensors_files(const Safetensors *s);
const char *safetensors_path(const Safetensors *s, int file);
/* A file's header as it stands there, blanks at its end included, and a NUL; in the arena. */
const char *safetensors_header(const Safetensors *s, int file, Arena *arena, size_t *n);

/* Elements first … first+n-1 of t's flattened row-major elements, converted; nothing else is loaded.  A range outside t
 * is the caller's fault, any other type than named above is an input error.  Threads may read at once. */
/* The same as it lies, for a type that a DType is. */
void safetensors_read_raw(const Safetensors *s, const SafeTensor *t, int64_t first, int64_t n, void *out);
/* Whoever reads these bytes next would like them on their way; a range outside t is cut. */
void safetensors_soon(const Safetensors *s, const SafeTensor *t, int64_t first, int64_t n);
void safetensors_read_f32(const Safetensors *s, const SafeTensor *t, int64_t first, int64_t n, float *out);
void safetensors_read_i64(const Safetensors *s, const SafeTensor *t, int64_t first, int64_t n, int64_t *out);

/* --- writing ------------------------------------------------------------------------------------------------------------ */

typedef struct SafeWriter SafeWriter;

/* The header from name, type, rank and shape of each (the other fields are not looked at), and __metadata__ {"format": "pt"},
 * which loaders ask for.  The file is written aside and takes its name in safe_writer_close. */
SafeWriter *safe_writer_open(const char *path, const SafeTensor *tensors, int n);
/* The same with a header that another file had; nbytes: of what follows it. */
SafeWriter *safe_writer_open_as(const char *path, const char *header, size_t n, uint64_t nbytes);
/* The next bytes of the tensors in their order; calls may split tensors anywhere. */
void safe_writer_add(SafeWriter *w, const void *bytes, size_t nbytes);
void safe_writer_close(SafeWriter *w); /* checks that all bytes came, flushes, renames */

#endif
