#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The comparisons with PyTorch on GPUs, tried on a CPU: hpctrain's own output is read, PyTorch's is played.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/played_case.sh"

share_kernels

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
