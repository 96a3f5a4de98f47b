#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# memory.offload from the command line: runs that go on with what was elsewhere at home, and the other way round.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/train_case.sh"

all='memory.offload=[moments,masters,gradients,inputs]'

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
test_masters_are_there_in_bf16_alone() {
  write_run
  fails 2 1 memory.offload=masters
  expect_err 'memory.offload=masters'
}

check_main "$@"
