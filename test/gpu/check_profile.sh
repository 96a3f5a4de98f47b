#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Profiles of GPUs: test/gpu/check_profile.sh FOLDER, which holds hpctrain and hpctrain_cuda.so.  On one GPU and on all of them:
#   every kernel belongs to a step of a program, kinds add up to the step, whose length is what the run says it was
#   traces are JSON, and no kernel begins before the call that starts it (the clocks agree); with python3 only
#   memory: the snapshot adds up, and its peak is the trace's; with python3 only
#   a profile changes no loss
tests=$(realpath "$(dirname "$0")/..")
. "$(dirname "$0")/gpu_case.sh"

make_tokens 40000
cat > run.yaml << 'END'
hpctrain: 1
run: {name: profile}
model: {vocab_size: 8192, hidden_size: 2048, num_hidden_layers: 4, num_attention_heads: 16, num_key_value_heads: 4, intermediate_size: 5632}
data: {train: tokens.bin, tokenizer: bytes}
train: {seq_len: 1024, duration: 8 steps, global_batch_size: 32 sequences, micro_batch_size: 4, lr: 1e-4, schedule: constant}
precision: {compute: bf16}
device: {kind: cuda}
END
train() { # RANKS WORD…
  local n=$1
  shift
  timeout 200 mpirun --oversubscribe -np "$n" "$hpctrain" run.yaml checkpoint.every=1000steps "$@"
}
kernels_are_known() { # FOLDER
  local f
  for f in "$1"/profile/rank-*.json; do
    grep '"cat": "kernel"' "$f" | awk -v f="$f" '
      !/"External id"/ { strays++; if (strays < 5) print }
      END { print "told : " NR " kernels in " f; exit !NR || strays }' || return 1
  done
}

# own (column 7) of all rows against the steps' seconds, and those against what metrics.jsonl says of the same steps.
kinds_add_up() { # FOLDER FIRST LAST
  local f said
  said=$(awk -v first="$2" -v last="$3" -F '[:,]' '/"type":"step"/ {
    for (i = 1; i < NF; i++) { if ($i ~ /"step"/ && $(i - 1) !~ /"type"/) step = $(i + 1); if ($i ~ /"seconds"/) seconds = $(i + 1) }
    if (step >= first && step <= last) sum += seconds } END { print sum }' "$1/metrics.jsonl")
  for f in "$1"/profile/rank-*.tsv; do
    awk -F '\t' -v said="$said" '
      $1 == "seconds" { seconds = $2 }
      $1 == "row" { sum += $7 }
      $1 == "row" && $3 == "gaps" { gaps += $7 }
      function off(a, b) { return a > b ? (a - b) / a : (b - a) / b }
      END {
        printf "told : %.1f ms in steps, kinds %.1f, metrics %.1f, gaps %.1f %%\n", 1e3 * seconds, 1e3 * sum, 1e3 * said, 100 * gaps / seconds
        exit !(seconds > 0 && off(sum, seconds) < 0.02 && off(said, seconds) < 0.05)
      }' "$f" || return 1
  done
}

traces_are_json() { # FOLDER
  python3 - "$1"/profile/rank-*.json << 'END'
import json, sys
for path in sys.argv[1:]:
    events = [e for e in json.load(open(path))["traceEvents"] if e["ph"] == "X"]
    calls = {e["args"]["correlation"]: e for e in events if e["cat"] in ("cuda_runtime", "cuda_driver")}
    kernels = [e for e in events if e["cat"] == "kernel"]
    early = [k["ts"] - calls[k["args"]["correlation"]]["ts"] for k in kernels if k["args"]["correlation"] in calls]
    nccl = sum(k["name"].startswith("nccl") for k in kernels)
    print(f"told : {len(kernels)} kernels, {len(early)} with their call, soonest {min(early):.1f} us behind it; {nccl} of NCCL")
    assert len(early) > 0.9 * len(kernels) and min(early) > -20
END
}

memory_adds_up() { # FOLDER: events, the most that is held, the segment
  local events most total
  read -r events most total < <(python3 "$tests/cli/snapshot.py" "$1/profile/memory.pickle")
  echo "told : $events events, $most of $total bytes"
  [ "$most" = "$(python3 -c '
import json, sys
print(max(sum(e["args"].values()) for e in json.load(open(sys.argv[1]))["traceEvents"] if e["ph"] == "C"))' "$1/profile/rank-00000.json")" ]
}

judge "a run without a profile" train 1 run.folder=plain
for np in 1 $([ "$most" -gt 1 ] && echo "$most"); do
  judge "a run of $np with a profile" train "$np" run.folder="p$np" profile.steps=5-7
  judge "every kernel belongs to a step" kernels_are_known "p$np"
  judge "kinds add up to the step" kinds_add_up "p$np" 5 7
  if command -v python3 > /dev/null; then judge "traces are JSON, clocks agree" traces_are_json "p$np"; else echo "note  skipped: no python3"; fi
  if command -v python3 > /dev/null; then judge "memory's snapshot adds up, and the trace counts as much" memory_adds_up "p$np"; fi
  judge "the table is printed" "$hpctrain" profile "p$np"
  timeout 20 "$hpctrain" profile "p$np" --rows 25
done
judge "a profile changes no loss" cmp <(losses plain) <(losses p1)
exit $failed
