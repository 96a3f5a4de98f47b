#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh Debian 12 or Ubuntu 24.04 machine to text from a model trained on it, in five steps.
#   jobs/quickstart.sh [FOLDER]      FOLDER (default: quickstart) holds data, run file and run; an unfinished run goes on
#   BUILD=FOLDER                     the build folder (default: build); with ./hpctrain in it nothing is installed or built
#   STEPS=N                          instead of the run file's
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$top/quickstart}
build=${BUILD:-$top/build}
case $build in /*) ;; *) build=$PWD/$build ;; esac
hpctrain=$build/hpctrain

# begin N NAME, then end TEXT: "[N/5] NAME      TEXT   SECONDS s", the first half at once.
begin() {
  printf '[%d/5] %-9s ' "$1" "$2"
  began=$(date +%s%N)
}
end() {
  local tenths=$((($(date +%s%N) - began) / 100000000))
  printf '%-66s %3d.%d s\n' "$1" $((tenths / 10)) $((tenths % 10))
}
indent() { sed -u 's/^/      /'; }
# give_up STATUS LOG: the end of what the failed step said.
give_up() {
  echo
  tail -n 20 "$2" >&2
  echo "error: this step failed; all it said is in $2" >&2
  exit "$1"
}

install() {
  local log=$folder/packages.log names
  begin 1 packages
  [ -n "${BUILD:-}" ] && [ -x "$hpctrain" ] && end "not looked at" && return
  "$top/jobs/install-deps.sh" > "$log" || give_up $? "$log"
  names=$(sed -n 's/^packages  installing/installing/p' "$log" | tail -n 1)
  end "${names:-all there}"
}

make_program() {
  { [ -e "$top/configure" ] || "$top/autogen.sh"; } && mkdir -p "$build" && cd "$build" &&
    { [ -e Makefile ] || "$top/configure" --quiet; } && make -s -j"$(nproc)" hpctrain
}

build() {
  begin 2 build
  [ -n "${BUILD:-}" ] && [ -x "$hpctrain" ] && end "$hpctrain, as it is" && return
  (make_program) > "$folder/build.log" 2>&1 || give_up 3 "$folder/build.log"
  end "$hpctrain"
}

# The King James Bible without its references ("Ge1:1 In the …"); where it is not, licences, which every Debian has.
english() {
  if command -v bible > /dev/null; then
    bible -f gen1:1-rev22:21 | sed 's/^[^ ]* //'
  else
    find /usr/share/common-licenses /usr/share/doc -type f \( -path '*/common-licenses/*' -o -name copyright \) -print0 |
      sort -z | xargs -0 cat
  fi
}

data() {
  begin 3 data
  english > "$folder/english.txt"
  "$hpctrain" tokenize "$folder/english.bin" "$folder/english.txt" > "$folder/data.log"
  entropy=$(sed -n 's/.*order-0 entropy \([0-9.]*\).*/\1/p' "$folder/data.log")
  end "$(($(wc -c < "$folder/english.txt") / 1000)) kB of English, order-0 entropy $entropy bits/byte"
}

# Says whether the run that is there has reached its end.
is_complete() { [ -e "$run/log.txt" ] && awk '/^done/ { whole = $2 == $4 } END { exit !whole }' "$run/log.txt"; }

train() {
  # mpirun counts cores, not their hardware threads: of 2 CPUs it may see 1
  local options=(-np 2 --oversubscribe) words=(quickstart.yaml) bits
  [ -z "${STEPS:-}" ] || words+=("train.duration=${STEPS}steps")
  if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
  cd "$folder"
  [ -e quickstart.yaml ] || cp "$top/jobs/quickstart.yaml" .
  begin 4 train
  echo "mpirun ${options[*]} $hpctrain ${words[*]}"
  if is_complete; then
    echo "      the run that was there is complete and makes way for a new one"
    rm -rf run
  fi
  mpirun "${options[@]}" "$hpctrain" "${words[@]}" | tee train.log |
    { grep --line-buffered -E '^(model|batch|resume|ready|step|eval|ckpt| +step)' || true; } | indent
  bits=$(sed -n 's/^eval.* \([0-9.]*\) bits\/byte.*/\1/p' train.log | tail -n 1)
  printf '%16s' ''
  end "$(awk -v bits="$bits" -v entropy="$entropy" 'BEGIN {
    printf "%.2f bits/byte on text it has not seen, %.0f %% below order-0", bits, 100 * (1 - bits / entropy) }')"
}

sample() {
  local prompt="And the king said"
  begin 5 sample
  "$hpctrain" generate "$run" --prompt "$prompt" --tokens 240 --temperature 0.7 > sample.txt 2> sample.log ||
    give_up $? "$folder/sample.log"
  end "hpctrain generate run --prompt \"$prompt\""
  fold -s -w 86 sample.txt | indent
  echo "next  $hpctrain generate $run --prompt \"The king\""
  echo "      change $folder/quickstart.yaml; $hpctrain help explains every key"
}

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
run=$folder/run
install
build
data
train
sample
