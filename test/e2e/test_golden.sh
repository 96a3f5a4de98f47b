#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Logits, gradients and 20 training steps of the models in test/golden: every two of model, ranks, strategy, recomputation, offload,
# micro-steps and precision are together in some test; others have every node a kernel of its own, or the interpreter.  All
# combinations are in test_golden_all.sh.  Where $users stands, the compiler that users have makes the kernels.
. "$(dirname "$0")/golden_case.sh"

unfused=cpu.fuse=false interpreter=cpu.compiler=none users=cpu.compiler=$users_cc
test_llama2_1_full_shard_none_unfused() { within llama2 1 full_shard none $unfused; }
test_llama2_2_full_shard_block_interpreter() { within llama2 2 full_shard block $interpreter; }
test_llama2_4_no_shard_none_unfused() { within llama2 4 no_shard none $unfused; }
test_llama3_gqa_tied_1_no_shard_block_interpreter() { within llama3-gqa-tied 1 no_shard block $interpreter; }
test_llama3_gqa_tied_4_full_shard_block_fused() { within llama3-gqa-tied 4 full_shard block $users; }
test_llama_headdim_2_no_shard_block_unfused() { within llama-headdim 2 no_shard block $unfused; }
test_llama_headdim_3_full_shard_none_interpreter() { within llama-headdim 3 full_shard none $interpreter; }

ways() {
  printf '%s\n' "$models" "1 2 3 4" "$strategies" "none cheap block" "none moments states files" "1 4" "fp32 bf16" |
    awk -f "$srcdir/test/e2e/pairs.awk"
}
while read -r row; do
  eval "test_${row//[- ]/_}() { way $row; }"
done < <(ways)

test_every_two_choices_meet() {
  local factors='3 4 7 3 4 2 2'
  expect_equal "$(ways | awk '{ for (f = 1; f <= NF; f++) for (g = f + 1; g <= NF; g++) met[f " " $f " " g " " $g] }
    END { for (pair in met) n++; print n }')" "$(awk '{ for (f = 1; f <= NF; f++) for (g = f + 1; g <= NF; g++) n += $f * $g; print n }' <<< "$factors")"
}

# Models that differ in what their blocks are made of: each once with much of the rest.
test_qwen2_2_full_shard_block_bf16() { within qwen2 2 full_shard block precision.compute=bf16; }
test_qwen3_3_hybrid_across_cheap() { way qwen3 3 hybrid_across cheap none 4 fp32; }
test_mistral_window_1_no_shard_none_interpreter() { within mistral-window 1 no_shard none $interpreter; }
test_mixtral_2_full_shard_block() { way mixtral 2 full_shard block states 4 fp32; }
test_mixtral_3_hybrid_across_cheap() { way mixtral 3 hybrid_across cheap none 1 fp32; }
test_mixtral_1_no_shard_none_bf16_interpreter() { within mixtral 1 no_shard none precision.compute=bf16 $interpreter; }

# transformers' own balance of a batch with padding, and a z-loss, of routers: both are of a micro-batch, so that there is one.
test_mixtral_router_losses() {
  local keys
  for keys in memory.recompute=block "memory.recompute=none $unfused $interpreter"; do
    # shellcheck disable=SC2086
    expect_run 0 "$hpctrain" verify "$golden/mixtral" "$golden/mixtral/router.safetensors" train.router_aux_loss=0.5 train.router_z_loss=0.25 $keys
    expect_out '^all within tolerance$'
  done
}
test_gpt2_3_shard_grad_op_block() { way gpt2 3 shard_grad_op block moments 4 fp32; }
test_gpt2_1_no_shard_cheap_bf16() { within gpt2 1 no_shard cheap precision.compute=bf16 $users; }

# In 16 bits, within what their rounding costs.
test_llama2_2_full_shard_cheap_bf16() { within llama2 2 full_shard cheap precision.compute=bf16; }
test_llama2_3_no_shard_none_fp16() { within llama2 3 no_shard none precision.compute=fp16 $users; }
test_llama3_gqa_tied_3_full_shard_block_bf16_on_the_way() {
  within llama3-gqa-tied 3 full_shard block precision.compute=bf16 precision.reduce=bf16
}
test_llama3_gqa_tied_1_no_shard_cheap_bf16_interpreter() { within llama3-gqa-tied 1 no_shard cheap precision.compute=bf16 $interpreter; }
test_llama_headdim_4_full_shard_cheap_fp16_unfused() { within llama-headdim 4 full_shard cheap precision.compute=fp16 $unfused; }

# Moments in bf16, rounded by chance.
test_llama2_1_full_shard_none_moments() { within llama2 1 full_shard none precision.moments=bf16; }
test_llama3_gqa_tied_4_full_shard_block_moments_interpreter() {
  within llama3-gqa-tied 4 full_shard block precision.moments=bf16 $interpreter
}
test_llama_headdim_2_no_shard_cheap_bf16_moments() {
  within llama-headdim 2 no_shard cheap precision.compute=bf16 precision.moments=bf16
}

# With all off the device that can be.
test_llama2_2_full_shard_block_bf16_offloaded() {
  within llama2 2 full_shard block precision.compute=bf16 "memory.offload=[moments,masters,gradients,inputs]"
}
test_llama3_gqa_tied_3_shard_opt_cheap_unfused_offloaded() {
  within llama3-gqa-tied 3 shard_opt cheap "memory.offload=[moments,gradients,inputs]" $unfused
}
test_llama_headdim_4_shard_grad_op_none_offloaded() { within llama-headdim 4 shard_grad_op none "memory.offload=[moments,gradients]"; }

# What is computed again, or in a kernel with other things, has the same bits.
test_neither_recomputation_nor_fusion_changes_a_bit() {
  local way key # by the users' compiler, too
  for way in precision.compute=fp32 "precision.compute=bf16 $users"; do
    for key in memory.recompute=none memory.recompute=cheap memory.recompute=block cpu.fuse=false; do
      expect_run 0 "$hpctrain" verify "$golden/llama2" "$golden/llama2/golden.safetensors" $way $key --dump "$key.${way:18:4}"
      expect_run 0 cmp memory.recompute=none."${way:18:4}" "$key.${way:18:4}"
    done
  done
}

# Other libraries for the matrix product, where they are.
with_library() {
  expect_run 0 verify llama2 1 "cpu.matmul=$1" && expect_out '^all within tolerance$' && return
  grep -q "no implementation can be used" err && echo "note   cpu.matmul=$1 was not tested: it is not here" >&2
}
test_onednn() { with_library onednn; }
test_cblas() { with_library cblas; }

# A dump is a reference: the same run differs from it in nothing, the interpreter in little.
test_what_is_dumped_is_read_again() {
  expect_run 0 "$hpctrain" verify "$golden/llama2" "$golden/llama2/golden.safetensors" --dump dump.safetensors
  expect_run 0 "$hpctrain" verify "$golden/llama2" dump.safetensors
  expect_equal "$(grep -c '^ok .* 0\.00e+00 of ' out)" "$(grep -c '^ok' out)"
  expect_run 0 "$hpctrain" verify "$golden/llama2" dump.safetensors cpu.compiler=none
  expect_out '^ok +logits +[1-9]'
}

# The comparison fires: with one weight changed, or a reference that is not a number, nothing is within tolerance.
# copy_with FILE NAME VALUE: a copy of llama2 in ./model in which the first number of a tensor is another one.
copy_with() {
  rm -rf model
  cp -r "$golden/llama2" model
  python3 - "$@" << 'END'
import json, struct, sys
path, name, value = sys.argv[1:]
data = bytearray(open(path, "rb").read())
head = struct.unpack("<Q", data[:8])[0]
tensor = json.loads(data[8 : 8 + head])[name]
number = struct.pack("<q", int(value)) if tensor["dtype"] == "I64" else struct.pack("<f", float(value))
at = 8 + head + tensor["data_offsets"][0]
data[at : at + len(number)] = number
open(path, "wb").write(data)
END
}
test_a_wrong_weight_is_seen() {
  copy_with model/model.safetensors model.layers.1.mlp.up_proj.weight 1.5
  expect_run 1 "$hpctrain" verify model "$golden/llama2/golden.safetensors"
  expect_out '^WRONG +logits '
}
test_a_nan_is_no_agreement() {
  copy_with model/golden.safetensors grad.model.norm.weight nan
  expect_run 1 "$hpctrain" verify model model/golden.safetensors
  expect_out '^WRONG +grad.model.norm.weight +nan '
}

# Published GPT-2 is of the model without a head, whose names have no prefix.
test_files_of_the_bare_model_are_read() {
  cp -r "$golden/gpt2" model
  LC_ALL=C sed -i -E 's/"transformer\.([^"]*)":/            "\1":/g' model/model.safetensors
  expect_run 0 "$hpctrain" verify model "$golden/gpt2/golden.safetensors" cpu.compiler=none
  expect_out '^all within tolerance$'
}

# A reference comes from elsewhere: ids that no row of the embedding has are refused, once for all ranks.
refused() {
  expect_run 2 mpi 2 "$hpctrain" verify model model/golden.safetensors "$@"
  expect_equal "$(grep -c '^error:' err)" 1
}
test_ids_beyond_the_vocabulary_are_refused() {
  local id
  for id in 320 -1 4294967296; do
    copy_with model/golden.safetensors input_ids $id
    refused
    expect_err "golden.safetensors: 'input_ids' has $id at 0, the model's vocabulary ends at 319\$"
  done
  copy_with model/golden.safetensors labels 320
  refused
  expect_err "golden.safetensors: 'labels' has 320 at 0"
  copy_with model/train.safetensors tokens 320
  refused --train model/train.json
  expect_err "train.safetensors: 'tokens' has 320 at 0"
}
test_keys_that_verify_does_not_look_at_are_refused() {
  copy_with model/golden.safetensors labels 3
  refused train.lr=1e-3
  expect_err "^error: 'train.lr' is of no use to verify"
}
test_a_folder_may_have_any_name() {
  cp -r "$golden/llama2" "it's {a} model"
  expect_run 0 "$hpctrain" verify "it's {a} model" "it's {a} model/golden.safetensors"
}

check_main "$@"
