#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hpctrain beside PyTorch on the same GPUs, in turns: tokens/s a GPU, memory, time to the first step.
#   test/bench/h200.sh FOLDER PEER.py OUT [ROW…]
# FOLDER holds hpctrain and hpctrain_cuda.so (what they load may lie in FOLDER/../lib); PEER.py trains the same Llama in PyTorch;
# OUT gets ROW.jsonl, an object a run, and table.txt.  PEER.py "": hpctrain alone.  ROW, all by default, with the seconds that it takes:
#   1b      1.1B, sequences of 2048, micro-batch 8, 1 GPU                                      70
#   7b      Llama-2-7B, sequences of 4096, 8 micro-batches a step, 1 GPU                      200
#   7b-2    the same, 4 micro-batches a step, full_shard on 2 GPUs                             140
#   gpt2-124m   GPT-2 124M, sequences of 1024, 524,288 tokens a step, 1 GPU; beside a figure of llm.c   50
#   start   Llama-2-7B, fresh weights: from exec to the end of a first step of one micro-batch   60
# Each side has a list of micro-batch:recompute, or micro-batch:recompute:steps; ratios are to the peer's fastest.  More from the
# environment:
#   OURS PEERS    such a list instead of the row's own: OURS="2:cheap 1:none" (PEERS: none, full; "" for hpctrain alone)
#   KEYS          further keys for hpctrain, such as gpu.attention=cudnn-fast
#   STEPS         of each run, the warm-up included, instead of the row's own
#   COMMIT        of the sources, where hpctrain --version does not tell
#   PYTHON=python3   SMALL=1 (on a CPU, a small model: to try this script)
# PEER.py understands --model 1b|7b --seq --batch --accum --steps --skip --ac none|full, and prints "PEER {json}" with tok_s_gpu,
# step_ms, peak_gib and first_step_s.  Speed is the median of the steps after the warm-up.  Memory: what each side knows to have
# allocated at most (hpctrain: its plan, workspaces included; PyTorch: max_memory_allocated), and what the driver says is in use.
set -u
[ $# -ge 3 ] || { sed -n '3,6p' "$0" >&2; exit 2; }
. "$(dirname "$0")/peer_case.sh"
shift 3
[ $# -gt 0 ] || set -- 1b 7b 7b-2 gpt2-124m start
# As peer_case.sh says.
rows='1b    tinyllama-1.1b 1b 2048 1 1 20 6 8:none,8:cheap         8:none
7b    llama2-7b      7b 4096 8 1  4 1 2:cheap,1:none,3:cheap:3 1:none,4:full:3
7b-2  llama2-7b      7b 4096 4 2  6 2 2:cheap,2:none,3:cheap 2:none
gpt2-124m gpt2-124m  -  1024 8 1 12 2 64:none,64:cheap,32:none -
start llama2-7b      7b 4096 1 1  1 0 1:none                 1:none'
# What programs that are not run here have reached: ROW SYSTEM MICRO RECOMPUTE tokens/s/GPU GiB.  llm.c: bf16, built from its public
# sources of November 2026, on one H200.
quoted='gpt2-124m llm.c 64 none 574210 28.00'
for row; do grep -q "^$row " <<< "$rows" || die "no row is called '$row'"; done

# --- a row: each side's list in turns; the start twice with an empty cache and twice with a full one ---------------------------

compare() { # ROW
  local row=$1 named mine theirs count i
  read -r _ _ named _ _ count _ _ mine theirs < <(grep "^$row " <<< "$rows")
  [ -n "$small" ] || [ "$gpus" -ge "$count" ] || { note "$row: skipped, it needs $count GPUs, here are $gpus"; return; }
  IFS=' ,' read -ra mine <<< "${OURS-$mine}"
  IFS=' ,' read -ra theirs <<< "${PEERS-$theirs}"
  [ -n "$peer" ] && [ "$named" != - ] || theirs=()
  grep "^$row " <<< "$quoted" | sed 's/$/ - -/' >> "$results"
  if [ "$row" = start ]; then
    for i in 1 2; do
      ours start "${mine[0]}" cold$i
      ours start "${mine[0]}" cold$i
    done
    mine=()
  fi
  for ((i = 0; i < ${#mine[@]} || i < ${#theirs[@]}; i++)); do
    [ $i -ge ${#theirs[@]} ] || theirs "$row" "${theirs[i]}"
    [ $i -ge ${#mine[@]} ] || ours "$row" "${mine[i]}" cache
  done
}

# Every run, its ratios to the peer's fastest.
table() {
  printf '%-9s %-9s %-8s %9s %6s %7s %6s %10s %9s\n' row system config tok/s/GPU ratio GiB ratio 'driver GiB' 'first s'
  awk '$2 != "hpctrain" && $5 > rate[$1] { rate[$1] = $5; memory[$1] = $6 }
    $1 != "start" { line[++n] = $0 }
    END { for (i = 1; i <= n; i++) {
      split(line[i], f, " ")
      ours = f[2] == "hpctrain" && f[1] in rate
      printf "%-9s %-9s %-8s %9.0f %6s %7s %6s %10s %9s\n", f[1], f[2], f[3] ":" f[4], f[5], ours ? sprintf("%.3f", f[5] / rate[f[1]]) : "-",
        f[6], ours && (memory[f[1]] > 0) ? sprintf("%.3f", f[6] / memory[f[1]]) : "-", f[7], f[8] == "-" ? "-" : sprintf("%.1f", f[8]) } }' "$results"
  awk '$1 == "start" && $2 == "hpctrain" { seen[$9]++ ? warm = warm " " $8 : cold = cold " " $8 } $1 == "start" && $2 == "pytorch" { peer = " pytorch " $8 }
    END { if (cold) printf "start  exec to the end of the first step, s: cold%s; warm%s;%s\n", cold, warm, peer }' "$results"
}

make_tokens "$([ -z "$small" ] && echo 32000 || echo 512)"
printf 'machine  %s GPUs: %s\nsystems  %s, commit %s; PyTorch %s\n' "$gpus" "${card:-none}" "$version" "$commit" \
  "$([ -z "$peer" ] && echo none || LD_LIBRARY_PATH=$plain "$python" -c 'import torch; print(torch.__version__)' 2> /dev/null)" | tee "$out/table.txt"
for row; do compare "$row"; done
table | tee -a "$out/table.txt"
