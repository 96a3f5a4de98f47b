/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests.  A test program is a file of TEST(name) { … } linked with test/check.c, which holds main:
 *   test_x            runs all tests: a line "ok NAME" or "FAILED NAME: file:line: why" each, last line "N passed, N failed"
 *   test_x NAME…      runs these
 *   test_x --list     prints the names
 * A test ends at its first expectation that does not hold.  Under mpirun every rank runs every test, rank 0 prints the
 * "ok" lines and all ranks print what failed. */
#ifndef TEST_CHECK_H
#define TEST_CHECK_H

#include <stdbool.h>
#include <unistd.h>

#include "src/base/fail.h"

/* One property each, named for it. */
#define TEST(name)                                                                                                                 \
  static void name(void);                                                                                                          \
  __attribute__((constructor)) static void name##_register(void) { check_add(#name, name); }                                       \
  static void name(void)

/* Run once before the first and after the last test; MPI programs start and end MPI here. */
#define BEFORE_ALL                                                                                                                 \
  static void before_all(void);                                                                                                    \
  __attribute__((constructor)) static void before_all_register(void) { check_before = before_all; }                                \
  static void before_all(void)
#define AFTER_ALL                                                                                                                  \
  static void after_all(void);                                                                                                     \
  __attribute__((constructor)) static void after_all_register(void) { check_after = after_all; }                                   \
  static void after_all(void)

#define EXPECT(e) ((e) ? (void)0 : check_failed(__FILE__, __LINE__, "%s", #e))

/* |a - b| <= rel * max(|a|, |b|).  A NaN is near nothing, an infinity only itself. */
#define EXPECT_NEAR(a, b, rel) check_near(__FILE__, __LINE__, #a, (a), (b), (rel))

#define EXPECT_TEXT(a, b) check_text(__FILE__, __LINE__, #a, (a), (b))

/* Runs the block in a child process, which must end with status kind and leave substring on stderr. */
#define EXPECT_FAIL(kind, substring, ...)                                                                                          \
  do {                                                                                                                             \
    if (check_fork()) {                                                                                                            \
      __VA_ARGS__;                                                                                                                 \
      _exit(0);                                                                                                                    \
    }                                                                                                                              \
    check_died(__FILE__, __LINE__, (kind), (substring));                                                                           \
  } while (0)

/* An empty folder of this test's own (this rank's own under mpirun), removed after it. */
const char *check_folder(void);
const char *check_path(const char *name); /* within it; good until the fourth call after it */

/* Of this process, so far: what a bound on time is of, since the machine may be busy. */
double check_cpu_seconds(void);

/* Whether this process can do with a limit on its addresses, or without more of them: a sanitizer's cannot. */
bool check_has_few_addresses(void);

/* What the macros call. */
extern void (*check_before)(void);
extern void (*check_after)(void);
void check_add(const char *name, void (*run)(void));
_Noreturn void check_failed(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
void check_near(const char *file, int line, const char *what, double a, double b, double rel);
void check_text(const char *file, int line, const char *what, const char *a, const char *b);
bool check_fork(void); /* true in the child */
void check_died(const char *file, int line, int status, const char *substring);

#endif
