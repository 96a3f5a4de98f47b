#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hpctrain plan: what it tells is what a run does; what is wrong is told before a job starts.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/train_case.sh"

plan() { expect_run "$1" "$hpctrain" plan t.yaml "${@:2}"; }

test_a_plan_tells_all() {
  write_run
  plan 0 --ranks 2
  expect_equal "$(sed -n 's/^\([a-z][a-z]*\) .*/\1/p' out | tr '\n' ' ')" 'device model params batch memory moves disk data '
  expect_out '^batch  12 x 16 = 192 tokens = 2 ranks x 6 x 1 pass$'
  expect_out '^data .*; 10 steps, [0-9.]+ epochs$'
  expect_run 0 "$hpctrain" plan
  expect_out '^model  demo '
}

# Both in bytes: the plan's parts, which are rounded, and what the run says of its arena.
test_memory_is_what_the_run_allocates() {
  local strategy planned allocated
  write_run
  for strategy in no_shard full_shard; do
    plan 0 --ranks=2 parallel.strategy=$strategy train.micro_batch_size=2
    planned=$(sed -n 's/^memory \([0-9.]*\) MiB.*/\1/p' out)
    train 2 run.folder=$strategy parallel.strategy=$strategy train.micro_batch_size=2 train.stop_after=1steps run.debug=[mem]
    allocated=$(sed -n 's/^note *mem arena *\([0-9]*\) bytes/\1/p' out)
    expect_equal "$planned" "$(awk -v n="$allocated" 'BEGIN { printf "%.1f", n / 1048576 }')"
  done
}

test_checkpoints_have_the_planned_size() {
  local planned
  write_run
  plan 0
  planned=$(sed -n 's/^disk   checkpoint \([^;]*\);.*/\1/p' out)
  train 1 train.stop_after=1steps
  expect_out "^ckpt +1  $planned in "
}

test_full_shard_divides_the_states() {
  write_run
  cat > 7b.yaml << 'END'
hpctrain: 1
run: {name: 7b}
model: {preset: llama2-7b}
data: {train: data.bin}
train: {seq_len: 128, duration: 1000 steps, global_batch_size: 64 sequences, lr: 3e-4, schedule: constant}
END
  expect_run 0 "$hpctrain" plan 7b.yaml parallel.strategy=full_shard --ranks 64
  expect_out '^       activations .*, parameters 0.4, moments 0.8, other 0.0$'
  expect_out '^moves  gathers 5[0-9.]* GB, reductions 26[0-9.]* GB a step and rank$'
  expect_run 0 "$hpctrain" plan 7b.yaml parallel.strategy=full_shard precision.moments=bf16 --ranks 64
  expect_out '^       activations .*, parameters 0.4, moments 0.4, other 0.0$'
}

# The run file of jobs/, on the node that a user may have and on few and many.
test_the_large_run_file_is_accepted() {
  local data ranks
  "$hpctrain" tokenize data.bin "$srcdir/LICENSE" > /dev/null
  data="data.train=data.bin data.val=data.bin run.folder=runs/llama7b"
  for ranks in 1 8 64 256; do
    # shellcheck disable=SC2086
    expect_run 0 "$hpctrain" plan "$srcdir/jobs/llama7b.yaml" --ranks $ranks $data
    expect_out '^model  llama2-7b 6.74B parameters'
    expect_out "^batch  1024 x 4096 = 4.19M tokens = $ranks rank"
    expect_out '; 476837 steps, '
  done
  expect_run 2 "$hpctrain" plan "$srcdir/jobs/llama7b.yaml" --ranks 8 # without data the rest is told
  expect_out '^memory '
}

test_presets_have_the_size_of_their_name() {
  local preset count
  write_run
  sed -i '/^model/d' t.yaml
  while read -r preset count; do
    plan 0 model.preset="$preset"
    expect_out "^model  $preset ${count}M parameters"
    "$hpctrain" help preset | grep -q " $preset[,]*" || { echo "help does not name $preset" >&2; return 1; }
  done << 'END'
llama-5m 5.0[0-9]
llama-10m 10.8
llama-124m 124
END
}

test_mpi_is_not_started() {
  write_run
  export OMPI_MCA_pml=none
  plan 0 --ranks 4
}

test_what_is_wrong_is_told_before_a_job_starts() {
  write_run
  plan 2 --ranks 5
  expect_err 'global_batch_size does not split'
  plan 0 train.schedule=wsd train.decay=8steps
  plan 2 train.schedule=wsd train.decay=9steps
  expect_err "^error: a warmup of 2 and a decay of 9 steps are more than the run's 10$"
  plan 2 data.train=none.bin
  expect_err 'none.bin'
  expect_out '^memory ' # the rest is told all the same
  truncate -s -1 data.bin
  plan 2
  expect_err 'data.bin'
  plan 2 --ranks 0
  expect_err '^error: --ranks wants a number'
  plan 2 --ranks
}

test_weights_unlike_the_config_are_told() {
  write_run
  cp -r "$srcdir/test/golden/llama2" a
  chmod -R u+w a
  sed -i '/^model/d' t.yaml
  plan 0 model.from=a
  plan 2 model.from=a train.seq_len=4096
  expect_err '^error: seq_len is 4096, the model is made for at most'
  cp "$srcdir/test/golden/llama-headdim/model.safetensors" a
  plan 2 model.from=a
  expect_err '^error: a/model.safetensors: .* is .*, the model.s config wants '
}

check_main "$@"
