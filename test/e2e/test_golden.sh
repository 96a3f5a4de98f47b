#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Logits, gradients and 20 training steps of the models in test/golden, on 1 to 4 ranks, with both strategies, with and
# without recomputation: a test a combination, all within the tolerances of hpctrain verify.
. "$(dirname "$0")/../check.sh"
golden=$srcdir/test/golden
export XDG_CACHE_HOME=${TMPDIR:-/tmp}/cache # kernels are compiled once for all of these tests

verify() {
  local model=$1 ranks=$2
  shift 2
  mpi "$ranks" "$hpctrain" verify "$golden/$model" "$golden/$model/golden.safetensors" --train "$golden/$model/train.json" "$@"
}

# within MODEL RANKS STRATEGY RECOMPUTE
within() {
  expect_run 0 verify "$1" "$2" "parallel.strategy=$3" "memory.recompute=$4"
  expect_out '^all within tolerance$'
  expect_out '^ok +logits '
  expect_out '^ok +grad\.model\.embed_tokens\.weight '
  expect_out '^ok +loss, worst of 20 steps '
}

for model in llama2 llama3-gqa-tied llama-headdim; do
  for ranks in 1 2 3 4; do
    for strategy in no_shard full_shard; do
      for recompute in none block; do
        eval "test_${model//-/_}_${ranks}_ranks_${strategy}_recompute_$recompute() { within $model $ranks $strategy $recompute; }"
      done
    done
  done
done

# The comparison fires: with one weight changed, or a reference that is not a number, nothing is within tolerance.
copy_with() {
  cp -r "$golden/llama2" model
  python3 - "$@" << 'END'
import json, struct, sys
path, name, value = sys.argv[1:]
data = bytearray(open(path, "rb").read())
head = struct.unpack("<Q", data[:8])[0]
at = 8 + head + json.loads(data[8 : 8 + head])[name]["data_offsets"][0]
data[at : at + 4] = struct.pack("<f", float(value))
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

check_main "$@"
