# SPDX-License-Identifier: Apache-2.0
# What tests of the models in test/golden share: logits, gradients and 20 training steps by hpctrain verify.
. "$(dirname "${BASH_SOURCE[0]}")/../check.sh"
golden=$srcdir/test/golden
share_kernels

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
  expect_out '^ok +grad\.(model\.embed_tokens|transformer\.wte)\.weight '
  expect_out '^ok +loss, worst of 20 steps '
}

# way MODEL RANKS STRATEGY RECOMPUTE OFFLOAD PASSES PRECISION: full_whole accumulates whole gradients, hybrid_across shares out the
# update, states are all that may lie in the host's memory, files hold moments.
way() {
  local keys=("parallel.strategy=${3/%across/shard}" "memory.recompute=$4" "precision.compute=$7")
  case $3 in
    full_whole) keys[0]=parallel.strategy=full_shard keys+=(parallel.accumulate=whole) ;;
    hybrid_*) keys+=("parallel.shard_degree=$(($2 == 4 ? 2 : 1))") ;;
  esac
  [ "$3" != hybrid_across ] || keys+=(parallel.hybrid_optimizer=shard)
  case $5 in
    moments) keys+=('memory.offload=[moments]') ;;
    states) keys+=("memory.offload=[moments, gradients, inputs$([ "$7" = fp32 ] || echo , masters)]") ;;
    files) keys+=('memory.offload=[moments]' "memory.offload_folder=$PWD/offload") && mkdir -p offload ;;
  esac
  expect_run 0 verify "$1" "$2" --passes "$6" "${keys[@]}"
  expect_out '^all within tolerance$'
  expect_out '^ok +loss, worst of 20 steps '
}
models="llama2 llama3-gqa-tied llama-headdim" more_models="qwen2 qwen3 mistral-window gpt2 mixtral"
strategies="no_shard shard_opt shard_grad_op full_shard full_whole hybrid_shard hybrid_across"
