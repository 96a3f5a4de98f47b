#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Training from the command line: the same bits whenever nothing that matters has changed, the same losses on any ranks.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/train_case.sh"

test_a_run_repeats_its_bits() {
  write_run
  train 2 run.folder=a
  train 2 run.folder=b
  expect_same a b
  expect_equal "$(numbers a | tail -n 1 | cut -d ' ' -f 1)" 10
}

test_an_empty_cache_and_a_busy_machine_change_no_bits() {
  write_run
  train 2 run.folder=a
  local busy
  for _ in 1 2; do
    timeout 60 sh -c 'while :; do :; done' &
    busy="${busy-} $!"
  done
  XDG_CACHE_HOME=$PWD/cache train 2 run.folder=b
  kill $busy
  expect_out '^ready .* compiled\)'
  expect_same a b
}

test_loss_falls() {
  write_run
  train 1
  numbers run | awk 'NR == 1 { first = $2 } END { exit !($2 < 0.8 * first) }'
}

test_ten_steps_are_five_and_five() {
  write_run
  train 2 run.folder=a
  train 2 run.folder=b train.stop_after=5steps
  expect_out '^done   5 of 10 steps'
  expect_out '^next   the same command goes on at step 6$'
  train 2 run.folder=b
  expect_out '^resume   b/checkpoints/step-00000005, verified; run file changed: b/attempts/2/run.diff$'
  expect_equal "$(grep -c '^env .*\(HDF5\|PSM2\)' out)" 0 # libraries set such, nobody by hand
  expect_same a b
}

test_a_checkpoint_of_two_ranks_goes_on_on_one_and_three() {
  write_run
  train 2 run.folder=a
  local n
  for n in 1 3; do
    rm -rf b
    train 2 run.folder=b train.stop_after=5steps
    train "$n" run.folder=b
    expect_close a b
  done
}

test_ranks_strategy_and_passes_give_the_same_losses() {
  write_run
  train 2 run.folder=full
  train 1 run.folder=one
  train 3 run.folder=three
  train 2 run.folder=no parallel.strategy=no_shard
  train 2 run.folder=passes train.micro_batch_size=1
  train 2 run.folder=whole train.micro_batch_size=1 parallel.accumulate=whole
  train 2 run.folder=no-passes train.micro_batch_size=2 parallel.strategy=no_shard
  train 2 run.folder=block memory.recompute=block
  train 2 run.folder=plain cpu.compiler=none
  local other
  for other in one three no passes whole no-passes block plain; do expect_close full "$other"; done
}

test_a_run_may_save_nothing() {
  write_run
  train 2 checkpoint.every=none
  expect_equal "$(grep -c '^ckpt' out)" 0
  expect_equal "$(ls run/checkpoints)" ''
  expect_out '^next +nothing: '
  expect_equal "$(grep -c '"type":"step"' run/metrics.jsonl)" 10
  expect_run 0 "$hpctrain" plan t.yaml checkpoint.every=none
  expect_out '^disk +checkpoint .*; none is written'
}

# What the banner says of the start stands among the metrics, of each attempt.
test_starts_are_told_in_numbers() {
  write_run
  train 2 train.stop_after=3steps
  train 2
  expect_equal "$(sed -nE 's/^\{"type":"start","step":([0-9]+),"attempt":([0-9]+),"ranks":2,.*"cached":(true|false),.*/\1 \2 \3/p' run/metrics.jsonl)" \
    "$(printf '0 1 %s\n3 2 true' "$(sed -nE '1s/.*"cached":(true|false).*/\1/p' run/metrics.jsonl)")"
  expect_out "^ready +$(sed -nE 's/.*"attempt":2,.*"kernels":[0-9]+,.*,"seconds":([0-9]+\.[0-9]).*/\1/p' run/metrics.jsonl)"
}

# On a device whose memory is not the host's: what goes up, what comes back, and in which order.
test_a_device_with_its_own_memory_changes_no_bits() {
  write_run
  train 2 run.folder=a eval.every=4steps checkpoint.every=4steps
  XDG_CACHE_HOME=$PWD/empty train 2 run.folder=b eval.every=4steps checkpoint.every=4steps device.kind=apart # kernels are checked there
  expect_same a b
  expect_equal "$(grep -o '"type":"eval".*"tokens":[0-9]*' a/metrics.jsonl)" "$(grep -o '"type":"eval".*"tokens":[0-9]*' b/metrics.jsonl)"
  train 2 run.folder=c train.stop_after=5steps device.kind=apart
  train 1 run.folder=c train.stop_after=8steps parallel.strategy=full_shard
  train 2 run.folder=c parallel.strategy=full_shard device.kind=apart
  expect_close a c
}

# Checkpoints carry float32 masters whatever computed them: each precision goes on from any other's.
test_precisions_go_on_from_one_another() {
  write_run
  train 2 run.folder=a precision.compute=fp16 train.stop_after=3steps
  train 1 run.folder=a precision.compute=bf16 train.stop_after=5steps
  train 2 run.folder=a precision.compute=bf16 parallel.strategy=full_shard memory.recompute=cheap train.stop_after=7steps
  train 2 run.folder=a precision.compute=fp16 parallel.strategy=full_shard precision.reduce=bf16
  train 2 run.folder=b
  expect_close a b 0.01
  train 2 run.folder=c precision.compute=bf16
  train 2 run.folder=d precision.compute=bf16 train.stop_after=4steps
  train 2 run.folder=d precision.compute=bf16
  expect_same c d
}

# Moments in bf16 draw by step and element alone: with a stop in between, on a device with its own memory, or kept beside it, they
# have the same bits; checkpoints hold them as float32, which runs with either go on from.
test_moments_in_16_bits_go_on_from_themselves_and_from_float32() {
  write_run
  train 2 run.folder=a precision.moments=bf16
  train 2 run.folder=b precision.moments=bf16 train.stop_after=4steps
  train 2 run.folder=b precision.moments=bf16 device.kind=apart memory.offload=[moments]
  expect_same a b
  train 2 run.folder=c train.stop_after=3steps
  train 1 run.folder=c precision.moments=bf16 train.stop_after=6steps parallel.strategy=full_shard
  train 2 run.folder=c
  train 2 run.folder=d
  expect_close c d 0.01
  ! expect_equal "$(states a)" "$(states d)" 2> /dev/null
}

test_moments_in_16_bits_learn_as_well() {
  write_run
  train 1 run.folder=a train.duration=300steps
  train 1 run.folder=b train.duration=300steps precision.moments=bf16
  paste -d ' ' <(numbers a | tail -n 50) <(numbers b | tail -n 50) | awk '
    { a += $2; b += $5 }
    END { printf "mean loss of the last 50 steps: %.4f, %.4f\n", a / NR, b / NR; exit !(NR == 50 && (a - b) ^ 2 < (0.02 * NR) ^ 2) }' >&2
}

# planned_bytes WORD: of the arena of a run with memory.recompute=WORD.
planned_bytes() {
  train 2 run.folder="planned-$1" memory.recompute="$1" run.debug=[mem] train.stop_after=1steps
  sed -n 's/^note *mem arena *\([0-9]*\) bytes/\1/p' out
}

test_recomputation_changes_no_bits() {
  write_run
  train 2 run.folder=a
  train 2 run.folder=b memory.recompute=block
  expect_same a b
  local least most
  most=$(planned_bytes none)
  least=$(planned_bytes block)
  [ "$least" -lt "$most" ]
  train 2 run.folder=c "memory.recompute=auto: $(((least + most) / 2))B"
  expect_out '^note +memory.recompute: auto is cheap.* in 1 of 2 blocks: \+[0-9.]+ % FLOPs, [0-9.]+ [KM]iB of [0-9.]+ [KM]iB$'
  expect_same a c
  train 2 run.folder=d "memory.recompute={auto: $((most / 1024 + 1))KiB}"
  expect_out '^note +memory.recompute: auto is none: '
  fails 2 2 run.folder=e 'memory.recompute=auto: 100kB'
  expect_err 'planned with recompute: .*, 97.7 KiB allowed: .* short, [0-9]+ bytes$'
}

test_a_strategy_may_change_in_between() {
  write_run
  train 2 run.folder=a
  train 2 run.folder=b train.stop_after=5steps
  train 2 run.folder=b parallel.strategy=no_shard train.micro_batch_size=3
  expect_close a b
}

# Where several ranks hold the same, each reads a part and they exchange; a newest step whose damage shows only then gives way.
test_what_several_ranks_hold_is_loaded_once() {
  write_run
  train 2 run.folder=a checkpoint.every=4steps
  local words file
  for words in '3 parallel.strategy=no_shard' '4 parallel.strategy=hybrid_shard parallel.shard_degree=2' '2 parallel.ignore=*norm*'; do
    rm -rf b
    cp -r a b
    rm -rf b/checkpoints/step-00000010
    file=b/checkpoints/step-00000008/model.h5
    printf 'XXXX' | dd of=$file conv=notrunc bs=1 seek=$(($(stat -c %s $file) / 2)) status=none
    train ${words%% *} run.folder=b ${words#* } train.micro_batch_size=1
    expect_err '^warn   step-00000008 damaged: /.*, checksum'
    expect_err '^       using step-00000004 \(verified\); 4 steps are redone$'
    expect_out '^resume   b/checkpoints/step-00000004, verified'
    expect_close a b
  done
}

test_some_steps_stay_for_good() {
  write_run
  train 2 checkpoint.every=4steps checkpoint.keep=1 checkpoint.keep_every=3steps
  expect_equal "$(ls run/checkpoints | tr '\n' ' ')" 'step-00000003 step-00000006 step-00000009 step-00000010 '
  rm -rf run
  train 2 checkpoint.every=none checkpoint.keep=1 checkpoint.keep_every=5steps
  expect_equal "$(ls run/checkpoints | tr '\n' ' ')" 'step-00000005 step-00000010 '
}

test_evaluations_change_no_bits() {
  write_run
  train 2 run.folder=a eval.every=100steps
  train 2 run.folder=b eval.every=1steps
  expect_equal "$(grep -c '^eval' out)" 10
  expect_same a b
}

# Rows of padding count for nothing: the same loss on ranks that divide the sequences and on ranks that do not.
test_an_evaluation_does_not_depend_on_ranks() {
  write_run
  local n
  for n in 1 2 3; do
    train "$n" run.folder=$n train.stop_after=1steps
    sed -nE 's/^\{"type":"eval".*"loss":([^,]+),.*"tokens":([0-9]+),.*/\1 \2/p' $n/metrics.jsonl
  done > evals
  awk 'NR == 1 { loss = $1 } $1 / loss - 1 > 1e-5 || $1 / loss - 1 < -1e-5 || $2 != 496 { exit 1 } END { exit NR != 3 }' evals
}

test_a_validation_file_of_its_own() {
  write_run
  "$hpctrain" tokenize val.bin "$srcdir/LICENSE" > /dev/null
  sed -i 's/, tokenizer: bytes, val_fraction: 0.1/, val: val.bin/' t.yaml
  train 2
  expect_out '^eval      10  val [0-9.]+ nats, 496 tokens'
  expect_out '^data .* first: [0-9]+ [0-9]+ [0-9 ]+\.\.\.$'
}

test_a_data_set_smaller_than_a_batch_comes_again() {
  write_run
  head -c 100 "$srcdir/LICENSE" > text
  "$hpctrain" tokenize data.bin text > /dev/null
  sed -i '/^eval/d; s/, val_fraction: 0.1//' t.yaml
  train 2 run.folder=a
  train 1 run.folder=b train.micro_batch_size=4
  expect_out '^data .* 20.00 epochs'
  expect_close a b
}

test_weights_of_a_folder() {
  write_run
  local golden=$srcdir/test/golden/llama3-gqa-tied vocab
  sed -i '/^model/d' t.yaml
  vocab=$(sed -nE 's/.*"vocab_size": ([0-9]+).*/\1/p' "$golden/config.json")
  printf '%0400d' 0 | tr 0 '\001' > text
  [ "$vocab" -gt 1 ]
  "$hpctrain" tokenize data.bin text > /dev/null
  train 2 model.from="$golden" run.folder=a
  expect_out "^weights  $golden"
  train 1 model.from="$golden" run.folder=b
  expect_close a b
}

test_what_the_run_folder_holds() {
  write_run
  train 2 checkpoint.every=2steps checkpoint.keep=2
  expect_equal "$(ls run/checkpoints | tr '\n' ' ')" 'step-00000008 step-00000010 '
  expect_equal "$(grep -c '"type":"save"' run/metrics.jsonl)" 5
  grep -q '^ready ' run/attempts/1/banner.txt
  grep -q '^step  *10 ' run/log.txt
  [ -s run/attempts/1/environment.txt ]
  [ ! -e run/LOCK ]
  [ ! -e run/error.txt ]
  expect_run 0 "$hpctrain" config run/run.yaml
}

test_the_banner_says_what_is_true() {
  write_run
  train 2
  expect_out '^mpi      2 ranks, 1 node '
  expect_out '^device   .*; 1 thread a rank$'
  expect_out '^batch    12 x 16 = 192 tokens = 2 ranks x 6 x 1 pass; 10 steps$'
  expect_out '^data     11.4k tokens, 0.19 epochs; first: "'
  expect_out '^ready    [0-9.]+ s: mpi [0-9.]+, plan [0-9.]+, kernels [0-9.]+ \([0-9]+, (cached|compiled)\), load [0-9.]+$'
  expect_equal "$(cat err)" ''
  expect_equal "$(tr -d '\33\r' < out)" "$(cat out)"
}

test_nothing_is_left_to_do() {
  write_run
  train 2
  cp run/metrics.jsonl before
  train 2
  expect_out '^note  step 10 is done, nothing is left to do: with a longer train.duration the run goes on, '
  cmp before run/metrics.jsonl
  train 1 train.time_limit=0.01s train.stop_after=4steps
  expect_out '^note  step 10 is done, .* longer train.duration '
  expect_equal "$(cat err)" ''
  train 2 train.warmup=11steps
  expect_err '^warn +train.warmup is 11 steps and the run 10: its rate never comes to train.lr$'
}

test_a_run_begins_from_another_ones_checkpoint() {
  write_run
  train 2 run.folder=a
  train 2 run.folder=old train.stop_after=5steps
  train 2 run.folder=b checkpoint.resume=old train.stop_after=7steps
  train 2 run.folder=b checkpoint.resume=old
  expect_out '^note  this run has begun from old and goes on from its own checkpoints$'
  expect_equal "$(numbers b)" "$(numbers a | tail -n 5)"
  expect_equal "$(states a)" "$(states b)"
}

test_steps_that_are_done_again_leave_the_old_ones_aside() {
  write_run
  train 1 checkpoint.every=5steps run.folder=a
  cp a/metrics.jsonl before
  train 1 checkpoint.every=5steps run.folder=a checkpoint.resume=a/checkpoints/step-00000005
  expect_out '^note  1 later checkpoint moved to a/attempts/2$'
  [ -e a/attempts/2/step-00000010/model.h5 ]
  expect_equal "$(grep -c '"type":"step"' a/metrics.jsonl)" 10
  expect_equal "$(grep -c '"type":"step"' a/attempts/2/metrics-cut.jsonl)" 5
  train 1 run.folder=a checkpoint.resume=never
  expect_out '^weights  fresh, seed 1$'
  expect_out '^note  2 later checkpoints moved to a/attempts/3$'
}

# A job that Slurm has queued again does not go back once more; another job's checkpoints are none of its own.
test_a_job_that_is_queued_again_goes_back_once() {
  write_run
  local words='cpu.compiler=none checkpoint.every=2steps' from
  SLURM_JOB_ID=7 train 1 $words train.stop_after=6steps
  for from in run/checkpoints/step-00000002 never; do
    SLURM_JOB_ID=${#from} SLURM_RESTART_COUNT=1 train 1 $words checkpoint.resume=$from train.stop_after=4steps
    expect_out '^note  [1-3] later checkpoints? moved to '
    SLURM_JOB_ID=${#from} SLURM_RESTART_COUNT=2 train 1 $words checkpoint.resume=$from train.stop_after=6steps
    expect_out '^note  checkpoint.resume: .* was done before this job was queued again; '
    expect_out '^resume   run/checkpoints/step-00000004, verified'
  done
  for from in run/checkpoints/*/manifest.json; do echo '{' > "$from"; done
  SLURM_JOB_ID=5 SLURM_RESTART_COUNT=1 train 1 $words checkpoint.resume=never train.stop_after=2steps
  expect_out '^weights  fresh, seed 1$'
}

test_debug_prints_the_stages() {
  write_run
  train 2 'run.debug=[ir, fuse, mem, comm]' train.stop_after=1steps
  local f
  for f in micro-model micro-shard update-schedule eval-model micro-program; do grep -q . run/attempts/1/ir-$f.txt; done
  expect_out '^note  mem states +[0-9]+ bytes$'
  expect_out '^note  comm .*all_gather'
}

# What the process has at its peak, less what it had after MPI's start, is the plan within 5 % and 8 MiB: saves, evaluations
# and compiling included.
test_memory_is_as_planned() {
  [ "$slowdown" = 1 ] || { echo "note  a sanitizer has memory of its own" >&2; return 0; }
  write_run
  sed -i "s|^cpu: {|&compiler: $users_cc, |" t.yaml
  sed -i 's/hidden_size: 32, num_hidden_layers: 2/hidden_size: 256, num_hidden_layers: 4/; s/seq_len: 16/seq_len: 128/
    s/intermediate_size: 48/intermediate_size: 688/; s/10 steps/3 steps/' t.yaml
  local n
  for n in 1 2; do
    train $n run.folder=$n checkpoint.every=1steps eval.every=1steps
    sed -nE 's/^memory +([0-9.]+) GiB.*/\1/p' out > planned
    sed -nE 's/.*"step":3,.*"memory_gib":([0-9.]+).*/\1/p' $n/metrics.jsonl | paste -d ' ' planned - | tee figures
    awk '{ off = ($2 - $1) * 1024; most = 0.05 * $1 * 1024 + 8 } END { exit !(NF == 2 && off < most && off > -most) }' figures
  done
}

# Timing chooses once; the checkpoint keeps what was chosen, and so the bits.
test_measured_kernels_are_kept() {
  write_run
  train 2 run.tune=true run.folder=a checkpoint.every=5steps
  grep -qE '^matmul [0-9]+x[0-9]+x[0-9]+ .* [a-z]+$' a/attempts/1/choices.txt
  cp -r a b
  rm -r b/checkpoints/step-00000010
  train 2 run.folder=b
  cmp a/attempts/1/choices.txt b/attempts/2/choices.txt
  expect_same a b
  train 2 run.folder=c
  [ ! -e c/attempts/1/choices.txt ]
  expect_close a c
}

test_a_learning_rate_that_is_too_high_is_skipped_or_stops() {
  write_run
  sed -i 's/lr: 1e-2/lr: 1/; s/10 steps/100 steps/; s/cosine/constant/' t.yaml
  train 2 train.weight_decay=10 # a weight becomes -9 times itself
  expect_err '^warn +[0-9]+  step skipped: (inf|nan) first in model\..* gradient, rank [01] '
  expect_out '^step     100 .*  nan '
  grep '^warn' err > want
  train 2 train.weight_decay=10 device.kind=apart run.folder=c # which knows a step later
  grep '^warn' err | cmp - want
  fails 2 2 train.weight_decay=10 health.nonfinite=stop run.folder=b
  expect_err '^error: step [0-9]+: (inf|nan) first in model'
  expect_err '^help: a lower train.lr'
}

check_main "$@"
