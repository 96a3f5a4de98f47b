#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hpctrain check: what it measures, and whom it finds sick.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/train_case.sh"

# On a machine that is busy with other tests ranks differ by much.
all_is_well() { # RANKS WORD…
  local n=$1
  shift
  expect_run 0 mpi "$n" timeout 60 "$hpctrain" check --slow=3 "$@"
  expect_out '^mpi    '"$n"' rank'
  expect_out '^rate   products .* FLOP/s median, .* FLOP/s least: rank [0-9]+ \([^)]+\)$'
  expect_out '^rate   memory  .*/s median'
  expect_out '^rate   host memory .*/s median'
  expect_out '^rate   pairs on a node .*/s median'
  expect_out '^rate   files, writing .*/s together$'
  expect_out '^rate   files, reading .*/s together$'
  expect_out '^done   all is well; [0-9]+ s$'
}

test_an_allocation_of_ranks_is_measured_within_a_minute() {
  all_is_well 2
  all_is_well 3 run.folder="$PWD/not/yet/there"
  [ ! -e not ] && [ -z "$(find . -name '*check*')" ]
}

test_one_process_without_a_launcher_is_measured_too() {
  write_run
  expect_run 0 timeout 60 "$hpctrain" check t.yaml
  expect_out '^rate   products .* FLOP/s$'
  expect_out '^done   all is well'
  [ ! -e run ]
}

test_a_rank_that_is_slow_is_named() {
  local status=0
  timeout 120 mpirun --oversubscribe -np 3 "$hpctrain" check --slow=40 > out.job 2> err.job < /dev/null &
  local job=$!
  eventually grep -qs '^device' out.job
  slow_down "$(ranks_of $job | sed -n 2p)" &
  local slower=$!
  wait $job || status=$?
  kill $slower 2> /dev/null || :
  expect_equal "$status" 3
  grep -qE '^warn   rank 1 \([^)]+\): (products|memory|host memory) [^;]*, [0-9]+ % of the median' err.job
  grep -qE '^error: not all is well: [0-9]+ findings?, told above$' err.job
  grep -qE '^help: do without the node: sbatch or srun --exclude=.+$' err.job
  ! grep -q '^done' out.job
}

test_a_folder_that_cannot_be_written_is_named() {
  expect_run 3 mpi 2 timeout 60 "$hpctrain" check run.folder=/proc/run
  expect_err '^error: .*no file can be made in /proc: '
  expect_err '^help: give run.folder=PATH'
  expect_equal "$(grep -c '^error:' err)" 1
}

test_words_that_it_does_not_look_at_are_refused() {
  expect_run 2 "$hpctrain" check train.lr=1
  expect_err "'train.lr' is of no use to check"
  expect_run 2 "$hpctrain" check --slow=101
  expect_err '^error: --slow 101: a share of the median, in percent$'
  expect_run 2 "$hpctrain" check absent.yaml
  expect_err 'absent.yaml'
}

check_main "$@"
