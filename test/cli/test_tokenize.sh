#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hpctrain tokenize and detokenize: documents in files and folders, the same tokens by any threads and ranks, going on after a stop.
. "$(dirname "$0")/../check.sh"
golden=$srcdir/test/golden/tokenizers

# ids FILE: the ids of a token file of 16 bits, one a line.
ids() { tail -c +1025 "$1" | od -An -v -tu2 -w2 | tr -d ' '; }
# printed T: the ids of JSON strings on standard input, one a line.
printed() { "$hpctrain" tokenize --tokenizer "$1" --print | tr -d '[] ' | tr , '\n'; }
lines() { sed 's/.*/{"id": 1, "body": "&"}/' "$@"; }
verses() { seq 1 "$1" | sed 's/.*/& The quick brown fox jumps over the lazy dog & times; then it was said & 日本/'; }

test_a_line_of_json_is_answered_by_its_ids_and_back() {
  printf '%s\n' '"Hello, world!"' '""' '"a\u0000b <|endoftext|> \ud83d\udc4d"' > in
  for t in gpt2-style.json llama3-style.json llama2-style.json sp-bpe.model sp-unigram.model; do
    "$hpctrain" tokenize --tokenizer "$golden/$t" --print < in > ids
    expect_equal "$(sed -n 2p ids)" '[]'
    "$hpctrain" detokenize --tokenizer "$golden/$t" < ids > out
    [ "$t" != "${t%.model}" ] || cmp in <(sed 's/\\uD83D\\uDC4D/\\ud83d\\udc4d/' out)
  done
  "$hpctrain" tokenize --tokenizer "$golden/gpt2-style.json" --print < in > ids
  expect_equal "$(head -n 1 ids)" '[40, 409, 79, 12, 867, 1]'
}

test_documents_of_a_folder_come_in_order_each_with_its_end() {
  mkdir -p in/b
  printf 'first text' > in/a.txt
  printf 'third\ntext' > in/b/z.txt
  printf '{"text": "second"}\n\n{"text": ""}\n{"text": "again"}\n' > in/b/a.jsonl
  printf 'hidden' > in/.hidden
  expect_run 0 "$hpctrain" tokenize --tokenizer "$golden/llama3-style.json" in --out made/x --bos
  expect_out '^data .* in 3 files'
  expect_out '^ends   0 before and 1 behind each document'
  ids made/x-00000.bin > made/ids
  for text in 'first text' second again 'third\ntext'; do echo 0; echo "\"$text\"" | printed "$golden/llama3-style.json"; echo 1; done > wanted
  cmp made/ids wanted
}

test_lines_are_documents_when_asked() {
  printf 'one\r\n\ntwo' > in.txt
  expect_run 0 "$hpctrain" tokenize --tokenizer "$golden/gpt2-style.json" in.txt --out x.bin --lines
  expect_equal "$(ids x.bin | grep -c '^0$')" 2
  expect_run 0 "$hpctrain" tokenize --tokenizer "$golden/gpt2-style.json" in.txt --out y.bin --no-eos
  printf '"one\\r\\n\\ntwo"\n' | printed "$golden/gpt2-style.json" | cmp - <(ids y.bin)
}

test_json_that_is_no_lines_by_its_name_is_told() {
  mkdir in
  printf '[{"text": "a"}]' > in/a.json
  expect_run 0 "$hpctrain" tokenize --tokenizer bytes in --out x.bin
  expect_err '^note   in/a\.json: taken as text; JSON lines are files \*\.jsonl'
  expect_run 2 "$hpctrain" tokenize --tokenizer bytes in --out y.bin --field text
  expect_err '^error: --field text: in/a\.json: no JSON lines$'
  printf '{"text": "a"}\n' > in/b.jsonl
  expect_run 0 "$hpctrain" tokenize --tokenizer bytes in --out y.bin --field text
}

test_any_threads_and_ranks_make_the_same_files() {
  verses 3000 | lines > a.jsonl
  verses 2000 > b.txt
  verses 1000 | lines > c.jsonl
  set -- --tokenizer "$golden/llama2-style.json" a.jsonl b.txt c.jsonl --field body --shards 5
  expect_run 0 "$hpctrain" tokenize "$@" --out one/x --threads 1
  [ "$(ls one | wc -l)" -ge 3 ]
  expect_run 0 "$hpctrain" tokenize "$@" --out three/x --threads 3
  diff -r one three
  for n in 2 3; do
    expect_run 0 mpi "$n" "$hpctrain" tokenize "$@" --out "ranks$n/x" --threads 2
    expect_equal "$(grep -c '^data' out)" 1
    diff -r one "ranks$n"
  done
  for file in one/x-*.bin; do ids "$file"; done > all
  { sed 's/.*"body": \("[^"]*"\).*/\1/' a.jsonl; jq_text < b.txt; sed 's/.*"body": \("[^"]*"\).*/\1/' c.jsonl; } > texts
  printed_with_end "$golden/llama2-style.json" 2 < texts | cmp - all
}
# The whole input as one JSON string; and printed, with an id behind each text.
jq_text() { printf '"%s\\n"\n' "$(sed -z 's/\n$//; s/\n/\\n/g')"; }
printed_with_end() { "$hpctrain" tokenize --tokenizer "$1" --print | sed "s/]\$/, $2]/" | tr -d '[] ' | tr , '\n'; }

# More than a process may have mapped at once.
test_a_shard_may_have_more_files_than_there_are_maps() {
  local n=70000
  [ "$(cat /proc/sys/vm/max_map_count)" -lt $n ] || echo "note  vm.max_map_count is above $n; this shows nothing" >&2
  printf ab > a
  expect_run 0 "$hpctrain" tokenize --tokenizer bytes --out x.bin --threads 2 $(yes a | head -n $n)
  expect_out "^data .* in $n files; 140k tokens, .* 70.0k documents"
  cmp <(ids x.bin | uniq -c | sort | uniq -c | sed 's/  */ /g') <(printf ' %d 1 97\n %d 1 98\n' $n $n)
}

# Chunks have a megabyte: none of a line's own, a line's end at the end of one, and at the beginning.
test_lines_longer_than_chunks_are_one_document_each() {
  local M=1048576 length
  for length in $((3 * M - 1)) $((2 * M)) 5 $((4 * M + 7)) 0 3; do
    head -c "$length" /dev/zero | tr '\0' "${length: -1}"
    echo
  done > in.txt
  truncate -s -1 in.txt
  for n in 1 3; do
    expect_run 0 "$hpctrain" tokenize --tokenizer bytes --lines in.txt --out "x$n.bin" --threads $n
    expect_out '; 5 documents in '
  done
  cmp x1.bin x3.bin
  cmp <(tail -c +1025 x1.bin | tr -d '\0') <(tr -d '\n' < in.txt)
}

test_done_shards_are_kept_and_a_torn_one_is_made_again() {
  verses 4000 > a.txt
  set -- --tokenizer "$golden/gpt2-style.json" --lines a.txt --shards 4 --out x
  expect_run 0 "$hpctrain" tokenize "$@"
  mkdir before
  cp -p x-*.bin before
  truncate -s -100 x-00002.bin
  rm x-00001.bin
  expect_run 0 "$hpctrain" tokenize "$@"
  expect_out '2 of 4 were there'
  for file in x-*.bin; do cmp "$file" "before/$file"; done
  [ ! x-00000.bin -nt before/x-00000.bin ]
  expect_run 0 "$hpctrain" tokenize "$@"
  expect_out '4 of 4 were there'
  expect_equal "$(find . -name '*.tmp' | wc -l)" 0
}

test_files_of_another_job_are_never_overwritten() {
  verses 100 > a.txt
  set -- --tokenizer "$golden/gpt2-style.json" a.txt --out x
  expect_run 0 "$hpctrain" tokenize "$@"
  cp x-00000.bin kept
  expect_run 2 "$hpctrain" tokenize "$@" --no-eos
  expect_err '^error: x-00000.bin is there, of other texts or settings'
  echo more >> a.txt
  expect_run 2 "$hpctrain" tokenize "$@"
  cmp kept x-00000.bin
}

test_bytes_are_a_tokenizer_too() {
  printf 'a\0\377b' > in
  expect_run 0 "$hpctrain" tokenize --tokenizer bytes in --out x.bin
  expect_out '^ends   none'
  expect_equal "$(ids x.bin | tr '\n' ' ')" '97 0 255 98 '
}

test_a_program_without_its_modules_still_starts() {
  mkdir alone
  cp "$hpctrain" alone
  expect_run 0 alone/hpctrain --version
  ldd "$hpctrain" > libraries
  expect_run 1 grep -E 'libicu|libsentencepiece' libraries
  echo text > in.txt
  expect_run 0 alone/hpctrain tokenize --tokenizer "$golden/gpt2-style.json" in.txt --out x
  status=0
  alone/hpctrain tokenize --tokenizer "$golden/sp-bpe.model" in.txt --out y > out 2> err || status=$?
  [ "$status" = 0 ] || expect_err 'hpctrain_sentencepiece.so, does not load' # 0: one is installed
}

test_what_is_wrong_is_named() {
  echo text > in.txt
  echo '{"other": 1}' > in.jsonl
  gzip -k in.txt
  expect_run 2 "$hpctrain" tokenize --tokenizer none.json in.txt --out x
  expect_err 'none.json: No such file'
  expect_run 2 "$hpctrain" tokenize --tokenizer in.txt in.txt --out x
  expect_err 'in.txt: no tokenizer'
  printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n' > tokenizer.model
  expect_run 2 "$hpctrain" tokenize --tokenizer . in.txt --out x
  expect_err 'tokenizer.model: a pointer of Git LFS, not the file itself: git lfs pull'
  expect_run 2 "$hpctrain" tokenize --tokenizer "$golden/gpt2-style.json" in.jsonl --out x
  expect_err "in.jsonl:1: the line has no text 'text'"
  expect_run 2 "$hpctrain" tokenize --tokenizer "$golden/gpt2-style.json" in.txt.gz --out x
  expect_err 'in.txt.gz: .gz files are not read'
  expect_run 2 "$hpctrain" tokenize --tokenizer "$golden/gpt2-style.json" in.txt --out x --bos
  expect_err 'knows no token that begins a text'
  sed 's/"type": "BPE"/"type": "Unigram"/' "$golden/gpt2-style.json" > other.json
  expect_run 2 "$hpctrain" tokenize --tokenizer other.json in.txt --out x
  expect_err "model 'Unigram' is not known here"
  sed 's/"use_regex"/"use_magic"/' "$golden/gpt2-style.json" > other.json
  expect_run 2 "$hpctrain" tokenize --tokenizer other.json in.txt --out x
  expect_err "pre_tokenizer ByteLevel: 'use_magic' is not known here"
  echo '[1, 5000]' > ids
  status=0
  "$hpctrain" detokenize --tokenizer "$golden/gpt2-style.json" < ids 2> err || status=$?
  expect_equal $status 2
  expect_err 'standard input:1: element 1 is no id of .*gpt2-style.json, which has those below 1024'
}

# A run on text of a tokenizer: t.yaml, data-00000.bin.
make_run() {
  verses 400 > text
  expect_run 0 "$hpctrain" tokenize --tokenizer "$golden/llama3-style.json" --lines text --out data
  cat > t.yaml << END
hpctrain: 1
run: {name: t, folder: run}
model: {vocab_size: 1024, hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 64}
data: {train: data-*.bin, tokenizer: $golden/llama3-style.json, val_fraction: 0.1}
train: {seq_len: 32, duration: 4 steps, global_batch_size: 4 sequences, lr: 1e-3, schedule: constant}
checkpoint: {every: 4 steps}
eval: {every: 4 steps}
log: {every: 1 steps}
END
}

test_a_run_tells_text_and_bits_per_byte_and_speaks() {
  make_run
  expect_run 0 "$hpctrain" plan t.yaml
  expect_out 'llama3-style.json, 1024 ids of the model.s 1024'
  expect_run 0 mpi 2 "$hpctrain" t.yaml
  expect_out '^data .*first: ".*(quick|brown|jumps|lazy|times|said).* \.\.\."'
  python3 - << 'END'
import json, math
evals = [json.loads(line) for line in open("run/metrics.jsonl") if '"eval"' in line]
last = evals[-1]
# The text of the last tenth, in bytes: each token stands for some, and the ends of documents for none.
bits = last["loss"] * last["tokens"] / math.log(2)
per_byte = last["bits_per_byte"]
assert 1 < bits / per_byte / last["tokens"] < 4, (bits / per_byte / last["tokens"], last)
END
  grep '^data' out
  expect_run 0 "$hpctrain" generate run --prompt 'The quick' --tokens 8
  expect_out '^The quick'
  expect_run 0 "$hpctrain" generate run --tokens 8 --add-special-tokens
}

test_a_tokenizer_that_does_not_suit_is_an_error() {
  make_run
  expect_run 2 "$hpctrain" t.yaml model.vocab_size=1000
  expect_err 'made by a tokenizer of 1024 ids, but the vocabulary ends at 999'
  "$hpctrain" tokenize --tokenizer "$golden/gpt2-style.json" --lines text --out other > log
  expect_run 2 "$hpctrain" plan t.yaml data.train=other-00000.bin
  expect_err 'other-00000.bin was made with another tokenizer than .*llama3-style.json'
  "$hpctrain" tokenize bytes.bin text > log
  expect_run 2 mpi 2 "$hpctrain" t.yaml data.tokenizer="$golden/sp-bpe.model" model.vocab_size=1023 data.train=bytes.bin
  expect_err 'sp-bpe.model has 1024 ids, but the model.s vocabulary 1023'
  expect_run 2 "$hpctrain" t.yaml data.train=text
  expect_err 'text is text, no token file'
  expect_err 'hpctrain tokenize --tokenizer T text --out PREFIX'
  expect_run 2 "$hpctrain" plan t.yaml data.tokenizer=nowhere.json
  expect_err 'nowhere.json: No such file'
}

test_ids_and_texts_are_those_of_the_libraries() {
  expect_library_agrees "$srcdir/test/cli/compare_tokenizers.py" "$hpctrain" "$golden" 40 "${RANDOM}"
}

check_main "$@"
