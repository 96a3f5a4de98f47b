# SPDX-License-Identifier: Apache-2.0
# Tests in bash, by the contract of test/check.h.  A test file defines functions test_NAME and ends with check_main "$@":
#   . "$(dirname "$0")/../check.sh"
#   test_version_is_told() { expect_run 0 "$hpctrain" --version; expect_out '^hpctrain '; }
#   check_main "$@"
# A test runs in a folder of its own ($PWD, empty, removed after it) and ends at its first command that fails.
# $srcdir and $builddir are absolute, $hpctrain is the program; $slowdown is more than 1 where a sanitizer slows it.
# SHARE=I/N is the I-th of N parts of a file's tests, for machines with many cores.
# GPUs are hidden, so that device.kind: auto means cpu everywhere; TEST_GPUS=0,1 names those that tests may see.
set -u
srcdir=$(cd "${srcdir:-$(dirname "${BASH_SOURCE[0]}")/..}" && pwd)
builddir=${builddir:-$PWD}
hpctrain=$builddir/hpctrain
slowdown=${slowdown:-1}
export srcdir builddir hpctrain CUDA_VISIBLE_DEVICES=${TEST_GPUS-}
if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi

# mpi N COMMAND…: under mpirun, more ranks than cores allowed.
mpi() {
  local np=$1
  shift
  mpirun --oversubscribe -np "$np" "$@"
}

# expect_run STATUS COMMAND…: runs it, output in ./out and ./err, and expects that exit status.
expect_run() {
  local expected=$1 status=0
  shift
  "$@" > out 2> err < /dev/null || status=$?
  [ "$status" = "$expected" ] && return
  echo "status $status, not $expected: $*" >&2
  tail -n 15 out err >&2
  return 1
}

# expect_out, expect_err PATTERN: a line of the last expect_run's output matches this extended regular expression.
expect_line() {
  grep -qE -e "$2" "$1" && return
  echo "no line of $1 matches: $2" >&2
  tail -n 15 "$1" >&2
  return 1
}
expect_out() { expect_line out "$1"; }
expect_err() { expect_line err "$1"; }

# expect_equal A B: the same text.
expect_equal() {
  [ "$1" = "$2" ] && return
  echo "'$1' is not '$2'" >&2
  return 1
}

# expect_library_agrees SCRIPT ARGUMENT…: a comparison in Python; where the library that it wants is not there (status 77), a message.
expect_library_agrees() {
  local status=0
  python3 "$@" > log 2>&1 || status=$?
  if [ "$status" = 77 ]; then
    cat log >&2
    return
  fi
  cat log
  expect_equal "$status" 0
}

# share_kernels: one cache of kernels for all tests of a program, and a `cc` that optimises little in a quarter of the time, for tests
# of all but kernels.  $users_cc is the compiler that users have.  Removed with the folder $XDG_CACHE_HOME when the program ends.
share_kernels() {
  export XDG_CACHE_HOME=${TMPDIR:-/tmp}/check-cache.$$
  trap 'rm -rf "$XDG_CACHE_HOME"' EXIT
  users_cc=$(command -v cc)
  mkdir -p "$XDG_CACHE_HOME/quick"
  # with the path of before, or a ccache of that name would find this script again
  printf '#!/bin/sh\nPATH=%q exec "%s" "$@" -O1\n' "$PATH" "$users_cc" > "$XDG_CACHE_HOME/quick/cc"
  chmod +x "$XDG_CACHE_HOME/quick/cc"
  PATH=$XDG_CACHE_HOME/quick:$PATH
}

check_names() { declare -F | sed -n 's/^declare -f test_//p' | awk -v share="${SHARE:-1/1}" 'BEGIN { split(share, s, "/") } NR % s[2] == s[1] % s[2]'; }

check_main() {
  if [ "${1-}" = --list ]; then
    check_names
    return
  fi
  local names name status folder log passed=0 failed=0
  names=${*:-$(check_names)}
  folder=$(mktemp -d "${TMPDIR:-/tmp}/check.XXXXXX") || return 1
  log=$folder/log
  for name in $names; do
    mkdir "$folder/$name" || return 1
    (
      set -eEu
      trap 'echo "${BASH_SOURCE[0]##*/}:$LINENO: $BASH_COMMAND" >&2' ERR
      cd "$folder/$name"
      "test_$name"
    ) > "$log" 2>&1
    status=$?
    if [ "$status" = 0 ]; then
      echo "ok $name"
      grep '^note' "$log" >&2
      passed=$((passed + 1))
    else
      echo "FAILED $name: $(grep -v -m 1 '^note' "$log")"
      sed 's/^/  | /' "$log" >&2
      failed=$((failed + 1))
    fi
    chmod -R u+rwX "$folder/$name"
    rm -rf "${folder:?}/$name"
  done
  rm -rf "$folder"
  echo "$passed passed, $failed failed"
  [ "$failed" = 0 ]
}
