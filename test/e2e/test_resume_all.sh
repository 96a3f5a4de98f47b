#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One run that goes from every strategy to every other, its ranks changing on the way.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/resume_case.sh"

# Of 5 strategies, 1, 2, … 4 further in turn: each ordered pair once, and back at the first.
strategies=(no_shard shard_opt shard_grad_op full_shard hybrid_shard)
legs=("by_mpirun 2 no_shard")
at=0
for by in 1 2 3 4; do
  for k in 1 2 3 4 5; do
    at=$(((at + by) % 5))
    n=$(((k + by) % 4 + 1))
    legs+=("by_mpirun $n ${strategies[at]}$([ "$n ${strategies[at]}" != '4 hybrid_shard' ] || echo ' 2')")
  done
done
test_losses_stay() { expect_same_losses "${legs[@]}"; }
test_the_order_of_the_data_stays() { expect_same_data "${legs[@]}"; }

check_main "$@"
