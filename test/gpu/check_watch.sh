#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The watch on GPUs: test/gpu/check_watch.sh FOLDER, which holds hpctrain and hpctrain_cuda.so.  On one GPU and on all of them:
#   what takes long in a healthy run (kernels built anew, saves, evaluations, a profile) is no hang, however short the timeout
# And where there are two or more, in steps that are CUDA graphs:
#   a rank that is stopped is named with its node, and with the collective in which the others wait, within health.timeout + 5 s;
#   no process is left 30 s after it was stopped; rank 0, too, which speaks for the job
#   a rank that is killed ends the job
#   a slow rank is named while the run goes on; even ranks are not
. "$(dirname "$0")/gpu_case.sh"

timeout=5
make_tokens 40000
cat > run.yaml << 'END'
hpctrain: 1
run: {name: watch}
model: {vocab_size: 8192, hidden_size: 1024, num_hidden_layers: 8, num_attention_heads: 16, num_key_value_heads: 4, intermediate_size: 2816}
data: {train: tokens.bin, tokenizer: bytes, val_fraction: 0.1}
train: {seq_len: 1024, duration: 1000000 steps, global_batch_size: 64 sequences, micro_batch_size: 4, lr: 1e-4, schedule: constant}
precision: {compute: bf16}
checkpoint: {every: none}
eval: {tokens: 100K}
device: {kind: cuda}
END
many() { # RANKS WORD…
  local n=$1
  shift
  timeout 200 mpirun --oversubscribe -np "$n" "$hpctrain" run.yaml "$@"
}

begin() { # WORD…: all ranks in the background, in their fifth step or behind it
  rm -f job.out job.err
  many "$most" health.timeout=${timeout}s "$@" > job.out 2> job.err < /dev/null &
  job=$!
  local until=$((SECONDS + 120))
  while ! grep -qsE '^step +[0-9]*[5-9] ' job.out; do
    if [ $SECONDS -ge $until ] || ! kill -0 $job 2> /dev/null; then
      cat job.out job.err
      return 1
    fi
    sleep 0.1
  done
}
rank() { ranks_of $job | sed -n "$(($1 + 1))p"; }
all_gone() { # PID…
  local p
  for p; do ! kill -0 "$p" 2> /dev/null || return 1; done
}

ends_by() { # SIGNAL RANK SECONDS: the job, so many seconds behind the signal at the most, and all its processes 30 s behind it
  local pids at status=0
  pids=$(ranks_of $job)
  at=$(date +%s%N)
  kill -"$1" "$(rank "$2")"
  wait $job || status=$?
  took=$((($(date +%s%N) - at) / 1000000))
  cat job.err
  echo "told : over $took ms behind SIG$1, status $status"
  [ $status -ne 0 ] && [ $took -le $(($3 * 1000)) ] || return 1
  # shellcheck disable=SC2086
  until all_gone $pids; do
    [ $((($(date +%s%N) - at) / 1000000)) -le 30000 ] || return 1
    sleep 0.2
  done
}
stopped_rank_is_named() { # FOLDER RANK WORD…
  local folder=$1 who=$2
  shift 2
  begin run.folder="$folder" "$@" || return 1
  ends_by STOP "$who" $((timeout + 5)) || return 1
  grep -E "^error: hang: $((most - 1)) of $most ranks in [a-z_]+ .*, step [0-9]+, [0-9]+ s$" job.err || return 1
  grep -E "^   missing  rank $who \\([^)]+\\): not heard of for [0-9]+ s; it was " job.err || return 1
  [ "$(grep -c '^error:' job.err)" = 1 ] && grep -q '^error: hang' "$folder/error.txt"
}
killed_rank_ends_the_job() { begin run.folder=kill && ends_by KILL $((most - 1)) 30; }

# Half of the time it is stopped, for less than any timeout: its GPU runs out of work.
slow_rank_is_named() {
  begin run.folder=slow health.straggler_every=20steps || return 1
  local pid until=$((SECONDS + 60))
  pid=$(rank 1)
  until grep -qs '"type":"straggler"' slow/metrics.jsonl || [ $SECONDS -ge $until ]; do
    kill -STOP "$pid" && sleep 0.2 && kill -CONT "$pid" && sleep 0.2
  done
  touch slow/STOP
  wait $job || return 1
  cat job.err slow/metrics.jsonl | grep -E 'slower|straggler'
  sed -nE 's/^warn (.*slower.*)/told : \1/p' job.err
  grep -qE '^warn +[0-9]+  rank 1 \([^)]+ GPU [0-9]+\) [0-9]+ % slower than median: clock [0-9]+ of [0-9]+ MHz' job.err
}
no_rank_is_named() {
  begin run.folder=even health.straggler_every=20steps || return 1
  local until=$((SECONDS + 30))
  while [ $SECONDS -lt $until ] && kill -0 $job 2> /dev/null; do sleep 1; done
  touch even/STOP
  wait $job || return 1
  cat job.err
  ! grep -q 'slower than median' job.err
}

export XDG_CACHE_HOME=$work/cache
for np in 1 $([ "$most" -gt 1 ] && echo "$most"); do
  rm -rf "$XDG_CACHE_HOME"
  judge "a healthy run of $np with a timeout of 1 s" many "$np" health.timeout=1s run.folder="well$np" train.stop_after=60steps \
    checkpoint.every=20steps eval.every=20steps eval.tokens=2M profile.steps=30-32
done
[ "$most" -gt 1 ] || { echo "note  skipped: one GPU has nobody to wait for" && exit $failed; }
for who in 0 $((most - 1)); do judge "rank $who is stopped: it is named" stopped_rank_is_named "stop$who" "$who"; done
judge "the same by NCCL alone" stopped_rank_is_named nccl 1 gpu.gathers=nccl gpu.reductions=nccl
judge "a killed rank ends the job" killed_rank_ends_the_job
judge "a slow rank is named" slow_rank_is_named
judge "even ranks are not" no_rank_is_named
exit $failed
