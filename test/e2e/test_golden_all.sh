#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The models in test/golden on 1 to 4 ranks, with both strategies, with and without recomputation: a test a combination.  And
# with all off the device that can be, with every strategy of one level.
. "$(dirname "$0")/golden_case.sh"

for model in llama2 llama3-gqa-tied llama-headdim; do
  for ranks in 1 2 3 4; do
    for strategy in no_shard full_shard; do
      for recompute in none block; do
        eval "test_${model//-/_}_${ranks}_ranks_${strategy}_recompute_$recompute() { within $model $ranks $strategy $recompute; }"
      done
    done
  done
done

for strategy in no_shard shard_opt shard_grad_op full_shard; do
  for recompute in none cheap block; do
    for ranks in 1 3; do
      eval "test_${strategy}_${ranks}_ranks_recompute_${recompute}_offloaded() {
        within llama3-gqa-tied $ranks $strategy $recompute precision.compute=bf16 'memory.offload=[moments,masters,gradients,inputs]'
      }"
    done
  done
done

check_main "$@"
