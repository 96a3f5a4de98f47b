#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two hundred runs that are killed at random moments: each ends on the bits of a run that is not.  KILLS="FIRST LAST" are other seeds.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/kill_case.sh"

read -r first last <<< "${KILLS:-1 200}"
for seed in $(seq "$first" "$last"); do eval "test_seed_$seed() { kill_case $seed; }"; done
kill_main "$@"
