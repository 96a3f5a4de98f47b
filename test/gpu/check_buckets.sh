#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Passes of several lengths on GPUs: test/gpu/check_buckets.sh FOLDER, which holds hpctrain and hpctrain_cuda.so.
#   with data.buckets losses are what they are without, on each number of GPUs, with programs captured and not; in fp32 a CPU's, too
#   a resume in the middle has the bits of the straight run; steps take less time
. "$(dirname "$0")/gpu_case.sh"

# Conversations whose lengths are as chats' are: most of them short.
for i in $(seq 400); do
  n=$((1 + i * i % 7 * (i % 5) * (i % 3)))
  printf '{"prompt": "Tell me of %d.", "completion": "%s"}\n' "$i" "$(for j in $(seq $n); do echo -n "The tide of $((i * j % 97)). "; done)"
done > chat.jsonl
steps=12
run_file() { # MODEL SEQ_LEN SEQUENCES MICRO-BATCH
  write_run "$1" "$2" $steps "$3" "$4" "checkpoint: {every: $steps steps}" "eval: {every: $steps steps}"
  sed -i 's|^data:.*|data: {train: chat.jsonl, format: chat, chat_template: llama2, train_on_inputs: false, val: chat.jsonl, tokenizer: '"$golden/tokenizers/llama2-style.json"'}|' run.yaml
}
eval_loss() { sed -nE 's/.*"type":"eval".*"loss":([^,}]+).*/\1/p' "$1/metrics.jsonl" | tail -n 1; }
same_evals() { # A B TOLERANCE
  awk -v a="$(eval_loss "$1")" -v b="$(eval_loss "$2")" -v most="$3" 'BEGIN { d = a - b; printf "told : %s, %s\n", a, b; exit !(a > 0 && (d < 0 ? -d : d) <= most * a) }'
}
seconds() { # RUN_FOLDER: of its steps past the first three, the median
  sed -nE 's/.*"type":"step".*"seconds":([^,]+),.*/\1/p' "$1/metrics.jsonl" | tail -n +4 | sort -g | awk '{ s[NR] = $1 } END { print s[int((NR + 1) / 2)] }'
}
faster() { # A B TIMES: the second's steps take so much less
  awk -v a="$(seconds "$1")" -v b="$(seconds "$2")" -v times="$3" 'BEGIN { printf "told : %.1f and %.1f ms, %.2f times\n", 1e3 * a, 1e3 * b, a / b; exit !(a >= times * b) }'
}

small='vocab_size: 1024, hidden_size: 128, num_hidden_layers: 3, num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 256'
buckets='data.buckets=[32,64,128]'
for compute in fp32 bf16; do
  run_file "$small" 256 24 3
  few=$([ $compute = fp32 ] && echo 1e-4 || echo 1e-2)
  judge "$compute: whole rows" run_on 1 precision.compute=$compute run.folder=$compute-whole
  [ $compute = bf16 ] || judge "$compute: on a CPU" run_on 1 precision.compute=$compute device.kind=cpu $buckets run.folder=$compute-cpu
  [ $compute = bf16 ] || judge "$compute: a CPU's passes of several lengths are whole rows" close $compute-whole $compute-cpu $few $steps
  for np in $(seq "$most"); do
    [ $((8 % np)) = 0 ] || continue
    for graph in true false; do
      at=$compute-$np-$graph
      judge "$compute: on $np GPUs, gpu.graph: $graph" run_on "$np" precision.compute=$compute $buckets gpu.graph=$graph run.folder=$at
      judge "$compute: on $np GPUs, gpu.graph: $graph, losses are those of whole rows" close $compute-whole $at $few $steps
      judge "$compute: on $np GPUs, gpu.graph: $graph, so is the validation's" same_evals $compute-whole $at $few
    done
    judge "$compute: on $np GPUs, captured or not, the same bits" diff <(losses $compute-$np-true) <(losses $compute-$np-false)
  done
  at=$compute-again
  judge "$compute: half of the steps" run_on "$most" precision.compute=$compute $buckets run.folder=$at train.stop_after=$((steps / 2))steps
  judge "$compute: the other half" run_on "$most" precision.compute=$compute $buckets run.folder=$at
  judge "$compute: together they have the straight run's bits" diff <(losses $compute-$most-true) <(losses $at)
done

large='vocab_size: 32000, hidden_size: 1024, num_hidden_layers: 12, num_attention_heads: 16, num_key_value_heads: 16, intermediate_size: 2816'
[ $kind = cuda ] || exit $failed
run_file "$large" 2048 64 8
bf16='precision.compute=bf16 checkpoint.every=none data.val=chat.jsonl eval.tokens=20000tokens'
judge "bf16, large: whole rows" run_on 1 $bf16 run.folder=large-whole
judge "bf16, large: passes of several lengths" run_on 1 $bf16 data.buckets=auto run.folder=large-buckets
judge "bf16, large: losses are those of whole rows" close large-whole large-buckets 1e-2 $steps
judge "bf16, large: steps are faster" faster large-whole large-buckets 1.5
exit $failed
