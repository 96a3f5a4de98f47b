#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The models in test/golden on 1 to 4 ranks, by all strategies: a test a combination, of one model with each recomputation, offload and
# number of micro-steps.
. "$(dirname "$0")/golden_case.sh"

for ranks in 1 2 3 4; do
  for strategy in $strategies; do
    for recompute in none cheap block; do
      for offload in none states files; do
        for passes in 1 4; do
          row="llama3-gqa-tied $ranks $strategy $recompute $offload $passes bf16"
          eval "test_${row//[- ]/_}() { way $row; }"
        done
      done
    done
  done
done
for model in $models $more_models; do
  for ranks in 1 2 3 4; do
    for strategy in $strategies; do
      row="$model $ranks $strategy block none 1 fp32"
      eval "test_${row//[- ]/_}() { way $row; }"
    done
  done
done

while read -r row; do
  eval "test_${row//[- ]/_}() { way $row; }"
done < <(printf '%s\n' "$more_models" "1 2 3" "$strategies" "none cheap block" "none moments states files" "1 4" "fp32 bf16" |
  awk -f "$srcdir/test/e2e/pairs.awk")

check_main "$@"
