#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Sixty-four ranks on whatever cores there are.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/ranks_case.sh"

test_64_ranks_start_alike_train_and_stop() {
  can_count || return 0
  write_run
  starts_alike 4 64
}

test_64_ranks_start_alike_with_a_model_and_token_files_from_elsewhere() {
  can_count || return 0
  write_from_elsewhere
  starts_alike 4 64
}

test_64_ranks_go_on_alike_from_a_checkpoint() {
  can_count || return 0
  write_run
  sequences=64
  expect_run 0 mpi 2 "$hpctrain" t.yaml run.folder=base train.global_batch_size=64sequences train.duration=1steps checkpoint.every=1steps
  starts_alike 4 64
}

test_64_ranks_save_and_fewer_go_on() {
  write_run
  expect_run 0 mpi 64 timeout $((300 * slowdown)) "$hpctrain" t.yaml run.folder=a train.global_batch_size=64sequences checkpoint.every=1steps
  expect_run 0 "$hpctrain" ckpt verify a
  expect_run 0 mpi 4 timeout $((60 * slowdown)) "$hpctrain" t.yaml run.folder=a train.global_batch_size=64sequences checkpoint.every=1steps \
    train.duration=3steps parallel.strategy=shard_opt
  expect_out '^done +3 of 3 steps'
}

test_the_demo_starts_on_64_ranks() { demo_starts 64; }

check_main "$@"
