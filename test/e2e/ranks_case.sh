# SPDX-License-Identifier: Apache-2.0
# What a rank's start costs, in messages and files, by count_calls.so; sourced after test/check.sh.  A step's cost is what a run of two
# steps has more than a run of one, and the start's what that leaves.
share_kernels

can_count() { [ "$slowdown" = 1 ] || ! echo "note  nothing is loaded before a sanitizer" >&2; }

write_run() {
  "$hpctrain" tokenize data.bin "$srcdir/LICENSE" > /dev/null
  cat > t.yaml << 'END'
hpctrain: 1
run: {name: ranks}
model: {vocab_size: 256, hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: 48}
data: {train: data.bin, tokenizer: bytes}
train: {seq_len: 16, duration: 2 steps, micro_batch_size: 1, lr: 1e-3, schedule: constant}
parallel: {strategy: full_shard}
checkpoint: {every: none}
cpu: {threads: 1, compiler: none}
health: {timeout: none}   # its watch sends by the clock
END
}

# The same of conversations, which each run makes into tokens, in buckets.
write_conversations() {
  write_run
  local golden=$srcdir/test/golden/tokenizers i words='be not too quick to say what you may see here'
  sed -i "s/vocab_size: 256/vocab_size: 1024/; s/seq_len: 16/seq_len: 48/; s|^data.*|data: {train: chat.jsonl, format: chat, chat_template: llama2, train_on_inputs: false,\\
  tokenizer: $golden/llama2-style.json, buckets: [16, 32]}|" t.yaml
  for i in {1..100}; do
    printf '{"prompt": "%s", "completion": "%s"}\n' "$(cut -d ' ' -f "1-$((i % 4 + 1))" <<< "$words")" \
      "$(cut -d ' ' -f "$((i % 3 + 2))-$((i % 3 + 5))" <<< "$words")"
  done > chat.jsonl
}

# The same of a model and token files from elsewhere, over two levels of ranks.
write_from_elsewhere() {
  write_run
  for i in 1 2 3; do cp data.bin "part$i.bin"; done
  sed -i '/^model/d; s/strategy: full_shard/strategy: hybrid_shard, shard_degree: 2/
    s/train: data.bin, tokenizer: bytes/train: [{path: data.bin, weight: 0.7}, {path: "part*.bin", weight: 0.3}]/' t.yaml
  echo "model: {from: $srcdir/test/golden/llama2}" >> t.yaml
}

# on RANKS STEPS WORD…: each rank leaves RANKS-STEPS.counts.RANK.  Where a run folder `base` has a step, these are two and three.
on() {
  local last=$2
  [ ! -d base ] || { last=$(($2 + 1)) && cp -r base "$1-$2"; }
  expect_run 0 mpi "$1" timeout 300 env LD_PRELOAD="$builddir/test/mpi/count_calls.so" COUNT_CALLS="$PWD/$1-$2.counts" \
    "$hpctrain" t.yaml run.folder="$1-$2" train.global_batch_size="${sequences-$1}sequences" train.duration="${last}steps" "${@:3}"
  expect_out "^done +$last of $last steps"
  expect_equal "$(find . -name "$1-$2.counts.*" | wc -l)" "$1"
}

# starts RANKS: of the rank with most of each, "messages collectives files".
starts() {
  local r
  for ((r = 0; r < $1; r++)); do
    awk '{ n[$1] += (FILENAME ~ /-1.counts/ ? 2 : -1) * $3 } END { print n["message"] + 0, n["collective"] + 0, n["file"] + 0 }' \
      "$1-1.counts.$r" "$1-2.counts.$r"
  done | awk '{ for (k = 1; k <= 3; k++) if (NR == 1 || $k > most[k]) most[k] = $k } END { print most[1], most[2], most[3] }'
}

# starts_alike FEW MANY: as many collectives and, but for what goes by the clock, files; messages by the logarithm.
starts_alike() {
  for ranks; do
    on "$ranks" 1
    on "$ranks" 2
  done
  paste -d ' ' <(starts "$1") <(starts "$2") | awk -v few="$1" -v many="$2" '{
    printf "%d ranks: %d messages, %d collectives, %d files; %d ranks: %d, %d, %d\n", few, $1, $2, $3, many, $4, $5, $6
    exit !($4 <= $1 + log(many) / log(2) && $2 > 0 && $5 <= $2 && $3 > 0 && $6 <= 1.1 * $3)
  }' >&2
}

# demo_starts N: so many ranks of the built-in demo take two steps.
demo_starts() {
  expect_run 0 mpi "$1" timeout $((240 * slowdown)) "$hpctrain" train.stop_after=2steps
  expect_out '^note  no ./hpctrain.yaml: training the built-in demo'
  expect_out '^step       2 '
  expect_out '^done   2 of 300 steps'
}
