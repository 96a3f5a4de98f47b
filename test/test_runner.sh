#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The runner itself must fire: each test hands it a program that goes wrong in one way.
. "$(dirname "$0")/check.sh"

# program NAME <<TEXT: a test program in this folder, which is the runner's build folder.
program() {
  { echo '#!/bin/bash'; cat; } > "$1"
  chmod +x "$1"
  echo "$1 quick ${2:--} ${3:-20} $1" >> plan
}
runner() {
  local status=$1
  shift
  expect_run "$status" env -u builddir PLAN=plan "$srcdir/test/runner.sh" "$@"
}
good='if [ "$1" = --list ]; then printf "a\nb\n"; exit; fi'

test_good_program_passes() {
  program good <<< "$good; echo ok a; echo ok b; echo 2 passed, 0 failed"
  runner 0 quick
  expect_equal "$(tail -n 1 out)" '2 passed, 0 failed'
}

test_failed_test_is_counted_and_named() {
  program bad <<< "$good; echo ok a; echo 'FAILED b: x.c:3: 1 == 2'; echo 1 passed, 1 failed; exit 1"
  runner 1 quick
  expect_out '^FAILED b: x.c:3: 1 == 2$'
  expect_out 'again .*/bad'
  expect_equal "$(tail -n 1 out)" '1 passed, 1 failed'
}

test_early_death_fails() {
  program dies <<< "$good; echo ok a; kill -9 \$\$"
  runner 1 quick
  expect_out 'FAILED b: planned, but did not run'
  expect_equal "$(tail -n 1 out)" '1 passed, 2 failed'
}

test_early_silent_end_fails() {
  program ends <<< "$good; echo ok a; exit 0"
  runner 1 quick
  expect_out 'before its closing line'
}

test_listing_more_than_is_run_fails() {
  program lists_more <<< "$good; echo ok a; echo 1 passed, 0 failed"
  runner 1 quick
  expect_out 'FAILED b: planned, but did not run'
  expect_equal "$(tail -n 1 out)" '1 passed, 2 failed'
}

test_running_more_than_is_listed_fails() {
  program runs_more <<< "$good; echo ok a; echo ok b; echo ok c; echo 3 passed, 0 failed"
  runner 1 quick
  expect_out 'FAILED c: ran, but --list does not name it'
}

test_empty_list_fails() {
  program empty <<< 'echo 0 passed, 0 failed'
  : > listed_nothing
  program none <<< '[ "$1" = --list ] || echo 0 passed, 0 failed'
  runner 1 quick none
  expect_out 'names no test'
}

test_status_without_a_failed_test_fails() {
  program status <<< "$good; echo ok a; echo ok b; echo 2 passed, 0 failed; exit 7"
  runner 1 quick
  expect_out 'ended with status 7'
}

test_hanging_program_fails_in_time() {
  program hangs - 1 <<< "$good; echo ok a; sleep 60"
  runner 1 quick
  expect_out 'ran out of time'
}

test_missing_program_fails() {
  echo 'gone quick - 20 test/unit/test_gone' > plan
  runner 1 quick
  expect_out 'FAILED \(program\)'
}

test_empty_plan_fails() {
  : > plan
  runner 1 quick
  expect_equal "$(tail -n 1 out)" '0 passed, 1 failed'
}

test_failure_of_a_later_rank_is_seen() {
  command -v mpirun > /dev/null
  program ranks 2 <<< "$good"'
    if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then echo "FAILED b: rank 1: x.c:3: y"; exit 1; fi
    echo ok a; echo ok b; echo 2 passed, 0 failed'
  runner 1 quick
  expect_out 'FAILED b: rank 1'
}

test_ending_the_runner_ends_its_program() {
  program sleeps <<< "$good; echo \$\$ > pid; exec sleep 60"
  env -u builddir PLAN=plan "$srcdir/test/runner.sh" quick > out 2>&1 < /dev/null &
  local runner=$! i
  for ((i = 0; i < 200; i++)); do
    [ -s pid ] && break
    sleep 0.05
  done
  kill "$runner"
  wait "$runner" || expect_equal $? 143
  for ((i = 0; i < 200; i++)); do
    kill -0 "$(< pid)" 2> /dev/null || return 0
    sleep 0.05
  done
  return 1
}

# two_programs A B: each waits up to 4 s for the other to have started, which only side by side it has.
two_programs() {
  local name
  for name in one two; do
    program $name <<< "$good; touch $name.began
      for ((i = 0; i < 80; i++)); do [ -e one.began ] && [ -e two.began ] && break; sleep 0.05; done
      [ \$i -lt 80 ] && echo ok a || echo FAILED a: alone
      [ $name = two ] || sleep 0.3
      echo ok b; [ \$i -lt 80 ] && echo 2 passed, 0 failed || { echo 1 passed, 1 failed; exit 1; }"
  done
}

test_two_programs_run_at_a_time_and_speak_in_the_plan_s_order() {
  two_programs
  runner 0 quick -j 2
  expect_equal "$(tail -n 1 out)" '4 passed, 0 failed'
  expect_equal "$(sed -nE 's/^ok +(one|two) .*/\1/p' out | tr '\n' ' ')" 'one two '
}

test_one_at_a_time_is_one_at_a_time() {
  two_programs
  runner 1 quick -j 1
  expect_out 'FAILED a: alone'
}

test_number_of_programs_at_a_time_is_a_number() {
  program good <<< "$good; echo ok a; echo ok b; echo 2 passed, 0 failed"
  local word
  for word in 0 two -1 ''; do
    runner 2 quick -j $word
    expect_err '^usage: '
  done
}

test_note_of_a_program_is_shown() {
  program notes <<< "$good; echo 'note  no network' >&2; echo ok a; echo ok b; echo 2 passed, 0 failed"
  runner 0 quick
  expect_out '^ *note  no network$'
}

test_tiers_include_the_faster_ones() {
  program first <<< "$good; echo ok a; echo ok b; echo 2 passed, 0 failed"
  sed 's/^first quick/second suite/; s/^first/third/' plan > more
  sed 's/^first quick/third slow/' plan >> more
  cat more >> plan
  runner 0 quick
  expect_equal "$(tail -n 1 out)" '2 passed, 0 failed'
  runner 0 suite
  expect_equal "$(tail -n 1 out)" '4 passed, 0 failed'
  runner 0 slow
  expect_equal "$(tail -n 1 out)" '6 passed, 0 failed'
}

check_main "$@"
