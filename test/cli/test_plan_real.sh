#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hpctrain plan beside the process: the memory that it plans is what a run on CPUs really has at its peak.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/train_case.sh"

# memory_is_real RANKS WORD…: the plan and the process's own peak (what the kernel says, less what it was after MPI's start) are
# within 5 %.  A large vocabulary makes hundreds of MiB of little arithmetic.
memory_is_real() {
  local ranks=$1 planned real
  shift
  write_run
  cat > t.yaml << 'END'
hpctrain: 1
run: {name: real, folder: run}
model: {vocab_size: 32768, hidden_size: 384, num_hidden_layers: 3, num_attention_heads: 6, num_key_value_heads: 2, intermediate_size: 1024}
data: {train: data.bin}
train: {seq_len: 128, duration: 1 step, global_batch_size: 4 sequences, micro_batch_size: 1, lr: 1e-3, schedule: constant}
checkpoint: {every: none}
cpu: {threads: 1}
END
  expect_run 0 "$hpctrain" plan t.yaml --ranks "$ranks" "$@"
  planned=$(sed -n 's/^fits   \([0-9.]*\) MiB of .*/\1/p' out)
  train "$ranks" "$@"
  real=$(sed -n 's/.*"type":"step".*"memory_gib":\([0-9.e-]*\).*/\1/p' run/metrics.jsonl | tail -n 1)
  rm -rf run
  awk -v planned="$planned" -v real="$real" -v what="$*" 'BEGIN {
    real *= 1024
    printf "note  %s: %.1f MiB planned, %.1f real\n", what, planned, real
    exit !(planned > 300 && real >= planned * 0.95 && real <= planned * 1.05)
  }' >&2
}

test_full_shard() { memory_is_real 2 parallel.strategy=full_shard memory.recompute=none; }
test_no_shard_cheap() { memory_is_real 2 parallel.strategy=no_shard memory.recompute=cheap; }
test_shard_opt_block() { memory_is_real 2 parallel.strategy=shard_opt memory.recompute=block; }
test_shard_grad_op_auto() { memory_is_real 2 parallel.strategy=shard_grad_op 'memory.recompute={auto: 380MiB}'; }
test_hybrid_shard_on_one_of_two() { memory_is_real 2 parallel.strategy=hybrid_shard parallel.shard_degree=1 parallel.hybrid_optimizer=shard; }
test_offload_and_narrow_moments() {
  memory_is_real 1 'memory.offload=[moments,gradients,inputs]' memory.recompute=block precision.moments=bf16 precision.compute=bf16
}

check_main "$@"
