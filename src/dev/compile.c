/* SPDX-License-Identifier: Apache-2.0 */
/* C texts to one shared object by the system's compiler: a process a text, several at once, then one link.  No shell; all in
 * a folder of its own, which is removed whatever happens. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/base/arena.h"
#include "src/base/file.h"
#include "src/base/text.h"
#include "src/dev/back.h"

/* Same bits whatever the optimiser sees: no contraction, no reassociation.  errno and floating-point traps are nobody's
 * concern, and without them loops become vectors. */
static const char *const compile_flags[] = {"-std=gnu11",
                                            "-O3",
                                            "-march=native",
                                            "-ffp-contract=off",
                                            "-fno-math-errno",
                                            "-fno-trapping-math",
                                            "-fno-semantic-interposition",
                                            "-fopenmp",
                                            "-fPIC",
                                            "-w",
                                            "-c"};
static const char *const link_flags[] = {"-shared", "-fopenmp", "-Wl,--build-id=none", "-o", "all.so"};
enum { COMPILE_FLAGS = sizeof compile_flags / sizeof *compile_flags, LINK_FLAGS = sizeof link_flags / sizeof *link_flags };

/* --- finding the compiler ----------------------------------------------------------------------------------------------- */

static bool executable(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static bool compiler_find(const char *name, char path[PATH_MAX], Why *why) {
  if (strchr(name, '/')) { /* made absolute, links kept: what a link is called may matter (ccache) */
    char here[PATH_MAX] = "";
    bool relative = *name != '/' && getcwd(here, sizeof here);
    if (snprintf(path, PATH_MAX, "%s%s%s", here, relative ? "/" : "", name) < PATH_MAX && executable(path)) return true;
  } else {
    const char *folders = getenv("PATH");
    for (const char *p = folders ? folders : "/usr/local/bin:/usr/bin:/bin"; *p;) {
      int n = (int)strcspn(p, ":");
      char candidate[PATH_MAX];
      int length = snprintf(candidate, sizeof candidate, "%.*s/%s", n, n ? p : ".", name);
      if (n && length < PATH_MAX && executable(candidate) && snprintf(path, PATH_MAX, "%s", candidate) > 0) return true;
      p += n + (p[n] == ':');
    }
  }
  return why_not(
      why,
      "no C compiler: '%s' is not %s\nhelp: install one (apt-get install gcc), name another with cpu.compiler, or choose "
      "the slow interpreter with cpu.compiler: none",
      name, strchr(name, '/') ? "an executable file" : "in PATH");
}

/* --- texts and objects -------------------------------------------------------------------------------------------------- */

static bool text_write(const char *folder, int i, const char *text, Why *why) {
  char path[PATH_MAX + 32];
  snprintf(path, sizeof path, "%s/k%d.c", folder, i);
  FILE *f = fopen(path, "wbx");
  bool ok = f && fwrite(text, 1, strlen(text), f) == strlen(text);
  int error = errno;
  if (f && fclose(f) && ok) ok = false, error = errno;
  return ok ||
         why_not(why, "cannot write %s: %s\nhelp: free some space there, or set TMPDIR to another folder", path, strerror(error));
}

typedef struct Compile {
  const char *compiler, *folder;
  int n, threads;
} Compile;

static pid_t text_start(const Compile *c, int i, Why *why) {
  char source[32], object[32], log[32];
  snprintf(source, sizeof source, "k%d.c", i);
  snprintf(object, sizeof object, "k%d.o", i);
  snprintf(log, sizeof log, "k%d.log", i);
  const char *argv[COMPILE_FLAGS + 5] = {c->compiler};
  memcpy(argv + 1, compile_flags, sizeof compile_flags);
  memcpy(argv + 1 + COMPILE_FLAGS, (const char *[]){source, "-o", object, NULL}, 4 * sizeof *argv);
  return process_start((char *const *)argv, c->folder, log, why);
}

/* Up to `threads` at a time; after a failure no new one starts, those running are waited for. */
static bool texts_compile(const Compile *c, Why *why) {
  pid_t *pids = xmalloc(sizeof *pids * (size_t)c->n);
  int next = 0, running = 0;
  bool ok = true;
  for (int i = 0; i < c->n; i++) pids[i] = 0;
  while (running || (ok && next < c->n)) {
    while (ok && next < c->n && running < c->threads) {
      pids[next] = text_start(c, next, why);
      ok = pids[next] > 0;
      running += ok;
      next++;
    }
    bool ended = false;
    for (int i = 0; i < next; i++) {
      int status;
      if (pids[i] <= 0 || !process_ended(pids[i], &status)) continue;
      char log[32];
      snprintf(log, sizeof log, "k%d.log", i);
      pids[i] = 0;
      running--;
      ended = true;
      if (status && ok) ok = process_failed(c->compiler, c->folder, log, status, why);
    }
    if (!ended) nanosleep(&(struct timespec){0, 1000000}, NULL);
  }
  free(pids);
  return ok;
}

static bool objects_link(const Compile *c, Why *why) {
  const char **argv = xmalloc(sizeof *argv * (size_t)(c->n + LINK_FLAGS + 2));
  char(*names)[32] = xmalloc(sizeof *names * (size_t)c->n);
  int k = 0;
  argv[k++] = c->compiler;
  for (int i = 0; i < LINK_FLAGS; i++) argv[k++] = link_flags[i];
  for (int i = 0; i < c->n; i++) {
    snprintf(names[i], sizeof names[i], "k%d.o", i);
    argv[k++] = names[i];
  }
  argv[k] = NULL;
  bool ok = process_run((char *const *)argv, c->folder, "all.log", why);
  free(names);
  free(argv);
  return ok;
}

/* --- the folder --------------------------------------------------------------------------------------------------------- */

static bool folder_make(char folder[PATH_MAX], Why *why) {
  const char *places[] = {getenv("TMPDIR"), "/tmp", "/dev/shm", "."};
  int error = 0;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    char made[PATH_MAX - 8];
    if (!places[i] || !*places[i] || snprintf(made, sizeof made, "%s/hpctrain-XXXXXX", places[i]) >= (int)sizeof made) continue;
    if (mkdtemp(made) && realpath(made, folder)) return true;
    if (!error) error = errno;
  }
  return why_not(why, "no folder to compile in: %s\nhelp: set TMPDIR to a folder that can be written", strerror(error));
}

static bool folder_compile(const Compile *c, const char *const *texts, void **object, size_t *nbytes, Why *why) {
  for (int i = 0; i < c->n; i++)
    if (!text_write(c->folder, i, texts[i], why)) return false;
  if (!texts_compile(c, why) || !objects_link(c, why)) return false;
  char path[PATH_MAX + 32];
  snprintf(path, sizeof path, "%s/all.so", c->folder);
  *object = file_read(path, nbytes);
  return *object ||
         why_not(why, "the C compiler %s left no %s: %s\nhelp: name another with cpu.compiler", c->compiler, path, strerror(errno));
}

bool compile_try(const char *compiler, const char *const *texts, int n, int threads, void **object, size_t *nbytes, Why *why) {
  char path[PATH_MAX], folder[PATH_MAX];
  if (!compiler_find(compiler, path, why) || !folder_make(folder, why)) return false;
  bool ok = folder_compile(&(Compile){path, folder, n, threads}, texts, object, nbytes, why);
  try_tree_remove(folder, NULL);
  return ok;
}

/* --- identity ----------------------------------------------------------------------------------------------------------- */

static char *compiler_version(const char *path, Why *why) {
  char folder[PATH_MAX], log[PATH_MAX + 32];
  if (!folder_make(folder, why)) return NULL;
  size_t n;
  char *version = NULL;
  if (process_run((char *const[]){(char *)path, "--version", NULL}, folder, "version.log", why)) {
    snprintf(log, sizeof log, "%s/version.log", folder);
    version = file_read(log, &n);
    if (!version) why_not(why, "cannot read %s: %s\nhelp: set TMPDIR to another folder", log, strerror(errno));
  }
  try_tree_remove(folder, NULL);
  return version;
}

bool compile_try_identity(const char *compiler, Sha256 *key, Why *why) {
  char path[PATH_MAX], real[PATH_MAX];
  struct stat st;
  if (!compiler_find(compiler, path, why)) return false;
  if (!realpath(path, real) || stat(real, &st))
    return why_not(why, "the C compiler %s: %s\nhelp: name another with cpu.compiler", path, strerror(errno));
  char *version = compiler_version(path, why);
  if (!version) return false;
  sha256_add_text(key, real);
  sha256_add(key, &st.st_size, sizeof st.st_size);
  sha256_add(key, &st.st_mtim, sizeof st.st_mtim);
  sha256_add_text(key, version);
  for (int i = 0; i < COMPILE_FLAGS; i++) sha256_add_text(key, compile_flags[i]);
  for (int i = 0; i < LINK_FLAGS; i++) sha256_add_text(key, link_flags[i]);
  free(version);
  return true;
}
