#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hpctrain tokenize beside Hugging Face tokenizers, on the same threads and file: bench_tokenize.sh FOLDER [THREADS [REPEATS]]
# FOLDER holds hpctrain.  The text is the King James Bible of the package bible-kjv, REPEATS times (6: 25 MB) as JSON lines of 20 verses.
# The two take turns, five times, and the best of each counts: wall and processor seconds, start included but Python's.
set -eu
folder=$(cd "$1" && pwd) threads=${2:-2} repeats=${3:-6}
golden=$(cd "$(dirname "$0")/../golden/tokenizers" && pwd) peer=$(cd "$(dirname "$0")" && pwd)/bench_tokenize.py
command -v bible > /dev/null || { echo "note  no text: apt-get install bible-kjv"; exit 0; }
python3 -c 'import tokenizers' 2> /dev/null || { echo "note  no Hugging Face tokenizers in this Python"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
bible -f gen1:1-rev22:21 | sed 's/^[^ ]* //' > text
for _ in $(seq "$repeats"); do cat text; done | python3 -c '
import json, sys
lines = sys.stdin.read().splitlines()
for i in range(0, len(lines), 20): print(json.dumps({"text": "\n".join(lines[i : i + 20])}))' > text.jsonl
size=$(stat -c %s text.jsonl)

# ours NAME: wall and processor seconds, as bash tells them.
ours() {
  rm -f ours.bin
  local TIMEFORMAT='%R %U %S'
  { time "$folder/hpctrain" tokenize --tokenizer "$golden/$1" text.jsonl --out ours.bin --no-eos --threads "$threads" > log 2> progress; } 2>&1 |
    awk '{ print $1, $2 + $3 }'
}
least() { sort -g | head -n 1; }

echo "$(uname -m), $(nproc) cores, $threads threads, $((size / 1000000)) MB"
echo "tokenizer            ours s  theirs s  ratio    by processor time   MB/s"
for name in gpt2-style.json llama3-style.json llama2-style.json; do
  rm -f walls.* cores.*
  for _ in 1 2 3 4 5; do
    read -r wall cores < <(ours "$name")
    echo "$wall" >> walls.ours
    echo "$cores" >> cores.ours
    read -r wall cores _ < <(python3 "$peer" "$golden/$name" text.jsonl "$threads" theirs.bin)
    echo "$wall" >> walls.theirs
    echo "$cores" >> cores.theirs
  done
  tail -c +1025 ours.bin | cmp - theirs.bin
  awk -v n="$name" -v a="$(least < walls.ours)" -v b="$(least < walls.theirs)" -v c="$(least < cores.ours)" -v d="$(least < cores.theirs)" \
    -v size="$size" 'BEGIN { printf "%-18s %8.2f %9.2f %6.1f %20.1f %6.1f\n", n, a, b, b / a, d / c, size / a / 1e6 }'
done
