#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Training on GPUs in 16 bits: test/gpu/check_precision.sh FOLDER, which holds hpctrain and hpctrain_cuda.so.
#   reference values within what bf16 and fp16 cost, on 1 rank and as many as there are GPUs (4 at most)
#   bf16 on all of them: the same run twice, with an empty kernel cache, and with a stop in between: the same bits
#   with moments in bf16: near the reference, the same bits twice and with a stop in between, losses near those without
#   a bf16 checkpoint of GPUs goes on on a CPU, and back
. "$(dirname "$0")/gpu_case.sh"

reference() { # MODEL RANKS STRATEGY PRECISION RECOMPUTE
  local files=("$golden/$1" "$golden/$1/golden.safetensors" --train "$golden/$1/train.json")
  judge "$1 on $2 GPUs, $3, $4, recompute $5, is near the reference" timeout 100 mpirun --oversubscribe -np "$2" "$hpctrain" verify \
    "${files[@]}" device.kind=cuda parallel.strategy="$3" precision.compute="$4" memory.recompute="$5"
}
reference_of_moments() { # RANKS STRATEGY
  local files=("$golden/llama2" "$golden/llama2/golden.safetensors" --train "$golden/llama2/train.json")
  judge "llama2 on $1 GPUs, $2, bf16 moments, is near the reference" timeout 100 mpirun --oversubscribe -np "$1" "$hpctrain" verify \
    "${files[@]}" device.kind=cuda parallel.strategy="$2" precision.moments=bf16
}
reference_of_moments 1 no_shard
reference_of_moments "$most" full_shard
for model in $models; do
  reference $model 1 no_shard bf16 none
  reference $model "$most" full_shard bf16 cheap
done
reference llama2 1 no_shard fp16 cheap
reference llama3-gqa-tied "$most" full_shard fp16 block

make_tokens 4000
cat > run.yaml << 'END'
hpctrain: 1
run: {name: bf16, folder: straight}
model: {preset: llama-5m}
data: {train: tokens.bin, tokenizer: bytes}
train: {seq_len: 256, duration: 30 steps, global_batch_size: 16 sequences, micro_batch_size: 2, lr: 1e-3, schedule: cosine, warmup: 5 steps}
precision: {compute: bf16}
memory: {recompute: cheap}
checkpoint: {every: 30 steps}
END
train() { timeout 200 mpirun --oversubscribe -np "$most" "$hpctrain" run.yaml "$@"; }
same() { judge "$most GPUs, bf16: $1, the same losses to the last bit" cmp <(losses straight) <(losses "$2"); }
judge "$most GPUs, bf16: a run" train device.kind=cuda
judge "$most GPUs, bf16: the same again" train device.kind=cuda run.folder=again
same "twice" again
XDG_CACHE_HOME=$work/empty judge "$most GPUs, bf16: with an empty cache" train device.kind=cuda run.folder=cold
same "with an empty cache" cold
judge "$most GPUs, bf16: a stop" train device.kind=cuda run.folder=stopped train.stop_after=13steps
judge "$most GPUs, bf16: going on" train device.kind=cuda run.folder=stopped
same "with a stop in between" stopped
brief="precision.moments=bf16"
judge "$most GPUs, bf16, bf16 moments: a run" train device.kind=cuda run.folder=moments $brief
judge "$most GPUs, bf16, bf16 moments: the same again" train device.kind=cuda run.folder=moments-again $brief
judge "$most GPUs, bf16, bf16 moments: a stop" train device.kind=cuda run.folder=moments-stopped $brief train.stop_after=13steps
judge "$most GPUs, bf16, bf16 moments: going on" train device.kind=cuda run.folder=moments-stopped $brief
for other in again stopped; do
  judge "$most GPUs, bf16, bf16 moments, $other: the same losses to the last bit" cmp <(losses moments) <(losses moments-$other)
done
judge "$most GPUs, bf16: losses with bf16 moments are near those with float32's" close straight moments 3e-2 30
judge "$most GPUs, bf16: to be handed on" train device.kind=cuda run.folder=both train.stop_after=10steps
judge "a CPU goes on with it" train device.kind=cpu run.folder=both train.stop_after=20steps
judge "$most GPUs take it back" train device.kind=cuda run.folder=both
judge "losses through a CPU are near those of GPUs alone" close straight both 1e-2 30
exit $failed
