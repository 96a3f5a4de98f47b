#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the test programs of a plan (test/plan) from the build folder and closes with one line "N passed, N failed".
#   test/runner.sh TIER [-j N] [ROW…]     rows of that tier and the tiers before it (quick, suite, slow), or only the rows named
# A test has failed when its program says so, and also when it was listed but did not run; a program has failed when it
# died, ran out of time, or did not print its closing line.  Output is kept in test/log of the build folder.
# N programs run at a time, 2 where there are as many cores; what they say comes in the plan's order all the same.
set -u
usage='usage: test/runner.sh quick|suite|slow [-j N] [ROW…]'
tier=${1:?$usage}
shift
cores=$(nproc)
most=$((cores < 2 ? 1 : 2))
if [ "${1-}" = -j ]; then
  most=${2-}
  [[ $most =~ ^[1-9][0-9]*$ ]] || { echo "$usage" >&2; exit 2; }
  shift 2
fi
srcdir=$(cd "${srcdir:-$(dirname "$0")/..}" && pwd)
builddir=$PWD
plan=${PLAN:-$srcdir/test/plan}
export srcdir builddir
as_root= # for the printed command
if [ "$(id -u)" = 0 ]; then
  as_root='OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 '
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
# A sanitizer's build is slower.  Its leak checker unwinds slowly, or it loses the frames by which test/leaks.supp knows a
# library, and keeps off thread-local storage, on which it crashes after a library was unloaded.  Memory that is not there is NULL,
# as it is without a sanitizer: what is then told is tested.
export slowdown=1
grep -qs -e --enable-sanitize "$builddir/config.status" && slowdown=4
export ASAN_OPTIONS="${ASAN_OPTIONS-fast_unwind_on_malloc=0:malloc_context_size=40:allocator_may_return_null=1}"
export LSAN_OPTIONS="${LSAN_OPTIONS-suppressions=$srcdir/test/leaks.supp:print_suppressions=0:use_tls=0}"
export UBSAN_OPTIONS="${UBSAN_OPTIONS-print_stacktrace=1}"
# Side by side, no program has cores of its own: none is bound to one, and who waits leaves it to others.
if [ "$most" -gt 1 ]; then
  export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1
  export OMP_WAIT_POLICY=passive
fi

logs=$builddir/test/log
mkdir -p "$logs"
tmp=$(mktemp -d "${TMPDIR:-/tmp}/hpctrain-test.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'kill $(jobs -p) 2> /dev/null; wait; exit 143' HUP INT TERM

# A command of the plan, found in the build folder or among the sources.
find_command() {
  if [ -x "$builddir/$1" ]; then echo "$builddir/$1"; else echo "$srcdir/$1"; fi
}

# judge NAMES OUTPUT STATUS: prints "passed failed", then a line for everything that is wrong.
judge() {
  awk -v status="$3" '
    FILENAME == ARGV[1] { planned[$1] = 1; n++; next }
    $1 == "ok" && NF == 2 { ok[$2] = 1 }
    $1 == "FAILED" { name = $2; sub(/:$/, "", name); bad[name] = 1; why[++nwhy] = $0 }
    /^[0-9]+ passed, [0-9]+ failed$/ { closed = 1; closing = $1 + $3 }
    END {
      for (name in planned)
        if (name in bad) failed++
        else if (name in ok) passed++
        else { failed++; why[++nwhy] = "FAILED " name ": planned, but did not run" }
      for (name in ok) if (!(name in planned)) { failed++; why[++nwhy] = "FAILED " name ": ran, but --list does not name it" }
      for (name in bad) if (!(name in planned)) failed++
      if (!n) wrong = "--list names no test"
      else if (status == 124 || status == 137) wrong = "ran out of time"
      else if (!closed) wrong = "died with status " status " before its closing line"
      else if (closing != n) wrong = "its closing line counts " closing " tests, --list " n
      else if (status && !failed) wrong = "no test failed, but it ended with status " status
      if (wrong) { failed++; why[++nwhy] = "FAILED (program): " wrong }
      printf "%d %d\n", passed, failed
      for (i = 1; i <= nwhy; i++) print why[i]
    }' "$1" "$2"
}

# run_row LABEL RANKS SECONDS PROGRAM [ARGUMENT…]: prints what is to be said of it, leaves "passed failed listed" in $tmp/LABEL.counts.
run_row() {
  local label=$1 ranks=$2 seconds=$3 program child begin status verdict cpu
  shift 3
  program=$(find_command "$1")
  shift
  local run=("$program" "$@")
  [ "$ranks" = - ] || run=(mpirun --oversubscribe -np "$ranks" "$program" "$@")
  local log="$logs/$label"
  timeout 60 "$program" "$@" --list > "$log.list" 2> "$log.err" < /dev/null || : > "$log.list"
  mkdir "$tmp/$label"
  begin=$(date +%s%N)
  TMPDIR="$tmp/$label" timeout -k 10 "$((seconds * slowdown))" "${run[@]}" > "$log.out" 2> "$log.err" < /dev/null &
  child=$!
  trap 'kill "$child" && wait "$child"; exit 143' TERM
  wait "$child"
  status=$?
  trap - TERM
  times > "$tmp/$label.times" # a second line for its children, all of them
  cpu=$(awk -F '[ms ]+' 'END { printf "%.1f", 60 * $1 + $2 + 60 * $3 + $4 }' "$tmp/$label.times")
  verdict=$(judge "$log.list" "$log.out" "$status")
  local counts=${verdict%%$'\n'*}
  local good=${counts% *} bad=${counts#* }
  local took=$((($(date +%s%N) - begin) / 10000000))
  printf '%-6s %-28s %4d passed %3d failed %5d.%02d s %6s of CPU\n' "$([ "$bad" = 0 ] && echo ok || echo FAILED)" "$label" "$good" "$bad" \
    $((took / 100)) $((took % 100)) "$cpu"
  rm -rf "${tmp:?}/$label"
  grep '^note' "$log.err" | sed 's/^/  /'
  if [ "$bad" != 0 ]; then
    printf '%s\n' "${verdict#*$'\n'}"
    tail -n 20 "$log.err" | sed 's/^/  | /'
    printf '  log    %s.out, .err\n  again  cd %s && %ssrcdir=%s builddir=%s %s\n' "$log" "$builddir" "$as_root" "$srcdir" "$builddir" "${run[*]} [NAME…]"
  fi
  echo "$counts $(wc -l < "$log.list")" > "$tmp/$label.counts"
}

# wanted NAME TIER: is this row among those asked for?
wanted() {
  local name=$1 row_tier=$2 named
  shift 2
  if [ $# -gt 0 ]; then
    for named; do [ "$named" = "$name" ] && return 0; done
    return 1
  fi
  case $tier:$row_tier in quick:quick | suite:quick | suite:suite | slow:*) return 0 ;; esac
  return 1
}

# The rows of this run, each as often as it names numbers of ranks: label, and run_row's other words.
labels=() words=()
while read -r name row_tier ranks seconds command; do
  case $name in '' | '#'*) continue ;; esac
  wanted "$name" "$row_tier" "$@" || continue
  for np in ${ranks//,/ }; do
    [ "$np" = - ] && labels+=("$name") || labels+=("$name-np-$np")
    words+=("$np $seconds $command")
  done
done < "$plan"

passed=0 failed=0 planned=0 next=0 said=0 ended=() row_of=()

# In order, what is to be said of programs that have ended.  One that left no counts was killed together with its watcher.
say_ended() {
  local good bad listed
  while [ -n "${ended[said]-}" ]; do
    cat "$tmp/${labels[said]}.said"
    read -r good bad listed < "$tmp/${labels[said]}.counts" || good=0 bad=1 listed=1
    passed=$((passed + good)) failed=$((failed + bad)) planned=$((planned + listed)) said=$((said + 1))
  done
}

while [ "$said" -lt ${#labels[@]} ]; do
  if [ "$next" -lt ${#labels[@]} ] && [ $((next - ${#ended[@]})) -lt "$most" ]; then
    # shellcheck disable=SC2086 # a command of the plan is words
    run_row "${labels[next]}" ${words[next]} > "$tmp/${labels[next]}.said" 2>&1 &
    row_of[$!]=$next next=$((next + 1))
  else
    wait -n -p child
    ended[row_of[child]]=yes
    say_ended
  fi
done

if [ ${#labels[@]} = 0 ]; then
  echo "FAILED: $plan has no row for: $tier $*"
  failed=$((failed + 1))
fi
if [ $((passed + failed)) -lt "$planned" ]; then
  echo "FAILED: $planned tests were planned, $((passed + failed)) ran"
  failed=$((failed + 1))
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
