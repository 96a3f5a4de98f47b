#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What hpctrain export makes, loaded by transformers, where that is installed: the same logits.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/../cli/train_case.sh"

# same_logits FOLDER REFERENCE: transformers' logits of the folder are the reference's.
same_logits() {
  expect_run 0 python3 "$srcdir/test/e2e/export_hf.py" "$1" "$2"
  grep '^note' out || expect_out '^logits '
}

test_golden_models_are_exported_whole() {
  local file model
  for file in "$srcdir"/test/golden/*/model.safetensors; do
    model=$(basename "$(dirname "$file")")
    expect_run 0 "$hpctrain" import "${file%/*}" "$model.ckpt"
    expect_run 0 "$hpctrain" export "$model.ckpt" "$model" --dtype fp32 --shard-size 150kB
    same_logits "$model" "${file%/*}/golden.safetensors"
  done
}

# A run that began from a config.json alone: what is written is ours.  The reference is hpctrain's own logits of the export.
test_a_config_of_our_own_is_understood() {
  local model
  for model in llama3-gqa-tied qwen3 mistral-window mixtral gpt2; do
    [ -d "$srcdir/test/golden/$model" ] || continue
    write_run
    sed -i '/^model/d; s/10 steps/2 steps/' t.yaml
    train 1 cpu.compiler=none run.folder=$model model.config="$srcdir/test/golden/$model/config.json"
    expect_run 0 "$hpctrain" export $model $model.hf
    "$hpctrain" verify $model.hf "$srcdir/test/golden/$model/golden.safetensors" --dump $model.safetensors > verify.out 2>&1 || grep -q 'out of tolerance' verify.out
    same_logits $model.hf $model.safetensors
  done
}

# The run file's own tokenizer, found in the export by transformers: the same ids.
test_a_tokenizer_of_our_own_is_understood() {
  local tokenizer=$srcdir/test/golden/tokenizers/gpt2-style.json
  write_run
  sed -i "s|vocab_size: 256|vocab_size: 1024|; s/10 steps/1 steps/; s|data.bin, tokenizer: bytes|b-00000.bin, tokenizer: $tokenizer|" t.yaml
  "$hpctrain" tokenize --tokenizer "$tokenizer" "$srcdir/LICENSE" --out b > log
  train 1 cpu.compiler=none
  expect_run 0 "$hpctrain" export run own.hf
  python3 -c 'import json, sys; print(json.dumps(sys.stdin.read()))' < "$srcdir/LICENSE" > text
  "$hpctrain" tokenize --tokenizer "$tokenizer" --print < text > ours
  python3 - << 'END'
import json
try:
    from transformers import AutoTokenizer
except ImportError as missing:
    print(f"note  {missing.name} is not installed: nobody but hpctrain has read the tokenizer")
else:
    tokenizer = AutoTokenizer.from_pretrained("own.hf")
    assert tokenizer(json.load(open("text"))).input_ids == json.load(open("ours"))
    assert tokenizer.eos_token_id == 0 and len(tokenizer) == 1024
END
}

check_main "$@"
