#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hpctrain beside PyTorch on the same GPUs, in turns: tokens/s a GPU, memory, time to the first step.
#   test/bench/h200.sh FOLDER PEER.py OUT [ROW…]
# FOLDER holds hpctrain and hpctrain_cuda.so (what they load may lie in FOLDER/../lib); PEER.py trains the same Llama in PyTorch;
# OUT gets ROW.jsonl, an object a run, and table.txt.  PEER.py "": hpctrain alone.  ROW, all by default, with the seconds that it takes:
#   1b      1.1B, sequences of 2048, micro-batch 8, 1 GPU                                      70
#   7b      Llama-2-7B, sequences of 4096, 8 micro-batches a step, 1 GPU                      200
#   7b-2    the same, 4 micro-batches a step, full_shard on 2 GPUs                             140
#   gpt2-124m   GPT-2 124M, sequences of 1024, 524,288 tokens a step, 1 GPU; beside a figure of llm.c   50
#   start   Llama-2-7B, fresh weights: from exec to the end of a first step of one micro-batch   60
# Each side has a list of micro-batch:recompute, or micro-batch:recompute:steps; ratios are to the peer's fastest.  More from the
# environment:
#   OURS PEERS    such a list instead of the row's own: OURS="2:cheap 1:none" (PEERS: none, full; "" for hpctrain alone)
#   KEYS          further keys for hpctrain, such as gpu.attention=cudnn-fast
#   STEPS         of each run, the warm-up included, instead of the row's own
#   COMMIT        of the sources, where hpctrain --version does not tell
#   PYTHON=python3   SMALL=1 (on a CPU, a small model: to try this script)
# PEER.py understands --model 1b|7b --seq --batch --accum --steps --skip --ac none|full, and prints "PEER {json}" with tok_s_gpu,
# step_ms, peak_gib and first_step_s.  Speed is the median of the steps after the warm-up.  Memory: what each side knows to have
# allocated at most (hpctrain: its plan, workspaces included; PyTorch: max_memory_allocated), and what the driver says is in use.
set -u
[ $# -ge 3 ] || { sed -n '3,6p' "$0" >&2; exit 2; }
folder=$(realpath "$1") peer=$2 out=$3
shift 3
[ $# -gt 0 ] || set -- 1b 7b 7b-2 gpt2-124m start
hpctrain=$folder/hpctrain python=${PYTHON:-python3} small=${SMALL-}
plain=${LD_LIBRARY_PATH-} # PyTorch finds its own libraries
export LD_LIBRARY_PATH=$folder/../lib:$plain:/usr/local/cuda/lib64 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# ROW model of ours, of theirs, sequence, passes, GPUs, steps, warm-up, our list, their list (-: the peer has no such model)
rows='1b    tinyllama-1.1b 1b 2048 1 1 20 6 8:none,8:cheap         8:none
7b    llama2-7b      7b 4096 8 1  4 1 2:cheap,1:none,3:cheap:3 1:none,4:full:3
7b-2  llama2-7b      7b 4096 4 2  6 2 2:cheap,2:none,3:cheap 2:none
gpt2-124m gpt2-124m  -  1024 8 1 12 2 64:none,64:cheap,32:none -
start llama2-7b      7b 4096 1 1  1 0 1:none                 1:none'
# What programs that are not run here have reached: ROW SYSTEM MICRO RECOMPUTE tokens/s/GPU GiB.  llm.c: bf16, built from its public
# sources of November 2026, on one H200.
quoted='gpt2-124m llm.c 64 none 574210 28.00'

die() {
  printf 'error: %s\n' "$1" >&2
  exit "${2:-2}"
}
note() { printf 'note  %s\n' "$1"; }
[ -x "$hpctrain" ] || die "$hpctrain: not there"
[ -z "$peer" ] || [ -r "$peer" ] || die "$peer: cannot be read"
[ -z "$peer" ] || peer=$(realpath "$peer")
for row; do grep -q "^$row " <<< "$rows" || die "no row is called '$row'"; done
mkdir -p "$out" && out=$(realpath "$out") || exit 3
work=$(mktemp -d) && cd "$work" || exit 3
trap 'rm -rf "$work"' EXIT
export TORCHINDUCTOR_CACHE_DIR=$work/inductor TRITON_CACHE_DIR=$work/triton
results=$work/results # ROW SYSTEM MICRO RECOMPUTE tokens/s/GPU GiB driver-GiB first-s: a line a run, "-" for what is unknown
: > "$results"
gpus=$(nvidia-smi -L 2> /dev/null | grep -c '^GPU')
card=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2> /dev/null | head -n 1)
version=$("$hpctrain" --version) || die "$hpctrain does not start" 1
commit=${COMMIT:-$(sed -nE 's/.*\((.*)\).*/\1/p' <<< "$version")}

# number KEY: its first value in each line of stdin.
number() { sed -nE "s/.*\"$1\": ?(-?[0-9][-+.0-9eE]*).*/\1/p"; }
median() { sort -g | awk '{ v[NR] = $1 } END { if (NR) print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
calc() { awk "BEGIN { printf \"%.6g\", $1 }"; }
text() { tr -d '\000-\010\013-\037' | sed 's/[\\"]/\\&/g' | paste -sd'|' | sed 's/\t/ /g; s/|/\\n/g'; } # as a JSON string wants it

# Tokens need no more than this: two bytes each, low one first.
make_tokens() { # VOCABULARY
  printf %b "$(od -An -v -tu2 -w2 -N 131072 /dev/urandom | awk -v v="$1" '{ t = $1 % v; printf "\\0%03o\\0%03o", t % 256, t / 256 }')" > some.bin
  for ((i = 0; i < 32; i++)); do cat some.bin; done > tokens.bin
}

# --- the driver's view ------------------------------------------------------------------------------------------------------

watch_begin() {
  sampler=
  : > samples
  [ "$gpus" -gt 0 ] || return
  idle=$(nvidia-smi ${CUDA_VISIBLE_DEVICES:+-i "$CUDA_VISIBLE_DEVICES"} --query-gpu=memory.used --format=csv,noheader,nounits | sort -g | tail -n 1)
  nvidia-smi ${CUDA_VISIBLE_DEVICES:+-i "$CUDA_VISIBLE_DEVICES"} --query-gpu=memory.used,power.draw,clocks.sm,utilization.gpu --format=csv,noheader,nounits -lms 250 > samples 2> /dev/null &
  sampler=$!
}
# Leaves driver_gib (the fullest GPU's), and JSON members of it and of clock and power while busy.
watch_end() {
  driver_gib=- driver_json=
  [ -n "$sampler" ] || return
  kill "$sampler" 2> /dev/null
  wait "$sampler" 2> /dev/null
  driver_gib=$(awk -F', *' '$1 > most { most = $1 } END { printf "%.2f", most / 1024 }' samples)
  driver_json=",\"driver_gib\":$driver_gib,\"driver_idle_mib\":$idle"
  driver_json+=",\"busy_watts\":$(awk -F', *' '$4 >= 90 { print $2 }' samples | median | grep . || echo null)"
  driver_json+=",\"busy_mhz\":$(awk -F', *' '$4 >= 90 { print $3 }' samples | median | grep . || echo null)"
}

failed() { # ROW SYSTEM MICRO RECOMPUTE STATUS FILE…: keeps its last words
  local words
  words=$(tail -q -n 12 "${@:6}" 2> /dev/null | tail -n 20)
  note "$1: $2 $3:$4 ended with status $5: $(grep -aiE 'error|out of memory' <<< "$words" | tail -n 1 | cut -c 1-200)"
  printf '{"row":"%s","system":"%s","commit":"%s","micro_batch":%s,"recompute":"%s","status":%s,"said":"%s"}\n' "$1" "$2" "$commit" \
    "$3" "$4" "$5" "$(text <<< "$words")" >> "$out/$1.jsonl"
}

# --- one run of each --------------------------------------------------------------------------------------------------------

ours() { # ROW MICRO:RECOMPUTE[:STEPS] CACHE
  local row=$1 micro recompute model seq passes count steps skip words rate step memory first status own
  read -r _ model _ seq passes count steps skip _ < <(grep "^$row " <<< "$rows")
  IFS=: read -r micro recompute own <<< "$2"
  steps=${STEPS:-${own:-$steps}}
  [ -z "$small" ] || model=llama-5m seq=64
  words=(run.name="$row" run.folder="$work/run" model.preset="$model" data.train=tokens.bin data.dtype=uint16 train.seq_len="$seq"
    train.duration="${steps}steps" train.global_batch_size="$((micro * passes * count))sequences" train.micro_batch_size="$micro"
    train.lr=3e-4 train.schedule=constant precision.compute=bf16 memory.recompute="$recompute" checkpoint.every=none
    device.kind="$([ -z "$small" ] && echo cuda || echo cpu)" log.every=1steps)
  # shellcheck disable=SC2206
  words+=(${KEYS-})
  echo 'hpctrain: 1' > run.yaml
  rm -rf run
  [ "$count" = 1 ] || words=(-np "$count" --bind-to none --oversubscribe "$hpctrain" run.yaml "${words[@]}")
  [ "$count" != 1 ] || words=(run.yaml "${words[@]}")
  watch_begin
  XDG_CACHE_HOME=$work/$3 timeout 150 "$([ "$count" = 1 ] && echo "$hpctrain" || echo mpirun)" "${words[@]}" > out 2> err < /dev/null
  status=$?
  watch_end
  grep '"type":"step"' run/metrics.jsonl > steps 2> /dev/null
  rate=$(tail -n +$((skip + 1)) steps | number tokens_per_second | median)
  step=$(tail -n +$((skip + 1)) steps | number seconds | median)
  [ $status = 0 ] && [ -n "$rate" ] || { failed "$row" hpctrain "$micro" "$recompute" $status out err; return; }
  grep '"type":"start"' run/metrics.jsonl > start
  rate=$(calc "$rate / $count")
  memory=$(tail -n 1 steps | number memory_gib | awk '{ printf "%.2f", $1 }')
  first=$(calc "$(number seconds < start) + $(head -n 1 steps | number seconds)")
  {
    printf '{"row":"%s","system":"hpctrain","commit":"%s","card":"%s","gpus":%s,"micro_batch":%s,"recompute":"%s","passes":%s,"seq":%s' \
      "$row" "$commit" "$card" "$count" "$micro" "$recompute" "$passes" "$seq"
    printf ',"cache":"%s","tok_s_gpu":%s,"step_s":%s,"skip":%s,"memory_gib":%s,"first_s":%s%s' "$3" "$rate" "$step" "$skip" \
      "${memory:-null}" "$first" "$driver_json"
    printf ',"command":"%s","start":%s,"steps":[%s]}\n' "$(text <<< "${words[*]#"$folder/"}")" "$(cat start)" "$(paste -sd, steps)"
  } | sed "s#$work/##g" >> "$out/$row.jsonl"
  echo "$row hpctrain $micro $recompute $rate ${memory:--} $driver_gib $first $3" >> "$results"
  note "$row: hpctrain $micro:$recompute $rate tokens/s/GPU, ${memory:--} GiB (driver $driver_gib), first step ends after $first s"
}

theirs() { # ROW MICRO:RECOMPUTE[:STEPS]
  local row=$1 micro recompute model seq passes count steps skip command begin at line rate memory first own
  read -r _ _ model seq passes count steps skip _ < <(grep "^$row " <<< "$rows")
  IFS=: read -r micro recompute own <<< "$2"
  steps=${STEPS:-${own:-$steps}}
  command=("$python")
  [ "$count" = 1 ] || command+=(-m torch.distributed.run --nproc-per-node="$count")
  command+=("$peer" --model "$model" --seq "$seq" --batch "$micro" --accum "$passes" --steps "$steps" --skip "$skip" --ac "$recompute")
  rm -f peer
  watch_begin
  begin=$EPOCHREALTIME
  LD_LIBRARY_PATH=$plain timeout 240 "${command[@]}" 2> err < /dev/null | while IFS= read -r line; do
    [ "${line#PEER }" = "$line" ] || echo "$EPOCHREALTIME ${line#PEER }" > peer
  done
  watch_end
  [ -s peer ] || { failed "$row" pytorch "$micro" "$recompute" 1 err; return; }
  read -r at line < peer
  rate=$(number tok_s_gpu <<< "$line") memory=$(number peak_gib <<< "$line")
  # Until its line came, less all passes but the first.
  first=$(calc "$at - $begin - $(number step_ms <<< "$line") / 1000 * ($steps - 1 / $passes)")
  [ "$steps" -gt 1 ] || first=$(calc "$at - $begin")
  {
    printf '{"row":"%s","system":"pytorch","commit":"%s","card":"%s","gpus":%s,"micro_batch":%s,"recompute":"%s","passes":%s,"seq":%s' \
      "$row" "$commit" "$card" "$count" "$micro" "$recompute" "$passes" "$seq"
    printf ',"tok_s_gpu":%s,"memory_gib":%s,"first_s":%s%s,"peer":%s}\n' "$rate" "${memory:-null}" "$first" "$driver_json" "$line"
  } >> "$out/$row.jsonl"
  echo "$row pytorch $micro $recompute $rate ${memory:--} $driver_gib $first -" >> "$results"
  note "$row: pytorch $micro:$recompute $rate tokens/s/GPU, ${memory:--} GiB (driver $driver_gib), first step ends after $first s"
}

# --- a row: each side's list in turns; the start twice with an empty cache and twice with a full one ---------------------------

compare() { # ROW
  local row=$1 named mine theirs count i
  read -r _ _ named _ _ count _ _ mine theirs < <(grep "^$row " <<< "$rows")
  [ -n "$small" ] || [ "$gpus" -ge "$count" ] || { note "$row: skipped, it needs $count GPUs, here are $gpus"; return; }
  IFS=' ,' read -ra mine <<< "${OURS-$mine}"
  IFS=' ,' read -ra theirs <<< "${PEERS-$theirs}"
  [ -n "$peer" ] && [ "$named" != - ] || theirs=()
  grep "^$row " <<< "$quoted" | sed 's/$/ - -/' >> "$results"
  if [ "$row" = start ]; then
    for i in 1 2; do
      ours start "${mine[0]}" cold$i
      ours start "${mine[0]}" cold$i
    done
    mine=()
  fi
  for ((i = 0; i < ${#mine[@]} || i < ${#theirs[@]}; i++)); do
    [ $i -ge ${#theirs[@]} ] || theirs "$row" "${theirs[i]}"
    [ $i -ge ${#mine[@]} ] || ours "$row" "${mine[i]}" cache
  done
}

# Every run, its ratios to the peer's fastest.
table() {
  printf '%-9s %-9s %-8s %9s %6s %7s %6s %10s %9s\n' row system config tok/s/GPU ratio GiB ratio 'driver GiB' 'first s'
  awk '$2 != "hpctrain" && $5 > rate[$1] { rate[$1] = $5; memory[$1] = $6 }
    $1 != "start" { line[++n] = $0 }
    END { for (i = 1; i <= n; i++) {
      split(line[i], f, " ")
      ours = f[2] == "hpctrain" && f[1] in rate
      printf "%-9s %-9s %-8s %9.0f %6s %7s %6s %10s %9s\n", f[1], f[2], f[3] ":" f[4], f[5], ours ? sprintf("%.3f", f[5] / rate[f[1]]) : "-",
        f[6], ours && (memory[f[1]] > 0) ? sprintf("%.3f", f[6] / memory[f[1]]) : "-", f[7], f[8] == "-" ? "-" : sprintf("%.1f", f[8]) } }' "$results"
  awk '$1 == "start" && $2 == "hpctrain" { seen[$9]++ ? warm = warm " " $8 : cold = cold " " $8 } $1 == "start" && $2 == "pytorch" { peer = " pytorch " $8 }
    END { if (cold) printf "start  exec to the end of the first step, s: cold%s; warm%s;%s\n", cold, warm, peer }' "$results"
}

make_tokens "$([ -z "$small" ] && echo 32000 || echo 512)"
printf 'machine  %s GPUs: %s\nsystems  %s, commit %s; PyTorch %s\n' "$gpus" "${card:-none}" "$version" "$commit" \
  "$([ -z "$peer" ] && echo none || LD_LIBRARY_PATH=$plain "$python" -c 'import torch; print(torch.__version__)' 2> /dev/null)" | tee "$out/table.txt"
for row; do compare "$row"; done
table | tee -a "$out/table.txt"
