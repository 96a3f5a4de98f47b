#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hpctrain beside PyTorch on this CPU, at the same model and batch, in turns: tokens/s, peak memory, start-up.
#   test/bench/cpu_peer.sh [PEER.py]
# PEER.py (or $PEER) trains the same Llama in PyTorch: --threads N --steps N --skip N [--compile], the model being its default;
# it prints "PEER {json}" with tok_s, step_ms, first_step_s and peak_mib_above_start.  Without it, or without torch, hpctrain
# is measured alone.  More from the environment:
#   HPCTRAIN=./hpctrain  PYTHON=python3  THREADS="1 2"  ROUNDS=3  STEPS=24  SKIP=4  COMPILE=1 (the compiled peer too)
# Medians over the steps after SKIP, then over rounds; a ratio is the median of the rounds' ratios.  Memory is the peak above
# the process before the model exists (hpctrain: after MPI_Init; PyTorch: after its import).
set -u
peer=${1-${PEER-}}
hpctrain=$(realpath "${HPCTRAIN:-./hpctrain}") python=${PYTHON:-python3} threads=${THREADS:-1 2}
rounds=${ROUNDS:-3} steps=${STEPS:-24} skip=${SKIP:-4} compile=${COMPILE:-1}

die() {
  printf 'error: %s\n' "$1" >&2
  exit "${2:-2}"
}
note() { printf 'note  %s\n' "$1"; }
[ -x "$hpctrain" ] || die "$hpctrain: not there
help: build it, or HPCTRAIN=path/to/hpctrain"
folder=$(mktemp -d) || exit 3
trap 'rm -rf "$folder"' EXIT
results=$folder/results # SYSTEM THREADS ROUND tokens/s MiB: a line a run
: > "$results"

if [ -z "$peer" ]; then
  note "no peer: name its script, test/bench/cpu_peer.sh PEER.py; hpctrain alone"
elif [ ! -r "$peer" ]; then
  die "$peer: cannot be read"
elif ! torch=$("$python" -c 'import torch; print(torch.__version__)' 2> /dev/null); then
  note "no peer: $python has no torch (pip install torch); hpctrain alone"
  peer=
fi

# Token files need no more than this: two bytes a token, low one first.
make_tokens() {
  printf %b "$(od -An -v -tu2 -w2 -N 131072 /dev/urandom | awk '{ t = $1 % 512; printf "\\0%03o\\0%03o", t % 256, t / 256 }')" > "$1"
}

make_run_file() { # THREADS
  cat << END
hpctrain: 1
run: {name: peer, folder: $folder/run}
model: {vocab_size: 512, hidden_size: 256, num_hidden_layers: 6, num_attention_heads: 8, num_key_value_heads: 8, intermediate_size: 688}
data: {train: $folder/tokens.bin, dtype: uint16}
train: {seq_len: 256, duration: $steps steps, global_batch_size: 8 sequences, micro_batch_size: 8, lr: 3e-4, schedule: constant}
device: {kind: cpu}
cpu: {threads: $1}
log: {every: 1 steps}
END
}

# number KEY: its value in each JSON line of stdin, "null" and absent ones left out.
number() { sed -nE "s/.*\"$1\": ?(-?[0-9][-+.0-9eE]*).*/\1/p"; }
median() { sort -g | awk '{ v[NR] = $1 } END { if (NR) print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

ours_failed() {
  tail -n 15 "$folder/out" "$folder/err" >&2
  die "$1" 1
}

# train THREADS CACHE [KEY=VALUE…]: a run; its start-up time goes to $started.
train() {
  local count=$1 cache=$2
  shift 2
  rm -rf "$folder/run"
  make_run_file "$count" > "$folder/peer.yaml"
  XDG_CACHE_HOME=$cache "$hpctrain" train "$folder/peer.yaml" "$@" > "$folder/out" 2> "$folder/err" < /dev/null ||
    ours_failed "hpctrain ended with status $?"
  started=$(sed -nE 's/^ready +([0-9.]+) s.*/\1/p' "$folder/out")
  [ -n "$started" ] || ours_failed "hpctrain told no start-up time"
}

ours() { # THREADS ROUND
  local rate memory
  train "$1" "$folder/cache"
  grep '"type":"step"' "$folder/run/metrics.jsonl" > "$folder/steps"
  rate=$(tail -n +$((skip + 1)) "$folder/steps" | number tokens_per_second | median)
  memory=$(tail -n 1 "$folder/steps" | number memory_gib | awk '{ print $1 * 1024 }')
  [ -n "$rate" ] || ours_failed "hpctrain told no speed"
  echo "ours $1 $2 $rate ${memory:--}" >> "$results"
}

theirs() { # SYSTEM THREADS ROUND [--compile]
  local system=$1 count=$2 round=$3 line
  shift 3
  line=$("$python" "$peer" --threads "$count" --steps "$steps" --skip "$skip" "$@" 2> "$folder/err" < /dev/null | grep '^PEER ')
  [ -n "$line" ] || die "$peer --threads $count $*: no PEER line: $(tail -n 3 "$folder/err")" 1
  echo "$system $count $round $(number tok_s <<< "$line") $(number peak_mib_above_start <<< "$line") $(number first_step_s <<< "$line")" >> "$results"
}

# column SYSTEM THREADS N; ratio SYSTEM THREADS N: ours over theirs, a round each.
column() { awk -v s="$1" -v t="$2" -v n="$3" '$1 == s && $2 == t && $n != "" && $n != "-" { print $n }' "$results" | median; }
ratio() {
  awk -v s="$1" -v t="$2" -v n="$3" '$2 == t && $1 == "ours" { a[$3] = $n } $2 == t && $1 == s { b[$3] = $n }
    END { for (r in a) if (r in b && a[r] != "-" && b[r] + 0 > 0) print a[r] / b[r] }' "$results" | median
}
# cell FORMAT VALUE: "-" where there is none.
cell() { if [ -n "$2" ]; then awk -v f="$1" -v v="$2" 'BEGIN { printf f, v }'; else printf -- -; fi; }

make_tokens "$folder/tokens.bin"
read -r load _ < /proc/loadavg
printf 'machine  %s, %s cores, load %s\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" "$load"
printf 'systems  %s; %s\n' "$("$hpctrain" --version)" "${peer:+PyTorch $torch}"
printf 'work     256/6/8/kv8/688/512, 8 x 256 tokens, float32; %s steps after %s, %s rounds\n' "$((steps - skip))" "$skip" "$rounds"
awk -v l="$load" 'BEGIN { exit l < 0.5 }' && note "the machine is busy: these figures are worth little"

for count in $threads; do
  for ((round = 1; round <= rounds; round++)); do
    [ -z "$peer" ] || theirs eager "$count" "$round"
    ours "$count" "$round"
    [ -z "$peer" ] || [ "$compile" = 0 ] || theirs compiled "$count" "$round" --compile
  done
done
for ((round = 1; round <= rounds; round++)); do
  train 2 "$folder/cold$round" train.stop_after=1steps
  echo "start cold $round $started" >> "$results"
  train 2 "$folder/cold$round" train.stop_after=1steps
  echo "start warm $round $started" >> "$results"
done

format='%-7s %-9s %8s %6s %6s %6s %12s\n'
# shellcheck disable=SC2059
printf "$format" threads system tok/s ratio MiB ratio 'first step s'
for count in $threads; do
  for system in ours eager compiled; do
    [ -n "$(column $system "$count" 4)" ] || continue
    if [ $system = ours ]; then of='' memory_of=''; else of=$(ratio $system "$count" 4) memory_of=$(ratio $system "$count" 5); fi
    # shellcheck disable=SC2059
    printf "$format" "$count" $system "$(cell %.0f "$(column $system "$count" 4)")" "$(cell %.2f "$of")" \
      "$(cell %.0f "$(column $system "$count" 5)")" "$(cell %.2f "$memory_of")" "$(cell %.2f "$(column $system "$count" 6)")"
  done
done
printf 'start    exec to first step: %s s cold, %s s warm\n' "$(cell %.2f "$(column start cold 4)")" "$(cell %.2f "$(column start warm 4)")"
printf 'aims     tok/s at least 1.0 and memory at most 0.7 of eager; start at most 5 s cold, 0.6 s warm\n'
