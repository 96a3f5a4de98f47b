#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Recomputation on GPUs: test/gpu/check_recompute.sh FOLDER, which holds hpctrain and hpctrain_cuda.so.
#   any amount of it: the same losses to the last bit, in no more bytes than were allowed, on one GPU and on several
#   what fits is what the GPU has, and more than that is refused
. "$(dirname "$0")/gpu_case.sh"

make_tokens 4000
write_run 'preset: llama-10m' 512 10 32 8 'precision: {compute: bf16}' 'checkpoint: {every: none}'
train() { # RANKS WORD…
  run_on "$1" run.debug=mem "${@:2}"
}
arena() { sed -n 's/^note *mem arena *\([0-9]*\) bytes/\1/p' "$1"; }
for np in $each; do
  for word in none block; do
    judge "$np GPUs, $word: a run" train "$np" run.folder="$np-$word" memory.recompute=$word
    arena out > "$np-$word.bytes"
  done
  judge "$np GPUs, none and block: the same losses to the last bit" cmp <(losses "$np-none") <(losses "$np-block")
  least=$(< "$np-block.bytes") range=$(($(< "$np-none.bytes") - $(< "$np-block.bytes")))
  for part in 1 3 5 7 9; do
    room=$((least + range * part / 10))
    judge "$np GPUs, block and $part tenths: a run" train "$np" run.folder="$np-$part" "memory.recompute=auto: ${room}B"
    judge "$np GPUs, block and $part tenths: no more bytes than allowed" test "$(arena out)" -le "$room"
    judge "$np GPUs, block and $part tenths: the same losses to the last bit" cmp <(losses "$np-none") <(losses "$np-$part")
  done
done
judge "what fits the GPU needs no recomputation" train 1 run.folder=fit memory.recompute=auto
judge "... and is told" grep -qE 'memory.recompute: auto is none: .* of [0-9.]+ GiB$' fit/log.txt
refused() { ! train 1 run.folder=short 'memory.recompute=auto: 10MB' 2> short.err && grep -qE ' short, [0-9]+ bytes' short.err; }
judge "too few bytes are refused, with the number that is missing" refused
exit $failed
