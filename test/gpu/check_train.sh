#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Training on GPUs in float32: test/gpu/check_train.sh FOLDER, which holds hpctrain and hpctrain_cuda.so.
#   reference values within the CPU's tolerances, on 1 rank and as many as there are GPUs (4 at most), both strategies
#   the same run twice, and with and without CUDA graphs: the same bits, on one GPU and on several
#   gathers by copy engines and by NCCL: the same bits
#   on a CPU: the same losses, also from a CPU's checkpoint to a GPU and back
. "$(dirname "$0")/gpu_case.sh"

for model in $models; do
  for np in 1 $([ "$most" -gt 1 ] && echo "$most"); do
    for strategy in no_shard full_shard; do
      files=("$golden/$model" "$golden/$model/golden.safetensors" --train "$golden/$model/train.json")
      judge "$model on $np GPUs, $strategy, equals the reference" timeout 100 mpirun --oversubscribe -np "$np" "$hpctrain" verify \
        "${files[@]}" device.kind=cuda parallel.strategy="$strategy" memory.recompute=block
    done
  done
done

make_tokens 4000
cat > run.yaml << 'END'
hpctrain: 1
run: {name: gpu, folder: gpu}
model: {preset: llama-5m}
data: {train: tokens.bin, val_fraction: 0.05, tokenizer: bytes}
train: {seq_len: 256, duration: 30 steps, global_batch_size: 16 sequences, micro_batch_size: 4, lr: 1e-3, schedule: cosine, warmup: 5 steps}
checkpoint: {every: 10 steps}
END
train() { timeout 200 "$hpctrain" run.yaml "$@"; }
judge "a run on a GPU" train device.kind=cuda
judge "the same again" train device.kind=cuda run.folder=again
judge "the same run twice has the same losses to the last bit" cmp <(losses gpu) <(losses again)
judge "without a CUDA graph" train device.kind=cuda run.folder=plain gpu.graph=false
judge "losses with and without CUDA graphs are the same to the last bit" cmp <(losses gpu) <(losses plain)
judge "the same on a CPU" train device.kind=cpu run.folder=cpu
judge "a GPU's losses are a CPU's" close gpu cpu 1e-4 30
judge "a CPU begins" train device.kind=cpu run.folder=both train.stop_after=10steps
judge "a GPU goes on" train device.kind=cuda run.folder=both train.stop_after=20steps
judge "a CPU ends it" train device.kind=cpu run.folder=both
judge "losses through a CPU's checkpoint and a GPU's are a CPU's" close both cpu 1e-4 30

[ "$most" -gt 1 ] || { echo "note  skipped: runs of several GPUs, there is one" && exit $failed; }
many() { timeout 300 mpirun --oversubscribe -np "$most" "$hpctrain" run.yaml device.kind=cuda "$@"; }
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
