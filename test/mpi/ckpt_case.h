/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors for the tests of checkpoints: every element's value follows from its tensor, place and step; cut into pieces at
 * random places and dealt to the ranks. */
#ifndef TEST_CKPT_CASE_H
#define TEST_CKPT_CASE_H

#include <stdint.h>
#include <string.h>

#include "io/ckpt.h"
#include "src/base/arena.h"
#include "src/base/rng.h"

static const CkptTensor ckpt_case[] = {
    {.path = "/model/a.weight", .dtype = DT_F32, .rank = 2, .shape = {7, 5}},
    {.path = "/model/big.weight", .dtype = DT_F32, .rank = 2, .shape = {300, 1001}},
    {.path = "/model/cube", .dtype = DT_F32, .rank = 3, .shape = {3, 4, 5}},
    {.path = "/model/norm.weight", .dtype = DT_F32, .rank = 1, .shape = {13}},
    {.path = "/optim/m/a.weight", .dtype = DT_F32, .rank = 2, .shape = {7, 5}},
    {.path = "/optim/v/a.weight", .dtype = DT_F32, .rank = 2, .shape = {7, 5}},
    {.path = "/optim/m/deep", .dtype = DT_F32, .rank = 4, .shape = {2, 1, 3, 2}},
    {.path = "/state/adam_step", .dtype = DT_I64, .rank = 0},
    {.path = "/state/counts", .dtype = DT_I32, .rank = 1, .shape = {3}},
    {.path = "/state/one", .dtype = DT_PRED, .rank = 1, .shape = {1}},
};
enum { CKPT_CASES = sizeof ckpt_case / sizeof *ckpt_case, CASE_PIECES = 12 };

static const CkptText case_texts[] = {{"yaml", "run: {name: x}\n# \xc3\xa9\n"}, {"choices", ""}};
static const CkptText case_facts[] = {{"tokens", "50.3B"}, {"loss", "2.144"}};

static inline int64_t case_n(const CkptTensor *t) {
  int64_t n = 1;
  for (int k = 0; k < t->rank; k++) n *= t->shape[k];
  return n;
}

/* Exact in every dtype but PRED, which gets its lowest bit. */
static inline int32_t case_value(int tensor, int64_t i, int64_t step) {
  return (int32_t)((i * 31 + tensor * 1009 + step * 7) % 65521);
}

static inline void case_put(void *at, DType dtype, int64_t i, int32_t v) {
  if (dtype == DT_F32) ((float *)at)[i] = (float)v;
  if (dtype == DT_I32) ((int32_t *)at)[i] = v;
  if (dtype == DT_I64) ((int64_t *)at)[i] = v;
  if (dtype == DT_PRED) ((uint8_t *)at)[i] = (uint8_t)(v & 1);
}

/* The pieces of tensor k that fall to this rank. */
static inline void case_cut(Arena *arena, CkptTensor *t, int k, int rank, int size, int64_t step) {
  Rng rng = rng_make((uint64_t)size, RNG_TEST, t->path, (uint64_t)step);
  CkptPiece *pieces = arena_array(arena, CkptPiece, CASE_PIECES);
  int64_t n = case_n(t), first = 0;
  t->pieces = pieces;
  for (uint64_t turn = 0; first < n; turn++) {
    uint32_t w[4];
    rng_words(&rng, turn, w);
    int64_t take = turn + 1 == CASE_PIECES ? n - first : 1 + (int64_t)(w[0] % (uint64_t)(n - first));
    if ((int)(w[1] % (uint32_t)size) == rank) {
      char *at = arena_alloc(arena, (size_t)take * dtype_size(t->dtype));
      for (int64_t i = 0; i < take; i++) case_put(at, t->dtype, i, case_value(k, first + i, step));
      pieces[t->n_pieces++] = (CkptPiece){.first = first, .n = take, .at = at};
    }
    first += take;
  }
}

/* threads 0: by MPI-IO; else directly, by so many. */
static inline bool case_save_files(Comm *comm, const char *folder, int64_t step, int threads, int files, Why *why) {
  Arena *arena = arena_open();
  CkptTensor tensors[CKPT_CASES];
  memcpy(tensors, ckpt_case, sizeof tensors);
  for (int k = 0; k < CKPT_CASES; k++) case_cut(arena, &tensors[k], k, comm_rank(comm), comm_size(comm), step);
  CkptSave save = {folder, step, tensors, CKPT_CASES, case_texts, 2, case_facts, 2, threads > 0, threads, files};
  bool ok = try_ckpt_write(comm, &save, why);
  arena_close(arena);
  return ok;
}

static inline bool case_save_by(Comm *comm, const char *folder, int64_t step, int threads, Why *why) {
  return case_save_files(comm, folder, step, threads, 1, why);
}

static inline bool case_save(Comm *comm, const char *folder, int64_t step, Why *why) {
  return case_save_by(comm, folder, step, 0, why);
}

/* Are elements first … first+n-1 of tensor k as saved in that step? */
static inline bool case_holds(const Ckpt *c, int k, int64_t first, int64_t n, int64_t step) {
  const CkptTensor *t = &ckpt_case[k];
  size_t nbytes = (size_t)n * dtype_size(t->dtype);
  char *got = xmalloc(nbytes), *want = xmalloc(nbytes);
  ckpt_read(c, t->path, t->dtype, first, n, got);
  for (int64_t i = 0; i < n; i++) case_put(want, t->dtype, i, case_value(k, first + i, step));
  bool same = memcmp(got, want, nbytes) == 0;
  free(got);
  free(want);
  return same;
}

static inline bool case_holds_all(const Ckpt *c, int64_t step) {
  for (int k = 0; k < CKPT_CASES; k++)
    if (!case_holds(c, k, 0, case_n(&ckpt_case[k]), step)) return false;
  return true;
}

#endif
