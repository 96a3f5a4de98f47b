#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Twenty runs that are killed at random moments: each ends on the bits of a run that is not.  Two hundred are in test_kills_all.sh.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/kill_case.sh"

for seed in {1..20}; do eval "test_seed_$seed() { kill_case $seed; }"; done
kill_main "$@"
