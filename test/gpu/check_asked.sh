#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What models say on GPUs: test/gpu/check_asked.sh FOLDER, which holds hpctrain and hpctrain_cuda.so.
#   generate, of every golden model and of one whose rope is dynamic: three prompts get a CPU's ids in float32, twice the same; and text
#     in bf16
#   eval: a text and choices cost what they cost on a CPU, on one GPU and on all
#   llama-124m in bf16: how many tokens a second, one prompt and eight at a time
. "$(dirname "$0")/gpu_case.sh"

prompts=(--prompt hello --prompt 'the quick brown fox' --prompt a)
say() { # KIND FOLDER OUT WORD…: lines of JSON
  timeout 200 "$hpctrain" generate "$2" --tokens 40 --temperature 0 --json data.tokenizer=bytes device.kind="$1" "${@:4}" > "$3"
}
same_ids() { cmp <(sed 's/.*"ids"//' "$1") <(sed 's/.*"ids"//' "$2"); }
(srcdir=$golden/../.. && . "$golden/../cli/train_case.sh" && write_stretched_model) && mv d stretched
for folder in $(printf "$golden/%s " $models) stretched; do
  [ -d "$folder" ] || continue
  model=${folder##*/}
  judge "$model on a CPU" say cpu "$folder" cpu.out "${prompts[@]}"
  judge "$model, fp32" say $kind "$folder" gpu.out "${prompts[@]}"
  judge "$model, fp32: a CPU's ids" same_ids cpu.out gpu.out
  judge "$model, fp32: again" say $kind "$folder" again.out "${prompts[@]}"
  judge "$model, fp32: the same ids" same_ids again.out gpu.out
  judge "$model, bf16" say $kind "$folder" short.out "${prompts[@]}" precision.compute=bf16
done

printf '%s\n' '{"context": "The cat sat on the", "choices": ["mat", "moon and sang"], "label": 0}' \
  '{"question": "What is 2+2?", "choices": {"text": ["3", "4", "five"], "label": ["A", "B", "C"]}, "answerKey": "B"}' > q.jsonl
for i in $(seq 200); do echo "The tide of $((i * i % 977)) came in at $((i % 24))."; done > text
cost() { # RANKS KIND OUT WORD…
  timeout 200 mpirun --oversubscribe -np "$1" "$hpctrain" eval "$golden/qwen3" --json data.tokenizer=bytes device.kind="$2" "${@:4}" > "$3"
}
near() { # A B: their losses, or all costs of choices
  paste -d' ' <(grep -oE '"(loss|nats)": [^"]*' "$1" | tr -c '0-9.e\n-' ' ') <(grep -oE '"(loss|nats)": [^"]*' "$2" | tr -c '0-9.e\n-' ' ') |
    awk '{ for (i = 1; i <= NF / 2; i++) { d = $i / $(i + NF / 2) - 1; if (!(d < 2e-5 && d > -2e-5)) bad = 1; n++ } } END { exit bad || !n }'
}
judge 'a text on a CPU' cost 1 cpu text.cpu --text text --stride 16
judge 'choices on a CPU' cost 1 cpu out.cpu --choices q.jsonl --each each.cpu
for np in $each; do
  judge "a text, $np GPUs" cost "$np" $kind "text.$np" --text text --stride 16
  judge "a text, $np GPUs: a CPU's loss" near text.cpu "text.$np"
  judge "choices, $np GPUs" cost "$np" $kind "out.$np" --choices q.jsonl --each "each.$np"
  judge "choices, $np GPUs: a CPU's costs" near each.cpu "each.$np"
done

make_tokens 3000
write_run 'preset: llama-124m' 256 1 8 8 'precision: {compute: bf16}' 'checkpoint: {every: 1 steps}'
judge 'llama-124m' run_on 1
speed() { # PROMPTS
  local words=()
  for i in $(seq "$1"); do words+=(--prompt "The tide of $i"); done
  timeout 200 "$hpctrain" generate gpu "${words[@]}" --tokens 200 device.kind=$kind > said 2> err || { cat err; return 1; }
  sed -n 's/^speed/told :/p' err
}
for n in 1 8; do judge "llama-124m, $n at a time" speed $n; done
exit $failed
