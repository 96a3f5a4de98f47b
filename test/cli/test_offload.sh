#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# memory.offload from the command line: runs that go on with what was elsewhere at home, and the other way round.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/train_case.sh"

all='memory.offload=[moments,masters,gradients,inputs]'

# On ranks, under strategies that share out different things, with gradients added up over passes.
test_offloading_changes_no_bit_of_any_strategy() {
  local strategy
  write_run
  for strategy in shard_opt shard_grad_op full_shard; do
    train 3 precision.compute=bf16 memory.recompute=cheap train.micro_batch_size=1 parallel.strategy=$strategy run.folder=$strategy
    train 3 precision.compute=bf16 memory.recompute=cheap train.micro_batch_size=1 parallel.strategy=$strategy run.folder=$strategy.off "$all"
    expect_same $strategy $strategy.off
  done
}
# Gradients that every rank has whole: the last pass adds to them and reduces them where they lie.
test_offloading_changes_no_bit_of_whole_gradients() {
  local keys=(train.micro_batch_size=1)
  write_run
  train 2 "${keys[@]}" parallel.strategy=no_shard run.folder=a
  train 2 "${keys[@]}" parallel.strategy=no_shard run.folder=b memory.offload=gradients
  expect_same a b
  train 2 "${keys[@]}" parallel.ignore='["*embed*", "*mlp*"]' run.folder=c
  train 2 "${keys[@]}" parallel.ignore='["*embed*", "*mlp*"]' run.folder=d memory.offload=gradients device.kind=apart
  expect_same c d
}
# By the host's cores as by the device, on ranks that share out different things, and by turns.
test_the_host_updates_to_the_bits_of_the_device() {
  local strategy keys=(precision.compute=bf16 train.micro_batch_size=2)
  local host=("$all" memory.optimizer=host)
  write_run
  for strategy in shard_opt full_shard; do
    train 2 "${keys[@]}" parallel.strategy=$strategy run.folder=$strategy
    train 2 "${keys[@]}" parallel.strategy=$strategy run.folder=$strategy.host "${host[@]}" device.kind=apart
    expect_same $strategy $strategy.host
  done
  train 2 "${keys[@]}" run.folder=turns "${host[@]}" train.stop_after=3steps
  train 2 "${keys[@]}" run.folder=turns train.stop_after=6steps
  train 2 "${keys[@]}" run.folder=turns "${host[@]}"
  expect_same full_shard turns
}
test_what_is_offloaded_may_change_between_attempts() {
  write_run
  local keys=(precision.compute=bf16 memory.recompute=block)
  train 1 "${keys[@]}" run.folder=a
  train 2 "${keys[@]}" run.folder=b "$all" train.stop_after=5steps device.kind=apart train.micro_batch_size=3
  train 1 "${keys[@]}" run.folder=b
  expect_close a b 1e-3
  train 1 "${keys[@]}" run.folder=c train.stop_after=5steps
  train 1 "${keys[@]}" run.folder=c "$all" device.kind=apart
  expect_same a c
}
test_moments_in_files_come_back_from_a_checkpoint() {
  write_run
  mkdir scratch
  local files=(memory.offload=moments memory.offload_folder=scratch)
  train 2 run.folder=a
  train 2 "${files[@]}" run.folder=b train.stop_after=5steps device.kind=apart
  expect_equal "$(ls scratch)" ""
  train 2 "${files[@]}" run.folder=b
  expect_same a b
}
test_a_folder_for_files_is_there_and_of_use() {
  write_run
  fails 2 2 memory.offload=moments memory.offload_folder=nowhere
  expect_err '^error: no file can be made in nowhere: No such file or directory$'
  expect_err '^ +--> argument [0-9]+: memory\.offload_folder=nowhere$'
  [ ! -e run/attempts/1 ]
  fails 2 1 memory.offload=gradients memory.offload_folder=.
  expect_err "'memory.offload_folder' has no use here"
  fails 2 1 memory.offload=moments memory.offload_folder=. cpu.compiler=none
  expect_err 'files are for compiled programs'
}
test_a_full_folder_for_files_is_refused_before_there_is_an_attempt() {
  write_run
  mkdir small
  mount -t tmpfs -o size=220k none small 2> /dev/null || { echo "note  nothing can be mounted here" >&2; return 0; }
  trap 'umount -l "$PWD/small"' EXIT
  fails 2 2 memory.offload=moments memory.offload_folder=small
  expect_err '^error: small has no room for the moments of 2 ranks: they need [0-9.]+ kB, it has 22[0-9] kB$'
  expect_err '^ +--> argument [0-9]+: memory\.offload_folder=small$'
  [ ! -e run/attempts/1 ]
  train 2 memory.offload=moments memory.offload_folder=small precision.moments=bf16
}
test_masters_are_there_in_bf16_alone() {
  write_run
  fails 2 1 memory.offload=masters
  expect_err 'memory.offload=masters'
}

check_main "$@"
