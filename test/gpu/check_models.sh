#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What run files ask of models and data, on GPUs: test/gpu/check_models.sh FOLDER, which holds hpctrain and hpctrain_cuda.so.
#   packing, dropout, a z-loss, all of them, and a vocabulary whose logits are padded: in float32 losses are a CPU's, in bf16 near them,
#   on one GPU and on all; twice the same bits
#   the same of conversations, a row each and packed
#   losses on routers of a batch with padding are the reference's
#   two documents packed have the token-weighted mean of each one's loss
. "$(dirname "$0")/gpu_case.sh"

make_tokens 3000
steps=8
compared() { # NAME WORD…: run.yaml with these
  local name=$1 precision np run
  judge "$name on a CPU" run_on 1 "${@:2}" device.kind=cpu run.folder="$name-cpu"
  for precision in fp32 bf16; do
    for np in $each; do
      run=$name-$precision-$np
      judge "$name, $precision, $np GPUs" run_on "$np" "${@:2}" precision.compute=$precision run.folder="$run"
      judge "$name, $precision, $np GPUs: losses are a CPU's" close "$name-cpu" "$run" "$([ $precision = fp32 ] && echo 1e-4 || echo 2e-2)" $steps
      judge "$name, $precision, $np GPUs: again" run_on "$np" "${@:2}" precision.compute=$precision run.folder="$run-again"
      judge "$name, $precision, $np GPUs: the same bits" same "$run" "$run-again"
    done
  done
}
same() { [ -n "$(losses "$1")" ] && cmp <(losses "$1") <(losses "$2"); }

packing='data.packing=true data.document_end=10' dropout=train.dropout=0.2 z_loss=train.z_loss=0.01
write_run 'preset: llama-5m' 128 $steps 16 4 'checkpoint: {every: none}'
# shellcheck disable=SC2086
{
  compared packing $packing
  compared dropout $dropout
  compared z-loss $z_loss
  compared together $packing $dropout $z_loss
}
sed -E 's/("vocab_size": *)320/\1321/' "$golden/gpt2/config.json" > odd.json
write_run 'config: odd.json' 64 $steps 16 4 'checkpoint: {every: none}'
compared odd-vocabulary $dropout $z_loss

# Conversations of many lengths, each a row or several packed into one, of which answers alone count.
conversations() {
  local i
  for i in $(seq 400); do
    printf '{"prompt": "%s", "completion": "%s"}\n' "$(head -c $((i * i % 67 + 1)) <(tail -c "+$((i * 40))" text) | tr '\n' ' ')" \
      "$(head -c $((i * 31 % 90)) <(tail -c "+$((i * 70))" text) | tr '\n' ' ')"
  done
}
conversations > chats.jsonl
chats="data.train=chats.jsonl data.format=chat data.chat_template=llama2 data.train_on_inputs=false data.tokenizer=$golden/tokenizers/llama2-style.json"
write_run 'vocab_size: 1024, hidden_size: 256, num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: 512' 128 $steps 16 4 \
  'checkpoint: {every: none}'
# shellcheck disable=SC2086
{
  compared conversations $chats
  compared packed-conversations $chats data.packing=true
}

# Losses on routers of a batch with padding, as transformers has them: by plain grouped products, and on tensor cores.
routers() { # PRECISION
  timeout 100 "$hpctrain" verify "$golden/mixtral" "$golden/mixtral/router.safetensors" train.router_aux_loss=0.5 \
    train.router_z_loss=0.25 device.kind=$kind precision.compute="$1" | grep '^all within tolerance$'
}
for precision in fp32 bf16; do
  judge "routers' losses of a batch with padding, $precision, are the reference's" routers $precision
done

# Documents of 300 and 213 bytes, the last of which is the only end of a line.
document() { printf '%s\n' "$(tr '\n' ' ' < text | tail -c "+$1" | head -c $(($2 - 1)))"; }
document 1 300 > first
document 1000 213 > second
cat first second > both
weighted_mean() { # PRECISION SHARE
  awk -v most="$2" '{ loss[NR] = $2 } END {
    mean = (loss[1] * 299 + loss[2] * 212) / 511
    d = (loss[3] - mean) / mean
    printf "told : apart %.6f, together %.6f\n", mean, loss[3]
    exit !(NR == 3 && mean > 0 && (d < 0 ? -d : d) <= most + 0)
  }' <(losses "first-$1") <(losses "second-$1") <(losses "both-$1")
}
write_run 'preset: llama-5m' 512 1 1 1 'checkpoint: {every: none}'
for what in first second both; do "$hpctrain" tokenize $what.bin $what > /dev/null; done
for precision in fp32 bf16; do
  for what in first second both; do
    words=(data.train=$what.bin train.seq_len=$(($(wc -c < $what) - 1)) train.warmup=0steps precision.compute=$precision)
    # shellcheck disable=SC2206
    [ $what != both ] || words+=($packing)
    judge "$precision: the documents, $what" run_on 1 "${words[@]}" run.folder=$what-$precision
  done
  judge "$precision: the loss of both packed is the mean of each alone's" weighted_mean $precision "$([ $precision = fp32 ] && echo 2e-6 || echo 1e-3)"
done
exit $failed
