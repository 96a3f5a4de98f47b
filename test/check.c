/* SPDX-License-Identifier: Apache-2.0 */
#include "test/check.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "src/base/file.h"
#include "src/base/text.h"

typedef struct Test {
  const char *name;
  void (*run)(void);
} Test;

enum { TESTS = 512 };
static Test tests[TESTS];
static int n_tests;

void (*check_before)(void);
void (*check_after)(void);

static jmp_buf leave;
static const char *running = "(before the first test)";
static bool is_child;
static int rank;
static char folder[4096];
static pid_t child;
static FILE *child_stderr;

void check_add(const char *name, void (*run)(void)) {
  CHECK(n_tests < TESTS);
  tests[n_tests++] = (Test){name, run};
}

_Noreturn void check_failed(const char *file, int line, const char *format, ...) {
  char text[4096];
  int n = snprintf(text, sizeof text, "FAILED %s: ", running);
  if (rank > 0) n += snprintf(text + n, sizeof text - (size_t)n, "rank %d: ", rank);
  n += snprintf(text + n, sizeof text - (size_t)n, "%s:%d: ", file, line);
  va_list args;
  va_start(args, format);
  vsnprintf(text + n, sizeof text - (size_t)n, format, args);
  va_end(args);
  if (is_child) {
    fprintf(stderr, "%s\n", text);
    _exit(99);
  }
  printf("%s\n", text);
  fflush(stdout);
  longjmp(leave, 1);
}

void check_near(const char *file, int line, const char *what, double a, double b, double rel) {
  if (a == b || (isfinite(a) && isfinite(b) && fabs(a - b) <= rel * fmax(fabs(a), fabs(b)))) return;
  check_failed(file, line, "%s is %.17g, not within %g of %.17g", what, a, rel, b);
}

void check_text(const char *file, int line, const char *what, const char *a, const char *b) {
  if (!a || !b || strcmp(a, b) != 0) check_failed(file, line, "%s is \"%s\", not \"%s\"", what, a ? a : "(null)", b ? b : "(null)");
}

bool check_fork(void) {
  fflush(NULL);
  child_stderr = tmpfile();
  CHECK(child_stderr);
  child = fork();
  CHECK(child >= 0);
  if (child) return false;
  is_child = true;
  fail_set_hook(NULL);
  CHECK(dup2(fileno(child_stderr), STDERR_FILENO) == STDERR_FILENO);
  return true;
}

void check_died(const char *file, int line, int status, const char *substring) {
  int got;
  while (waitpid(child, &got, 0) < 0) CHECK(errno == EINTR);
  char text[16384];
  rewind(child_stderr);
  size_t n = fread(text, 1, sizeof text - 1, child_stderr);
  fclose(child_stderr);
  text[n] = 0;
  if (WIFEXITED(got) && WEXITSTATUS(got) == status && strstr(text, substring)) return;
  const char *how = WIFEXITED(got) ? "status" : "signal";
  int value = WIFEXITED(got) ? WEXITSTATUS(got) : WTERMSIG(got);
  check_failed(file, line, "ended with %s %d, not status %d with \"%s\"; stderr: %s", how, value, status, substring, text);
}

double check_cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool check_has_few_addresses(void) {
  size_t n;
  char *text = file_read("/proc/self/statm", &n);
  double pages = text ? strtod(text, NULL) : 0;
  free(text);
  return pages * 4096 < 0x1p40;
}

const char *check_folder(void) {
  if (*folder) return folder;
  const char *tmp = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%s/%s.XXXXXX", tmp && *tmp ? tmp : "/tmp", running);
  CHECK(mkdtemp(folder));
  return folder;
}

const char *check_path(const char *name) {
  static char path[4][2 * sizeof folder];
  static int turn;
  turn = (turn + 1) % 4;
  CHECK(snprintf(path[turn], sizeof *path, "%s/%s", check_folder(), name) < (int)sizeof *path);
  return path[turn];
}

static void folder_close(void) {
  if (*folder) try_tree_remove(folder, NULL); /* what stays is the runner's to remove */
  *folder = 0;
}

static bool test_run(const Test *test) {
  running = test->name;
  bool passed = setjmp(leave) == 0;
  if (passed) {
    test->run();
    if (rank == 0) printf("ok %s\n", test->name);
    fflush(stdout);
  }
  folder_close();
  return passed;
}

static bool is_named(const char *name, char **names) {
  for (; *names; names++)
    if (strcmp(*names, name) == 0) return true;
  return false;
}

static void names_check(char **names) {
  for (; *names; names++) {
    bool known = false;
    for (int i = 0; i < n_tests; i++) known = known || strcmp(tests[i].name, *names) == 0;
    if (!known) fail(FAIL_INPUT, "no test '%s'\nhelp: --list prints the names", *names);
  }
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--list") == 0) {
    for (int i = 0; i < n_tests; i++) printf("%s\n", tests[i].name);
    return 0;
  }
  names_check(argv + 1);
  const char *ranks[] = {getenv("OMPI_COMM_WORLD_RANK"), getenv("PMIX_RANK")};
  for (int i = 1; i >= 0; i--)
    if (ranks[i]) rank = atoi(ranks[i]);
  int passed = 0, failed = 0;
  if (check_before) check_before();
  for (int i = 0; i < n_tests; i++) {
    if (argc > 1 && !is_named(tests[i].name, argv + 1)) continue;
    bool ok = test_run(&tests[i]);
    passed += ok;
    failed += !ok;
  }
  if (check_after) check_after();
  if (rank == 0) printf("%d passed, %d failed\n", passed, failed);
  fflush(stdout); /* a leak checker may end the process before the library would */
  return failed ? 1 : 0;
}
