#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Run folders on disks that are slow, at their quota or broken, and locks that others left: what is wrong is named, and what stands
# is used.  Disks that are full or read-only are in test_train_fails.sh.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/train_case.sh"
plain=cpu.compiler=none

# A flush that takes longer than health.timeout is no hang.
test_a_slow_folder_is_waited_for() {
  write_run
  train 2 $plain run.folder=a
  echo 'fsync 7000 0 /model.h5' > fault
  on_disk 2 $plain health.timeout=5s
  expect_out '^ckpt +10  383 kB in [0-9]+\.[0-9]+ s, .*, stalled [1-9][0-9.]* s$'
  expect_equal "$(cat err)" ''
  expect_same a run
}

test_a_quota_that_is_reached_costs_a_checkpoint() {
  write_run
  echo 'pwrite 0 122 /checkpoints/' > fault
  sed -i 's/10 steps/1000000 steps/' t.yaml
  on_disk 2 $plain checkpoint.every=20steps &
  eventually said err '^warn +[2-9][0-9]  no checkpoint: .*model\.h5.*Disk quota exceeded; saved again at step [2-9][0-9]$'
  rm fault
  eventually said out '^ckpt'
  touch run/STOP
  wait $!
}

# Set while the run goes on, since MPI needs files of its own to start.
test_a_limit_on_file_sizes_is_named() {
  write_run
  sed -i 's/10 steps/1000000 steps/' t.yaml
  timeout 120 "$hpctrain" t.yaml $plain > out 2> err < /dev/null &
  eventually said out '^step'
  prlimit --fsize=300000:unlimited --pid "$(pgrep -P $! -x hpctrain)"
  touch run/SAVE
  eventually said err '^warn .*no checkpoint: .*model\.h5: File too large: [0-9.]+ MB, the limit \(ulimit -f\) is 0\.3 MB; saved again'
  prlimit --fsize=unlimited --pid "$(pgrep -P $! -x hpctrain)"
  eventually said out '^ckpt'
  touch run/STOP
  wait $!
}

# What the disk has not confirmed is no checkpoint.
test_a_flush_that_fails_commits_nothing() {
  write_run
  echo 'fsync 0 5 /checkpoints/' > fault
  ends=3 on_disk 2 $plain checkpoint.every=5steps
  expect_err '^warn +5  no checkpoint: .*model\.h5: .*; saved again at step 6$'
  expect_equal "$(ls run/checkpoints)" ''
}

test_what_cannot_be_read_gives_way_to_the_step_before() {
  write_run
  train 2 $plain checkpoint.every=5steps
  cp -r run whole
  echo 'pread 0 5 step-00000010/model.h5' > fault
  on_disk 2 $plain
  expect_err '^warn   step-00000010 damaged: .*Input/output error'
  expect_err '^       using step-00000005 \(verified\); 5 steps are redone$'
  rm fault
  expect_same run whole
}

# Under permissions, which root does without otherwise.
bound() { expect_run "$1" $([ "$(id -u)" != 0 ] || echo setpriv --bounding-set=-dac_override,-dac_read_search) "$hpctrain" t.yaml "${@:2}"; }

test_a_checkpoint_that_was_made_read_only_stays() {
  write_run
  train 1 $plain checkpoint.every=2steps train.stop_after=4steps
  chmod -R a-w run/checkpoints/step-00000002
  train 1 $plain checkpoint.every=2steps checkpoint.keep=1 train.stop_after=6steps
  expect_equal "$(cat err)" ''
  bound 0 $plain checkpoint.every=2steps checkpoint.keep=1
  expect_equal "$(cat err)" ''
  expect_equal "$(ls run/checkpoints)" $'step-00000002\nstep-00000010'
}

# It is to be done again, and stays as it was made.
test_a_read_only_checkpoint_is_moved_aside() {
  write_run
  bound 0 $plain checkpoint.every=4steps train.stop_after=8steps
  chmod -R a-w run/checkpoints/step-00000008
  bound 0 $plain checkpoint.every=4steps checkpoint.resume=run/checkpoints/step-00000004
  expect_out '^note  1 later checkpoint moved to run/attempts/2$'
  expect_equal "$(stat -c %A run/attempts/2/step-00000008)" dr-xr-xr-x
}

test_a_checkpoint_that_another_user_has_made_is_told() {
  [ "$(id -u)" = 0 ] || { echo 'note  only root can give a file to another user'; return; }
  write_run
  bound 0 $plain checkpoint.every=4steps train.stop_after=4steps
  chown -R 12345 run/checkpoints/step-00000004
  bound 0 $plain checkpoint.every=4steps checkpoint.keep=1
  expect_err '^warn .*step-00000004.*Permission denied'
}

test_a_folder_of_checkpoints_that_cannot_be_read_is_not_begun_anew() {
  write_run
  bound 0 $plain train.stop_after=4steps
  chmod a-r run/checkpoints
  bound 3 $plain
  expect_err '^error: run/checkpoints: cannot be listed: Permission denied$'
  [ ! -e run/attempts/2 ]
}

# As where it is the node's own: what one rank makes there the other does not see.
test_a_run_folder_that_ranks_do_not_share_is_refused() {
  write_run
  local words elsewhere=${TMPDIR:-/tmp}/elsewhere.$$
  cp -r . "$elsewhere"
  words="$plain health.timeout=3s"
  expect_run 2 mpirun --oversubscribe -np 1 "$hpctrain" t.yaml $words : -np 1 sh -c "cd '$elsewhere' && exec '$hpctrain' t.yaml $words"
  rm -r "$elsewhere"
  expect_err '^error: rank 1 \(.*\) does not see what rank 0 makes in run/checkpoints$'
  expect_err '^help: a folder in a file system that all nodes share$'
  expect_equal "$(ls run/checkpoints)" ''
}

small_disk() { # SIZE: in ./small, until the test ends; fails where none can be had
  mkdir -p small
  mount -t tmpfs -o size="$1" none small 2> /dev/null || { echo "note  nothing can be mounted here" >&2; return 1; }
  trap 'umount -l "$PWD/small"' EXIT
}

# Its room is what the next ones are to have.
test_what_a_dead_save_has_left_gives_way() {
  write_run
  small_disk 1400k || return 0
  train 1 $plain run.folder=small/run checkpoint.keep=2 checkpoint.every=2steps train.stop_after=4steps
  mkdir small/run/checkpoints/step-0000000{6.tmp,3.old}
  head -c 410000 /dev/zero > small/run/checkpoints/step-00000006.tmp/model.h5
  train 1 $plain run.folder=small/run checkpoint.keep=2 checkpoint.every=2steps
  expect_equal "$(ls small/run/checkpoints | tr '\n' ' ')" 'step-00000008 step-00000010 '
}

# They are the run's own, and what is to be done again stays in their file system, beside what was put there before.
test_checkpoints_may_lie_in_another_file_system() {
  write_run
  small_disk 10m || return 0
  mkdir run small/there
  ln -s "$PWD/small/there" run/checkpoints
  train 1 $plain checkpoint.keep=9 checkpoint.every=5steps
  local before
  before=$(numbers run)
  mkdir -p small/there/attempt-2/step-00000010{,.2}/old
  train 1 $plain checkpoint.keep=9 checkpoint.every=5steps checkpoint.resume=run/checkpoints/step-00000005
  expect_out '^resume   run/checkpoints/step-00000005, verified; '
  expect_out '^note  1 later checkpoint moved to run/checkpoints/attempt-2$'
  [ -e small/there/attempt-2/step-00000010.3/manifest.json ]
  expect_equal "$(numbers run)" "$before"
  train 1 $plain
  expect_out '^note  step 10 is done'
}

# Its checkpoints are not lost for that, and its lock is there again.
test_a_run_folder_that_is_moved_is_made_anew() {
  write_run
  sed -i 's/10 steps/1000000 steps/' t.yaml
  on_disk 1 $plain checkpoint.every=20steps &
  eventually said out '^step'
  mv run moved
  echo 'fsync 12000 0 /checkpoints/' > fault
  eventually said err '^warn .* run is not there any more, was it moved or removed\?  It is made anew, for checkpoints$'
  eventually [ -e run/LOCK ]
  rm fault
  touch run/STOP
  wait $!
  expect_out '^done '
  expect_equal "$(grep -c '^warn' err)" 1
  expect_run 0 "$hpctrain" ckpt verify run
}

# One whom nobody has heard of for long, here since it stood still, may wake up to find another in its place.
test_a_run_whose_lock_was_taken_ends() {
  write_run
  sed -i 's/10 steps/1000000 steps/' t.yaml
  timeout 120 "$hpctrain" t.yaml $plain checkpoint.every=20steps > out 2> err < /dev/null &
  eventually said out '^ckpt'
  local rank status=0
  rank=$(pgrep -P $! -x hpctrain)
  kill -STOP "$rank"
  echo '{"job":"812345","host":"n001","pid":1,"started":1,"boot":"a","space":"b"}' > other
  mv other run/LOCK
  sleep 10.2 # the next beat is due
  kill -CONT "$rank"
  wait $! || status=$?
  expect_equal "$status" 3
  expect_err "^error: run/LOCK is another job's now: it had not been heard of for 120 s$"
  grep -q 812345 run/LOCK
}

# Of another node, whose processes cannot be looked at: alive until it has not been heard of for two minutes.
test_a_lock_of_another_node_expires() {
  write_run
  mkdir run
  echo '{"job":"812345","host":"n001","pid":1,"started":1,"boot":"a","space":"b"}' > run/LOCK
  touch -d '100 seconds ago' run/LOCK
  fails 2 1 $plain
  expect_err '^error: run in use by job 812345 \(n001, alive 1[01][0-9] s ago\)$'
  expect_err "^help: .* or scancel 812345; a dead job's lock expires in 2 min"
  touch -d '130 seconds ago' run/LOCK
  train 1 $plain
}

check_main "$@"
