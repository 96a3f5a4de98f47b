#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the shipped job script makes of the ways in which a launch may end, played without Slurm: test/slurm has the real thing.
. "$(dirname "$0")/../check.sh"

# A launcher, ./bin/mpirun, that does what $1 says, and a Slurm without PMIx that notes what is queued again.
write_cluster() {
  mkdir -p bin run/checkpoints
  cat > t.yaml << 'END'
hpctrain: 1
run: {folder: run}
model: {preset: llama2-7b}
data: {train: none.bin}
train: {seq_len: 16, duration: 10 steps, global_batch_size: 8 sequences, lr: 1e-4, schedule: cosine}
END
  printf '#!/bin/bash\n%s\n' "$1" > bin/mpirun
  printf '#!/bin/sh\nexit 1\n' > bin/srun
  printf '#!/bin/sh\necho "$@" >> queued\n' > bin/scontrol
  chmod +x bin/*
  : > queued
}
job() { expect_run "$1" env PATH="$PWD/bin:$builddir:$PATH" SLURM_JOB_ID=7 bash "$srcdir/jobs/llama7b.slurm" t.yaml; }
expect_queued() { expect_equal "$(sort queued | uniq -c | tr -s ' ')" "${1:+ $1 requeue 7}"; }

test_a_run_that_saved_is_queued_again_and_one_that_is_done_is_not() {
  write_cluster 'touch run/REQUEUE'
  job 0
  expect_queued 1
  write_cluster 'rm run/REQUEUE'
  job 0
  expect_queued ""
}

test_a_program_that_is_not_on_the_path_is_told() {
  write_cluster 'exit 0'
  ln -s "$(command -v grep)" bin/
  expect_run 3 env PATH="$PWD/bin" SLURM_JOB_ID=7 "$BASH" "$srcdir/jobs/llama7b.slurm" t.yaml
  expect_err '^error: hpctrain is not on the PATH$'
  expect_err '^help: module load hpctrain'
  expect_queued ""
}

test_errors_are_not_queued_again() {
  local status
  for status in 1 2 3; do
    write_cluster "mkdir -p run/attempts/$status; exit $status"
    job $status
    expect_queued ""
  done
}

# As when a node or Slurm's controller does not answer in that moment.
test_a_launcher_that_fails_by_itself_is_tried_again() {
  write_cluster 'exit 1'
  rm -r run
  job 0
  expect_queued 1
}

# 4: a rank is lost; 137: so says mpirun.
test_lost_ranks_are_queued_again_until_three_jobs_have_come_no_further() {
  write_cluster '[ -e run/checkpoints/step-00000005 ] || exit 137; exit 4'
  job 0
  job 0
  job 137
  expect_out '^note  status 137: 3 jobs have come no further than the start: not queued again$'
  expect_queued 2
  mkdir run/checkpoints/step-00000005
  job 0
  expect_queued 3
}

# Before mpirun listens, which takes it some tenths of a second, the script's SIGUSR1 ends it.
test_a_launcher_that_the_signal_ends_is_queued_again() {
  write_cluster 'kill -USR1 $PPID; exec sleep 60'
  rm -r run
  job 0
  expect_out '^note  status 138: job 7 is queued again$'
  expect_queued 1
}

# The signal comes while the script reads the run file: it waits for the launcher, and ends one that takes longer than its second.
test_a_signal_before_the_launch_is_handed_on() {
  write_cluster 'trap "touch told run/REQUEUE; kill \$!; exit" USR1; touch begun; sleep 20 & wait'
  printf '#!/bin/sh\nkill -USR1 $PPID\nexit 1\n' > bin/srun
  job 0
  expect_queued 1
  [ -e told ] || [ ! -e begun ]
}

check_main "$@"
