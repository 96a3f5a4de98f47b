#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# long.sh SECONDS CORES OUT STATE LIBFUZZER [DRIVER]: all fuzz targets on CORES cores for SECONDS, and a table of what has been run.
#   LIBFUZZER, DRIVER: build folders of the targets by libFuzzer and by the driver; of eight processes seven are the first's.
#   OUT: findings (TARGET-crash-…, -timeout-…, -oom-…, the driver's fuzz-…), each with the end of its log beside it; `summary`.
#   STATE: corpora, and `done`, a line a process: target, kind, cases, its seconds of a core, findings.  A later call goes on from
#     there with other seeds, and its table is of all calls.
# The time goes to what is short of GOAL cases (10 million), at the rate that it last had.
set -uo pipefail
[ $# -ge 5 ] || { echo "usage: $0 SECONDS CORES OUT STATE LIBFUZZER [DRIVER]" >&2; exit 2; }
mkdir -p "$3" "$4/corpus" || exit 1
# shellcheck disable=SC2034 # libfuzzer and driver are kinds: ${!kind}
seconds=$1 cores=$2 out=$(cd "$3" && pwd) state=$(cd "$4" && pwd) libfuzzer=$(cd "$5" && pwd) driver=${6:+$(cd "$6" && pwd)}
srcdir=${srcdir:-$(dirname "$0")/../..}
srcdir=$(cd "$srcdir" && pwd)
# A small quarantine: memory that no case has touched is slow.
export srcdir ASAN_OPTIONS=quarantine_size_mb=8 LSAN_OPTIONS=suppressions=$srcdir/test/leaks.supp:print_suppressions=0
goal=${GOAL:-10000000} findings_most=10 # of a process's share of the time
TIMEFORMAT='%U %S'

round=$(cat "$state/round" 2>/dev/null || echo 0)
echo $((round + 1)) >"$state/round"
touch "$state/done"
work=$(mktemp -d /dev/shm/hpctrain-fuzz-XXXXXX) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'kill $(jobs -p) 2>/dev/null; exit 1' INT TERM

# Where a debugger is forbidden leaks cannot be looked for.
leaks=1
FUZZ_FOLDER=$work "$libfuzzer/test/fuzz/fuzz_config" -runs=1 2>&1 | grep -q 'LeakSanitizer has encountered' &&
  leaks=0 ASAN_OPTIONS+=:detect_leaks=0

# plan PARTS SPAN: as many lines "kind target", each of SPAN seconds: in proportion to the time that each target still wants,
# and first to those that one part suffices, or that have had none.
plan() {
  local kind target
  for kind in libfuzzer driver; do
    for target in "${!kind}"/test/fuzz/fuzz_*; do
      [[ -n ${!kind} && -x $target && ! -d $target && $target != *.* ]] && echo "$kind ${target##*/fuzz_}"
    done
  done | awk -v parts="$1" -v span="$2" -v goal="$goal" '
    function wanted(target) {
      if (!given[target] && left[target] > 0 && left[target] <= span) return 1e9
      return (left[target] > 0 ? left[target] : 1) / (given[target] + 1)
    }
    !list { cases[$2 " " $1] += $3; if ($4 > 3 || !rate[$2 " " $1]) rate[$2 " " $1] = ($3 + 1) / ($4 + 1); next }
    { of[$1, ++n[$1]] = $0; left[$0] = rate[$0] ? (goal - cases[$0]) / rate[$0] : span }
    END {
      for (i = 0; i < parts; i++) {
        kind = i % 8 == 7 && n["driver"] ? "driver" : "libfuzzer"
        best = of[kind, 1]
        for (k = 2; k <= n[kind]; k++) if (wanted(of[kind, k]) > wanted(best)) best = of[kind, k]
        given[best]++
        print best
      }
    }' "$state/done" list=1 -
}

# run_once KIND TARGET SEED SECONDS LOG, in the current folder: one process, and its line in `done`.
run_once() {
  local kind=$1 target=$2 seed=$3 span=$4 log=$5 cases found=0 file used command
  command=("${!kind}/test/fuzz/fuzz_$target")
  if [ "$kind" = driver ]; then
    command+=(--seconds "$span" --seed "$seed")
  else
    mkdir -p "$state/corpus/$target"
    command+=(-max_total_time="$span" -seed="$seed" -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=1024 -detect_leaks="$leaks"
      -artifact_prefix="$target-" -print_final_stats=1 "$state/corpus/$target")
  fi
  used=$( { time builddir=${!kind} FUZZ_FOLDER=$PWD timeout -s INT -k 2 $((span + 1)) "${command[@]}" >"$log" 2>&1; } 2>&1)
  case $kind in
  driver) cases=$(sed -nE 's/^([0-9]+) cases$|^FAILED .*: case ([0-9]+) of seed.*/\1\2/p' "$log" | tail -n 1) ;;
  *)
    cases=$(sed -n 's/^stat::number_of_executed_units: //p' "$log" | tail -n 1)
    [ -n "$cases" ] || cases=$(sed -nE 's/^#([0-9]+).*/\1/p' "$log" | tail -n 1)
    ;;
  esac
  [ "${cases:-0}" -gt 0 ] || cp "$log" "$target-crash-at-start"
  for file in "$target"-crash-* "$target"-timeout-* "$target"-oom-* "$target"-leak-* fuzz-*; do
    [ -f "$file" ] || continue
    tail -n 200 "$log" >"$out/$file.log" && mv "$file" "$out/" && found=$((found + 1))
  done
  echo "$target $kind ${cases:-0} $(awk '{ print $1 + $2 }' <<<"$used") $found" >>"$state/done"
  return "$((found > 0))"
}

# run_part KIND TARGET SEED END, in seconds of this script: again with another seed for as long as it ends by a finding.
run_part() {
  local kind=$1 target=$2 seed=$3 end=$4 k folder=$work/$3
  mkdir -p "$folder" && cd "$folder" || return
  for ((k = 0; k < findings_most && SECONDS < end; k++)); do
    run_once "$kind" "$target" $((seed + k)) $((end - SECONDS)) "$folder/log" && break
  done
  cd "$work" && rm -rf "$folder"
}

tell() {
  echo "| target | cases with sanitizers, millions | core hours | cases without, millions | core hours | findings |"
  echo "|---|---|---|---|---|---|"
  awk '{ cases[$1, $2] += $3; time[$1, $2] += $4; found[$1] += $5 }
    END { for (t in found) printf "| %s | %.3g | %.2f | %.3g | %.2f | %d |\n", t, cases[t, "libfuzzer"] / 1e6,
      time[t, "libfuzzer"] / 3600, cases[t, "driver"] / 1e6, time[t, "driver"] / 3600, found[t] }' "$state/done" | sort
  [ "$leaks" = 1 ] || echo "Leaks were not looked for."
}

each=$(((40 + cores - 1) / cores)) # parts of a core
[ "$seconds" -ge $((10 * each)) ] || each=$(((seconds + 9) / 10))
span=$((seconds / each))
mapfile -t parts < <(plan $((each * cores)) "$span")
for ((c = 0; c < cores; c++)); do
  for ((k = 0; k < each; k++)); do
    i=$((k * cores + c))
    # shellcheck disable=SC2086
    run_part ${parts[i]} $(((round * each * cores + i + 1) * findings_most)) $((span * (k + 1)))
  done &
done
wait
tell | tee "$out/summary"
