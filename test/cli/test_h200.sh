#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The comparisons with PyTorch on GPUs, tried on a CPU: hpctrain's own output is read, PyTorch's is played.
. "$(dirname "$0")/../check.sh"

# A peer that runs out of memory with micro-batches of 4.
play_python() {
  cat > python << 'END'
#!/bin/bash
[ "$1" = -c ] && { echo 2.11.0; exit; }
echo "$*" >> "$PLAY/calls"
case "$*" in *"--batch 4 "*) echo 'torch.OutOfMemoryError: CUDA out of "memory"' >&2; exit 1 ;; esac
echo "a warning"
echo 'PEER {"system": "torch", "step_ms": 10.0, "tok_s_gpu": 100, "first_step_s": 1.25, "peak_gib": 0.5, "loss": 1.0}'
END
  chmod +x python
  touch peer.py
}

compare() { PLAY=$PWD SMALL=1 PYTHON=$PWD/python COMMIT=abc STEPS=${STEPS-3} "$srcdir/test/bench/h200.sh" "$builddir" "$@"; }

test_both_sides_are_read_and_compared() {
  play_python
  export OURS="1:none" PEERS="1:none 4:full"
  expect_run 0 compare peer.py results 7b
  expect_equal "$(head -n 1 calls)" "$PWD/peer.py --model 7b --seq 4096 --batch 1 --accum 8 --steps 3 --skip 1 --ac none"
  expect_out '^note  7b: pytorch 4:full ended with status 1: torch.OutOfMemoryError'
  expect_out '^7b +hpctrain +1:none +[0-9]+ +[0-9]+\.[0-9]{3} +0\.[0-9]+ +[01]\.[0-9]{3} +- +[0-9.]+$'
  expect_out '^7b +pytorch +1:none +100 +- +0.5 '
  expect_equal "$(grep -c '^{"row":"7b","system":"[a-z]*","commit":"abc",.*}$' results/7b.jsonl)" 3
  grep -q '"said":"torch.OutOfMemoryError: CUDA out of \\"memory\\""' results/7b.jsonl
  grep -q '"start":{"type":"start",.*"steps":\[{"type":"step","step":1,.*{"type":"step","step":3,.*\]}$' results/7b.jsonl
}

test_ranks_share_a_step() {
  play_python
  export OURS="2:cheap" PEERS="2:none"
  expect_run 0 compare peer.py results 7b-2
  expect_equal "$(cat calls)" "-m torch.distributed.run --nproc-per-node=2 $PWD/peer.py --model 7b --seq 4096 --batch 2 --accum 4 --steps 3 --skip 2 --ac none"
  grep -q '"ranks":2,.*"tokens":1024,' results/7b-2.jsonl # 2 ranks, 4 passes, 2 sequences of 64
}

test_what_the_peer_does_not_know_is_beside_a_figure_that_is_quoted() {
  play_python
  OURS=1:none expect_run 0 compare peer.py results gpt2-124m
  expect_out '^gpt2-124m llm.c +64:none +574210 +- +28.00 '
  expect_out '^gpt2-124m hpctrain +1:none +[0-9]+ +[0-9.]+ '
  [ ! -e calls ]
}

test_starts_are_cold_and_warm() {
  play_python
  STEPS='' expect_run 0 compare '' results start
  expect_out '^start  exec to the end of the first step, s: cold [0-9.]+ [0-9.]+; warm [0-9.]+ [0-9.]+;$'
  expect_equal "$(grep -o '"cached":[a-z]*' results/start.jsonl | tr '\n' ' ')" '"cached":false "cached":true "cached":false "cached":true '
}

test_rows_and_files_that_are_not_there_are_named() {
  play_python
  expect_run 2 compare peer.py results 8b
  expect_err "^error: no row is called '8b'"
  expect_run 2 compare absent.py results 7b
  expect_err 'absent.py: cannot be read'
}

scaling() { PLAY=$PWD PYTHON=$PWD/python COMMIT=abc OURS=${OURS-1:none} "$srcdir/test/bench/scaling.sh" "$builddir" "$@"; }

test_more_ranks_are_beside_fewer_run_twice_and_profiled() {
  play_python
  printf '#!/bin/sh\nexec cc "$@" -O1\n' > cc
  chmod +x cc
  export KEYS="cpu.threads=1 cpu.compiler=$PWD/cc" SMALL=1 STEPS=5
  expect_run 0 scaling peer.py results 1 1b-pytorch 1b-no_shard 1b-full_shard
  expect_out '^1b +no_shard +1 +1:none +[0-9]+ +1.000 +[0-9.]+ +0.0 % +[0-9.]+ +[0-9.]+ +1.000 +.* same$'
  expect_equal "$(grep -c full_shard out)" 0
  expect_run 0 scaling peer.py results 2 1b-full_shard
  expect_out '^1b +full_shard +2 +1:none +[0-9]+ +0?[0-9.]+ +- +[0-9.]+ % +[0-9.]+ +[0-9.]+ +[0-9.]+ .* same$'
  expect_out '^1b +pytorch +1 .* 1.000 '
}

test_what_does_not_fit_is_told_and_not_run() {
  play_python
  printf '#!/bin/sh\nfor i in 0 1; do echo "GPU $i: a card"; done\n' > nvidia-smi
  chmod +x nvidia-smi
  PATH=$PWD:$PATH OURS=64:none expect_run 0 scaling '' results 2 4 7b-no_shard
  expect_out '^note  7b-no_shard-2: not run, [0-9.]+ GiB a GPU do not fit$'
  expect_out '^note  4 GPUs: skipped, here are 2$'
  expect_out '^7b +no_shard +2 +64:none +- +- .* [0-9]{4}\.[0-9] '
  expect_run 2 scaling '' results 2 7b-half_shard
  expect_err "^error: no row is called '7b-half_shard'"
}

# Three steps on a short text, a CPU in the GPU's place.
shakespeare() { STEPS=3 GPU=cpu THREADS=1 RUNS="cpu gpu-bf16 pytorch" PYTHON=$PWD/python "$srcdir/test/gpu/tinyshakespeare.sh" "$builddir" "$srcdir/LICENSE"; }

test_losses_of_a_text_are_compared() {
  local loss
  printf '#!/bin/bash\necho "PEER {\\"first_loss\\": 5.5, \\"val_loss\\": $LOSS, \\"seconds\\": 1}"\n' > python
  chmod +x python
  LOSS=0 expect_run 1 shakespeare
  expect_out '^FAILED validation losses lie within 0.02'
  loss=$(sed -nE 's/^cpu +[0-9.]+ +([0-9.]+) .*/\1/p' out)
  expect_out '^gpu-bf16 +5\.[0-9]+ +5\.[0-9]+ '
  LOSS=$loss expect_run 0 shakespeare
  expect_out '^ok validation losses lie within 0.02'
}

check_main "$@"
