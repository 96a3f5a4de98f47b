#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Training on GPUs in 16 bits: test/gpu/check_precision.sh FOLDER, which holds hpctrain and hpctrain_cuda.so.
#   reference values within what bf16 and fp16 cost, on 1 rank and as many as there are GPUs (4 at most)
#   bf16 on all of them: the same run twice, with an empty kernel cache, and with a stop in between: the same bits
#   with moments in bf16: near the reference, the same bits twice and with a stop in between, losses near those without
#   a bf16 checkpoint of GPUs goes on on a CPU, and back
. "$(dirname "$0")/gpu_case.sh"

reference() { # MODEL RANKS STRATEGY PRECISION RECOMPUTE
  judge "$1 on $2 GPUs, $3, $4, recompute $5, is near the reference" verify_on "$2" "$1" parallel.strategy="$3" precision.compute="$4" \
    memory.recompute="$5"
}
reference_of_moments() { # RANKS STRATEGY
  judge "llama2 on $1 GPUs, $2, bf16 moments, is near the reference" verify_on "$1" llama2 parallel.strategy="$2" precision.moments=bf16
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
write_run 'preset: llama-5m' 256 30 16 2 'precision: {compute: bf16}' 'memory: {recompute: cheap}' 'checkpoint: {every: 30 steps}'
train() { run_on "$most" "$@"; }
same() { judge "$most GPUs, bf16: $1, the same losses to the last bit" cmp <(losses straight) <(losses "$2"); }
judge "$most GPUs, bf16: a run" train run.folder=straight
judge "$most GPUs, bf16: the same again" train run.folder=again
same "twice" again
XDG_CACHE_HOME=$work/empty judge "$most GPUs, bf16: with an empty cache" train run.folder=cold
same "with an empty cache" cold
judge "$most GPUs, bf16: a stop" train run.folder=stopped train.stop_after=13steps
judge "$most GPUs, bf16: going on" train run.folder=stopped
same "with a stop in between" stopped
brief="precision.moments=bf16"
judge "$most GPUs, bf16, bf16 moments: a run" train run.folder=moments $brief
judge "$most GPUs, bf16, bf16 moments: the same again" train run.folder=moments-again $brief
judge "$most GPUs, bf16, bf16 moments: a stop" train run.folder=moments-stopped $brief train.stop_after=13steps
judge "$most GPUs, bf16, bf16 moments: going on" train run.folder=moments-stopped $brief
for other in again stopped; do
  judge "$most GPUs, bf16, bf16 moments, $other: the same losses to the last bit" cmp <(losses moments) <(losses moments-$other)
done
judge "$most GPUs, bf16: losses with bf16 moments are near those with float32's" close straight moments 3e-2 30
judge "$most GPUs, bf16: to be handed on" train run.folder=both train.stop_after=10steps
judge "a CPU goes on with it" train device.kind=cpu run.folder=both train.stop_after=20steps
judge "$most GPUs take it back" train run.folder=both
judge "losses through a CPU are near those of GPUs alone" close straight both 1e-2 30
exit $failed
