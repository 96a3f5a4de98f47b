#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Saves beside the training: test/gpu/check_saves.sh FOLDER, which holds hpctrain and hpctrain_cuda.so.
#   of a model of two billion parameters (checkpoints of 25 GB; two at a time must fit the disk), on one GPU and on two: no stall
#   while a step outlasts the copy, and no more than is left of the copy where it does not; at most 1 % off tokens a second while a
#   save is written, files written and loaded at no less than 80 % of dd's rate in the same folder; bits and steps as of a run that waits for its saves
# RANKS="2" is for two alone; SHAPE="…" another model.
. "$(dirname "$0")/gpu_case.sh"
shape=${SHAPE:-vocab_size: 32000, hidden_size: 2560, num_hidden_layers: 24, num_attention_heads: 20, num_key_value_heads: 20, intermediate_size: 6912}

make_tokens 8000
cat > run.yaml << END
hpctrain: 1
run: {name: gpu, folder: gpu}
model: {$shape}
data: {train: tokens.bin}
train: {seq_len: 2048, duration: 32 steps, micro_batch_size: 4, lr: 1e-4, schedule: constant}
precision: {compute: bf16}
checkpoint: {every: 16 steps, keep: 1}
device: {kind: cuda}
END
# A step outlasts the copy, and the first save is over well before the next one, which ends the run, on any number of GPUs.
each_step=32 # sequences of a rank
several() { # RANKS WORD…
  timeout 400 mpirun --bind-to none --oversubscribe -np "$1" "$hpctrain" run.yaml train.global_batch_size=$((each_step * $1))sequences "${@:2}"
}
saves() { # RUN_FOLDER: step, bytes, seconds, seconds of stall of each
  sed -nE 's/.*"type":"save","step":([0-9]+),"bytes":([0-9.e+]+),"seconds":([^,]+),"stalled_seconds":([^,]+),.*/\1 \2 \3 \4/p' "$1/metrics.jsonl"
}
kept() { # RUN_FOLDER: checksums of the newest step's tensors
  tr -d ' \n' < "$(ls -d "$1"/checkpoints/step-???????? | tail -n 1)/manifest.json" | grep -oE '"/(model|optim|state)/[^{]*\{[^}]*\}'
}
same() { # A B
  [ -n "$(losses "$1")" ] && cmp <(losses "$1") <(losses "$2") && [ -s "$1.kept" ] && cmp "$1.kept" "$2.kept"
}
stalls() { # RUN_FOLDER MOST: of the save in the middle of the run
  saves "$1" | awk -v most="$2" 'NR == 1 { print "told : " $2 / 1e9 " GB in " $3 " s, stalled " $4; bad = !($4 <= most + 0) } END { exit bad || !NR }'
}
# keeps_pace RUN_FOLDER SHARE: tokens a second of the steps while the first save is written, and of those before and after it: a GPU
# that warms up slows down by more than is looked for.
keeps_pace() {
  local save
  save=$(saves "$1" | head -n 1)
  sed -nE 's/.*"type":"step","step":([0-9]+),.*"seconds":([^,]+),"tokens_per_second":([^,]+),.*/\1 \2 \3/p' "$1/metrics.jsonl" |
    awk -v save="$save" -v share="$2" '
      BEGIN { split(save, s, " ") }
      $1 > 5 && $1 <= s[1] { n++; before += $2 }
      $1 > s[1] && over { l++; after += $2 }
      $1 > s[1] && !over { over = during + $2 > s[3] } # from the first step on that the save ends in
      $1 > s[1] && !over { m++; during += $2 }
      $1 == s[1] + 1 { first = $2 }
      END {
        if (n < 4 || !m || l < 4) { printf "%d steps before the save, %d in it, %d after\n", n, m, l; exit 1 }
        rest = (before / n + after / l) / 2
        printf "told : %.4f s a step before, %.4f after; %.4f over %d steps while it writes, the first %.4f: %+.2f %%\n",
          before / n, after / l, during / m, m, first, 100 * (rest / (during / m) - 1)
        exit !(rest >= share * during / m)
      }'
}
# stalls_no_longer RUN_FOLDER RANKS BYTES_A_SECOND: the first save's stall is at most 1.1 times what is left of the copy when forward
# and backward are over (a step, less the twentieth that an update may take), and a hundredth of a second.
stalls_no_longer() {
  local step
  step=$(sed -nE 's/.*"type":"step","step":[34],.*"seconds":([^,]+),"tokens_per_second".*/\1/p' "$1/metrics.jsonl" | sort -g | head -n 1)
  saves "$1" | awk -v step="${step:-0}" -v ranks="$2" -v rate="$3" 'NR == 1 {
    copy = rate > 0 ? $2 / ranks / rate : 0
    left = copy > 0.95 * step ? copy - 0.95 * step : 0
    printf "told : the copy takes %.3f s, a step %.3f; stalled %.3f\n", copy, step, $4
    bad = !(copy > 0 && step > 0 && $4 <= 1.1 * left + 0.01)
  } END { exit bad || !NR }'
}
rate_of() { awk '{ for (i = 1; i < NF; i++) if ($(i + 1) ~ /^GB\/s/) r = $i * 1e9; else if ($(i + 1) ~ /^MB\/s/) r = $i * 1e6 } END { print r }'; }
as_fast() { # WHAT RATE DD SHARE
  awk -v what="$1" -v a="$2" -v b="$3" -v share="$4" 'BEGIN {
    printf "told : %s %.3g GB/s, dd %.3g GB/s\n", what, a / 1e9, b / 1e9
    exit !(b > 0 && a >= share * b)
  }'
}
forget() { dd of="$1" oflag=nocache conv=notrunc,fdatasync count=0 status=none; } # what memory has of a file

for ranks in ${RANKS:-1 $([ "$most" -gt 1 ] && echo 2)}; do
  rm -rf waits beside
  judge "$ranks: saves are waited for" several "$ranks" run.folder=waits checkpoint.async=false
  kept waits > waits.kept
  saves waits | awk '{ print "      " $2 / 1e9 " GB in " $3 " s by MPI-IO" }'
  rm -rf waits/checkpoints
  judge "$ranks: saves beside the training" several "$ranks" run.folder=beside checkpoint.async=true
  kept beside > beside.kept
  grep -h '^warn' out
  judge "$ranks: ... the same bits and steps" same waits beside
  judge "$ranks: ... stall" stalls beside 0.1
  judge "$ranks: ... tokens a second while it writes" keeps_pace beside 0.99
  file=$(ls -d beside/checkpoints/step-*/model.h5)
  bytes=$(stat -c %s "$file")
  blocks=$((bytes >> 23))
  written=$(dd if=/dev/zero of=filled bs=8M count=$blocks conv=fsync 2>&1 | rate_of)
  rm -f filled
  judge "$ranks: rate of a save" as_fast "a save" "$(saves beside | awk 'END { print $2 / $3 }')" "$written" 0.8
  forget "$file"
  read=$(dd if="$file" of=/dev/null bs=8M 2>&1 | rate_of)
  forget "$file"
  judge "$ranks: going on from it" several "$ranks" run.folder=beside train.duration=33steps checkpoint.every=none
  loaded=$(sed -nE 's/.*"type":"start".*"load_seconds":([^,]+),.*/\1/p' beside/metrics.jsonl | tail -n 1)
  rm -rf short beside/checkpoints
  each_step=4 # as many of such steps between two saves as one is written in: the next one is not to wait for its file
  judge "$ranks: a step shorter than the copy" several "$ranks" run.folder=short checkpoint.async=true train.duration=160steps checkpoint.every=80steps
  each_step=32
  to_host=$(timeout 90 mpirun --bind-to none --oversubscribe -np "$ranks" "$hpctrain" check device.kind=cuda --slow=1 2> /dev/null | grep '^rate   GPU to host' | rate_of)
  judge "$ranks: ... stall" stalls_no_longer short "$ranks" "${to_host:-0}"
  judge "$ranks: rate of a load" as_fast "a load" "$(awk -v n="$bytes" -v s="${loaded:-0}" 'BEGIN { print (s > 0 ? n / s : 0) }')" "$read" 0.8
done
exit $failed
