#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Scaling over more and more GPUs beside PyTorch, tried on a CPU: hpctrain's own output is read, PyTorch's is played.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/played_case.sh"

share_kernels

scaling() { PLAY=$PWD PYTHON=$PWD/python COMMIT=abc OURS=${OURS-1:none} "$srcdir/test/bench/scaling.sh" "$builddir" "$@"; }

test_more_ranks_are_beside_fewer_run_twice_and_profiled() {
  play_python
  export KEYS="cpu.threads=1" SMALL=1 STEPS=5
  expect_run 0 scaling peer.py results 1 1b-pytorch 1b-no_shard 1b-full_shard
  expect_out '^1b +no_shard +1 +1:none +[0-9]+ +1.000 +[0-9.]+ +0.0 % +[0-9.]+ +[0-9.]+ +1.000 +.* same$'
  expect_equal "$(grep -c full_shard out)" 0
  expect_run 0 scaling peer.py results 2 1b-full_shard
  expect_out '^1b +full_shard +2 +1:none +[0-9]+ +0?[0-9.]+ +- +[0-9.]+ % +[0-9.]+ +[0-9.]+ +[0-9.]+ .* same$'
  expect_out '^1b +pytorch +1 .* 1.000 '
}

# Also without a peer.
test_four_ranks_are_two_copies_of_two_shards() {
  KEYS="cpu.threads=1" SMALL=1 STEPS=5 expect_run 0 scaling '' results 4 1b-pytorch 1b-hybrid_shard
  expect_out '^1b +hybrid_shard +4 +1:none +[0-9]+ +- +- +[0-9.]+ % .* same$'
  expect_equal "$(grep -c 'parallel\.strategy=hybrid_shard parallel\.shard_degree=2' results/1b-hybrid_shard-4.jsonl)" 2
  expect_equal "$(grep -c pytorch out)" 0
}

play_gpus() {
  printf '#!/bin/sh\nfor i in 0 1; do echo "GPU $i: a card"; done\n' > nvidia-smi
  chmod +x nvidia-smi
}

test_efficiency_is_of_the_slowest_gpu_alone() {
  play_python
  play_gpus
  KEYS="cpu.threads=1" SMALL=1 STEPS=5 PATH=$PWD:$PATH expect_run 0 scaling peer.py results 1 1b-pytorch 1b-no_shard
  expect_equal "$(sed -nE 's/^note  (GPU . alone: )?1b-([a-z_]+)-1: [a-z]+ .*tokens.*/\1\2/p' out err | sort | paste -sd,)" \
    'GPU 1 alone: no_shard,GPU 1 alone: pytorch,no_shard,no_shard,pytorch'
  expect_equal "$(awk '$1 == "1b" && $2 == "no_shard" { print $5 }' out)" \
    "$(sed -nE 's/^note .*1b-no_shard-1: hpctrain [^ ]+ ([0-9.]+) tokens.*/\1/p' out err | awk 'NR != 2' | sort -g | head -n 1 | xargs printf '%.0f')"
}

test_what_does_not_fit_is_told_and_not_run() {
  play_python
  play_gpus
  PATH=$PWD:$PATH OURS=64:none expect_run 0 scaling '' results 2 4 7b-no_shard
  expect_out '^note  7b-no_shard-2: not run, [0-9.]+ GiB a GPU do not fit$'
  expect_out '^note  4 GPUs: skipped, here are 2$'
  expect_out '^7b +no_shard +2 +64:none +- +- .* [0-9]{4}\.[0-9] '
  expect_run 2 scaling '' results 2 7b-half_shard
  expect_err "^error: no row is called '7b-half_shard'"
}

check_main "$@"
