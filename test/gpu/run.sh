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
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
gpus=$(nvidia-smi -L 2> /dev/null | grep -c '^GPU') passed=0 failed=0
[ $# -gt 0 ] || set -- test_cuda test_host test_nccl check_big check_experts check_train.sh check_models.sh check_folders.sh check_buckets.sh check_asked.sh check_precision.sh check_recompute.sh check_strategies.sh check_choices.sh check_groups.sh check_offload.sh check_saves.sh check_numbers.sh check_plan.sh check_profile.sh check_watch.sh check_preflight.sh tinyshakespeare.sh \
  bench_cuda bench_big bench_nccl
[ -e /dev/nvidiactl ] || echo "note  no GPU on this machine: everything is skipped"
for name; do
  program=$folder/$name
  [ -x "$program" ] || program=$folder/test/gpu/$name
  [ -x "$program" ] || program=$(dirname "$0")/$name
  begin=$(date +%s)
  case $name in
    *.sh) command=("$program" "$folder") ;;
    *_nccl) command=(mpirun --oversubscribe -np $((gpus > 1 ? gpus : 1)) "$program") ;; # a rank a GPU
    *) command=("$program") ;;
  esac
  if timeout 600 "${command[@]}"; then passed=$((passed + 1)) end='passed'; else failed=$((failed + 1)) end='FAILED'; fi
  echo "== $name $end after $(($(date +%s) - begin)) s"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
