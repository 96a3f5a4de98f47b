/* SPDX-License-Identifier: Apache-2.0 */
/* The fuzz target's program without libFuzzer.  A child runs case after case and tells in shared memory which; the parent sees
 * what becomes of it, and can make the case again, since it follows from its number.
 *   fuzz_x [--seconds S] [--runs N] [--seed S]   five seconds without a word
 *   fuzz_x FILE…                                  these cases, in this process
 *   fuzz_x --list                                 as any test program (test/check.h) */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/base/fail.h"
#include "src/base/text.h"
#include "test/fuzz/fuzz.h"

enum { SECONDS = 5, HANGS = 10 /* seconds without an end of a case */ };
static const int64_t room = 1ll << 30; /* bytes beside what there was at the start */

typedef struct Shared {
  volatile uint64_t at; /* the case that runs */
  volatile bool large;  /* ended because of its memory */
} Shared;

typedef struct Fuzz {
  Arena *arena;
  FuzzBytes seeds[FUZZ_SEEDS];
  int n_seeds;
  double seconds;
  int64_t runs, seed;
  Shared *shared;
} Fuzz;

static void run_case(const Fuzz *f, uint64_t i, uint8_t *bytes) {
  size_t n = fuzz_mutate(&fuzz_target, f->seeds, f->n_seeds, (uint64_t)f->seed, i, bytes);
  uint8_t *exact = malloc(n ? n : 1); /* its end is the memory's, for sanitizers */
  CHECK(exact);
  if (n) memcpy(exact, bytes, n);
  fuzz_target.one(exact, n);
  free(exact);
}

/* Memory that nobody touches counts too, where the whole of it can be told: a sanitizer's cannot. */
static void limit_memory(void) {
  struct rlimit limit;
  long pages = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f || fscanf(f, "%ld", &pages) != 1) pages = 0;
  if (f) fclose(f);
  int64_t now = pages * sysconf(_SC_PAGESIZE);
  if (getrlimit(RLIMIT_AS, &limit) || now == 0 || now > 1ll << 40) return;
  limit.rlim_cur = (rlim_t)(now + 4 * room);
  CHECK(!setrlimit(RLIMIT_AS, &limit));
}

static int64_t peak(void) {
  struct rusage usage;
  CHECK(!getrusage(RUSAGE_SELF, &usage));
  return usage.ru_maxrss * 1024;
}

static _Noreturn void run_child(Fuzz *f) {
  double end = clock_seconds() + f->seconds;
  uint8_t *bytes = xmalloc(fuzz_target.most ? fuzz_target.most : 1);
  int64_t before = peak();
  limit_memory();
  for (int64_t i = 0; i < f->runs && clock_seconds() < end && !f->shared->large; i++) {
    f->shared->at = (uint64_t)i;
    run_case(f, (uint64_t)i, bytes);
    f->shared->large = peak() > before + room;
  }
  free(bytes);
  exit(f->shared->large);
}

/* NULL: all cases came back. */
static const char *watch(const Fuzz *f, pid_t child) {
  uint64_t last = UINT64_MAX;
  double since = clock_seconds();
  const char *slow = getenv("slowdown");
  double patience = HANGS * (slow && atoi(slow) > 0 ? atoi(slow) : 1);
  bool hung = false;
  for (int status;;) {
    pid_t done = waitpid(child, &status, WNOHANG);
    CHECK(done >= 0 || errno == EINTR);
    if (done == child) {
      if (hung) return arena_printf(f->arena, "it ran for more than %g s", patience);
      if (f->shared->large) return "memory: more than a gigabyte";
      if (WIFSIGNALED(status)) return arena_printf(f->arena, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
      return WEXITSTATUS(status) ? arena_printf(f->arena, "it ended with status %d", WEXITSTATUS(status)) : NULL;
    }
    if (f->shared->at != last) since = clock_seconds();
    last = f->shared->at;
    if (!hung && clock_seconds() - since > patience) hung = !kill(child, SIGKILL);
    usleep(20000);
  }
}

static const char *keep_case(Fuzz *f, uint64_t i) {
  const char *path = arena_printf(f->arena, "fuzz-%s-%llu", fuzz_target.name, (unsigned long long)i);
  uint8_t *bytes = arena_alloc(f->arena, fuzz_target.most);
  fuzz_put(path, bytes, fuzz_mutate(&fuzz_target, f->seeds, f->n_seeds, (uint64_t)f->seed, i, bytes));
  return path;
}

static int run_all(Fuzz *f, const char *program) {
  f->shared = mmap(NULL, sizeof *f->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(f->shared != MAP_FAILED);
  fuzz_folder(); /* so that it goes when the child could not remove it */
  fflush(NULL);
  pid_t child = fork();
  CHECK(child >= 0);
  if (!child) run_child(f);
  const char *why = watch(f, child);
  uint64_t at = f->shared->at;
  if (why)
    printf("FAILED %s: case %llu of seed %lld: %s; again: %s %s\n0 passed, 1 failed\n", fuzz_target.name, (unsigned long long)at,
           (long long)f->seed, why, program, keep_case(f, at));
  else
    printf("ok %s\n%llu cases\n1 passed, 0 failed\n", fuzz_target.name, (unsigned long long)at + 1);
  return why != NULL;
}

/* Once, before any case: a target may make what its cases need. */
static void open_seeds(Fuzz *f) {
  if (!f->n_seeds) f->n_seeds = fuzz_target.seeds(f->arena, f->seeds);
  CHECK(f->n_seeds > 0 && f->n_seeds <= FUZZ_SEEDS);
}

static void run_file(const char *path) {
  size_t n;
  char *bytes = file_read(path, &n);
  if (!bytes) fail(FAIL_INPUT, "%s: %s", path, strerror(errno));
  uint8_t *exact = xmalloc(n ? n : 1);
  if (n) memcpy(exact, bytes, n);
  free(bytes);
  fuzz_target.one(exact, n);
  free(exact);
  printf("%s came back\n", path);
}

int main(int argc, char **argv) {
  text_pin_locale();
  Fuzz f = {.arena = arena_open(), .seconds = -1, .runs = INT64_MAX, .seed = 1};
  int files = 0;
  for (int i = 1; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : "";
    bool option = !strncmp(argv[i], "--", 2), taken = true;
    if (!strcmp(argv[i], "--list")) return printf("%s\n", fuzz_target.name) < 0;
    if (!strcmp(argv[i], "--seconds"))
      taken = num_parse_double(value, &f.seconds);
    else if (!strcmp(argv[i], "--runs"))
      taken = num_parse_int(value, &f.runs);
    else if (!strcmp(argv[i], "--seed"))
      taken = num_parse_int(value, &f.seed);
    else if (option)
      taken = false;
    else
      files++, open_seeds(&f), run_file(argv[i]);
    if (!taken) fail(FAIL_INPUT, "what is %s %s?\nhelp: %s [--seconds S] [--runs N] [--seed S], or FILE…", argv[i], value, argv[0]);
    i += option;
  }
  if (f.seconds < 0) f.seconds = f.runs < INT64_MAX ? INFINITY : SECONDS;
  open_seeds(&f);
  int status = files ? 0 : run_all(&f, argv[0]);
  arena_close(f.arena);
  return status;
}
