#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hpctrain generate: the same text for the same seed from a run or a step, of any length, without MPI.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/train_case.sh"

# A model of four steps in ./run, on one rank.
make_run() {
  write_run
  train 1 train.stop_after=4steps checkpoint.every=2steps "$@"
}

# generate WORD…: its text in ./out.
generate() { expect_run 0 "$hpctrain" generate "$@"; }

test_a_run_is_its_newest_step() {
  make_run
  generate run --prompt 'The ' --tokens 40
  expect_equal "$(head -c 4 out)" 'The '
  expect_equal "$(wc -c < out)" 45
  mv out newest
  generate run/checkpoints/step-00000004 --prompt 'The ' --tokens 40
  cmp out newest
  generate run/checkpoints/step-00000002 --prompt 'The ' --tokens 40
  if cmp -s out newest; then return 1; fi
}

test_the_seed_makes_the_text() {
  make_run
  generate run --tokens 60 --seed 1
  mv out one
  generate run --tokens 60 --seed 1
  cmp out one
  generate run --tokens 60 --seed 2
  if cmp -s out one; then return 1; fi
  generate run --tokens 60 --temperature 0 --seed 1
  mv out greedy
  generate run --tokens 60 --temperature 0 --seed 2
  cmp out greedy
}

test_a_long_text_slides_the_window() {
  local window=0123456789abcdef
  make_run
  generate run --prompt "$window" --tokens 50 --temperature 0
  mv out short
  generate run --prompt "what is before the window does not count $window" --tokens 50 --temperature 0
  expect_equal "$(sed "s/.*$window//" out | head -c 50)" "$(sed "s/.*$window//" short | head -c 50)"
}

test_the_interpreter_says_the_same() {
  make_run
  generate run --prompt 'License' --tokens 12 --temperature 0
  mv out compiled
  generate run --prompt 'License' --tokens 12 --temperature 0 cpu.compiler=none
  cmp out compiled
}

test_mpi_is_not_started() {
  make_run
  export OMPI_MCA_pml=none
  generate run --tokens 3
}

test_a_damaged_step_is_passed_over() {
  make_run
  truncate -s -100 run/checkpoints/step-00000004/model.h5
  generate run --tokens 3
  expect_err 'step-00000004'
  expect_err '^model .*step-00000002'
}

test_what_cannot_be_spoken_is_an_error() {
  make_run
  expect_run 2 "$hpctrain" generate run data.tokenizer=none
  expect_err 'the run knows no tokenizer'
  expect_run 2 "$hpctrain" generate nowhere
  expect_err 'nowhere'
  expect_err '^help: '
  expect_run 2 "$hpctrain" generate
  expect_run 2 "$hpctrain" generate run --tokens many
  expect_run 2 "$hpctrain" generate run --temperature -1
  expect_run 2 "$hpctrain" generate run --tokens
  expect_run 2 "$hpctrain" generate run --colour
  expect_err "what is '--colour'"
  expect_run 2 "$hpctrain" generate run train.lr=0.1
  expect_err "'train.lr' is of no use to generate"
}

check_main "$@"
