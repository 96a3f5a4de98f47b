# SPDX-License-Identifier: Apache-2.0
# What scripts of test/gpu share: sourced with FOLDER, which holds hpctrain and hpctrain_cuda.so.  Leaves a folder of its own as the
# current one, `hpctrain`, `golden`, `models` (in it), `gpus` (how many there are), `most` (4 at most) and `failed`, which judge sets.
set -u
folder=$(realpath "${1:-.}") golden=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../golden")
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
[ -e /dev/nvidiactl ] || { echo "note  skipped: no GPU on this machine" && exit 0; }
gpus=$(nvidia-smi -L | wc -l)
most=$((gpus < 4 ? gpus : 4)) failed=0
work=$(mktemp -d) && cd "$work" || exit 3
trap 'rm -rf "$work"' EXIT
models="llama2 llama3-gqa-tied llama-headdim qwen2 qwen3 mistral-window gpt2"
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
losses() { # RUN_FOLDER
  sed -nE 's/.*"type":"step","step":([0-9]+),.*"loss":([^,]+),.*/\1 \2/p' "$1/metrics.jsonl"
}
close() { # A B TOLERANCE STEPS: the losses of two runs of so many steps, step by step
  paste -d' ' <(losses "$1") <(losses "$2") | awk -v most="$3" -v steps="$4" '{
    d = ($2 - $4) / $4
    if (d < 0) d = -d
    if (NF != 4 || !(d <= most + 0)) bad = 1
    if (d > worst) worst = d
  } END { print "told : worst " worst; exit bad || NR != steps }'
}
