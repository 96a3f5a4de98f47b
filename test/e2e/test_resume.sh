#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs go on on any ranks, by any strategy, alone or under a launcher: with the losses of a run that was never stopped, and with the
# same sequences in the same order.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/resume_case.sh"

legs=("by_mpirun 2 full_shard" "by_mpirun 4 no_shard" "alone 1 shard_grad_op" "by_mpirun 3 shard_opt" "by_mpirun 4 hybrid_shard 2"
  "alone 1 no_shard" "by_mpirun 2 shard_opt")
test_losses_stay() { expect_same_losses "${legs[@]}"; }
test_the_order_of_the_data_stays() { expect_same_data "${legs[@]}"; }

check_main "$@"
