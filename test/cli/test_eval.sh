#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hpctrain eval: texts in windows and questions with choices, to the same bits on any number of ranks; and what a run says of its
# validation sets.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/train_case.sh"

golden=$srcdir/test/golden
byte_keys="data.tokenizer=bytes cpu.threads=1"

# evaluate WORD…: by this process; output in ./out.
evaluate() { expect_run 0 "$hpctrain" eval "$@" $byte_keys; }

# number NAME: of the object in ./out.
number() { sed -nE 's/.*"'"$1"'": ([-0-9.e+]+).*/\1/p' out; }
is_near() { awk -v a="$1" -v b="$2" -v t="$3" 'BEGIN { exit !(a - b <= t * b && b - a <= t * b) }'; }

write_questions() {
  cat > q.jsonl << 'END'
{"context": "The cat sat on the", "choices": ["mat", "moon and sang"], "label": 0}
{"question": "What is 2+2?", "choices": {"text": ["3", "4", "five"], "label": ["A", "B", "C"]}, "answerKey": "B"}

{"activity_label": "Cooking", "ctx_a": "A man [step] boils  water.", "ctx_b": "HE", "endings": ["eats [title] it.", "sleeps."], "label": "1"}
{"id": "x", "question": {"stem": "Why?", "choices": [{"text": "because", "label": "1"}, {"text": "never", "label": "2"}]}, "answerKey": "2"}
END
  # the same, spelled out
  cat > plain.jsonl << 'END'
{"context": "The cat sat on the ", "choices": ["mat", "moon and sang"], "label": "0"}
{"context": "Question: What is 2+2?\nAnswer:", "choices": ["3", "4", "five"], "label": 1}
{"context": "Cooking: A man boils water. He", "choices": ["eats. it.", "sleeps."], "label": 1}
{"context": "Question: Why?\nAnswer:", "choices": [" because", " never"], "label": 1}
END
}

test_windows_score_each_token_once() {
  head -c 400 "$srcdir/LICENSE" > text
  evaluate "$golden/llama2" --text text --json --window 64 --stride 64
  expect_equal "$(number tokens)" 399
  expect_equal "$(number bytes)" 399
  is_near "$(number perplexity)" "$(awk -v x="$(number loss)" 'BEGIN { print exp(x) }')" 1e-5
  is_near "$(number bits_per_byte)" "$(awk -v x="$(number loss)" 'BEGIN { print x / log(2) }')" 1e-5
  evaluate "$golden/llama2" --text text --json --window 64 --stride 7
  expect_equal "$(number tokens)" 399
  evaluate "$golden/llama2" --text text --window 64
  expect_out '^eval   text [0-9.]+ nats, [0-9.]+ bits/byte, perplexity [0-9.]+, 399 tokens in 1 document, '
}

# Documents do not see one another: together they cost what they cost alone.
test_documents_stand_for_themselves() {
  printf '{"text": "One of them.", "id": 1}\n{"text": "And the other, which is longer than it."}\n' > both.jsonl
  printf 'One of them.' > one
  printf 'And the other, which is longer than it.' > other
  local all sum=0 f
  { printf '\xef\xbb\xbf' && cat both.jsonl; } > both.ndjson
  evaluate "$golden/gpt2" --text both.ndjson --json --window 16 --stride 8
  expect_equal "$(number tokens)" 49
  all=$(awk -v x="$(number loss)" 'BEGIN { printf "%.9f", 49 * x }')
  for f in one other; do
    evaluate "$golden/gpt2" --text $f --json --window 16 --stride 8
    sum=$(awk -v s=$sum -v x="$(number loss)" -v n="$(number tokens)" 'BEGIN { printf "%.9f", s + n * x }')
  done
  is_near "$all" "$sum" 1e-6
}

test_usual_fields_are_understood() {
  write_questions
  evaluate "$golden/llama2" --choices q.jsonl --each each --json
  mv out fields
  evaluate "$golden/llama2" --choices plain.jsonl --each plain --json
  cmp each plain
  expect_equal "$(number acc) $(number questions)" "$(sed -nE 's/.*"acc": ([^,]*),.*/\1/p' fields) 4"
  [ "$(wc -l < each)" = 4 ]
}

# A blank stands before a choice even where cleaning has left it one, and a choice is as long as its characters.
test_choices_are_scored_as_by_the_harness() {
  cat > wiki.jsonl << 'END'
{"activity_label": "Home", "ctx_a": "[header] How to rest [title] Sit.", "ctx_b": "", "endings": ["[substeps] Now sleep.", "[step] Eat."], "label": 0}
{"question": "\u00a0", "choices": {"text": [" b", "c"], "label": [1, 2]}, "answerKey": 2}
{"context": "a", "choices": ["ééééé", "abcde"], "label": 1}
END
  cat > plain.jsonl << 'END'
{"context": "Home: How to rest. Sit. ", "choices": [" Now sleep.", " Eat."], "label": 0}
{"context": "Question: \u00a0\nAnswer: ", "choices": [" b", "c"], "label": "1"}
{"context": "a\u2003", "choices": ["b", "c"], "label": 1}
END
  evaluate "$golden/llama2" --choices wiki.jsonl --each wiki --json
  expect_equal "$(sed -n '3s/.*"best_norm": \([0-9]\), .*/\1/p' wiki)" 1
  expect_equal "$(sed -nE '3s/.*\[([^,]*), ([^]]*)\].*/\1 \2/p' wiki | awk '{ print ($1 / 10 < $2 / 5) }')" 1
  evaluate "$golden/llama2" --choices plain.jsonl --each plain --json
  cmp <(head -n 2 wiki) <(head -n 2 plain)
}

# What dynamic rope stretches a row by is its own length: a short one costs what it costs beside others, and without stretching.
test_dynamic_rope_stretches_a_row_by_its_own_length() {
  write_stretched_model
  echo '{"context": "short", "choices": ["one", "two"], "label": 0}' > short.jsonl
  echo '{"context": "a context that is longer than 16 positions", "choices": ["one", "two"], "label": 0}' > long.jsonl
  cat long.jsonl short.jsonl > both.jsonl
  evaluate "$golden/llama2" --choices both.jsonl --each plain
  evaluate d --choices both.jsonl --each both
  cmp <(tail -n 1 plain) <(tail -n 1 both)
  if cmp -s <(head -n 1 plain) <(head -n 1 both); then return 1; fi
  evaluate d --choices short.jsonl --each short
  cmp short <(tail -n 1 plain)
}

# Where context and choice become one token, what is beyond as many tokens as the context's stands behind the context's own.
test_a_joint_token_is_the_contexts() {
  write_marked_model
  local name want
  echo '{"context": "xa", "choices": ["bbx", "x"], "label": 0}' > q.jsonl
  evaluate_marked() { expect_run 0 "$hpctrain" eval m cpu.threads=1 --each each "$@"; }
  for name in xa xabbx; do
    printf %s "$name" > text
    evaluate_marked --text text --json
    want=$(awk -v a="${want:-0}" -v x="$(sed -E 's/.*"nats": ([^,]*),.*/\1/' each)" 'BEGIN { printf "%.9f", x - a }')
  done
  evaluate_marked --choices q.jsonl --add-special-tokens
  is_near "$(sed -E 's/.*\[([^,]*),.*/\1/' each)" "$want" 1e-5
  printf 'xab<pad>' > text
  expect_run 2 "$hpctrain" eval m --text text
  expect_err 'error: text: the token "<pad>" is number 320'
  echo '{"context": "xa", "choices": ["b", "a<pad>"], "label": 0}' > q.jsonl
  expect_run 2 "$hpctrain" eval m --choices q.jsonl
  expect_err 'error: q.jsonl:1: the token "<pad>" is number 320'
}

test_any_number_of_ranks_gives_the_same_bits() {
  local n
  write_questions
  head -c 1500 "$srcdir/LICENSE" > text
  evaluate "$golden/qwen3" --text text --window 32 --stride 3 --json
  sed 's/"seconds.*//' out > text.1
  evaluate "$golden/qwen3" --choices q.jsonl --each each.1
  for n in 2 3; do
    expect_run 0 mpi $n "$hpctrain" eval "$golden/qwen3" --text text --window 32 --stride 3 --json $byte_keys
    sed 's/"seconds.*//' out | cmp - text.1
  done
  expect_run 0 mpi 2 "$hpctrain" eval "$golden/qwen3" --choices q.jsonl --each each.2 $byte_keys
  cmp each.1 each.2
}

test_a_runs_validation_sets_are_told_by_name() {
  write_run
  head -c 3000 "$srcdir/LICENSE" > web
  tail -c 2000 "$srcdir/LICENSE" > code
  "$hpctrain" tokenize web.bin web > /dev/null
  "$hpctrain" tokenize code.bin code > /dev/null
  sed -i 's|, val_fraction: 0.1|, val: {web: web.bin, code: code.bin}|' t.yaml
  train 1 train.stop_after=4steps checkpoint.every=4steps eval.every=4steps
  expect_out '^eval +4  web [0-9.]+ nats, [0-9.]+ bits/byte, '
  expect_out '^eval +4  code [0-9.]+ nats, [0-9.]+ bits/byte, '
  local name
  for name in web code; do
    grep -q "\"type\":\"eval\",\"step\":4,\"name\":\"$name\",.*\"bits_per_byte\":" run/metrics.jsonl
    grep -aq "eval/$name" run/events.*
    grep -aq "bits_per_byte/$name" run/events.*
  done
  expect_run 0 "$hpctrain" eval run --text web --window 16 --stride 16 # with the run's tokenizer
  expect_out '^eval   web '
  expect_err '^model  run/checkpoints/step-00000004'
}

# refuses TEXT WORD…: eval must fail and say so.
refuses() {
  expect_run 2 "$hpctrain" eval "$golden/gpt2" "${@:2}" $byte_keys
  expect_err "$1"
}

test_bad_input_is_named() {
  : > empty
  printf '{"context": "a", "choices": ["b", "c"], "label": 0}\n\n{"context": "a", "choices": ["b"' > broken.jsonl
  refuses 'empty: no text is there' --text empty
  refuses 'nowhere: No such file' --text nowhere
  refuses 'broken.jsonl:3: no JSON' --choices broken.jsonl
  one() { printf '%s\n' "$1" > one.jsonl; }
  one '{"context": "a", "choices": ["b", "c"], "label": 2}'
  refuses 'one.jsonl:1: its label names none of its choices' --choices one.jsonl
  one '{"context": "a", "choices": ["b", ""], "label": 0}'
  refuses 'one.jsonl:1: a choice is empty' --choices one.jsonl
  one '{"context": "a", "choices": ["b"], "label": 0}'
  refuses 'one.jsonl:1: fewer than two choices' --choices one.jsonl
  one '{"context": "a", "choices": ["b", "c"]}'
  refuses 'one.jsonl:1: there is no label' --choices one.jsonl
  one '{"question": "a", "choices": {"text": ["b", "c"], "label": [1, 2]}, "answerKey": "0"}'
  refuses 'one.jsonl:1: its label names none of its choices' --choices one.jsonl
  one '{"question": "a", "choices": {"text": ["b", "c"], "label": ["A", "B"]}, "answerKey": "1"}'
  refuses 'one.jsonl:1: its label names none of its choices' --choices one.jsonl
  one '{"question": "a", "choices": {"text": ["b", "c"], "label": [1.5, 2]}, "answerKey": "2"}'
  refuses "one.jsonl:1: a choice's label is neither text nor a whole number" --choices one.jsonl
  one '[1]'
  refuses 'one.jsonl:1: context is no text' --choices one.jsonl
  one '{"texts": "a"}'
  refuses 'one.jsonl:1: no text "text"' --text one.jsonl
  one "{\"context\": \"a\", \"choices\": [\"b\", \"$(printf 'x%.0s' {1..199})\"], \"label\": 0}"
  refuses 'one.jsonl:1: a choice of 200 tokens cannot be scored by a model of 128 positions' --choices one.jsonl
  one '{"context": "", "choices": ["b", "cd"], "label": 0}'
  refuses 'one.jsonl:1: no token comes before a choice of one' --choices one.jsonl
  refuses '--field is for --text \*\.jsonl' --choices one.jsonl --field context
  refuses '--field is for --text \*\.jsonl' --text empty --field context
  expect_run 2 "$hpctrain" eval "$golden/gpt2" --text
  expect_err '^error: --text wants a value, and nothing is behind it$'
  : > nothing.jsonl
  refuses 'nothing.jsonl: no question is there' --choices nothing.jsonl
  refuses 'window 129: the model is made for 128 positions' --text "$srcdir/LICENSE" --window 129
  refuses 'eval needs a model' --text a --choices b
  refuses 'eval needs a model'
  expect_run 2 "$hpctrain" eval "$golden/gpt2" --text "$srcdir/LICENSE"
  expect_err 'eval wants text, and no tokenizer is known of'
}

check_main "$@"
