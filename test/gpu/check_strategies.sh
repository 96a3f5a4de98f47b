#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Strategies on several GPUs: test/gpu/check_strategies.sh FOLDER, which holds hpctrain and hpctrain_cuda.so.
#   each, in fp32 and bf16: the same bits twice, with a CUDA graph and without, and its losses those of one GPU
#   gathers and reductions by copy engines and by NCCL: the same bits (of two ranks: sums of more have another order)
#   from one strategy's checkpoint to another's
. "$(dirname "$0")/gpu_case.sh"
[ "$most" -gt 1 ] || { echo "note  skipped: one GPU has nobody to share with" && exit 0; }

make_tokens 4000
write_run 'preset: llama-5m' 256 16 32 4 'checkpoint: {every: 8 steps}'
many() { run_on "$most" "$@"; }
half=$((most > 2 ? most / 2 : 1))
declare -A keys=([no_shard]="" [shard_opt]="" [shard_grad_op]="" [full_shard]="" [hybrid_shard]="parallel.shard_degree=$half"
  [hybrid_across]="parallel.shard_degree=$half parallel.hybrid_optimizer=shard")

for precision in fp32 bf16; do
  judge "one GPU, $precision" run_on 1 precision.compute=$precision run.folder=one-$precision
  for way in no_shard shard_opt shard_grad_op full_shard hybrid_shard hybrid_across; do
    name=$way-$precision
    # shellcheck disable=SC2206
    words=(precision.compute=$precision parallel.strategy=${way/across/shard} ${keys[$way]})
    judge "$name" many "${words[@]}" run.folder="$name"
    judge "$name: losses are those of one GPU" close one-$precision "$name" "$([ $precision = fp32 ] && echo 1e-4 || echo 1e-2)" 16
    judge "$name: again, by NCCL and without a CUDA graph" many "${words[@]}" run.folder="$name-nccl" gpu.gathers=nccl gpu.reductions=nccl \
      gpu.graph=false
    if [ "$most" = 2 ]; then
      judge "$name: the same losses to the last bit" cmp <(losses "$name") <(losses "$name-nccl")
    else
      judge "$name: near the same losses" close "$name" "$name-nccl" 1e-3 16
    fi
  done
done

judge "full_shard begins" many run.folder=turns parallel.strategy=full_shard train.stop_after=8steps
judge "hybrid_shard ends it" many run.folder=turns parallel.strategy=hybrid_shard parallel.shard_degree=$half parallel.hybrid_optimizer=shard
judge "losses through both are those of one GPU" close one-fp32 turns 1e-4 16
judge "gradients travel in bf16, and are added in fp32" many run.folder=narrow precision.compute=bf16 precision.reduce=bf16
judge "... which costs little" close one-bf16 narrow 1e-2 16
exit $failed
