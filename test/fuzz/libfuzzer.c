/* SPDX-License-Identifier: Apache-2.0 */
/* The fuzz target as libFuzzer wants it; its main is in clang's library.  The seeds go into a folder of their own, which is the
 * last corpus: `fuzz_x FOLDER` keeps what it finds in FOLDER, `fuzz_x FILE` looks at FILE alone.  Words and the longest case are
 * options, before those that are given.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "src/base/file.h"
#include "src/base/text.h"
#include "test/fuzz/fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* As libFuzzer reads them: a quoted word a line. */
static void put_words(const char *path) {
  Text text = {0};
  for (const char *const *word = fuzz_target.words; *word; word++) {
    text_printf(&text, "\"");
    for (const char *at = *word; *at; at++) text_printf(&text, "\\x%02x", (unsigned char)*at);
    text_printf(&text, "\"\n");
  }
  fuzz_put(path, text.at, text.n);
  text_close(&text);
}

static void put_seeds(Arena *arena, const char *folder) {
  FuzzBytes seeds[FUZZ_SEEDS];
  int n = fuzz_target.seeds(arena, seeds);
  Why why;
  if (!try_folder_make(folder, &why)) fail(FAIL_MACHINE, "%s", why.text);
  for (int i = 0; i < n; i++) fuzz_put(arena_printf(arena, "%s/%02d", folder, i), seeds[i].at, seeds[i].n);
}

static bool names_file(int argc, char **argv) {
  struct stat at;
  for (int i = 1; i < argc; i++)
    if (*argv[i] != '-' && !stat(argv[i], &at) && S_ISREG(at.st_mode)) return true;
  return false;
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  static char *words[1024];
  static Arena *arena; /* for as long as the program runs */
  int n = 0;
  text_pin_locale();
  if (*argc + 4 > (int)(sizeof words / sizeof *words)) return 0;
  arena = arena_open();
  char *seeds = arena_printf(arena, "%s/seeds", fuzz_folder()), *dictionary = arena_printf(arena, "%s/words", fuzz_folder());
  put_seeds(arena, seeds);
  words[n++] = (*argv)[0];
  if (fuzz_target.words) {
    put_words(dictionary);
    words[n++] = arena_printf(arena, "-dict=%s", dictionary);
  }
  words[n++] = arena_printf(arena, "-max_len=%zu", fuzz_target.most);
  for (int i = 1; i < *argc; i++) words[n++] = (*argv)[i];
  if (!names_file(*argc, *argv)) words[n++] = seeds;
  *argc = n;
  *argv = words;
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  if (n <= fuzz_target.most) fuzz_target.one(bytes, n);
  return 0;
}
