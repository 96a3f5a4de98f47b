#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Random changes of what is trained, where and by whom; DRAWS="FIRST LAST" draws other seeds.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/draw_case.sh"

read -r first last <<< "${DRAWS:-1 20}"
for seed in $(seq "$first" "$last"); do eval "test_seed_$seed() { drawn $seed; }"; done

check_main "$@"
