/* SPDX-License-Identifier: Apache-2.0 */
/* The fuzz target as libFuzzer wants it; its main is in clang's library.  The seeds go into a folder of their own, which is the
 * last corpus: `fuzz_x FOLDER` keeps what it finds in FOLDER. */
#include <stdio.h>
#include <stdlib.h>

#include "src/base/text.h"
#include "test/fuzz/fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  static char *words[1024];
  static Arena *arena; /* for as long as the program runs */
  arena = arena_open();
  FuzzBytes seeds[FUZZ_SEEDS];
  int n = fuzz_target.seeds(arena, seeds);
  const char *folder = fuzz_folder();
  text_pin_locale();
  for (int i = 0; i < n; i++) fuzz_put(arena_printf(arena, "%s/seed-%02d", folder, i), seeds[i].at, seeds[i].n);
  if (*argc + 2 > (int)(sizeof words / sizeof *words)) return 0;
  for (int i = 0; i < *argc; i++) words[i] = (*argv)[i];
  words[(*argc)++] = arena_strdup(arena, folder);
  *argv = words;
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  if (n <= fuzz_target.most) fuzz_target.one(bytes, n);
  return 0;
}
