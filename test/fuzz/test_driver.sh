#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The driver of the fuzz targets finds what it is there for, and makes the same case again.
. "$(dirname "$0")/../check.sh"

# found FAULT PATTERN: the case is told and kept, the same one every time, and alone does the same.
found() {
  local first
  export FAULT=$1
  expect_run 1 "$builddir/test/fuzz/planted" --runs 100000
  expect_out "^FAILED planted: case [0-9]+ of seed 1: $2"
  expect_out '^0 passed, 1 failed$'
  first=$(ls fuzz-planted-*)
  grep -q 7 "$first"
  expect_run 1 "$builddir/test/fuzz/planted" --runs 100000
  expect_equal "$(ls fuzz-planted-*)" "$first"
}

test_a_signal_is_found() {
  found signal 'signal 6'
  expect_run 134 "$builddir/test/fuzz/planted" fuzz-planted-*
}
test_an_exit_is_found() { found fail 'it ended with status 2'; }
test_much_memory_is_found() {
  export FAULT=memory
  expect_run 1 "$builddir/test/fuzz/planted" --runs 100000
  expect_out '^FAILED planted: case [0-9]+ of seed 1: memory: '
}
test_nothing_is_found_where_nothing_is() {
  expect_run 0 "$builddir/test/fuzz/planted" --runs 3000
  expect_out '^1 passed, 0 failed$'
}

check_main "$@"
