/* SPDX-License-Identifier: Apache-2.0 */
/* What hpctrain_sentencepiece.so exports, in C: as much of libsentencepiece (google/sentencepiece, 0.1.97 or newer) as tokenizing
 * takes.  Nothing throws across it. */
#ifndef IO_SENTENCEPIECE_H
#define IO_SENTENCEPIECE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum SpKind { SP_NORMAL, SP_UNKNOWN, SP_CONTROL, SP_UNUSED, SP_BYTE } SpKind;

typedef void SpIds(void *self, const int *ids, size_t n);
typedef void SpText(void *self, const char *text, size_t n);

typedef struct SpModule {
  size_t size; /* of this, as a sign that both are of one build */
  /* A model from its file's bytes; NULL, and the library's own words. */
  void *(*open)(const char *bytes, size_t n, char *why, size_t why_n);
  void (*close)(void *model);
  int (*pieces)(const void *model);
  void (*special)(const void *model, int ids[4]); /* bos, eos, unk, pad; -1: none */
  SpKind (*kind)(const void *model, int id);
  const char *(*piece)(const void *model, int id, size_t *n);
  bool (*encode)(const void *model, const char *text, size_t n, SpIds *put, void *self, char *why, size_t why_n);
  bool (*decode)(const void *model, const int *ids, size_t n, SpText *put, void *self, char *why, size_t why_n);
} SpModule;

extern const SpModule hpctrain_sentencepiece;

#ifdef __cplusplus
}
#endif

#endif
