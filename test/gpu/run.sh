#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests and benchmarks that need a GPU: test/gpu/run.sh [FOLDER] [NAME…]
# FOLDER holds the programs: a build folder after `make gpu-programs` (default: the current folder), or one into which they and
# hpctrain with hpctrain_cuda.so were copied, for a host without packages; what they load lies in FOLDER/../lib then.  NAME is a test program or
# benchmark; all by default.  Closes with one line "N passed, N failed".
set -u
folder=${1:-.}
shift $(($# > 0))
export LD_LIBRARY_PATH=$folder/../lib:${LD_LIBRARY_PATH-}:/usr/local/cuda/lib64
passed=0 failed=0
[ $# -gt 0 ] || set -- test_cuda check_big check_train.sh bench_cuda bench_big
[ -e /dev/nvidiactl ] || echo "note  no GPU on this machine: everything is skipped"
for name; do
  program=$folder/$name
  [ -x "$program" ] || program=$folder/test/gpu/$name
  [ -x "$program" ] || program=$(dirname "$0")/$name
  begin=$(date +%s)
  case $name in *.sh) words=("$folder") ;; *) words=() ;; esac
  if timeout 600 "$program" "${words[@]}"; then passed=$((passed + 1)) end='passed'; else failed=$((failed + 1)) end='FAILED'; fi
  echo "== $name $end after $(($(date +%s) - begin)) s"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
