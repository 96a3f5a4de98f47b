# SPDX-License-Identifier: Apache-2.0
# What scripts of test/gpu share: sourced with FOLDER, which holds hpctrain and hpctrain_cuda.so.  Leaves a folder of its own as the
# current one, `hpctrain`, `golden`, `models` (in it), `gpus` (how many there are), `most` (4 at most), `each` (1 and most) and `failed`,
# which judge sets.  KIND=apart takes a CPU for two GPUs: to try a script where there is none.
set -u
folder=$(realpath "${1:-.}") golden=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../golden")
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
kind=${KIND:-cuda}
[ -e /dev/nvidiactl ] || [ $kind != cuda ] || { echo "note  skipped: no GPU on this machine" && exit 0; }
gpus=$([ $kind = cuda ] && nvidia-smi -L | wc -l || echo 2)
most=$((gpus < 4 ? gpus : 4)) failed=0
each=$([ "$most" -gt 1 ] && echo "1 $most" || echo 1)
work=$(mktemp -d) && cd "$work" || exit 3
trap 'rm -rf "$work"' EXIT
models="llama2 llama3-gqa-tied llama-headdim qwen2 qwen3 mistral-window gpt2 mixtral"
hpctrain=$folder/hpctrain

verdict() { # STATUS NAME: what came out follows where it is a failure; where not, lines "told …" do
  if [ "$1" -eq 0 ]; then
    echo "ok $2$(sed -n 's/^told //p' out)"
  else
    echo "FAILED $2"
    tail -n 20 out
    failed=1
  fi
}
judge() { # NAME COMMAND…
  "${@:2}" > out 2>&1
  verdict $? "$1"
}

ranks_of() { # PID of a job: the ids of its ranks, in their order
  local p
  for p in $(pgrep -P "$1"); do
    if [ "$(cat "/proc/$p/comm" 2> /dev/null)" = hpctrain ]; then echo "$p"; else ranks_of "$p"; fi
  done
}

make_tokens() { # LINES: of a text with a rhythm, as tokens.bin
  for i in $(seq "$1"); do echo "The tide of $((i * i % 977)) came in at $((i % 24)) and left by $((i * 7 % 24))."; done > text
  "$hpctrain" tokenize tokens.bin text > /dev/null
}
write_run() { # MODEL SEQ_LEN STEPS SEQUENCES MICRO-BATCH [LINE…]: run.yaml, of such a model on tokens.bin, with further lines
  cat > run.yaml << END
hpctrain: 1
run: {name: gpu, folder: gpu}
model: {$1}
data: {train: tokens.bin, tokenizer: bytes}
train: {seq_len: $2, duration: $3 steps, global_batch_size: $4 sequences, micro_batch_size: $5, lr: 1e-3, schedule: cosine, warmup: 5 steps}
device: {kind: $kind}
END
  printf '%s\n' "${@:6}" >> run.yaml
}
run_on() { # RANKS WORD…: run.yaml and these
  timeout 300 mpirun --oversubscribe -np "$1" "$hpctrain" run.yaml "${@:2}"
}
verify_on() { # RANKS MODEL WORD…: a golden model's values
  timeout 100 mpirun --oversubscribe -np "$1" "$hpctrain" verify "$golden/$2" "$golden/$2/golden.safetensors" --train "$golden/$2/train.json" \
    device.kind=$kind "${@:3}"
}
losses() { # RUN_FOLDER
  sed -nE 's/.*"type":"step","step":([0-9]+),.*"loss":([^,]+),.*/\1 \2/p' "$1/metrics.jsonl"
}
close() { # A B TOLERANCE STEPS: the losses of two runs of so many steps, step by step
  paste -d' ' <(losses "$1") <(losses "$2") | awk -v most="$3" -v steps="$4" '{
    d = ($2 - $4) / $4
    if (d < 0) d = -d
    if (NF != 4 || !(d <= most + 0)) bad = 1
    if (d > worst) worst = d
  } END { print "told : worst " worst + 0; exit bad || NR != steps }'
}
