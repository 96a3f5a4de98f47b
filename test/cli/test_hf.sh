#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hpctrain import, hpctrain export and model.from: Hugging Face folders in and out.
. "$(dirname "$0")/../check.sh"
. "$(dirname "$0")/train_case.sh"

golden=$srcdir/test/golden
# The interpreter starts faster than a compiler.
plain=cpu.compiler=none

# hf N COMMAND WORD…: hpctrain import or export, on N ranks (0: alone).
hf() {
  local n=$1
  shift
  if [ "$n" = 0 ]; then expect_run 0 "$hpctrain" "$@"; else expect_run 0 mpi "$n" "$hpctrain" "$@"; fi
}

# refused PATTERN COMMAND WORD…: ends with 2, says so once.
refused() {
  local pattern=$1
  shift
  expect_run 2 "$hpctrain" "$@"
  expect_err "$pattern"
  expect_equal "$(grep -c '^error:' err)" 1
}

# A copy of a golden model, and what a tokenizer may leave beside it, in ./m.
copy_model() {
  cp -rL "$golden/$1" m
  chmod -R u+w m
  rm -f m/golden.safetensors m/router.safetensors m/train.*
}

test_export_gives_back_what_was_imported() {
  local model
  for model in "$golden"/*/model.safetensors; do
    copy_model "$(basename "$(dirname "$model")")"
    printf '{"a":1}' > m/tokenizer.json
    printf 'bytes\0and\0more\n\0' > m/tokenizer.model
    hf 0 import m ckpt
    expect_out '^imported ckpt/step-00000000: '
    hf 0 export ckpt out.hf
    expect_out '^exported out.hf: .* types as imported, in 1 file'
    diff -r m out.hf
    rm -rf m ckpt out.hf
  done
}

test_shards_come_back_as_they_were_on_any_ranks() {
  local n
  copy_model llama2
  hf 0 import m one
  hf 2 export one shards --shard-size 100kB
  expect_equal "$(find shards -name 'model-0000?-of-00007.safetensors' | wc -l)" 7
  grep -q '"total_size": 566528' shards/model.safetensors.index.json
  for n in 0 3; do
    hf $n import shards ckpt.$n
    hf $((2 - n / 2)) export ckpt.$n/step-00000000 out.$n
    diff -r shards out.$n
  done
  expect_run 0 "$hpctrain" ckpt diff ckpt.0 ckpt.3
  expect_run 0 "$hpctrain" ckpt diff one ckpt.3 || expect_out '^only '
  ! grep '^changed' out
}

test_types_are_cast_and_told() {
  copy_model llama2
  hf 0 import m a
  hf 0 export a narrow --dtype bf16
  grep -q '"dtype": "bfloat16"' narrow/config.json
  expect_equal "$(sed 's/bfloat16/float32/' narrow/config.json)" "$(cat m/config.json)"
  hf 0 import narrow b
  expect_run 0 "$hpctrain" ckpt show b
  expect_out '^  model\.norm\.weight +64 +bf16'
  hf 0 export b wide --dtype fp32
  hf 0 import wide c
  hf 0 export c again --dtype bf16
  cmp narrow/model.safetensors again/model.safetensors
  refused '^error: --dtype fp8' export a x --dtype fp8
}

test_a_run_from_an_import_is_one_from_the_folder() {
  local n
  write_run
  sed -i '/^model/d; s/10 steps/3 steps/' t.yaml
  hf 2 import "$golden/llama3-gqa-tied" ckpt
  train 1 $plain run.folder=a model.from="$golden/llama3-gqa-tied"
  train 1 $plain run.folder=b model.from=ckpt
  expect_same a b
  for n in no_shard full_shard; do
    train 2 $plain run.folder=$n model.from=ckpt parallel.strategy=$n
    expect_close a $n
  done
}

test_a_run_is_exported_and_goes_on_elsewhere() {
  write_run
  sed -i '/^model/d; s/10 steps/3 steps/' t.yaml
  cp -rL "$golden/llama2" m
  echo '{"chat":1}' > m/tokenizer_config.json
  train 2 $plain model.from=m
  hf 0 export run out.hf
  expect_out ' fp32, in 1 file'
  diff m/config.json out.hf/config.json
  diff m/tokenizer_config.json out.hf/tokenizer_config.json
  train 1 $plain run.folder=a model.from=run
  train 1 $plain run.folder=b model.from=out.hf
  expect_same a b
  hf 0 export a again
  diff m/tokenizer_config.json again/tokenizer_config.json
}

test_a_model_without_a_folder_gets_a_config() {
  write_run
  train 1 $plain train.stop_after=2steps precision.compute=bf16
  hf 0 export run out.hf
  expect_out ' bf16, in 1 file'
  expect_equal "$(ls out.hf | tr '\n' ' ')" 'config.json generation_config.json model.safetensors '
  grep -q '"torch_dtype": "bfloat16"' out.hf/config.json
  grep -q '"rope_parameters": {' out.hf/config.json
  sed '/^model/d' t.yaml > u.yaml
  expect_run 0 "$hpctrain" plan u.yaml model.from=out.hf
}

# The file goes by the name that loaders look for; a folder goes as it is; either in the place of the one of model.from.
test_the_run_files_tokenizer_is_exported_with_the_model() {
  write_run
  sed -i 's/vocab_size: 256/vocab_size: 1024/; s/10 steps/1 steps/; s/data.bin, tokenizer: bytes/b-00000.bin, tokenizer: bpe.json/' t.yaml
  cp "$golden/tokenizers/gpt2-style.json" bpe.json
  "$hpctrain" tokenize --tokenizer bpe.json "$srcdir/LICENSE" --out b > log
  train 2 $plain
  hf 0 export run out.hf
  cmp bpe.json out.hf/tokenizer.json
  expect_equal "$(ls out.hf | tr '\n' ' ')" 'config.json generation_config.json model.safetensors tokenizer.json tokenizer_config.json '
  grep -q '"eos_token": "<|endoftext|>"' out.hf/tokenizer_config.json
  grep -q '"eos_token_id": 0' out.hf/config.json
  grep -q '"eos_token_id": 0' out.hf/generation_config.json
  train 1 $plain train.duration=2steps
  hf 0 export run again
  cmp bpe.json again/tokenizer.json
  mkdir tok
  cp "$golden/tokenizers/sp-bpe.model" tok/tokenizer.model
  printf '{"add_bos_token":true}' > tok/tokenizer_config.json
  printf hello > tok/chat_template.jinja
  touch tok/notes.txt
  "$hpctrain" tokenize --tokenizer tok "$srcdir/LICENSE" --out s > log
  sed '/^model/d' t.yaml > u.yaml
  expect_run 0 "$hpctrain" u.yaml $plain run.folder=sp model.from=out.hf data.tokenizer=tok data.train=s-00000.bin
  hf 0 export sp sp.hf
  expect_equal "$(ls sp.hf | tr '\n' ' ')" \
    'chat_template.jinja config.json generation_config.json model.safetensors tokenizer.model tokenizer_config.json '
  cmp tok/tokenizer.model sp.hf/tokenizer.model
}

test_a_run_that_is_done_leaves_its_export() {
  write_run
  mkdir taken
  fails 2 2 $plain export.at_end=taken
  expect_err '^error: taken is there already$'
  fails 2 2 $plain export.at_end=out.hf checkpoint.every=none
  train 2 $plain export.at_end=out.hf train.stop_after=4steps
  [ ! -e out.hf ]
  train 2 $plain export.at_end=out.hf
  expect_out '^export +out.hf: [0-9.]+ kB, fp32 in '
  hf 0 export run again
  diff -r out.hf again
  train 2 $plain export.at_end=out.hf
  rm -r out.hf
  train 1 $plain export.at_end=out.hf
  diff -r out.hf again
}

test_what_is_there_is_not_written_over() {
  copy_model llama2
  hf 0 import m ckpt
  refused '^error: ckpt has checkpoints' import m ckpt
  refused '^error: m is a Hugging Face folder' import m m
  expect_equal "$(ls m)" "$(ls "$golden/llama2" | grep -E '^(config.json|model.safetensors)$')"
  hf 0 export ckpt out.hf
  touch out.hf/mine
  refused '^error: out.hf is there already' export ckpt out.hf/
  [ -e out.hf/mine ]
  hf 0 export ckpt out.hf/ --force
  diff -r m out.hf
  mkdir other
  touch other/mine
  refused "^error: other is not a model's folder" export ckpt other --force
  [ -e other/mine ]
  refused 'is a Hugging Face folder already' export m x
  refused 'is a checkpoint already' import ckpt x
  [ ! -e x ]
}

test_bad_folders_are_named() {
  copy_model llama2
  hf 0 import m ckpt
  hf 0 export ckpt shards --shard-size 300kB
  # a tied flag beside a head of its own
  sed -i 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' m/config.json
  refused "'lm_head.weight' differs from 'model.embed_tokens.weight', to which config.json ties it" import m x
  sed -i 's/"tie_word_embeddings": true/"tie_word_embeddings": false/' m/config.json
  # a weight that is no number
  printf '\0\0\300\177' | dd of=m/model.safetensors bs=1 seek=$(($(stat -c %s m/model.safetensors) - 4)) conv=notrunc 2> /dev/null
  refused "m/model.safetensors: 'model.norm.weight' has nan at element 63" import m x
  # another model's shape
  sed -i 's/"intermediate_size": 176/"intermediate_size": 160/' m/config.json
  refused "mlp.*is 64x176, the model's config wants 64x160|is 176x64, the model's config wants 160x64" import m x
  # tensors that are missing, or that the model has none of
  sed -i 's/"intermediate_size": 160/"intermediate_size": 176/; s/"num_hidden_layers": 2/"num_hidden_layers": 3/' m/config.json
  refused "^error: m has no tensor 'model\.layers\.2\.[a-z_.]+', which the model needs \(nor 8 more\)" import m x
  sed -i 's/"num_hidden_layers": 3/"num_hidden_layers": 1/' m/config.json
  refused "^error: m/model\.safetensors: the model has no tensor 'model\.layers\.1\.[a-z_.]+' \(nor 8 more\)" import m x
  rm -r m
  copy_model llama3-gqa-tied
  sed -i 's/"tie_word_embeddings": true/"tie_word_embeddings": false/' m/config.json
  refused "^error: m has no tensor 'lm_head\.weight', which the model needs" import m x
  # shards
  cp -r shards bad
  truncate -s -1 bad/model-00002-of-00002.safetensors
  refused 'bad/model-00002-of-00002.safetensors: tensor .* is said to lie at bytes' import bad x
  rm bad/model-00002-of-00002.safetensors
  refused 'bad/model-00002-of-00002.safetensors: No such file' import bad x
  sed -i 's|model-00002-of|../shards/model-00002-of|' bad/model.safetensors.index.json
  refused "is not the name of a file beside it" import bad x
  rm bad/*.safetensors*
  touch bad/pytorch_model.bin
  refused "^error: bad: neither model\.safetensors nor .*; pytorch_model\.bin is not read" import bad x
  [ ! -e x ]
}

test_a_tokenizer_larger_than_the_vocabulary_is_told() {
  copy_model llama2
  cp "$golden/tokenizers/gpt2-style.json" m/tokenizer.json
  hf 2 import m ckpt
  expect_err '^warn +m/tokenizer.json has 1024 ids, the model.s vocabulary 320'
  hf 0 export ckpt out.hf
  diff -r m out.hf
}

# add_masks TYPE BYTES: of GPT-2's folder ./m, a causal mask of 4 x 4 in each layer, and a number of 16 bits.
add_masks() {
  local file=m/model.safetensors n size text layer
  n=$(head -c 8 "$file" | od -An -td8)
  size=$(($(stat -c %s "$file") - 8 - n))
  text=$(head -c $((8 + n)) "$file" | tail -c "$n" | sed 's/} *$//')
  tail -c "$size" "$file" > rest
  for layer in 0 1; do
    text+=",\"transformer.h.$layer.attn.bias\":{\"dtype\":\"$1\",\"shape\":[1,1,4,4],\"data_offsets\":[$size,$((size + 16))]}"
    text+=",\"transformer.h.$layer.attn.masked_bias\":{\"dtype\":\"I16\",\"shape\":[],\"data_offsets\":[$((size + 16)),$((size + 18))]}"
    size=$((size + 18))
    printf '\1\0\0\0\1\1\0\0\1\1\1\0\1\1\1'"$2"'\1\2' >> rest
  done
  text+='}'
  n=${#text}
  {
    printf "$(printf '\\x%02x' $((n & 255)) $((n >> 8 & 255)) 0 0 0 0 0 0)"
    printf %s "$text"
    cat rest
  } > "$file"
}

test_masks_beside_weights_come_back_in_any_layout() {
  local type way
  for type in BOOL U8; do
    copy_model gpt2
    add_masks "$type" '\1'
    hf 0 import m ckpt
    hf 0 export ckpt same
    diff -r m same
    hf 0 export ckpt narrow --dtype bf16
    hf 0 export ckpt shards --shard-size 100kB
    for way in narrow shards; do
      grep -aoq '"transformer.h.1.attn.bias":{"dtype":"BOOL","shape":\[1,1,4,4\]' "$way"/*.safetensors
      hf 0 import "$way" "ckpt.$way"
      expect_run 0 "$hpctrain" ckpt show "ckpt.$way"
      expect_out '^  transformer\.h\.1\.attn\.bias +1x1x4x4 +pred'
    done
    expect_run 0 "$hpctrain" ckpt diff ckpt ckpt.shards || expect_out '^only '
    ! grep '^changed' out
    rm -r m ckpt* same narrow shards
  done
  copy_model gpt2
  add_masks U8 '\3'
  refused "'transformer.h.0.attn.bias' is U8 and has 3 at element 15; truth values are 0 and 1" import m ckpt
}

test_what_fp16_cannot_hold_is_named() {
  copy_model llama2
  printf '\0\120\303\107' | dd of=m/model.safetensors bs=1 seek=$(($(stat -c %s m/model.safetensors) - 4)) conv=notrunc 2> /dev/null
  hf 0 import m ckpt
  refused "^error: ckpt/step-00000000: 'model.norm.weight' has 100000 at element 63, and fp16 ends at 65504" export ckpt out.hf --dtype fp16
  [ ! -e out.hf ] && [ ! -e out.hf.tmp ]
  hf 0 export ckpt out.hf --dtype bf16
}

test_a_damaged_checkpoint_is_not_exported() {
  copy_model llama2
  hf 0 import m ckpt
  printf x | dd of=ckpt/step-00000000/model.h5 bs=1 seek=300000 conv=notrunc 2> /dev/null
  refused '^error: ckpt/step-00000000 damaged: /model/.*checksum' export ckpt out.hf
  [ ! -e out.hf ] && [ ! -e out.hf.tmp ]
  write_run
  sed -i '/^model/d' t.yaml
  fails 2 2 $plain model.from=ckpt
  expect_err '^error: .*ckpt/step-00000000 damaged: /model/.*checksum'
}

check_main "$@"
