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
  for model in llama3-gqa-tied qwen3 mistral-window gpt2; do
    [ -d "$srcdir/test/golden/$model" ] || continue
    write_run
    sed -i '/^model/d; s/10 steps/2 steps/' t.yaml
    train 1 cpu.compiler=none run.folder=$model model.config="$srcdir/test/golden/$model/config.json"
    expect_run 0 "$hpctrain" export $model $model.hf
    "$hpctrain" verify $model.hf "$srcdir/test/golden/$model/golden.safetensors" --dump $model.safetensors > verify.out 2>&1 || grep -q 'out of tolerance' verify.out
    same_logits $model.hf $model.safetensors
  done
}

check_main "$@"
