# SPDX-License-Identifier: Apache-2.0
# What comparisons with PyTorch on the same GPUs share: sourced with FOLDER PEER.py OUT (h200.sh says what those are).  Leaves a folder
# of its own as the current one, and in variables: hpctrain, peer, out, small, gpus (how many), card, version, commit, results.
# Whoever sources it sets `rows`, a line each, and then runs one by `ours` and `theirs`:
# ROW model of ours, of theirs, sequence, passes, GPUs, steps, warm-up, our list, their list (-: the peer has no such model)
folder=$(realpath "$1") peer=$2 out=$3
hpctrain=$folder/hpctrain python=${PYTHON:-python3} small=${SMALL-}
plain=${LD_LIBRARY_PATH-} # PyTorch finds its own libraries
export LD_LIBRARY_PATH=$folder/../lib:$plain:/usr/local/cuda/lib64 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

die() {
  printf 'error: %s\n' "$1" >&2
  exit "${2:-2}"
}
note() { printf 'note  %s\n' "$1"; }
[ -x "$hpctrain" ] || die "$hpctrain: not there"
[ -z "$peer" ] || [ -r "$peer" ] || die "$peer: cannot be read"
[ -z "$peer" ] || peer=$(realpath "$peer")
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

# ROW MICRO:RECOMPUTE[:STEPS]: leaves the run file and what is said of it in `words`.
run_of() {
  local row=$1 micro recompute model seq passes count steps own
  read -r _ model _ seq passes count steps _ < <(grep "^$row " <<< "$rows")
  IFS=: read -r micro recompute own <<< "$2"
  steps=${STEPS:-${own:-$steps}}
  [ -z "$small" ] || model=llama-5m seq=64
  words=(run.yaml run.name="$row" run.folder="$work/run" model.preset="$model" data.train=tokens.bin data.dtype=uint16 train.seq_len="$seq"
    train.duration="${steps}steps" train.global_batch_size="$((micro * passes * count))sequences" train.micro_batch_size="$micro"
    train.lr=3e-4 train.schedule=constant precision.compute=bf16 memory.recompute="$recompute" checkpoint.every=none log.every=1steps)
  # shellcheck disable=SC2206
  words+=(${KEYS-})
  echo 'hpctrain: 1' > run.yaml
}

ours() { # ROW MICRO:RECOMPUTE[:STEPS] CACHE: false where it failed
  local row=$1 micro recompute seq passes count skip words rate step memory begin first status
  read -r _ _ _ seq passes count _ skip _ < <(grep "^$row " <<< "$rows")
  IFS=: read -r micro recompute _ <<< "$2"
  run_of "$1" "$2"
  words+=(device.kind="$([ -z "$small" ] && echo cuda || echo cpu)")
  rm -rf run
  [ "$count" = 1 ] || words=(-np "$count" --bind-to none --oversubscribe "$hpctrain" "${words[@]}")
  watch_begin
  begin=$EPOCHREALTIME
  XDG_CACHE_HOME=$work/$3 timeout 150 "$([ "$count" = 1 ] && echo "$hpctrain" || echo mpirun)" "${words[@]}" > out 2> err < /dev/null
  status=$?
  watch_end
  grep '"type":"step"' run/metrics.jsonl > steps 2> /dev/null
  rate=$(tail -n +$((skip + 1)) steps | number tokens_per_second | median)
  step=$(tail -n +$((skip + 1)) steps | number seconds | median)
  [ $status = 0 ] && [ -n "$rate" ] || { failed "$row" hpctrain "$micro" "$recompute" $status out err; return 1; }
  grep '"type":"start"' run/metrics.jsonl > start
  rate=$(calc "$rate / $count")
  memory=$(tail -n 1 steps | number memory_gib | awk '{ printf "%.2f", $1 }')
  first=$(calc "$(number time < start) - $begin + $(head -n 1 steps | number seconds)") # from the launcher's start on, as the peer's
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

theirs() { # ROW MICRO:RECOMPUTE[:STEPS]: false where it failed
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
  [ -s peer ] || { failed "$row" pytorch "$micro" "$recompute" 1 err; return 1; }
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
