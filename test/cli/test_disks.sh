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
  eventually said err '^warn +20  no checkpoint: .*model\.h5.*Disk quota exceeded; saved again at step 21$'
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

# Of another node, whose processes cannot be looked at: alive until it has not been heard of for two minutes.
test_a_lock_of_another_node_expires() {
  write_run
  mkdir run
  echo '{"job":"812345","host":"n001","pid":1,"started":1,"boot":"a","space":"b"}' > run/LOCK
  touch -d '100 seconds ago' run/LOCK
  fails 2 1 $plain
  expect_err '^error: run in use by job 812345 \(n001, alive 10[0-9] s ago\)$'
  expect_err "^help: .* or scancel 812345; a dead job's lock expires in 2 min"
  touch -d '130 seconds ago' run/LOCK
  train 1 $plain
}

check_main "$@"
