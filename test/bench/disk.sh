#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checkpoints beside dd, in one folder: how fast they are saved, loaded and verified.  In a build folder:
#   ../test/bench/disk.sh FOLDER [WORD…]      RANKS=2 ROUNDS=3; words are the run file's: model.num_hidden_layers=32 checkpoint.async=true
# Files are dropped from the page cache before they are read (posix_fadvise, by dd).  dd writes from the cache and flushes.
set -eu
folder=$(mkdir -p "$1" && cd "$1" && pwd)
shift
src=$(cd "$(dirname "$0")/../.." && pwd)
hpctrain=$PWD/hpctrain
if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
room=$(mktemp -d "$folder/bench.XXXXXX")
trap 'rm -rf "$room"' EXIT
cd "$room"

"$hpctrain" tokenize data.bin "$src/LICENSE" > /dev/null
cat > t.yaml << 'END_OF_RUN'
hpctrain: 1
run: {name: disk, folder: run}
model: {vocab_size: 32000, hidden_size: 512, num_hidden_layers: 8, num_attention_heads: 8, intermediate_size: 1536}
data: {train: data.bin, tokenizer: bytes}
train: {seq_len: 16, duration: 100 steps, global_batch_size: 48 sequences, micro_batch_size: 1, lr: 1e-5, schedule: constant}
checkpoint: {every: 1 steps, keep: 1}
END_OF_RUN
train() { mpirun --oversubscribe -np "${RANKS:-2}" "$hpctrain" t.yaml "$@" > out 2> err || { tail -n 20 out err; exit 1; }; }
seconds() { # COMMAND…
  local begin=$EPOCHREALTIME
  "$@" > /dev/null 2>&1
  awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }'
}
drop() { dd if="$1" iflag=nocache count=0 2> /dev/null; }

train "$@" train.stop_after=1steps
for round in $(seq "${ROUNDS:-3}"); do
  model=$(ls run/checkpoints/step-*/model.h5)
  cat "$model" > /dev/null
  dd_write=$(seconds dd if="$model" of=copy bs=16M conv=fsync)
  rm copy
  sync "$model"
  drop "$model"
  dd_read=$(seconds dd if="$model" of=/dev/null bs=16M)
  drop "$model"
  verify=$(seconds "$hpctrain" ckpt verify run)
  nbytes=$(stat -c %s "$model")
  drop "$model"
  train "$@" train.stop_after=$((round + 1))steps
  load=$(sed -nE 's/^ready .* load ([0-9.]+).*/\1/p' out)
  save=$(sed -nE 's/.*"type":"save".*"seconds":([0-9.]+).*/\1/p' run/metrics.jsonl | tail -n 1)
  echo "$nbytes $dd_write $save $dd_read $load $verify"
done | awk '
  NR == 1 { print "GB/s   GB  dd write   save  share  dd read   load  share  verify  share" }
  { gb = $1 * 1e-9
    printf "     %5.2f  %8.2f  %5.2f  %4.0f%%  %7.2f  %5.2f  %4.0f%%  %6.2f  %4.0f%%\n", gb, gb / $2, gb / $3, 100 * $2 / $3,
      gb / $4, gb / $5, 100 * $4 / $5, gb / $6, 100 * $4 / $6 }'
