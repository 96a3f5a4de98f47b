#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# llama-10m learns a text by its bytes: on a GPU in float32 and bf16, on the CPU, and in PyTorch in float32, from the same weights and
# in the same order.  Their validation losses lie within 0.02 of one another.
#   test/gpu/tinyshakespeare.sh FOLDER [TEXT]
# TEXT (or $TINYSHAKESPEARE) is Karpathy's 1.1 MB of Shakespeare, or another text.  FOLDER holds hpctrain and hpctrain_cuda.so.
# On one H200 and 16 cores it takes as long as the CPU does, about two minutes.  More from the environment:
#   CPU_METRICS   metrics.jsonl of the CPU's run, made elsewhere: WORK=folder RUNS=cpu test/gpu/tinyshakespeare.sh FOLDER TEXT
#   RUNS="cpu gpu-fp32 gpu-bf16 pytorch"   which   WORK   where to work; kept   OUT   gets tinyshakespeare.jsonl, an object a run
#   THREADS       of the CPU's run; by default its share of the cores
#   STEPS=2000   GPU=cuda   PYTHON=python3
set -u
folder=$(realpath "${1:-.}") text=${2-${TINYSHAKESPEARE-}} here=$(realpath "$(dirname "$0")")
steps=${STEPS:-2000} seq=128 batch=4 lr=1e-3 min_lr=1e-4 warmup=100 fraction=0.05 seed=1 tolerance=0.02
runs=${RUNS:-cpu gpu-fp32 gpu-bf16 pytorch}
plain=${LD_LIBRARY_PATH-} # PyTorch finds its own libraries
export LD_LIBRARY_PATH=$folder/../lib:$plain:/usr/local/cuda/lib64 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
[ "$runs" = cpu ] || [ -n "${GPU-}" ] || [ -e /dev/nvidiactl ] || { echo "note  skipped: no GPU on this machine" && exit 0; }
[ -n "$text" ] || { echo "note  skipped: no text; tinyshakespeare.sh FOLDER TEXT, or TINYSHAKESPEARE=TEXT" && exit 0; }
[ -r "$text" ] || { echo "error: $text: cannot be read" >&2 && exit 2; }
text=$(realpath "$text")
[ -z "${CPU_METRICS-}" ] || CPU_METRICS=$(realpath "$CPU_METRICS")
if [ -n "${WORK-}" ]; then mkdir -p "$WORK" && cd "$WORK" || exit 3; else cd "$(mktemp -d)" || exit 3; fi
work=$PWD
[ -n "${WORK-}" ] || trap 'cd / && rm -rf "$work"' EXIT

"$folder/hpctrain" tokenize tokens.bin "$text" > tokenize.out 2>&1 || { cat tokenize.out >&2; exit 1; }
cat > run.yaml << END
hpctrain: 1
run: {seed: $seed}
model: {preset: llama-10m}
data: {train: tokens.bin, tokenizer: bytes, val_fraction: $fraction}
train: {seq_len: $seq, duration: $steps steps, global_batch_size: $batch sequences, lr: $lr, min_lr: $min_lr, schedule: cosine, warmup: $warmup steps}
eval: {every: $steps steps, tokens: 1B tokens}
checkpoint: {every: none}
log: {every: $((steps > 10 ? steps / 10 : 1)) steps}
END

train() { # NAME KEY=VALUE…
  local name=$1 begin=$SECONDS
  shift
  rm -rf "$name"
  timeout "${TIMEOUT:-600}" "$folder/hpctrain" run.yaml run.folder="$name" "$@" > "$name.out" 2>&1 || { echo failed > "$name.end" && return; }
  echo "$((SECONDS - begin))" > "$name.end"
}
one() {
  case $1 in
    cpu) train cpu device.kind=cpu ${THREADS:+cpu.threads="$THREADS"} ;;
    gpu-*) train "$1" device.kind="${GPU:-cuda}" precision.compute="${1#gpu-}" ;;
    pytorch)
      LD_LIBRARY_PATH=$plain timeout "${TIMEOUT:-600}" "${PYTHON:-python3}" "$here/tinyshakespeare.py" "$text" --steps "$steps" --seq $seq --batch $batch --lr $lr \
        --min-lr $min_lr --warmup $warmup --val-fraction $fraction --seed $seed > pytorch.out 2>&1
      ;;
  esac
}

rm -f ./*.end ./*.out.jsonl
if [ -n "${CPU_METRICS-}" ]; then
  runs=${runs/cpu /}
  mkdir -p cpu && cp "$CPU_METRICS" cpu/metrics.jsonl
fi
case " $runs " in *' cpu '*) one cpu & ;; esac # beside the others
for run in $runs; do [ "$run" = cpu ] || one "$run"; done
wait

number() { sed -nE "s/.*\"$1\": ?(-?[0-9][-+.0-9eE]*).*/\1/p" | tail -n 1; }
# NAME: first training loss, validation loss at the end, seconds; nothing where the run failed or ended early.
result() {
  if [ "$1" = pytorch ]; then
    line=$(grep '^PEER ' pytorch.out 2> /dev/null) && echo "$(number first_loss <<< "$line") $(number val_loss <<< "$line") $(number seconds <<< "$line")"
    return
  fi
  eval=$(grep '"type":"eval"' "$1/metrics.jsonl" 2> /dev/null | tail -n 1)
  [ "$(number step <<< "$eval")" = "$steps" ] || return
  echo "$(grep -m 1 '"type":"step"' "$1/metrics.jsonl" | number loss) $(number loss <<< "$eval") $(cat "$1.end" 2> /dev/null || echo -)"
}

failed=0 all=
[ -z "${CPU_METRICS-}" ] || runs="cpu $runs"
printf '%-9s %12s %16s %8s\n' run 'first loss' 'validation loss' seconds
for run in $runs; do
  read -r first val seconds < <(result "$run")
  [ -n "${val-}" ] || { echo "FAILED $run did not end"; tail -n 5 "$run.out" 2> /dev/null; failed=1; continue; }
  printf '%-9s %12.6f %16.5f %8s\n' "$run" "$first" "$val" "$seconds"
  all+=" $val"
  [ -z "${OUT-}" ] || printf '{"run":"%s","version":"%s","steps":%s,"first_loss":%s,"val_loss":%s,"seconds":"%s"}\n' "$run" \
    "$("$folder/hpctrain" --version)" "$steps" "$first" "$val" "$seconds" >> "$OUT/tinyshakespeare.jsonl"
done
spread=$(awk -v all="$all" 'BEGIN { n = split(all, v, " "); low = high = v[1]
  for (i = 1; i <= n; i++) { if (v[i] + 0 < low) low = v[i] + 0; if (v[i] + 0 > high) high = v[i] + 0 }
  printf "%.5f", n ? high - low : 1 / 1 }')
if awk -v s="$spread" -v t=$tolerance 'BEGIN { exit !(s <= t) }' && [ $failed = 0 ]; then
  echo "ok validation losses lie within $tolerance of one another: $spread"
else
  echo "FAILED validation losses lie within $tolerance of one another: $spread" && failed=1
fi
exit $failed
