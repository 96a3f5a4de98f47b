#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The shipped job script on a Slurm of two nodes that this program starts here: to its end, before its limit, without a rank, without
# a node.  Skipped where Slurm is not installed.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/../e2e/resume_case.sh"
. "$(dirname "$0")/cluster.sh"

# A run with a rank on each node; its ranks talk over the loopback.
export PATH=$builddir:$PATH OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=lo
plain=cpu.compiler=none

# submit WORD… -- WORD…: the shipped script with these words for Slurm, and those for hpctrain; its number in $job, its log in $log.
submit() {
  local words=()
  while [ "$1" != -- ]; do words+=("$1"); shift; done
  shift
  job=$(sbatch --parsable --nodes=2 --ntasks-per-node=1 --cpus-per-task=1 "${words[@]}" "$srcdir/jobs/llama7b.slurm" t.yaml $plain "$@")
  log=llama7b-$job.log
}
state() { scontrol -o show job "$job" | sed -nE 's/.* JobState=([A-Z_]+) .*/\1/p'; }
is_state() { [ "$(state)" = "$1" ]; }
told() { grep -qsE -e "$1" "$log"; }
expect_told() { expect_line "$log" "$1"; }
endless() { sed -i 's/10 steps/1000000 steps/' t.yaml; }

# Slurm lets a job that is queued again wait for two minutes; a few seconds after its end its nodes take it again.
has_begun_again() {
  if is_state PENDING; then
    sleep 3
    scontrol update JobId="$job" StartTime=now 2> /dev/null || :
  fi
  told ', attempt 2 '
}
again() { eventually has_begun_again; }

# ranks_on NODE: of the job, on this cluster alone.
ranks_on() {
  local pid mine
  for pid in $(pgrep -x hpctrain); do
    mine=$(tr '\0' '\n' 2> /dev/null < "/proc/$pid/environ" | grep -cxF -e "SLURM_CONF=$SLURM_CONF" -e "SLURM_JOB_ID=$job" -e "SLURMD_NODENAME=$1") || :
    if [ "$mine" = 3 ]; then echo "$pid"; fi
  done
}

# The job stops for good; what it has computed, over two attempts, are the bits of a run that nothing has disturbed.
expect_undisturbed() {
  touch run/STOP
  eventually is_state COMPLETED
  expect_told '^resume   run/checkpoints/step-[0-9]+, verified'
  local steps
  steps=$(numbers run | tail -n 1 | cut -d ' ' -f 1)
  srun --mpi=pmix -N 2 -n 2 hpctrain t.yaml $plain run.folder=straight train.stop_after="${steps}steps" > out
  expect_same run straight
}

# --- tests -----------------------------------------------------------------------------------------------------------------

test_the_shipped_script_trains_under_srun_and_mpirun() {
  write_run
  local launch
  for launch in srun mpirun; do
    LAUNCH=$launch submit --time=10 -- run.folder=$launch
    eventually is_state COMPLETED
    expect_told '^hpctrain .*  job [0-9]+, attempt 1 '
    expect_told '^mpi +2 ranks, 2 nodes n\[1-2\]; '
    expect_told '^limit +[0-9]+m [0-9]+s left until Slurm ends the job; '
    expect_told '^done   10 of 10 steps'
  done
  expect_same srun mpirun
}

test_srun_without_pmix_is_detected() {
  write_run
  expect_run 3 srun --mpi=none -N 2 -n 2 hpctrain t.yaml $plain
  expect_err '^error: srun started 2 programs of one rank each: SLURM_NTASKS is 2 and there is no PMIx$'
  expect_err '^help: srun --mpi=pmix'
  [ ! -e run ]
}

# Slurm's signal, which may come a minute early; the run itself knows of no limit.
test_a_signal_before_the_limit_queues_the_job_again() {
  write_run
  endless
  local launch
  for launch in srun mpirun; do
    rm -rf run straight
    LAUNCH=$launch submit --time=1 --signal=B:USR1@30 -- train.time_limit=none
    eventually told '^note  SIGUSR1: the run saves and ends$'
    eventually told '^note  status 0: job [0-9]+ is queued again$'
    again
    expect_undisturbed
  done
}

# The run's own look at the clock.  URG, which bash ignores, takes the place of the script's signal, and comes a minute early.
test_a_run_ends_before_its_job_does() {
  write_run
  endless
  submit --time=1 --signal=B:URG@1 --
  slowdown=2 eventually told '^note  train.time_limit: the run saves and ends$' # most of the job's minute has to go by
  again
  expect_undisturbed
}

test_a_lost_rank_queues_the_job_again() {
  write_run
  endless
  local launch
  for launch in srun mpirun; do
    rm -rf run straight
    LAUNCH=$launch submit --time=10 -- checkpoint.every=5steps
    eventually told '^ckpt'
    kill -KILL $(ranks_on n2)
    eventually told '^note  status [0-9]+: job [0-9]+ is queued again$'
    again
    expect_undisturbed
  done
}

# A node goes away with all that runs on it, and comes back from a boot, without the sockets of what it ran.
test_a_lost_node_queues_the_job_again() {
  write_run
  endless
  submit --time=10 -- checkpoint.every=5steps
  eventually told '^ckpt'
  local ranks
  ranks=$(ranks_on n2)
  kill -KILL "$(cat "$cluster/slurmd.n2.pid")" $(ps -o ppid= -p "$ranks") $ranks
  eventually is_state PENDING
  find "$cluster/spool.n2" "$cluster/tmp.n2" -mindepth 1 -delete
  cluster_node n2
  eventually nodes_are_idle
  again
  expect_undisturbed
}

# Slurm's own ways to tell a step's ranks to end: each saves, and leaves the sign to go on.  -X: srun passes Ctrl-C on.
test_under_srun_signals_save_and_end() {
  write_run
  endless
  local signal pid
  for signal in USR1 TERM INT; do
    rm -rf run out
    srun -X --mpi=pmix -N 2 -n 2 --job-name=$signal hpctrain t.yaml $plain > out 2> err < /dev/null &
    pid=$!
    eventually said out '^step'
    expect_out '^stop +touch run/STOP, or scancel -s USR1; '
    if [ $signal = INT ]; then
      kill -INT $pid
    else
      scancel --signal=$signal "$(squeue -h --name=$signal -o %i).0"
    fi
    wait $pid
    expect_out '^ckpt '
    expect_out '^done '
    expect_line run/REQUEUE "^step [0-9]+ of 1000000: (SIG)?($signal|Ctrl-C)$"
  done
}

by_srun() { # N WORD…
  local n=$1
  shift
  srun --mpi=pmix -N $((n < 2 ? 1 : 2)) -n "$n" "$@"
}
test_a_run_goes_on_under_srun_mpirun_and_alone() {
  expect_same_losses "by_srun 2 full_shard" "by_mpirun 4 no_shard" "by_srun 4 hybrid_shard 2" "alone 1 no_shard" "by_srun 3 shard_opt" \
    "by_srun 1 full_shard" "by_mpirun 2 shard_grad_op"
}

# It may be that node's own file system that is ill.
test_who_has_seen_a_damage_is_told() {
  write_run
  srun --mpi=pmix -N 2 -n 2 hpctrain t.yaml $plain checkpoint.every=5steps > out
  printf x | dd of=run/checkpoints/step-00000010/model.h5 bs=1 seek=100000 conv=notrunc status=none
  srun --mpi=pmix -N 2 -n 2 hpctrain t.yaml $plain > out 2> err
  expect_err '^warn +step-00000010 damaged: .* \(rank [01] on n[12]\)$'
}

test_an_error_of_the_input_is_not_queued_again() {
  write_run
  submit --time=10 -- train.lr=fast
  eventually is_state FAILED
  expect_told "^error: 'train.lr' wants a number"
  expect_equal "$(scontrol -o show job "$job" | grep -oE ' (Restarts|ExitCode)=[^ ]*' | tr -d '\n')" ' Restarts=0 ExitCode=2:0'
  submit --time=10 -- data.train=absent.bin
  eventually is_state FAILED
  expect_told '^error: .*absent\.bin'
  expect_equal "$(scontrol -o show job "$job" | grep -oE ' (Restarts|ExitCode)=[^ ]*' | tr -d '\n')" ' Restarts=0 ExitCode=2:0'
}

lacks=$(cluster_lacks)
if [ "${1-}" != --list ] && [ -n "$lacks" ]; then
  for name in $(check_names); do eval "test_$name() { echo 'note  not tested: $(head -n 1 <<< "$lacks")'; }"; done
elif [ "${1-}" != --list ]; then
  room=$(mktemp -d /tmp/slurm.XXXXXX) # munge's socket wants a short path that all may enter
  chmod 0755 "$room"
  trap 'cluster_down; rm -rf "$room" "$XDG_CACHE_HOME"' EXIT
  trap 'exit 143' HUP INT TERM
  cluster_up "$room" || exit 1
fi
check_main "$@"
