# SPDX-License-Identifier: Apache-2.0
# What the tests of training share: a tiny run, and ways to read what it left.  Sourced after test/check.sh.

share_kernels

# A run file of ten short steps on the bytes of a text; words are added to it on the command line.
write_run() {
  "$hpctrain" tokenize data.bin "$srcdir/LICENSE" > /dev/null
  cat > t.yaml << 'END'
hpctrain: 1
run: {name: tiny, folder: run}
model: {vocab_size: 256, hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 48}
data: {train: data.bin, tokenizer: bytes, val_fraction: 0.1}
train: {seq_len: 16, duration: 10 steps, global_batch_size: 12 sequences, lr: 1e-2, schedule: cosine, warmup: 2 steps}
eval: {tokens: 500 tokens}
cpu: {threads: 1}
END
}

# write_stretched_model: ./d, a golden model that is made for 16 positions, or with dynamic rope for 64.
write_stretched_model() {
  cp -r "$srcdir/test/golden/llama2" d && chmod -R u+w d
  sed -i 's/"max_position_embeddings": .*/"max_position_embeddings": 16,/; s/"rope_type": "default"/"rope_type": "dynamic", "factor": 4.0/' \
    d/config.json
}

# write_marked_model: ./m, a golden model of 320 ids whose tokenizer knows few letters, joins "a " and puts <s> before a text; its <pad>
# is the id behind the model's last.
write_marked_model() {
  cp -r "$srcdir/test/golden/llama2" m && chmod -R u+w m
  local one='"single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true'
  cat > m/tokenizer.json << END
{"version": "1.0", "truncation": null, "padding": null,
 "added_tokens": [{"id": 5, "content": "<s>", $one}, {"id": 320, "content": "<pad>", $one}],
 "normalizer": null,
 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
 "post_processor": {"type": "TemplateProcessing",
  "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
  "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
  "special_tokens": {"<s>": {"id": "<s>", "ids": [5], "tokens": ["<s>"]}}},
 "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
 "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
  "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
  "vocab": {"x": 0, "a": 1, "\u0120": 2, "b": 3, "a\u0120": 4, "<s>": 5, "<pad>": 320}, "merges": [["a", "\u0120"]]}}
END
}

# field_of FOLDER TYPE FIELD: of each object of that type in its metrics.
field_of() { sed -nE "s/^\{\"type\":\"$2\".*\"$3\":([-0-9.e+]+).*/\1/p" "$1/metrics.jsonl"; }

# near A B SHARE: two numbers that differ by at most that share.
near() { awk -v a="$1" -v b="$2" -v t="$3" 'BEGIN { d = a > b ? a - b : b - a; exit !(d <= t * (b > 0 ? b : -b)) }'; }

# train N WORD…: N ranks of t.yaml; expects success, output in ./out and ./err.
train() {
  local n=$1
  shift
  expect_run 0 mpi "$n" timeout $((120 * slowdown)) "$hpctrain" t.yaml "$@"
}

# fails STATUS N WORD…: the same run must end with STATUS and say "error:" once.
fails() {
  local status=$1 n=$2
  shift 2
  expect_run "$status" mpi "$n" timeout $((120 * slowdown)) "$hpctrain" t.yaml "$@"
  expect_equal "$(grep -c '^error:' err)" 1
}

# on_disk N WORD…: N ranks of t.yaml, one without a launcher, on the disk that ./fault describes (bad_disk.c); expects success, or the
# status in $ends; output in ./out and ./err.
preload() { [ -e bad_disk.so ] || cc -shared -fPIC -O1 -D_GNU_SOURCE -o bad_disk.so "$srcdir/test/cli/bad_disk.c" -ldl; }
on_disk() {
  local n=$1 launcher=(mpi "$1")
  shift
  [ "$n" != 1 ] || launcher=()
  preload
  expect_run "${ends:-0}" ${launcher[@]+"${launcher[@]}"} env LD_PRELOAD="$PWD/bad_disk.so" BAD_DISK="$PWD/fault" \
    timeout $((120 * slowdown)) "$hpctrain" t.yaml "$@"
}
said() { grep -qsE -e "$2" "$1"; }

# eventually COMMAND…: tries until it succeeds, for a minute.
eventually() {
  local end=$((SECONDS + 60 * slowdown))
  until "$@"; do
    [ $SECONDS -lt $end ] || { echo "not within a minute: $*" >&2; return 1; }
    sleep 0.02
  done
}

# start WORD…: two ranks in the background that have begun to train; their launcher's id in $job.  A run of many steps.
start() {
  sed -i 's/10 steps/1000000 steps/' t.yaml
  rm -f out.job
  timeout 120 mpirun --oversubscribe -np 2 "$hpctrain" t.yaml "$@" > out.job 2> err.job < /dev/null &
  job=$!
  eventually grep -qs '^step' out.job
}
# ranks_of LAUNCHER: their ids, in the order of ranks.
ranks_of() { pgrep -P "$(pgrep -P "$1" mpirun || echo "$1")" -x hpctrain; }

# slow_down PID: it runs a tenth of the time, until it ends.
slow_down() {
  while kill -STOP "$1" 2> /dev/null; do
    sleep 0.18
    kill -CONT "$1"
    sleep 0.02
  done
}

# numbers FOLDER: step, loss and gradient norm of each step, as they stand in metrics.jsonl.
numbers() { sed -nE 's/^\{"type":"step","step":([0-9]+),.*"loss":([^,]+),"grad_norm":([^,]+),.*/\1 \2 \3/p' "$1/metrics.jsonl"; }

# states FOLDER: the checksum of each tensor of the newest checkpoint.
states() { tr -d ' \n' < "$(ls -d "$1"/checkpoints/step-???????? | tail -n 1)/manifest.json" | grep -oE '"/(model|optim|state)/[^{]*\{[^}]*\}'; }

# expect_same A B: the same bits at every step and at the end.
expect_same() {
  expect_equal "$(numbers "$1")" "$(numbers "$2")"
  expect_equal "$(states "$1")" "$(states "$2")"
  [ -n "$(numbers "$1")" ] && [ -n "$(states "$1")" ]
}

# expect_close A B [TOLERANCE]: as many steps, losses within 1e-5.  Sums run in another order, nothing else differs.
expect_close() {
  paste -d ' ' <(numbers "$1") <(numbers "$2") | awk -v what="$1 and $2" -v most="${3:-1e-5}" '
    function off(a, b) { return a > b ? (a - b) / a : (b - a) / b }
    NF != 6 || $1 != $4 { print what ": not the same steps"; bad = 1; exit }
    !(off($2, $5) <= most + 0) { print what " step " $1 ": loss " $2 ", " $5; bad = 1; exit }
    END { exit bad || NR == 0 }' >&2
}
