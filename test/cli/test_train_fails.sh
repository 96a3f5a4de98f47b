#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What goes wrong around a training run: each with one message, the right exit status, no hang, and a run that goes on.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/train_case.sh"

# The interpreter needs no compiler; where kernels do not matter it starts faster.
plain=cpu.compiler=none

# --- input ---------------------------------------------------------------------------------------------------------------

test_keys_of_the_run_file() {
  write_run
  fails 2 2 train.learning_rate=1
  expect_err "^error: unknown key 'train.learning_rate'"
  fails 2 2 train.lr=fast
  expect_err "train.lr"
  fails 2 2 train.global_batch_size=13sequences
  expect_err '^help: 12 sequences, 14 sequences'
  sed -i '/^model/d' t.yaml
  fails 2 2 train.seq_len=4096 model.config="$srcdir/test/golden/llama2"
  expect_err '^error: seq_len is 4096, the model is made for at most [0-9]+ positions$'
  expect_err '^  --> argument 2: train.seq_len=4096$'
  [ ! -e run ]
}

test_a_data_file_that_is_missing_short_or_foreign() {
  write_run
  fails 2 2 data.train=absent.bin
  expect_err '^error: .*absent\.bin'
  fails 2 1 'data.train=absent/*.bin'
  expect_err '^error: absent/\*\.bin: no such file$'
  expect_err '^  --> argument 2: data.train=absent/'
  head -c 5000 data.bin > short.bin
  fails 2 2 data.train=short.bin
  expect_err '^error: .*short\.bin'
  cp "$srcdir/LICENSE" foreign.bin
  fails 2 2 data.train=foreign.bin
  expect_err '^error: .*foreign\.bin'
  expect_err '^help: '
  grep -q 'foreign\.bin' run/error.txt
}

test_a_data_set_shorter_than_a_sequence() {
  write_run
  printf 'too short' > text
  "$hpctrain" tokenize data.bin text > /dev/null
  fails 2 2
  expect_err '^error: .*data\.bin'
}

# Before any of it is touched: who would hold what, by name, and what to do.
test_a_model_that_is_too_large_for_the_node() {
  write_run
  sed -i '/^model/d; /^eval/d; s/, val_fraction: 0.1//' t.yaml
  local ranks kind
  for kind in apart cpu; do
    ranks=1
    [ $kind = apart ] || ranks=2
    fails 3 $ranks model.preset=llama2-70b train.micro_batch_size=1 checkpoint.every=none device.kind=$kind
    expect_err '^error: .*no memory for the arena.*: [0-9.]+ GiB wanted, [0-9.]+ GiB free of [0-9.]+ on .*: [0-9.]+ short$'
    expect_err '^   [0-9.]+ GiB planned: activations [0-9.]+, .*gradients [0-9.]+, parameters [0-9.]+, moments [0-9.]+'
    expect_err '^   peak in .*, in (micro|update)'
    expect_err '^ +[0-9.]+ GiB  moments      80 of [0-9.]+: m/layers\.\* [0-9]+ f32$'
    expect_err '^help: memory\.recompute: block, precision\.moments: bf16, .*more ranks; hpctrain plan '
  done
  fails 3 2 model.preset=llama2-70b checkpoint.every=none parallel.strategy=no_shard memory.recompute=block precision.moments=bf16
  expect_err '^help: a smaller train\.micro_batch_size, parallel\.strategy: full_shard, more ranks; hpctrain plan ' # what is open
  expect_err 'the arenas of 2 ranks of this node'
  grep -q 'peak in' run/error.txt
}

test_a_token_beyond_the_vocabulary() {
  write_run
  sed -i 's/vocab_size: 256/vocab_size: 100/' t.yaml
  fails 2 2 data.tokenizer=none $plain
  expect_err '^error: .*data\.bin.*'
}

test_weights_that_lie_or_belong_to_another_model() {
  write_run
  sed -i '/^model/d' t.yaml
  fails 2 1 model.from=nowhere $plain
  expect_err '^error: nowhere: No such file or directory$'
  expect_err '^  --> argument 2: model.from=nowhere$'
  expect_err '^help: the folder of a run that has saved, or a Hugging Face folder of one of '
  cp -r "$srcdir/test/golden/llama2" a
  chmod -R u+w a
  printf '\377\377\377\377' | dd of=a/model.safetensors conv=notrunc bs=1 status=none
  fails 2 2 model.from=a $plain
  expect_err '^error: .*a/model\.safetensors'
  cp "$srcdir/test/golden/llama-headdim/config.json" "$srcdir/test/golden/llama2/model.safetensors" a
  fails 2 2 model.from=a $plain
  expect_err '^help: config.json and weights belong to one model'
}

test_a_checkpoint_that_is_damaged() {
  write_run
  train 2 $plain checkpoint.every=5steps
  local five=run/checkpoints/step-00000005/model.h5 ten=run/checkpoints/step-00000010/model.h5
  truncate -s -100 $ten
  train 2 $plain
  expect_err '^warn   step-00000010 damaged: .*model\.h5'
  expect_err '^       using step-00000005 \(verified\); 5 steps are redone$'
  expect_out '^step      10 '
  printf 'XXXX' | dd of=$ten conv=notrunc bs=1 seek=$(($(stat -c %s $ten) / 2)) status=none
  truncate -s 100 $five
  fails 2 2 $plain
  expect_err '^error: .*none of its 2 checkpoints is whole'
}

test_torn_manifests_and_missing_files() {
  write_run
  train 2 $plain checkpoint.every=2steps checkpoint.keep=5
  cp -r run whole
  truncate -s 60 run/checkpoints/step-00000010/manifest.json
  rm run/checkpoints/step-00000008/model.h5
  rm run/checkpoints/step-00000006/manifest.json
  train 2 $plain
  expect_err '^warn   step-00000010 damaged: .*manifest\.json:[0-9]+'
  expect_err '^warn   step-00000008 damaged: .*model\.h5: No such file'
  expect_err '^warn   step-00000006 damaged: .*manifest\.json: No such file'
  expect_err '^       using step-00000004 \(verified\); 6 steps are redone$'
  expect_same run whole
}

test_another_run_is_not_gone_on_with() {
  write_run
  train 2 $plain train.stop_after=2steps
  cp run/run.yaml kept.yaml
  fails 2 2 $plain run.seed=2
  expect_err '^error: run\.seed cannot change in a run: the checkpoint has 1, now it is 2$'
  expect_err '^help: put it back, or give another run.folder'
  cp data.bin kept.bin
  "$hpctrain" tokenize other.bin "$srcdir/README.md" > /dev/null
  fails 2 2 $plain data.train=other.bin
  expect_err '^error: the number of tokens in data.train cannot change in a run: the checkpoint has [0-9]+, now it is [0-9]+$'
  fails 2 2 $plain checkpoint.resume=absent run.folder=b
  expect_err '^error: there is no checkpoint in absent'
  printf x | dd of=data.bin bs=1 seek=2000 conv=notrunc status=none
  fails 2 2 $plain
  expect_err '^error: the training data cannot change in a run: .*data\.bin has other bytes than in the checkpoint: as many, [0-9]+; it was last written at 20'
  expect_err 'train: data\.bin'
  cmp kept.yaml run/run.yaml && [ ! -e run/attempts/2 ] # a refused attempt is none
  mkdir moved && mv kept.bin moved
  train 2 $plain train.stop_after=3steps data.train=moved/kept.bin
  expect_out '^note  changed data\.train: moved/kept\.bin, was data\.bin$'
}

# Of the table's keys each that is fixed, and none that is not.
test_what_may_change_in_a_run_is_what_the_table_says() {
  write_run
  train 1 $plain train.stop_after=2steps
  declare -A other=([run.seed]=2 [model.preset]=llama-5m [model.config]=golden/config.json [model.from]=golden [data.train]=other.bin
    [data.dtype]=uint32 [data.hdf5_dataset]=x [data.val_fraction]=0.2 [data.packing]='true data.document_end=10' [data.document_end]='10 data.packing=true' [train.seq_len]=8 [train.global_batch_size]=24sequences [model.vocab_size]=300
    [model.hidden_size]=64 [model.num_hidden_layers]=3 [model.num_attention_heads]=2 [model.num_key_value_heads]=1 [model.head_dim]=6
    [model.intermediate_size]=40 [model.rms_norm_eps]=1e-6 [model.rope_theta]=1e6 [model.tie_word_embeddings]=true
    [model.max_position_embeddings]=64 [model.initializer_range]=0.1)
  cp data.bin other.bin && printf x | dd of=other.bin bs=1 seek=2000 conv=notrunc status=none
  cp -r "$srcdir/test/golden/llama2" golden
  local key file
  "$hpctrain" config --doc | awk '/^## /{section = $2} /cannot change in a run/{gsub("`", "", $2); print section "." $2}' > fixed
  [ "$(wc -l < fixed)" -ge 20 ]
  while read -r key; do
    case $key in data.format | data.chat_template | data.train_on_inputs | data.too_long) continue ;; esac # test_chat.sh has these
    file=t.yaml
    case $key in model.preset | model.config | model.from) sed '/^model/d' t.yaml > named.yaml && file=named.yaml ;; esac
    expect_run 2 timeout $((60 * slowdown)) "$hpctrain" $file $plain $key=${other[$key]-no word for $key} < /dev/null
    grep -qE 'cannot change in a run|header says 2-byte ids' err || { cat err >&2; return 1; }
  done < fixed
  # what means the same is no change; all else is taken, and shown
  train 1 $plain train.stop_after=3steps train.global_batch_size=192tokens data.dtype=uint16
  expect_out '^note  changed train\.global_batch_size: 192 tokens, was 12 sequences$'
  train 2 $plain train.lr=2e-2 train.schedule=linear train.warmup=1step train.duration=12steps train.stop_after=4steps train.weight_decay=0.2 train.beta1=0.8 \
    train.grad_clip=2 train.micro_batch_size=3 parallel.strategy=shard_opt precision.compute=bf16 memory.recompute=block \
    checkpoint.keep=2 eval.every=100steps health.spike=9 log.every=1step train.groups='[{match: "*norm*", weight_decay: 0}]'
  expect_out '^note  changed train\.lr: 0\.02, was 0\.01$'
  expect_out '^note  changed parallel\.strategy: shard_opt, was full_shard$'
  expect_out '^done   4 of 12 steps'
  expect_equal "$(numbers run | cut -d ' ' -f 1)" "$(seq 4)"
}

# Also what only a compilation tells.
test_memory_that_cannot_do_is_refused_before_an_attempt() {
  write_run
  fails 2 2 memory.recompute='{auto: 10KiB}'
  expect_err '^error: .* short, [0-9]+ bytes$'
  expect_err '^ +--> argument [0-9]+: memory\.recompute='
  [ ! -e run/attempts/1 ]
}

# --- machine -------------------------------------------------------------------------------------------------------------

test_a_missing_compiler() {
  write_run
  fails 3 2 cpu.compiler=no-such-cc
  expect_err 'no-such-cc'
  expect_err '^help: '
}

test_home_unset() {
  write_run
  expect_run 0 env -u HOME -u XDG_CACHE_HOME "$hpctrain" t.yaml train.stop_after=1steps
  expect_run 0 env -u HOME -u XDG_CACHE_HOME "$hpctrain" t.yaml train.stop_after=2steps
  expect_out '^ready .* cached\)'
}

test_a_cache_of_another_owner() {
  write_run
  [ "$(id -u)" = 0 ] || { echo "note  not root: no folder of another owner can be made" >&2; return 0; }
  mkdir -p cache/hpctrain
  chown 12345 cache/hpctrain
  XDG_CACHE_HOME=$PWD/cache fails 3 2
  expect_err '^error: .*cache/hpctrain: belongs to user 12345, you are user 0'
  expect_err '^help: make it a folder of your own'
  expect_equal "$(ls cache/hpctrain)" ''
}

# Root may write anywhere but on what is mounted read-only.
test_a_folder_that_cannot_be_written() {
  write_run
  mkdir there
  if [ "$(id -u)" = 0 ]; then
    mount -t tmpfs -o ro none there 2> /dev/null || { echo "note  nothing can be mounted here" >&2; return 0; }
  else
    chmod a-w there
  fi
  local status=0
  fails 3 2 $plain run.folder=there/run || status=1
  [ "$(id -u)" != 0 ] || umount there
  [ "$status" = 0 ]
  expect_err '^help: give run.folder=PATH where this user can write'
}

test_a_working_folder_that_cannot_be_written() {
  write_run
  mkdir there
  cp t.yaml data.bin there
  if [ "$(id -u)" = 0 ]; then
    mount --bind there there 2> /dev/null && mount -o remount,ro,bind there || { echo "note  nothing can be mounted here" >&2; return 0; }
  else
    chmod a-w there
  fi
  local status=0 out=$PWD
  (cd there && mpi 2 "$hpctrain" t.yaml $plain run.folder="$out/run" > "$out/out" 2> "$out/err" < /dev/null) || status=$?
  [ "$(id -u)" != 0 ] || umount there
  expect_equal "$status" 0
  expect_out '^done   10 of 10 steps'
}

test_a_disk_without_room_for_checkpoints() {
  write_run
  mkdir small
  mount -t tmpfs -o size=1m none small 2> /dev/null || { echo "note  nothing can be mounted here" >&2; return 0; }
  trap 'umount -l "$PWD/small"' EXIT
  fails 3 2 $plain run.folder=small/run checkpoint.every=1steps
  expect_err '^error: .*no room for checkpoints: 4 more of 383 kB need'
  fails 3 2 $plain run.folder=small/run checkpoint.keep=1 checkpoint.keep_every=2steps
  expect_err '^error: .*no room for checkpoints: 5 more of 383 kB need'
  [ ! -e small/run/attempts/1 ]
  expect_err '^help: a smaller checkpoint\.keep, a larger checkpoint\.keep_every, or '
  expect_run 0 "$hpctrain" plan t.yaml run.folder=small/run checkpoint.keep=1 checkpoint.keep_every=2steps
  expect_out '^disk   checkpoint 383 kB; up to 5 at a time 1.91 MB; [0-9.]+ MB free for small/run$'
}

# mount_small: a file system of 3 MB at ./small, which is unmounted when the shell of this test ends.
mount_small() {
  mkdir small
  mount -t tmpfs -o size=3m none small 2> /dev/null || { echo "note  nothing can be mounted here" >&2; return 1; }
  trap 'umount -l "$PWD/small"' EXIT
}

# Some save finds the disk full, one after it has room again: the run goes on throughout, and the checkpoint before stays.
test_a_disk_that_is_full_while_saving() {
  write_run
  mount_small || return 0
  start $plain run.folder=small/run checkpoint.every=20steps checkpoint.keep=1
  eventually grep -qs '^ckpt' out.job
  dd if=/dev/zero of=small/fill bs=1M status=none 2> /dev/null || :
  eventually grep -qs '^warn .*no checkpoint' err.job
  grep -qE '^warn +[0-9]+  no checkpoint: .*No space left on device' err.job
  ls small/run/checkpoints | grep -q '^step-........$'
  rm small/fill
  eventually saves_more_than "$(grep -c '^ckpt' out.job)"
  touch small/run/STOP
  wait $job
}

# The folder of checkpoints refuses everything for a while; metrics and log are elsewhere.  The steps after a failure try again.
test_a_folder_that_becomes_read_only() {
  write_run
  mkdir -p run/checkpoints
  mount --bind run/checkpoints run/checkpoints 2> /dev/null || { echo "note  nothing can be mounted here" >&2; return 0; }
  trap 'umount -l "$PWD/run/checkpoints"' EXIT
  start $plain checkpoint.every=1000steps
  touch run/SAVE
  eventually grep -qs '^ckpt' out.job
  eventually mount -o remount,ro,bind run/checkpoints
  touch run/SAVE
  eventually grep -qs '^warn .*no checkpoint' err.job
  grep -qE '^warn +[0-9]+  no checkpoint: .*Read-only file system; step-[0-9]{8} stays; saved again at step [0-9]+$' err.job
  local failures
  failures=$(grep -c '^warn .*no checkpoint' err.job)
  eventually fails_more_than "$failures"
  mount -o remount,rw,bind run/checkpoints
  eventually saves_more_than 1
  touch run/STOP
  wait $job
  ls run/checkpoints | grep -q '^step-........$'
}
fails_more_than() { [ "$(grep -c '^warn .*no checkpoint' err.job)" -gt "$1" ]; }

test_a_last_save_that_fails_is_an_error() {
  write_run
  mount_small || return 0
  start $plain run.folder=small/run checkpoint.every=20steps checkpoint.keep=1
  eventually grep -qs '^ckpt' out.job
  touch small/run/STOP
  dd if=/dev/zero of=small/fill bs=1M status=none 2> /dev/null || :
  local status=0
  wait $job || status=$?
  expect_equal "$status" 3
  expect_equal "$(grep -c '^error:' err.job)" 1
  grep -q '^error: .*the last checkpoint of small/run could not be written' err.job
  rm small/fill
  train 1 $plain run.folder=small/run checkpoint.every=20steps checkpoint.keep=1 train.stop_after=1steps
  expect_out '^resume   small/run/checkpoints/step-'
}

# --- other jobs, signals, death --------------------------------------------------------------------------------------------

saves_more_than() { [ "$(grep -c '^ckpt' out.job)" -gt "$1" ]; }
a_save_goes_on() { ls b/checkpoints/*.tmp > /dev/null 2>&1; }

test_two_jobs_in_one_folder() {
  write_run
  start $plain
  fails 2 2 $plain
  expect_err '^error: run in use by process [0-9]+ \([^,]+, alive [0-9]+ s ago\)'
  [ ! -e run/error.txt ]
  touch run/STOP
  wait $job
  grep -q '^note  STOP found in the run folder$' out.job
  grep -q '^next   the same command goes on at step' out.job
  [ ! -e run/STOP ] && [ ! -e run/REQUEUE ]
}

test_a_file_asks_for_a_save() {
  write_run
  start $plain
  touch run/SAVE
  eventually grep -qs '^ckpt' out.job
  touch run/STOP
  wait $job
}

test_signals_save_and_stop() {
  write_run
  local signal
  for signal in USR1 TERM INT; do
    start $plain
    kill -$signal "$(ranks_of $job | tail -n 1)"
    wait $job
    grep -q '^ckpt' out.job
    grep -q '^done ' out.job
    grep -qE "^step [0-9]+ of 1000000: (SIG)?($signal|Ctrl-C)" run/REQUEUE
    grep -q '; run/REQUEUE tells a job script to do so$' out.job
  done
  expect_equal "$(grep -c '"type":"save"' run/metrics.jsonl)" 3
}

# While kernels are compiled there is nothing to save: then as soon as there is.  Launchers and Slurm signal all processes of a step;
# sh unblocks what a compiler that it wraps was to be spared.
test_a_signal_in_the_start_is_heard_later() {
  write_run
  sed -i 's/10 steps/1000000 steps/' t.yaml
  local launcher
  for launcher in "" "mpi 2"; do
    rm -rf run
    printf '#!/bin/sh\n# %s\nkill -USR1 0\ncc "$@"\n' "$launcher" > signalled # another text, another entry of the cache
    chmod +x signalled
    expect_run 0 $launcher timeout $((60 * slowdown)) setsid -w "$hpctrain" t.yaml cpu.compiler="$PWD/signalled"
    expect_out '^note  SIGUSR1: the run saves and ends$'
    expect_out '^done   [1-9][0-9]? of 1000000 steps'
    [ -e run/REQUEUE ]
  done
}

test_a_compiler_ends_with_its_rank() {
  write_run
  printf '#!/bin/sh\ntrap "kill \\$!; touch $0.ended; exit" TERM\nsleep 60 &\ntouch $0.begun\nwait\n' > waits
  chmod +x waits
  "$hpctrain" t.yaml cpu.compiler="$PWD/waits" > out 2> err < /dev/null &
  eventually test -e waits.begun
  kill -KILL $!
  eventually test -e waits.ended
}

# What an attempt leaves for the job script is gone once the next goes on.
test_a_time_limit_ends_a_run_that_another_job_goes_on_with() {
  write_run
  start $plain train.time_limit=$((5 * slowdown))s
  grep -qE '^limit    [0-9]s left; ' out.job
  wait $job
  grep -q '^note  train.time_limit: the run saves and ends$' out.job
  grep -q '^step [0-9]* of 1000000: train.time_limit$' run/REQUEUE
  start $plain
  [ ! -e run/REQUEUE ]
  touch run/STOP
  wait $job
  train 1 $plain run.folder=short train.time_limit=0.01s
  expect_err '^warn .*this job may be too short for a save: the run ends after its first steps'
  [ -e short/REQUEUE ]
}

# Of an allocation that has ended the shell still tells.
test_an_end_that_is_over_limits_nothing() {
  write_run
  SLURM_JOB_ID=12 SLURM_JOB_END_TIME=1000000000 train 1 $plain
  expect_err '^warn .*train.time_limit: auto does not learn when this job ends: it was over before'
  expect_out '^done   10 of 10 steps'
}

test_one_process_without_a_launcher_hears_ctrl_c() {
  write_run
  sed -i 's/10 steps/1000000 steps/' t.yaml
  (trap - INT; exec timeout -s KILL 60 bash -c 'trap - INT; exec "$0" "$@"' "$hpctrain" t.yaml $plain > out 2> err) &
  local job=$!
  eventually grep -qs '^step' out
  pkill -INT -P $job -x hpctrain
  wait $job
  expect_out '^done '
}

# The save that the first one asked for is under way, on a slow disk.
test_a_second_ctrl_c_ends_the_run_at_once() {
  write_run
  sed -i 's/10 steps/1000000 steps/' t.yaml
  echo 'fsync 20000 0 /checkpoints/' > fault
  (trap - INT; ends=130 on_disk 1 $plain) &
  local job=$! pid
  eventually said out '^step'
  pid=$(pgrep -P "$(pgrep -P $job -x timeout)" -x hpctrain)
  kill -INT "$pid"
  eventually said out '^note  Ctrl-C: the run saves and ends$'
  kill -INT "$pid"
  local begin=$SECONDS
  wait $job
  [ $((SECONDS - begin)) -lt 10 ]
  expect_equal "$(ls run/checkpoints)" "$(ls run/checkpoints | grep '\.tmp$')"
}

test_a_killed_rank_ends_the_job_and_the_run_goes_on() {
  write_run
  start $plain checkpoint.every=10steps
  eventually grep -qs '^ckpt' out.job
  kill -KILL "$(ranks_of $job | tail -n 1)"
  local begin=$SECONDS status=0
  wait $job || status=$?
  [ "$status" != 0 ] && [ $((SECONDS - begin)) -le 30 ]
  [ -e run/LOCK ]
  train 2 $plain train.stop_after=1steps
  expect_out '^resume   run/checkpoints/step-'
  expect_out '^note  step [0-9]+ is done'
}

# Saves fill most of the time, so that most deaths fall into one; what comes after is as if nothing had been.
test_death_in_a_save_changes_no_bits() {
  write_run
  start run.folder=a train.stop_after=200steps
  wait $job
  local i
  for i in 1 2 3 4; do
    start run.folder=b train.stop_after=200steps checkpoint.every=1steps
    eventually a_save_goes_on
    sleep 0.0$((RANDOM % 5))
    kill -KILL $(ranks_of $job)
    wait $job || :
    ls b/checkpoints >> remains
  done
  train 2 run.folder=b train.stop_after=200steps
  expect_same a b
  grep -q tmp remains || echo "note  no death fell into a save" >&2
}

check_main "$@"
