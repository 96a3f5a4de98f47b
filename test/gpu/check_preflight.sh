#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hpctrain check on GPUs: test/gpu/check_preflight.sh FOLDER, which holds hpctrain and hpctrain_cuda.so.  On one GPU and on all of them:
#   it is over within a minute, with rates that this kind of GPU has, clocks and counts of errors
#   a rank that is stopped half of the time is named
. "$(dirname "$0")/gpu_case.sh"

check() { # RANKS WORD…
  local n=$1
  shift
  timeout 90 mpirun --oversubscribe -np "$n" "$hpctrain" check device.kind=cuda "$@"
}

# Files may be slow where others use the disk: whoever is well has half of the median in the rest.
is_well() { # RANKS
  local begin=$SECONDS status=0
  check "$1" --slow=50 > well.out 2>&1 || status=$?
  cat well.out
  echo "told : $((SECONDS - begin)) s"
  sed -nE 's/^(rate|clock|ecc) (.*)/told : \1 \2/p' well.out
  [ $status -eq 0 ] && [ $((SECONDS - begin)) -le 60 ] && grep -q '^done   all is well' well.out
}

rates_are_a_gpus() {
  grep -E '^rate   products +[0-9.]+(T|P) FLOP/s' well.out && grep -E '^rate   memory +[0-9.]+ (GB|TB)/s' well.out &&
    grep -E '^rate   host to GPU +[0-9.]+ GB/s' well.out && grep -E '^rate   GPU to host +[0-9.]+ GB/s' well.out &&
    grep -E '^clock  [0-9]+( to [0-9]+)? MHz at work' well.out
}

slow_rank_is_named() {
  check "$most" --slow=70 > slow.out 2> slow.err < /dev/null &
  local job=$! status=0 pid='' until=$((SECONDS + 60))
  until grep -qs '^device' slow.out || [ $SECONDS -ge $until ]; do sleep 0.05; done
  pid=$(ranks_of $job | sed -n 2p)
  while kill -STOP "$pid" 2> /dev/null; do sleep 0.18 && kill -CONT "$pid" && sleep 0.02; done
  wait $job || status=$?
  cat slow.out slow.err
  [ $status -eq 3 ] && grep -E '^warn   rank 1 \([^)]+ GPU [0-9]+\): .*% of the median' slow.err && grep -E '^help: .*--exclude=' slow.err
}

for np in 1 $([ "$most" -gt 1 ] && echo "$most"); do
  judge "check of $np within a minute" is_well "$np"
  judge "its rates are a GPU's" rates_are_a_gpus
done
[ "$most" -gt 1 ] || { echo "note  skipped: one GPU has nobody beside it" && exit $failed; }
judge "rates of pairs are told" grep -E '^rate   pairs on a node +[0-9.]+ GB/s median' well.out
judge "a slow rank is named" slow_rank_is_named
exit $failed
