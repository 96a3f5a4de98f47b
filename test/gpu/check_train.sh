#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Training on GPUs in float32: test/gpu/check_train.sh FOLDER, which holds hpctrain and hpctrain_cuda.so.
#   reference values within the CPU's tolerances, on 1 rank and as many as there are GPUs (4 at most), both strategies
#   the same run twice, and with and without CUDA graphs: the same bits, on one GPU and on several
#   gathers by copy engines and by NCCL: the same bits
#   on a CPU: the same losses, also from a CPU's checkpoint to a GPU and back
. "$(dirname "$0")/gpu_case.sh"

for model in $models; do
  for np in $each; do
    for strategy in no_shard full_shard; do
      judge "$model on $np GPUs, $strategy, equals the reference" verify_on "$np" $model parallel.strategy="$strategy" memory.recompute=block
    done
  done
done

make_tokens 4000
write_run 'preset: llama-5m' 256 30 16 4 'checkpoint: {every: 10 steps}'
train() { timeout 200 "$hpctrain" run.yaml data.val_fraction=0.05 "$@"; }
judge "a run on a GPU" train
judge "the same again" train run.folder=again
judge "the same run twice has the same losses to the last bit" cmp <(losses gpu) <(losses again)
judge "without a CUDA graph" train run.folder=plain gpu.graph=false
judge "losses with and without CUDA graphs are the same to the last bit" cmp <(losses gpu) <(losses plain)
judge "the same on a CPU" train device.kind=cpu run.folder=cpu
judge "a GPU's losses are a CPU's" close gpu cpu 1e-4 30
judge "a CPU begins" train device.kind=cpu run.folder=both train.stop_after=10steps
judge "a GPU goes on" train run.folder=both train.stop_after=20steps
judge "a CPU ends it" train device.kind=cpu run.folder=both
judge "losses through a CPU's checkpoint and a GPU's are a CPU's" close both cpu 1e-5 30

[ "$most" -gt 1 ] || { echo "note  skipped: runs of several GPUs, there is one" && exit $failed; }
many() { run_on "$most" data.val_fraction=0.05 "$@"; }
for strategy in no_shard full_shard; do
  many="$most GPUs, $strategy"
  judge "$many: a run" many parallel.strategy=$strategy run.folder=$strategy
  judge "$many: the same again" many parallel.strategy=$strategy run.folder=$strategy-again
  judge "$many: twice the same losses to the last bit" cmp <(losses $strategy) <(losses $strategy-again)
  judge "$many: without a CUDA graph" many parallel.strategy=$strategy run.folder=$strategy-plain gpu.graph=false
  judge "$many: the same losses to the last bit with and without" cmp <(losses $strategy) <(losses $strategy-plain)
  judge "$many: losses are those of one GPU" close gpu $strategy 1e-4 30
done
judge "$most GPUs, full_shard: gathers go by copy engines" grep -q 'gathers by copy engines' full_shard/attempts/1/banner.txt
for case in fp32-true bf16-true bf16-false; do
  many="$most GPUs, full_shard, ${case%-*}, gpu.graph: ${case#*-}"
  for gathers in copy nccl; do
    judge "$many: gathers by $gathers" many precision.compute="${case%-*}" gpu.graph="${case#*-}" gpu.gathers=$gathers \
      run.folder="$case-$gathers"
  done
  judge "$many: the same losses to the last bit by copy engines and by NCCL" cmp <(losses "$case-copy") <(losses "$case-nccl")
done
exit $failed
