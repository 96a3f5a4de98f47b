#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hpctrain and PyTorch on more and more GPUs of a host, in turns, the same work for each GPU: tokens/s a GPU, what is lost to
# communication, the start, memory beside its plan, bits.
#   test/bench/scaling.sh FOLDER PEER.py OUT N… [ROW…]
# FOLDER, PEER.py, OUT and the environment are those of h200.sh.  N: numbers of GPUs; 1 is what efficiencies are of.  ROW, all by default:
#   1b-pytorch 1b-no_shard 1b-full_shard 1b-hybrid_shard     1.1B, sequences of 2048, micro-batch 8
#   7b-pytorch 7b-no_shard 7b-full_shard 7b-hybrid_shard     Llama-2-7B, sequences of 4096, micro-batch 2 (1 where a GPU holds all)
# hybrid_shard: shards of N/2, two replicas.  One GPU has one way, no_shard; its speed is that of the host's slowest.  First steps are
# counted from the launcher's start.  A row of hpctrain is run twice, the second time from a full kernel cache and with a profile of its
# last two steps, and takes 25 s (1b) or 60 s (7b) of N GPUs, half as much again for 1; PyTorch's 30 and 70, twice that for 1.  What
# the plan says does not fit is told and not run.
# OUT/scaling.tsv keeps what earlier calls have found, so that a table may come of several.
#   GPU=h200      the kind that plans are for
#   OURS PEERS    micro-batch:recompute of all rows instead of their own
set -u
[ $# -ge 4 ] || { sed -n '5,6p' "$0" >&2; exit 2; }
. "$(dirname "$0")/peer_case.sh"
shift 3
numbers=() wanted=()
for word; do
  case $word in
    *[!0-9]*) wanted+=("$word") ;;
    *) numbers+=("$word") ;;
  esac
done
all='1b-pytorch 1b-no_shard 1b-full_shard 1b-hybrid_shard 7b-pytorch 7b-no_shard 7b-full_shard 7b-hybrid_shard'
for row in ${wanted[@]+"${wanted[@]}"}; do [[ " $all " = *" $row "* ]] || die "no row is called '$row'"; done
# shellcheck disable=SC2206
[ ${#wanted[@]} -gt 0 ] || wanted=($all)
[ ${#numbers[@]} -gt 0 ] || die "how many GPUs?"
found=$out/scaling.tsv # MODEL WAY N micro:recompute tokens/s/GPU exposed-share cold-s warm-s planned-GiB driver-GiB same-bits
touch "$found"
keep() { (IFS=$'\t' && echo "$*") >> "$found"; }

# MODEL WAY N: of peer_case.sh's columns those from the model on, with one setting.
row_of() {
  case $1-$2-$3 in
    1b-pytorch-*) echo "- 1b 2048 4 $3 10 4 - 8:none" ;;
    1b-*) echo "tinyllama-1.1b - 2048 4 $3 10 4 8:none -" ;;
    7b-pytorch-1) echo "- 7b 4096 4 1 4 1 - 4:full" ;;
    7b-pytorch-*) echo "- 7b 4096 4 $3 6 2 - 2:none" ;;
    7b-no_shard-1 | 7b-full_shard-* | 7b-hybrid_shard-[!2]*) echo "llama2-7b - 4096 4 $3 7 3 2:cheap -" ;;
    *) echo "llama2-7b - 4096 8 $3 7 3 1:cheap -" ;;
  esac
}

# ROW SETTING N: the plan's GiB a GPU; false where that is more than there is.
planned() {
  local words fits
  run_of "$1" "$2"
  if [ -n "$small" ]; then words+=(device.kind=cpu); else words+=(--gpu "${GPU:-h200}"); fi
  fits=$("$hpctrain" plan "${words[@]}" --ranks "$3" 2> err | grep -E '^(fits|short)')
  sed -nE 's/^(fits +|short .*: )([0-9.]+) of .*/\2/p' <<< "$fits"
  [ "${fits%% *}" = fits ]
}
losses() { sed -nE 's/.*"type":"step","step":([0-9]+),.*"loss":([^,]+),.*/\1 \2/p' run/metrics.jsonl; }
exposed() { # of the profile's mean step, what is waited for
  "$hpctrain" profile run | awk '/^rank/ { exit } / exposed / { sum += $4 } $1 == "step" { step = $3 } END { if (step) printf "%.4f", sum / step }'
}

# Many GPUs go as fast as the slowest of them: what efficiencies are of is the slowest one's speed, not the first one's.  The others run
# the same, each alone, all at the same time.
slowest() { # ours|theirs ROW SETTING RATE, which the first GPU has
  local i
  for ((i = 1; i < gpus; i++)); do
    (
      mkdir -p "$work/gpu$i" && cd "$work/gpu$i" || exit 3
      ln -sf ../tokens.bin . && ln -sfn "../$2" "$2"
      export CUDA_VISIBLE_DEVICES=$i
      work=$PWD results=$PWD/results
      : > results
      "$1" "$2" "$3" "$2" | sed "s/^note  /&GPU $i alone: /" >&2
    ) &
  done
  wait
  {
    echo "$4"
    for ((i = 1; i < gpus; i++)); do cut -d' ' -f 5 "$work/gpu$i/results"; done
  } | sort -g | head -n 1
}

measure() { # MODEL WAY N
  local row=$1-$2-$3 KEYS=${KEYS-} setting steps plan rate cold warm driver bits
  rows="$row $(row_of "$@")"
  read -r _ _ _ _ _ _ steps _ setting _ <<< "$rows"
  setting=${OURS:-$setting}
  steps=${STEPS:-$steps}
  [ "$3" = 1 ] || KEYS+=" parallel.strategy=$2"
  [ "$2" != hybrid_shard ] || KEYS+=" parallel.shard_degree=$(($3 / 2))"
  plan=$(planned "$row" "$setting" "$3") || {
    note "$row: not run, $(grep '^error' err)${plan:+$plan GiB a GPU do not fit}"
    keep "$1" "$2" "$3" "$setting" - - - - "${plan:--}" - -
    return
  }
  ours "$row" "$setting" "$row" || return
  read -r _ _ _ _ rate _ driver cold _ < <(tail -n 1 "$results")
  [ "$3" != 1 ] || rate=$(slowest ours "$row" "$setting" "$rate")
  losses > once
  KEYS+=" profile.steps=$((steps - 1))-$steps"
  ours "$row" "$setting" "$row" || return
  warm=$(tail -n 1 "$results" | cut -d' ' -f 8)
  bits=$([ -s once ] && cmp -s once <(losses) && echo same || echo DIFFER)
  keep "$1" "$2" "$3" "$setting" "$rate" "$(exposed | grep . || echo -)" "$cold" "$warm" "${plan:--}" "$driver" "$bits"
}
measure_peer() { # MODEL pytorch N
  local row=$1-$2-$3 setting rate first memory driver
  [ -n "$peer" ] || return
  rows="$row $(row_of "$@")"
  setting=${PEERS:-${rows##* }}
  theirs "$row" "$setting" || return
  read -r _ _ _ _ rate memory driver first _ < <(tail -n 1 "$results")
  [ "$3" != 1 ] || rate=$(slowest theirs "$row" "$setting" "$rate")
  keep "$1" "$2" "$3" "$setting" "$rate" - "$first" - "$memory" "$driver" -
}

# The newest of each model, way and N.  Efficiency is of the same program's one GPU, the ratio to PyTorch on as many; the start is that of
# a full cache.
table() {
  printf '%-5s %-12s %4s %-8s %9s %10s %9s %8s %8s %8s %7s %8s %10s %6s\n' model way GPUs config tok/s/GPU efficiency x\ PyTorch exposed \
    'first s' warm x\ one 'plan GiB' 'driver GiB' bits
  awk -F '\t' '{ key = $1 "\t" $2 "\t" $3; if (!(key in line)) order[++n] = key; line[key] = $0 }
    function ratio(a, b) { return a > 0 && b > 0 ? sprintf("%.3f", a / b) : "-" }
    function of(model, way, gpus, column,   f) { split(line[model "\t" way "\t" gpus], f, "\t"); return f[column] }
    END { for (i = 1; i <= n; i++) {
      split(line[order[i]], f, "\t")
      one = f[2] == "pytorch" ? "pytorch" : "no_shard"
      printf "%-5s %-12s %4s %-8s %9s %10s %9s %8s %8s %8s %7s %8s %10s %6s\n", f[1], f[2], f[3], f[4], (f[5] > 0) ? sprintf("%.0f", f[5]) : "-",
        ratio(f[5], of(f[1], one, 1, 5)), f[2] == "pytorch" ? "-" : ratio(f[5], of(f[1], "pytorch", f[3], 5)),
        f[6] == "-" ? "-" : sprintf("%.1f %%", 100 * f[6]), f[7], f[8], ratio(f[8], of(f[1], one, 1, 8)), f[9], f[10], f[11] } }' "$found"
}

make_tokens "$([ -z "$small" ] && echo 32000 || echo 512)"
printf 'machine  %s GPUs: %s\nsystems  %s, commit %s\n' "$gpus" "${card:-none}" "$version" "$commit"
for n in "${numbers[@]}"; do
  [ -n "$small" ] || [ "$gpus" -ge "$n" ] || { note "$n GPUs: skipped, here are $gpus"; continue; }
  for row in "${wanted[@]}"; do
    case $n-${row#*-} in
      *-pytorch) measure_peer "${row%%-*}" pytorch "$n" ;;
      1-full_shard | 1-hybrid_shard | *[13579]-hybrid_shard) ;;
      *) measure "${row%%-*}" "${row#*-}" "$n" ;;
    esac
  done
done
table | tee "$out/scaling.txt"
