#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Numbers gone wrong: steps that spike or are not finite are skipped, stop a run, or send it back past its data.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/train_case.sh"

# Two epochs of a text that is learnt by heart, with a line of another kind in it: its sequence is a spike in the second.
write_odd_run() {
  for i in $(seq 450); do
    printf 'the tide came in'
    [ "$i" != 300 ] || printf '#9Z~!qW{}|%%^&*()'
  done > odd
  "$hpctrain" tokenize data.bin odd > /dev/null
  cat > t.yaml << 'END'
hpctrain: 1
run: {name: odd, folder: run}
model: {vocab_size: 256, hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 48}
data: {train: data.bin, tokenizer: bytes}
train: {seq_len: 16, duration: 200 steps, global_batch_size: 4 sequences, lr: 3e-3, schedule: constant, warmup: 2 steps}
checkpoint: {every: 60 steps}
cpu: {threads: 1}
END
}

spiked() { sed -nE 's/^warn +([0-9]+)  .*a spike: loss .* deviations above the usual .*/\1/p' err; }
skipped() { sed -nE 's/^\{"type":"step","step":([0-9]+),.*"skipped":"([a-z_]+)".*/\1 \2/p' "$1/metrics.jsonl"; }
steps_once() { expect_equal "$(numbers "$1" | cut -d ' ' -f 1)" "$(seq "$2")"; }

test_a_spike_is_skipped_alike_everywhere() {
  write_odd_run
  train 1 run.folder=a health.spike=6
  local step
  step=$(spiked)
  [ "$step" -gt 64 ]
  expect_equal "$(skipped a)" "$step spike"
  train 1 run.folder=b health.spike=6 device.kind=apart # which knows a step later
  expect_same a b
  expect_equal "$(skipped b)" "$step spike"
  train 2 run.folder=c health.spike=6
  expect_equal "$(skipped c)" "$step spike"
  # without it its update makes another run of it; nothing before it is another
  train 1 run.folder=d
  expect_equal "$(skipped d)" ''
  expect_equal "$(numbers d | head -n "$step")" "$(numbers a | head -n "$step")"
  ! cmp -s <(numbers a) <(numbers d)
}

# What is usual is saved with the states.
test_a_resumed_run_sees_the_same_spike() {
  write_odd_run
  train 1 run.folder=a health.spike=6
  train 1 run.folder=b health.spike=6 train.stop_after=150steps
  train 1 run.folder=b health.spike=6
  expect_equal "$(skipped a)" "$(skipped b)"
  expect_same a b
}

test_a_spike_may_stop_the_run() {
  write_odd_run
  fails 2 1 health.spike=6 health.on_spike=stop
  expect_err '^error: step [0-9]+: a spike: loss [0-9.]+, [0-9.]+ deviations above the usual [0-9.]+$'
  expect_err '^help: .*health.on_spike: skip'
}

# Back to step 180, with the data that comes behind the spike; the log goes on, and a run that is stopped behind it knows what was
# left out.
test_a_run_goes_back_past_the_data_of_a_spike() {
  write_odd_run
  train 1 run.folder=a health.spike=6 health.on_spike=back
  local step past
  step=$(spiked)
  past=$((step - 180))
  expect_err "^warn     $step  a spike: .*; back to step 180, past $past batches of data\$"
  grep -qE "^\{\"type\":\"back\",\"step\":181,\"from\":$step,\"first_batch\":181,\"batches\":$past,\"why\":\"a spike" a/metrics.jsonl
  steps_once a 200
  expect_equal "$(skipped a)" ''
  [ "$(grep -c '"type":"step"' a/attempts/1/metrics-cut-1.jsonl)" = "$past" ]
  train 1 run.folder=b health.spike=6 health.on_spike=back device.kind=apart
  expect_same a b
  train 1 run.folder=c health.spike=6 health.on_spike=back train.stop_after=190steps
  train 1 run.folder=c health.spike=6 health.on_spike=back
  expect_same a c
  steps_once c 200
  expect_equal "$(grep -c '"type":"back"' c/metrics.jsonl)" 1
}

test_a_run_goes_back_so_often_and_stops() {
  write_run
  sed -i 's/lr: 1e-2/lr: 1/; s/10 steps/100 steps/; s/cosine/constant/' t.yaml
  fails 2 1 train.weight_decay=10 checkpoint.every=5steps health.nonfinite=back health.backs=2
  expect_equal "$(grep -cE '^warn .* first in .*; back to step ([0-9]+), past ' err)" 2
  expect_err '^error: step [0-9]+: .* first in .*; the run has gone back to step [0-9]+ 2 times \(health.backs\)$'
  rm -rf run
  train 1 train.weight_decay=10 checkpoint.every=none health.nonfinite=back train.stop_after=30steps
  expect_err '^warn .*step skipped: .* first in .*; there is no checkpoint to go back to$'
}

# poke TENSOR ELEMENT BYTES: four bytes of a tensor of model/model.safetensors (data_offsets are behind the header, whose length is
# the first 8 bytes).
poke() {
  local header offset
  header=$(od -An -tu8 -N8 model/model.safetensors | tr -d ' ')
  offset=$(head -c $((header + 8)) model/model.safetensors | tail -c "$header" |
    sed -nE "s/.*\"$1\":\{[^}]*\"data_offsets\":\[([0-9]+),.*/\1/p")
  printf "$3" | dd of=model/model.safetensors conv=notrunc bs=1 seek=$((8 + header + offset + 4 * $2)) status=none
}

# One sample has the token whose queries and keys overflow, by a huge weight of a norm that meets zeros elsewhere; gradients of the
# others have a norm that does.  A parameter may be no number itself.
test_who_was_first_is_found() {
  write_run
  { printf '%0680d' 0; printf '\7'; printf '%0679d' 0; } > text # 85 samples
  "$hpctrain" tokenize data.bin text > /dev/null
  sed -i '/^model/d; /^eval/d; s/, val_fraction: 0.1//; s/10 steps/3 steps/' t.yaml
  cp -r "$srcdir/test/golden/llama2" model
  poke model.layers.0.input_layernorm.weight 5 '\354\170\255\140' # 1e20
  poke model.embed_tokens.weight $((48 * 64 + 5)) '\0\0\0\0'
  poke model.embed_tokens.weight $((7 * 64 + 5)) '\0\0\200\77' # 1
  train 2 model.from=model run.folder=a
  expect_err '^warn +2  step skipped: nan first in the loss, rank [01] \([^)]+\), sample 42; largest parameter: 1e\+20 in model\.layers\.0\.input_layernorm\.weight$'
  expect_err "^warn +3  step skipped: the gradient's norm overflows, largest number: [0-9.]+e\\+[0-9]+ in model\\.[a-z0-9_.]+\$"
  expect_equal "$(skipped a)" "$(printf '%s nonfinite\n' 1 2 3)"
  expect_run 2 mpi 2 "$builddir/test/mpi/spoiled" nan t.yaml cpu.compiler=none model.from="$srcdir/test/golden/llama2" health.nonfinite=stop run.folder=b
  expect_err '^error: step 1: nan in model\.layers\.[a-z0-9_.]+ itself, rank 1 '
}

# The same of a document among others, which stand by length: 20 of 4 to 16 tokens.
test_who_was_first_is_found_where_rows_stand_by_length() {
  write_run
  local i n
  for i in {0..19}; do
    n=$((4 + i * 5 % 7 * 2))
    if [ "$i" = 11 ]; then printf '\7'; else printf 0; fi >> text
    printf "%0$((n - 1))d" 0 >> text
    printf '\3' >> mask # begins, and all counts
    head -c $((n - 1)) /dev/zero | tr '\0' '\1' >> mask
  done
  "$hpctrain" tokenize data.bin text > /dev/null
  mv mask data.mask
  sed -i '/^model/d; /^eval/d; s/, val_fraction: 0.1//; s/10 steps/2 steps/' t.yaml
  cp -r "$srcdir/test/golden/llama2" model
  poke model.layers.0.input_layernorm.weight 5 '\354\170\255\140' # as above
  poke model.embed_tokens.weight $((48 * 64 + 5)) '\0\0\0\0'
  poke model.embed_tokens.weight $((7 * 64 + 5)) '\0\0\200\77'
  train 2 model.from=model data.format=chat data.buckets=[8,12] train.micro_batch_size=2 run.folder=a
  expect_err '^warn +[12]  step skipped: nan first in the loss, rank [01] \([^)]+\), sample 11; '
}

# A rank whose copy of the states has another bit: it is named before a save, and a run may go back to what was good.
test_a_replica_that_differs_is_named_and_left_behind() {
  write_run
  train 3 run.folder=a parallel.strategy=no_shard cpu.compiler=none
  train 3 run.folder=b parallel.strategy=no_shard cpu.compiler=none train.stop_after=5steps
  cp -r b c
  local spoiled=("$builddir/test/mpi/spoiled" bit t.yaml cpu.compiler=none parallel.strategy=no_shard health.replicas_every=7steps)
  expect_run 3 mpi 3 "${spoiled[@]}" run.folder=b
  expect_err '^error: .*step 7: rank 2 \([^)]+\) does not hold what most of 3 replicas do: model\.layers\.[a-z0-9_.]+$'
  expect_err '^help: .*step-00000005 is good$'
  expect_run 0 mpi 3 "${spoiled[@]}" run.folder=c health.replicas=back
  expect_err '^warn +7  rank 2 .*; back to step 5$'
  expect_same a c
  steps_once c 10
  rm -rf b
  expect_run 3 mpi 3 "${spoiled[@]}" run.folder=b health.replicas=back # nothing was saved yet
  expect_err '^error: .*step 7: .*; there is no checkpoint to go back to$'
}

test_comparing_replicas_changes_no_bits() {
  write_run
  train 2 run.folder=a parallel.strategy=no_shard health.replicas_every=none
  train 2 run.folder=b parallel.strategy=no_shard health.replicas_every=1steps device.kind=apart
  expect_same a b
  train 2 run.folder=c precision.compute=bf16 precision.moments=bf16 health.replicas_every=none parallel.ignore=*norm*
  train 2 run.folder=d precision.compute=bf16 precision.moments=bf16 health.replicas_every=1steps parallel.ignore=*norm* \
    memory.offload=[moments,masters,gradients] memory.optimizer=host
  expect_same c d
}

test_steps_are_computed_twice() {
  write_run
  train 1 run.folder=a
  train 1 run.folder=b run.debug=determinism device.kind=apart
  expect_out '^twice  10 of 10 steps had the same bits both times$'
  expect_same a b
  train 1 run.folder=c run.debug=[determinism] precision.compute=fp16
  train 1 run.folder=d precision.compute=fp16
  expect_same c d
}

test_keys_without_use_are_refused() {
  write_run
  fails 2 1 health.on_spike=back
  expect_err "'health.on_spike' has no use here|health.spike says what a spike is"
  fails 2 1 health.backs=2
  expect_err 'nothing makes this run go back'
  fails 2 1 health.replicas=back health.replicas_every=none
  expect_err 'replicas are not compared'
}

check_main "$@"
