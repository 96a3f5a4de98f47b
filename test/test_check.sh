#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Whole test programs, in C and in bash, that have something to report: the lines they print and how they end.
. "$(dirname "$0")/check.sh"

# program TESTS: builds ./program from the text of a C test file.
program() {
  { echo '#include "test/check.h"'; cat; } > program.c
  cc -std=c11 -D_GNU_SOURCE -DPKGLIBDIR='""' -I"$srcdir" -o program program.c "$srcdir"/test/check.c "$srcdir"/src/base/*.c -lm
}
three='TEST(one) { EXPECT(1); } TEST(two) { EXPECT(1 < 0); _exit(50); } TEST(three) { EXPECT(1); }'

test_program_goes_on_after_a_failed_test() {
  program <<< "$three"
  expect_run 1 ./program
  expect_equal "$(< out)" $'ok one\nFAILED two: program.c:2: 1 < 0\nok three\n2 passed, 1 failed'
}

test_program_lists_and_runs_by_name() {
  program <<< "$three"
  expect_run 0 ./program --list
  expect_equal "$(< out)" $'one\ntwo\nthree'
  expect_run 0 ./program three
  expect_equal "$(< out)" $'ok three\n1 passed, 0 failed'
  expect_run 2 ./program four
  expect_err "no test 'four'"
}

test_failure_on_another_rank_is_told() {
  program <<< '#include <stdlib.h>
    TEST(one) { EXPECT(1); } TEST(two) { EXPECT(atoi(getenv("OMPI_COMM_WORLD_RANK")) != 1); }'
  expect_run 1 mpi 2 ./program
  expect_out '^FAILED two: rank 1: '
  expect_equal "$(grep -c '^ok one' out)" 1
}

script() {
  { echo ". '$srcdir/test/check.sh'"; cat; echo 'check_main "$@"'; } > script.sh
}

test_script_fails_at_its_first_failing_command() {
  script <<< 'test_bad() { false; touch "$builddir/reached"; }
    test_good() { [ -z "$(ls -A)" ]; }
    test_unset() { : "$nothing_of_this_name"; }'
  expect_run 1 env builddir="$PWD" bash script.sh
  expect_out '^FAILED bad: script.sh:2: false'
  expect_out '^ok good$'
  expect_out '^FAILED unset: .*nothing_of_this_name'
  expect_out '^1 passed, 2 failed$'
  [ ! -e reached ]
}

test_script_runs_in_shares() {
  script <<< 'for n in {1..7}; do eval "test_$n() { :; }"; done'
  expect_equal "$(for i in 1 2 3; do SHARE=$i/3 bash script.sh --list; done | sort | tr -d '\n')" 1234567
  expect_run 0 env SHARE=3/3 bash script.sh
  expect_equal "$(< out)" $'ok 3\nok 6\n2 passed, 0 failed'
}

test_script_expectations_fire() {
  script <<< 'test_status() { expect_run 1 true; }
    test_line() { expect_run 0 echo a; expect_out b; }
    test_equal() { expect_equal a b; }
    test_good() { expect_run 3 sh -c "echo a; echo b >&2; exit 3"; expect_out a; expect_err "^b$"; expect_equal a a; }'
  expect_run 1 bash script.sh
  expect_out '^FAILED status: status 0, not 1: true$'
  expect_out '^FAILED line: no line of out matches: b$'
  expect_out "^FAILED equal: 'a' is not 'b'$"
  expect_out '^1 passed, 3 failed$'
}

check_main "$@"
