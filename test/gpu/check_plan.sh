#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What hpctrain plan foretells beside what runs do: test/gpu/check_plan.sh FOLDER, which holds hpctrain and hpctrain_cuda.so.
#   1.1B and Llama-2-7B on one GPU and on two, by strategy and offloaded: tokens a second within 15 %, the fullest GPU's memory, by
#   its driver, within 3 %.  The GPUs have to be of a kind that --gpu knows: GPU=h100 names another than h200.
. "$(dirname "$0")/gpu_case.sh"
gpu=${GPU:-h200}

make_tokens 20000
cat > run.yaml << 'END'
hpctrain: 1
run: {name: gpu, folder: gpu}
data: {train: tokens.bin}
train: {lr: 3e-4, schedule: constant}
precision: {compute: bf16}
checkpoint: {every: none}
END
small='model.preset=tinyllama-1.1b train.seq_len=2048 train.micro_batch_size=8 train.duration=16steps'
large='model.preset=llama2-7b train.seq_len=4096 train.micro_batch_size=2 train.duration=4steps'

# GiB that the driver says the fullest GPU has in use, at most while the command runs, in ./used.
watched() {
  local sampler status=0
  nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -lms 200 > samples 2> /dev/null &
  sampler=$!
  "$@" > said 2>&1 || status=$?
  kill "$sampler"
  wait "$sampler" 2> /dev/null
  sort -g samples | tail -n 1 | awk '{ print $1 / 1024 }' > used
  [ $status = 0 ] || tail -n 20 said
  return $status
}
count() { sed -E 's/k$/e3/; s/M$/e6/'; }
near() { # WHAT PLANNED FOUND SHARE
  awk -v what="$1" -v a="$2" -v b="$3" -v most="$4" 'BEGIN {
    d = (a - b) / b
    printf "told : %s planned %.4g, found %.4g, %+.1f %%\n", what, a, b, 100 * d
    exit !(b > 0 && (d < 0 ? -d : d) <= most + 0)
  }'
}
foretold() { # RANKS SEQUENCES WORD…
  local words=(run.yaml "${@:3}" "train.global_batch_size=$2sequences" device.kind=cuda) found speed memory bad=0
  "$hpctrain" plan run.yaml "${@:3}" "train.global_batch_size=$2sequences" --gpu "$gpu" --ranks "$1" > plan || return 1
  rm -rf gpu
  watched timeout 300 mpirun --bind-to none --oversubscribe -np "$1" "$hpctrain" "${words[@]}" || return 1
  found=$(sed -nE 's/.*"type":"step".*"tokens_per_second":([0-9.e+]+).*/\1/p' gpu/metrics.jsonl | tail -n +2 | sort -g |
    awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }')
  speed=$(sed -nE 's/^time .* ([0-9.]+[kM]?) tok.*/\1/p' plan | count)
  memory=$(sed -nE 's/^fits +([0-9.]+) of .*/\1/p' plan)
  near tokens/s "${speed:-0}" "$(awk -v n="$found" -v ranks="$1" 'BEGIN { print n / ranks }')" 0.15 || bad=1
  near GiB "${memory:-0}" "$(cat used)" 0.03 || bad=1
  return $bad
}

# shellcheck disable=SC2086
{
  judge "1.1B" foretold 1 8 $small memory.recompute=none
  judge "1.1B, cheap" foretold 1 8 $small memory.recompute=cheap
  judge "7B" foretold 1 16 $large memory.recompute=cheap
  judge "7B, moments offloaded" foretold 1 16 $large memory.recompute=cheap 'memory.offload=[moments]'
  judge "7B, all states offloaded" foretold 1 16 $large memory.recompute=cheap 'memory.offload=[moments,masters,gradients]'
  if [ "$gpus" -gt 1 ]; then
    for strategy in shard_opt shard_grad_op full_shard; do
      judge "7B, 2 ranks, $strategy" foretold 2 16 $large memory.recompute=cheap parallel.strategy=$strategy
    done
    judge "7B, 2 ranks, reductions by NCCL" foretold 2 16 $large memory.recompute=cheap gpu.reductions=nccl
  fi
}
exit $failed
