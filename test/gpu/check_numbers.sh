#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Numbers gone wrong, on GPUs: test/gpu/check_numbers.sh FOLDER, which holds hpctrain and hpctrain_cuda.so.
#   with health's keys at their defaults, and with spikes looked for that do not come, the same bits; what that costs
#   a spike is skipped on a CPU, on one GPU and on several in the same step; resumed in between it is, too
#   back to a checkpoint within the job, with gathers by copy engines: the bits of a run that was stopped behind it and went on
#   replicas agree while a run goes well, whole, in halves, in groups and offloaded; what comparing them takes
#   a gradient that overflows is found: sample, rank and tensor
#   each step twice: the same bits
. "$(dirname "$0")/gpu_case.sh"

# Two epochs of a text that is learnt by heart, with one line of another kind: a spike in the second.
for i in $(seq 450); do
  printf 'the tide came in'
  [ "$i" != 300 ] || printf '#9Z~!qW{}|%%^&*()'
done > odd
"$hpctrain" tokenize odd.bin odd > /dev/null
cat > odd.yaml << 'END'
hpctrain: 1
run: {name: odd, folder: odd}
model: {vocab_size: 256, hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 96}
data: {train: odd.bin, tokenizer: bytes}
train: {seq_len: 16, duration: 200 steps, global_batch_size: 4 sequences, micro_batch_size: 1, lr: 3e-3, schedule: constant, warmup: 2 steps}
checkpoint: {every: 60 steps}
device: {kind: cuda}
END
make_tokens 4000
cat > run.yaml << 'END'
hpctrain: 1
run: {name: gpu, folder: gpu}
model: {preset: llama-124m}
data: {train: tokens.bin, tokenizer: bytes}
train: {seq_len: 512, duration: 40 steps, global_batch_size: 32 sequences, micro_batch_size: 4, lr: 1e-3, schedule: cosine, warmup: 5 steps}
precision: {compute: bf16}
checkpoint: {every: none}
device: {kind: cuda}
END
odd() { # RANKS WORD…
  timeout 300 mpirun --oversubscribe -np "$1" "$hpctrain" odd.yaml "${@:2}"
}
several() { # RANKS WORD…
  timeout 300 mpirun --oversubscribe -np "$1" "$hpctrain" run.yaml "${@:2}"
}
same() { [ -n "$(losses "$1")" ] && cmp <(losses "$1") <(losses "$2"); } # A B: to the last bit
skipped() { sed -nE 's/^\{"type":"step","step":([0-9]+),.*"skipped":"([a-z_]+)".*/\1 \2/p' "$1/metrics.jsonl"; }
same_skips() { [ -n "$(skipped "$1")" ] && cmp <(skipped "$1") <(skipped "$2") && echo "told : step $(skipped "$1")"; }
twice() { # RANKS WORD…
  several "$@" run.debug=determinism train.stop_after=10steps > twice.out 2>&1 || { cat twice.out && return 1; }
  grep '^twice  10 of 10 steps' twice.out || { grep '^warn\|^twice' twice.out && return 1; }
}
seconds() { # RUN_FOLDER: of its last 20 steps, all together
  sed -nE 's/.*"type":"step".*"seconds":([0-9.e-]+).*/\1/p' "$1/metrics.jsonl" | tail -n 20 | awk '{ s += $1 } END { print s }'
}
compared() { # A B: time of the steps, and how much longer the job took in all
  echo "told : $(seconds "$1") s a 20 steps, $(seconds "$2") s with"
}

judge "a spike on a CPU" odd 1 run.folder=cpu health.spike=6 device.kind=cpu
for ranks in 1 $([ "$most" -gt 1 ] && echo 2) $([ "$most" -gt 3 ] && echo 4); do
  judge "$ranks: a spike" odd "$ranks" run.folder="$ranks" health.spike=6
  judge "$ranks: ... is skipped where the CPU skips it" same_skips cpu "$ranks"
  judge "$ranks: half a run" odd "$ranks" run.folder="$ranks-two" health.spike=6 train.stop_after=150steps
  judge "$ranks: ... and half" odd "$ranks" run.folder="$ranks-two" health.spike=6
  judge "$ranks: ... the same bits" same "$ranks" "$ranks-two"
  for how in copy nccl; do
    judge "$ranks: back ($how)" odd "$ranks" run.folder="$ranks-$how" health.spike=6 health.on_spike=back gpu.gathers=$how
    judge "$ranks: ... it did" grep -q '"type":"back"' "$ranks-$how/metrics.jsonl"
  done
  judge "$ranks: ... either way the same bits" same "$ranks-copy" "$ranks-nccl"
  judge "$ranks: back, stopped behind it" odd "$ranks" run.folder="$ranks-stop" health.spike=6 health.on_spike=back train.stop_after=190steps
  judge "$ranks: ... and on" odd "$ranks" run.folder="$ranks-stop" health.spike=6 health.on_spike=back
  judge "$ranks: ... the same bits" same "$ranks-copy" "$ranks-stop"

  judge "$ranks: defaults" several "$ranks" run.folder="$ranks-plain" health.replicas_every=none
  judge "$ranks: spikes that do not come" several "$ranks" run.folder="$ranks-spikes" health.spike=1000 health.replicas_every=none
  judge "$ranks: ... the same bits" same "$ranks-plain" "$ranks-spikes"
  judge "$ranks: each step twice" twice "$ranks" run.folder="$ranks-twice"
done

if [ "$most" -gt 1 ]; then
  all=moments,masters,gradients
  for words in "parallel.strategy=no_shard" "parallel.strategy=no_shard precision.moments=bf16" "parallel.ignore=*norm*" \
    "parallel.strategy=no_shard memory.offload=[$all] memory.optimizer=host" \
    $([ "$most" -gt 3 ] && echo "parallel.strategy=hybrid_shard;parallel.shard_degree=2"); do
    read -ra words <<< "${words//;/ }"
    judge "$most: ${words[*]}" several "$most" run.folder=apart "${words[@]}" health.replicas_every=none
    judge "$most: ... replicas compared every second step" several "$most" run.folder=alike "${words[@]}" health.replicas_every=2steps
    judge "$most: ... the same bits" same apart alike
    judge "$most: ... and its price" compared apart alike
    rm -rf apart alike
  done
fi

# Products and weights too large for fp16's range at a loss scale of 1: a step without a finite gradient.
first() {
  odd "$1" run.folder="first-$1" train.lr=1 train.weight_decay=10 train.stop_after=40steps > first.out 2>&1
  grep -m1 -E 'step skipped: (inf|nan) first in (model|lm_head)[^ ]* gradient, rank [0-9]+ .*, sample [0-9]+' first.out && return
  tail -n 20 first.out && return 1
}
judge "who was first, on one GPU" first 1
[ "$most" -gt 1 ] && judge "who was first, on $most" first "$most"
exit $failed
