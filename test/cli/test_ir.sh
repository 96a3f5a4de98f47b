#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hpctrain ir: every stage of the compiler prints every program, on any number of ranks.
. "$(dirname "$0")/../check.sh"

ir() { expect_run 0 "$hpctrain" ir "$@"; }

test_every_stage_prints_every_program() {
  local stage
  for stage in model recompute shard simplify accumulate schedule fuse; do
    ir --after=$stage
    expect_equal "$(grep '^# ' out | tr '\n' ' ')" "# micro after $stage # update after $stage # eval after $stage "
  done
}

test_passes_of_a_step_are_programs() {
  ir --after=model train.micro_batch_size=2
  expect_equal "$(sed -n 's/^# \(.*\) after model/\1/p' out | tr '\n' ' ')" 'micro.first micro.middle micro.last update eval '
  ir --after=model --program=micro.last train.micro_batch_size=2
  expect_equal "$(grep -c '^# ' out)" 1
}

# What each strategy inserts, and that one rank needs none of it.
test_sharding_inserts_collectives() {
  ir --after=shard --program=micro --ranks=2 parallel.strategy=full_shard
  expect_out 'all_gather' && expect_out 'reduce_scatter'
  ir --after=shard --program=micro --ranks=2 parallel.strategy=no_shard
  expect_out 'all_reduce'
  expect_equal "$(grep -cE 'all_gather|reduce_scatter' out)" 0
  ir --after=shard parallel.strategy=no_shard
  expect_equal "$(grep -cE 'all_gather|reduce_scatter|all_reduce' out)" 0
}

test_recomputation_shows() {
  ir --after=recompute --program=micro memory.recompute=none
  mv out none
  ir --after=recompute --program=micro memory.recompute=block
  [ "$(wc -l < out)" -gt "$(wc -l < none)" ]
}

test_what_is_not_there_is_an_error() {
  expect_run 2 "$hpctrain" ir --after=magic
  expect_err "there is no stage 'magic'"
  expect_err '^help: the stages are model, recompute, precision, shard'
  expect_run 2 "$hpctrain" ir --program=none
  expect_err "no program 'none'"
  expect_run 2 "$hpctrain" ir --ranks=none
}

check_main "$@"
