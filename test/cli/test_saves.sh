#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Saves beside the training (checkpoint.async): the same bits and files as saves that are waited for, on any disk.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/train_case.sh"
plain=cpu.compiler=none

# step and checksum of everything that a run has saved but its run file, which is another run's
saved() { tr -d ' \n' < "$1/manifest.json" | grep -oE '"/(model|optim|state|run/(model|history|choices))[^{]*\{[^}]*\}|"(step|nbytes|facts)":[^"]*'; }

# A run whose saves are beside it and one that waits for each: expect_twins N WORD…
expect_twins() {
  local n=$1 step
  shift
  rm -rf waits beside
  train "$n" "$@" run.folder=waits checkpoint.async=false checkpoint.every=3steps checkpoint.keep=9
  train "$n" "$@" run.folder=beside checkpoint.async=true checkpoint.every=3steps checkpoint.keep=9
  expect_out '^saves    beside the training, from copies: [0-9.e-]+ GiB a rank'
  expect_same waits beside
  expect_equal "$(ls beside/checkpoints)" "$(ls waits/checkpoints)"
  for step in waits/checkpoints/*; do
    [ -n "$(saved "$step")" ] && expect_equal "$(saved "$step")" "$(saved "beside/${step#*/}")"
  done
}

test_saves_beside_change_no_bit_of_run_and_files() {
  write_run
  expect_twins 1 device.kind=apart
  expect_twins 3 $plain parallel.strategy=no_shard
  expect_twins 4 $plain parallel.strategy=hybrid_shard parallel.shard_degree=2 train.global_batch_size=16sequences
  expect_twins 2 parallel.strategy=shard_opt precision.compute=bf16 precision.moments=bf16 device.kind=apart
}

# Some of the states are copied by a device, some by the host, some out of files.
test_saves_of_what_is_offloaded() {
  write_run
  local all='memory.offload=[moments,masters,gradients,inputs]'
  expect_twins 2 precision.compute=bf16 "$all" memory.optimizer=host device.kind=apart
  mkdir scratch
  expect_twins 2 memory.offload=moments memory.offload_folder=scratch device.kind=apart
}

# In several files, whatever ranks then read them; where one is gone the step before is gone on from.
test_saves_in_several_files() {
  write_run
  expect_twins 2 $plain checkpoint.files=3
  local files file
  files=$(cd waits/checkpoints/step-00000010 && ls model-*)
  expect_equal "$files" "$(printf 'model-0000%d-of-00003.h5\n' 1 2 3)"
  for file in $(tail -n 2 <<< "$files"); do # the first holds the run file, which is another's
    cmp waits/checkpoints/step-00000010/$file beside/checkpoints/step-00000010/$file
  done
  train 2 $plain run.folder=one checkpoint.every=9steps checkpoint.files=node
  expect_equal "$(ls one/checkpoints/step-00000010)" "$(printf 'manifest.json\nmodel.h5')"
  for file in beside one; do
    expect_run 1 "$hpctrain" ckpt diff waits $file
    expect_out '^changed   /run/config$'
    expect_out '^1 of [0-9]+ datasets differ$'
  done
  expect_run 0 "$hpctrain" ckpt show waits
  expect_out '^  model-00002-of-00003\.h5  [0-9.]+ kB, [0-9]+ datasets$'
  expect_run 0 "$hpctrain" ckpt ls waits
  expect_out '  3 files  newest$'
  rm waits/checkpoints/step-00000010/model-00002-of-00003.h5
  train 3 $plain run.folder=waits checkpoint.files=1
  expect_err '^warn .*step-00000010 damaged: .*/model-00002-of-00003\.h5: No such file or directory$'
  expect_out '^resume   waits/checkpoints/step-00000009'
  expect_run 0 "$hpctrain" ckpt verify waits
  [ -e waits/checkpoints/step-00000010/model.h5 ]
}

# Each save takes longer than several steps, and the last but one is waited for by the last.
test_training_goes_on_while_a_slow_disk_writes() {
  write_run
  train 2 $plain run.folder=a train.duration=40steps
  echo 'fsync 500 0 /checkpoints/' > fault
  on_disk 2 $plain train.duration=40steps checkpoint.every=20steps checkpoint.async=true
  expect_same a run
  local line
  line=$(grep -n '^step *21 ' out | cut -d : -f 1)
  [ "$line" -lt "$(grep -n '^ckpt *20 ' out | cut -d : -f 1)" ]
  expect_out '^ckpt +20  383 kB in [1-9][0-9.]* s, .*, stalled [0-9.]+ s$'
  expect_equal "$(grep -c '^ckpt' out)" 2
}

test_a_save_that_becomes_due_meanwhile_waits_and_says_so_once() {
  write_run
  echo 'fsync 200 0 /checkpoints/' > fault
  on_disk 2 $plain checkpoint.every=2steps checkpoint.async=true
  expect_equal "$(grep -c '^warn' err)" 1
  expect_err '^warn +4  step 2 is still being saved: training waits for that; a larger checkpoint.every would not$'
  expect_equal "$(grep -c '^ckpt' out)" 5
}

test_a_save_that_failed_while_the_next_was_due_is_made_up_for_at_once() {
  write_run
  printf '%s\n' 'fsync 400 28 /checkpoints/step-00000002' > fault
  on_disk 2 $plain checkpoint.every=2steps checkpoint.async=true
  expect_err '^warn +4  step 2 is still being saved: training waits for that; a larger'
  expect_err '^warn +4  no checkpoint: .*step-00000002\.tmp/.*No space left on device; saved again now$'
  expect_out '^ckpt +4 '
  expect_equal "$(ls run/checkpoints)" "$(printf 'step-000000%s\n' 06 08 10)"
}

# And what stands is gone on from, to the straight run's bits.
test_a_write_that_fails_is_told_and_tried_again() {
  write_run
  train 2 $plain run.folder=a train.duration=60steps
  local words=($plain train.duration=60steps checkpoint.async=true)
  on_disk 2 "${words[@]}" train.stop_after=10steps
  echo 'pwrite 0 122 /checkpoints/' > fault
  (
    eventually grep -qsE '^warn .*no checkpoint' err
    rm fault
  ) &
  on_disk 2 "${words[@]}" checkpoint.every=15steps
  wait $!
  expect_err '^warn +[1-5][0-9]  no checkpoint: .*model\.h5.*Disk quota exceeded; step-00000010 stays; saved again at step [1-6][0-9]$'
  expect_out '^ckpt +60 '
  [ "$(grep -c '^ckpt' out)" -ge 3 ]
  expect_same a run
}

test_death_in_a_save_leaves_the_one_before() {
  write_run
  train 2 $plain run.folder=a train.duration=40steps
  local words=($plain train.duration=40steps checkpoint.async=true checkpoint.every=10steps)
  echo 'fsync 2000 0 /checkpoints/step-00000020' > fault
  preload
  LD_PRELOAD=$PWD/bad_disk.so BAD_DISK=$PWD/fault timeout $((60 * slowdown)) \
    mpirun --oversubscribe -x LD_PRELOAD -x BAD_DISK -np 2 "$hpctrain" t.yaml "${words[@]}" > out 2> err < /dev/null &
  local job=$!
  eventually grep -qs '"step":22,' run/metrics.jsonl
  kill -KILL $(ranks_of $job)
  wait $job || :
  [ -e run/checkpoints/step-00000020.tmp ] && [ ! -e run/checkpoints/step-00000020 ]
  train 2 "${words[@]}"
  expect_out '^resume   run/checkpoints/step-00000010'
  expect_same a run
  expect_equal "$(ls run/checkpoints | grep -c tmp)" 0
}

# The save of a step that the run goes back from is none: its results were not known when it began.
test_a_run_that_goes_back_drops_its_save() {
  write_run
  sed -i 's/lr: 1e-2/lr: 1/; s/10 steps/100 steps/; s/cosine/constant/' t.yaml
  local how words=(train.weight_decay=10 health.nonfinite=back health.backs=2 checkpoint.every=1steps device.kind=apart)
  for how in false true; do
    fails 2 2 "${words[@]}" run.folder=$how checkpoint.async=$how
    grep '^warn' err | grep -v 'still being saved' | sed 's/rank [0-9].*//' > $how.warn
  done
  diff false.warn true.warn
  expect_equal "$(numbers false)" "$(numbers true)"
  expect_equal "$(states false)" "$(states true)"
}

check_main "$@"
