#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# More ranks than cores: what a rank's start costs does not grow with their number.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/ranks_case.sh"

test_a_rank_starts_alike_among_4_and_among_16() {
  can_count || return 0
  write_run
  starts_alike 4 16
}

test_a_rank_with_conversations_in_buckets_starts_alike_among_2_and_among_6() {
  can_count || return 0
  write_conversations
  starts_alike 2 6
}

# The same check, of a rank that asks the others one by one.
test_a_start_that_grows_is_seen() {
  write_run
  mkdir counts && cd counts
  for ranks in 4 16; do
    for ((r = 0; r < ranks; r++)); do
      for steps in 1 2; do
        printf 'message MPI_Isend %d\ncollective MPI_Bcast 4\nfile open 9\n' $((ranks - 1 + steps)) > $ranks-$steps.counts.$r
      done
    done
  done
  on() { :; }
  ! starts_alike 4 16 2> said || return 1
  expect_equal "$(cat said)" "4 ranks: 3 messages, 4 collectives, 9 files; 16 ranks: 15, 4, 9"
}

test_the_demo_starts_on_16_ranks() { demo_starts 16; }

check_main "$@"
