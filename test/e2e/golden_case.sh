# SPDX-License-Identifier: Apache-2.0
# What tests of the models in test/golden share: logits, gradients and 20 training steps by hpctrain verify.
. "$(dirname "${BASH_SOURCE[0]}")/../check.sh"
golden=$srcdir/test/golden
export XDG_CACHE_HOME=${TMPDIR:-/tmp}/cache # kernels are compiled once for all tests of a file

verify() {
  local model=$1 ranks=$2
  shift 2
  mpi "$ranks" "$hpctrain" verify "$golden/$model" "$golden/$model/golden.safetensors" --train "$golden/$model/train.json" "$@"
}

# within MODEL RANKS STRATEGY RECOMPUTE [KEY=VALUE…]
within() {
  local model=$1 ranks=$2 strategy=$3 recompute=$4
  shift 4
  expect_run 0 verify "$model" "$ranks" "parallel.strategy=$strategy" "memory.recompute=$recompute" "$@"
  expect_out '^all within tolerance$'
  expect_out '^ok +logits '
  expect_out '^ok +grad\.model\.embed_tokens\.weight '
  expect_out '^ok +loss, worst of 20 steps '
}
