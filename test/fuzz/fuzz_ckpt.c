/* SPDX-License-Identifier: Apache-2.0 */
/* Manifests beside a good file of tensors: what they let through is read and verified, and is within the file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/file.h"
#include "test/fuzz/fuzz.h"
#include "test/mpi/ckpt_case.h"

enum { STEP = 3, MOST = 1 << 14, PART = 1000 /* elements */ };

static const char *path_of(const char *name) {
  static char path[512];
  snprintf(path, sizeof path, "%s/step-%08d%s", fuzz_folder(), STEP, name);
  return path;
}

static Comm *comm;

static void load_some(const Ckpt *c) {
  CkptLoad *load = ckpt_load_open(comm, c);
  char *out = xmalloc(PART * sizeof(double));
  Why why;
  for (int i = 0; i < ckpt_n(c); i++) {
    const CkptEntry *e = ckpt_at(c, i);
    int64_t n = e->n < PART ? e->n : PART;
    CHECK(ckpt_find(c, e->path));
    if (e->is_text) continue;
    ckpt_load_read(load, e->path, e->dtype, 0, n, out);
    if (n < e->n) ckpt_load_read(load, e->path, e->dtype, e->n - n, n, out); /* its last ones */
  }
  try_ckpt_load_close(load, &why);
  free(out);
}

/* Texts and what stands beside the datasets, once all is known to be whole. */
static void read_words(const Ckpt *c) {
  Arena *arena = arena_open();
  int64_t nbytes = 0, all = 0;
  size_t length;
  for (int i = 0; i < ckpt_n(c); i++) {
    const CkptEntry *e = ckpt_at(c, i);
    if (e->is_text && !strncmp(e->path, "/run/", 5)) CHECK(ckpt_text_bytes(c, arena, e->path + 5, &length));
  }
  for (int i = 0; i < ckpt_files(c); i++, all += nbytes) CHECK(ckpt_file(c, i, &nbytes));
  CHECK(all == ckpt_nbytes(c) && ckpt_step(c) == STEP);
  ckpt_fact(c, "ranks");
  arena_close(arena);
}

/* As a job does that finds it in a run's folder: good, or the only one and damaged. */
static void find(bool whole) {
  Text warnings = {0};
  if (!whole) return;
  Ckpt *c = ckpt_find_newest(comm, fuzz_folder(), &warnings);
  CHECK(c && !warnings.n);
  ckpt_close(c);
  text_close(&warnings);
}

static void try_case(const uint8_t *bytes, size_t n) {
  Why why;
  fuzz_put(path_of("/manifest.json"), bytes, n);
  Ckpt *c = try_ckpt_open(path_of(""), &why);
  if (!c) return;
  bool whole = try_ckpt_verify(c, 0, 1, 1, &why);
  for (int k = 0; whole && k < CKPT_CASES; k++) { /* numbers that a manifest has made others are not the same numbers */
    const CkptEntry *e = ckpt_find(c, ckpt_case[k].path);
    if (e && !e->is_text) CHECK(case_holds(c, k, 0, e->n, STEP));
  }
  if (whole) read_words(c);
  load_some(c);
  ckpt_close(c);
  find(whole);
}

/* Without its checksum, which would let no change of it through. */
static FuzzBytes manifest_of(Arena *arena, const char *folder) {
  size_t n;
  char *text = file_read(arena_printf(arena, "%s/step-%08d/manifest.json", folder, STEP), &n);
  char *own = strrchr(text, ',');
  CHECK(own && strstr(own, "crc32c"));
  strcpy(own, "}");
  FuzzBytes bytes = fuzz_text(arena_strdup(arena, text));
  free(text);
  return bytes;
}

/* Files are made once: one of all tensors, and beside it, under their own names, two of the same.  Their manifests are the first
 * cases. */
static int make_seeds(Arena *arena, FuzzBytes seeds[FUZZ_SEEDS]) {
  static const char *const names[] = {"model-00001-of-00002.h5", "model-00002-of-00002.h5"};
  const char *two = arena_printf(arena, "%s/two", fuzz_folder());
  Why why;
  comm = comm_self();
  if (!case_save(comm, fuzz_folder(), STEP, &why) || !case_save_files(comm, two, STEP, 1, 2, &why))
    fail(FAIL_MACHINE, "%s", why.text);
  for (int i = 0; i < 2; i++)
    CHECK(!link(arena_printf(arena, "%s/step-%08d/%s", two, STEP, names[i]),
                arena_printf(arena, "%s/step-%08d/%s", fuzz_folder(), STEP, names[i])));
  seeds[0] = manifest_of(arena, fuzz_folder());
  seeds[2] = manifest_of(arena, two);
  seeds[1] = fuzz_text("{\"format\":\"hpctrain checkpoint\",\"version\":1,\"step\":3,\"facts\":{},\"files\":{\"model.h5\":0},"
                       "\"datasets\":{\"/model/cube\":{\"dtype\":\"f32\",\"shape\":[3,4,5],\"crc32c\":\"00000000\"}}}");
  return 3;
}

static const char *const words[] = {"\"dtype\":",
                                    "\"shape\":[1]",
                                    "\"text\"",
                                    "\"f32\"",
                                    "\"i64\"",
                                    "\"pred\"",
                                    "[4294967296,4294967296]",
                                    "9223372036854775807",
                                    "1152921504606846975",
                                    "\"/model/\":{",
                                    "\"/../model/cube\"",
                                    "\"file\":\"model-00001-of-00002.h5\"",
                                    "\"../model-00001-of-00002.h5\":",
                                    "\"version\":2",
                                    "\"/run/yaml\"",
                                    "\"/\"",
                                    "[[[[[[[[[[[[[",
                                    "\\u0000",
                                    NULL};

const FuzzTarget fuzz_target = {"ckpt", try_case, make_seeds, words, MOST};
