#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Ranks that hang or are slow: named, while what takes long by its nature is left alone.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/train_case.sh"

# The interpreter needs no compiler.
plain=cpu.compiler=none

# Either rank: the one that speaks for the job, too.
test_a_stopped_rank_is_named_and_ends_the_job() {
  write_run
  local who begin status
  for who in 0 1; do
    status=0
    start health.timeout=3s run.folder=stop$who
    begin=$SECONDS
    kill -STOP "$(ranks_of $job | sed -n "$((who + 1))p")"
    wait $job || status=$?
    expect_equal "$status" 4
    [ $((SECONDS - begin)) -le $((3 + 15)) ]
    grep -qE '^error: hang: 1 of 2 ranks in [a-z_]+ .*, step [0-9]+, [0-9]+ s$' err.job
    grep -qE "^   missing  rank $who \\([^)]+\\): not heard of for [0-9]+ s; it was " err.job
    expect_equal "$(grep -c '^error:' err.job)" 1
    expect_equal "$(cat stop$who/error.txt)" "$(grep -A 1000 '^error:' err.job | grep -B 1000 '^help:')"
  done
}

test_a_job_that_is_suspended_as_a_whole_goes_on() {
  write_run
  start health.timeout=4s
  kill -STOP $(ranks_of $job)
  sleep 9
  kill -CONT $(ranks_of $job)
  sleep 2
  touch run/STOP
  wait $job
  [ ! -e run/error.txt ]
}

# While it compiles, with a cache of its own: no step has begun.
test_a_rank_that_hangs_at_the_start_is_named() {
  write_run
  export XDG_CACHE_HOME=$PWD/cache
  local status=0
  timeout 60 mpirun --oversubscribe -np 2 "$hpctrain" t.yaml health.timeout=2s > out.job 2> err.job < /dev/null &
  job=$!
  eventually grep -qs '^mpi ' out.job
  kill -STOP "$(ranks_of $job | sed -n 2p)"
  wait $job || status=$?
  expect_equal "$status" 4
  grep -qE '^error: hang: ' err.job
  grep -qE '^   missing  rank 1 \([^)]+\): not heard of for [0-9]+ s; it was ' err.job
  ! grep -q '^step' out.job
}

# A library between the program and the C library's.
build_shim() { # NAME, its text on standard input
  [ "$slowdown" = 1 ] || { echo "note  no shim under a sanitizer" >&2; return 1; }
  cc -shared -fPIC -o "$1.so" -x c - -ldl
}

test_a_slow_save_is_no_hang() {
  write_run
  build_shim slow << 'END' || return 0
#include <time.h>
int fsync(int fd) { (void)fd; return nanosleep(&(struct timespec){1, 200000000}, 0); }
END
  expect_run 0 env LD_PRELOAD="$PWD/slow.so" mpirun -x LD_PRELOAD --oversubscribe -np 2 timeout 100 "$hpctrain" t.yaml health.timeout=3s
  expect_out '^ckpt +10  .* in ([4-9]|[1-9][0-9])[0-9.]* s'
}

# Rank 1's thread in a flush that never ends, as of a file server that is gone; training went on beside it, and waits for it at its end.
test_a_rank_whose_saver_is_stuck_is_named_with_the_file() {
  write_run
  build_shim dead << 'END' || return 0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int fsync(int fd) {
  char link[64], path[4096] = "";
  const char *rank = getenv("OMPI_COMM_WORLD_RANK");
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (rank && !strcmp(rank, "1") && readlink(link, path, sizeof path - 1) > 0 && strstr(path, "/model"))
    for (;;) pause();
  return fdatasync(fd);
}
END
  local status=0
  LD_PRELOAD=$PWD/dead.so timeout 100 mpirun --oversubscribe -x LD_PRELOAD -np 3 "$hpctrain" t.yaml $plain health.timeout=1.5s \
    checkpoint.async=true checkpoint.files=2 checkpoint.every=3steps train.stop_after=5steps > out 2> err < /dev/null || status=$?
  expect_equal "$status" 4
  expect_out '^step +5 '
  expect_err '^error: hang: not all of 3 ranks go on, step [0-9]+$'
  expect_err '^   missing  rank 1 \([^)]+\): flushing step-00000003\.tmp/model-0000[12]-of-00002\.h5 for [0-9]+ s$'
  expect_equal "$(sed -n '/^error:/,/^help:/p' err | grep -c ' rank [0-9]')" 1
}

# What it reads is mapped; where a file has become shorter the system sends a signal, and whoever handles that by waiting (and lets
# nobody else handle it) is stuck in the read as in one of a file system that does not answer.  Rank 1 has a file of its own.
test_a_rank_that_is_stuck_in_a_read_is_named_with_the_file() {
  write_run
  build_shim stuck << 'END' || return 0
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>
static void hold(int number) { for (;;) (void)number, pause(); }
__attribute__((constructor)) static void set(void) { signal(SIGBUS, hold); }
int sigaction(int number, const struct sigaction *act, struct sigaction *before) {
  int (*next)(int, const struct sigaction *, struct sigaction *) = dlsym(RTLD_NEXT, "sigaction");
  return number == SIGBUS ? 0 : next(number, act, before);
}
END
  local status=0
  mkdir other
  cp data.bin t.yaml other
  sed -i 's/10 steps/1000000 steps/' t.yaml other/t.yaml
  LD_PRELOAD=$PWD/stuck.so timeout 60 mpirun --oversubscribe -x LD_PRELOAD --mca opal_signal "" \
    -np 1 "$hpctrain" t.yaml run.folder="$PWD/run" health.timeout=2s : \
    -np 1 -wdir "$PWD/other" "$hpctrain" t.yaml run.folder="$PWD/run" health.timeout=2s > out.job 2> err.job < /dev/null &
  job=$!
  eventually grep -qs '^step' out.job
  truncate -s 4096 other/data.bin
  wait $job || status=$?
  expect_equal "$status" 4
  grep -qE '^error: hang: 1 of 2 ranks in ' err.job
  grep -qE '^   missing  rank 1 \([^)]+\): reading data\.bin for [0-9]+ s$' err.job
}

# By far, since this machine may be busy: a rank that others hold up by chance is none that is told.
test_a_slow_rank_is_named_once_and_when_it_is_over() {
  write_run
  start $plain health.straggler_every=5steps health.straggler_percent=100
  local pid slower
  pid=$(ranks_of $job | sed -n 2p)
  slow_down "$pid" &
  slower=$!
  eventually grep -qs '^warn' err.job
  kill $slower
  kill -CONT "$pid"
  eventually grep -q '^note  step [0-9]*: rank 1 ([^)]*) is as fast as the others again' out.job
  touch run/STOP
  wait $job
  expect_equal "$(grep -c '^warn' err.job)" 1
  grep -qE '^warn +[0-9]+  rank 1 \([^)]+\) [0-9]+ % slower than median(: clock [0-9]+( of [0-9]+)? MHz)?$' err.job
  expect_equal "$(grep -cE '^\{"type":"straggler","step":[0-9]+,"rank":1,"node":"[^"]+","gpu":null,"slower":[0-9.]+,.*"over":false,' run/metrics.jsonl)" 1
  expect_equal "$(grep -c '"type":"straggler".*"over":true' run/metrics.jsonl)" 1
}

check_main "$@"
